"""A campaign from draft to payout, live and from files; and what is refused on the way."""

import struct

import numpy as np
import pytest
import sqlalchemy as sa

from campaign.live import (
    CLOSES,
    DELIVER,
    METHODS,
    SCHEDULE,
    Live,
    balanced,
    file_campaign,
    half_price,
    import_reports,
    release,
    reports,
)
from dpmarket.campaign import account, campaigns, line, payouts, quoting, schema, sellers, training, worker
from dpmarket.campaign.acts import OWNER, WORKER
from dpmarket.campaign.checks import findings
from dpmarket.campaign.database import open_market
from dpmarket.campaign.partitions import people_of
from dpmarket.campaign.people import epsilon_units
from dpmarket.campaign.release import LastMoment
from dpmarket.campaign.seal import has_key
from dpmarket.campaign.transaction import campaign_of
from dpmarket.campaign.views import show_campaign, show_money
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.mechanisms import posted_price

IBAN = "DE89 3704 0044 0532 0130 00"


def money(live):
    with live.market.look() as c:
        return show_money(c, OWNER, live.campaign)


def refused(kind, function, *args, **options):
    with pytest.raises(MarketRefusal) as refusal:
        function(*args, **options)
    assert refusal.value.kind == kind
    return str(refusal.value)


def test_a_campaign_that_nobodys_lifetime_limit_has_room_for_is_not_opened(market):
    """Everybody would wait for ever."""
    file_campaign(market, lifetime_epsilon=2.0, ceiling=2.0)
    said = refused("invalid", file_campaign, market, name="second", ceiling=2.5)
    assert "limit of 2 has room for an epsilon of 2.5" in said


def test_a_live_campaign_ends_with_a_release_and_its_sellers_paid(live):
    who = [live.deliver(f"p{k}", cost, 2.0) for k, cost in enumerate((1.0, 2.0))]
    lapsed = live.accept("p2")
    document = live.train()
    assert struct.unpack("<d", document) == (4.0,)
    assert [live.state(one) for one in (*who, lapsed)] == ["spent", "spent", "lapsed"]
    assert live.campaign_state() == "released"
    assert live.train() == document  # a second training hands out the same
    epsilons, amounts = SCHEDULE.quote([1.0, 2.0])
    found = money(live)
    assert (found.owed, found.missing_payees) == (round(100 * amounts.sum()), 2)
    assert found.refundable == live.escrow - found.owed
    assert live.shown(who[0]).epsilon_used == 0.5 * epsilons[0]
    balanced(live.market)


def test_nobody_is_paid_without_a_payee_and_references_survive(live):
    who = [live.deliver(f"p{k}") for k in range(2)]
    live.train()
    refused("state", live.market.run, payouts.pay_out, OWNER, live.campaign)
    refused("invalid", live.act, sellers.set_payee, who[0], IBAN[:-1] + "1")
    live.act(sellers.set_payee, who[0], IBAN)
    made = live.market.run(payouts.pay_out, OWNER, live.campaign)
    assert (made.people, made.number) == (1, 1)
    refused("state", live.act, sellers.set_payee, who[0], IBAN)
    lines = payouts.payout_lines(live.market, made.id)
    (reference,) = lines.get_column("reference")
    assert live.market.run(payouts.confirm, OWNER, live.campaign, [reference]) == 1
    assert live.market.run(payouts.confirm, OWNER, live.campaign, [reference]) == 0
    assert live.market.run(payouts.returned, OWNER, live.campaign, [reference]) == 1
    assert live.market.run(payouts.returned, OWNER, live.campaign, [reference]) == 0
    balanced(live.market)
    refused("state", live.market.run, payouts.confirm, OWNER, live.campaign, [reference])
    live.act(sellers.set_payee, who[1], IBAN)
    again = live.market.run(payouts.pay_out, OWNER, live.campaign)
    assert again.people == 2
    assert reference not in payouts.payout_lines(live.market, again.id).get_column("reference")
    balanced(live.market)
    refused("invalid", live.market.run, payouts.confirm, OWNER, live.campaign, ["A" * 24])


