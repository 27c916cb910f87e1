"""Many at once: one acceptance, one transfer, one answer to a key; never paid and withdrawn."""

import threading

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import DpmarketError, MarketRefusal
from dpmarket.ledger import tables as ledger_tables
from dpmarket.market import tables
from support.live import SOLD, Live

KEY = "0123456789abcdef0123456789abcdef"


def at_once(*calls):
    """Start all calls at the same moment, each in a thread; return results and errors in their order."""
    results, barrier = [None] * len(calls), threading.Barrier(len(calls))

    def run(place, call):
        barrier.wait()
        try:
            results[place] = call()
        except Exception as problem:
            results[place] = problem

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def counted(live, query):
    return live.looked(lambda connection: connection.execute(query).scalar_one())


def transfers_of(live, who):
    return counted(live, sa.select(sa.func.count()).where(ledger_tables.transfer.c.participation == who))


def test_of_50_parallel_accepts_one_succeeds(live):
    who = live.newcomer("a", *SOLD[:3])
    found = at_once(*[lambda: live.accept(who)] * 50)
    assert found.count(None) == 1
    assert {one.kind for one in found if one is not None} == {"state"}
    assert transfers_of(live, who) == 1
    assert live.state(who) == "accepted"


def test_50_parallel_accepts_with_one_key_get_50_same_answers_and_another_body_is_refused(live):
    who = live.newcomer("a", *SOLD[:3])

    def accept(body="accept"):
        with live.acting() as connection:

            def act():
                market.accept(connection, who, live.now)
                return {"state": "accepted", "payment": market.quote_of(connection, who).payment}

            return market.once(connection, who, KEY, {"act": body}, act, live.now)

    found = at_once(*[accept] * 50)
    assert found == [{"state": "accepted", "payment": live.looked(market.quote_of, who).payment}] * 50
    assert accept() == found[0]  # the connection was cut after COMMIT, and it is tried again
    with pytest.raises(MarketRefusal) as refusal:
        accept("another")
    assert refusal.value.kind == "reused"
    events = sa.select(sa.func.count()).where(tables.event.c.kind == "accepted")
    assert counted(live, events) == 1
    assert transfers_of(live, who) == 1


def test_a_refused_act_does_not_use_up_its_key(live):
    who = live.newcomer("a", *SOLD[:2])

    def accept():
        with live.acting() as connection:
            return market.once(
                connection, who, KEY, {}, lambda: market.accept(connection, who, live.now) or {}, live.now
            )

    with pytest.raises(MarketRefusal):
        accept()
    live.choose(who)
    assert accept() == {}
    with pytest.raises(MarketRefusal, match="16 random characters"), live.acting() as connection:
        market.once(connection, who, "short", {}, dict, live.now)


def test_a_key_keeps_no_digest_that_confirms_a_guessed_cost(live):
    who = live.newcomer("a", *SOLD[:2])
    request = {"cost": 2.0}
    with live.acting() as connection:
        market.once(
            connection, who, KEY, request,
            lambda: {"payment": market.choose(connection, who, 2.0, live.now).payment}, live.now,
        )  # fmt: skip
    with live.acting() as connection:
        row = connection.execute(sa.select(tables.idempotency)).one()
    import hashlib

    from dpmarket.ledger.keyed import canonical

    assert row.key != KEY
    assert row.request != hashlib.sha256(canonical(request).encode()).hexdigest()


def test_the_last_seat_goes_to_one_of_many(desk):
    live = Live(desk, seats=3)
    people = [live.newcomer(f"p{k}", "consent") for k in range(12)]
    found = at_once(*[lambda who=who: live.seat(who) for who in people])
    assert sorted(seat.state for seat in found) == ["seated"] * 3 + ["waiting"] * 9
    assert live.balance().available == 0
    waiting = [(seat.place, who) for seat, who in zip(found, people, strict=True) if seat.place]
    assert len(waiting) == 9


def test_seats_choices_and_refusals_side_by_side_never_exceed_escrow(desk):
    live = Live(desk, seats=4)
    people = [live.newcomer(f"p{k}", "consent") for k in range(16)]

    def come(who, leaves):
        if live.seat(who).state == "seated":
            live.choose(who, 2.0)
            (live.decline if leaves else live.accept)(who)

    found = at_once(*[lambda k=k, who=who: come(who, k % 3 == 0) for k, who in enumerate(people)])
    assert [one for one in found if one is not None] == []
    balance = live.balance()
    assert balance.held + balance.available == live.escrow


@pytest.mark.parametrize("turn", range(3))
def test_withdraw_against_debit_is_never_paid_and_withdrawn(desk, turn):
    race(desk, turn)


@pytest.mark.slow
def test_withdraw_against_debit_in_25_races(desk):
    for turn in range(25):
        race(desk, turn)


def race(desk, turn):
    """Let two of four withdraw while the training begins."""
    live = Live(desk, title=f"race {turn}")
    people = [live.newcomer(f"{turn}-{k}", *SOLD, cost=1.5) for k in range(4)]
    live.close()
    found = at_once(live.train, *[lambda who=who: live.withdraw(who) for who in people[:2]])
    assert found[0] == "released"
    payment = live.looked(market.quote_of, people[0]).payment
    left = 0
    for who, answer in zip(people, [*found[1:], None, None], strict=True):
        state = live.state(who)
        if answer == "withdrawn":
            assert state == "withdrawn"
            left += 1
        else:
            assert answer is None or isinstance(answer, DpmarketError) or answer == "no invitations"
            assert state == "spent"
    assert live.balance().owed == (4 - left) * payment


def test_two_workers_do_each_job_once(live):
    for k in range(3):
        live.newcomer(f"p{k}", *SOLD)
    from support.live import DELIVER

    live.now = DELIVER
    found = at_once(*[lambda: market.work(live.desk, live.now)] * 2)
    kinds = sorted(job.kind for jobs in found for job in jobs)
    assert kinds == ["certify", "close", "train"]
    assert live.state() == "released"
