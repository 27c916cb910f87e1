"""Market 1: the first tables of the live desk, as they were then.

Nothing here calls the rest of the package, which goes on changing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "market_1"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "certificate",
        sa.Column(
            "round", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("openings", sa.LargeBinary(), nullable=False),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["round"],
            ["round.number"],
        ),
        sa.PrimaryKeyConstraint("round"),
    )
    op.create_table(
        "consent",
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("version", "language"),
    )
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=True),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "member",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.CheckConstraint("role IN ('buyer', 'paymaster', 'auditor', 'operator')", name="member_role"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "person",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("cap_epsilon", sa.Double(), nullable=False),
        sa.Column("spent_epsilon", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("held_epsilon", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("invitations", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.CheckConstraint("invitations IN (0, 1)", name="person_invitations"),
        sa.CheckConstraint("spent_epsilon + held_epsilon <= cap_epsilon", name="person_cap"),
        sa.CheckConstraint("spent_epsilon >= 0 AND held_epsilon >= 0", name="person_signs"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "live_campaign",
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("buyer", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("mechanism", sa.Text(), nullable=False),
        sa.Column("market", sa.Text(), nullable=False),
        sa.Column("market_digest", sa.Text(), nullable=False),
        sa.Column("curve", sa.Text(), nullable=True),
        sa.Column("curve_digest", sa.Text(), nullable=True),
        sa.Column("largest_payment", sa.BigInteger(), nullable=True),
        sa.Column("ceiling", sa.Double(), nullable=True),
        sa.Column("minor_units", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("escrow", sa.Text(), nullable=False),
        sa.Column("payable", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=True),
        sa.Column("round", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("debt", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("consent_version", sa.Integer(), nullable=False),
        sa.Column("opens_at", sa.Text(), nullable=False),
        sa.Column("closes_at", sa.Text(), nullable=False),
        sa.Column("deliver_until", sa.Text(), nullable=False),
        sa.Column("cleared_at", sa.Text(), nullable=True),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.CheckConstraint("(state = 'unpaid') = (debt > 0)", name="live_campaign_unpaid"),
        sa.CheckConstraint("mechanism IN ('online', 'offline')", name="live_campaign_mechanism"),
        sa.CheckConstraint(
            "state IN ('draft', 'open', 'clearing', 'unpaid', 'deciding', 'closed', 'training', "
            "'released', 'lost', 'cancelled')",
            name="live_campaign_state",
        ),
        sa.CheckConstraint("debt >= 0", name="live_campaign_debt"),
        sa.ForeignKeyConstraint(
            ["buyer"],
            ["member.id"],
        ),
        sa.ForeignKeyConstraint(
            ["campaign"],
            ["campaign.id"],
        ),
        sa.ForeignKeyConstraint(
            ["escrow"],
            ["account.id"],
        ),
        sa.ForeignKeyConstraint(
            ["payable"],
            ["account.id"],
        ),
        sa.ForeignKeyConstraint(
            ["round"],
            ["round.number"],
        ),
        sa.PrimaryKeyConstraint("campaign"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("due_at", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.Text(), nullable=True),
        sa.Column("claim", sa.Text(), nullable=True),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.CheckConstraint("(claim IS NOT NULL) = (state = 'running')", name="job_claim"),
        sa.CheckConstraint("kind IN ('clear', 'close', 'train', 'certify')", name="job_kind"),
        sa.CheckConstraint("state IN ('waiting', 'running', 'done', 'failed')", name="job_state"),
        sa.ForeignKeyConstraint(
            ["campaign"],
            ["live_campaign.campaign"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("kind", "campaign", name="job_once"),
    )
    op.create_index("job_due", "job", ["state", "due_at"], unique=False)
    op.create_table(
        "participation",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("held_epsilon", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("spent_epsilon", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("consent_version", sa.Integer(), nullable=True),
        sa.Column("consent_digest", sa.Text(), nullable=True),
        sa.Column("consented_at", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Text(), nullable=True),
        sa.Column("sealed_cost", sa.LargeBinary(), nullable=True),
        sa.Column("sealed_payee", sa.LargeBinary(), nullable=True),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.CheckConstraint("(lease_until IS NOT NULL) = (state = 'seated')", name="participation_lease"),
        sa.CheckConstraint("state <> 'spent' OR held_epsilon = 0", name="participation_spent"),
        sa.CheckConstraint(
            "state IN ('invited', 'consented', 'waiting', 'seated', 'reported', 'quoted', "
            "'accepted', 'delivered', 'spent', 'declined', 'expired', 'lapsed', 'withdrawn')",
            name="participation_state",
        ),
        sa.CheckConstraint("held_epsilon >= 0 AND spent_epsilon >= 0", name="participation_signs"),
        sa.ForeignKeyConstraint(
            ["campaign"],
            ["live_campaign.campaign"],
        ),
        sa.ForeignKeyConstraint(
            ["person"],
            ["person.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("campaign", "person", name="participation_once"),
    )
    op.create_index("participation_by_person", "participation", ["person"], unique=False)
    op.create_index("participation_by_state", "participation", ["campaign", "state"], unique=False)
    op.create_table(
        "event",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("participation", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign"],
            ["live_campaign.campaign"],
        ),
        sa.ForeignKeyConstraint(
            ["participation"],
            ["participation.id"],
        ),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(
        "event_accepted",
        "event",
        ["campaign", "number"],
        unique=False,
        sqlite_where=sa.text("kind = 'accepted'"),
        postgresql_where=sa.text("kind = 'accepted'"),
    )
    op.create_index("event_of_participation", "event", ["participation"], unique=False)
    op.create_table(
        "quote",
        sa.Column("participation", sa.Text(), nullable=False),
        sa.Column("epsilon", sa.Double(), nullable=False),
        sa.Column("payment", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=True),
        sa.CheckConstraint("(epsilon > 0) = (payment > 0)", name="quote_both"),
        sa.CheckConstraint("epsilon >= 0 AND payment >= 0", name="quote_signs"),
        sa.ForeignKeyConstraint(
            ["participation"],
            ["participation.id"],
        ),
        sa.PrimaryKeyConstraint("participation"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "receipt",
        sa.Column("participation", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["participation"],
            ["participation.id"],
        ),
        sa.PrimaryKeyConstraint("participation"),
    )
    op.create_table(
        "record",
        sa.Column("participation", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("delivered_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["participation"],
            ["participation.id"],
        ),
        sa.PrimaryKeyConstraint("participation"),
    )
    op.create_table(
        "token",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("member", sa.Text(), nullable=True),
        sa.Column("participation", sa.Text(), nullable=True),
        sa.Column("made_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=True),
        sa.Column("revoked_at", sa.Text(), nullable=True),
        sa.CheckConstraint("kind IN ('login', 'session', 'api', 'invitation')", name="token_kind"),
        sa.CheckConstraint("(member IS NULL) <> (participation IS NULL)", name="token_owner"),
        sa.ForeignKeyConstraint(
            ["member"],
            ["member.id"],
        ),
        sa.ForeignKeyConstraint(
            ["participation"],
            ["participation.id"],
        ),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "waiting",
        sa.Column(
            "number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("campaign", sa.Text(), nullable=False),
        sa.Column("participation", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.CheckConstraint("reason IN ('room', 'cap')", name="waiting_reason"),
        sa.ForeignKeyConstraint(
            ["campaign"],
            ["live_campaign.campaign"],
        ),
        sa.ForeignKeyConstraint(
            ["participation"],
            ["participation.id"],
        ),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("participation"),
    )
    op.create_index("waiting_in_order", "waiting", ["campaign", "reason", "number"], unique=False)


def downgrade() -> None:
    """Refuse: there is nothing before."""
    raise NotImplementedError
