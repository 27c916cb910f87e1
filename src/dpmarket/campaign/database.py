"""A market's database: opening it, running acts in it, reading it, and liveness locks.

:meth:`Market.run` is the one way to change anything: read the log's last line, BEGIN, compare it with the
database, check the caller's role, claim the idempotency key, call the act, COMMIT, ship commit points,
answer.
"""

import contextlib
import hashlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from dpmarket.campaign import schema
from dpmarket.campaign.acts import ACTS, Caller, authorize, once
from dpmarket.campaign.log import Line, Log, canonical, file_problems, log_of_place, make_line, tick_of
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.seal import wrap_folder
from dpmarket.campaign.transaction import MarketRow, Terms, Tx, market_row
from dpmarket.errors import DpmarketError, FileProblem, MarketRefusal

Url: TypeAlias = str | os.PathLike[str]  # a path, or the address of a database
WAIT_SECONDS = 30.0
UNLIMITED = 2**62  # a lifetime limit that no campaign has named

_MAGIC = b"SQLite format 3\0"
_ATTEMPTS = 3
_AGAIN = ("40P01", "40001")  # PostgreSQL: a deadlock, or a transaction that must be done again
_QUICKER = ("campaign_of_files", "person_cap")
"""Rules that an act looks at before it writes: PostgreSQL says them if another one was quicker."""


