"""Market 3: buckets that limit how often something may be done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "market_3"
down_revision = "market_2"


def upgrade() -> None:
    """Make the table of buckets."""
    op.create_table(
        "bucket",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sqlite_with_rowid=False,
    )
