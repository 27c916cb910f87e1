"""Tokens open what they were made for, as long as they last; buckets let nobody do something too often."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import tables
from support.live import START, Live


def whose(desk, token, *kinds, now=START):
    with reading(desk.ledger) as connection:
        return market.caller_with(connection, token, kinds, now)


@pytest.mark.parametrize("role", ["buyer", "paymaster", "auditor", "operator"])
def test_a_members_token_says_who_they_are(desk, role):
    with market.acting(desk) as connection:
        member = market.Caller(role, market.add_member(connection, "A member", role, START))
        token = market.issue_token(connection, "api", member, START)
    assert whose(desk, token, "api") == member
    for kind in ("login", "session", "invitation"):
        with pytest.raises(MarketRefusal):
            whose(desk, token, kind)
    with reading(desk.ledger) as connection:
        kept = connection.execute(sa.select(tables.token)).one()
    assert token not in str(kept)
    assert len(token) >= 43


def test_a_sellers_tokens_say_which_participation(desk):
    live = Live(desk)
    with live.acting() as connection:
        (invited,) = market.invite(connection, live.campaign, ["a"], 5.0, START)
        seller = market.Caller("seller", invited.participation)
        session = market.issue_token(connection, "session", seller, START)
    assert whose(desk, invited.token, "api", "invitation") == seller
    assert whose(desk, session, "session") == seller


def test_a_token_ends_with_its_time_or_when_it_is_revoked(desk):
    with market.acting(desk) as connection:
        member = market.Caller("buyer", market.add_member(connection, "A buyer", "buyer", START))
        short = market.issue_token(connection, "session", member, START, timedelta(hours=1))
        lasting = market.issue_token(connection, "session", member, START)
    assert whose(desk, short, "session", now=START + timedelta(minutes=59)) == member
    with pytest.raises(MarketRefusal):
        whose(desk, short, "session", now=START + timedelta(hours=1))
    with market.acting(desk) as connection:
        assert market.revoke_token(connection, lasting, START)
        assert not market.revoke_token(connection, lasting, START)
        assert not market.revoke_token(connection, "no such", START)
    with pytest.raises(MarketRefusal):
        whose(desk, lasting, "session")


RATE = market.Rate(3, 60.0)


def take(desk, now, who="a", kind="quote"):
    with market.acting(desk) as connection:
        return market.take_token(connection, kind, who, RATE, now)


def test_a_bucket_is_emptied_and_filled_again_at_a_steady_rate(desk):
    assert [take(desk, START) for _ in range(3)] == [0.0] * 3
    assert take(desk, START) == pytest.approx(20.0)
    assert take(desk, START + timedelta(seconds=15)) == pytest.approx(5.0)
    assert take(desk, START + timedelta(seconds=20)) == 0.0
    assert take(desk, START + timedelta(seconds=20)) == pytest.approx(20.0)
    assert [take(desk, START + timedelta(days=1)) == 0.0 for _ in range(4)] == [True, True, True, False]
    assert take(desk, START - timedelta(days=1)) > 0.0  # a clock that was put back fills nothing


def test_a_clock_that_goes_back_and_forth_gives_no_more_than_one_that_does_not(desk):
    assert [take(desk, START) for _ in range(2)] == [0.0] * 2
    assert take(desk, START - timedelta(hours=1)) == 0.0  # the last one
    assert take(desk, START) == pytest.approx(20.0)  # the hour before was over when they were taken
    # By the clock that is behind it takes longer, by what it is behind.
    assert take(desk, START - timedelta(seconds=100)) == pytest.approx(120.0)
    assert take(desk, START + timedelta(seconds=20)) == 0.0


def test_buckets_of_others_and_of_other_acts_are_others(desk):
    for _ in range(3):
        take(desk, START)
    assert take(desk, START) > 0.0
    assert take(desk, START, who="b") == 0.0
    assert take(desk, START, kind="login") == 0.0
    with reading(desk.ledger) as connection:
        kept = connection.execute(sa.select(tables.bucket.c.key)).scalars().all()
    assert len(kept) == 3
    assert not any("quote" in key or key == "a" for key in kept)


def test_who_asks_from_many_threads_gets_no_more(desk):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: take(desk, START), range(16)))
    assert found.count(0.0) == 3


def test_old_buckets_are_forgotten(desk):
    take(desk, START)
    take(desk, START + timedelta(days=2), who="b")
    with market.acting(desk) as connection:
        assert market.drop_old_buckets(connection, START + timedelta(days=1)) == 1


def test_lists_hold_what_is_the_callers(desk):
    live = Live(desk)
    with reading(desk.ledger) as connection:
        own = market.list_campaigns(connection, market.Caller("buyer", live.buyer))
        assert [one.campaign for one in own] == [live.campaign]
        assert market.list_campaigns(connection, market.Caller("buyer", "other")) == []
        assert market.list_campaigns(connection, market.Caller("operator", "x")) == own
        (paying,) = market.list_paying(connection, market.Caller("paymaster", "x"))
        assert (paying.campaign, paying.balance.owed, paying.payouts) == (own[0], 0, [])
        assert market.job_counts(connection) == {("close", "waiting"): 1}
        for role in ("seller", "paymaster"):
            with pytest.raises(MarketRefusal):
                market.list_campaigns(connection, market.Caller(role, "x"))
        for role in ("seller", "buyer", "operator", "auditor"):
            with pytest.raises(MarketRefusal):
                market.list_paying(connection, market.Caller(role, "x"))
        with pytest.raises(MarketRefusal):
            market.campaign_of_payout(connection, "no such")
