"""Live campaigns by HTTP, from the draft to the refund: who is offered, paid and certified what."""

import csv
import json
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from outside.driver import ok, run, running_service, until
from outside.goods import GOODS, sellers

BATCH = 4
CENT = 0.01
DAYS_OPEN, DAYS_TO_DELIVER = 7.01, 2.01
MODEL = GOODS["two classes"]
RECORD = MODEL.person(np.random.default_rng(3))[0]


@dataclass
class Sold:
    """A campaign that was released, with everything that its sellers and its buyer saw on the way."""

    campaign: str
    menu: list
    sellers: list
    costs: list
    quotes: list
    payees: list
    funded: int
    others: dict = field(default_factory=dict)
    totals: list = field(default_factory=list)


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("live"), batch=BATCH) as service:
        yield service


@pytest.fixture(scope="module")
def online(market):
    """Thirteen people sell online, and four do not: one withdraws, declines, lapses, never answers."""
    funded = 50_000
    campaign = market.open(MODEL.rules(60), amount=funded)
    ids, costs, people = sellers(MODEL, 17)
    callers = market.invite(campaign, *ids)
    quotes, totals = [], []
    for k, (caller, cost, rows) in enumerate(zip(callers[:13], costs, people, strict=False)):
        caller.consent()
        menu = caller.reserve()["menu"]
        quotes.append(caller.act("choose", cost=cost))
        caller.deliver(rows[0])
        caller.act("set_payee", payee=f"account {k}")
        totals.append(totals_of(market, campaign))
    others = dict(zip(("withdrew", "declined", "lapsed", "silent"), callers[13:], strict=True))
    others["withdrew"].sell(1.5, people[13][0])
    others["withdrew"].act("set_payee", payee="account of somebody who withdrew")
    others["withdrew"].act("withdraw")
    for name in ("declined", "lapsed"):
        others[name].consent()
        others[name].reserve()
        others[name].act("choose", cost=2.0)
        others[name].act("decline" if name == "declined" else "accept")
    market.certified(campaign, days=DAYS_OPEN + DAYS_TO_DELIVER)
    payees = [f"account {k}" for k in range(13)]
    return Sold(campaign, menu, callers[:13], costs[:13], quotes, payees, funded, others, totals)


@pytest.fixture(scope="module")
def offline(market):
    """Twelve people report their costs, are offered all at once, and eleven accept."""
    funded = 15_000
    campaign = market.open(MODEL.rules(12), "offline", amount=funded)
    _, costs, people = sellers(MODEL, 12, seed=1)
    callers = invite(market, campaign, 12)
    for caller, cost in zip(callers, costs, strict=True):
        caller.sell(cost, None, "offline")
    assert {caller.quote()["payment"] for caller in callers} == {None}
    market.ahead(days=DAYS_OPEN)
    market.until_state(campaign, "offered")
    quotes = [caller.quote() for caller in callers]
    assert len({caller.me()["until"] for caller in callers}) == 1
    payees = [f"report {k}" for k in range(12)]
    for k, (caller, rows) in enumerate(zip(callers[:11], people, strict=False)):
        caller.deliver(rows[0])
        caller.act("set_payee", payee=payees[k])
    callers[11].act("decline")
    market.certified(campaign, days=DAYS_TO_DELIVER)
    return Sold(campaign, [], callers, costs, quotes, payees[:11], funded)


def totals_of(market, campaign):
    return json.loads(market.paper(campaign, "sums"))


def invite(market, campaign, number=1):
    """Invite people who take part in no other campaign; return a caller for each."""
    return market.invite(campaign, *(f"{campaign} {k}" for k in range(number)))


def gain(offer, cost):
    """Return what an offer is worth to a seller, in units of money."""
    return offer["payment"] / 100 - cost * offer["epsilon"]


def verified(folder, certificate, *options, receipt=None, code=0, text=None):
    """Run `dpmarket verify` on downloaded files; return the verdicts."""
    folder.mkdir(exist_ok=True)
    (folder / "certificate.json").write_bytes(certificate)
    named = []
    if receipt is not None:
        (folder / "receipt.json").write_bytes(receipt)
        named = ["--receipt", "receipt.json"]
    done = run("verify", "certificate.json", *named, *options, "--json", cwd=folder, code=code, text=text)
    return done.json


# --- prices --------------------------------------------------------------------------------------


