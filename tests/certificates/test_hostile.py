"""Files from strangers: refused in one sentence, soon, by the verifier and by the page alike."""

import json
import time

import pytest

from dpmarket.certificates import verify
from support.certificates import failing
from support.forging import Papers, canonical
from support.receipt_page import checks_by_both

PAPERS = Papers.stored("two-classes-online")
FIRST, RECEIPT = PAPERS.first, PAPERS.receipt()


def broken(checks):
    """Return the names of the checks that failed."""
    return {check.name for check in checks if check.verdict == "FAILS"}


def in_body(old, new):
    assert old in FIRST
    return FIRST.replace(old, new, 1), RECEIPT


def in_receipt(old, new):
    assert old in RECEIPT
    return FIRST, RECEIPT.replace(old, new, 1)


HOSTILE = {
    "a space": in_body(b":", b": "),
    "a key twice": in_body(b'"money":{', b'"money":{"currency":"EUR",'),
    "an unknown key": in_body(b'"money":{', b'"money":{"a":1,'),
    "the prototype": in_body(b'"money":{', b'"money":{"__proto__":{},'),
    "a missing key": in_body(b'"currency":"EUR",', b""),
    "another order of keys": in_body(
        b'"currency":"EUR","minor_units":100', b'"minor_units":100,"currency":"EUR"'),
    "not a number": in_body(b'"minor_units":100', b'"minor_units":NaN'),
    "an infinite number": in_body(b'"minor_units":100', b'"minor_units":1e999'),
    "a number of a million digits": in_body(b'"minor_units":100', b'"minor_units":' + b"9" * 1_000_000),
    "an exponent": in_body(b'"minor_units":100', b'"minor_units":1e2'),
    "a point": in_body(b'"minor_units":100', b'"minor_units":100.0'),
    "a sign": in_body(b'"minor_units":100', b'"minor_units":-100'),
    "minus nothing": in_body(b'"withdrawn":0', b'"withdrawn":-0'),
    "a zero before": in_body(b'"minor_units":100', b'"minor_units":0100'),
    "a text for a number": in_body(b'"minor_units":100', b'"minor_units":"100"'),
    "a truth for a number": in_body(b'"minor_units":100', b'"minor_units":true'),
    "half of a pair": in_body(b'"currency":"EUR"', b'"currency":"\\ud800"'),
    "half of a pair in bytes": in_body(b'"currency":"EUR"', b'"currency":"\xed\xa0\x80"'),
    "no UTF-8": in_body(b'"currency":"EUR"', b'"currency":"\xff"'),
    "an escaped letter": in_body(b'"currency":"EUR"', b'"currency":"\\u0045UR"'),
    "a line's end in a currency": in_body(b'"currency":"EUR"', b'"currency":"EUR\\n"'),
    "another schema": in_body(b"certificate/3", b"certificate/2"),
    "another family": in_body(b'"family":"norm"', b'"family":"toString"'),
    "another mechanism": in_body(b'"mechanism":"online"', b'"mechanism":"constructor"'),
    "a deep nest": in_body(b'"currency":"EUR"', b'"currency":' + b"[" * 90_000 + b"]" * 90_000),
    "many lists": in_body(b'"currency":"EUR"', b'"currency":[' + b"[]," * 200_000 + b"[]]"),
    "nothing": (b"", RECEIPT),
    "a line without a body": (b'{"body":,\n', RECEIPT),
    "a long line": (b'{"body":' + b" " * (9 << 20) + b",\n", RECEIPT),
    "a receipt of nothing": (FIRST, b""),
    "a receipt without its end": (FIRST, RECEIPT[:-1]),
    "a receipt with an empty line": (FIRST, RECEIPT + b"\n"),
    "a receipt of the old schema": in_receipt(b"receipt/3", b"receipt/2"),
    "a receipt of another order": (
        FIRST, json.dumps(dict(reversed(json.loads(RECEIPT).items()))).encode() + b"\n"),
    "a receipt with a key twice": in_receipt(b'{"certificate"', b'{"index":0,"certificate"'),
    "a receipt of another certificate": (FIRST, Papers.stored("two-classes").receipt()),
    "a negative payment": in_receipt(b'"payment":', b'"payment":-'),
    "an infinite payment": in_receipt(b'"payment":', b'"payment":1e400,"x":'),
    "a salt in capitals": in_receipt(b'"salt":"', b'"salt":"A'),
    "a large receipt": (FIRST, RECEIPT.replace(b'"path":[', b'"path":[' + b'"%s",' % (b"0" * 64) * 20_000)),
}  # fmt: skip


