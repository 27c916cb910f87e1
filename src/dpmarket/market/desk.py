"""Turn a ledger's place and a folder of keys into an open desk; :func:`acting` leads to its rows.

The desk's tables lie in the ledger's database, with a version of their own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from dpmarket.errors import FileProblem, InvalidInput, LedgerRefusal, MarketRefusal
from dpmarket.ledger import Connection, Ledger, open_ledger, settle, writing
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.preparing import refuse_other
from dpmarket.ledger.waits import waiting
from dpmarket.market import tables
from dpmarket.market.wrapping import wrap_folder


@dataclass(frozen=True)
class Terms:
    """How long things last.

    Attributes
    ----------
    seat
        How long money for any choice is set aside for somebody who is at the menu.
    called_seat
        The same for somebody who is called from the waiting list, and may be asleep.
    seats
        How often money is set aside for one person who lets its time pass without choosing.
    quote
        How long a quote can be accepted, online.
    job
        After how long without a sign a worker is taken for dead.
    batch
        Buyers see sums over whole batches of so many acceptances.
    """

    seat: timedelta = timedelta(minutes=15)
    called_seat: timedelta = timedelta(hours=24)
    seats: int = 3
    quote: timedelta = timedelta(hours=48)
    job: timedelta = timedelta(minutes=10)
    batch: int = 20

    def seat_until(self, now: datetime) -> str:
        """Until when a seat is held that is taken now."""
        return time_text(now + self.seat)

    def called_until(self, now: datetime) -> str:
        """Until when a seat is held for somebody who is called now."""
        return time_text(now + self.called_seat)


@dataclass(frozen=True, eq=False)
class Desk:
    """An open desk.

    Attributes
    ----------
    ledger
        Where everything is entered.
    keys_folder
        The folder of private keys; None for who has none: only a worker needs it.
    terms
        How long things last.
    """

    ledger: Ledger
    keys_folder: Path | None
    terms: Terms = field(default_factory=Terms)

    @property
    def keys(self) -> Path:
        """The folder of private keys.

        Raises
        ------
        FileProblem
            If this desk was opened without them: a worker has them.
        """
        if self.keys_folder is None:
            raise FileProblem("no private keys are at hand here: a worker has them.")
        return self.keys_folder

    def __repr__(self) -> str:
        return f"Desk({self.ledger.place!r})"


@contextlib.contextmanager
def open_desk(
    place: str | os.PathLike[str], keys: str | os.PathLike[str] | None, terms: Terms | None = None
) -> Iterator[Desk]:
    """Open the desk of a ledger, both made if there is none, for a ``with`` block.

    What dead processes left in the ledger is settled first, and the desk learns what a repair entered.

    Parameters
    ----------
    place
        A file, or the address of a PostgreSQL database.
    keys
        A folder for private keys, made if it is not there, for its owner only. It belongs in no backup: a
        key that comes back can open records that were to be gone. Where ``DPMARKET_MASTER_KEY_FILE`` names a
        master key, no key in it stays in clear. None: private keys are elsewhere, with the workers.
    terms
        How long things last; None: the usual.

    Raises
    ------
    FileProblem, LedgerRefusal
        The ledger or the master key cannot be used, or the ledger lacks spending that was logged outside of
        it.
    """
    folder = None if keys is None else Path(keys)
    if folder is not None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            reason = problem.strerror or problem
            raise FileProblem(f"cannot use the folder of keys {folder}: {reason}.") from None
        wrap_folder(folder)
    with open_ledger(place) as ledger:
        is_new = _is_new(ledger)
        settle(ledger)
        if is_new:
            _make_tables(ledger)
        desk = Desk(ledger, folder, terms or Terms())
        # It builds on desks, and so cannot be loaded before this module.
        from dpmarket.market.adopting import adopt_all, leave_again
        from dpmarket.market.refunding import refund_again

        adopt_all(desk, datetime.now(UTC))
        leave_again(desk, datetime.now(UTC))
        refund_again(desk, datetime.now(UTC))
        yield desk


@contextlib.contextmanager
def acting(desk: Desk) -> Iterator[Connection]:
    """Give a connection for one act that others see whole or not at all; if the block raises, not at all.

    On SQLite nobody else writes meanwhile. On PostgreSQL acts of different sellers go on side by side: each
    first takes its campaign's row in shares, and acts that write to the ledger itself take the ledger's row
    first of all (:func:`lock_ledger`). Acts do not nest, and a refusal must leave the block, so that nothing
    of the act is kept.

    Raises
    ------
    FileProblem, LedgerRefusal
        The database cannot be used, or forbids it. No message holds a value of a row.
    MarketRefusal
        A text that is none: that cannot be written in UTF-8, or that the database cannot hold.
    """
    place = desk.ledger.place
    try:
        if desk.ledger.path is not None:
            with writing(desk.ledger) as connection:
                yield connection
            return
        with desk.ledger.engine.begin() as connection:
            yield connection
    except (UnicodeEncodeError, DataError):
        raise MarketRefusal("invalid", "expected texts in UTF-8, without the character NUL.") from None
    except IntegrityError as problem:
        name = getattr(getattr(problem.orig, "diag", None), "constraint_name", None)
        raise LedgerRefusal(
            f"the ledger {place} forbids this: the rule {name}. Nothing was changed."
        ) from None
    except DBAPIError as problem:
        state = getattr(problem.orig, "sqlstate", None)
        raise FileProblem(f"cannot use {place} as a ledger: the server says no (code {state}).") from None
    except SQLAlchemyError as problem:
        raise FileProblem(f"cannot use {place} as a ledger: {type(problem).__name__}.") from None


def lock_ledger(connection: Connection) -> None:
    """Take the ledger's own row, before any other: acts that write to the ledger come one after the other."""
    row = sa.select(ledger_tables.ledger.c.id).with_for_update()
    if connection.dialect.name == "sqlite":  # the whole file is this act's already
        connection.execute(row).one()
        return
    with waiting(connection.engine):
        connection.execute(row).one()


def time_text(moment: datetime) -> str:
    """Return a moment as the desk writes it: UTC, whole seconds; later ones sort later.

    Raises
    ------
    InvalidInput
        A time without its zone, or one that UTC has no year for.
    """
    if moment.tzinfo is None:
        raise InvalidInput("expected a time with its zone, such as datetime.now(UTC).")
    try:
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except OverflowError:
        raise InvalidInput("expected a time in the years 1 to 9999.") from None


def _is_new(ledger: Ledger) -> bool:
    """Whether a ledger's database lacks the desk's tables; refuse those of another revision."""
    with ledger.engine.connect() as connection:
        found = desk_revision(connection)
    if found is not None:
        refuse_other(ledger.place, tables.HEAD, found)
    return found is None


def _make_tables(ledger: Ledger) -> None:
    """Make the desk's tables; another process may have been quicker.

    Raises
    ------
    FileProblem
        A table of something else has the name of one of them.
    """
    # Loaded for this only: most desks are there.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with writing(ledger) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def desk_revision(connection: Connection) -> str | None:
    """Return the revision of the desk's tables in a ledger's database, None if there are none."""
    if not sa.inspect(connection).has_table("market_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM market_version")).scalar()
    return None if found is None else str(found)
