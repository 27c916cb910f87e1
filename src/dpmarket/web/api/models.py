"""What goes into the API and comes out of it: strict models, with words for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from dpmarket.campaign import Market

_KEY = "At least 16 random characters. The same key with the same request is done once and answered again."
MaybeKey = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=16, max_length=200, description=_KEY)
]
NeededKey = Annotated[str, Header(alias="Idempotency-Key", min_length=16, max_length=200, description=_KEY)]
CampaignId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="The campaign's id.")]
Language = Annotated[str, Query(pattern=r"^[a-z]{2,3}$", description="Of the text, such as en or de.")]
PayoutId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="The payout's id.")]
Minor = Annotated[int, Field(description="Money, in minor units such as cents.")]


class Strict(BaseModel):
    """A request: nothing is guessed, and nothing that was not asked for is taken."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid")


def _no_blanks(text: str) -> str:
    if text != text.strip() or not text.isprintable():
        raise ValueError("blanks or control characters")
    return text


def _in_sane_years(moment: datetime) -> datetime:
    if not 2000 <= moment.year <= 2500:
        raise ValueError("a time from 2000 to 2500")
    return moment


Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_no_blanks)]
# Not strict about how a time is written in JSON, which knows no times.
Moment = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_sane_years)]


class NewCampaign(Strict):
    """A campaign to draft."""

    title: Name = Field(description="Unique in the service.")
    mechanism: Literal["online", "offline"] = Field(
        description="Online: everybody is quoted when they come. Offline: all report, then all are quoted."
    )
    market: Market = Field(description="The market file's content, table by table.")
    opens_at: Moment = Field(description="From then on sellers take part.")
    closes_at: Moment = Field(description="Until then sellers take part and are quoted.")
    deliver_until: Moment = Field(description="Until then records come; then training begins by itself.")
    consent_version: int = Field(1, ge=1, le=1_000_000, description="Of the text that sellers agree to.")


class CampaignAnswer(Answer):
    """A campaign."""

    id: str
    title: str
    state: str = Field(
        description="draft, open, clearing, unpaid, deciding, closed, training, released, lost or cancelled."
    )
    mechanism: str
    currency: str
    minor_units: int = Field(description="Minor units to one unit of money.")
    market_digest: str = Field(description="Of the market file, which is frozen when the campaign opens.")
    curve_digest: str | None = Field(description="Of the offers at each cost; online, once it is open.")
    ceiling: float | None = Field(description="What nobody is asked to exceed, epsilon; once it is open.")
    largest_payment: int | None = Field(description="What nobody is paid more than, online, minor units.")
    debt: int | None = Field(
        description="What must be paid before sellers are asked for anything, minor units; null to a seller: "
        "when somebody leaves it changes by what they would have been paid."
    )
    opens_at: str
    closes_at: str
    deliver_until: str


class Campaigns(Answer):
    """Campaigns, oldest first."""

    campaigns: list[CampaignAnswer]


class Amount(Strict):
    """An amount of money."""

    amount: int = Field(gt=0, le=2**53, description="In minor units.")


class Available(Answer):
    """What lies in escrow."""

    available: int | None = Field(
        description="What is promised to nobody, in minor units, before the opening; null afterwards: "
        "it would tell what single sellers are paid."
    )


class State(Answer):
    """A state after an act."""

    state: str


class NewInvitations(Strict):
    """People to invite."""

    people: list[Name] = Field(
        min_length=1, max_length=2_000, description="What the panel calls them; kept as keyed digests only."
    )
    lifetime_epsilon: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="What each gives over all campaigns at most, said by an operator; left out: the setting.",
    )


class InvitationAnswer(Answer):
    """An invitation, told once: whoever has the token acts for this seller."""

    person: str = Field(description="As the request calls them.")
    token: str | None
    link: str | None
    mailed: bool = Field(
        description="Whether the link goes to this address by mail, and is told to nobody else."
    )


class Invitations(Answer):
    """Invitations of all who were not invited before and may be invited."""

    invitations: list[InvitationAnswer]


class Totals(Answer):
    """What a campaign has come to, in batches: no sum ever changes by one person."""

    counts: dict[str, int] = Field(description="How many sellers are in which state: live.")
    acceptances: int = Field(description="Over how many acceptances the sums are.")
    promised: float = Field(description="Sum of their epsilons, rounded to three digits.")
    payments: Minor = Field(description="Sum of their payments, rounded to three digits.")
    debt: Minor


class Check(Answer):
    """One thing that the verifier looked at."""

    name: str
    verdict: Literal["holds", "FAILS", "skipped"]


class Report(Answer):
    """A released campaign in figures that tell nothing about one seller."""

    title: str
    state: str
    totals: Totals
    largest_promise: float = Field(description="The campaign's ceiling, epsilon.")
    even_guess_becomes: float = Field(
        description="How sure an even guess about a seller with that promise can become, rounded up."
    )
    certificate: list[Check] = Field(description="What the verifier, which shares no code with us, says.")


class Me(Answer):
    """Where a seller stands."""

    state: str = Field(
        description="invited, consented, waiting, seated, reported, quoted, accepted, delivered, spent, "
        "declined, expired, lapsed or withdrawn."
    )
    campaign: str
    title: str
    campaign_state: str
    mechanism: str
    currency: str
    minor_units: int
    seat_until: str | None = Field(description="Until when a seat is held.")
    opens_at: str
    closes_at: str
    deliver_until: str
    limit: float = Field(description="The most epsilon that you give over all campaigns.")
    spent: float = Field(description="What of it is spent.")
    held: float = Field(description="What of it campaigns hold that you are in.")


