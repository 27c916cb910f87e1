"""Acts of the live desk against bare inserts into the same database, in turns in one run.

A bare insert opens a transaction of the desk, enters one row and commits. Times are medians over sellers who
come one after the other, to an empty ledger and to a used one in turns: a busy disk hits all. Of three
clearings and three bulk inserts the shortest count. On PostgreSQL if the package pgserver is there.
"""

import contextlib
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from _results import Table, at_most, measure, tell
from dpmarket import market
from dpmarket.campaign import check_market
from dpmarket.campaign.decision import Reported, decide_offline
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.engine import new_id
from dpmarket.market import clearing, tables
from dpmarket.market.keys import seal

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SELLERS = 100
BEFORE = 100_000
CLEARED = 100_000
RULES = {
    "sellers": {"expected": 1000},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 0.001, "max_epsilon": 1.0},
    "features": {"age": {"low": 18, "high": 90}},
    "label": {"values": [0, 1]},
}
BARE = sa.Table(
    "bare", sa.MetaData(), sa.Column("id", sa.Text, primary_key=True), sa.Column("amount", sa.BigInteger)
)


def acts():
    rows = []
    for name, new_place in places():
        with desk_at(new_place()) as desk, desk_at(new_place()) as used:
            _, people = opened(desk, "online", SELLERS)
            _, others = opened(used, "online", SELLERS, quotes_before=BEFORE)
            tell(f"{name}, {SELLERS} sellers, and in turns as many after {BEFORE:,} quotes")
            both = [(one_by_one(desk, who), one_by_one(used, other))
                    for who, other in zip(people, others, strict=True)]  # fmt: skip
            times, later = zip(*both, strict=True)
        bare, seat, quote, accept = (median(times, k) for k in range(4))
        bound = 2.0 if name == "SQLite" else 2.5
        ratio = median(later, 2) / median(later, 0) / (quote / bare)
        rows.append(
            [
                name,
                f"{1e3 * bare:.1f} ms",
                f"{seat / bare:.2f}",
                at_most(bound, quote / bare),
                at_most(bound, accept / bare),
                at_most(1.1, ratio),
            ]
        )
    yield Table(
        "Acts of a seller, in bare committed inserts",
        ["database", "insert", "seat", "quote", "accept with a key", f"quote after {BEFORE:,} : after none"],
        rows,
    )


def clearing_all():
    rows = []
    for name, new_place in places():
        with desk_at(new_place()) as desk:
            campaign, _ = opened(desk, "offline", CLEARED)
            tell(f"{name}, opening {CLEARED:,} sealed costs")
            now = NOW + timedelta(days=7)
            found = clearing.begin_clearing(desk, campaign, now)
            start = time.perf_counter()
            sellers, costs = clearing.open_costs(desk, found)
            opening = time.perf_counter() - start
            tell(f"{name}, clearing and bulk inserts in turns")
            times = [cleared(desk, found, sellers, costs, now)]
            for title in ("second", "third"):  # with the same costs, which need not be opened again
                another, people = opened(desk, "offline", CLEARED, title, sealing=as_long)
                found = clearing.begin_clearing(desk, another, now)
                times.append(cleared(desk, found, [(who, who) for who in people], costs, now))
            deciding, entering, bulk = (min(column) for column in zip(*times, strict=True))
        rows.append(
            [
                name,
                f"{opening:.1f} s",
                f"{deciding:.2f} s",
                f"{entering:.1f} s",
                f"{bulk:.1f} s",
                at_most(1.3, (deciding + entering) / bulk),
            ]
        )
    yield Table(
        f"Clearing {CLEARED:,} sellers against the bulk insert of the same rows",
        ["database", "opening sealed costs", "deciding", "entering", "bulk insert", "ratio without opening"],
        rows,
        "The bulk insert enters the same quotes, transfers, events and participations, without their rules.",
    )


def cleared(desk, found, sellers, costs, now):
    """Return the seconds of deciding, of entering the quotes, and of the bulk insert of the same rows."""
    start = time.perf_counter()
    decision = decide_offline(check_market(RULES), Reported(range(costs.size), costs, bytes(16)))
    deciding = time.perf_counter() - start
    start = time.perf_counter()
    with market.acting(desk) as connection:
        clearing.enter_quotes(connection, found, sellers, decision, now)
    return deciding, time.perf_counter() - start, bulk_insert(desk, found.campaign)


def places():
    """Yield the name of each database, and a function that gives the place of a new ledger on it."""
    with tempfile.TemporaryDirectory() as folder:
        yield "SQLite", lambda: Path(folder) / f"{new_id()}.ledger"
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
        try:
            import pgserver
        except ImportError:
            return
        server = pgserver.get_server(folder / "data", cleanup_mode="stop")
        stack.callback(server.cleanup)

        def new_database():
            name = f"ledger_{new_id()}"
            server.psql(f"CREATE DATABASE {name}")
            return server.get_uri(name)

        yield "PostgreSQL", new_database


