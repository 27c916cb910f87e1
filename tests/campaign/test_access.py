"""Acts and views by role: what a caller has no role in looks like what does not exist; nothing in clear."""

import pytest

from campaign.live import Live, balanced
from dpmarket.campaign import access, account, checks, payouts, repair, sellers, views
from dpmarket.campaign.acts import ACTS, OWNER, WORKER, Caller
from dpmarket.errors import MarketRefusal

_ = (account, checks, repair)  # whatever registers acts


def member(market, *roles, of=None):
    identity = market.run(access.add_member, OWNER, "somebody")
    for role in roles:
        market.run(access.grant, OWNER, identity, role, of)
    return Caller(member=identity)


def unknown(function, *args, **options):
    with pytest.raises(MarketRefusal) as refusal:
        function(*args, **options)
    return refusal.value.kind, str(refusal.value)


NOTHING = ("unknown", "There is nothing here for this caller.")


def test_a_payout_to_one_seller_tells_the_buyer_nothing(live):
    """The amounts owed before and after it would tell what that seller is paid, and so the seller's cost."""
    market, who = live.market, [live.deliver(f"p{k}", cost) for k, cost in enumerate((1.2, 2.0))]
    buyer, paymaster = member(market, "buyer", of=live.campaign), member(market, "paymaster")
    live.train()
    seen = []
    for me in who:
        live.act(sellers.set_payee, me, "an account")
        market.run(payouts.pay_out, OWNER, live.campaign)
        with market.look() as c:
            seen.append(views.show_money(c, buyer, live.campaign))
            known = views.show_money(c, paymaster, live.campaign)
    assert [one.people for one in known.payouts] == [1, 1]
    assert known.sent == sum(one.amount for one in known.payouts) > 0
    assert [(one.owed, one.sent, one.confirmed, one.payouts) for one in seen] == [(None, None, None, [])] * 2
    assert seen[0].funded == live.escrow
    assert seen[0].refundable == live.escrow - known.sent


def test_every_act_is_refused_alike_to_callers_without_its_role(live):
    market = live.market
    me = live.join("a")
    callers = {role: member(market, role) for role in ("operator", "paymaster", "auditor")}
    callers["buyer"] = member(market, "buyer")  # of another's campaigns
    callers["seller"] = Caller(participation=me)
    callers["worker"], callers["nobody"], callers["owner"] = WORKER, member(market), OWNER
    callers["elsewhere"] = member(
        market, "operator", "paymaster", "buyer", of=Live(market, name="x").campaign
    )
    tried = 0
    for entry in ACTS.values():
        values = dict.fromkeys(entry.body.model_fields)
        for name, caller in callers.items():
            allowed = name in entry.roles and not (name == "buyer" and entry.of_campaign)
            allowed |= name == "owner" and entry.roles != (
                "seller",
            )  # of the files: every role but a seller's
            if allowed:
                continue
            for campaign in (live.campaign, 1):  # there, and not there
                found = _authorized(market, entry, caller, {**values, "campaign": campaign})
                assert found == NOTHING, (entry.name, name)
                tried += 1
    assert tried > 400
    balanced(market)


def _authorized(market, entry, caller, arguments):
    from dpmarket.campaign.acts import authorize

    try:
        market.transact(lambda tx: authorize(tx, entry, caller, arguments))
    except MarketRefusal as refusal:
        return refusal.kind, str(refusal)
    return None


def test_a_role_in_one_campaign_is_none_in_another(live):
    other = Live(live.market, name="other")
    caller = member(live.market, "operator", of=live.campaign)
    live.market.run(sellers.invite, caller, live.campaign, ["a"])
    assert unknown(live.market.run, sellers.invite, caller, other.campaign, ["a"]) == NOTHING
    live.market.run(access.end_member, OWNER, caller.member)
    assert unknown(live.market.run, sellers.invite, caller, live.campaign, ["b"]) == NOTHING


def test_what_other_campaigns_use_of_a_limit_is_told_in_tenths(market):
    rules = {"sellers": {"minimum": 1, "lifetime_epsilon": 10.0, "lifetime_delta": 1e-6}}
    live, other = Live(market, rules=rules), Live(market, name="other", rules=rules)
    me = live.join("a")
    assert live.limits(me) == views.MyLimits(10.0, 2.0, 0.0, 0.0, 8.0)
    other.join("a")
    assert live.limits(me).elsewhere == 2.0
