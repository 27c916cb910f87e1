"""The one revision of the live service's tables: those that :mod:`dpmarket.market.tables` describes."""

from __future__ import annotations

from alembic import op

from dpmarket.market import tables

revision = tables.HEAD
down_revision = None


def upgrade() -> None:
    """Make all tables; fail where one of their names is taken."""
    tables.metadata.create_all(op.get_bind(), checkfirst=False)
