"""Market 1: the first tables of the live desk."""

from __future__ import annotations

from alembic import op

from dpmarket.market import tables

revision = "market_1"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    tables.metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Refuse: there is nothing before."""
    raise NotImplementedError
