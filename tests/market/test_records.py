"""Records at the desk: categories, gaps, dates, true or false, several rows; one length for all of them."""

import json
import math
import struct

import numpy as np
import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.campaign import check_market as checked_market
from dpmarket.campaign.features import encoder_of
from dpmarket.certificates import verify
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import tables
from dpmarket.market.encoding import decode_records, encode_record, zero_record
from dpmarket.market.keys import Opener
from support.live import MARKET, RECORD, SOLD, Live

FEATURES = {
    "age": {"low": 18, "high": 90, "missing_category": True},
    "town": {"categories": ["north", "a town with a long name", "1"], "missing": "north"},
    "job": {"categories": ["baker"], "other": True},
    "since": {"first": "2000-01-01", "last": "2020-01-01"},
    "member": {"boolean": True},
}
MIXED = {**MARKET, "features": FEATURES}
STRICT = {**MIXED, "training": {"outside_bounds": "refuse"}}
SEVERAL = {**MIXED, "sellers": {"expected": 30, "rows_per_person": 3}}
ROW = {"age": 41, "town": "north", "job": "baker", "since": "2010-06-30", "member": True, "bought": "yes"}


def changed(**values):
    return {**ROW, **values}


def rows_of(rules, *records):
    """Return records as training sees them: dense rows, labels, owners."""
    made = checked_market(rules)
    features, labels, owners = decode_records(made, [encode_record(made, one) for one in records])
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    return dense, labels.tolist(), owners.tolist()


VARIANTS = [
    ROW,
    changed(age=None, town=None),
    changed(town="a town with a long name", bought="no"),
    changed(town=1, job="a job that nobody has heard of", member=False),
    changed(age=1e9, since="1900-01-01"),
    changed(town="nowhere"),
]


@pytest.mark.parametrize("rules", [MIXED, SEVERAL])
def test_a_record_has_one_length_whatever_is_in_it(rules):
    made = checked_market(rules)
    lengths = {len(encode_record(made, row)) for row in VARIANTS}
    if rules is SEVERAL:
        lengths |= {len(encode_record(made, VARIANTS[:count])) for count in (1, 2, 3)}
    assert lengths == {len(zero_record(made))}


def test_what_is_sealed_has_one_length_whatever_is_in_it(tmp_path):
    with market.open_desk(tmp_path / "market.ledger", tmp_path / "keys") as desk:
        live = Live(desk, seats=9, rules=SEVERAL)
        for place, record in enumerate([*VARIANTS, VARIANTS[:2], VARIANTS[:3]]):
            live.deliver(live.newcomer(f"p{place}", *SOLD[:4]), record)
        with reading(desk.ledger) as connection:
            sealed = connection.execute(sa.select(tables.record.c.sealed)).scalars().all()
    assert len(sealed) == 8
    assert len({len(one) for one in sealed}) == 1


def test_records_are_trained_on_as_the_public_encoder_encodes_them():
    dense, labels, owners = rows_of(MIXED, *VARIANTS)
    assert (labels, owners) == ([1, 1, 0, 1, 1, 1], list(range(6)))
    encoder = encoder_of(checked_market(MIXED))
    names = [name for name in ROW if name != "bought"]
    table = {name: [row[name] for row in VARIANTS] for name in names}
    table["town"] = [None if town is None else str(town) for town in table["town"]]
    assert np.array_equal(dense, encoder.fit_transform(table).toarray())
    plain, _, _ = rows_of(MARKET, RECORD, {**RECORD, "age": 1e9})
    assert plain.tolist() == [[41.0, 25000.0], [90.0, 25000.0]]


def test_several_rows_belong_to_their_person_and_what_is_not_there_is_no_row():
    dense, labels, owners = rows_of(SEVERAL, VARIANTS[:3], ROW, [VARIANTS[2], ROW])
    assert owners == [0, 0, 0, 1, 2, 2]
    assert labels == [1, 1, 0, 1, 0, 1]
    assert np.array_equal(dense[3], dense[0])
    assert np.array_equal(dense[4], dense[2])


WRONG = [
    (MIXED, changed(age="41")), (MIXED, changed(age=math.nan)), (MIXED, changed(age=True)),
    (MIXED, changed(age=10**400)), (MIXED, changed(job=None)), (MIXED, changed(since=None)),
    (MIXED, changed(job="  ")), (MIXED, changed(since="4711")), (MIXED, changed(since=4711)),
    (MIXED, changed(member="yes 4711")), (MIXED, changed(member=1)), (MIXED, changed(town=["4711"])),
    (MIXED, changed(bought="perhaps 4711")), (MIXED, changed(bought=1)), (MIXED, {**ROW, "4711": 1}),
    (MIXED, {"age": 4711}), (STRICT, changed(age=4711)), (STRICT, changed(town="4711")),
    (STRICT, changed(since="1999-12-31")), (MIXED, []), (MIXED, [ROW, ROW]), (SEVERAL, [ROW] * 4),
    (SEVERAL, []), (SEVERAL, [ROW, 4711]), (SEVERAL, [ROW, changed(age="4711")]),
    (MARKET, {**RECORD, "age": None}),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "record"), WRONG)
