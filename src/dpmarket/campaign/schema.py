"""The tables of a market: one description for SQLite (STRICT) and PostgreSQL.

Money is in whole minor units; epsilon in whole units of 2**-30, rounded up; delta in whole units of 2**-62;
times are text, UTC, whole seconds. A state is checked by ``s = 'a' OR s = 'b'``: for ``IN (...)`` SQLite
builds a table for every row it writes (6 s of processor time per million rows).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, MetaData, Table, UniqueConstraint, text

REVISION = "core_1"
"""The Alembic revision that makes these tables."""

WHOLE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
REAL: Any = sa.Double().with_variant(sa.REAL, "sqlite")
TEXT, BYTES = sa.Text(), sa.LargeBinary()
meta = MetaData()
zero: dict[str, Any] = {"nullable": False, "server_default": text("0")}
need: dict[str, Any] = {"nullable": False}

CAMPAIGN = (
    "draft",
    "open",
    "clearing",
    "unpaid",
    "offered",
    "closed",
    "training",
    "released",
    "failed",
    "cancelled",
)
ACTIVE = (
    "accepted",
    "quoted",
    "delivered",
    "invited",
    "consented",
    "waiting",
    "reserved",
    "reported",
)  # the usual ones first
ENDED = ("spent", "priced_out", "declined", "expired", "lapsed", "withdrawn", "excluded", "screened_out")


def is_one(column: str, values: tuple[str, ...]) -> str:
    """Return the condition that a column has one of some values."""
    return "(" + " OR ".join(f"{column} = '{value}'" for value in values) + ")"


def known(table: str, column: str, values: tuple[str, ...]) -> CheckConstraint:
    """Return the rule that a column has one of some values."""
    return CheckConstraint(is_one(column, values), name=f"{table}_{column}_known")


def flag(table: str, column: str) -> CheckConstraint:
    """Return the rule that a column is 0 or 1."""
    return CheckConstraint(f"{column} = 0 OR {column} = 1", name=f"{table}_{column}_flag")


def table(name: str, *parts: Any, **options: Any) -> Table:
    """Return a table with strict types on both databases."""
    return Table(name, meta, *parts, sqlite_strict=True, **options)


def where(condition: str) -> dict[str, Any]:
    """Return the condition of a partial index for both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


