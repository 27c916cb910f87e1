"""Live campaigns that buy numbers: answers of one length, promises split by shares, one release, one mark."""

import json
import math
import struct
from fractions import Fraction

import numpy as np
import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.campaign import check_market as checked_market
from dpmarket.campaign import spending
from dpmarket.campaign.released import released_from_json
from dpmarket.certificates import verify
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import outside, reading
from dpmarket.market import tables
from dpmarket.market.answers import decode_answers
from dpmarket.market.encoding import encode_record, zero_record
from dpmarket.market.keys import Opener
from dpmarket.market.opening import curve_of
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import PrivateMean
from support.live import ANSWERS, ASKED, CLOSES, MARKET, RECORD, SOLD, Live

BASE = {table: ASKED[table] for table in ("costs", "objective", "money")}
SEVERAL_ROWS = {**ASKED, "sellers": {"expected": 30, "rows_per_person": 3}}
STRICT = {**ASKED, "training": {"outside_bounds": "refuse"}}
ONE = {
    **BASE,
    "sellers": {"expected": 30},
    "statistic": {"kind": "mean", "column": "age", "low": 18, "high": 90},
}
BINS = {**BASE, "sellers": {"expected": 30}, "statistics": {
    "ages": {"kind": "histogram", "column": "age", "edges": [0, 30, 60, 90]},
    "town": {"kind": "histogram", "column": "town", "categories": [1, 2]},
}}  # fmt: skip


def changed(**values):
    return {**ANSWERS, **values}


VARIANTS = [
    ANSWERS,
    changed(way="bus", member=False),
    changed(age=1e300, east=-1e300),
    changed(age=0, way=" train "),
]
WRONG = [
    (ASKED, changed(age="4711")), (ASKED, changed(age=True)), (ASKED, changed(age=math.nan)),
    (ASKED, changed(age=math.inf)), (ASKED, changed(age=10**400)), (ASKED, changed(age=None)),
    (ASKED, changed(way="4711")), (ASKED, changed(way=None)), (ASKED, changed(way="")),
    (ASKED, changed(way=True)), (ASKED, changed(member="yes 4711")), (ASKED, changed(member=1)),
    (ASKED, changed(east=math.inf)), (ASKED, changed(east="4711")), (ASKED, {**ANSWERS, "4711": 1}),
    (ASKED, {"age": 4711}), (ASKED, [ANSWERS, ANSWERS]), (ASKED, []), (SEVERAL_ROWS, [ANSWERS] * 4),
    (STRICT, changed(age=4711)), (STRICT, changed(east=2.0, north=4711)), (BINS, {"age": 1, "town": 4711}),
]  # fmt: skip


def asked(rules, *records):
    made = checked_market(rules)
    columns, owners = decode_answers(made, [encode_record(made, one) for one in records])
    return columns, owners.tolist()


def sold(live, records):
    """Let somebody sell for every record; return the participations."""
    people = [live.newcomer(f"p{k}", *SOLD[:4]) for k in range(len(records))]
    for who, record in zip(people, records, strict=True):
        live.deliver(who, record)
    return people


def released(live):
    return released_from_json(live.looked(market.model_of, live.campaign))


@pytest.mark.parametrize("rules", [ASKED, SEVERAL_ROWS])
def test_answers_have_one_length_whatever_is_in_them(rules):
    made = checked_market(rules)
    lengths = {len(encode_record(made, row)) for row in VARIANTS}
    if rules is SEVERAL_ROWS:
        lengths |= {len(encode_record(made, VARIANTS[:count])) for count in (1, 2, 3)}
    assert lengths == {len(zero_record(made))}


def test_every_statistic_is_asked_of_what_it_needs_and_no_more():
    columns, owners = asked(ASKED, *VARIANTS)
    assert owners == [0, 1, 2, 3]
    assert columns["age"].tolist() == [41.0, 41.0, 90.0, 18.0]
    assert columns["median"].tolist() == [41.0, 41.0, 120.0, 0.0]
    assert columns["way"] == ["car", "bus", "car", "train"]
    assert columns["member"].tolist() == [True, False, True, True]
    assert columns["place"].tolist() == [[0.5, -1.0], [0.5, -1.0], [-1e300, -1.0], [0.5, -1.0]]
    columns, _ = asked(BINS, {"age": 95, "town": 2}, {"age": -5, "town": "1"})
    assert columns["ages"].tolist() == [90.0, 0.0]
    assert columns["town"] == ["2", "1"]


def test_several_rows_belong_to_their_person_and_what_is_not_there_is_no_row():
    columns, owners = asked(SEVERAL_ROWS, VARIANTS[:3], ANSWERS, VARIANTS[:2])
    assert owners == [0, 0, 0, 1, 2, 2]
    assert columns["way"] == ["car", "bus", "car", "car", "car", "bus"]


