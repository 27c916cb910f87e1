"""Ledgers on both databases, and rounds to put into them."""

import contextlib
import os
import secrets

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.files import table_to_bytes
from dpmarket.ledger import money, rounds
from dpmarket.ledger.engine import new_id


@contextlib.contextmanager
def postgres_server(folder):
    """Run a PostgreSQL of one's own; give the address of its first database."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))  # read when the package loads
    import pgserver

    server = pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def new_database(address, like="template1"):
    """Make a database beside the first one, empty or a copy of one that nobody uses; return its address."""
    name = f"ledger_{secrets.token_hex(6)}"
    _ask_server(address, f"CREATE DATABASE {name} TEMPLATE {like}")
    return sa.make_url(address).set(database=name).render_as_string()


def drop_database(server, address):
    """Drop a database of a server, whoever uses it."""
    _ask_server(server, f"DROP DATABASE {sa.make_url(address).database} WITH (FORCE)")


def _ask_server(address, statement):
    engine = sa.create_engine(
        sa.make_url(address).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def quotes(epsilons, ids=None):
    epsilons = np.asarray(epsilons, dtype=float)
    ids = [f"søren {k}" for k in range(epsilons.size)] if ids is None else ids
    payments = np.ceil(300 * epsilons).astype(np.int64)
    return pl.DataFrame({"seller": ids, "epsilon": epsilons, "payment_minor_units": payments})


def campaign_in(connection, name="spring"):
    """Return the id of a campaign, made if it is not there."""
    found = rounds.campaign_named(connection, name)
    return (found or rounds.make_campaign(connection, name, {}, 100, "EUR")).id


def new_round(table, digest=None, repetition=0, **more):
    digest = digest or new_id()
    return rounds.NewRound(
        quotes=table,
        content=table_to_bytes(table),
        identity=f"{digest}-{repetition}",
        digest=digest,
        repetition=repetition,
        mechanism="offline",
        minor_units=100,
        ceiling=more.pop("ceiling", None),
        parameters={},
        **more,
    )


def enter(connection, table, name="spring", **more):
    """Enter quotes as a round of a campaign, with the money for it."""
    campaign = campaign_in(connection, name)
    money.fund(connection, campaign, int(table.get_column("payment_minor_units").sum()))
    return rounds.enter_round(connection, campaign, new_round(table, **more))
