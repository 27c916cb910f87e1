"""Certificates clause by clause: each test makes one thing wrong, and everything around it right."""

import json
import os
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import dpmarket as dpm
from audit.test_certificate import IDS, SELLERS, certificate, costs, fitted, forge, model, outcome, verdicts
from dpmarket.audit import certify, certify_purchase, read_certificate, verify, write_certificate
from dpmarket.audit.certificate import NOT_PROMISED
from dpmarket.audit.commitments import Lines, commit, fresh_salts
from dpmarket.audit.purchase import Purchase, ReleasedModel
from dpmarket.audit.verifier import _loss, _node, _release, _root
from dpmarket.errors import EntropyUnavailable, FileProblem, InvalidInput, NotCertifiable

__all__ = ["certificate", "costs", "model", "outcome"]  # fixtures


def canonical(data):
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def with_body(certificate, part=None, **changes):
    body = json.loads(certificate.body)
    (body if part is None else body[part]).update(changes)
    return replace(certificate, body=canonical(body))


def purchase(outcome, model, **changes):
    whole = Purchase(
        outcome.mechanism, outcome.parameters, outcome.seller_ids, outcome.epsilons, outcome.payments, None,
        np.array(model.epsilons_), np.array(model.loss_weights_),
    )  # fmt: skip
    return replace(whole, **changes)


# --- what a certificate says ---


def test_the_body_says_what_was_released_and_what_is_not_promised(outcome, model, certificate):
    body = json.loads(certificate.body)
    released = {"coef_grid": model.coef_grid_.tolist(), "grid": model.grid_, "stretch": model.stretch_}
    assert body["model"] == released
    training = body["training"]
    assert training["classes"] == ["no", "yes"]
    assert (training["clip"], training["rows_per_person"], training["fit_intercept"]) == (False, 1, True)
    other = fitted(outcome, clip=True, rows_per_person=2, fit_intercept=False)
    training = json.loads(certify(outcome, other).body)["training"]
    assert (training["clip"], training["rows_per_person"], training["fit_intercept"]) == (True, 2, False)
    assert body["not_promised"] == list(NOT_PROMISED)
    assert any("cost" in line for line in NOT_PROMISED)
    assert body["versions"]["dpmarket"] == dpm.__version__
    assert set(body["versions"]) == {"dpmarket", "numpy", "python", "scipy"}


def test_withdrawn_sellers_are_counted(outcome, model):
    found = certify_purchase(purchase(outcome, model, withdrawn=3), ReleasedModel.of(model))
    assert json.loads(found.body)["totals"]["withdrawn"] == 3
    assert verify(found, openings=found.openings()).passed


def test_every_receipt_is_about_the_seller_it_is_for(certificate, outcome, model):
    for k, (seller, receipt) in enumerate(certificate.receipts()):
        line = json.loads(receipt)["line"]
        assert line["id"] == seller == IDS[k]
        assert receipt == certificate.receipt(seller)
        shown = [line[name] for name in ("promise", "payment", "spent", "weight")]
        columns = (outcome.epsilons, outcome.payments, model.epsilons_, model.loss_weights_)
        assert shown == [column[k] for column in columns]


# --- what is refused before ---