@pytest.mark.parametrize(("rules", "record"), WRONG)
def test_a_wrong_answer_is_refused_without_its_value(rules, record):
    with pytest.raises(MarketRefusal, match="expected") as refusal:
        encode_record(checked_market(rules), record)
    assert refusal.value.kind == "invalid"
    assert "4711" not in str(refusal.value)


def test_what_lies_beyond_the_outer_candidates_counts_there_in_strict_markets_too():
    made = checked_market({**BINS, "training": {"outside_bounds": "refuse"}})
    assert decode_answers(made, [encode_record(made, {"age": 4711, "town": 1})])[0]["ages"].tolist() == [90.0]


def test_bytes_that_are_no_answers_become_the_public_ones():
    made = checked_market(SEVERAL_ROWS)
    right, zero = encode_record(made, [ANSWERS, ANSWERS]), zero_record(made)
    width = len(zero) // 3

    def with_code(place, number):
        return right[: 8 * place] + struct.pack("<d", number) + right[8 * place + 8 :]

    wrong = [
        b"", right[:-1], with_code(0, 91.0), with_code(0, math.nan), with_code(1, 121.0), with_code(2, 0.5),
        with_code(2, 3.0), with_code(2, -1.0), with_code(3, 2.0), with_code(4, math.inf),
        right[: width - 1] + b"\x00" + right[width:], right[: width - 1] + b"\x02" + right[width:],
    ]  # fmt: skip
    columns, owners = decode_answers(made, [*wrong, zero, right])
    assert owners.tolist() == [*range(len(wrong) + 1), len(wrong) + 1, len(wrong) + 1]
    assert set(columns["age"][:-2].tolist()) == {54.0}
    assert set(columns["way"][:-2]) == {"bus"}
    assert not columns["member"][:-2].any()
    assert not columns["place"][:-2].any()
    assert columns["age"][-2:].tolist() == [41.0, 41.0]


class Seeded(spending.LastMoment):
    def bits(self):
        self.mark()
        return SeededNoise(3).bits()


def test_a_live_mean_is_the_statistics_room_with_the_promises_of_the_quotes(desk, monkeypatch):
    monkeypatch.setattr(spending, "LastMoment", Seeded)
    live = Live(desk, rules=ONE)
    ages = [20, 40, 60]
    people = sold(live, [{"age": age} for age in ages])
    live.close()
    assert live.train() == "released"
    promises = [live.looked(market.quote_of, who).epsilon for who in people]
    order = sorted(range(3), key=lambda k: people[k])
    own = PrivateMean(18, 90, noise_source=SeededNoise(3))
    own.fit([ages[k] for k in order], epsilons=[promises[k] for k in order])
    found = released(live).releases()["mean"]
    assert found.numerators == own.release_.numerators
    assert found.values.tolist() == own.release_.values.tolist()
    for who, promise in zip(people, promises, strict=True):
        assert live.limits(who).spent <= promise * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", ["online", "offline"])
@pytest.mark.parametrize("rules", [ASKED, SEVERAL_ROWS])
def test_a_campaign_of_several_statistics_is_released_certified_and_paid(desk, mechanism, rules):
    live = Live(desk, mechanism, seats=7, rules=rules)
    records = VARIANTS if rules is ASKED else [VARIANTS[:3], ANSWERS, VARIANTS[1:3], VARIANTS[3]]
    if mechanism == "online":
        people = sold(live, records)
    else:
        people = [live.newcomer(f"p{k}", "consent", "report") for k in range(4)]
        live.now = CLOSES
        market.clear(desk, live.campaign, live.now)
        for who, record in zip(people, records, strict=True):
            live.accept(who)
            live.deliver(who, record)
    promises = {who: live.looked(market.quote_of, who) for who in people}
    live.close()
    assert {"train", "certify"} <= {job.kind for job in market.work(desk, live.now)}
    assert live.state() == "released"
    found = released(live)
    assert list(found.releases()) == list(ASKED["statistics"])
    assert found.secure_noise
    assert sum(Fraction(one.share) for one in found.statistics.values()) <= 1
    body = live.looked(market.show_certificate, market.Caller("buyer", live.buyer), live.campaign)
    assert verify(body, openings=market.openings_of(desk, live.campaign)).passed
    spent = Fraction(0)
    for who in people:
        receipt = live.looked(market.show_receipt, market.Caller("seller", who), who)
        result = verify(body, receipt=receipt)
        assert result.passed, result
        line = json.loads(receipt)["line"]
        assert line["spent"] <= line["promise"] == promises[who].epsilon
        spent += Fraction(line["spent"])
    assert float(spent) == pytest.approx(found.total_promise)
    assert live.balance().owed == sum(quote.payment for quote in promises.values())
    with reading(desk.ledger) as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(tables.record)).scalar() == 0


