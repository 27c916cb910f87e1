"""Whatever people do with a campaign, in whatever order: promises, money and spending add up.

A machine of rules: quote, withdraw, train, be killed, pay out, confirm, return, take a snapshot
of the ledger, put an older one back. It keeps its own books, from the files that were written.
"""

import contextlib
import copy
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from dpmarket.campaign import read_quotes, spending
from dpmarket.errors import DpmarketError, LedgerRefusal
from dpmarket.ledger import (
    balance_of,
    charges,
    check_everything,
    open_ledger,
    reading,
    repair,
    rounds,
    tables,
    writing,
)
from dpmarket.privacy import noise
from support.campaigns import HEADER, read_rows, write_rows
from support.desks import Desk, market_text
from support.ledgers import new_database, postgres_server
from support.machines import FAST, run_machine

PEOPLE = [f"person {k}" for k in range(8)]
LIFETIME, BUDGET = (
    1.75,
    25.0,
)  # of a ceiling of 1: room for one open round, and one more after little was spent
CAMPAIGNS = {
    "online": {
        "sellers": {"expected": 8, "lifetime_epsilon": LIFETIME},
        "objective": {"budget": BUDGET, "max_epsilon": 1.0, "concentration": 1.0, "noise": 1.0},
    },
    "offline": {
        "sellers": {"lifetime_epsilon": LIFETIME},
        "objective": {"weight_cap": 4.0, "max_mean_epsilon": 0.25, "concentration": 1.0, "noise": 1.0},
    },
}


ENDS = ["well", "killed after the mark", "killed before the mark", "error"]


class Killed(BaseException):
    """What a kill is to the process that it hits: nothing after it runs."""


