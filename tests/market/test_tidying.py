"""What nobody can need any more is forgotten at its age, and nothing else."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.ledger import reading
from dpmarket.market import tables, tidying
from support.live import START, Live

DAY = timedelta(days=1)
KEY = "a key of some length"


def count(desk, table):
    with reading(desk.ledger) as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def asked(desk, key, now, done):
    def act():
        done.append(key)
        return {"done": len(done)}

    with market.acting(desk) as connection:
        return market.once(connection, "a", key, {"act": 1}, act, now)


def test_an_answer_is_known_for_thirty_days_and_then_forgotten(desk):
    done = []
    first = asked(desk, KEY, START, done)
    asked(desk, KEY + " too", START + DAY, done)
    assert market.tidy(desk, START + 30 * DAY).answers == 0
    assert asked(desk, KEY, START + 30 * DAY, done) == first
    assert len(done) == 2
    assert market.tidy(desk, START + 30 * DAY + timedelta(seconds=1)).answers == 1
    assert count(desk, tables.idempotency) == 1
    assert asked(desk, KEY, START + 31 * DAY, done) == {"done": 3}


def test_more_than_fit_into_one_transaction_are_all_forgotten(desk, monkeypatch):
    monkeypatch.setattr(tidying, "_AT_ONCE", 3)
    for k in range(7):
        asked(desk, f"{KEY} {k}", START, [])
    asked(desk, KEY, START + 40 * DAY, [])
    assert market.tidy(desk, START + 40 * DAY).answers == 7
    assert count(desk, tables.idempotency) == 1


def test_sign_ins_that_are_over_are_forgotten_and_invitations_and_good_ones_stay(desk):
    live = Live(desk)
    (who,) = live.invite("a")
    buyer = market.Caller("buyer", live.buyer)
    with live.acting() as connection:
        market.issue_token(connection, "session", buyer, START, timedelta(hours=12))
        lasting = market.issue_token(connection, "api", buyer, START)
        revoked = market.issue_token(connection, "api", buyer, START)
        market.issue_token(connection, "session", market.Caller("seller", who), START + 20 * DAY, DAY)
        assert market.revoke_token(connection, revoked, START)
    assert market.tidy(desk, START + 29 * DAY).tokens == 0
    assert market.tidy(desk, START + 31 * DAY).tokens == 2
    with reading(desk.ledger) as connection:
        assert market.caller_with(connection, lasting, ["api"], START + 31 * DAY) == buyer
        kinds = connection.execute(sa.select(tables.token.c.kind)).scalars().all()
    assert sorted(kinds) == ["api", "invitation", "session"]


def test_buckets_without_use_are_forgotten_and_so_are_those_of_a_clock_that_was_wrong(desk):
    rate = market.Rate(1, 60.0)

    def take(who, now):
        with market.acting(desk) as connection:
            return market.take_token(connection, "quote", who, rate, now)

    for who, days in (("old", -2), ("new", 0), ("wrong", 400)):
        assert take(who, START + days * DAY) == 0.0
    assert take("wrong", START) > 300 * 86_400.0
    assert market.tidy(desk, START).buckets == 2
    assert take("wrong", START) == 0.0
    assert take("new", START) == pytest.approx(60.0)


def test_what_can_be_repeated_for_ever_is_not_kept_for_ever(live):
    who = live.newcomer("a", "consent")
    live.withdraw(who)
    operator = market.operator_key(live.desk.keys)
    for k in range(60):
        assert live.withdraw(who) == "no invitations"
        with live.acting() as connection:
            market.set_payee(connection, who, f"account {k}", operator, live.now)
    kinds = [event.kind for event in live.looked(market.events_of, who)]
    assert kinds.count("no further invitations") == 1
    assert kinds.count("payee") == 50
