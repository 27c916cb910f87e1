"""Seats, quotes, the waiting list: nobody is asked for a cost in vain, and escrow is never exceeded."""

from datetime import timedelta
from fractions import Fraction

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import tables as ledger_tables
from dpmarket.market import tables
from support.live import DELIVER, SOLD, START, Live


def kind_of(refusal):
    return refusal.value.kind


def test_a_seat_holds_the_largest_payment_and_choosing_shrinks_it(live):
    who = live.newcomer("a", "consent")
    assert live.balance().held == 0
    assert live.seat(who).state == "seated"
    assert live.balance().held == live.opening.largest_payment
    quote = live.choose(who, 3.0)
    assert 0 < quote.payment < live.opening.largest_payment
    assert live.balance().held == quote.payment
    live.accept(who)
    assert live.balance().held == quote.payment


def test_payment_covers_the_cost_in_exact_arithmetic(live):
    for k, cost in enumerate((0.0, 1.0, 1.7, 2.9)):
        who = live.newcomer(f"p{k}", "consent", "seat")
        quote = live.choose(who, cost)
        assert Fraction(quote.payment, quote.minor_units) >= Fraction(cost) * Fraction(quote.epsilon)


def test_who_finds_no_room_waits_in_order_and_is_called_when_a_seat_is_free(live):
    seated = [live.newcomer(f"s{k}", "consent", "seat") for k in range(5)]
    first, second = (live.newcomer(name, "consent") for name in ("first", "second"))
    assert [live.seat(who).place for who in (first, second)] == [1, 2]
    assert live.seat(first).place == 1  # asking again is not passing
    live.decline(seated[0])
    assert live.state(first) == "seated"
    assert live.state(second) == "waiting"
    assert live.seat(first).lease_until == (START + timedelta(hours=24)).isoformat()
    newcomer = live.newcomer("new", "consent")
    assert live.seat(newcomer).place == 2
    live.withdraw(seated[1])
    assert [live.state(who) for who in (second, newcomer)] == ["seated", "waiting"]


def test_a_newcomer_does_not_pass_who_waits_even_if_there_is_room_again(live):
    live.newcomer("s", "consent", "seat")
    others = [live.newcomer(f"s{k}", "consent", "seat") for k in range(4)]
    waiting = live.newcomer("w", "consent", "seat")
    with live.acting() as connection:  # room comes from outside, and nobody called
        market.fund_campaign(connection, live.campaign, live.opening.largest_payment, live.now)
    newcomer = live.newcomer("n", "consent")
    assert live.seat(newcomer).state == "waiting"
    assert live.state(waiting) == "seated"
    assert others


def test_a_lease_that_runs_out_gives_the_seat_to_others_and_can_be_taken_again(live):
    sleeper = live.newcomer("sleeper", "consent", "seat")
    for k in range(4):
        live.newcomer(f"s{k}", "consent", "seat", "choose")
    live.now += timedelta(minutes=15)
    with pytest.raises(MarketRefusal) as refusal:
        live.choose(sleeper)
    assert kind_of(refusal) == "expired"
    other = live.newcomer("other", "consent")
    assert live.seat(other).state == "seated"
    assert live.state(sleeper) == "consented"
    assert live.seat(sleeper).state == "waiting"
    live.decline(other)
    assert live.seat(sleeper).state == "seated"
    transfers = live.looked(
        lambda connection: connection.execute(
            sa.select(sa.func.count()).where(ledger_tables.transfer.c.participation == sleeper)
        ).scalar_one()
    )
    assert transfers == 1


def test_who_lets_the_time_of_seats_pass_again_and_again_holds_nobody_up_for_ever(live):
    idle = live.newcomer("idle", "consent", "seat")
    for _ in range(2):
        live.now += timedelta(minutes=15)
        assert live.seat(idle).state == "seated"
        assert live.seat(idle).state == "seated"  # asking again is no other seat
    live.now += timedelta(minutes=15)
    for _ in range(2):
        with pytest.raises(MarketRefusal, match="held 3 times") as refusal:
            live.seat(idle)
        assert kind_of(refusal) == "expired"
    assert live.state(idle) == "seated"  # a refusal changes nothing
    market.sweep(live.desk, live.now)
    assert (live.state(idle), live.limits(idle).held, live.balance().held) == ("expired", 0.0, 0)
    with pytest.raises(MarketRefusal) as refusal:
        live.seat(idle)
    assert kind_of(refusal) == "state"


def test_no_cost_is_asked_for_without_a_seat(live):
    who = live.newcomer("a", "consent")
    for act in (live.choose, lambda one: live.do(market.menu_for, one)):
        with pytest.raises(MarketRefusal, match="seated") as refusal:
            act(who)
        assert kind_of(refusal) == "state"


