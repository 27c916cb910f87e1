"""The tables of a market: one description for SQLite (STRICT) and PostgreSQL.

Money is in whole minor units; epsilon in whole units of 2**-30, rounded up; delta in whole units of 2**-62;
times are text, UTC, whole seconds. A state is checked by ``s = 'a' OR s = 'b'``: for ``IN (...)`` SQLite
builds a table for every row it writes (6 s of processor time per million rows).
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, MetaData, Table, UniqueConstraint, text

from dpmarket.errors import InvalidInput

REVISION = "core_1"  # the Alembic revision that makes these tables

WHOLE = sa.BigInteger().with_variant(sa.Integer, "sqlite")
REAL: Any = sa.Double().with_variant(sa.REAL, "sqlite")
TEXT, BYTES = sa.Text(), sa.LargeBinary()
meta = MetaData()

CAMPAIGN = ("draft", "open", "clearing", "unpaid", "offered", "closed", "training")
CAMPAIGN_ENDED = ("released", "failed", "cancelled")
# The usual ones first.
ACTIVE = ("accepted", "quoted", "delivered", "invited", "consented", "waiting", "reserved", "reported")
ENDED = ("spent", "priced_out", "declined", "expired", "lapsed", "withdrawn", "excluded", "screened_out")


def time_text(moment: datetime) -> str:
    """Return a moment as the tables have it; later ones sort later."""
    if moment.tzinfo is None:
        raise InvalidInput("expected a time with its zone, such as datetime.now(UTC).")
    try:
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except OverflowError:
        raise InvalidInput("expected a time in the years 1 to 9999.") from None


def moment_of(text: str) -> datetime:
    """Return the moment that a text says."""
    return datetime.fromisoformat(text)


def is_one(column: str, values: tuple[str, ...]) -> str:
    """Return the condition that a column has one of some values."""
    return "(" + " OR ".join(f"{column} = '{value}'" for value in values) + ")"


def one_of(table: str, column: str, *values: str) -> tuple[Any, Any]:
    """Return a column of text that has one of some values, with its rule."""
    rule = CheckConstraint(is_one(column, values), name=f"{table}_{column}_known")
    return Column(column, TEXT, nullable=False), rule


def flag(table: str, column: str, default: int) -> tuple[Any, Any]:
    """Return a column that is 0 or 1, with its rule."""
    rule = CheckConstraint(f"{column} = 0 OR {column} = 1", name=f"{table}_{column}_flag")
    return Column(column, WHOLE, nullable=False, server_default=text(str(default))), rule


def some(kind: Any, *names: str) -> list[Any]:
    """Return columns of a type that every row fills."""
    return [Column(name, kind, nullable=False) for name in names]


def perhaps(kind: Any, *names: str) -> list[Any]:
    """Return columns of a type that may be empty."""
    return [Column(name, kind) for name in names]


def counts(*names: str) -> list[Any]:
    """Return columns of whole numbers that begin at 0."""
    return [Column(name, WHOLE, nullable=False, server_default=text("0")) for name in names]


def row_id(name: str = "id") -> Any:
    """Return the column of row ids that the database counts."""
    return Column(name, WHOLE, primary_key=True)


def key(name: str, kind: Any = TEXT, *parts: Any) -> Any:
    """Return a column of the primary key that is no number of the database's own."""
    return Column(name, kind, *parts, primary_key=True, autoincrement=False)


def refers(name: str, to: str, *, nullable: bool = False) -> Any:
    """Return a column with the id of another table's row."""
    return Column(name, WHOLE, ForeignKey(f"{to}.id"), nullable=nullable)


def table(name: str, *parts: Any, **options: Any) -> Table:
    """Return a table with strict types on both databases."""
    return Table(name, meta, *parts, sqlite_strict=True, **options)


