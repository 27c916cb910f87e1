"""Who sees what: sums in batches, one's own things, and nothing of others."""

import itertools
import struct

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import LedgerRefusal, MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import tables
from support.live import CLOSES, SOLD, Live

ROLES = ("seller", "buyer", "paymaster", "auditor", "operator")


def seen(live, show, *values):
    """Return what a view shows, None if it does not exist for the caller."""
    try:
        if show in (market.show_openings, market.show_costs):
            return show(live.desk, *values)
        with reading(live.desk.ledger) as connection:
            return show(connection, *values)
    except MarketRefusal as refusal:
        if refusal.kind != "unknown":
            raise
        return None


def test_sums_are_of_whole_batches_and_rounded_and_never_change_by_one_person(desk):
    live = Live(desk, seats=70)
    buyer = market.Caller("buyer", live.buyer)
    shown, payments, people = [], [], []
    for k in range(61):
        who = live.newcomer(f"p{k}", "consent", "seat")
        payments.append(live.choose(who, 1.0 + k / 40).payment)
        live.accept(who)
        people.append(who)
        shown.append(seen(live, market.show_sums, buyer, live.campaign))
    assert [sums.counts["accepted"] for sums in shown] == list(range(1, 62))
    assert [sums.acceptances for sums in shown] == [0] * 39 + [20] * 20 + [40] * 2
    told = [(sums.promised, sums.payments) for sums in shown]
    assert len(set(told)) == 3
    for number, (_, amount) in zip((20, 40), sorted(set(told))[1:], strict=True):
        exact = sum(payments[:number])
        assert amount == float(f"{exact:.3g}")
        assert amount != exact
    live.withdraw(people[3])
    live.withdraw(people[45])
    after = seen(live, market.show_sums, buyer, live.campaign)
    assert (after.promised, after.payments) == told[-1]
    assert after.counts == {"accepted": 59, "withdrawn": 2}


def test_after_the_release_sums_are_of_all_rounded(live):
    people = [live.newcomer(f"p{k}", *SOLD) for k in range(3)]
    live.close()
    live.train()
    sums = seen(live, market.show_sums, market.Caller("buyer", live.buyer), live.campaign)
    assert sums.acceptances == 3
    assert sums.payments == float(f"{3 * live.looked(market.quote_of, people[0]).payment:.3g}")


def test_each_role_sees_its_column_of_the_table_and_others_do_not_exist(desk):
    live, other = Live(desk), Live(desk, title="autumn")
    who, stranger = live.newcomer("a", *SOLD), other.newcomer("b", *SOLD)
    neighbour = live.newcomer("c", *SOLD)
    live.close()
    live.train()
    market.certify_campaign(desk, live.campaign, live.now)
    with live.acting() as connection:
        ids = {role: market.add_member(connection, role, role, live.now) for role in ROLES[2:]}
    callers = {role: market.Caller(role, ids[role]) for role in ids}
    callers["seller"], callers["buyer"] = market.Caller("seller", who), market.Caller("buyer", live.buyer)
    callers["stranger"] = market.Caller("seller", stranger)
    callers["other buyer"] = market.Caller("buyer", other.buyer)
    callers["neighbour"] = market.Caller("seller", neighbour)
    allowed = {
        market.show_campaign: {"seller", "neighbour", "buyer", "auditor", "operator"},
        market.show_sums: {"buyer", "auditor"},
        market.show_model: {"seller", "neighbour", "buyer", "auditor"},
        market.show_certificate: {"seller", "neighbour", "buyer", "auditor"},
        market.show_openings: {"auditor"},
        market.show_quote: {"seller"},
        market.show_standing: {"seller"},
        market.show_history: {"seller"},
        market.show_receipt: {"seller"},
    }
    own = (market.show_quote, market.show_standing, market.show_history, market.show_receipt)
    for show, name in itertools.product(allowed, callers):
        subject = who if show in own else live.campaign
        assert (seen(live, show, callers[name], subject) is not None) == (name in allowed[show]), (show, name)


