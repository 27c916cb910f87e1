"""Forgeries that are consistent in all else: each is found by the one check that is made for it."""

import hashlib
import json
import math
import struct
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmarket.certificates import verify, verify_payments
from dpmarket.certificates.commitments import ARITY, VALUES, Lines, Tree, commit
from dpmarket.certificates.verifier.certificate import _release
from dpmarket.privacy.release import ReleasePlan, release_cost
from support.certificates import IDS, SELLERS, canonical, certified, costs_of, failing, verdicts

PROMISE, PAYMENT, SPENT, WEIGHT = range(4)


@pytest.fixture(scope="module")
def certificate():
    return certified()


@pytest.fixture(scope="module")
def bought(certificate):
    """Place of a seller who was bought from."""
    return int(np.argmax(certificate.lines.values[:, PROMISE]))


def with_body(certificate, **changes):
    """Change parts of the body; digest and receipts follow."""
    body = json.loads(certificate.body)
    for name, change in changes.items():
        body[name] = body[name] | change if isinstance(change, dict) else change
    return replace(certificate, body=canonical(body))


def with_lines(certificate, values=None, ids=None):
    """Change lines; commitments, root, totals, digest, receipts and openings follow."""
    values = certificate.lines.values.copy() if values is None else values
    lines = Lines(certificate.lines.ids.copy() if ids is None else ids, values, certificate.lines.salts)
    tree = commit(lines)
    promised, paid, spent, _ = (math.fsum(column) for column in values.T)
    totals = {"promised": promised, "paid": paid, "spent": spent}
    totals["bought_from"] = int(np.count_nonzero(values[:, PROMISE]))
    return with_body(replace(certificate, lines=lines, tree=tree), root=tree.root.hex(), totals=totals)


def with_value(certificate, k, column, value):
    values = certificate.lines.values.copy()
    values[k, column] = value
    return with_lines(certificate, values)


def tree_of(leaves):
    """Return the tree over commitments as they are given, sorted or not."""
    levels = [b"".join(leaves)]
    while len(levels[-1]) > 32:
        below = levels[-1]
        groups = (below[k : k + 32 * ARITY] for k in range(0, len(below), 32 * ARITY))
        levels.append(b"".join(hashlib.sha256(b"dpmarket-node-1" + group).digest() for group in groups))
    return Tree(tuple(levels), np.arange(len(leaves)))


def with_leaves(certificate, leaves):
    """Put other commitments into the file; root and digest follow."""
    tree = tree_of(leaves)
    return with_body(replace(certificate, tree=tree), root=tree.root.hex())


def leaves_of(certificate):
    leaves = certificate.tree.leaves
    return [leaves[k : k + 32] for k in range(0, len(leaves), 32)]


def rewritten(file, **changes):
    """Change parts of a receipt or of openings, written in the one canonical way."""
    return canonical(json.loads(file) | changes) + b"\n"


# --- one text for every value ---


def test_hashes_in_capitals_are_not_the_one_canonical_way(certificate):
    first, rest = bytes(certificate).split(b",\n", 1)
    opening = b'"commitments":[\n'
    capitals = first + b",\n" + opening + rest.removeprefix(opening).upper()
    assert len(capitals) == len(bytes(certificate))
    assert failing(verify(capitals)) == {"layout"}


OTHER_TEXTS = {
    "a space": lambda text: text.replace(b":", b": ", 1),
    "a zero before a number": lambda text: text.replace(b'"position":', b'"position":0'),
    "escaped letters": lambda text: text.replace("ë".encode(), b"\\u00eb"),
    "another order": lambda text: (
        json.dumps(
            dict(reversed(json.loads(text).items())), separators=(",", ":"), ensure_ascii=False
        ).encode()
        + b"\n"
    ),
    "another end": lambda text: text[:-1] + b" ",
    "no end": lambda text: text[:-1],
    "an empty line": lambda text: text + b"\n",
    "a part twice": lambda text: text.replace(b'{"certificate"', b'{"position":0,"certificate"', 1),
}


