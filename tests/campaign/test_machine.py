"""Whatever sellers, buyers and workers do, in whatever order: money, epsilon and states add up.

A machine of rules with an online, an offline and a file campaign that share people, and records of its own:
quotes that sellers were shown, payments that were handed out, people who are spent. The books are checked
after every act. On SQLite the database is put back from a backup now and then, and repaired.
"""

import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from campaign.live import (
    CLOSES,
    DELIVER,
    LARGEST,
    METHODS,
    NOW,
    RULES,
    Clock,
    Live,
    copy_of,
    file_campaign,
    half_price,
    import_reports,
    opened,
    reports,
)
from dpmarket.campaign import campaigns, line, payouts, quoting, schema, sellers, training, worker
from dpmarket.campaign.acts import OWNER, WORKER
from dpmarket.campaign.checks import books
from dpmarket.campaign.database import is_address
from dpmarket.campaign.people import person_digest
from dpmarket.campaign.repair import back_up, repair
from dpmarket.campaign.transaction import campaign_of
from dpmarket.errors import MarketRefusal

# No power is cut here: where there is a disk in memory, its files are flushed at once.
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
IDS = [f"person {k}" for k in range(5)]
LIVE = ("online", "offline")
costs = st.sampled_from([1.0, 1.6, 2.0, 2.9, 3.5])
LIMITED = {**RULES, "sellers": {"expected": 5, "minimum": 1, "lifetime_epsilon": 5.0, "lifetime_delta": 1e-8}}


def make_market(place, folder):
    """Make a market with an online, an offline and a file campaign."""
    market = opened(place, folder)
    lives = {
        "online": Live(market, "online", places=2, name="online", rules=LIMITED),
        "offline": Live(market, "offline", escrow=500, name="offline", rules=LIMITED),
    }
    survey = file_campaign(market, mechanism="online")
    return market, {name: live.campaign for name, live in lives.items()}, survey


reached = set()
"""States in which live campaigns were found by the machine."""