def test_room_is_given_in_order_before_any_report(market, clock):
    live = Live(market, places=1)
    first, second, third = (live.join(name) for name in ("a", "b", "c"))
    assert live.act(line.reserve, first).state == "reserved"
    assert live.act(line.reserve, second).place == 1
    assert live.act(line.reserve, third).place == 2
    refused("state", live.act, quoting.choose, second, 1.0)
    live.act(sellers.withdraw, first)
    assert live.act(line.reserve, third).state == "waiting"  # the first in line comes first
    assert live.act(line.reserve, second).state == "reserved"
    clock.now += market.terms.reservation
    assert live.act(line.reserve, third).state == "reserved"  # the reservation before it has ended
    balanced(market)


def test_whether_there_is_room_depends_on_no_report(market):
    """With money for two largest payments, the third seller waits, however little the first two ask for."""
    for k, cost in enumerate((1.0, 2.9, 3.5)):
        live = Live(market, places=2, name=f"c{k}")
        first = live.join(f"a{k}")
        live.act(line.reserve, first)
        live.act(line.reserve, live.join(f"b{k}"))
        third = live.join(f"c{k}")
        assert live.act(line.reserve, third).state == "waiting"
        live.act(quoting.choose, first, cost)
        assert live.state(third) == "waiting"


def test_three_reservations_that_end_unused_end_the_participation(live, clock):
    me = live.join("a")
    for _ in range(3):
        assert live.act(line.reserve, me).state == "reserved"
        clock.now += live.market.terms.reservation
    assert live.act(line.reserve, me).state == "expired"
    assert live.state(me) == "expired"
    balanced(live.market)


def test_sellers_priced_out_are_not_those_who_declined_and_declining_can_be_undone(live):
    out, quote = live.quote("a", cost=3.5)
    assert (quote.epsilon, quote.payment) == (0.0, 0)
    no, _ = live.quote("b")
    live.act(sellers.decline, no)
    assert (live.state(out), live.state(no)) == ("priced_out", "declined")
    refused("state", live.act, sellers.undo, out)
    assert live.act(sellers.undo, no) == "consented"
    assert live.act(line.reserve, no).state == "reserved"
    balanced(live.market)


def key_of(live):
    with live.market.look() as c:
        return campaign_of(c, live.campaign).public_key


def test_a_debt_is_paid_before_sellers_are_asked_for_anything(market, clock):
    live = Live(market, "offline", escrow=100)
    who = [live.join(f"p{k}") for k in range(2)]
    for me in who:
        live.act(quoting.report, me, 1.0)
    clock.now = CLOSES
    worker.work(market, METHODS)
    with market.look() as c:
        debt = show_campaign(c, OWNER, live.campaign).debt
    assert debt >= 700
    quote = live.shown(who[0])
    refused("state", live.act, sellers.accept, who[0])
    clock.now += DELIVER - CLOSES
    market.run(campaigns.fund, OWNER, live.campaign, debt)
    assert live.campaign_state() == "offered"
    live.act(sellers.accept, who[0])  # the time moved with the buyer
    now = live.shown(who[0])
    assert (now.epsilon, now.payment) == (quote.epsilon, quote.payment)
    balanced(market)


def test_an_unpaid_campaign_that_everybody_left_ends(market, clock):
    live = Live(market, "offline", escrow=100)
    me = live.join("a")
    live.act(quoting.report, me, 1.0)
    clock.now = CLOSES
    worker.work(market, METHODS)
    live.act(sellers.withdraw, me)
    worker.work(market, METHODS)
    assert live.campaign_state() == "cancelled"
    balanced(market)