def test_nobody_is_offered_less_than_their_cost_times_epsilon(online, offline):
    for sold in (online, offline):
        for cost, quote in zip(sold.costs, sold.quotes, strict=True):
            assert quote["epsilon"] > 0
            assert gain(quote, cost) >= -1e-9
    assert all(gain(line, line["cost"]) >= -1e-9 for line in online.menu)


def test_choosing_by_the_true_cost_is_best_for_each_seller_up_to_a_cent(online):
    for cost, quote in zip(online.costs, online.quotes, strict=True):
        assert max(gain(line, cost) for line in online.menu) <= gain(quote, cost) + CENT + 1e-9
    for own in online.menu:
        best = max(gain(line, own["cost"]) for line in online.menu)
        assert best <= gain(own, own["cost"]) + CENT + 1e-9


def test_a_higher_cost_buys_less_epsilon_for_less_money(online, offline):
    menu = sorted(online.menu, key=lambda line: line["cost"])
    assert all(a["epsilon"] > b["epsilon"] and a["payment"] >= b["payment"] for a, b in pairwise(menu))
    for sold in (online, offline):
        ranked = sorted(zip(sold.costs, sold.quotes, strict=True), key=lambda pair: pair[0])
        assert all(a["epsilon"] >= b["epsilon"] for (_, a), (_, b) in pairwise(ranked))


def test_no_quote_exceeds_the_largest_payment_and_the_epsilon_that_consent_named(market, online):
    told = market.campaign(online.campaign)
    assert max(quote["payment"] for quote in online.quotes) <= told["largest"]
    assert max(quote["epsilon"] for quote in online.quotes) <= told["ceiling"]


def test_a_cost_beyond_the_distribution_gets_no_offer_and_no_money_is_held_for_it(market):
    campaign = market.open(MODEL.rules(60))
    (caller,) = invite(market, campaign)
    answer = caller.sell(1e6, {})
    assert (answer["epsilon"], answer["payment"]) == (0, 0)
    assert not caller.request("POST", "/me/accept").is_success
    assert caller.limits()["held"] == 0


def test_a_posted_price_is_one_offer_for_everybody_whose_cost_it_covers(market):
    good = GOODS["mean"]
    campaign = market.open(good.rules(60, budget=80), "posted")
    costs = [1.0, 1.4, 1.8, 2.2, 4.99]
    callers = invite(market, campaign, 5)
    _, _, people = sellers(good, 5)
    for caller, cost, rows in zip(callers, costs, people, strict=True):
        caller.sell(cost, rows[0])
    quotes = [caller.quote() for caller in callers]
    offers = {(quote["epsilon"], quote["payment"]) for quote in quotes if quote["epsilon"]}
    assert len(offers) == 1
    ((epsilon, payment),) = offers
    price = payment / 100 / epsilon
    for cost, quote in zip(costs, quotes, strict=True):
        assert bool(quote["epsilon"]) == (cost <= price)


# --- money ---------------------------------------------------------------------------------------


def test_the_buyer_sees_sums_over_whole_batches_only(online):
    seen = [(one["acceptances"], one["epsilon"], one["payments"]) for one in online.totals]
    assert {number % BATCH for number, _, _ in seen} == {0}
    assert seen[0] == (0, 0.0, 0)
    assert seen[-1][0] > 0
    assert all(number <= k + 1 for k, (number, _, _) in enumerate(seen))
    for before, after in pairwise(seen):
        assert (before[0] == after[0]) == (before == after)


def test_after_the_release_the_sums_are_those_of_everybody_who_sold(market, online):
    totals = totals_of(market, online.campaign)
    assert totals["counts"]["spent"] == len(online.sellers)
    exact = sum(quote["payment"] for quote in online.quotes)
    assert totals["payments"] == pytest.approx(exact, rel=1e-2)
    assert totals["epsilon"] == pytest.approx(sum(q["epsilon"] for q in online.quotes), rel=1e-2)