def test_several_statistics_have_one_mark_and_the_key_is_gone_before_the_first_noise(desk, monkeypatch):
    live = Live(desk, rules=ASKED)
    sold(live, VARIANTS)
    live.close()
    seen = []
    from dpmarket.privacy import noise

    usual = noise.SecureNoise.bits

    def look(self):
        seen.append((len(list(desk.keys.glob(f"{live.campaign}-*.key"))), outside.read_log()[-1].kind))
        return usual(self)

    monkeypatch.setattr(noise.SecureNoise, "bits", look)
    assert live.train() == "released"
    assert len(seen) == 5
    assert set(seen) == {(0, "mark")}
    assert [line.kind for line in outside.read_log()].count("mark") == 1


def test_statistics_that_break_after_the_mark_are_lost_spent_and_paid(desk, monkeypatch):
    live = Live(desk, rules=ASKED)
    people = sold(live, VARIANTS)
    live.close()

    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("dpmarket.statistics.quantile.race", broken)  # of the second statistic
    with pytest.raises(ZeroDivisionError):
        live.train()
    assert live.state() == "lost"
    assert {live.state(who) for who in people} == {"spent"}
    assert live.balance().owed > 0
    with pytest.raises(MarketRefusal, match="nothing was released"):
        live.looked(market.model_of, live.campaign)


def test_statistics_that_break_before_the_mark_are_asked_again(desk, monkeypatch):
    live = Live(desk, rules=ASKED)
    people = sold(live, VARIANTS)
    live.close()
    with monkeypatch.context() as patch:
        patch.setattr(spending, "release_statistics", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            live.train()
    assert live.state() == "closed"
    assert {live.limits(who).spent for who in people} == {0.0}
    assert live.train() == "released"


def test_an_answer_that_cannot_be_opened_counts_as_the_public_one(desk):
    live = Live(desk, rules=ASKED)
    people = sold(live, VARIANTS)
    with live.acting() as connection:
        row = tables.record.update().where(tables.record.c.participation == people[0])
        connection.execute(row.values(sealed=b"no such thing"))
    live.close()
    assert live.train() == "released"
    assert released(live).records == 4


def least_offer(live):
    """Return a cost, found by halving, at which hardly anything is bought."""
    curve = curve_of(live.opening.curve)
    low, high = 1.0, 5.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return low
        if curve.offers(np.array([middle])).epsilons[0] > 0.0:
            low = middle
        else:
            high = middle


@pytest.mark.parametrize("rules", [ONE, ASKED, MARKET])
def test_a_promise_too_small_for_any_weight_leaves_the_books_right(desk, rules):
    """Somebody who asks for as much as is possible is promised 2^-40 of the others' and less."""
    live = Live(desk, rules={**rules, "objective": {"payment_weight": 0.2, "max_epsilon": 1.0}})
    record = {str(ONE): {"age": 41}, str(ASKED): ANSWERS, str(MARKET): RECORD}[str(rules)]
    tiny = live.newcomer("tiny", *SOLD[:2])
    quote = live.choose(tiny, least_offer(live))
    assert 0.0 < quote.epsilon < 1e-12
    live.accept(tiny)
    live.deliver(tiny, record)
    live.deliver(live.newcomer("usual", *SOLD[:4], cost=1.0), record)
    live.close()
    assert live.train() == "released"
    assert live.state(tiny) == "spent"
    body = market.certify_campaign(desk, live.campaign, live.now)
    receipt = live.looked(market.show_receipt, market.Caller("seller", tiny), tiny)
    assert verify(body, receipt=receipt).passed
    assert json.loads(receipt)["line"]["payment"] > 0


def test_only_the_holder_of_the_key_reads_answers(desk):
    live = Live(desk, rules=ASKED)
    (who,) = sold(live, [ANSWERS])
    found = live.looked(market.campaign_of, live.campaign)
    with reading(desk.ledger) as connection:
        sealed = bytes(connection.execute(sa.select(tables.record.c.sealed)).scalar_one())
    made = checked_market(ASKED)
    right = encode_record(made, ANSWERS)
    opener = Opener(desk.keys, live.campaign, found.public_key)
    assert opener.open(sealed, "record", live.campaign, who) == right
    assert opener.open(sealed, "record", live.campaign, "another") is None
    assert right not in sealed


def test_the_ceiling_of_a_campaign_covers_all_of_its_statistics_together(desk):
    live = Live(desk, rules=ASKED)
    (who,) = sold(live, [ANSWERS])
    live.close()
    live.train()
    quote = live.looked(market.quote_of, who)
    assert quote.epsilon <= live.looked(market.campaign_of, live.campaign).ceiling
    assert np.isclose(live.limits(who).spent, quote.epsilon, rtol=1e-6)