@pytest.mark.parametrize("mechanism", ["online", "offline"])
def test_with_fewer_people_than_the_minimum_a_campaign_is_cancelled_and_everything_freed(
    market, clock, mechanism
):
    live = Live(market, mechanism, rules={"sellers": {"minimum": 3}})
    if mechanism == "online":
        enough = Live(market, name="enough", rules={"sellers": {"minimum": 2}})
        for one in (live, enough):
            one.quote("a"), one.quote("b", 3.5)  # who was priced out counts
    else:
        live.act(quoting.report, live.join("a"), 1.0)
    clock.now = CLOSES
    worker.work(market, METHODS)
    assert live.campaign_state() == "cancelled"
    assert mechanism == "offline" or enough.campaign_state() == "open"
    assert money(live).refundable == live.escrow
    balanced(market)
    market.run(campaigns.refund, OWNER, live.campaign, live.escrow)
    refused("funds", market.run, campaigns.refund, OWNER, live.campaign, 1)
    balanced(market)


@pytest.mark.parametrize("problem", [Infeasible, "nothing"])
def test_clearing_that_finds_nothing_to_buy_never_hangs(market, clock, problem):
    live = Live(market, "offline")
    live.act(quoting.report, live.join("a"), 1.0)

    def decide(frozen):
        if problem == "nothing":
            return quoting.Decision(np.zeros(1), np.zeros(1, dtype=np.int64), {})
        raise problem("no")

    clock.now = CLOSES
    live.work(campaigns.end_reports)
    assert quoting.clear_campaign(market, live.campaign, decide) == "cancelled"
    with market.look() as c:
        assert show_campaign(c, OWNER, live.campaign).reason in ("infeasible", "nothing")
    balanced(market)


def test_everybody_is_decided_about_again_if_a_seller_withdraws_while_a_campaign_clears(market, clock):
    """Else a certificate would lack one of the sellers whose reports decided."""
    live = Live(market, "offline", escrow=10_000)
    who = [live.join(f"p{k}") for k in range(3)]
    for me in who:
        live.act(quoting.report, me, 2.0)
    decided = []

    def decide(frozen):
        if not decided:
            live.act(sellers.withdraw, who[0])
        decided.append(len(frozen.names))
        return half_price(frozen)

    clock.now = CLOSES
    live.work(campaigns.end_reports)
    assert quoting.clear_campaign(market, live.campaign, decide) == "offered"
    assert decided == [3, 2]
    assert [live.state(one) for one in who] == ["withdrawn", "quoted", "quoted"]
    with market.look() as c:
        assert people_of(c, campaign_of(c, live.campaign)).get_column("epsilon").count() == 2
    balanced(market)


def test_the_quota_of_a_draft_is_the_one_of_its_last_rules(market):
    def plan(quota):
        rules = {"groups": {"night": {"quota": quota}}}
        return campaigns.Draft(name="x", channel="file", mechanism="offline", rules=rules)

    campaign = market.run(campaigns.draft, OWNER, plan(1))
    market.run(campaigns.edit, OWNER, campaign, plan(3))
    account = schema.account.c
    with market.look() as c:
        quotas = c.execute(sa.select(account.quota).where(account.name == "escrow/night")).all()
    assert quotas == [(3,)]


def test_a_lifetime_limit_counts_over_live_and_file_campaigns_and_library_models(market):
    rules = {"sellers": {"minimum": 1, "lifetime_epsilon": 4.5, "lifetime_delta": 0.9}, "record_bytes": 8}
    live = Live(market, rules=rules)
    live.join("person 0")
    survey = file_campaign(market)
    table = import_reports(market, OWNER, survey, reports([1.0, 1.0]), half_price)
    assert table.sort("id").get_column("state").to_list() == ["accepted", "accepted"]
    models = account.MarketAccount(market)
    with pytest.raises(Infeasible):
        models.charge(["person 0", "person 1"], [1.0, 1.0])
    balanced(market)
    models.charge(["person 0", "person 1"], [0.5, 1.0], delta=0.1)
    third = file_campaign(market, "third")
    table = import_reports(market, OWNER, third, reports([1.0, 1.0, 1.0]), half_price)
    assert table.sort("id").get_column("state").to_list() == ["excluded", "excluded", "accepted"]
    balanced(market)
    other = Live(market, name="other", rules=rules)
    (me,) = other.invite("person 0")
    assert other.consent(me) == "waiting"
    live.market.run(sellers.withdraw_people, OWNER, live.campaign, ["person 0"])
    assert other.act(line.reserve, me).state == "reserved"
    balanced(market)


