"""A live desk with a campaign, a clock of its own, and acts with their usual names."""

import functools
from datetime import UTC, datetime, timedelta

from dpmarket import market
from dpmarket.campaign import check_market as checked_market
from dpmarket.ledger import balance_of, check_everything, reading

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
CLOSES, DELIVER = START + timedelta(days=7), START + timedelta(days=9)
RECORD = {"age": 41, "income": 2.5e4, "bought": "yes"}
MARKET = {
    "sellers": {"expected": 30},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 0.005, "concentration": 1.0, "noise": 1.0, "max_epsilon": 1.0},
    "money": {"currency": "EUR"},
    "features": {"age": {"low": 18, "high": 90}, "income": {"low": 0, "high": 1e5}},
    "label": {"column": "bought", "values": ["no", "yes"]},
}
ASKED = {
    **{table: MARKET[table] for table in ("sellers", "costs", "objective", "money")},
    "statistics": {
        "age": {"kind": "mean", "column": "age", "low": 18, "high": 90, "share": 2},
        "median": {"kind": "quantile", "column": "age", "low": 0, "high": 120, "steps": 24},
        "way": {"kind": "histogram", "column": "way", "categories": ["bus", "car", "train"]},
        "member": {"kind": "share", "column": "member"},
        "place": {"kind": "vector_mean", "columns": ["east", "north"], "bound": 2.0},
    },
}
"""A market that asks for five statistics in place of a model."""
ANSWERS = {"age": 41, "way": "car", "member": True, "east": 0.5, "north": -1.0}


@functools.cache
def opening(mechanism):
    """Plan the usual market once in a process."""
    return market.plan_opening(checked_market(MARKET), mechanism)


@functools.cache
def opening_asked(mechanism):
    """Plan the usual market of statistics once in a process."""
    return market.plan_opening(checked_market(ASKED), mechanism)


def opening_of(rules, mechanism):
    if rules is ASKED:
        return opening_asked(mechanism)
    return opening(mechanism) if rules is MARKET else market.plan_opening(checked_market(rules), mechanism)


class Live:
    """A desk with one open campaign; every act is a transaction of its own, at the desk's clock."""

    def __init__(self, desk, mechanism="online", seats=5, title="spring", escrow=None, rules=MARKET):
        self.desk, self.now = desk, START
        self.record = ANSWERS if rules is ASKED else RECORD
        self.opening = opening_of(rules, mechanism)
        with self.acting() as connection:
            self.buyer = market.add_member(connection, "A buyer", "buyer", self.now)
            version = market.add_consent(connection, "en", market.ENGLISH, self.now)
            schedule = market.Schedule(START, CLOSES, DELIVER)
            drafted = market.draft_campaign(
                connection,
                self.buyer,
                title,
                rules,
                mechanism,
                schedule,
                consent_version=version,
                now=self.now,
            )
            self.campaign = drafted.campaign
            largest = self.opening.largest_payment
            self.escrow = escrow or (self.opening.escrow if largest is None else seats * largest)
            market.fund_campaign(connection, self.campaign, self.escrow, self.now)
            key = market.new_key(desk.keys, self.campaign)
            market.open_campaign(connection, self.campaign, self.opening, key, self.now)
            self.page = market.consent_page(connection, self.campaign)

    def acting(self):
        return market.acting(self.desk)

    def invite(self, *panel_ids, cap=5.0):
        """Invite people; return their participations."""
        with self.acting() as connection:
            made = market.invite(connection, self.campaign, panel_ids, cap, self.now)
        return [invitation.participation for invitation in made]

    def do(self, act, participation, *values):
        with self.acting() as connection:
            return act(connection, participation, *values, self.now)

    def consent(self, participation):
        return self.do(market.give_consent, participation, self.page.digest)

    def seat(self, participation):
        return self.do(market.take_seat, participation)

    def choose(self, participation, cost=2.0):
        return self.do(market.choose, participation, cost)

    def report(self, participation, cost=2.0):
        return self.do(market.report_cost, participation, cost)

    def accept(self, participation):
        return self.do(market.accept, participation)

    def decline(self, participation):
        return self.do(market.decline, participation)

    def deliver(self, participation, record=None):
        return self.do(market.deliver, participation, record or self.record)

    def withdraw(self, participation):
        return self.do(market.withdraw_participation, participation)

    def newcomer(self, name, *steps, cost=2.0, cap=5.0):
        """Invite somebody and take them through steps by name; return the participation."""
        (who,) = self.invite(name, cap=cap)
        self.steps(who, *steps, cost=cost)
        return who

    def steps(self, who, *steps, cost=2.0):
        for step in steps:
            act = getattr(self, step)
            act(who, cost) if step in ("choose", "report") else act(who)

    def close(self):
        self.now = max(self.now, DELIVER)
        with self.acting() as connection:
            return market.close_campaign(connection, self.campaign, self.now)

    def train(self):
        return market.train_campaign(self.desk, self.campaign, self.now)

    def looked(self, look, *values):
        """Return what a function of a connection says, after all books were checked."""
        with reading(self.desk.ledger) as connection:
            check_everything(connection, self.desk.ledger)
            market.check_market(connection)
            return look(connection, *values)

    def state(self, who=None):
        if who is None:
            return self.looked(market.campaign_of, self.campaign).state
        return self.looked(
            lambda connection: market.show_standing(connection, market.Caller("seller", who), who).state
        )

    def balance(self):
        return self.looked(balance_of, self.campaign)

    def limits(self, who):
        def look(connection):
            person = market.show_standing(connection, market.Caller("seller", who), who).person
            return market.limits_of(connection, person)

        return self.looked(look)


SOLD = ("consent", "seat", "choose", "accept", "deliver")
