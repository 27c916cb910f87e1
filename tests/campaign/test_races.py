"""Two acts at the same time: one of them is refused or waits, and the books balance."""

import contextlib
import functools
import struct
import threading

import pytest
import sqlalchemy as sa

from campaign.live import DELIVER, Live, balanced, decoded, opened, release
from dpmarket.campaign import campaigns, file_quotes, line, payouts, quoting, schema, sellers, training
from dpmarket.campaign.account import MarketAccount
from dpmarket.campaign.acts import OWNER, WORKER, Caller
from dpmarket.campaign.place import place_of
from dpmarket.errors import DpmarketError, MarketRefusal
from outside import goods
from outside.driver import write_rules, write_table


def together(*functions):
    """Run functions at the same time; return the answer or the refusal of each."""
    start, answers = threading.Barrier(len(functions)), [None] * len(functions)

    def run(place, function):
        start.wait()
        try:
            answers[place] = function()
        except DpmarketError as problem:
            answers[place] = problem

    threads = [threading.Thread(target=run, args=one) for one in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.fixture
def second(place, tmp_path, market, clock):
    """The same market, opened once more."""
    with opened(place, tmp_path, clock, make=False) as other:
        yield other


def by(market, participation, act, *args):
    return lambda: market.run(act, Caller(participation=participation), *args)


def test_two_reservations_for_one_place(market, second):
    live = Live(market, places=1)
    one, two = live.join("a"), live.join("b")
    answers = together(by(market, one, line.reserve), by(second, two, line.reserve))
    assert sorted(answer.state for answer in answers) == ["reserved", "waiting"]
    balanced(market)


@pytest.mark.parametrize("key", [None, "k" * 20])
def test_one_seller_chooses_twice(live, second, key):
    """With an idempotency key both are told of the one quote."""
    me = live.join("a")
    live.act(line.reserve, me)
    caller = Caller(participation=me)
    ways = [functools.partial(one.run, quoting.choose, caller, 2.0, key=key) for one in (live.market, second)]
    answers = together(*ways)
    assert sum(isinstance(answer, quoting.Quote) for answer in answers) == (1 if key is None else 2)
    assert key is None or answers[0] == answers[1]
    balanced(live.market)


@pytest.mark.parametrize("time", range(3))
def test_withdraw_against_debit(live, second, time):
    me, _ = live.deliver("a"), live.deliver("b")
    live.close()
    debit = lambda: second.run(training.debit, WORKER, live.campaign, "a" * 32)  # noqa: E731
    left, sold = together(by(live.market, me, sellers.withdraw), debit)
    assert (me in sold.get_column("id")) == isinstance(left, DpmarketError)
    balanced(live.market)


@pytest.mark.parametrize("time", range(3))
def test_accept_against_close(live, second, time):
    live.deliver("a")
    me, _ = live.quote("b")
    live.market.clock.now = DELIVER
    together(by(live.market, me, sellers.accept), lambda: second.run(campaigns.close, WORKER, live.campaign))
    assert live.state(me) in ("lapsed", "expired")
    balanced(live.market)


def test_two_trainers_release_once(live, second):
    live.deliver("a", value=3.0)
    live.close()
    drawn = []

    def count(records, sellers_, before_noise):
        drawn.append(1)
        return release(records, sellers_, before_noise)

    def train(market):
        read = training.sealed_records(market, live.campaign, decoded)
        return lambda: training.train(market, live.campaign, read, count)

    answers = together(train(live.market), train(second))
    assert len(drawn) == 1
    assert struct.pack("<d", 3.0) in answers
    balanced(live.market)


def test_the_database_itself_refuses_a_second_attempt_at_a_training(live):
    live.deliver("p", 2.0, 1.0)
    live.train()
    again = {"id": "b" * 32, "campaign": live.campaign, "state": "debited", "debited_at": "2030"}
    with pytest.raises(MarketRefusal, match="The database forbids this"), live.market.writing() as c:
        c.execute(sa.insert(schema.attempt).values(**again))


def test_two_payouts_pay_once(live, second):
    me = live.deliver("a")
    live.train()
    live.act(sellers.set_payee, me, "account")
    answers = together(*(lambda one=one: one.run(payouts.pay_out, OWNER, live.campaign)
                         for one in (live.market, second)))  # fmt: skip
    assert sum(isinstance(answer, payouts.Payout) for answer in answers) == 1
    balanced(live.market)


def test_six_threads_act_on_shared_people(market, second):
    lives = [Live(market, places=3, name=f"campaign {k}") for k in range(2)]
    who = {live: [live.join(f"p{k}") for k in range(4)] for live in lives}

    def go(live, one, own):
        def run():
            caller = Caller(participation=own)
            for act, *args in (
                (line.reserve,),
                (quoting.choose, 2.0),
                (sellers.accept,),
                (sellers.withdraw,),
            ):
                try:
                    one.run(act, caller, *args)
                except DpmarketError:
                    return

        return run

    together(*(go(live, one, own) for live, one in zip(lives, (market, second), strict=True)
               for own in who[live][:3]))  # fmt: skip
    balanced(market)
    assert [one.tick for one in market.log.lines()] == list(range(1, market.log.last().tick + 1))


@pytest.mark.parametrize("names", [("one", "one"), ("one", "two")])
def test_two_files_of_the_same_people_are_quoted(place, tmp_path, monkeypatch, names):
    """In one campaign both get the same quotes; a limit with room for one of two campaigns holds."""
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    good, meet, decide_of = goods.GOODS["two classes"], threading.Barrier(2), file_quotes.decide_of
    ids, costs, _ = goods.sellers(good, 40)
    for folder, name in zip(("a", "b"), names, strict=True):
        reports = {"seller": [*ids, f"only {name}"], "cost": [*costs, 1.0]}
        rules = good.rules(100, mechanism="online", budget=1000)
        rules["campaign"] |= {"name": name, "database": str(place)}
        (tmp_path / folder).mkdir()
        write_rules(tmp_path / folder / "rules.toml", rules)
        write_table(tmp_path / folder / "reports.csv", reports)

    def decide_together(*given):
        with contextlib.suppress(threading.BrokenBarrierError):  # SQLite lets one in at a time
            meet.wait(1.0)
        return decide_of(*given)

    def quote(folder):
        files = (tmp_path / folder / name for name in ("rules.toml", "reports.csv", "quotes.csv"))
        return file_quotes.quote_file(*files, confirmed=True)

    with place_of(tmp_path / "a" / "rules.toml").open(make=True) as market:
        MarketAccount(market, limit=1.5, delta_limit=0.0)
        monkeypatch.setattr(file_quotes, "decide_of", decide_together)
        found = together(lambda: quote("a"), lambda: quote("b"))
        balanced(market)
    left_out = sorted(one.left_out.get("lifetime", 0) for one in found)
    assert left_out[0] == 0
    assert (left_out[1] > 0) == (names[0] != names[1])