class Market:
    """An open market; see :func:`open_market`."""

    def __init__(self, engine: sa.Engine, place: str, state: Path, keys: Path | None) -> None:
        self.engine, self.place, self.state = engine, place, state
        self.keys = keys  # the folder of private keys; None in processes without them
        self.terms = Terms()
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._turn = threading.Lock()  # SQLite's own waiting is by polling, and unfair
        with _database_problems(place), engine.connect() as c:
            self.id, key = c.execute(sa.select(schema.market.c.id, schema.market.c.key)).one()
        self.key = bytes(key)  # of digests of ids and of references
        self.log = Log(state / self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @property
    def is_file(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.engine.dialect.name == "sqlite"

    def run(
        self, act: Callable[..., Any], caller: Caller, *args: Any, key: str | None = None, **options: Any
    ) -> Any:
        """Call an act in one transaction, which others see whole or not at all; return its answer.

        ``key`` is an idempotency key: a second call with it returns the first answer. If the commit point of
        an act could not be copied to the log (FileProblem), the act is done, and the next one copies it.
        """
        entry = ACTS[act.__name__.rstrip("_")]
        arguments = entry.bind(args, options)

        def done(tx: Tx, who: Any) -> Any:
            answer = entry.function(tx, who, **arguments)
            if caller.member is not None:
                named = arguments.get("campaign") or arguments.get("of")
                campaign = answer if entry.name == "draft" else named
                tx.add(schema.deed, member=caller.member, act=entry.name, campaign=campaign, at=tx.now)
            return answer

        def do(tx: Tx) -> Any:
            who = authorize(tx, entry, caller, arguments)
            if key is None:
                return done(tx, who)
            request = canonical([entry.name, entry.body(**arguments).model_dump(mode="json")])
            answer = once(tx, caller.label, key, request, lambda: entry.adapter.dump_json(done(tx, who)))
            return entry.adapter.validate_json(answer)

        return self.transact(do, mine=caller.participation)

    def transact(self, do: Callable[[Tx], Any], *, verified: bool = True, mine: int | None = None) -> Any:
        """Call a function in one transaction, verified against the log before and shipped after it."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(_MustRepeat):
                return self._transact(do, verified=verified, mine=mine)
        raise FileProblem(f"cannot use {self.place}: it is too busy; try again.")

    def _transact(self, do: Callable[[Tx], Any], *, verified: bool, mine: int | None) -> Any:
        last = self.log.last() if verified else None
        with self.writing() as c:
            tx = Tx(c, self.clock(), self.terms, self.log, mine)
            if verified:
                self._verify(c, tx.row, last)
            answer = do(tx)
        if verified and (tx.tick or tx.row.tick > tick_of(last)):
            self.ship()
        return answer

    def ship(self) -> None:
        """Copy commit points that the log lacks to it, and to the disk."""

        def pending(last: Line | None) -> list[Line]:
            with self.look() as c:
                self._verify(c, market_row(c), last)
                return lines_after(c, tick_of(last))

        tick, of_market = self.log.append(pending), schema.market.c
        with self.writing() as c:
            c.execute(schema.market.update().where(of_market.shipped < tick).values(shipped=tick))

    def verify(self) -> None:
        """Compare the log with the database."""
        last = self.log.last()
        with self.look() as c:
            self._verify(c, market_row(c), last)

    def _verify(self, c: sa.Connection, row: MarketRow, last: Line | None) -> None:
        """Refuse a database that lacks the log's last line, and a log that lacks shipped lines.

        The line was read before the row: its writer had committed it first. Other processes may have
        shipped lines since, so that a log that looks short is read once more.
        """
        if last is not None and (last.tick, last.digest) != (row.tick, row.head):
            log = schema.commit_log.c
            if c.execute(sa.select(log.digest).where(log.tick == last.tick)).scalar() != last.digest:
                raise FileProblem(
                    f"cannot use {self.place}: its log {self.log.path} has commit points that it lacks. It "
                    "was put back from a backup, or a copy of it went on. 'dpmarket repair' enters them."
                )
        if tick_of(last) < row.shipped and tick_of(self.log.last()) < row.shipped:
            raise FileProblem(
                f"cannot use {self.place}: its log {self.log.path} is missing or too short. Name the "
                "right state folder; if the log is lost, 'dpmarket repair --log-lost' writes it anew."
            )

    def operator_key(self) -> bytes | None:
        """Return the public half of the operator's key; None if it is not made yet."""
        with self.look() as c:
            public: bytes | None = market_row(c).operator_key
        return public

    @contextlib.contextmanager
    def look(self) -> Iterator[sa.Connection]:
        """Give a connection that sees one state of the database and changes nothing."""
        with _database_problems(self.place):
            connection = self.engine.connect()
            if not self.is_file:
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection, connection.begin():
                yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Give a connection for one transaction."""
        with contextlib.ExitStack() as stack:
            if self.is_file:
                if not self._turn.acquire(timeout=WAIT_SECONDS):
                    raise FileProblem(f"cannot use {self.place}: another thread has been writing for long.")
                stack.callback(self._turn.release)
            stack.enter_context(_database_problems(self.place))
            with (
                self.engine.connect().execution_options(dpmarket_writing=True) as connection,
                connection.begin(),
            ):
                yield connection

    @contextlib.contextmanager
    def alive(self, name: str) -> Iterator[bool]:
        """Hold a lock for a ``with`` block that ends with this process; gives whether it was free.

        A file lock beside the log for SQLite, an advisory lock of the server for PostgreSQL: whether
        somebody is alive is never a question of a clock.
        """
        if self.is_file:
            with self.log.lock(name) as free:
                yield free
            return
        digest = hashlib.blake2b(f"{self.id}/{name}".encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        with _database_problems(self.place), self.engine.connect() as c:
            free = bool(c.scalar(sa.select(sa.func.pg_try_advisory_lock(number))))
            c.commit()
            try:
                yield free
            finally:
                if free:
                    c.execute(sa.select(sa.func.pg_advisory_unlock(number)))
                    c.commit()


def open_market(url: Url, state: Url, keys: Url | None = None, *, make: bool = False) -> Market:
    """Open a market, for a ``with`` block.

    ``url`` is a file, or the address of a PostgreSQL database (``postgresql://user@host/name``); ``state``
    the folder of anti-rollback logs, on another disk if possible and in no backup that is put back together
    with the database; ``keys`` the folder of private keys, in no backup, None where only a worker has them.
    ``make`` makes the tables where there are none; a service never does.

    FileProblem: it cannot be opened, is none of this version, or there is none and a log knows one here.
    """
    is_new = not is_address(url) and not Path(url).exists()
    place, engine = _engine(url, make=make)
    state = Path(state)
    try:
        with _database_problems(place):
            if not _has_tables(engine):
                if not make:
                    raise FileProblem(f"cannot open {place}: there is no market; 'dpmarket init' makes one.")
                if log_of_place(state, place) is not None:
                    raise FileProblem(
                        f"cannot make a market at {place}: a log in {state} knows one there. Put the "
                        "database back, let 'dpmarket repair' make it from the log, or begin at another path."
                    )
                is_new = False
                begun = {"id": secrets.token_hex(16), "key": secrets.token_hex(32), "place": place}
                _make(engine, make_line(1, time_text(datetime.now(UTC)), "begun", begun, ""))
            _refuse_other_revision(engine, place)
        if keys is not None:
            with file_problems(f"cannot use the folder {keys}"):
                Path(keys).mkdir(mode=0o700, parents=True, exist_ok=True)
            wrap_folder(Path(keys))
        return Market(engine, place, state, None if keys is None else Path(keys))
    except BaseException:
        engine.dispose()
        if is_new:  # without tables; with SQLite's files of it
            with contextlib.suppress(OSError):
                for ending in ("", "-wal", "-shm"):
                    Path(f"{os.fspath(url)}{ending}").unlink(missing_ok=True)
        raise


def make_from_log(url: Url, state: Path) -> None:
    """Make a database that is not there from the first line of its log."""
    place, engine = _engine(url, make=True)
    try:
        if not _has_tables(engine):
            log = log_of_place(state, place)
            if log is None:
                raise FileProblem(
                    f"cannot repair {place}: there is no market, and no log in {state} knows one."
                )
            _make(engine, log.lines()[0])
    finally:
        engine.dispose()


def _make(engine: sa.Engine, begun: Line) -> None:
    """Make all tables by Alembic, and the market of a log's first line; another process may be quicker."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.connect().execution_options(dpmarket_writing=True) as c, c.begin():
        if engine.dialect.name != "sqlite":
            c.execute(sa.select(sa.func.pg_advisory_xact_lock(0x64706D61726B6574)))
        if sa.inspect(c).has_table("market"):
            return
        config.attributes["connection"] = c
        command.upgrade(config, "head")
        body, at = begun.content["body"], begun.content["at"]
        limits = {"cap": UNLIMITED, "delta_cap": UNLIMITED}
        named = {"id": body["id"], "key": bytes.fromhex(body["key"]), "made_at": at}
        c.execute(schema.market.insert().values(one=1, tick=1, head=begun.digest, **limits, **named))
        c.execute(schema.commit_log.insert().values(tick=1, line=begun.text, digest=begun.digest))


def lines_after(c: sa.Connection, tick: int) -> list[Line]:
    """Return the database's own lines after a tick."""
    log = schema.commit_log.c
    query = sa.select(log.tick, log.line, log.digest).where(log.tick > tick).order_by(log.tick)
    return [Line(*row) for row in c.execute(query)]


def is_address(url: Url) -> bool:
    """Whether a place is the address of a database server, not a file."""
    return "://" in os.fspath(url)


def _has_tables(engine: sa.Engine) -> bool:
    with engine.connect() as c:
        return sa.inspect(c).has_table("market")


def _refuse_other_revision(engine: sa.Engine, place: str) -> None:
    with engine.connect() as c:
        there = sa.inspect(c).has_table("alembic_version")
        found = c.scalar(sa.text("SELECT version_num FROM alembic_version")) if there else None
    if found != schema.REVISION:
        raise FileProblem(
            f"cannot use {place}: its tables are of revision {found}, and this version of dpmarket knows "
            f"{schema.REVISION}. Install the version that wrote them."
        )


def _engine(url: Url, *, make: bool) -> tuple[str, sa.Engine]:
    """Return how messages name a place, and its engine."""
    if is_address(url):
        return _server_engine(os.fspath(url))
    path = Path(url)
    with file_problems(f"cannot open {path}"):
        if path.exists():
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) not in (b"", _MAGIC):
                    raise FileProblem(f"cannot open {path}: it is no database.")
        elif not make:
            raise FileProblem(f"cannot open {path}: there is no such file.")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    return str(path.absolute()), _file_engine(path)


def _file_engine(path: Path) -> sa.Engine:
    target = f"file:{quote(str(path.absolute()))}?mode=rw"
    options: dict[str, Any] = {"isolation_level": None, "uri": True, "check_same_thread": False}

    def connected() -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite3.connect(target, timeout=WAIT_SECONDS, **options)
        return connection

    engine = sa.create_engine("sqlite://", creator=connected, poolclass=QueuePool, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        wanted = connection.get_execution_options().get("dpmarket_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if wanted else "BEGIN")

    return engine


def _server_engine(address: str) -> tuple[str, sa.Engine]:
    try:
        url = sa.make_url(address)
    except (ArgumentError, ValueError):
        raise FileProblem("cannot understand the database's address: expected postgresql://...") from None
    if url.get_backend_name() != "postgresql":
        raise FileProblem("expected a database file or an address postgresql://...")
    try:
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            connect_args={"connect_timeout": 30},
        )
    except ImportError:
        raise FileProblem("PostgreSQL needs the package psycopg: pip install 'dpmarket[service]'.") from None
    return url.set(password=None, drivername="postgresql").render_as_string(), engine


class _MustRepeat(DpmarketError):
    """The server ended a transaction that can be done again."""


@contextlib.contextmanager
def _database_problems(place: str) -> Iterator[None]:
    """Turn what a database says into one sentence without any value of a row."""
    try:
        yield
    except (UnicodeEncodeError, DataError):
        raise MarketRefusal("invalid", "Expected text in UTF-8, without the character NUL.") from None
    except IntegrityError as problem:
        diagnosis = getattr(problem.orig, "diag", None)
        if diagnosis is not None and diagnosis.constraint_name in _QUICKER:
            raise _MustRepeat from None
        rule = str(problem.orig) if diagnosis is None else f"the rule {diagnosis.constraint_name}"
        raise MarketRefusal("state", f"The database forbids this: {rule}. Nothing was changed.") from None
    except DBAPIError as problem:
        state = getattr(problem.orig, "sqlstate", None)
        if state in _AGAIN:
            raise _MustRepeat from None
        words = str(problem.orig) if isinstance(problem.orig, sqlite3.Error) else f"code {state}"
        raise FileProblem(f"cannot use {place}: {words}.") from None
    except SQLAlchemyError as problem:
        raise FileProblem(f"cannot use {place}: {type(problem).__name__}.") from None
    except sqlite3.Error as problem:
        raise FileProblem(f"cannot use {place}: {problem}.") from None