class AccountLineAnswer(Answer):
    """What the campaign that this token belongs to holds and has spent of your limit."""

    title: str
    campaign_state: str
    state: str = Field(description="Yours in it.")
    held: float = Field(description="epsilon that it holds until it ends or you leave.")
    spent: float = Field(description="epsilon that was used.")
    payment: int | None = Field(description="What your offer here comes to, in minor units.")
    made_at: str


class AccountAnswer(Answer):
    """Your limit over all campaigns, and what became of it.

    Of other campaigns a token tells their sum only, rounded up to tenths of the limit.
    """

    limit: float
    spent: float
    held: float
    left: float = Field(description="What further campaigns can hold, at least.")
    campaign: AccountLineAnswer
    others_held: float = Field(description="Other campaigns together, in tenths of the limit, rounded up.")
    others_spent: float = Field(description="Other campaigns together, in tenths of the limit, rounded up.")


class ConsentAnswer(Answer):
    """What a seller reads before taking part."""

    version: int
    language: str
    text: str
    market_digest: str
    curve_digest: str | None
    digest: str = Field(description="Of all of this: send it back to agree.")


class Consent(Strict):
    """Agreement to a page that was shown."""

    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="As the page tells it."
    )


class Line(Answer):
    """One choice: reporting its cost is choosing it."""

    cost: float
    epsilon: float
    payment: Minor


class Menu(Answer):
    """A seat with the menu, or a place in line."""

    state: Literal["seated", "waiting"]
    lease_until: str | None = Field(description="Until when the money for any choice is set aside.")
    place: int | None = Field(description="How many are called before you, yourself included.")
    menu: list[Line] = Field(description="Empty for who waits.")


class Cost(Strict):
    """What a seller's privacy costs. Online it is used for the quote and kept nowhere."""

    cost: float = Field(ge=0, description="Money per unit of epsilon; or that of a line of the menu.")


class QuoteAnswer(Answer):
    """An offer, which never changes."""

    epsilon: float = Field(description="The promise.")
    payment: Minor
    minor_units: int
    currency: str
    expires_at: str = Field(description="Until when it can be accepted, in UTC.")


Row = Annotated[
    dict[Annotated[str, StringConstraints(max_length=200)], float | int | str | bool | None],
    Field(min_length=1, max_length=10_000),
]


class Record(Strict):
    """A record, checked, then sealed to the campaign's key."""

    values: Row | Annotated[list[Row], Field(min_length=1, max_length=1_000)] = Field(
        description="By name: every feature and the label of the market file, or every column that its "
        "statistics are asked of; or a list of such rows."
    )


class ReportedCost(Answer):
    """What somebody reported. Confidential."""

    participation: str
    cost: float


class ReportedCosts(Answer):
    """What an offline campaign was cleared by, in the order of the decision. Confidential."""

    costs: list[ReportedCost]


class Payee(Strict):
    """Whom to pay; sealed to the operator's key."""

    payee: Name


class EventAnswer(Answer):
    """Something that happened to a seller's data."""

    kind: str
    at: str


class Events(Answer):
    """What happened to a seller's data, oldest first."""

    events: list[EventAnswer]


class PayoutAnswer(Answer):
    """One file of payments."""

    id: str
    number: int
    lines: int
    amount: Minor
    made_at: str


class PayingAnswer(Answer):
    """What of a campaign concerns who pays."""

    campaign: str
    title: str
    state: str
    currency: str
    minor_units: int
    owed: Minor
    on_its_way: Minor
    paid_out: Minor
    payouts: list[PayoutAnswer]


class PayingList(Answer):
    """Campaigns with what is owed, oldest first."""

    campaigns: list[PayingAnswer]


class NewPayout(Strict):
    """Pay all that a campaign's sellers are owed."""

    campaign: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class PayoutLineAnswer(Answer):
    """One payment to make."""

    reference: str = Field(description="What the bank hands on; what is confirmed or returned by.")
    payee: str | None = Field(description="As the seller wrote it; null if they have not said.")
    amount: Minor


class PayoutLines(Answer):
    """A payout with its lines."""

    payout: PayoutAnswer
    lines: list[PayoutLineAnswer]


class Confirmation(Strict):
    """What became of payments."""

    kind: Literal["confirmed", "returned"]
    references: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] = Field(
        min_length=1, max_length=20_000
    )


class Account(Strict):
    """A bank account."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=70)]
    iban: Annotated[str, StringConstraints(min_length=15, max_length=50)]


class PayeeAccount(Account):
    """The account of a payee, as the payout calls them."""

    payee: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class BankFile(Strict):
    """From where, to where and when to pay; used for the answer, and kept nowhere."""

    payer: Account
    accounts: list[PayeeAccount] = Field(min_length=1, max_length=20_000)
    day: Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] = Field(
        description="When the bank is to pay, such as 2026-03-02."
    )


class Entered(Answer):
    """How many payments were entered that were not known, and of how many the same was known already.

    What was written down before a failure is entered by itself: who asks again then finds it known.
    """

    entered: int
    known: int


def known_names() -> set[str]:
    """Return every name that a problem may tell: of our own models, and of where values stand."""
    import dpmarket.campaign.market_file as market_file

    found = {"body", "header", "path", "query", "request", "campaign_id", "payout_id", "Idempotency-Key"}
    for module in (globals(), vars(market_file)):
        for value in module.values():
            if isinstance(value, type) and issubclass(value, BaseModel):
                found |= set(value.model_fields)
    return found


def plain(model: BaseModel | None) -> Any:
    """Return a request as plain data, for its digest."""
    return None if model is None else model.model_dump(mode="json", exclude_none=True)