def where(condition: str) -> dict[str, Any]:
    """Return the condition of a partial index for both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


market = table(
    "market",  # one row; locked last of all, by acts that enter a commit point
    key("one", WHOLE, CheckConstraint("one = 1", name="market_one")),
    *some(TEXT, "id", "made_at"),
    *some(BYTES, "key"),
    *perhaps(BYTES, "operator_key"),  # its public half: web has no other
    *some(WHOLE, "cap", "delta_cap"),  # the least limits that any campaign named
    *counts("tick", "shipped"),
    Column("head", TEXT, nullable=False, server_default=text("''")),
    CheckConstraint("shipped <= tick", name="market_shipped"),
)
member = table(
    "member",
    row_id(),
    *some(TEXT, "name", "made_at"),
    Column("subject", TEXT, unique=True),  # of OIDC or the proxy
    *perhaps(TEXT, "ended_at"),
)
text_version = table(
    "text_version",  # consent texts and mails; never changed
    key("kind"),
    key("version", WHOLE),
    key("language"),
    *some(TEXT, "body", "digest", "made_at"),
)
campaign = table(
    "campaign",
    key("id", WHOLE),
    refers("owner", "member", nullable=True),  # none: of files
    *one_of("campaign", "channel", "live", "file", "partitions", "account"),
    *one_of("campaign", "mechanism", "online", "offline", "posted"),
    *one_of("campaign", "state", *CAMPAIGN, *CAMPAIGN_ENDED),
    *some(TEXT, "name", "currency", "made_at"),
    *some(TEXT, "rules", "rules_digest"),  # frozen from 'open' on
    *perhaps(TEXT, "offer", "offer_digest"),  # the curve, or what clearing decided
    *perhaps(TEXT, "reports_digest"),  # keyed; of files
    *perhaps(TEXT, "reason", "key_missed_at", "opens_at", "closes_at", "deliver_until", "cleared_at"),
    *perhaps(BYTES, "public_key"),
    *some(WHOLE, "minor_units"),
    *perhaps(WHOLE, "largest", "consent"),
    *counts("ceiling", "delta", "debt"),
    *flag("campaign", "self_funded", 0),  # files: escrow is entered as it is promised
    CheckConstraint("minor_units > 0 AND ceiling >= 0 AND delta >= 0", name="campaign_signs"),
    CheckConstraint("debt >= 0 AND (state = 'unpaid') = (debt > 0)", name="campaign_debt"),
    UniqueConstraint("owner", "name", name="campaign_named"),
    Index("campaign_of_files", "name", unique=True, **where("owner IS NULL")),
)
member_role = table(
    "member_role",
    refers("member", "member"),
    *one_of("member_role", "role", "buyer", "operator", "paymaster", "auditor"),
    refers("campaign", "campaign", nullable=True),  # none: of all
    Index("role_once", "member", "role", text("coalesce(campaign, 0)"), unique=True),
)
account = table(
    "account",  # 'outside', 'payable', 'escrow', and 'escrow/NAME' for every group
    key("campaign", WHOLE, ForeignKey("campaign.id")),
    key("name"),
    *counts("balance", "held", "taken"),
    *perhaps(WHOLE, "quota"),
    CheckConstraint("held >= 0 AND taken >= 0 AND (quota IS NULL OR taken <= quota)", name="account_room"),
    CheckConstraint("name = 'outside' OR balance >= held", name="account_covered"),
)
transfer = table(
    "transfer",  # posted movements only, never changed
    row_id(),
    *some(WHOLE, "campaign", "amount"),
    *one_of("transfer", "kind", "fund", "allot", "pay", "payout", "returned", "refund"),
    *some(TEXT, "debit", "credit", "at"),
    Column("ref", TEXT, unique=True),
    CheckConstraint("amount > 0 AND debit <> credit", name="transfer_moves"),
    sa.ForeignKeyConstraint(["campaign", "debit"], ["account.campaign", "account.name"]),
    sa.ForeignKeyConstraint(["campaign", "credit"], ["account.campaign", "account.name"]),
)
payout = table(
    "payout",
    key("id", WHOLE),
    refers("campaign", "campaign"),
    *some(WHOLE, "number", "people", "amount"),
    *some(TEXT, "made_at"),
    UniqueConstraint("campaign", "number", name="payout_numbered"),
)
person = table(
    "person",
    row_id(),
    Column("digest", BYTES, nullable=False, unique=True),  # BLAKE2b-128 of the id, keyed by market.key
    *perhaps(TEXT, "name"),  # the id itself: of files only
    *some(WHOLE, "epsilon_cap", "delta_cap"),
    *counts("epsilon_held", "epsilon_spent", "delta_used"),
    *flag("person", "invitable", 1),
    CheckConstraint("epsilon_held >= 0 AND epsilon_spent >= 0 AND delta_used >= 0", name="person_signs"),
    CheckConstraint(
        "epsilon_held + epsilon_spent <= epsilon_cap AND delta_used <= delta_cap", name="person_cap"
    ),
    postgresql_with={"fillfactor": 60},
)
participation = table(
    "participation",
    row_id(),
    *some(WHOLE, "campaign", "person"),
    *one_of("participation", "state", *ACTIVE, *ENDED),
    Column("pool", TEXT, nullable=False, server_default=text("'escrow'")),
    *perhaps(REAL, "epsilon", "epsilon_used", "weight"),  # quoted; what the release really spent
    *perhaps(WHOLE, "payment", "position", "payout"),
    *counts("money_held", "epsilon_held", "epsilon_spent", "reservations", "returns"),
    *some(TEXT, "since"),  # of a reservation, a quote, a place in line
    *perhaps(TEXT, "reason", "until", "paid_at"),
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
    key("participation", WHOLE, ForeignKey("participation.id")),
    *perhaps(TEXT, "language", "consent_digest", "consented_at", "screened_at"),
    *perhaps(BYTES, "payee", "contact"),  # sealed to the operator's key
    *flag("seller", "panel", 0),  # came by a panel's link, and cannot be called
)
sealed = table(
    "sealed",  # to the campaign's key; gone with it
    key("participation", WHOLE, ForeignKey("participation.id")),
    key("kind"),
    CheckConstraint("kind = 'cost' OR kind = 'record'", name="sealed_kind_known"),
    *some(BYTES, "body"),
    *some(TEXT, "at"),
)
attempt = table(
    "attempt",
    key("id"),
    refers("campaign", "campaign"),
    *one_of("attempt", "state", "debited", "committed", "released", "failed", "returned"),
    *some(TEXT, "debited_at"),
    *perhaps(TEXT, "committed_at", "ended_at"),
    *perhaps(WHOLE, "tick"),
    CheckConstraint(
        "(state = 'debited' OR state = 'returned') OR committed_at IS NOT NULL", name="attempt_commit_point"
    ),
    Index("attempt_once", "campaign", unique=True, **where("state <> 'returned'")),
)
commit_log = table(
    "commit_log",  # what cannot be taken back; copied line by line to the file outside
    key("tick", WHOLE),
    *some(TEXT, "line", "digest"),
)
document = table(
    "document",  # released, certificate, openings (sealed), costs (sealed), report, receipt
    row_id(),
    refers("campaign", "campaign"),
    refers("participation", "participation", nullable=True),
    *some(TEXT, "kind", "at"),
    *some(BYTES, "body"),
    Index("document_once", "campaign", "kind", text("coalesce(participation, 0)"), unique=True),
)
partition = table(
    "partition",  # files of quotes and of spending, by their digests
    key("campaign", WHOLE, ForeignKey("campaign.id")),
    key("number", WHOLE),
    key("kind"),
    *some(TEXT, "path", "sha256"),
    *some(WHOLE, "people", "payments"),
)
token = table(
    "token",
    key("hash"),
    *one_of("token", "kind", "login", "session", "api", "invitation"),
    refers("member", "member", nullable=True),
    refers("participation", "participation", nullable=True),
    *some(TEXT, "made_at"),
    *perhaps(TEXT, "expires_at", "revoked_at"),
    CheckConstraint("(member IS NULL) <> (participation IS NULL)", name="token_owner"),
)
idempotency = table(
    "idempotency",  # the key's digest, the request's digest under the key, the answer sealed by the key
    key("owner"),
    key("key"),
    *some(TEXT, "request", "at"),
    *perhaps(BYTES, "answer"),
)
event = table(
    "event",
    row_id("number"),
    refers("campaign", "campaign"),
    refers("participation", "participation", nullable=True),
    *some(TEXT, "kind", "at"),
    Index("event_of", "participation"),
    Index("event_of_campaign", "number", **where("participation IS NULL")),
    # For sums in batches, in this order.
    Index("event_accepted", "campaign", "number", **where("kind = 'accepted'")),
)
job = table(
    "job",  # the one queue: work, mails, hooks, and what a worker opens for a member
    row_id(),
    *one_of("job", "lane", "work", "mail", "hook", "now"),
    *one_of("job", "state", "waiting", "running", "done", "failed", "unknown"),
    *some(TEXT, "kind", "due_at"),
    *some(WHOLE, "subject"),
    *perhaps(BYTES, "body", "answer"),
    *counts("attempts"),
    *perhaps(TEXT, "lease_until", "claim", "error"),
    CheckConstraint("(claim IS NOT NULL) = (state = 'running')", name="job_claim"),
    UniqueConstraint("kind", "subject", name="job_once"),
    Index("job_due", "lane", "due_at", **where("state = 'waiting' OR state = 'running'")),
)
deed = table(
    "deed",  # who did what: each act of a member, without its values
    row_id(),
    refers("member", "member"),
    *some(TEXT, "act", "at"),
    *perhaps(WHOLE, "campaign"),
)
webhook = table(
    "webhook",
    row_id(),
    *some(TEXT, "url"),
    *some(BYTES, "secret"),
    refers("campaign", "campaign", nullable=True),
    *counts("sent"),
)