@pytest.mark.parametrize("change", OTHER_TEXTS.values(), ids=OTHER_TEXTS)
def test_another_text_of_the_same_receipt_is_refused(certificate, change):
    receipt = certificate.receipt("sëller 7")
    assert verify(certificate, receipt=receipt).passed
    assert "layout" in failing(verify(certificate, receipt=change(receipt)))


def test_parts_that_nobody_knows_and_other_kinds_of_files_are_refused(certificate):
    more = with_body(certificate, more="words")
    assert failing(verify(more)) == {"layout"}
    other = with_body(certificate, schema="dpmarket.certificate/2")
    assert failing(verify(other)) == {"layout"}
    receipt, openings = certificate.receipt("sëller 7"), certificate.openings()
    for changes in ({"more": 1}, {"schema": "dpmarket.receipt/2"}):
        assert failing(verify(certificate, receipt=rewritten(receipt, **changes))) == {"layout"}
    for changes in ({"more": 1}, {"schema": "dpmarket.openings/2"}):
        assert failing(verify(certificate, openings=rewritten(openings, **changes))) == {"layout"}


# --- the tree ---


def test_commitments_out_of_order_or_repeated_are_found(certificate):
    leaves = leaves_of(certificate)
    assert verify(with_leaves(certificate, leaves)).passed
    swapped = [*leaves[:4], leaves[5], leaves[4], *leaves[6:]]
    assert failing(verify(with_leaves(certificate, swapped))) == {"commitments"}
    repeated = [*leaves[:4], leaves[5], *leaves[5:]]
    assert failing(verify(with_leaves(certificate, repeated))) == {"commitments"}


def test_commitments_that_begin_alike_are_ordered_by_all_their_bytes(certificate):
    leaves = leaves_of(certificate)
    small, large = (leaves[5][:8] + bytes([k]) * 24 for k in (1, 2))
    assert verify(with_leaves(certificate, [*leaves[:5], small, large, *leaves[7:]])).passed
    turned = with_leaves(certificate, [*leaves[:5], large, small, *leaves[7:]])
    assert failing(verify(turned)) == {"commitments"}


def test_a_position_has_one_number():
    """In a tree of full groups a place before the first leads along the same path."""
    full = certified(sellers=8)
    receipt = full.receipt("sëller 3")
    position = json.loads(receipt)["position"]
    assert verify(full, receipt=receipt).passed
    for other in (position - 8, position + 8, (position + 1) % 8):
        assert failing(verify(full, receipt=rewritten(receipt, position=other))) == {"receipt's line"}


def told_a_number(certificate, leaves, told):
    """Return a certificate that claims so many sellers over a tree of these, and its first receipt."""
    group = hashlib.sha256(b"dpmarket-node-1" + b"".join(leaves)).digest()
    root = hashlib.sha256(b"dpmarket-root-1" + told.to_bytes(8, "big") + group).hexdigest()
    forged = with_body(certificate, root=root, totals={"sellers": told, "bought_from": 1})
    k = int(np.flatnonzero(certificate.tree.positions == 0)[0])
    receipt = json.loads(certificate.receipt(IDS[k].item()))
    path = [[leaf.hex() for leaf in leaves[1:]]]
    return forged, canonical(receipt | {"certificate": forged.digest, "path": path}) + b"\n"


@pytest.mark.parametrize("told", [5, 9])
def test_a_path_of_another_tree_than_one_of_so_many_sellers_is_found(certificate, told):
    """More sellers in a group than there are said to be, and a path too short for so many."""
    leaves = leaves_of(certificate)[:8]
    honest, receipt = told_a_number(certificate, leaves, 8)
    assert verdicts(verify(honest, receipt=receipt))["receipt's line"] == "holds"
    forged, receipt = told_a_number(certificate, leaves, told)
    assert "receipt's line" in failing(verify(forged, receipt=receipt))


# --- a line's numbers ---


def test_a_payment_below_nothing_is_found(certificate, bought):
    forged = with_value(certificate, bought, PAYMENT, -1.0)
    assert not verify(forged, receipt=forged.receipt(IDS[bought].item())).passed
    assert not verify(forged, openings=forged.openings()).passed