class Machine(RuleBasedStateMachine):
    """A market and the machine's own records of it."""

    acts = 0
    place_of = None  # gives the place of a new market in a folder, and its campaigns

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(dir=FAST))
        self.clock = Clock()
        self.place, ids, self.survey = type(self).place_of(self.folder)
        self.market = opened(self.place, self.folder, self.clock, make=False)
        self.lives = {}
        for name, campaign in ids.items():
            live = Live.__new__(Live)
            live.market, live.campaign = self.market, campaign
            self.lives[name] = live
        self.mine = {name: {} for name in LIVE}
        self.shown, self.spent, self.handed_out, self.came_back = {}, set(), set(), set()
        self.saved = None

    def teardown(self):
        if hasattr(self, "folder"):
            self.market.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def attempt(self, function, *args):
        """Do an act; return its answer, or None if it is refused: then nothing has changed."""
        before = self.everything()
        type(self).acts += 1
        try:
            answer = function(*args)
            return answer if isinstance(answer, training.Sellers) else answer or True
        except MarketRefusal:
            assert self.everything() == before
            return None

    def everything(self):
        with self.market.look() as c:
            tables = ("participation", "person", "campaign", "account")
            return [c.exec_driver_sql(f"SELECT * FROM {name} ORDER BY 1, 2").all() for name in tables]

    @invariant()
    def the_books_balance(self):
        if not hasattr(self, "market"):
            return
        with self.market.look() as c:
            assert books(c) == []
            reached.update(campaign_of(c, live.campaign).state for live in self.lives.values())
            own = schema.participation.c
            query = sa.select(
                own.id, own.campaign, schema.person.c.digest, own.state, own.epsilon, own.payment
            )
            rows = c.execute(query.join(schema.person, schema.person.c.id == own.person)).all()
        now = {(row.campaign, row.digest) for row in rows if row.state == "spent"}
        assert self.spent <= now  # nobody is unspent
        self.spent = now
        for row in rows:
            if row.state in ("quoted", "accepted", "delivered", "spent") and row.id in self.shown:
                assert (row.epsilon, row.payment) == self.shown[row.id]

    @rule(
        name=st.sampled_from(LIVE),
        people=st.sets(st.sampled_from(IDS), min_size=1),
        steps=st.integers(1, 7),
        cost=costs,
    )
    def go_on(self, name, people, steps, cost):
        """Take some people some steps further on the usual way."""
        for who in sorted(people):
            for _ in range(steps):
                if not self.step(name, who, cost):
                    break

    @rule(name=st.sampled_from(LIVE), steps=st.integers(4, 7), cost=costs)
    def go_on_together(self, name, steps, cost):
        self.go_on(name, set(IDS), steps, cost)

    def step(self, name, who, cost):
        """Take somebody one step further; return whether there is one."""
        live, me = self.lives[name], self.mine[name].get(who)
        if me is None:
            made = self.attempt(live.invite, who)
            if isinstance(made, list) and made:
                (self.mine[name][who],) = made
            return True
        enter = (live.act, line.reserve, me) if name == "online" else (live.act, quoting.report, me, cost)
        steps = {
            "invited": (live.consent, me),
            "consented": enter,
            "waiting": enter,
            "reserved": (live.act, quoting.choose, me, cost),
            "quoted": (live.act, sellers.accept, me),
            "accepted": (live.act, sellers.deliver, me, bytes(8)),
            "spent": (live.act, sellers.set_payee, me, "account"),
        }
        state = live.state(me)
        if state not in steps:
            return False
        answer = self.attempt(*steps[state])
        if isinstance(answer, quoting.Quote) and answer.payment:
            self.shown[me] = (answer.epsilon, answer.payment)
        return True

    @rule(
        name=st.sampled_from(LIVE),
        who=st.sampled_from(IDS),
        act=st.sampled_from([sellers.accept, sellers.decline, sellers.undo, sellers.withdraw, line.reserve]),
    )
    def act(self, name, who, act):
        me = self.mine[name].get(who)
        if me is not None:
            self.attempt(self.lives[name].act, act, me)

    @rule(minutes=st.sampled_from([1, 16, 60 * 25]))
    def wait(self, minutes):
        self.clock.now = min(self.clock.now + timedelta(minutes=minutes), NOW + timedelta(days=90))

    @rule(until=st.sampled_from([None, None, CLOSES, DELIVER]))
    def work(self, until):
        """A worker runs, perhaps once a campaign's next term has come."""
        states = {live.state(me) for name, live in self.lives.items() for me in self.mine[name].values()}
        if not states & {"reported", "quoted", "accepted", "delivered"}:
            until = None  # nobody has come so far: a campaign that ends now tells little
        self.clock.now = max(self.clock.now, until or self.clock.now)
        type(self).acts += 1
        worker.work(self.market, METHODS)
        if until is not None:
            self.the_books_balance()
            worker.work(self.market, METHODS)

    @rule(cost=costs)
    def finish(self, cost):
        """Take everybody as far as they come, to the end of both campaigns."""
        for term in (CLOSES, DELIVER, DELIVER + timedelta(days=14)):
            self.go_on("online", set(IDS), 7, cost)
            self.go_on("offline", set(IDS), 7, cost)
            self.clock.now = max(self.clock.now, term)
            worker.work(self.market, METHODS)
            self.the_books_balance()

    @rule(
        name=st.sampled_from(LIVE),
        act=st.sampled_from([campaigns.fund, campaigns.fund, campaigns.refund, campaigns.cancel]),
        amount=st.sampled_from([100, LARGEST, 5 * LARGEST]),
    )
    def buyer(self, name, act, amount):
        values = [] if act is campaigns.cancel else [amount]
        self.attempt(self.market.run, act, OWNER, self.lives[name].campaign, *values)

    @rule(who=st.sampled_from(IDS), number=st.integers(0, 5), cost=costs)
    def survey_file(self, who, number, cost):
        """Quote a file, or take somebody out of it."""
        if number == 0:
            self.attempt(self.market.run, sellers.withdraw_people, OWNER, self.survey, [who])
            return
        table = reports([cost] * number)
        self.attempt(lambda: import_reports(self.market, OWNER, self.survey, table, half_price).height)

    @rule(far=st.sampled_from(["debit", "commit"]))
    def die_while_training(self, far):
        """A trainer dies after the debit, or after the commit point."""
        campaign, attempt = self.survey, "d" * 31 + far[0]
        self.market.run(campaigns.cancel_deserted, WORKER, campaign)
        sold = self.attempt(self.market.run, training.debit, WORKER, campaign, attempt)
        if sold is None:
            return
        if far == "commit":
            self.market.run(training.commit, WORKER, campaign, attempt, sold)
        with self.market.look() as c:
            assert books(c) == []
        assert training.recover(self.market) == [(campaign, "returned" if far == "debit" else "failed")]
        if far == "commit":
            with self.market.look() as c:
                own = schema.participation.c
                rows = c.execute(
                    sa.select(own.state).where(own.id.in_(sold.get_column("id").to_list()))
                ).scalars()
                assert set(rows) == {"spent"}
        if far == "debit":  # its name is used up
            with self.market.writing() as c:
                c.execute(schema.attempt.delete().where(schema.attempt.c.id == attempt))

    @rule(name=st.sampled_from([*LIVE, "survey"]), act=st.sampled_from([payouts.confirm, payouts.returned]))
    def pay(self, name, act):
        campaign = self.survey if name == "survey" else self.lives[name].campaign
        made = self.attempt(self.market.run, payouts.pay_out, OWNER, campaign)
        if made is not None:
            lines = set(payouts.payout_lines(self.market, made.id).get_column("reference"))
            assert not lines & self.handed_out  # no payment is handed out twice
            self.handed_out |= lines

        self.the_books_balance()
        for reference in sorted(self.handed_out)[:2]:
            self.attempt(self.market.run, act, OWNER, campaign, [reference])

    @rule(put_back=st.booleans())
    def backup(self, put_back):
        """Make a backup, or put it back and repair."""
        if isinstance(self.place, str):
            return
        if self.saved is None:
            self.saved = self.folder / "backup.db"
            back_up(self.place, self.saved)
            return
        if not put_back:
            return
        self.market.close()
        for end in ("-wal", "-shm"):
            self.place.with_name(self.place.name + end).unlink(missing_ok=True)
        shutil.move(self.saved, self.place)
        self.saved = None
        repair(self.place, self.folder / "state", self.folder / "keys")
        self.market = opened(self.place, self.folder, self.clock, make=False)
        key = self.market.key
        names = {person_digest(key, who): who for who in IDS}
        own, person = schema.participation.c, schema.person.c
        for name, live in self.lives.items():
            live.market = self.market
            query = sa.select(own.id, person.digest).join(schema.person, person.id == own.person)
            with self.market.look() as c:
                rows = c.execute(query.where(own.campaign == live.campaign)).all()
            self.mine[name] = {names[bytes(digest)]: me for me, digest in rows}
        self.shown = {}