def test_a_line_of_the_menu_is_the_quote_for_its_cost(live):
    who = live.newcomer("a", "consent", "seat")
    menu = live.do(market.menu_for, who)
    assert len(menu) > 10
    line = menu[len(menu) // 2]
    quote = live.choose(who, line.cost)
    assert (quote.epsilon, quote.payment) == (line.epsilon, line.payment)


def test_a_cost_too_high_is_offered_nothing_and_holds_nothing(live):
    who = live.newcomer("a", "consent", "seat")
    quote = live.choose(who, 100.0)
    assert (quote.epsilon, quote.payment) == (0.0, 0)
    assert live.state(who) == "declined"
    assert live.balance().held == 0
    assert live.limits(who).held == 0.0


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf"), True, "2"])
def test_what_is_no_cost_is_refused_without_being_named(live, cost):
    who = live.newcomer("a", "consent", "seat")
    with pytest.raises(MarketRefusal) as refusal:
        live.choose(who, cost)
    assert kind_of(refusal) == "invalid"
    assert repr(cost) not in str(refusal.value)
    assert live.state(who) == "seated"


def test_a_quote_expires_and_its_money_is_free(live):
    who = live.newcomer("a", "consent", "seat", "choose")
    for late in (48, 1):
        live.now += timedelta(hours=late)
        with pytest.raises(MarketRefusal) as refusal:
            live.accept(who)
        assert kind_of(refusal) == "expired"
    market.sweep(live.desk, live.now)
    assert live.state(who) == "expired"
    assert (live.balance().held, live.limits(who).held) == (0, 0.0)


def test_a_quote_is_accepted_once(live):
    who = live.newcomer("a", "consent", "seat", "choose", "accept")
    for act in (live.accept, live.decline, live.choose):
        with pytest.raises(MarketRefusal) as refusal:
            act(who)
        assert kind_of(refusal) == "state"
    assert live.state(who) == "accepted"


def test_limits_hold_the_ceiling_and_who_has_too_little_left_waits_without_being_asked(live, desk):
    ceiling = live.opening.ceiling
    who = live.newcomer("a", "consent", cap=1.5 * ceiling)
    assert live.limits(who).held == ceiling
    other = Live(desk, title="autumn")
    second = other.newcomer("a", "consent", cap=9.0)  # a known person keeps their limit
    assert other.state(second) == "waiting"
    assert other.seat(second).state == "waiting"
    assert other.limits(second).held == ceiling
    live.withdraw(who)
    assert other.seat(second).state == "seated"
    assert other.limits(second).held == ceiling


def test_nobody_is_invited_twice_and_who_wants_no_more_invitations_gets_none(live, desk):
    who = live.newcomer("a")
    assert live.invite("a") == []
    live.withdraw(who)
    assert live.withdraw(who) == "no invitations"
    assert Live(desk, title="autumn").invite("a", "b") != []
    assert len(Live(desk, title="winter").invite("a", "b")) == 1


def test_withdrawing_frees_everything_at_every_state(live):
    for end in range(len(SOLD) + 1):
        who = live.newcomer(f"p{end}", *SOLD[:end])
        assert live.withdraw(who) == "withdrawn"
        assert live.state(who) == "withdrawn"
        assert (live.balance().held, live.limits(who).held) == (0, 0.0)
    left = live.looked(
        lambda connection: connection.execute(
            sa.select(sa.func.count()).select_from(tables.record)
        ).scalar_one()
    )
    assert left == 0


def test_consent_is_to_the_page_that_was_shown_while_the_campaign_is_open(live):
    (who,) = live.invite("a")
    with pytest.raises(MarketRefusal) as refusal:
        live.do(market.give_consent, who, "0" * 64)
    assert kind_of(refusal) == "invalid"
    live.now = START - timedelta(seconds=1)
    with pytest.raises(MarketRefusal) as refusal:
        live.consent(who)
    assert kind_of(refusal) == "early"
    live.now = DELIVER
    with pytest.raises(MarketRefusal) as refusal:
        live.consent(who)
    assert kind_of(refusal) == "expired"
    live.now = START
    assert live.consent(who) == "consented"


def test_an_unknown_token_and_an_unknown_participation_are_unknown(live):
    with live.acting() as connection:
        (made,) = market.invite(connection, live.campaign, ["a"], 1.0, live.now)
        assert market.participation_with(connection, made.token) == made.participation
        assert made.token not in repr(made)
        for call in (
            lambda: market.participation_with(connection, "x" * 43),
            lambda: market.accept(connection, "0" * 32, live.now),
        ):
            with pytest.raises(MarketRefusal) as refusal:
                call()
            assert kind_of(refusal) == "unknown"


def test_no_cost_and_no_panel_id_is_in_any_table_of_an_online_campaign(live, tmp_path):
    cost = 1.73205080757
    live.newcomer("panel id 4711", "consent", "seat", "choose", "accept", "deliver", cost=cost)
    if live.desk.ledger.path is None:
        pytest.skip("looks into the file")
    import struct

    files = [path for path in tmp_path.iterdir() if path.name.startswith("market.ledger")]
    content = b"".join(path.read_bytes() for path in files)
    assert b"live_campaign" in content
    for canary in (b"panel id 4711", repr(cost).encode(), struct.pack("<d", cost), struct.pack(">d", cost)):
        assert canary not in content
