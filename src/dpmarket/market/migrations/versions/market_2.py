"""Market 2: what offline campaigns were cleared by, sealed to the operator, for auditors.

Nothing here calls the rest of the package, which goes on changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "market_2"
down_revision = "market_1"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "cleared_costs",
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["campaign"], ["live_campaign.campaign"]),
        sa.PrimaryKeyConstraint("campaign"),
    )
