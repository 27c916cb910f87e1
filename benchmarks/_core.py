"""Acts of the campaign core against bare committed inserts into the same database, in turns in one run.

A bare insert opens a transaction of the market, enters one row and commits. Times are medians over sellers
who come one after the other. A file of a million reports is quoted, trained and paid out once. On PostgreSQL
if the package pgserver is there.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import sqlalchemy as sa

from _results import Table, at_most, measure, tell

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from campaign.live import SCHEDULE, half_price, import_reports
from dpmarket.campaign import campaigns, line, payouts, quoting, sellers, training, worker
from dpmarket.campaign.acts import OWNER, Caller
from dpmarket.campaign.consent import consent_page
from dpmarket.campaign.database import open_market
from dpmarket.campaign.transaction import campaign_of

SELLERS = 150
PEOPLE = int(os.environ.get("DPMARKET_PEOPLE", "1000000"))
BARE = sa.Table(
    "bare", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("amount", sa.BigInteger)
)


def acts():
    rows = []
    for name, new_place in places():
        with (
            tempfile.TemporaryDirectory(dir=".") as folder,
            open_market(new_place(Path(folder)), Path(folder, "s"), Path(folder, "k"), make=True) as market,
        ):
            tell(f"{name}, {SELLERS} sellers")
            times = [one_by_one(market, me) for me in prepared(market)]
        bare, reserve, choose, accept = (statistics.median(row[k] for row in times) for k in range(4))
        bound = 2.0 if name == "SQLite" else 2.5
        rows.append(
            [
                name,
                f"{1e3 * bare:.2f} ms",
                f"{reserve / bare:.2f}",
                at_most(bound, choose / bare),
                at_most(bound, accept / bare),
            ]
        )
    yield Table(
        "Acts of a seller, in bare committed inserts",
        ["database", "insert", "reserve", "quote", "accept with a key"],
        rows,
    )


def prepared(market):
    now = datetime.now(UTC)
    plan = campaigns.Draft(
        name="spring",
        rules={},
        opens_at=now - timedelta(hours=1),
        closes_at=now + timedelta(days=1),
        deliver_until=now + timedelta(days=2),
    )
    campaign = market.run(campaigns.draft, OWNER, plan)
    worker.keep_keys(market)
    worker.make_key(market, campaign)
    market.run(campaigns.fund, OWNER, campaign, SELLERS * 400)
    opening = campaigns.Opening(offer={"escrow": SCHEDULE.to_dict()}, largest=400, ceiling=2.0)
    market.run(campaigns.open_, OWNER, campaign, opening)
    made = market.run(sellers.invite, OWNER, campaign, [f"seller {k}" for k in range(SELLERS)])
    with market.writing() as c:
        BARE.create(c)
    for one in made:
        me = one.participation
        with market.look() as c:
            page = consent_page(c, campaign_of(c, campaign), "en").page
        market.run(sellers.consent, Caller(participation=me), page)
        yield me


def one_by_one(market, me):
    caller = Caller(participation=me)
    return [
        timed(lambda: bare(market, me)),
        timed(lambda: market.run(line.reserve, caller)),
        timed(lambda: market.run(quoting.choose, caller, 2.0)),
        timed(lambda: market.run(sellers.accept, caller, key=f"idempotency key {me}")),
    ]


def bare(market, number):
    with market.writing() as c:
        c.execute(BARE.insert(), {"id": number, "amount": number})


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def files():
    rows = []
    for name, new_place in places():
        tell(f"{name}, {PEOPLE:,} reports")
        with (
            tempfile.TemporaryDirectory(dir=".") as folder,
            open_market(new_place(Path(folder)), Path(folder, "s"), make=True) as market,
        ):
            rows.append([name, *(f"{seconds * 1e6 / PEOPLE:.1f} s" for seconds in one_file(market))])
    yield Table(
        "A file of a million reports, in seconds",
        ["database", "quote", "train", "payout"],
        rows,
        "SQLite: processor time; PostgreSQL: the server works, so the time of the clock.",
    )


def one_file(market):
    clock = time.process_time if market.is_file else time.perf_counter
    plan = campaigns.Draft(name="s", channel="file", mechanism="offline", rules={}, self_funded=True)
    campaign = market.run(campaigns.draft, OWNER, plan)
    market.run(campaigns.open_, OWNER, campaign, campaigns.Opening(ceiling=2.0))
    random = np.random.default_rng(0)
    table = pl.DataFrame({"id": [f"person {k}" for k in range(PEOPLE)], "cost": random.uniform(1, 3, PEOPLE)})
    steps = [clock()]
    import_reports(market, OWNER, campaign, table, half_price)
    steps.append(clock())

    def release(records, epsilons, before_noise):
        before_noise()
        return training.Result(b"", 0.9 * epsilons, epsilons)

    training.train(market, campaign, lambda sellers: None, release)
    steps.append(clock())
    market.run(payouts.pay_out, OWNER, campaign)
    steps.append(clock())
    return np.diff(steps)


def places():
    yield "SQLite", lambda folder: folder / "market.db"
    with contextlib.suppress(ImportError):
        from support.databases import new_database, postgres_server

        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            with postgres_server(Path(folder)) as address:
                yield "PostgreSQL", lambda _: new_database(address)


if __name__ == "__main__":
    wanted = sys.argv[1:] or ("acts", "files")
    measure(__file__, *(one for one in (acts, files) if one.__name__ in wanted))