def test_a_spent_epsilon_a_thousandth_too_small_is_found(certificate, bought):
    low = with_value(certificate, bought, SPENT, 0.999 * certificate.lines.values[bought, SPENT])
    assert failing(verify(low, receipt=low.receipt(IDS[bought].item()))) == {"receipt's spent epsilon"}
    assert failing(verify(low, openings=low.openings())) == {"spent epsilons"}


def test_what_releasing_costs_is_part_of_what_is_spent(certificate, bought):
    release = json.loads(certificate.body)["training"]["numerical_epsilon"]
    spent = certificate.lines.values[bought, SPENT]
    low = with_value(certificate, bought, SPENT, spent - 0.9 * release)
    assert failing(verify(low, receipt=low.receipt(IDS[bought].item()))) == {"receipt's spent epsilon"}
    assert failing(verify(low, openings=low.openings())) == {"spent epsilons"}


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("totals", {"promised": 1e-9, "spent": 1e-9}),
        ("totals", {"paid": 1e-9}),
        ("totals", {"spent": 1e-9}),
        ("training", {"weight_total": 1e-9}),
    ],
)
def test_a_receipt_with_more_than_the_total_is_found(certificate, bought, part, changes):
    forged = with_body(certificate, **{part: changes})
    result = verify(forged, receipt=forged.receipt(IDS[bought].item()))
    assert verdicts(result)["receipt's numbers"] == "FAILS"


def test_participation_is_judged_in_money_also_where_payments_are_in_minor_units(bought):
    certificate = certified(minor_units=100)
    promise, payment = certificate.lines.values[bought, :2].tolist()
    worth = payment / 100 / promise
    receipt = certificate.receipt(IDS[bought].item())
    assert verdicts(verify(certificate, receipt=receipt, cost=0.9999 * worth))["participation"] == "holds"
    assert verdicts(verify(certificate, receipt=receipt, cost=1.0001 * worth))["participation"] == "FAILS"


# --- openings ---


def test_openings_name_their_certificate(certificate):
    other = rewritten(certificate.openings(), certificate="0" * 64)
    assert failing(verify(certificate, openings=other)) == {"openings' digest"}


def test_a_seller_who_is_there_twice_is_found(certificate):
    ids = IDS.copy()
    ids[5] = ids[6]
    forged = with_lines(certificate, ids=ids)
    assert failing(verify(forged, openings=forged.openings())) == {"ids"}


def test_the_number_one_and_the_text_one_may_both_be_sellers(certificate):
    opened = json.loads(certificate.openings())
    opened["id"][:2] = [1, "1"]
    leaves = []
    for k, name in enumerate(opened["id"]):
        numbers = struct.pack(">4d", *(opened[value][k] for value in VALUES))
        kind = b"n1" if name == 1 else b"t" + name.encode()
        salted = bytes.fromhex(opened["salt"][k]) + numbers + kind
        leaves.append(hashlib.sha256(b"dpmarket-line-1" + salted).digest())
    forged = with_leaves(certificate, sorted(leaves))
    openings = canonical(opened | {"certificate": forged.digest}) + b"\n"
    assert verify(forged, openings=openings).passed


@pytest.mark.parametrize("column", ["id", *VALUES])
def test_openings_with_a_value_of_another_type_are_refused(certificate, column):
    opened = json.loads(certificate.openings())
    opened[column][0] = True
    assert failing(verify(certificate, openings=canonical(opened) + b"\n")) == {"layout"}


@pytest.mark.parametrize(
    "changes", [{"paid": 1e6}, {"promised": 1e6}, {"bought_from": SELLERS}, {"bought_from": 0}], ids=str
)
def test_totals_that_are_not_those_of_the_lines_are_found_with_the_openings(certificate, changes):
    forged = with_body(certificate, totals=changes)
    assert verify(forged).passed
    assert failing(verify(forged, openings=forged.openings())) == {"totals"}


def test_weights_that_add_up_to_more_than_stated_are_found(certificate):
    """The stated total also bounds what releasing costs, so that less is never charged for more."""
    total = json.loads(certificate.body)["training"]["weight_total"]
    assert total == pytest.approx(math.fsum(certificate.lines.values[:, WEIGHT]), rel=1e-8)
    forged = with_body(certificate, training={"weight_total": 0.99 * total})
    assert failing(verify(forged, openings=forged.openings())) == {"weights"}