def test_money_adds_up_from_escrow_to_payouts_returns_and_the_refund(market, online):
    campaign, due = online.campaign, sum(quote["payment"] for quote in online.quotes)
    assert market.money(campaign) == (due, 0, 0)
    first, again = (market.pay(campaign, "one and the same payout") for _ in range(2))
    assert first == again
    amounts = {line["payee"]: line["amount"] for line in first["lines"]}
    quoted = {payee: q["payment"] for payee, q in zip(online.payees, online.quotes, strict=True)}
    assert amounts == quoted
    assert market.money(campaign) == (0, due, 0)
    back, made = first["lines"][:2], first["lines"][2:]
    assert [market.confirm(campaign, made) for _ in range(2)] == [len(made), 0]
    assert market.confirm(campaign, back, "returned") == 2
    returned = sum(line["amount"] for line in back)
    assert market.money(campaign) == (returned, 0, due - returned)
    second = market.pay(campaign)
    assert sorted(line["payee"] for line in second["lines"]) == sorted(line["payee"] for line in back)
    market.confirm(campaign, second["lines"])
    assert market.money(campaign) == (0, 0, due)
    left = online.funded - due
    assert market.refund(campaign, left + 1).status_code in (402, 409, 422)
    ok(market.refund(campaign, left))
    assert not market.refund(campaign, 1).is_success


def test_escrow_is_never_exceeded_and_a_late_seller_gets_the_place_of_one_who_leaves(market):
    rules = MODEL.rules(60)
    largest = market.campaign(market.open(rules))["largest"]
    campaign = market.open(rules, amount=2 * largest)
    callers = invite(market, campaign, 4)
    for caller in callers:
        caller.consent()
    seats = [caller.reserve() for caller in callers]
    assert [seat["state"] for seat in seats] == ["reserved", "reserved", "waiting", "waiting"]
    assert [seat["place"] for seat in seats[2:]] == [1, 2]
    assert not any(seat["menu"] for seat in seats[2:])
    first, _, third, fourth = callers
    assert not third.request("POST", "/me/choose", {"cost": 1.0}).is_success
    assert first.act("choose", cost=1.0)["payment"] <= largest
    first.act("withdraw")
    until(lambda: third.reserve()["state"] == "reserved", 20)
    assert fourth.me()["state"] == "waiting"


def test_a_campaign_without_money_does_not_open_and_a_draft_gives_its_money_back(market):
    campaign = market.draft(MODEL.rules(60))
    assert market.ask_to_open(campaign).status_code == 402
    ok(market.fund(campaign, 100))
    assert not market.refund(campaign, 101).is_success
    ok(market.refund(campaign, 100))
    assert market.state(campaign) == "draft"
    assert not market.refund(market.open(MODEL.rules(60)), 1).is_success  # not while sellers come


def test_a_campaign_can_be_cancelled_before_a_quote_and_not_after_one(market):
    def cancel(campaign):
        return market.members["buyer"].request("POST", f"/campaigns/{campaign}/cancel")

    free = market.open(MODEL.rules(60), amount=1_000)
    (caller,) = invite(market, free)
    caller.consent()
    ok(cancel(free))
    assert market.state(free) == "cancelled"
    assert not caller.request("POST", "/me/reserve").is_success
    assert caller.limits()["held"] == 0
    ok(market.refund(free, 1_000))

    bound = market.open(MODEL.rules(60))
    (caller,) = invite(market, bound)
    caller.consent()
    caller.reserve()
    caller.act("choose", cost=2.0)
    assert not cancel(bound).is_success
    assert market.state(bound) == "open"


# --- acts, once ----------------------------------------------------------------------------------


def test_the_same_idempotency_key_does_an_act_once(market):
    campaign = market.draft(MODEL.rules(60))
    for _ in range(2):
        ok(market.fund(campaign, 40_000, key="one and the same transfer"))
    assert market.members["buyer"].get(f"/campaigns/{campaign}/money").json()["funded"] == 40_000
    assert market.fund(campaign, 40_001, key="one and the same transfer").status_code == 409
    ok(market.ask_to_open(campaign))
    invited = [
        market.members["operator"].post(
            f"/campaigns/{campaign}/invite", {"ids": ["somebody"]}, key="one and the same list"
        )
        for _ in range(2)
    ]
    assert invited[0] == invited[1]
    assert invited[0][0]["token"]
    caller = market.caller(invited[0][0]["token"])
    caller.consent()
    caller.reserve()
    quotes = [caller.act("choose", key="one and the same quote", cost=1.5) for _ in range(2)]
    assert quotes[0] == quotes[1]
    changed = caller.request("POST", "/me/choose", {"cost": 1.0}, key="one and the same quote")
    assert changed.status_code == 409
    for _ in range(2):
        caller.act("accept", key="one and the same acceptance")
        caller.act("deliver", key="one and the same record", values=RECORD)
    kinds = [event["kind"] for event in caller.get("/me/events").json()]
    assert len(kinds) == len(set(kinds))