def test_an_auditor_sees_the_costs_of_an_offline_campaign_and_nobody_else_does(desk):
    live = Live(desk, "offline")
    costs = {live.newcomer(f"p{k}", "consent", "report", cost=1.5 + k / 7): 1.5 + k / 7 for k in range(5)}
    auditor = market.Caller("auditor", "any")
    assert seen(live, market.show_costs, auditor, live.campaign) is None  # not before it is cleared
    live.now = CLOSES
    market.clear(desk, live.campaign, live.now)
    shown = seen(live, market.show_costs, auditor, live.campaign)
    assert dict(shown.rows()) == costs
    who = next(iter(costs))
    for role, name in (("buyer", live.buyer), ("seller", who), ("paymaster", "any"), ("operator", "any")):
        assert seen(live, market.show_costs, market.Caller(role, name), live.campaign) is None
    with reading(desk.ledger) as connection:
        sealed = bytes(connection.execute(sa.select(tables.cleared_costs.c.sealed)).scalar_one())
    assert not any(struct.pack("<d", cost) in sealed for cost in costs.values())
    online = Live(desk, title="online")
    assert seen(online, market.show_costs, auditor, online.campaign) is None


def test_history_tells_what_happened_and_no_value(live):
    who = live.newcomer("a", *SOLD)
    live.close()
    live.train()
    history = seen(live, market.show_history, market.Caller("seller", who), who)
    kinds = ["invited", "consented", "seated", "quoted", "accepted", "delivered", "trained"]
    assert [event.kind for event in history] == kinds


def test_the_paymaster_gets_payee_and_amount_and_confirms_or_returns(live):
    paymaster = market.Caller("paymaster", "somebody")
    people = [live.newcomer(f"p{k}", *SOLD) for k in range(3)]
    operator = market.operator_key(live.desk.keys)
    for k, who in enumerate(people[:2]):
        with live.acting() as connection:
            market.set_payee(connection, who, f"account {k}", operator, live.now)
    live.close()
    with pytest.raises(LedgerRefusal, match="nothing is owed"):
        market.make_payout(live.desk, paymaster, live.campaign, live.now)
    live.train()
    payment = live.looked(market.quote_of, people[0]).payment
    with pytest.raises(MarketRefusal):
        market.make_payout(live.desk, market.Caller("buyer", live.buyer), live.campaign, live.now)
    lines = market.make_payout(live.desk, paymaster, live.campaign, live.now)
    assert sorted(str(line.payee) for line in lines) == ["None", "account 0", "account 1"]
    assert {line.amount for line in lines} == {payment}
    assert "account" not in repr(lines)
    assert market.payout_lines(live.desk, paymaster, live.campaign, 1) == lines
    assert live.balance().on_its_way == 3 * payment
    done = [line.reference for line in lines]
    for _ in range(2):
        market.enter_payments(live.desk, paymaster, live.campaign, "confirmed", done[:2], live.now)
    market.enter_payments(live.desk, paymaster, live.campaign, "returned", done[2:], live.now)
    balance = live.balance()
    assert (balance.paid_out, balance.owed, balance.on_its_way) == (2 * payment, payment, 0)
    (again,) = market.make_payout(live.desk, paymaster, live.campaign, live.now)
    assert again.reference not in done


def test_a_payee_is_not_in_the_file(live, tmp_path):
    who = live.newcomer("a", "consent")
    with live.acting() as connection:
        market.set_payee(connection, who, "DE00 4711 4711", market.operator_key(live.desk.keys), live.now)
    for payee in ("", " ", "x" * 201):
        with pytest.raises(MarketRefusal), live.acting() as connection:
            market.set_payee(connection, who, payee, market.operator_key(live.desk.keys), live.now)
    assert all(b"DE00 4711" not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_who_brings_money_to_an_open_campaign_does_not_learn_what_a_seller_is_paid(live):
    more = live.opening.largest_payment
    with live.acting() as connection:
        assert market.fund_campaign(connection, live.campaign, more, live.now) is None
    live.newcomer("a", *SOLD[:4])
    with live.acting() as connection:
        assert market.fund_campaign(connection, live.campaign, more, live.now) is None
