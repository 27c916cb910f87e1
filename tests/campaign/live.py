"""A market to act in: a clock that stands still, people, and campaigns with a simple price schedule."""

import shutil
import struct
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import campaigns, line, quoting, sellers, training, worker
from dpmarket.campaign.acts import OWNER, WORKER, Caller
from dpmarket.campaign.checks import books
from dpmarket.campaign.consent import consent_page
from dpmarket.campaign.database import is_address, open_market
from dpmarket.campaign.partitions import people_of
from dpmarket.campaign.transaction import campaign_of
from dpmarket.campaign.views import show_limits, show_participation
from dpmarket.mechanisms.price_schedule import PriceSchedule
from support.databases import new_database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLOSES, DELIVER = NOW + timedelta(days=7), NOW + timedelta(days=14)
SCHEDULE = PriceSchedule([1.0, 3.0], [2.0, 0.0])  # largest payment 4.00, largest epsilon 2
LARGEST, CEILING = 400, 2.0
RULES = {"sellers": {"expected": 50, "minimum": 1}, "record_bytes": 8}


class Clock:
    """Tells a time that tests move."""

    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


def opened(place, folder, clock=None, make=True):
    """Open a market with its state and keys in a folder, and a clock of its own."""
    market = open_market(place, folder / "state", folder / "keys", make=make)
    market.clock = clock or Clock()
    return market


def copy_of(place, template, folder, server=None):
    """Copy a market, its log and its keys; its place in the log stays the same. Return the new place."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return (
        new_database(server, like=sa.make_url(place).database) if is_address(place) else folder / place.name
    )


def half_price(reports):
    """An offline mechanism: the schedule applied to every report."""
    epsilons, amounts = quoting.priced(SCHEDULE, reports.costs, 100)
    return quoting.Decision(epsilons, amounts, {"schedule": SCHEDULE.to_dict()})


def release(records, epsilons, before_noise):
    """Draw no noise: the document is the sum of the records, and everybody spends half of the promise."""
    before_noise()
    document = struct.pack("<d", float(sum(records)))
    return training.Result(document, 0.5 * epsilons, np.full(epsilons.size, 0.1))


def import_reports(market, caller, campaign, table, decide):
    """Quote everybody in a table of reports, and enter that they accept; return everybody's quotes."""
    market.run(quoting.import_reports, caller, campaign, table, decide)
    with market.look() as c:
        return quoting.quotes_in(people_of(c, campaign_of(c, campaign)))


def state_of(market, campaign):
    with market.look() as c:
        return campaign_of(c, campaign).state


def decoded(rows):
    """Turn opened records into numbers; what does not open is the public zero."""
    return [0.0 if row is None else struct.unpack("<d", row)[0] for row in rows]


METHODS = worker.Methods(
    decide=lambda market, campaign: half_price,
    records=lambda market, campaign: training.sealed_records(market, campaign.id, decoded),
    release=lambda campaign: release,
)


class Live:
    """One live campaign and acts in it."""

    def __init__(
        self, market, mechanism="online", places=3, name="spring", escrow=None, rules=RULES, allot=None
    ):
        self.market = market
        plan = campaigns.Draft(
            name=name, mechanism=mechanism, rules=rules, opens_at=NOW, closes_at=CLOSES, deliver_until=DELIVER
        )
        self.campaign = market.run(campaigns.draft, OWNER, plan)
        worker.keep_keys(market)
        worker.make_key(market, self.campaign)
        self.escrow = places * LARGEST if escrow is None else escrow
        if self.escrow:
            market.run(campaigns.fund, OWNER, self.campaign, self.escrow)
        offer = {"escrow": SCHEDULE.to_dict()} if mechanism != "offline" else None
        largest = None if offer is None else LARGEST
        limits = {"ceiling": CEILING, "delta": 1e-9}
        opening = campaigns.Opening(offer=offer, largest=largest, allot=allot or {}, **limits)
        market.run(campaigns.open_, OWNER, self.campaign, opening)

    def act(self, function, participation, *args, **options):
        return self.market.run(function, Caller(participation=participation), *args, **options)

    def work(self, function, *args):
        return self.market.run(function, WORKER, self.campaign, *args)

    def invite(self, *ids, group=None):
        made = self.market.run(sellers.invite, OWNER, self.campaign, list(ids), group)
        return [one.participation for one in made]

    def page(self, participation):
        with self.market.look() as c:
            return consent_page(c, campaign_of(c, self.campaign), "en").page

    def consent(self, participation):
        return self.act(sellers.consent, participation, self.page(participation))

    def join(self, name, group=None):
        (participation,) = self.invite(name, group=group)
        assert self.consent(participation) == "consented"
        return participation

    def quote(self, name, cost=2.0, group=None):
        participation = self.join(name, group)
        assert self.act(line.reserve, participation).state == "reserved"
        return participation, self.act(quoting.choose, participation, cost)

    def accept(self, name, cost=2.0, group=None):
        participation, _ = self.quote(name, cost, group)
        self.act(sellers.accept, participation)
        return participation

    def deliver(self, name, cost=2.0, value=1.0, group=None):
        participation = self.accept(name, cost, group)
        self.act(sellers.deliver, participation, struct.pack("<d", value))
        return participation

    def shown(self, participation):
        with self.market.look() as c:
            return show_participation(c, Caller(participation=participation))

    def state(self, participation):
        return self.shown(participation).state

    def limits(self, participation):
        with self.market.look() as c:
            return show_limits(c, Caller(participation=participation))

    def campaign_state(self):
        return state_of(self.market, self.campaign)

    def close(self):
        self.market.clock.now = DELIVER
        self.work(campaigns.close)

    def train(self, fit=release, read=None):
        self.close()
        read = read or training.sealed_records(self.market, self.campaign, decoded)
        return training.train(self.market, self.campaign, read, fit)


def balanced(market):
    """Assert that the books balance."""
    with market.look() as c:
        assert books(c) == []


def file_campaign(market, name="survey", mechanism="offline", ceiling=CEILING, minimum=1, **more):
    """Draft and open a campaign of files."""
    rules = {"sellers": {"minimum": minimum, **more}}
    plan = campaigns.Draft(name=name, channel="file", mechanism=mechanism, rules=rules, self_funded=True)
    campaign = market.run(campaigns.draft, OWNER, plan)
    offer = {"escrow": SCHEDULE.to_dict()} if mechanism != "offline" else None
    opening = campaigns.Opening(offer=offer, largest=offer and LARGEST, ceiling=ceiling)
    market.run(campaigns.open_, OWNER, campaign, opening)
    return campaign


def reports(costs, prefix="person"):
    return pl.DataFrame({"id": [f"{prefix} {k}" for k in range(len(costs))], "cost": list(map(float, costs))})