def test_an_offer_cannot_be_asked_for_again_with_another_cost(market):
    campaign = market.open(MODEL.rules(60))
    (caller,) = invite(market, campaign)
    caller.consent()
    caller.reserve()
    first = caller.act("choose", cost=4.0)
    assert not caller.request("POST", "/me/choose", {"cost": 1.0}).is_success
    assert not caller.request("POST", "/me/reserve").is_success
    assert caller.quote() == {name: first[name] for name in ("epsilon", "payment")}


# --- people --------------------------------------------------------------------------------------


def test_of_sellers_who_left_nothing_is_used_summed_or_paid(market, online):
    states = {name: caller.me() for name, caller in online.others.items()}
    assert {name: one["state"] for name, one in states.items()} == {
        "withdrew": "withdrawn",
        "declined": "declined",
        "lapsed": "lapsed",
        "silent": states["silent"]["state"],
    }
    limits = [caller.limits() for caller in online.others.values()]
    assert all((one["spent"], one["held"]) == (0, 0) for one in limits)
    market.certified(online.campaign)
    assert online.others["silent"].request("GET", "/me/receipt").status_code == 404
    for name in ("withdrew", "declined", "lapsed"):
        line = online.others[name].get("/me/receipt").json()["line"]
        assert (line["withdrew"], line["used"], line["weight"]) == (True, 0, 0)
    openings = json.loads(market.paper(online.campaign, "openings", "auditor"))
    sold = [pay for pay, left in zip(openings["payment"], openings["withdrew"], strict=True) if not left]
    assert sorted(sold) == sorted(quote["payment"] for quote in online.quotes)
    released = json.loads(market.paper(online.campaign, "released"))
    assert released["records"] == len(online.sellers)
    lines = market.members["paymaster"].get(f"/campaigns/{online.campaign}/money").json()["payouts"]
    for payout in [one["id"] for one in lines] or [market.pay(online.campaign)["payout"]["id"]]:
        lines = market.members["paymaster"].get(f"/payouts/{payout}").json()["lines"]
        assert "account of somebody who withdrew" not in {line["payee"] for line in lines}


def test_leaving_after_the_training_takes_nothing_back_and_costs_no_money(market, online):
    seller, quote = online.sellers[0], online.quotes[0]
    assert not seller.request("POST", "/me/withdraw").is_success
    seller.act("end_invitations")
    assert seller.limits()["spent"] == pytest.approx(quote["epsilon"], abs=1e-6)
    assert seller.get("/me/receipt").is_success


# --- papers --------------------------------------------------------------------------------------


def test_the_certificate_and_every_receipt_verify_with_the_sellers_own_cost(
    market, online, offline, tmp_path
):
    for sold in (online, offline):
        number = len(sold.payees)
        for caller, cost in list(zip(sold.sellers[:number], sold.costs, strict=False))[::4]:
            receipt = caller.get("/me/receipt").content
            found = verified(
                tmp_path, market.certified(sold.campaign), "--ask-cost", receipt=receipt, text=f"{cost}\n"
            )
            assert found["passed"]
            assert "FAILS" not in json.dumps(found)


def test_a_receipt_says_what_was_quoted_and_less_was_spent_than_promised(market, online, offline):
    for sold in (online, offline):
        number = len(sold.payees)
        market.certified(sold.campaign)
        for caller, quote in zip(sold.sellers[:number], sold.quotes[:number], strict=True):
            line = caller.get("/me/receipt").json()["line"]
            assert line["payment"] == quote["payment"]
            assert line["epsilon"] == pytest.approx(quote["epsilon"], rel=1e-9)
            assert 0 < line["used"] <= line["epsilon"]
            # What the account says is rounded up, never down.
            assert line["used"] <= caller.limits()["spent"] <= line["used"] + 1e-8


def test_an_auditor_gets_the_reported_costs_and_openings_that_fit_the_certificate(market, offline, tmp_path):
    told = market.members["auditor"].get(f"/campaigns/{offline.campaign}/costs").text
    assert sorted(float(one["cost"]) for one in csv.DictReader(told.splitlines())) == sorted(offline.costs)
    (tmp_path / "reports.csv").write_text(told, encoding="utf-8")
    (tmp_path / "openings.json").write_bytes(market.paper(offline.campaign, "openings", "auditor"))
    options = ("--openings", "openings.json", "--reports", "reports.csv")
    found = verified(tmp_path, market.certified(offline.campaign), *options)
    assert {one["name"]: one["verdict"] for one in found["checks"]}["every quote"] == "holds"