def test_hostile_files_are_refused_soon():
    started = time.process_time()
    found = checks_by_both([(*case, None) for case in HOSTILE.values()])
    assert time.process_time() - started < 10.0
    assert [name for name, checks in zip(HOSTILE, found, strict=True) if not broken(checks)] == []


def test_numbers_of_a_line_beyond_all_bounds_are_refused():
    cases = []
    for name in ("epsilon", "payment", "used", "weight"):
        for value in (-1.0, 1e16, -1e-300):
            papers = Papers.stored("two-classes-online")
            line = papers.best
            line[name] = value
            papers.commit()
            cases.append((papers.first, papers.receipt(line), None))
    assert all("layout" in broken(checks) for checks in checks_by_both(cases))


def test_an_id_cannot_turn_round_the_amounts_that_the_page_shows():
    """Signs that are unseen, or change the direction of writing, are shown by their numbers."""
    signs, cases = ("\u202e", "\u2067", "\u200f", "\u2028", "\u3000", "\U000e0041", "\x7f"), []
    for sign in signs:
        papers = Papers.stored("two-classes-online")
        line = papers.best
        line["id"] = f"ann{sign}"
        papers.commit()
        cases.append((papers.first, papers.receipt(line), None))
    for sign, checks in zip(signs, checks_by_both(cases), strict=True):
        assert broken(checks) == set()
        assert sign not in next(check.detail for check in checks if check.name == "receipt's line")


def test_openings_with_many_brackets_in_ids_are_read():
    papers = Papers.stored("two-classes")
    for k, line in enumerate(papers.lines):
        line["id"] = f'{k}: "[{{"\\' * 3_000
    papers.settle()
    assert failing(verify(papers.certificate(), openings=papers.openings())) == set()


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' + b"[" * 300_000,
        b'{"a":"","b":[' + b'"",[],' * 100_000,
        b'{"\\"' * 200_000,
        b'{"a":"' + b"[" * 700_000,
        b'{"id":["a"],"epsilon":[1e999]}',
        b'{"id":[]}',
        b"[]",
        b"\xff",
    ],
)
def test_hostile_openings_are_refused_at_once(text):
    papers = Papers.stored("two-classes")
    started = time.process_time()
    assert "layout" in failing(verify(papers.certificate(), openings=text + b"\n"))
    assert time.process_time() - started < 2.0


def test_a_schedule_of_more_knots_than_anybody_reads_is_refused_soon():
    papers = Papers.stored("two-classes-online")
    knots = [float(k + 1) for k in range(6_000)]
    papers.market["prices"][0]["schedules"][0] = {
        "costs": knots, "epsilons": [1.0 / k for k in knots], "amounts": [1.0 / k for k in knots]
    }  # fmt: skip
    case = papers.first, papers.receipt(), None
    started = time.process_time()
    (checks,) = checks_by_both([case])
    assert broken(checks) == {"layout"}
    assert time.process_time() - started < 3.0


def test_another_canonical_text_of_the_whole_is_refused():
    file = PAPERS.certificate()
    assert verify(file).passed
    for other in (
        file + b"\n",
        file[:-1],
        file.replace(b"{", b'{"a":1,', 1),
        b"[]",
        canonical(json.loads(file)),
    ):
        assert failing(verify(other)) == {"layout"}
