"""Sellers' acts in time, records in their own place, links, and requests that a worker opens."""

import hashlib
import hmac
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from campaign.live import CLOSES, METHODS, RULES, Live, decoded
from dpmarket.campaign import campaigns, jobs, line, quoting, schema, sellers, training, worker
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.log import canonical
from dpmarket.errors import FileProblem, MarketRefusal


def test_a_quote_is_not_accepted_after_its_time(live):
    me, quote = live.quote("a")
    live.market.clock.now += timedelta(hours=48)
    assert quote.until is not None
    with pytest.raises(MarketRefusal) as refusal:
        live.act(sellers.accept, me)
    assert refusal.value.kind == "expired"


def test_a_sealed_record_in_the_place_of_another_does_not_open(live):
    one, other = live.deliver("a", value=3.0), live.deliver("b", value=5.0)
    column = schema.sealed.c
    with live.market.writing() as c:
        body = c.execute(sa.select(column.body).where(column.participation == one)).scalar_one()
        c.execute(schema.sealed.update().where(column.participation == other).values(body=body))
    read = training.sealed_records(live.market, live.campaign, decoded)
    with live.market.look() as c:
        found = training.sellers_of(c, training.campaign_of(c, live.campaign))
    values = dict(zip(found.get_column("id"), read(found), strict=True))
    assert values == {one: 3.0, other: 0.0}


def test_nobody_holds_more_than_a_lifetime_limit(live):
    me = live.join("a")
    with live.market.writing() as c:
        c.execute(schema.person.update().values(epsilon_cap=schema.person.c.epsilon_held))
    assert live.limits(me).left == 0.0
    live.act(sellers.decline, me)
    assert live.act(sellers.undo, me) == "consented"
    with live.market.writing() as c:
        c.execute(
            schema.person.update().values(epsilon_spent=1, epsilon_cap=schema.person.c.epsilon_held + 1)
        )
    live.act(sellers.decline, me)
    with live.market.writing() as c:
        c.execute(schema.person.update().values(epsilon_cap=schema.person.c.epsilon_spent + 1))
    assert live.act(sellers.undo, me) == "waiting"
    with live.market.writing() as c:
        c.execute(schema.person.update().values(epsilon_spent=0))


def test_a_person_who_is_named_twice_is_invited_once(live):
    (one,) = live.invite("a", "a")
    (again,) = live.market.run(sellers.reissue_links, OWNER, live.campaign, ["a", "a"])
    assert again.participation == one
    assert len(live.invite("b", "a", "c", "b")) == 2


def test_people_are_invited_without_a_group_only_if_a_screening_question_leads_to_one(market):
    """Else nobody could decide about them: no group's table prices them."""
    rules = {**RULES, "groups": {"city": {"quota": 2}, "country": {"quota": 2}}}
    question = {"question": "Do you drive?", "answers": ["yes", "no"]}
    groups = {"groups": {"yes": "city", "no": "country"}}
    sorting = Live(market, name="sorting", rules={**rules, "screening": [question | groups]})
    assert sorting.invite("a")
    other = Live(market, name="other", rules={**rules, "screening": [question | {"accept": ["yes"]}]})
    with pytest.raises(MarketRefusal, match="say which one"):
        other.invite("a")
    assert other.invite("a", group="city")


def test_declining_before_consent_can_be_undone_to_the_invitation(live):
    (me,) = live.invite("a")
    live.act(sellers.decline, me)
    assert live.act(sellers.undo, me) == "invited"
    assert live.state(me) == "invited"


def test_payees_are_opened_by_a_worker_for_the_process_that_asks_and_nobody_else(live, monkeypatch):
    from dpmarket.campaign import payouts

    me = live.deliver("a")
    live.act(sellers.set_payee, me, "canary account")
    live.train()
    made = live.market.run(payouts.pay_out, OWNER, live.campaign)
    monkeypatch.setattr(jobs, "WAIT_SECONDS", 0.2)
    with pytest.raises(FileProblem, match="no worker"):
        jobs.unsealed_payees(live.market, made.id)
    monkeypatch.setattr(jobs, "WAIT_SECONDS", 20.0)
    ended = threading.Event()

    def answer():
        while not ended.wait(0.02):
            worker.work(live.market, METHODS, ("now",))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        assert jobs.unsealed_payees(live.market, made.id) == {me: "canary account"}
    finally:
        ended.set()
        thread.join()
    with live.market.look() as c:
        assert c.execute(sa.select(schema.job.c.id).where(schema.job.c.kind == "unseal")).all() == []


def test_a_campaign_does_not_close_before_records_are_due(live):
    live.deliver("a")
    live.market.clock.now = CLOSES + timedelta(hours=1)
    with pytest.raises(MarketRefusal) as refusal:
        live.work(campaigns.close)
    assert refusal.value.kind == "early"


def test_what_is_stored_of_a_request_confirms_no_guess(live):
    """A plain digest of a request with a cost could be compared with the digests of all costs."""
    me = live.join("a")
    live.act(line.reserve, me)
    live.act(quoting.choose, me, 2.0, key="0123456789abcdef-key")
    request = canonical(["choose", {"cost": 2.0}])
    with live.market.look() as c:
        (stored,) = c.execute(sa.select(schema.idempotency.c.request)).scalars()
    assert stored != hashlib.sha256(request.encode()).hexdigest()
    assert stored == hmac.new(b"0123456789abcdef-key", request.encode(), hashlib.sha256).hexdigest()


def test_a_worker_that_lost_its_job_cannot_end_it(live):
    market = live.market
    market.transact(lambda tx: tx.job("certify", live.campaign, tx.now))
    first = jobs.claim_job(market, ("work",), ("certify",), market.clock())
    market.clock.now += market.terms.job
    second = jobs.claim_job(market, ("work",), ("certify",), market.clock())
    assert second.attempts == 2
    assert not jobs.end_job(market, first)
    assert jobs.end_job(market, second)


def test_a_job_of_which_every_worker_dies_has_failed_in_the_end_and_can_be_retried(live):
    market = live.market
    market.transact(lambda tx: tx.job("certify", live.campaign, tx.now))
    deaths = 0
    while jobs.claim_job(market, ("work",), ("certify",), market.clock()) is not None:
        deaths += 1
        market.clock.now += market.terms.job
    assert deaths == jobs.MOST_DEATHS
    assert market.run(jobs.retry, OWNER) == 1
    assert jobs.claim_job(market, ("work",), ("certify",), market.clock()).attempts == 1
