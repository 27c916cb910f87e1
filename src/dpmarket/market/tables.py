"""What the live desk keeps beside the ledger's own tables: campaigns, people, participations, jobs.

Times are texts in UTC, money is whole minor units, epsilon is a double on a grid on which sums are exact
(:mod:`dpmarket.market.people`). No table has a place for a cost in clear, and events have none for a value.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
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

from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.tables import ID, REAL_NUMBER, WHOLE, make_strict, one_of

HEAD = "market_1"
"""The one revision in ``migrations/versions``: what :data:`metadata` describes."""

CAMPAIGN_STATES = (
    "draft", "open", "clearing", "unpaid", "deciding", "closed", "training", "released", "lost", "cancelled",
)  # fmt: skip
PARTICIPATION_STATES = (
    "invited", "consented", "waiting", "seated", "reported", "quoted", "accepted", "delivered", "spent",
    "declined", "expired", "lapsed", "withdrawn",
)  # fmt: skip

metadata = MetaData()

_CAMPAIGN = ledger_tables.campaign.c.id


member = Table(
    "member",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("made_at", Text, nullable=False),
    one_of("role", ("buyer", "paymaster", "auditor", "operator"), "member_role"),
)

consent = Table(
    "consent",
    metadata,
    Column("version", Integer, primary_key=True),
    Column("language", Text, primary_key=True),
    Column("text", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("made_at", Text, nullable=False),
)

live_campaign = Table(
    "live_campaign",
    metadata,
    Column("campaign", Text, ForeignKey(_CAMPAIGN), primary_key=True),
    Column("buyer", Text, ForeignKey("member.id"), nullable=False),
    Column("title", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("mechanism", Text, nullable=False),
    # The whole market file as JSON in one way only; frozen from the opening on.
    Column("market", Text, nullable=False),
    Column("market_digest", Text, nullable=False),
    # Online only: what to offer at which cost. No cost is in it.
    Column("curve", Text),
    Column("curve_digest", Text),
    Column("largest_payment", WHOLE),
    # What nobody can be asked to exceed, and so what everybody's limit holds until the campaign ends.
    Column("ceiling", REAL_NUMBER),
    Column("minor_units", WHOLE, nullable=False),
    Column("currency", Text, nullable=False),
    Column("escrow", Text, ForeignKey(ledger_tables.account.c.id), nullable=False),
    Column("payable", Text, ForeignKey(ledger_tables.account.c.id), nullable=False),
    Column("public_key", LargeBinary),
    Column("round", ID, ForeignKey(ledger_tables.round_.c.number)),
    # Offline: what clearing decided, and what the buyer owes before sellers can be asked for anything.
    Column("decision", Text),
    Column("debt", WHOLE, nullable=False, server_default=text("0")),
    Column("consent_version", Integer, nullable=False),
    Column("opens_at", Text, nullable=False),
    Column("closes_at", Text, nullable=False),
    Column("deliver_until", Text, nullable=False),
    Column("cleared_at", Text),
    Column("made_at", Text, nullable=False),
    one_of("state", CAMPAIGN_STATES, "live_campaign_state"),
    one_of("mechanism", ("online", "offline"), "live_campaign_mechanism"),
    CheckConstraint("debt >= 0", name="live_campaign_debt"),
    CheckConstraint("(state = 'unpaid') = (debt > 0)", name="live_campaign_unpaid"),
)

person = Table(
    "person",
    metadata,
    # A keyed digest of what the panel calls them: the panel's own id is nowhere.
    Column("id", Text, primary_key=True),
    Column("cap_epsilon", REAL_NUMBER, nullable=False),
    Column("spent_epsilon", REAL_NUMBER, nullable=False, server_default=text("0")),
    Column("held_epsilon", REAL_NUMBER, nullable=False, server_default=text("0")),
    Column("invitations", Integer, nullable=False, server_default=text("1")),
    Column("made_at", Text, nullable=False),
    CheckConstraint("spent_epsilon >= 0 AND held_epsilon >= 0", name="person_signs"),
    CheckConstraint("spent_epsilon + held_epsilon <= cap_epsilon", name="person_cap"),
    CheckConstraint("invitations IN (0, 1)", name="person_invitations"),
)

participation = Table(
    "participation",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign", Text, ForeignKey("live_campaign.campaign"), nullable=False),
    Column("person", Text, ForeignKey("person.id"), nullable=False),
    Column("state", Text, nullable=False),
    # What of the person's limits is this participation's.
    Column("held_epsilon", REAL_NUMBER, nullable=False, server_default=text("0")),
    Column("spent_epsilon", REAL_NUMBER, nullable=False, server_default=text("0")),
    Column("consent_version", Integer),
    Column("consent_digest", Text),
    Column("consented_at", Text),
    # While seated: until when the money for any choice is set aside.
    Column("lease_until", Text),
    Column("sealed_cost", LargeBinary),
    Column("sealed_payee", LargeBinary),
    Column("made_at", Text, nullable=False),
    UniqueConstraint("campaign", "person", name="participation_once"),
    one_of("state", PARTICIPATION_STATES, "participation_state"),
    CheckConstraint("held_epsilon >= 0 AND spent_epsilon >= 0", name="participation_signs"),
    CheckConstraint("(lease_until IS NOT NULL) = (state = 'seated')", name="participation_lease"),
    CheckConstraint("state <> 'spent' OR held_epsilon = 0", name="participation_spent"),
    Index("participation_by_state", "campaign", "state"),
    Index("participation_by_person", "person"),
)

waiting = Table(
    "waiting",
    metadata,
    Column("number", ID, primary_key=True, autoincrement=True),
    Column("campaign", Text, ForeignKey("live_campaign.campaign"), nullable=False),
    Column("participation", Text, ForeignKey("participation.id"), nullable=False, unique=True),
    # Why they wait: the campaign has no room, or they have too little epsilon left.
    Column("reason", Text, nullable=False),
    one_of("reason", ("room", "cap"), "waiting_reason"),
    Index("waiting_in_order", "campaign", "reason", "number"),
)

quote = Table(
    "quote",
    metadata,
    Column("participation", Text, ForeignKey("participation.id"), primary_key=True),
    Column("epsilon", REAL_NUMBER, nullable=False),
    Column("payment", WHOLE, nullable=False),
    Column("made_at", Text, nullable=False),
    # None: until the campaign's own end, which a buyer's debt puts off.
    Column("expires_at", Text),
    CheckConstraint("epsilon >= 0 AND payment >= 0", name="quote_signs"),
    CheckConstraint("(epsilon > 0) = (payment > 0)", name="quote_both"),
    sqlite_with_rowid=False,
)

record = Table(
    "record",
    metadata,
    Column("participation", Text, ForeignKey("participation.id"), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("delivered_at", Text, nullable=False),
)

token = Table(
    "token",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("member", Text, ForeignKey("member.id")),
    Column("participation", Text, ForeignKey("participation.id")),
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
    one_of("kind", ("login", "session", "api", "invitation"), "token_kind"),
    CheckConstraint("(member IS NULL) <> (participation IS NULL)", name="token_owner"),
)

event = Table(
    "event",
    metadata,
    Column("number", ID, primary_key=True, autoincrement=True),
    Column("campaign", Text, ForeignKey("live_campaign.campaign"), nullable=False),
    Column("participation", Text, ForeignKey("participation.id")),
    Column("kind", Text, nullable=False),
    Column("at", Text, nullable=False),
    Index("event_of_participation", "participation"),
    # Acceptances in order, for sums that are told in batches.
    Index(
        "event_accepted",
        "campaign",
        "number",
        sqlite_where=text("kind = 'accepted'"),
        postgresql_where=text("kind = 'accepted'"),
    ),
)

job = Table(
    "job",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("campaign", Text, ForeignKey("live_campaign.campaign"), nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("due_at", Text, nullable=False),
    Column("lease_until", Text),
    # Who works on it: a new id for every claim, so that who was given up cannot end it.
    Column("claim", Text),
    Column("error_kind", Text),
    UniqueConstraint("kind", "campaign", name="job_once"),
    one_of("kind", ("clear", "close", "train", "certify"), "job_kind"),
    one_of("state", ("waiting", "running", "done", "failed"), "job_state"),
    CheckConstraint("(claim IS NOT NULL) = (state = 'running')", name="job_claim"),
    Index("job_due", "state", "due_at"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request", Text, nullable=False),
    Column("response", Text),
    Column("made_at", Text, nullable=False),
    sqlite_with_rowid=False,
)

# How often something may be done: by whom is known by a keyed digest only.
bucket = Table(
    "bucket",
    metadata,
    Column("key", Text, primary_key=True),
    Column("tokens", REAL_NUMBER, nullable=False),
    # Seconds since 1970: parts of seconds count here.
    Column("at", REAL_NUMBER, nullable=False),
    sqlite_with_rowid=False,
)

certificate = Table(
    "certificate",
    metadata,
    Column("round", ID, ForeignKey(ledger_tables.round_.c.number), primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    # Who was promised, paid and spent what, with the salts: sealed to the operator.
    Column("openings", LargeBinary, nullable=False),
    Column("made_at", Text, nullable=False),
)

receipt = Table(
    "receipt",
    metadata,
    Column("participation", Text, ForeignKey("participation.id"), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

# How to reach somebody: address and token of their link, sealed to the operator.
contact = Table(
    "contact",
    metadata,
    Column("participation", Text, ForeignKey("participation.id"), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
)

mail = Table(
    "mail",
    metadata,
    Column("id", Text, primary_key=True),
    Column("participation", Text, ForeignKey("participation.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("due_at", Text, nullable=False),
    Column("lease_until", Text),
    Column("claim", Text),
    Column("error_kind", Text),
    UniqueConstraint("participation", "kind", name="mail_once"),
    one_of("kind", ("invitation", "reminder", "receipt"), "mail_kind"),
    # Unknown: perhaps sent; nobody sends it again.
    one_of("state", ("waiting", "sending", "sent", "failed", "unknown"), "mail_state"),
    CheckConstraint("(claim IS NOT NULL) = (state = 'sending')", name="mail_claim"),
    Index("mail_due", "state", "due_at"),
)

cleared_costs = Table(
    "cleared_costs",
    metadata,
    Column("campaign", Text, ForeignKey("live_campaign.campaign"), primary_key=True),
    # Who reported what for an offline campaign: sealed to the operator, for an auditor.
    Column("sealed", LargeBinary, nullable=False),
)

# Public halves of keys that workers hold: who answers requests has no others.
public_key = Table(
    "public_key",
    metadata,
    Column("name", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
    Column("made_at", Text, nullable=False),
)

# What a worker is asked to open for somebody who may see it; the answer is sealed to a key that lives only in
# the memory of who asks.
question = Table(
    "question",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("sealed", LargeBinary),
    Column("refusal", Text),
    Column("made_at", Text, nullable=False),
    one_of("kind", ("payout", "openings", "costs"), "question_kind"),
)

report = Table(
    "report",
    metadata,
    Column("campaign", Text, ForeignKey("live_campaign.campaign"), primary_key=True),
    # A whole page, of sums and of means of at least ten; None: too few people for one.
    Column("body", LargeBinary),
    Column("made_at", Text, nullable=False),
)

make_strict(metadata)