@pytest.mark.parametrize(
    "changes",
    [
        {"seller_ids": np.array(["same"] * SELLERS)},
        {"promises": -np.ones(SELLERS)},
        {"payments": np.full(SELLERS, np.nan)},
        {"spent": np.ones(SELLERS - 1)},
        {"weights": -np.ones(SELLERS)},
        {"withdrawn": -1},
        {"minor_units": 0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_purchase_that_cannot_be_is_refused(outcome, model, changes):
    with pytest.raises(InvalidInput):
        purchase(outcome, model, **changes)


def test_spent_epsilons_without_the_release_are_not_certified(outcome, model):
    free = dpm.privacy_loss(model.loss_weights_, model.total_epsilon_, model.l2_, model.row_bound_)
    certify_purchase(purchase(outcome, model), ReleasedModel.of(model))
    with pytest.raises(NotCertifiable, match="follow from"):
        certify_purchase(purchase(outcome, model, spent=free), ReleasedModel.of(model))


def test_lines_of_a_wrong_kind_are_refused_and_right_ones_cannot_be_changed(monkeypatch):
    values, salts = np.zeros((2, 4)), fresh_salts(2)
    for wrong in (
        lambda: Lines(np.array([1.0, 2.0]), values, salts),
        lambda: Lines(np.array([["a", "b"]]), values, salts),
        lambda: Lines(np.array(["a", "b"]), np.zeros((2, 3)), salts),
        lambda: Lines(np.array(["a", "b"]), values, salts[:-1]),
        lambda: commit(Lines(np.array(["a", "\ud800"]), values, salts)),
    ):
        with pytest.raises(InvalidInput):
            wrong()
    lines = Lines(np.array(["a", "b"]), values, salts)
    for array in (lines.values, lines.ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]

    def broken(count):
        raise OSError

    monkeypatch.setattr(os, "urandom", broken)
    with pytest.raises(EntropyUnavailable):
        fresh_salts(1)


def test_files_that_do_not_belong_together_are_refused(outcome, model, certificate, tmp_path):
    file, openings = tmp_path / "certificate.json", tmp_path / "openings.json"
    write_certificate(certificate, file, openings)
    whole, opened = file.read_bytes(), json.loads(openings.read_bytes())
    assert bytes(read_certificate(file, openings)) == whole
    for changes in ({"certificate": "0" * 64}, {"schema": "other/1"}):
        openings.write_bytes(canonical(opened | changes) + b"\n")
        with pytest.raises(FileProblem):
            read_certificate(file, openings)
    openings.write_bytes(canonical(opened) + b"\n")
    place = len(whole) - 40  # within the last commitment
    digit = b"0" if whole[place : place + 1] != b"0" else b"1"
    file.write_bytes(whole[:place] + digit + whole[place + 1 :])
    with pytest.raises(FileProblem):
        read_certificate(file, openings)


# --- what the verifier finds ---


def test_one_value_has_one_text(certificate):
    whole, body = bytes(certificate), json.loads(certificate.body)
    start = whole.index(b'"commitments"')
    assert verify(whole).passed
    assert not verify(whole[:start] + whole[start:].upper().replace(b"COMMITMENTS", b"commitments")).passed
    for text in (
        json.dumps(body, sort_keys=True, ensure_ascii=False).encode(),  # with spaces
        json.dumps(dict(reversed(body.items())), separators=(",", ":"), ensure_ascii=False).encode(),
        certificate.body.replace(b'"stretch":', b'"stretch":0'),
    ):
        assert verdicts(verify(replace(certificate, body=text)))["layout"] == "FAILS"
    not_a_number = json.dumps(
        body | {"training": body["training"] | {"l2": float("nan")}},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    assert verdicts(verify(replace(certificate, body=not_a_number.encode())))["layout"] == "FAILS"
    receipt = certificate.receipt(IDS[0])
    for changed in (receipt + b"\n", receipt + receipt, receipt[:-1], b" " + receipt):
        assert not verify(certificate, receipt=changed).passed


@pytest.mark.parametrize(
    ("part", "changes"),
    [(None, {"more": 1}), (None, {"schema": "dpmarket.certificate/2"}), ("totals", {"more": 1})],
)
def test_parts_that_the_verifier_does_not_know_are_refused(certificate, part, changes):
    assert verdicts(verify(with_body(certificate, part, **changes)))["layout"] == "FAILS"


@pytest.mark.parametrize(
    ("part", "changes", "check"),
    [
        ("training", {"rows_per_person": 0}, "public numbers"),
        ("totals", {"withdrawn": SELLERS + 1}, "public numbers"),
        ("totals", {"bought_from": -1}, "public numbers"),
        ("model", {"coef_grid": [1.0, 2.0, 3.0, 4.0]}, "public numbers"),
        ("training", {"classes": ["no", "yes", "maybe"]}, "public numbers"),
        ("totals", {"paid": -1.0}, "total spent"),
        ("totals", {"promised": 0.0}, "total spent"),
    ],
)
def test_single_public_numbers_that_cannot_be_are_found(certificate, part, changes, check):
    assert verdicts(verify(with_body(certificate, part, **changes)))[check] == "FAILS"


def reordered(certificate, order):
    """Return the file with its commitments in another order and the root that follows from them."""
    leaves = [certificate.tree.leaves[32 * k : 32 * k + 32] for k in order]
    level = b"".join(leaves)
    while len(level) > 32:
        level = b"".join(_node(level[k : k + 256]) for k in range(0, len(level), 256))
    body = json.loads(certificate.body) | {"root": _root(level, len(leaves))}
    rows = b",\n".join(b'"' + leaf.hex().encode() + b'"' for leaf in leaves)
    return b'{"body":' + canonical(body) + b',\n"commitments":[\n' + rows + b"]}\n"


def test_commitments_stand_in_the_one_order(certificate):
    right = list(range(SELLERS))
    assert verify(reordered(certificate, right)).passed
    for order in (right[::-1], [1, 0, *right[2:]], [0, 0, *right[2:]]):
        assert verdicts(verify(reordered(certificate, order)))["commitments"] == "FAILS"


def test_hashes_that_agree_in_eight_bytes_are_ordered_by_the_rest():
    from dpmarket.audit.commitments import _increasing

    rng = np.random.default_rng(0)
    leaves = rng.integers(0, 256, (50, 32), dtype=np.uint8)
    leaves[:, :8] = leaves[0, :8]
    ordered = leaves[_increasing(leaves)]
    assert [row.tobytes() for row in ordered] == sorted(row.tobytes() for row in leaves)


def test_a_receipt_leads_to_the_root_from_its_own_place_only(certificate):
    receipt = json.loads(certificate.receipt(IDS[7]))
    path, place = receipt["path"], receipt["position"]
    wrong = [
        {"position": place ^ 1}, {"position": -1}, {"position": SELLERS}, {"position": place + 8**9},
        {"path": path[:-1]}, {"path": [*path, path[0]]}, {"path": [*path, []]},
        {"path": [path[0][:-1], *path[1:]]},
        {"path": [[*path[0], path[0][0]], *path[1:]]}, {"path": [path[0][::-1], *path[1:]]},
    ]  # fmt: skip
    for changes in wrong:
        assert not verify(certificate, receipt=canonical(receipt | changes) + b"\n").passed, changes
    negative = receipt | {"line": receipt["line"] | {"payment": -1.0}}
    assert not verify(certificate, receipt=canonical(negative) + b"\n").passed


def test_the_release_costs_what_the_accounting_says(certificate, model):
    body = json.loads(certificate.body)
    for changes in ({}, {"row_bound": 3.0}, {"n_coefficients": 40}, {"total_epsilon": 500.0}, {"l2": 7.0}):
        training = body["training"] | changes
        with mpmath.workdps(50):
            found = float(_release(body | {"training": training}))
        names = ("n_coefficients", "total_epsilon", "l2", "row_bound", "weight_total")
        told = dpm.release_cost(model.release_plan_, *(training[name] for name in names))
        assert found == pytest.approx(told, rel=1e-9)


def test_what_was_spent_covers_the_release_and_the_promise_covers_what_was_spent(certificate, outcome):
    k = int(np.argmax(outcome.epsilons))
    spent, weight = certificate.lines.values[k, 2:]
    training = json.loads(certificate.body)["training"]
    with mpmath.workdps(50):
        bare = float(_loss(weight, training)) * (1 + 1e-15)
    assert bare < spent
    free = forge(certificate, IDS[k], spent=bare)
    assert verdicts(verify(free, receipt=free.receipt(IDS[k])))["receipt's spent epsilon"] == "FAILS"
    tight = forge(certificate, IDS[k], promise=spent)
    assert verdicts(verify(tight, receipt=tight.receipt(IDS[k])))["receipt's promise"] == "holds"
    over = forge(certificate, IDS[k], promise=np.nextafter(spent, 0.0))
    assert verdicts(verify(over, receipt=over.receipt(IDS[k])))["receipt's promise"] == "FAILS"
    more = with_body(certificate, "totals", promised=0.5 * outcome.epsilons[k])
    assert verdicts(verify(more, receipt=more.receipt(IDS[k])))["receipt's numbers"] == "FAILS"


def test_participation_is_judged_in_money_not_in_minor_units(outcome, model):
    found = certify(outcome, model, minor_units=100)
    k = int(np.argmax(outcome.epsilons))
    receipt = found.receipt(IDS[k])
    line = json.loads(receipt)["line"]
    worth = line["payment"] / 100 / line["promise"]
    for cost, verdict in ((0.999 * worth, "holds"), (1.001 * worth, "FAILS")):
        assert verdicts(verify(found, receipt=receipt, cost=cost))["participation"] == verdict


def test_openings_of_another_certificate_and_repeated_ids_are_found(certificate):
    opened = json.loads(certificate.openings())
    other = canonical(opened | {"certificate": "0" * 64}) + b"\n"
    assert verdicts(verify(certificate, openings=other))["openings' digest"] == "FAILS"
    ids = certificate.lines.ids.copy()
    ids[1] = ids[0]
    lines = Lines(ids, certificate.lines.values.copy(), certificate.lines.salts)
    tree = commit(lines)
    twice = replace(with_body(certificate, None, root=tree.root.hex()), lines=lines, tree=tree)
    assert verdicts(verify(twice, openings=twice.openings()))["ids"] == "FAILS"