def run(place, folder, server, examples, steps, part=0):
    """Run the machine, each time in a copy of the same market; return how many acts it did.

    It does the same every time. A long run can be done in parts: the examples of each follow from its name.
    """
    market, ids, survey = make_market(place, folder)
    market.close()
    place_of = staticmethod(lambda new: (copy_of(place, folder, new, server), ids, survey))
    machine = type(f"Run{part}", (Machine,), {"place_of": place_of, "acts": 0})
    how = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
    how = settings(max_examples=examples, stateful_step_count=steps, **how)
    run_state_machine_as_test(machine, settings=how, _min_steps=steps)
    return machine.acts


def test_a_thousand_acts_balance(tmp_path):
    """Which states come up follows from the machine's text, as its examples do: until all did."""
    wanted, acts = {"offered", "unpaid", "released", "cancelled"}, 0
    for part in range(5):
        folder = tmp_path / str(part)
        folder.mkdir()
        acts += run(folder / "market.db", folder, None, 20, 20, part)
        if reached >= wanted:
            break
    assert acts > 1000
    assert reached >= wanted, reached


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_acts_balance(place, tmp_path, request, part):
    server = request.getfixturevalue("server") if is_address(place) else None
    assert run(place, tmp_path, server, 60, 25, part + (10 if server else 1)) > 2500
