"""Quotes in files: sellers of a campaign over many files, and rows for those who act by themselves.

A campaign of the channel ``partitions`` has its quotes in Parquet files, which rows of the table
``partition`` name with their digests; what a release spent on everybody is one more file. Everybody in them
is in the state that follows from the campaign's. Sellers who leave, or whose payments came back, have a
participation as in any other campaign, and are no longer counted in the files.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import Caller, act
from dpmarket.campaign.database import UNLIMITED
from dpmarket.campaign.log import digest_of
from dpmarket.campaign.staging import frame
from dpmarket.campaign.transaction import Campaign, Tx, lock_campaign, step
from dpmarket.errors import FileProblem, MarketRefusal

CHANNEL = "partitions"
QUOTES, SPENDING = "quotes", "spending"
_own, _file, _payout = schema.participation.c, schema.partition.c, schema.payout.c
HOLDING = ("open", "offered", "training")
_STATES = {"released": "spent", "failed": "spent", "cancelled": "lapsed"}
_COLUMNS = {"name": pl.String, "epsilon": pl.Float64, "payment": pl.Int64}


@dataclass(frozen=True)
class QuotesFile:
    """One file: where it is, how many people in it sell, their payments in minor units, and its SHA-256."""

    path: str
    people: int
    payments: int
    sha256: str


FilesAsTheyAre = Annotated[list[QuotesFile], pydantic.SkipValidation]


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_of(c: sa.Connection, campaign: int, kind: str = QUOTES) -> list[QuotesFile]:
    """Return a campaign's files of a kind, in their order."""
    query = sa.select(_file.path, _file.people, _file.payments, _file.sha256)
    chosen = query.where(_file.campaign == campaign, _file.kind == kind).order_by(_file.number)
    return [QuotesFile(*row) for row in c.execute(chosen)]


def changed_file(files: Sequence[QuotesFile]) -> str | None:
    """Return the path of the first file that is not there as it was written; None: all are."""
    for one in files:
        if not Path(one.path).is_file() or sha256_of(one.path) != one.sha256:
            return one.path
    return None


def read_files(files: Sequence[QuotesFile]) -> list[pl.DataFrame]:
    """Return the tables of files, or refuse one that is not there as it was written."""
    wrong = changed_file(files)
    if wrong is not None:
        raise FileProblem(f"cannot use {wrong}: it is not there as it was written. Put it back from a copy.")
    return [pl.read_parquet(one.path) for one in files]


def people_in(c: sa.Connection, found: Campaign) -> pl.DataFrame:
    """Return everybody of a campaign's files who has no row, by digest."""
    columns = {"name": pl.nth(0), "epsilon": pl.col("epsilon"), "payment": pl.col("payment_minor_units")}
    tables = [table.select(**columns) for table in read_files(files_of(c, found.id))]
    table = pl.concat(tables) if tables else pl.DataFrame(schema=_COLUMNS)
    spending = read_files(files_of(c, found.id, SPENDING))
    if spending:
        table = table.join(spending[0], on="name", how="left", maintain_order="left")
    else:
        none = pl.lit(None, dtype=pl.Float64)
        table = table.with_columns(used=none, weight=none)
    key = bytes(c.execute(sa.select(schema.market.c.key)).scalar_one())
    digests = people.person_digests(key, table.get_column("name").to_list())
    person = schema.person.c
    query = sa.select(person.digest).join(schema.participation, _own.person == person.id)
    known = [bytes(one) for one in c.execute(query.where(_own.campaign == found.id)).scalars()]
    state = pl.when(pl.col("payment") > 0).then(pl.lit(_STATES.get(found.state, "accepted")))
    named = table.select(
        "name", "epsilon", "payment", "used", "weight", pool=pl.lit("escrow"),
        digest=pl.Series(digests, dtype=pl.Binary), state=state.otherwise(pl.lit("priced_out")),
        since=pl.lit(found.cleared_at or found.made_at),
    )  # fmt: skip
    rows = pl.DataFrame({"digest": pl.Series(known, dtype=pl.Binary)})
    return named.join(rows, on="digest", how="anti").sort("digest")


_PEOPLE: dict[str, Any] = {
    "id": pl.Int64, "name": pl.String, "digest": pl.Binary, "pool": pl.String, "epsilon": pl.Float64,
    "payment": pl.Int64, "epsilon_used": pl.Float64, "weight": pl.Float64, "state": pl.String,
    "since": pl.String,
}  # fmt: skip


def people_of(c: sa.Connection, found: Campaign) -> pl.DataFrame:
    """Return everybody of a campaign by digest; ``id`` is of the participation, none of people in files."""
    person = schema.person.c
    columns = (person[name] if name in ("name", "digest") else _own[name] for name in _PEOPLE)
    query = sa.select(*columns).join(schema.person, _own.person == person.id).order_by(person.digest)
    rows = frame(c, query.where(_own.campaign == found.id), **_PEOPLE).rename({"epsilon_used": "used"})
    if found.channel != CHANNEL:
        return rows
    return pl.concat([rows, people_in(c, found)], how="diagonal").sort("digest")


