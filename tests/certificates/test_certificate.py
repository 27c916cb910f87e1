"""Certificates and receipts: what is certified holds, what does not hold is not certified or is found."""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dpmarket.certificates.verifier.losses import loss_up, losses
from hypothesis import given, settings
from hypothesis import strategies as st

import dpmarket as dpm
from dpmarket.certificates import (
    certify,
    new_signing_key,
    read_certificate,
    read_signature,
    sign,
    verify,
    write_certificate,
)
from dpmarket.certificates.verifier.rounding import log1p_up, sqrt_down, sqrt_up
from dpmarket.errors import FileProblem, InvalidInput, NotCertifiable
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.privacy import logistic_loss
from dpmarket.privacy.charge import Accounting, bounds_of
from support.certificates import DIST, IDS, OBJECTIVE, RULES, SELLERS, constants, costs_of, verdicts
from support.forging import Papers

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`


def data(sellers=SELLERS):
    rng = np.random.default_rng(5)
    x = rng.uniform(-0.5, 0.5, size=(sellers, 3))
    return x, np.where(x[:, 0] > 0.0, "yes", "no")


@pytest.fixture(scope="module")
def costs():
    return costs_of()


@pytest.fixture(scope="module")
def outcome(costs):
    return OfflineMechanism(DIST, OBJECTIVE).run(costs)


def fitted(outcome, **changes):
    model = dpm.PrivateLogisticRegression(**({"classes": ("no", "yes")} | changes))
    return model.fit(*data(len(outcome.epsilons)), epsilons=outcome.epsilons)


@pytest.fixture(scope="module")
def model(outcome):
    return fitted(outcome)


@pytest.fixture(scope="module")
def certificate(outcome, model):
    return certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)])


def test_a_payment_below_the_holders_own_cost_is_found(certificate, outcome):
    k = int(np.argmax(outcome.epsilons))
    too_high = 1.0001 * outcome.payments[k] / outcome.epsilons[k]
    result = verify(certificate, receipt=certificate.receipt(IDS[k]), cost=too_high)
    assert verdicts(result)["participation"] == "FAILS"
    assert not result.passed


def test_a_receipt_is_checked_from_the_first_line_alone(certificate, tmp_path):
    path = tmp_path / "certificate.json"
    first = bytes(certificate).split(b"\n")[0] + b"\n"
    path.write_bytes(first)  # nothing else can be read
    result = verify(path, receipt=certificate.receipt("sëller 7"))
    assert result.passed
    assert verdicts(result)["receipt's line"] == "holds"
    assert verdicts(result)["commitments"] == "not made"


# --- every changed byte is found ---


@settings(max_examples=300)
@given(place=st.integers(0, 10**9), byte=st.integers(1, 255))
def test_any_changed_byte_of_the_certificate_is_found(certificate, place, byte):
    changed = bytearray(bytes(certificate))
    changed[place % len(changed)] ^= byte
    assert not verify(bytes(changed), digest=certificate.digest).passed


@settings(max_examples=300)
@given(place=st.integers(0, 10**9), byte=st.integers(1, 255))
def test_any_changed_byte_of_a_receipt_is_found(certificate, place, byte):
    changed = bytearray(certificate.receipt("sëller 7"))
    changed[place % len(changed)] ^= byte
    assert not verify(certificate, receipt=bytes(changed)).passed


@settings(max_examples=100)
@given(place=st.integers(0, 10**9), other=st.binary(min_size=0, max_size=3), length=st.integers(0, 3))
def test_any_edit_of_the_openings_is_found(certificate, place, other, length):
    whole = certificate.openings()
    place %= len(whole)
    changed = whole[:place] + other + whole[place + length :]
    if changed != whole:
        assert not verify(certificate, openings=changed).passed


@settings(max_examples=100)
@given(
    place=st.integers(0, 10**9),
    other=st.binary(min_size=0, max_size=4),
    length=st.integers(0, 4),
)
def test_inserting_or_cutting_is_found(certificate, place, other, length):
    whole = bytes(certificate)
    place %= len(whole)
    changed = whole[:place] + other + whole[place + length :]
    if changed != whole:
        assert not verify(changed, digest=certificate.digest).passed


def forge(certificate, seller, **line_changes):
    """Change one line and recompute everything that follows from it: commitment, root, digest, receipt."""
    papers = Papers.of(bytes(certificate), certificate.openings())
    return papers.with_lines(lambda lines: lines[place_of(seller)].update(line_changes))


def place_of(seller):
    return int(np.flatnonzero(seller == IDS)[0])


@pytest.mark.parametrize("name", ["promise", "payment", "spent", "weight"])
def test_a_line_changed_with_all_inner_digests_recomputed_is_found_by_every_receipt(certificate, name):
    forged = forge(certificate, "sëller 3", **{name: 0.0123}).certificate
    for seller in ("sëller 3", "sëller 20"):
        result = verify(forged, receipt=certificate.receipt(seller))
        assert verdicts(result)["receipt's digest"] == "FAILS"
        assert verdicts(result)["receipt's line"] == "FAILS"
    assert not verify(forged, openings=certificate.openings()).passed


def test_lies_that_are_consistent_are_found_by_recomputing_the_epsilon(certificate, outcome):
    k = int(np.argmax(outcome.epsilons))
    spent, weight = certificate.lines.values[k, 2:].tolist()
    for changes in ({"spent": 0.95 * spent}, {"weight": 1.05 * weight}):
        forged = forge(certificate, IDS[k], **changes)
        found = verify(forged.certificate, receipt=forged.receipt(k))
        assert verdicts(found)["receipt's spent epsilon"] == "FAILS"
        assert verdicts(verify(forged.certificate, openings=forged.openings))["spent epsilons"] == "FAILS"


def rewritten(receipt, **changes):
    data = json.loads(receipt)
    for name, value in changes.items():
        (data["line"] if name in data["line"] else data)[name] = value
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def test_a_salt_has_exactly_one_text_so_that_a_commitment_opens_as_one_line_only(certificate):
    """White space in hexadecimal digits is skipped by Python: a shorter salt would shift every field."""
    receipt = certificate.receipt("sëller 7")
    salt = json.loads(receipt)["salt"]
    path = json.loads(receipt)["path"]
    for other in (salt[:62] + "  ", " " + salt[1:], salt.upper(), salt + " ", salt[:-2], 7, None):
        assert not verify(certificate, receipt=rewritten(receipt, salt=other)).passed, other
    spaced = [[path[0][0][:2] + " " + path[0][0][2:], *path[0][1:]], *path[1:]]
    for other in (spaced, [[path[0][0].upper(), *path[0][1:]], *path[1:]], path[:-1], [], None, [None]):
        assert not verify(certificate, receipt=rewritten(receipt, path=other)).passed, other


@pytest.mark.parametrize(
    "changes",
    [
        {"position": True},
        {"position": 0.0},
        {"line": []},
        {"line": {}},
        {"payment": 1},
        {"payment": " 1.0 "},
        {"id": None},
    ],
    ids=str,
)
def test_parts_of_another_type_are_refused_without_a_traceback(certificate, changes):
    assert not verify(certificate, receipt=rewritten(certificate.receipt("sëller 7"), **changes)).passed


def test_a_receipt_shows_what_it_speaks_of(certificate):
    result = verify(certificate, receipt=certificate.receipt("sëller 7"))
    line = next(check.detail for check in result.checks if check.name == "receipt's line")
    promise, payment = certificate.lines.values[7, :2].tolist()
    assert f"id 'sëller 7', promise {promise!r}, payment {payment!r}" in line


def test_a_certificate_cut_to_its_first_line_is_not_whole(certificate):
    first = bytes(certificate).split(b"\n")[0] + b"\n"
    assert not verify(first, digest=certificate.digest).passed


# --- the recomputed privacy loss ---


@settings(max_examples=150)
@given(
    weight=st.floats(1e-9, 1.0),
    eta=st.floats(1e-9, 1e12),
    l2=st.floats(1e-15, 1e9),
    rows=st.sampled_from([1, 2, 3, 5, 1000, 10**6]),
    bound=st.sampled_from([1.0, 2.0**0.5, 1e3, 1e6]),
)
def test_the_verifiers_privacy_loss_is_exact_never_below_and_within_the_accounting(
    weight, eta, l2, rows, bound
):
    release = constants(noise_rate=eta, l2=l2, row_bound=bound, rows_per_person=rows)
    told = loss_up(weight, release)
    with mpmath.workdps(120):
        # The formula itself, maximised by halving an interval: its bracket is concave.
        a, l2_, bound_ = mpmath.mpf(weight), mpmath.mpf(l2), mpmath.mpf(bound)
        half, share = a * mpmath.mpf(eta) * bound_ / 2, a * bound_**2 / (rows * l2_)

        def slope(s):
            return half + rows * share * (1 - 2 * s) / (1 + share * s * (1 - s))

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(400):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        exact = half + half * high + rows * mpmath.log1p(share * high * (1 - high))
        assert exact <= mpmath.mpf(told.numerator) / told.denominator * (1 + mpmath.mpf(10) ** -100)
        assert mpmath.mpf(told.numerator) / told.denominator <= exact * (1 + mpmath.mpf(10) ** -40)
    assert losses(np.array([weight]), release)[0] == pytest.approx(float(exact), rel=1e-12)
    if exact < 1e90:
        terms = bounds_of(logistic_loss().terms, 1, rows, 10**7)
        ours = float(Accounting(1.0, bound, bound, l2, terms).epsilons(np.array([weight]), eta)[0])
        assert Fraction(ours) >= told
        assert ours <= float(exact) * (1 + 1e-13)


@given(x=st.one_of(st.floats(0.0, 1e-3), st.floats(0.0, 1e3), st.floats(0.0, 1e300)))
def test_the_verifiers_logarithm_and_root_are_rounded_up_by_next_to_nothing(x):
    with mpmath.workdps(400):
        for found, exact in (
            (log1p_up(Fraction(x)), mpmath.log1p(x)),
            (sqrt_up(Fraction(x)), mpmath.sqrt(x)),
        ):
            told = mpmath.mpf(found.numerator) / found.denominator
            assert exact <= told <= exact * (1 + mpmath.mpf(2) ** -150) + mpmath.mpf(2) ** -180
        down = sqrt_down(Fraction(x))
        assert mpmath.mpf(down.numerator) / down.denominator <= mpmath.sqrt(x)


# --- no certificate without a promise ---


def test_seeded_noise_gets_no_certificate(outcome):
    with pytest.raises(NotCertifiable, match="seed"):
        certify(
            outcome,
            fitted(outcome, noise_source=dpm.privacy.SeededNoise(1)),
            RULES,
            seller_ids=IDS[: len(outcome.epsilons)],
        )


def test_undeclared_classes_get_no_certificate(outcome):
    with pytest.raises(NotCertifiable, match="classes"):
        certify(outcome, fitted(outcome, classes=None), RULES, seller_ids=IDS[: len(outcome.epsilons)])


def test_an_exceeded_promise_gets_no_certificate(outcome, model):
    smaller = np.array(outcome.epsilons)
    smaller[int(np.argmax(smaller))] *= 0.9
    with pytest.raises(NotCertifiable, match="1 sellers"):
        certify(replace(outcome, epsilons=smaller), model, RULES, seller_ids=IDS[: len(outcome.epsilons)])


def test_a_promise_that_was_spent_before_gets_no_certificate(outcome, model):
    seller = IDS[int(np.argmax(outcome.epsilons))].item()
    certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)], already_spent={seller: 0.0})
    with pytest.raises(NotCertifiable, match="1 sellers"):
        certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)], already_spent={seller: 1e-3})
    with pytest.raises(InvalidInput):
        certify(
            outcome,
            model,
            RULES,
            seller_ids=IDS[: len(outcome.epsilons)],
            already_spent={seller: float("nan")},
        )


def test_other_things_than_an_outcome_and_a_fitted_model_get_no_certificate(outcome, model):
    for thing in ({}, None, outcome.to_dict()):
        with pytest.raises(NotCertifiable):
            certify(thing, model, RULES, seller_ids=IDS[: len(outcome.epsilons)])
    for thing in (None, dpm.PrivateLogisticRegression(classes=("no", "yes"))):
        with pytest.raises(NotCertifiable):
            certify(outcome, thing, RULES, seller_ids=IDS[: len(outcome.epsilons)])


def test_a_model_of_other_sellers_gets_no_certificate(outcome):
    x, y = data()
    with pytest.raises(NotCertifiable, match="trained with"):
        certify(
            outcome,
            dpm.PrivateLogisticRegression(epsilon=1.0, classes=("no", "yes")).fit(x[:5], y[:5]),
            RULES,
            seller_ids=IDS[: len(outcome.epsilons)],
        )
    people = [f"stranger {k}" for k in range(SELLERS)]
    promises = dict(zip(people, outcome.epsilons.tolist(), strict=True))
    model = dpm.PrivateLogisticRegression(classes=("no", "yes")).fit(x, y, epsilons=promises, people=people)
    with pytest.raises(NotCertifiable, match="some are not"):
        certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)])


def test_weights_that_were_not_charged_get_no_certificate(outcome):
    model = fitted(outcome)
    model.loss_weights_ = model.loss_weights_ * 1.1
    with pytest.raises(NotCertifiable, match="follow from"):
        certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)])


def test_sellers_without_a_record_have_spent_nothing(outcome):
    x, y = data()
    there = np.arange(0, SELLERS, 2)
    names = IDS[there].tolist()
    promises = dict(zip(names, outcome.epsilons[there].tolist(), strict=True))
    model = dpm.PrivateLogisticRegression(classes=("no", "yes"))
    certificate = certify(
        outcome,
        model.fit(x[there], y[there], epsilons=promises, people=names),
        RULES,
        seller_ids=IDS[: len(outcome.epsilons)],
    )
    assert certificate.lines.values[1::2, 2].tolist() == [0.0] * (SELLERS // 2)
    assert verify(certificate, openings=certificate.openings()).passed


# --- what can be learnt from the certificate ---


def test_a_dictionary_of_all_lines_opens_no_commitment(certificate):
    public = bytes(certificate)
    text = public.decode()
    assert not any(name in text for name in IDS.tolist())
    leaves = {public[k : k + 64] for k in range(public.index(b'[\n"') + 3, len(public), 68)}
    assert len(leaves) >= SELLERS
    for values, name in zip(certificate.lines.values, IDS.tolist(), strict=True):
        packed = struct.pack(">4d", *values)
        for salt in (b"", bytes(32), hashlib.sha256(name.encode()).digest(), certificate.body[:32]):
            text_id = b"k\0\0\0\1t" + name.encode()
            guess = hashlib.sha256(b"dpmarket-line-2" + salt + packed + text_id).hexdigest()
            assert guess.encode() not in leaves
        assert float(values[0]) == 0.0 or repr(float(values[0])) not in text
    # The true salt does open it: the guesses above were of the right form.
    k = 3
    opened = hashlib.sha256(
        b"dpmarket-line-2"
        + certificate.lines.salts[32 * k : 32 * (k + 1)]
        + struct.pack(">4d", *certificate.lines.values[k])
        + b"k\0\0\0\1t"
        + IDS[k].encode()
    )
    assert opened.hexdigest().encode() in leaves


def test_salts_are_new_for_every_certificate_and_order_says_nothing(outcome, model):
    one, two = (
        certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)]),
        certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)]),
    )
    assert one.digest != two.digest
    assert (
        len({one.lines.salt(k) for k in range(SELLERS)} | {two.lines.salt(k) for k in range(SELLERS)}) == 74
    )
    assert one.tree.positions.tolist() != two.tree.positions.tolist()


def test_the_number_one_and_the_text_one_are_different_sellers(outcome):
    numbers = certify(outcome, fitted(outcome), RULES)
    line = json.loads(numbers.receipt(1))
    line["line"]["id"] = "1"
    text = json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    assert not verify(numbers, receipt=text).passed
    assert verify(numbers, receipt=numbers.receipt(1)).passed


# --- files, signatures, the verifier alone ---


def test_files_are_read_back_and_must_belong_together(certificate, outcome, model, tmp_path):
    target, opened = tmp_path / "certificate.json", tmp_path / "openings.json"
    write_certificate(certificate, target, opened)
    again = read_certificate(target, opened)
    assert bytes(again) == bytes(certificate) == target.read_bytes()
    assert again.receipt("sëller 5") == certificate.receipt("sëller 5")
    json.loads(target.read_bytes())  # the file is JSON
    assert opened.stat().st_mode & 0o077 == 0  # the openings are for their owner's eyes
    for overwrite in (False, True):
        with pytest.raises(FileProblem, match="exists"):
            write_certificate(
                certificate, target, opened, overwrite=overwrite
            )  # openings are never overwritten
    with pytest.raises(InvalidInput, match="two files"):
        write_certificate(certificate, tmp_path / "same", tmp_path / "same")
    with pytest.raises(InvalidInput, match="stream"):
        write_certificate(certificate, target, "-")
    write_certificate(
        certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)]),
        tmp_path / "other.json",
        tmp_path / "other-openings.json",
    )
    with pytest.raises(FileProblem, match="belong"):
        read_certificate(target, tmp_path / "other-openings.json")
    with pytest.raises(FileProblem, match="expected"):
        read_certificate(opened, target)
    with pytest.raises(InvalidInput, match="no such seller"):
        certificate.receipt("nobody")


def test_a_signature_holds_for_its_key_and_its_certificate_only(certificate, outcome, model, tmp_path):
    key = tmp_path / "key.pem"
    public = new_signing_key(key)
    assert os.stat(key).st_mode & 0o077 == 0
    with pytest.raises(FileProblem, match="exists"):
        new_signing_key(key)
    signature, named = read_signature(sign(certificate, key))
    assert named.hex() == public
    good = verify(certificate, signature=signature, public_key=named)
    assert verdicts(good)["signature"] == "holds"
    another = bytes.fromhex(new_signing_key(tmp_path / "another.pem"))
    for case in (
        verify(
            certify(outcome, model, RULES, seller_ids=IDS[: len(outcome.epsilons)]),
            signature=signature,
            public_key=named,
        ),
        verify(certificate, signature=signature, public_key=another),
        verify(certificate, signature=bytes([signature[0] ^ 1]) + signature[1:], public_key=named),
        verify(certificate, signature=b"short", public_key=named),
    ):
        assert verdicts(case)["signature"] == "FAILS"
    (tmp_path / "text.pem").write_text("no key")
    with pytest.raises(FileProblem, match="Ed25519"):
        sign(certificate, tmp_path / "text.pem")
    with pytest.raises(InvalidInput):
        read_signature(b"{}")


def test_the_verifier_runs_alone_without_the_package(certificate, tmp_path, costs):
    import dpmarket.certificates.verifier as package

    shutil.copytree(package.__path__[0], tmp_path / "copied")
    (tmp_path / "certificate.json").write_bytes(bytes(certificate))
    (tmp_path / "receipt.json").write_bytes(certificate.receipt("sëller 2"))
    (tmp_path / "openings.json").write_bytes(certificate.openings())
    blocked = "import sys; sys.modules['dpmarket'] = None; sys.path.insert(0, '.'); import runpy; "
    blocked += "runpy.run_module('copied', run_name='__main__', alter_sys=True)"
    base = [sys.executable, "-I", "-c", blocked, "certificate.json", "--receipt", "receipt.json"]
    run = subprocess.run(
        [*base, "--cost", repr(float(costs[2])), "--openings", "openings.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "receipt's line: is in the certificate" in run.stdout
    (tmp_path / "receipt.json").write_bytes(certificate.receipt("sëller 2")[:-2] + b"]\n")
    run = subprocess.run(base, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert "FAILS" in run.stdout


@pytest.mark.parametrize(
    "rubbish", [b"", b"{}", b"\xff\xfe", b'{"body":1,\n', b'{"body":{},\n"commitments":[\n""]}\n']
)
def test_rubbish_is_called_rubbish_without_a_traceback(certificate, rubbish):
    assert not verify(rubbish).passed
    assert not verify(certificate, receipt=rubbish).passed
    assert not verify(certificate, openings=rubbish).passed


def test_a_certificate_of_one_seller_works():
    outcome = OfflineMechanism(DIST, OBJECTIVE).run([2.0])
    x, y = data(2)
    model = dpm.PrivateLogisticRegression(classes=("no", "yes"))
    certificate = certify(
        outcome,
        model.fit(x[:1], y[:1], epsilons=outcome.epsilons),
        RULES,
        seller_ids=IDS[: len(outcome.epsilons)],
    )
    assert verify(certificate, receipt=certificate.receipt(0), cost=2.0).passed
    assert verify(certificate, openings=certificate.openings()).passed