def test_people_of_many_files_have_no_accounts_so_that_nothing_names_a_limit_beside_them(market):
    plan = campaigns.Draft(name="many", channel="partitions", mechanism="offline", rules={}, self_funded=True)
    campaign = market.run(campaigns.draft, OWNER, plan)
    market.run(campaigns.open_, OWNER, campaign, campaigns.Opening(ceiling=1.0))
    with pytest.raises(MarketRefusal, match="no lifetime accounts"):
        account.MarketAccount(market, limit=3.0)
    limited = plan.model_copy(update={"name": "limited", "channel": "file"})
    limited.rules["sellers"] = {"lifetime_epsilon": 3.0}
    second, opening = market.run(campaigns.draft, OWNER, limited), campaigns.Opening(ceiling=1.0)
    assert "accounts" in refused("limit", market.run, campaigns.open_, OWNER, second, opening)


def test_a_distance_too_small_for_an_epsilon_is_charged_its_delta(market):
    models = account.MarketAccount(market, limit=1.0, delta_limit=2.5e-5)
    for _ in range(2):
        models.charge(["ann", "bob"], mus=[1e-5, 0.0], delta=1e-5)
    with pytest.raises(Infeasible, match="1 people"):
        models.charge(["ann", "bob"], mus=[1e-5, 1e-5], delta=1e-5)
    models.charge(["bob"], mus=[1e-5], delta=1e-5)
    assert (models.left(["ann", "bob"]) == [1.0 - 2.0**-29, 1.0 - 2.0**-30]).all()
    balanced(market)


@pytest.mark.parametrize("mechanism", ["online", "offline"])
def test_a_file_of_reports_gives_what_acts_one_by_one_give(market, clock, mechanism):
    costs = np.linspace(1.0, 3.4, 9)
    live = Live(market, mechanism, places=20)
    who = []
    for k, cost in enumerate(costs):
        if mechanism == "online":
            who.append(live.quote(f"person {k}", cost)[0])
        else:
            who.append(live.join(f"person {k}"))
            live.act(quoting.report, who[-1], cost)
    if mechanism == "offline":
        clock.now = CLOSES
        worker.work(market, METHODS)
    survey = file_campaign(market, mechanism=mechanism)
    quotes = import_reports(market, OWNER, survey, reports(costs), half_price).sort("id")
    mine = [live.shown(one) for one in who]
    assert quotes.get_column("epsilon").to_list() == [one.epsilon for one in mine]
    assert quotes.get_column("payment").to_list() == [one.payment for one in mine]
    balanced(market)


def test_a_training_that_is_refused_before_noise_returns_everything(live):
    me = live.deliver("a")

    def broken(sellers_):
        raise Infeasible("no")

    with pytest.raises(Infeasible):
        live.train(read=broken)
    assert (live.campaign_state(), live.state(me)) == ("closed", "delivered")
    balanced(live.market)
    live.work(campaigns.refuse_training)
    assert (live.campaign_state(), live.state(me)) == ("failed", "spent")
    assert money(live).owed == 250
    balanced(live.market)
    assert live.limits(me).held == 0.0


def test_a_training_that_fails_after_noise_spends_the_promise_and_pays(live):
    me = live.deliver("a")

    def broken(records, epsilons, before_noise):
        before_noise()
        raise Infeasible("after noise")

    with pytest.raises(Infeasible):
        live.train(broken)
    assert (live.campaign_state(), live.state(me)) == ("failed", "spent")
    assert live.limits(me).spent == 1.0
    balanced(live.market)


