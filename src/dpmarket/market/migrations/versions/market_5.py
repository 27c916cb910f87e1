"""Market 5: how to reach people, and mails that are to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "market_5"
down_revision = "market_4"


def upgrade() -> None:
    """Make the two tables."""
    op.create_table(
        "contact",
        sa.Column("participation", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["participation"], ["participation.id"]),
        sa.PrimaryKeyConstraint("participation"),
    )
    op.create_table(
        "mail",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("participation", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("due_at", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.Text()),
        sa.Column("claim", sa.Text()),
        sa.Column("error_kind", sa.Text()),
        sa.CheckConstraint("kind IN ('invitation', 'reminder', 'receipt')", name="mail_kind"),
        sa.CheckConstraint("state IN ('waiting', 'sending', 'sent', 'failed', 'unknown')", name="mail_state"),
        sa.CheckConstraint("(claim IS NOT NULL) = (state = 'sending')", name="mail_claim"),
        sa.ForeignKeyConstraint(["participation"], ["participation.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("participation", "kind", name="mail_once"),
    )
    op.create_index("mail_due", "mail", ["state", "due_at"])