def rest_of(c: sa.Connection, campaign: int) -> tuple[int, int]:
    """Return the payments of people in files who have no row, and how many of them sell."""
    sums = sa.select(sa.func.sum(_file.payments), sa.func.sum(_file.people))
    amount, number = c.execute(sums.where(_file.campaign == campaign, _file.kind == QUOTES)).one()
    if amount is None:
        return 0, 0
    query = sa.select(sa.func.coalesce(sa.func.sum(_own.payment), 0), sa.func.count())
    paid, sold = c.execute(query.where(_own.campaign == campaign, _own.payment > 0)).one()
    return int(amount) - int(paid), int(number) - int(sold)


def first_payout(c: sa.Connection, campaign: int) -> int | None:
    """Return the payout of everybody in files who has no row; None: they are not paid yet."""
    query = sa.select(_payout.id).where(_payout.campaign == campaign).order_by(_payout.number)
    return c.execute(query).scalar()


def enter_rows(tx: Tx, found: Campaign, digests: Collection[bytes]) -> None:
    """Enter participations of people in files, in the state in which they are; others are left alone."""
    if found.channel != CHANNEL:
        return
    wanted = pl.DataFrame({"digest": pl.Series(list(digests), dtype=pl.Binary)})
    chosen = people_in(tx.c, found).join(wanted, on="digest", how="semi")
    payout = first_payout(tx.c, found.id)
    for row in chosen.iter_rows(named=True):
        sold = row["state"] == "accepted"
        spent = row["state"] == "spent"
        values = {
            "campaign": found.id,
            "person": people.enter_person(tx, row["digest"], row["name"]),
            "state": row["state"],
            "epsilon": row["epsilon"],
            "payment": row["payment"],
            "money_held": row["payment"] if sold else 0,
            "epsilon_used": row["used"],
            "weight": row["weight"],
            "since": row["since"],
            "payout": payout if spent else None,
        }
        tx.c.execute(schema.participation.insert(), values)


@act("worker")  # nobody's over a network: it names files of this machine
def enter_quotes_files(
    tx: Tx, caller: Caller, campaign: int, files: FilesAsTheyAre, offer: str, reports: str
) -> None:
    """Enter files of quotes that are accepted by everybody in them, and hold their payments."""
    found = lock_campaign(tx, campaign)
    if found.state != "open" or found.channel != CHANNEL:
        raise MarketRefusal("state", "Files of quotes are entered once, while the campaign is open.")
    _put(tx, campaign, QUOTES, files)
    amount, number = rest_of(tx.c, campaign)
    if found.self_funded:
        money.enter_funds(tx, campaign, money.ESCROW, amount)
    if not money.hold(tx, campaign, money.ESCROW, amount, number):
        raise MarketRefusal("funds", "Escrow has less than these quotes come to; fund the campaign.")
    facts = {"reports_digest": reports, "cleared_at": tx.now}
    if found.mechanism == "offline":
        facts |= {"state": "offered", "offer": offer, "offer_digest": digest_of(offer)}
    step(tx, campaign, ("open",), **facts)
    tx.event(campaign, "imported")


def enter_spending(tx: Tx, found: Campaign, table: pl.DataFrame) -> None:
    """Write what a release spent on everybody beside the quotes, and enter the file."""
    first = files_of(tx.c, found.id)[0]
    path = Path(first.path).parent / "spending" / f"{found.id}.parquet"
    path.parent.mkdir(exist_ok=True)
    table.write_parquet(path)
    _put(tx, found.id, SPENDING, [QuotesFile(str(path), table.height, 0, sha256_of(path))])


def _put(tx: Tx, campaign: int, kind: str, files: Sequence[QuotesFile]) -> None:
    rows = [
        {"campaign": campaign, "number": k, "kind": kind, "path": one.path, "people": one.people,
         "payments": one.payments, "sha256": one.sha256}
        for k, one in enumerate(files)
    ]  # fmt: skip
    tx.c.execute(schema.partition.insert(), rows)


def pay_rest(tx: Tx, found: Campaign) -> None:
    """Convert the payments held for sellers in files into payments owed."""
    if found.channel == CHANNEL and found.state in HOLDING:
        amount, _ = rest_of(tx.c, found.id)
        if amount:
            money.pay_held(tx, found.id, money.ESCROW, amount, f"pay/{found.id}/files")


def void_rest(tx: Tx, found: Campaign) -> None:
    """Free what is held for people in files."""
    if found.channel == CHANNEL and found.state in HOLDING:
        money.void(tx, found.id, money.ESCROW, *rest_of(tx.c, found.id))


NO_ACCOUNTS = (
    "A campaign over many files keeps no lifetime accounts: leave out sellers.lifetime_epsilon, in a "
    "database in which no campaign has one."
)


def refuse_limits(tx: Tx) -> None:
    """Refuse lifetime limits beside campaigns over many files, whose sellers have no accounts."""
    limits = tx.c.execute(sa.select(schema.market.c.cap, schema.market.c.delta_cap)).one()
    of = schema.campaign.c
    many = tx.c.scalar(sa.select(of.id).where(of.channel == CHANNEL).limit(1))
    if many is not None and tuple(limits) != (UNLIMITED, UNLIMITED):
        raise MarketRefusal("limit", NO_ACCOUNTS)


def refuse_channel(found: Campaign, channel: str) -> None:
    """Refuse to train a campaign over many files from one file, and the other way round."""
    if found.channel != channel:
        how = (
            "over many files: train it with --dask"
            if channel == "file"
            else "from one file: leave out --dask"
        )
        raise MarketRefusal("state", f"This campaign was quoted from {how}.")