def test_a_wrong_record_is_refused_without_its_value(rules, record):
    with pytest.raises(MarketRefusal, match="expected") as refusal:
        encode_record(checked_market(rules), record)
    assert refusal.value.kind == "invalid"
    assert "4711" not in str(refusal.value)


def test_strict_markets_take_what_is_declared():
    dense, _, _ = rows_of(STRICT, ROW, changed(job="any other"))
    assert np.isfinite(dense).all()


@pytest.mark.parametrize("most", [1, 2])
def test_a_record_keeps_the_last_of_many_labels(most):
    names = [f"label {k}" for k in range(256)]
    rules = {
        **MARKET,
        "sellers": {"expected": 30, "rows_per_person": most},
        "label": {"column": "bought", "values": names},
    }
    _, labels, owners = rows_of(rules, *({**RECORD, "bought": names[k]} for k in (255, 0)))
    assert (labels, owners) == ([255, 0], [0, 1])


def test_bytes_that_are_no_record_become_the_public_row():
    made = checked_market(SEVERAL)
    right, zero = encode_record(made, [ROW, ROW]), zero_record(made)
    width = len(zero) // 3
    number = struct.pack("<d", 0.5)

    def with_code(place, data):
        return right[: 8 * place] + data + right[8 * place + 8 :]

    wrong = [
        b"", right[:-1], with_code(0, struct.pack("<d", 91.0)), with_code(1, number), with_code(3, number),
        with_code(2, struct.pack("<d", math.nan)), with_code(2, struct.pack("<d", 7.0)), with_code(4, number),
        right[: width - 2] + b"\x07\x00" + right[width:], right[: width - 2] + b"\xff\xff" + right[width:],
    ]  # fmt: skip
    features, labels, owners = decode_records(made, [*wrong, zero, right])
    dense = features.toarray()
    assert owners.tolist() == [*range(len(wrong) + 1), len(wrong) + 1, len(wrong) + 1]
    assert not labels[:-2].any()
    assert labels[-2:].all()
    assert np.array_equal(dense[:-2], np.tile(dense[len(wrong)], (len(wrong) + 1, 1)))
    strict = checked_market(STRICT)
    assert decode_records(strict, [zero_record(strict)])[0].shape[0] == 1


@pytest.mark.parametrize("rules", [MIXED, SEVERAL])
def test_a_campaign_with_categories_is_trained_and_certified_with_its_encoder(tmp_path, rules):
    records = VARIANTS if rules is MIXED else [VARIANTS[:3], ROW, VARIANTS[1:3], *VARIANTS[3:]]
    with market.open_desk(tmp_path / "market.ledger", tmp_path / "keys") as desk:
        live = Live(desk, seats=7, rules=rules)
        people = [live.newcomer(f"p{k}", *SOLD[:4]) for k in range(len(records))]
        for who, record in zip(people, records, strict=True):
            live.deliver(who, record)
        live.close()
        assert live.train() == "released"
        body = market.certify_campaign(desk, live.campaign, live.now)
        model = json.loads(live.looked(market.model_of, live.campaign))
        receipts = [live.looked(market.show_receipt, market.Caller("seller", who), who) for who in people]
    assert model["encoder"] == encoder_of(checked_market(rules)).to_dict()
    for receipt in receipts:
        result = verify(body, receipt=receipt)
        assert result.passed, result


def test_only_the_holder_of_the_key_reads_a_record_with_categories(tmp_path):
    with market.open_desk(tmp_path / "market.ledger", tmp_path / "keys") as desk:
        live = Live(desk, rules=MIXED)
        who = live.newcomer("a", *SOLD[:4])
        live.deliver(who, changed(town="a town with a long name"))
        found = live.looked(market.campaign_of, live.campaign)
        with reading(desk.ledger) as connection:
            sealed = bytes(connection.execute(sa.select(tables.record.c.sealed)).scalar_one())
        opened = Opener(desk.keys, live.campaign, found.public_key)
        content = opened.open(sealed, "record", live.campaign, who)
    made = checked_market(MIXED)
    assert content == encode_record(made, changed(town="a town with a long name"))