@contextlib.contextmanager
def desk_at(place):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPMARKET_STATE"] = str(Path(folder) / "state")
        with market.open_desk(place, Path(folder) / "keys") as desk:
            with market.acting(desk) as connection:
                BARE.create(connection)
            yield desk


def opened(desk, mechanism, people, title="first", quotes_before=0, sealing=seal):
    """Open a campaign with people in it, entered in bulk: who reported (offline) or consented (online)."""
    opening = market.plan_opening(check_market(RULES), mechanism)
    schedule = market.Schedule(NOW, NOW + timedelta(days=7), NOW + timedelta(days=9))
    with market.acting(desk) as connection:
        buyer = market.add_member(connection, "buyer", "buyer", NOW)
        text = market.add_consent(connection, "en", market.ENGLISH, NOW)
        draft = market.draft_campaign(
            connection, buyer, title, RULES, mechanism, schedule, consent_version=text, now=NOW
        )
        campaign = draft.campaign
        market.fund_campaign(connection, campaign, 10**10, NOW)
        key = market.new_key(desk.keys, campaign)
        found = market.open_campaign(connection, campaign, opening, key, NOW)
        made = enter_people(connection, found, people, mechanism, key, sealing)
        if quotes_before:
            before = enter_people(connection, found, quotes_before, "quoted", key)
            quotes = [{"participation": who, "epsilon": 0.0, "payment": 0, "made_at": NOW.isoformat()}
                      for who in before]  # fmt: skip
            connection.execute(tables.quote.insert(), quotes)
    return campaign, made


def enter_people(connection, found, number, kind, key, sealing=seal):
    at = NOW.isoformat()
    state = {"online": "consented", "offline": "reported", "quoted": "declined"}[kind]
    ceiling = 0.0 if kind == "quoted" else found.ceiling
    people, participations = [], []
    costs = np.random.default_rng(0).uniform(1, 5, number)
    for k in range(number):
        person, who = new_id(), new_id()
        people.append({"id": person, "cap_epsilon": 100.0, "held_epsilon": ceiling,
                       "made_at": at})  # fmt: skip
        sealed = None
        if kind == "offline":
            sealed = sealing(key, costs[k].tobytes(), "cost", found.campaign, who)
        participations.append({"id": who, "campaign": found.campaign, "person": person, "state": state,
                               "held_epsilon": ceiling, "sealed_cost": sealed, "made_at": at})  # fmt: skip
    connection.execute(tables.person.insert(), people)
    connection.execute(tables.participation.insert(), participations)
    return [row["id"] for row in participations]


def as_long(key, content, *purpose):
    """Return as many bytes as sealing gives, for what need not be opened."""
    return bytes(48 + len(content))


def one_by_one(desk, who):
    """Return the seconds of a bare insert, of a seat, a quote and an acceptance with a key."""
    found = []
    for act in (bare, seat, quote, accept):
        start = time.perf_counter()
        with market.acting(desk) as connection:
            act(connection, who)
        found.append(time.perf_counter() - start)
    return found


def bare(connection, who):
    connection.execute(BARE.insert().values(id=new_id(), amount=1))


def seat(connection, who):
    market.take_seat(connection, who, NOW)


def quote(connection, who):
    market.choose(connection, who, 2.0, NOW)


def accept(connection, who):
    def act():
        market.accept(connection, who, NOW)
        return {"state": "accepted"}

    market.once(connection, who, new_id(), {"act": "accept"}, act, NOW)


def bulk_insert(desk, campaign):
    """Return the seconds of entering the rows that clearing entered once more, in copies of their tables."""
    own = tables.participation.c
    of_campaign = sa.select(own.id).where(own.campaign == campaign)
    copies = sa.MetaData()
    chosen = [
        (tables.quote, tables.quote.c.participation.in_(of_campaign)),
        (ledger_tables.transfer, ledger_tables.transfer.c.participation.in_(of_campaign)),
        (tables.event, tables.event.c.participation.in_(of_campaign)),
        (tables.participation, own.campaign == campaign),
    ]
    with market.acting(desk) as connection:
        found = []
        for table, where in chosen:
            rows = [dict(row._mapping) for row in connection.execute(table.select().where(where))]
            copy = sa.Table(f"copy_{table.name}", copies, *(plain(column) for column in table.columns))
            found.append((copy, rows))
        copies.create_all(connection)
    start = time.perf_counter()
    with market.acting(desk) as connection:
        for copy, rows in found:
            if rows:
                connection.execute(copy.insert(), rows)
    taken = time.perf_counter() - start
    with market.acting(desk) as connection:
        copies.drop_all(connection)
    return taken


def plain(column):
    return sa.Column(column.name, column.type, primary_key=column.primary_key, autoincrement=False)


def median(times, place):
    return statistics.median(row[place] for row in times)


if __name__ == "__main__":
    measure(__file__, acts, clearing_all)
