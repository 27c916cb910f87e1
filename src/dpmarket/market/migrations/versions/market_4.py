"""Market 4: public keys for who has no private ones, questions to workers, and reports that are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "market_4"
down_revision = "market_3"


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "public_key",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "question",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("sealed", sa.LargeBinary()),
        sa.Column("refusal", sa.Text()),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('payout', 'openings', 'costs')", name="question_kind"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "report",
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary()),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["campaign"], ["live_campaign.campaign"]),
        sa.PrimaryKeyConstraint("campaign"),
    )