market = table(
    "market",  # one row; locked last of all, by acts that enter a commit point
    Column(
        "one", WHOLE, CheckConstraint("one = 1", name="market_one"), primary_key=True, autoincrement=False
    ),
    Column("id", TEXT, **need),
    Column("key", BYTES, **need),
    Column("operator_key", BYTES),  # its public half: web has no other
    Column("cap", WHOLE, **need),
    Column("delta_cap", WHOLE, **need),  # the least limit that any campaign named
    Column("tick", WHOLE, **zero),
    Column("head", TEXT, nullable=False, server_default=text("''")),
    Column("shipped", WHOLE, **zero),
    Column("made_at", TEXT, **need),
    CheckConstraint("shipped <= tick", name="market_shipped"),
)
member = table(
    "member",
    Column("id", WHOLE, primary_key=True),
    Column("name", TEXT, **need),
    Column("subject", TEXT, unique=True),  # of OIDC or the proxy
    Column("made_at", TEXT, **need),
    Column("ended_at", TEXT),
)
text_version = table(
    "text_version",  # consent texts and mails; never changed
    Column("kind", TEXT, primary_key=True),
    Column("version", WHOLE, primary_key=True, autoincrement=False),
    Column("language", TEXT, primary_key=True),
    Column("body", TEXT, **need),
    Column("digest", TEXT, **need),
    Column("made_at", TEXT, **need),
)
campaign = table(
    "campaign",
    Column("id", WHOLE, primary_key=True, autoincrement=False),  # random, 63 bits; shown as base32
    Column("name", TEXT, **need),
    Column("owner", WHOLE, ForeignKey("member.id")),  # none: of files
    Column("channel", TEXT, **need),
    known("campaign", "channel", ("live", "file", "partitions", "account")),
    Column("mechanism", TEXT, **need),
    known("campaign", "mechanism", ("online", "offline", "posted")),
    Column("state", TEXT, **need),
    known("campaign", "state", CAMPAIGN),
    Column("reason", TEXT),
    Column("rules", TEXT, **need),
    Column("rules_digest", TEXT, **need),  # frozen from 'open' on
    Column("offer", TEXT),
    Column("offer_digest", TEXT),  # the curve, or what clearing decided
    Column("reports_digest", TEXT),  # keyed; of files
    Column("largest", WHOLE),
    Column("ceiling", WHOLE, **zero),
    Column("delta", WHOLE, **zero),
    Column("currency", TEXT, **need),
    Column("minor_units", WHOLE, **need),
    Column("self_funded", WHOLE, **zero),
    flag("campaign", "self_funded"),  # files: escrow is entered as it is promised
    Column("debt", WHOLE, **zero),
    Column("public_key", BYTES),
    Column("key_missed_at", TEXT),
    Column("consent", WHOLE),
    Column("opens_at", TEXT),
    Column("closes_at", TEXT),
    Column("deliver_until", TEXT),
    Column("cleared_at", TEXT),
    Column("made_at", TEXT, **need),
    CheckConstraint("minor_units > 0 AND ceiling >= 0 AND delta >= 0", name="campaign_signs"),
    CheckConstraint("debt >= 0 AND (state = 'unpaid') = (debt > 0)", name="campaign_debt"),
    UniqueConstraint("owner", "name", name="campaign_named"),
    Index("campaign_of_files", "name", unique=True, **where("owner IS NULL")),
)
member_role = table(
    "member_role",  # campaign NULL: of all
    Column("member", WHOLE, ForeignKey("member.id"), **need),
    Column("role", TEXT, **need),
    Column("campaign", WHOLE, ForeignKey("campaign.id")),
    known("member_role", "role", ("buyer", "operator", "paymaster", "auditor")),
    Index("role_once", "member", "role", text("coalesce(campaign, 0)"), unique=True),
)
account = table(
    "account",  # 'outside', 'payable', 'escrow', and 'escrow/NAME' for every group
    Column("campaign", WHOLE, ForeignKey("campaign.id"), primary_key=True, autoincrement=False),
    Column("name", TEXT, primary_key=True),
    Column("balance", WHOLE, **zero),
    Column("held", WHOLE, **zero),
    Column("quota", WHOLE),
    Column("taken", WHOLE, **zero),
    CheckConstraint("held >= 0 AND taken >= 0 AND (quota IS NULL OR taken <= quota)", name="account_room"),
    CheckConstraint("name = 'outside' OR balance >= held", name="account_covered"),
)
transfer = table(
    "transfer",  # posted movements only, never changed
    Column("id", WHOLE, primary_key=True),
    Column("campaign", WHOLE, **need),
    Column("kind", TEXT, **need),
    known("transfer", "kind", ("fund", "allot", "pay", "payout", "returned", "refund")),
    Column("debit", TEXT, **need),
    Column("credit", TEXT, **need),
    Column("amount", WHOLE, **need),
    Column("ref", TEXT, unique=True),
    Column("at", TEXT, **need),
    CheckConstraint("amount > 0 AND debit <> credit", name="transfer_moves"),
    sa.ForeignKeyConstraint(["campaign", "debit"], ["account.campaign", "account.name"]),
    sa.ForeignKeyConstraint(["campaign", "credit"], ["account.campaign", "account.name"]),
)
payout = table(
    "payout",
    Column("id", WHOLE, primary_key=True, autoincrement=False),
    Column("campaign", WHOLE, ForeignKey("campaign.id"), **need),
    Column("number", WHOLE, **need),
    Column("people", WHOLE, **need),
    Column("amount", WHOLE, **need),
    Column("made_at", TEXT, **need),
    UniqueConstraint("campaign", "number", name="payout_numbered"),
)
person = table(
    "person",
    Column("id", WHOLE, primary_key=True),
    Column("digest", BYTES, nullable=False, unique=True),  # BLAKE2b-128 of the id, keyed by market.key
    Column("name", TEXT),  # the id itself: of files only
    Column("epsilon_cap", WHOLE, **need),
    Column("epsilon_held", WHOLE, **zero),
    Column("epsilon_spent", WHOLE, **zero),
    Column("delta_cap", WHOLE, **need),
    Column("delta_used", WHOLE, **zero),
    Column("invitable", WHOLE, nullable=False, server_default=text("1")),
    flag("person", "invitable"),
    CheckConstraint("epsilon_held >= 0 AND epsilon_spent >= 0 AND delta_used >= 0", name="person_signs"),
    CheckConstraint(
        "epsilon_held + epsilon_spent <= epsilon_cap AND delta_used <= delta_cap", name="person_cap"
    ),
    postgresql_with={"fillfactor": 60},
)
participation = table(
    "participation",
    Column("id", WHOLE, primary_key=True),
    Column("campaign", WHOLE, **need),
    Column("person", WHOLE, **need),
    Column("state", TEXT, **need),
    known("participation", "state", ACTIVE + ENDED),
    Column("reason", TEXT),
    Column("pool", TEXT, nullable=False, server_default=text("'escrow'")),
    Column("position", WHOLE),
    Column("epsilon", REAL),
    Column("payment", WHOLE),
    Column("money_held", WHOLE, **zero),
    Column("epsilon_held", WHOLE, **zero),
    Column("epsilon_spent", WHOLE, **zero),
    Column("epsilon_used", REAL),
    Column("weight", REAL),  # what the release really spent, and with which weight
    Column("until", TEXT),
    Column("reservations", WHOLE, **zero),
    Column("since", TEXT, **need),  # of a reservation, a quote, a place in line
    Column("payout", WHOLE),
    Column("returns", WHOLE, **zero),
    Column("paid_at", TEXT),
    CheckConstraint(
        "money_held >= 0 AND epsilon_held >= 0 AND epsilon_spent >= 0 AND returns >= 0",
        name="participation_signs",
    ),
    CheckConstraint(
        "(epsilon IS NULL) = (payment IS NULL) AND (epsilon IS NULL OR (epsilon > 0) = (payment > 0))",
        name="participation_quote",
    ),
    CheckConstraint(
        "money_held + epsilon_held = 0 OR " + is_one("state", ACTIVE),
        name="participation_ended_holds_nothing",
    ),
    CheckConstraint("epsilon_spent = 0 OR state = 'spent'", name="participation_spent"),
    CheckConstraint("payout IS NULL OR state = 'spent'", name="participation_paid"),
    UniqueConstraint("campaign", "person", name="participation_once"),
    Index("participation_of_person", "person"),
    Index("participation_timed", "campaign", "since", **where("until IS NOT NULL")),
    # On PostgreSQL these two cost 30 s for a million rows that come out of the tables themselves.
    sa.ForeignKeyConstraint(["campaign"], ["campaign.id"]).ddl_if(dialect="sqlite"),
    sa.ForeignKeyConstraint(["person"], ["person.id"]).ddl_if(dialect="sqlite"),
    postgresql_with={"fillfactor": 60},
)
seller = table(
    "seller",  # what only a live participation has
    Column("participation", WHOLE, ForeignKey("participation.id"), primary_key=True, autoincrement=False),
    Column("language", TEXT),
    Column("consent_digest", TEXT),
    Column("consented_at", TEXT),
    Column("payee", BYTES),
    Column("contact", BYTES),  # sealed to the operator's key
)
sealed = table(
    "sealed",  # to the campaign's key; gone with it
    Column("participation", WHOLE, ForeignKey("participation.id"), primary_key=True, autoincrement=False),
    Column("kind", TEXT, primary_key=True),
    known("sealed", "kind", ("cost", "record")),
    Column("body", BYTES, **need),
    Column("at", TEXT, **need),
)
attempt = table(
    "attempt",
    Column("id", TEXT, primary_key=True),
    Column("campaign", WHOLE, ForeignKey("campaign.id"), **need),
    Column("state", TEXT, **need),
    known("attempt", "state", ("debited", "committed", "released", "failed", "returned")),
    Column("debited_at", TEXT, **need),
    Column("committed_at", TEXT),
    Column("ended_at", TEXT),
    Column("tick", WHOLE),
    CheckConstraint(
        "(state = 'debited' OR state = 'returned') OR committed_at IS NOT NULL", name="attempt_commit_point"
    ),
    Index("attempt_once", "campaign", unique=True, **where("state <> 'returned'")),
)
commit_log = table(
    "commit_log",  # what cannot be taken back; copied line by line to the file outside
    Column("tick", WHOLE, primary_key=True, autoincrement=False),
    Column("line", TEXT, **need),
    Column("digest", TEXT, **need),
)
document = table(
    "document",  # released, certificate, openings (sealed), costs (sealed), report, receipt
    Column("id", WHOLE, primary_key=True),
    Column("campaign", WHOLE, ForeignKey("campaign.id"), **need),
    Column("participation", WHOLE, ForeignKey("participation.id")),
    Column("kind", TEXT, **need),
    Column("body", BYTES, **need),
    Column("at", TEXT, **need),
    Index("document_once", "campaign", "kind", text("coalesce(participation, 0)"), unique=True),
)
partition = table(
    "partition",  # files of quotes and of spending, by their digests
    Column("campaign", WHOLE, ForeignKey("campaign.id"), primary_key=True, autoincrement=False),
    Column("number", WHOLE, primary_key=True, autoincrement=False),
    Column("kind", TEXT, primary_key=True),
    Column("path", TEXT, **need),
    Column("people", WHOLE, **need),
    Column("payments", WHOLE, **need),
    Column("sha256", TEXT, **need),
)
token = table(
    "token",
    Column("hash", TEXT, primary_key=True),
    Column("kind", TEXT, **need),
    known("token", "kind", ("login", "session", "api", "invitation")),
    Column("member", WHOLE, ForeignKey("member.id")),
    Column("participation", WHOLE, ForeignKey("participation.id")),
    Column("made_at", TEXT, **need),
    Column("expires_at", TEXT),
    Column("revoked_at", TEXT),
    CheckConstraint("(member IS NULL) <> (participation IS NULL)", name="token_owner"),
)
idempotency = table(
    "idempotency",  # the key's digest, the request's digest under the key, the answer sealed by the key
    Column("owner", TEXT, primary_key=True),
    Column("key", TEXT, primary_key=True),
    Column("request", TEXT, **need),
    Column("answer", BYTES),
    Column("at", TEXT, **need),
)
event = table(
    "event",
    Column("number", WHOLE, primary_key=True),
    Column("campaign", WHOLE, ForeignKey("campaign.id"), **need),
    Column("participation", WHOLE, ForeignKey("participation.id")),
    Column("kind", TEXT, **need),
    Column("at", TEXT, **need),
    Index("event_of", "participation"),
    Index(
        "event_accepted", "campaign", "number", **where("kind = 'accepted'")
    ),  # sums in batches, in this order
)
job = table(
    "job",  # the one queue: work, mails, hooks, and what a worker opens for a member
    Column("id", WHOLE, primary_key=True),
    Column("kind", TEXT, **need),
    Column("subject", WHOLE, **need),
    Column("lane", TEXT, **need),
    known("job", "lane", ("work", "mail", "now")),
    Column("body", BYTES),
    Column("answer", BYTES),
    Column("state", TEXT, **need),
    known("job", "state", ("waiting", "running", "done", "failed", "unknown")),
    Column("attempts", WHOLE, **zero),
    Column("due_at", TEXT, **need),
    Column("lease_until", TEXT),
    Column("claim", TEXT),
    Column("error", TEXT),
    CheckConstraint("(claim IS NOT NULL) = (state = 'running')", name="job_claim"),
    UniqueConstraint("kind", "subject", name="job_once"),
    Index("job_due", "lane", "due_at", **where("state = 'waiting' OR state = 'running'")),
)
webhook = table(
    "webhook",
    Column("id", WHOLE, primary_key=True),
    Column("url", TEXT, **need),
    Column("secret", BYTES, **need),
    Column("campaign", WHOLE, ForeignKey("campaign.id")),
    Column("sent", WHOLE, **zero),
)
