"""A PostgreSQL server of one's own, and databases in it."""

import contextlib
import os
import secrets

import sqlalchemy as sa


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
    name = f"market_{secrets.token_hex(6)}"
    _ask_server(address, f"CREATE DATABASE {name} TEMPLATE {like}")
    return sa.make_url(address).set(database=name).render_as_string()


def _ask_server(address, statement):
    engine = sa.create_engine(
        sa.make_url(address).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