def test_a_release_that_spends_more_than_was_promised_counts_as_failed(live):
    live.deliver("a")

    def greedy(records, epsilons, before_noise):
        before_noise()
        return training.Result(b"", 1.01 * epsilons, epsilons)

    refused("invalid", live.train, greedy)
    assert live.campaign_state() == "failed"
    balanced(live.market)


def test_the_commit_point_is_passed_in_the_moment_before_noise():
    passed = []
    LastMoment(lambda: passed.append(1)).bits()
    assert passed == [1]


def test_noise_is_drawn_after_the_line_is_shipped_and_the_key_destroyed(live):
    live.deliver("a")
    seen = []

    def look(records, epsilons, before_noise):
        before_noise()
        there = has_key(live.market.keys, str(live.campaign), key_of(live))
        seen.append((live.market.log.last().content["kind"], there))
        return release(records, epsilons, before_noise)

    live.train(look)
    assert seen == [("spend", False)]


def test_no_noise_is_drawn_when_the_log_cannot_be_written(live, monkeypatch):
    live.deliver("a")
    live.close()
    drawn = []

    def full(pending):
        raise FileProblem("the disk is full.")

    monkeypatch.setattr(live.market.log, "append", full)
    with pytest.raises(FileProblem):
        live.train(lambda *given: (given[2](), drawn.append(1)))
    monkeypatch.undo()
    assert drawn == []
    assert live.campaign_state() == "closed"
    assert has_key(live.market.keys, str(live.campaign), key_of(live))
    balanced(live.market)
    live.train()  # the lines are shipped by the next act
    kinds = [one.content["kind"] for one in live.market.log.lines()]
    assert kinds == ["begun", "spend", "return", "spend"]


def test_a_campaign_whose_key_is_missing_for_a_day_ends_and_its_sellers_are_paid(live, clock):
    me, other = live.deliver("a"), live.accept("b")
    for path in live.market.keys.glob(f"{live.campaign}-*.key"):
        path.unlink()
    worker.work(live.market, METHODS)
    assert live.campaign_state() == "open"
    assert next(findings(live.market)).kind == "keys"
    clock.now += live.market.terms.key
    worker.work(live.market, METHODS)
    assert (live.campaign_state(), live.state(me), live.state(other)) == ("failed", "spent", "lapsed")
    balanced(live.market)


def test_the_operators_key_is_never_made_twice(live):
    (path,) = live.market.keys.glob("operator-*.key")
    path.rename(path.with_suffix(".gone"))
    worker.work(live.market, METHODS)
    assert list(live.market.keys.glob("operator-*.key")) == []
    assert "operator" in next(findings(live.market)).found


def test_nobody_withdraws_while_the_training_runs_or_after_it(live):
    me = live.deliver("a")
    live.close()
    live.market.run(training.debit, WORKER, live.campaign, "a" * 32)
    refused("state", live.act, sellers.withdraw, me)
    refused("state", live.market.run, sellers.withdraw_people, OWNER, live.campaign, ["a"])
    assert training.recover(live.market) == [(live.campaign, "returned")]
    live.act(sellers.withdraw, me)
    worker.work(live.market, METHODS)
    assert live.campaign_state() == "cancelled"
    balanced(live.market)


def test_amounts_round_up_and_nothing_stays_nothing():
    for epsilon, price, amount in ((1e-9, 1e-9, 1), (0.5, 2.468, 124), (1.0, 2.5, 250)):
        amounts = quoting.priced(posted_price(price, epsilon), np.array([1e-9, 3.0]), 100)[1]
        assert amounts.tolist() == [amount, 0]
    assert quoting.priced(SCHEDULE, np.array([2.0]), 100)[1].tolist() == [250]


def test_the_folder_of_logs_is_for_its_owner_alone(tmp_path):
    with open_market(tmp_path / "market.db", tmp_path / "state", make=True) as market:
        market.ship()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state", market.log.folder)} == {0o700}


def test_a_charge_rounds_up():
    assert epsilon_units(2.0**-30) == 1
    assert epsilon_units(np.nextafter(2.0**-30, 1)) == 2