# --- public numbers ---


@pytest.mark.parametrize(
    ("part", "changes", "check"),
    [
        ("training", {"rows_per_person": 0}, "public numbers"),
        ("training", {"classes": ["no", "yes", "perhaps"]}, "public numbers"),
        ("training", {"classes": ["no"]}, "public numbers"),
        ("training", {"l2": 0.0}, "layout"),
        ("training", {"noise_accuracy": -1e-30}, "public numbers"),
        ("model", {"coef_grid": [1, 2, 3, True]}, "public numbers"),
        ("model", {"coef_grid": [1, 2, 3, 4.0]}, "public numbers"),
        ("totals", {"withdrawn": SELLERS + 1}, "public numbers"),
        ("totals", {"bought_from": -1}, "public numbers"),
        ("totals", {"paid": -1.0}, "total spent"),
        ("totals", {"spent": -1.0}, "total spent"),
    ],
)
def test_a_public_number_out_of_its_range_is_found(certificate, part, changes, check):
    assert failing(verify(with_body(certificate, **{part: changes}))) == {check}


@settings(max_examples=100)
@given(
    n=st.integers(1, 60),
    eta=st.floats(1e-2, 1e4),
    l2=st.floats(1e-4, 1e2),
    bound=st.floats(1.0, 3.0),
    total=st.floats(0.5, 2.0),
    share=st.floats(1e-12, 0.99),
)
def test_the_verifiers_cost_of_releasing_equals_the_accounting(n, eta, l2, bound, total, share):
    grid = 2.0**-4
    accuracy = share * grid / 2.0 * l2
    plan = ReleasePlan(grid, 0.75 * accuracy, 0.25 * accuracy, 0.0)
    training = {
        "l2": l2,
        "n_coefficients": n,
        "row_bound": bound,
        "weight_total": total,
        "total_epsilon": eta,
        "gradient_bound": plan.gradient_bound,
        "noise_accuracy": plan.noise_accuracy,
    }
    with mpmath.workdps(50):
        found = float(_release({"training": training, "model": {"grid": grid}}))
    ours = release_cost(plan, n, eta, l2, bound, total)
    assert found <= ours
    assert ours == pytest.approx(found, rel=1e-9)


# --- payments, with the reports disclosed ---


@pytest.fixture(scope="module")
def reports():
    return dict(zip(IDS.tolist(), costs_of().tolist(), strict=True))


def test_certificates_that_fail_otherwise_are_not_looked_at_further(certificate, reports):
    forged = with_body(certificate, totals={"paid": 1e6})
    result = verify_payments(forged, forged.openings(), reports)
    assert failing(result) == {"totals"}
    assert "payments" not in verdicts(result)


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_payments_too_small_or_too_large_are_found_however_few_are_asked_for(certificate, reports, factor):
    values = certificate.lines.values.copy()
    values[:, PAYMENT] *= factor
    forged = with_lines(certificate, values)
    assert failing(verify_payments(forged, forged.openings(), reports, payments_checked=0)) == {"payments"}


def test_payments_are_rounded_up_by_less_than_one_minor_unit(reports):
    certificate = certified(minor_units=100)
    values = certificate.lines.values.copy()
    values[values[:, PROMISE] > 0.0, PAYMENT] += 1.0
    forged = with_lines(certificate, values)
    assert not failing(verify_payments(certificate, certificate.openings(), reports, 1))
    assert failing(verify_payments(forged, forged.openings(), reports, 1)) == {"payments"}


@pytest.mark.parametrize("changes", [{"mechanism": "online"}, {"totals": {"withdrawn": 1}}], ids=str)
def test_payments_of_another_mechanism_or_after_withdrawals_are_said_not_to_be_checked(
    certificate, reports, changes
):
    other = with_body(certificate, **changes)
    result = verify_payments(other, other.openings(), reports, 1)
    assert verdicts(result)["payments"] == "not made"
    assert "allocation" not in verdicts(result)
