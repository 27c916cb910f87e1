"""What a ledger's tables are: the one description from which databases are made.

Money is whole minor units, epsilon a double. Promises of many sellers are Parquet files cut into pages: a
row of SQL for each of ten million sellers would take longer than everything else.
"""

from __future__ import annotations

from sqlalchemy import (
    REAL,
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

HEAD = "ledger_1"
"""The revision of the tables that :data:`metadata` describes; there is no other."""

metadata = MetaData()

ID = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database counts up."""
WHOLE = BigInteger().with_variant(Integer, "sqlite")
"""A whole number of up to 64 bits. Strict tables of SQLite know no other name for its type."""
REAL_NUMBER: Double[float] = Double().with_variant(REAL, "sqlite")
"""A double."""


def one_of(column: str, values: tuple[str, ...], name: str) -> CheckConstraint:
    """Return the rule that a column has one of these texts."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=name)


def make_strict(described: MetaData) -> None:
    """Let SQLite refuse a value of another type than its column's, in all tables described so far."""
    for table in described.tables.values():
        table.dialect_options["sqlite"]["strict"] = True


ledger = Table(
    "ledger",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
    Column("made_at", Text, nullable=False),
    # Counts every change of promises: who decided by an older state decides again.
    Column("revision", WHOLE, nullable=False),
    # A line of the log outside that this ledger was used with; none before the first quote.
    Column("log_head", Text),
)

campaign = Table(
    "campaign",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("made_at", Text, nullable=False),
    # None: of a draft of the live service, whose rules may change.
    Column("rules", Text),
    Column("minor_units", WHOLE, nullable=False),
    Column("currency", Text, nullable=False),
    CheckConstraint("minor_units > 0", name="campaign_minor_units"),
)

round_ = Table(
    "round",
    metadata,
    Column("number", ID, primary_key=True, autoincrement=True),
    Column("identity", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False),
    Column("repetition", Integer, nullable=False),
    Column("campaign", Text, ForeignKey("campaign.id"), nullable=False),
    Column("quoted_at", Text, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("sellers", WHOLE, nullable=False),
    Column("promised", REAL_NUMBER, nullable=False),
    Column("delta", REAL_NUMBER, nullable=False, server_default=text("0")),
    Column("payments", WHOLE, nullable=False),
    Column("minor_units", WHOLE, nullable=False),
    # What nobody of this round can be asked to give, known before any report; None: no such number.
    Column("ceiling", REAL_NUMBER),
    Column("parameters", Text, nullable=False),
    Column("plan", Text),
    Column("header", Text),
    UniqueConstraint("digest", "repetition", name="round_once"),
    CheckConstraint("sellers > 0", name="round_sellers"),
    CheckConstraint("promised >= 0", name="round_promised"),
    CheckConstraint("delta >= 0 AND delta < 1", name="round_delta"),
    CheckConstraint("payments >= 0", name="round_payments"),
    CheckConstraint("minor_units > 0", name="round_minor_units"),
)

page = Table(
    "page",
    metadata,
    Column("round", ID, ForeignKey("round.number"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    one_of("kind", ("quoted", "spent"), "page_kind"),
)

left_out = Table(
    "left_out",
    metadata,
    Column("round", ID, ForeignKey("round.number"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
)

withdrawal = Table(
    "withdrawal",
    metadata,
    Column("round", ID, ForeignKey("round.number"), primary_key=True),
    Column("seller", Text, primary_key=True),
    Column("withdrawn_at", Text, nullable=False),
    sqlite_with_rowid=False,
)

release = Table(
    "release",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("delta", REAL_NUMBER, nullable=False, server_default=text("0")),
    Column("debited_at", Text, nullable=False),
    Column("marked_at", Text),
    Column("ended_at", Text),
    Column("model", Text),
    one_of("kind", ("model", "statistic"), "release_kind"),
    one_of("state", ("debited", "marked", "released", "lost", "returned"), "release_state"),
    CheckConstraint("delta >= 0 AND delta < 1", name="release_delta"),
    CheckConstraint("(model IS NOT NULL) = (state = 'released')", name="release_model"),
    CheckConstraint("state NOT IN ('marked') OR marked_at IS NOT NULL", name="release_mark"),
)

debit = Table(
    "debit",
    metadata,
    Column("release", Text, ForeignKey("release.id"), primary_key=True),
    Column("round", ID, ForeignKey("round.number"), primary_key=True),
    # 0 once it was returned. The index below makes a second debit of a round impossible.
    Column("counts", Integer, nullable=False),
    CheckConstraint("counts IN (0, 1)", name="debit_counts"),
    Index(
        "one_debit_per_round",
        "round",
        unique=True,
        sqlite_where=text("counts = 1"),
        postgresql_where=text("counts = 1"),
    ),
)

account = Table(
    "account",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign", Text, ForeignKey("campaign.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("credits", WHOLE, nullable=False, server_default=text("0")),
    Column("debits", WHOLE, nullable=False, server_default=text("0")),
    Column("pending", WHOLE, nullable=False, server_default=text("0")),
    UniqueConstraint("campaign", "kind", name="account_once"),
    one_of("kind", ("outside", "escrow", "payable"), "account_kind"),
    CheckConstraint("credits >= 0 AND debits >= 0 AND pending >= 0", name="account_signs"),
    CheckConstraint("kind = 'outside' OR credits - debits - pending >= 0", name="account_not_negative"),
)

payout = Table(
    "payout",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("campaign", Text, ForeignKey("campaign.id"), nullable=False),
    Column("lines", WHOLE, nullable=False),
    Column("amount", WHOLE, nullable=False),
    Column("made_at", Text, nullable=False),
    UniqueConstraint("campaign", "number", name="payout_once"),
    CheckConstraint("lines > 0 AND amount > 0", name="payout_amount"),
)

payout_page = Table(
    "payout_page",
    metadata,
    Column("payout", Text, ForeignKey("payout.id"), primary_key=True),
    # 0 are the lines themselves; further ones are what was confirmed or returned, in order.
    Column("entry", Integer, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    one_of("kind", ("lines", "confirmed", "returned"), "payout_page_kind"),
)

transfer = Table(
    "transfer",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("debit_account", Text, ForeignKey("account.id"), nullable=False),
    Column("credit_account", Text, ForeignKey("account.id"), nullable=False),
    Column("amount", WHOLE, nullable=False),
    Column("round", ID, ForeignKey("round.number")),
    Column("payout", Text, ForeignKey("payout.id")),
    # For a desk that keeps a row for each person.
    Column("person", Text),
    Column("participation", Text),
    Column("state", Text, nullable=False),
    Column("made_at", Text, nullable=False),
    Column("ended_at", Text),
    UniqueConstraint("participation", "kind", name="transfer_once"),
    one_of("kind", ("fund", "pay", "refund", "payout", "returned"), "transfer_kind"),
    one_of("state", ("pending", "posted", "voided"), "transfer_state"),
    CheckConstraint("amount > 0", name="transfer_amount"),
    CheckConstraint("debit_account <> credit_account", name="transfer_accounts"),
    CheckConstraint("(ended_at IS NULL) = (state = 'pending')", name="transfer_ended"),
    Index(
        "one_payment_per_round",
        "round",
        unique=True,
        sqlite_where=text("kind = 'pay' AND state <> 'voided' AND participation IS NULL"),
        postgresql_where=text("kind = 'pay' AND state <> 'voided' AND participation IS NULL"),
    ),
)

make_strict(metadata)