class Machine(RuleBasedStateMachine):
    """A ledger with two campaigns, and the machine's own books."""

    place_of = None  # a function that gives a new place
    snapshots = Bundle("snapshots")

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp(dir=FAST))
        os.environ["DPMARKET_STATE"] = str(self.folder / "state")
        self.place = str(type(self).place_of(self.folder))
        # Looked at through one opening: its statements are compiled once. Every rule opens the ledger anew.
        self.opened = contextlib.ExitStack()
        self.ledger = self.opened.enter_context(open_ledger(self.place))
        self.desks = {}
        for name, keys in CAMPAIGNS.items():
            text = market_text(ledger={"campaign": name}, money={"currency": "EUR"}, **keys)
            self.desks[name] = Desk(self.folder / name, sellers=3, market=text, ledger=self.place)
        self.files = 0
        self.books = {}  # identity -> campaign, quotes, withdrawn, state, file
        self.gone = {}  # identity -> who ever withdrew, whatever was restored
        self.drawn = []  # identities for which noise was drawn, each time
        self.original = noise._draw
        noise._draw = self._draw
        self.current = []
        self.most = np.full(len(PEOPLE), LIFETIME)  # what a limit may count for each of them

    def teardown(self):
        if hasattr(self, "folder"):
            noise._draw = self.original
            self.opened.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _draw(self, *arguments):
        self.drawn += self.current
        return self.original(*arguments)

    @rule(
        name=st.sampled_from(sorted(CAMPAIGNS)),
        who=st.sets(st.sampled_from(PEOPLE), min_size=1, max_size=5),
        seed=st.integers(0, 3),
    )
    def quote(self, name, who, seed):
        desk = self.desks[name]
        costs = np.random.default_rng(seed).uniform(1.0, 3.0, len(who)).round(2)
        self.files += 1
        reports, output = f"r{self.files}.csv", f"q{self.files}.csv"
        write_rows(desk / reports, ["seller", "cost"], zip(sorted(who), costs.tolist(), strict=True))
        try:
            found = desk.quote(reports, output, online=name == "online")
        except DpmarketError:
            assert not (desk / output).exists()
            return
        if found.is_new:
            assert found.round.identity not in self.books
            self.books[found.round.identity] = {
                "campaign": name,
                "file": output,
                "quotes": {row[0]: row[1:] for row in read_quotes(desk / output).table.rows()},
                # The same reports after a backup from before them was put back are the same round.
                "withdrawn": set(self.gone.get(found.round.identity, ())),
                "state": "open",
            }
        else:
            assert found.round.identity in self.books

    def _open(self, name):
        return [
            key for key, book in self.books.items() if book["campaign"] == name and book["state"] == "open"
        ]

    @rule(data=st.data(), name=st.sampled_from(sorted(CAMPAIGNS)))
    def withdraw(self, data, name):
        if not self._open(name):
            return
        key = data.draw(st.sampled_from(self._open(name)))
        book = self.books[key]
        seller = data.draw(st.sampled_from(sorted(book["quotes"])))
        try:
            self.desks[name].withdraw(seller, quotes=book["file"])
        except LedgerRefusal:
            return
        book["withdrawn"].add(seller)
        self.gone.setdefault(key, set()).add(seller)

    @rule(
        data=st.data(),
        name=st.sampled_from(sorted(CAMPAIGNS)),
        end=st.sampled_from(ENDS),
    )
    def train(self, data, name, end):
        if not self._open(name):
            return
        chosen = data.draw(st.sets(st.sampled_from(self._open(name)), min_size=1, max_size=3))
        desk, books = self.desks[name], [self.books[key] for key in sorted(chosen)]
        rng = np.random.default_rng(0)
        everybody = sorted({seller for book in books for seller in book["quotes"]})
        records = [(rng.uniform(0, 1e5), seller, 40.0, rng.choice(["no", "yes"])) for seller in everybody]
        write_rows(desk / "data.csv", HEADER, records)
        self.current = sorted(chosen)
        with pytest.MonkeyPatch.context() as patch:
            if end.startswith("killed"):
                patch.setattr(spending, "_give_up", lambda *_: None)
                where = (spending, "_fitted") if "before" in end else (spending, "_by_round")
                patch.setattr(*where, _killed)
            elif end == "error":
                patch.setattr(spending, "_fitted", _failed)
            try:
                desk.train(*(book["file"] for book in books))
                for book in books:
                    book["state"] = "released"
            except Killed:
                if end == "killed after the mark":
                    for book in books:
                        book["state"] = "lost"
            except (DpmarketError, ZeroDivisionError):
                pass
        self.current = []

    @rule(
        name=st.sampled_from(sorted(CAMPAIGNS)), outcome=st.sampled_from(["confirmed", "returned", "waits"])
    )
    def pay(self, name, outcome):
        self.files += 1
        desk, output = self.desks[name], f"p{self.files}.csv"
        try:
            desk.pay(output)
        except DpmarketError:
            assert not (desk / output).exists()
            return
        if outcome != "waits":
            assert desk.enter(output, outcome) == len(read_rows(desk / output))

    @rule(target=snapshots)
    def snapshot(self):
        with reading(self.ledger) as connection:
            rows = {
                table.name: [dict(row._mapping) for row in connection.execute(table.select())]
                for table in tables.metadata.sorted_tables
            }
        return rows, copy.deepcopy(self.books), self.most

    @rule(snapshot=snapshots)
    def restore(self, snapshot):
        rows, books, self.most = snapshot
        with writing(self.ledger) as connection:
            for table in reversed(tables.metadata.sorted_tables):
                connection.execute(table.delete())
            for table in tables.metadata.sorted_tables:
                if rows[table.name]:
                    connection.execute(table.insert(), rows[table.name])
        with open_ledger(self.place) as ledger:
            spent = {key for key, book in self.books.items() if book["state"] in ("released", "lost")}
            forgotten = {key for key in spent if books.get(key, {}).get("state") not in ("released", "lost")}
            if forgotten:
                for desk in self.desks.values():
                    with pytest.raises(LedgerRefusal, match="ledger repair"):
                        desk.pay("nothing.csv")
            assert repair(ledger).rounds == len(forgotten - set(books))
        kept = {key: self.books[key] | {"state": "lost"} for key in forgotten}
        for key, book in copy.deepcopy(books).items():
            self.gone.setdefault(key, set())
            kept.setdefault(key, book | {"withdrawn": book["withdrawn"] | self.gone[key]})
        self.books = kept
        if forgotten:
            # Spent with the newer copy, and promised by this one: a training refuses who would give too much.
            with reading(self.ledger) as connection:
                self.most = np.maximum(LIFETIME, charges(connection, pl.DataFrame({"seller": PEOPLE})))

    @rule(data=st.data(), name=st.sampled_from(sorted(CAMPAIGNS)), end=st.sampled_from(ENDS[:2]))
    def train_and_come_back(self, data, name, end):
        """What a restored backup must not undo."""
        before = self.snapshot()
        self.train(data=data, name=name, end=end)
        self.restore(snapshot=before)

    @invariant()
    def adds_up(self):
        if not hasattr(self, "books"):
            return
        self.count_step()
        # Nobody's promise is spent by two draws of noise, whatever was restored.
        assert len(self.drawn) == len(set(self.drawn))
        with reading(self.ledger) as connection:
            check_everything(connection, self.ledger)
            found = {entered.identity: entered for entered in rounds.rounds_of(connection)}
            for name in CAMPAIGNS:
                self._check_campaign(connection, name, found)
            counted = charges(connection, pl.DataFrame({"seller": PEOPLE}))
            assert (counted <= self.most * (1 + 1e-12)).all()
            given = dict.fromkeys(PEOPLE, 0.0)
            for entered in found.values():
                sellers = rounds.quotes_of(connection, entered.number).get_column("seller")
                for seller, spent in zip(sellers, rounds.spent_of(connection, entered), strict=True):
                    given[seller] += spent
            assert max(given.values()) <= LIFETIME * (1 + 1e-12)

    def _check_campaign(self, connection, name, found):
        books = {key: book for key, book in self.books.items() if book["campaign"] == name}
        campaign = rounds.campaign_named(connection, name)
        own = {key: entered for key, entered in found.items() if campaign and entered.campaign == campaign.id}
        assert set(own) == set(books)
        held = spent = 0
        promised = opened = gone = 0.0
        for key, book in books.items():
            state = own[key].state
            kept = [quote for seller, quote in book["quotes"].items() if seller not in book["withdrawn"]]
            amounts, epsilons = sum(amount for _, amount in kept), sum(epsilon for epsilon, _ in kept)
            promised += epsilons
            if (
                book["state"] == "open"
            ):  # also if a dead process left its debit, which is undone when used next
                assert state in ("open", "debited")
                held, opened = held + amounts, opened + epsilons
            elif state == "marked":  # dead after the mark: ended when used next
                held, gone = held + amounts, gone + epsilons
            else:
                assert state == book["state"]
                spent, gone = spent + amounts, gone + epsilons
                assert rounds.spent_of(connection, own[key]).sum() <= epsilons * (1 + 1e-12)
        assert promised == pytest.approx(opened + gone)
        if campaign is None:
            return
        balance = balance_of(connection, campaign.id)
        assert balance.held == held
        assert balance.owed + balance.on_its_way + balance.paid_out == spent
        assert balance.funded == held + spent + balance.available
        if name == "online":
            assert held + spent <= BUDGET * 100


def _killed(*_, **__):
    raise Killed


def _failed(*_, **__):
    raise ZeroDivisionError


def test_everything_adds_up_whatever_happens():
    assert run_machine(Machine, lambda folder: folder / "people.ledger", examples=5, steps=15) >= 5 * 15


# In parts with examples of their own: whoever wants an answer sooner runs one.
@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_everything_adds_up_whatever_happens_for_long(part):
    assert run_machine(Machine, lambda folder: folder / "people.ledger", 20, 50, part) >= 1000


@pytest.fixture(scope="module")
def address():
    with tempfile.TemporaryDirectory(dir=FAST) as folder, postgres_server(Path(folder)) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_everything_adds_up_whatever_happens_on_postgresql(part, address):
    assert run_machine(Machine, lambda folder: new_database(address), 10, 40, part) >= 400
