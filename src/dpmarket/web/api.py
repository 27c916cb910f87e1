"""The API: one POST route for each act of the registry, and GET routes over the views.

Every POST needs an idempotency key. Acts whose bodies are no plain values have a body of the API's own
(:data:`PREPARED`), from which the act's arguments are computed outside of the transaction.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import pydantic
from fastapi import APIRouter, Depends, Header, Path, Query, Response
from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints

from dpmarket.campaign import hooks, jobs, mail, views  # noqa: F401  some have acts to serve
from dpmarket.campaign.access import Member, list_members
from dpmarket.campaign.acts import ACTS, Act, Caller, Id, Number, shown_id
from dpmarket.campaign.bank_file import FORMATS, Payment
from dpmarket.campaign.jobs import await_key, unsealed_document, unsealed_payees
from dpmarket.campaign.opening import draft_of, opening_of
from dpmarket.campaign.panel import show_secret
from dpmarket.campaign.payouts import Payout, payout_lines
from dpmarket.campaign.rules.encoding import encode_record
from dpmarket.campaign.rules.rules_file import check_rules, rules_from
from dpmarket.campaign.transaction import nothing
from dpmarket.campaign.views import deeds_after
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.web.problems import WrongRules, documented
from dpmarket.web.service import AnyCaller, Service, TheService

_KEY = "At least 16 random characters. The same key with the same request is done once and answered again."
Key = Annotated[str, Header(alias="Idempotency-Key", min_length=16, max_length=200, description=_KEY)]
CampaignId = Annotated[Id, Path(description="The campaign's id.")]
PayoutId = Annotated[Id, Path(description="The payout's id.")]
After = Annotated[int, Query(ge=0, lt=2**63, description="The last number that is known.")]
Language = Annotated[str, Query(pattern=r"^[a-z]{2,3}$", description="Of the text, such as en or de.")]
_JSON, _HTML, _CSV = "application/json", "text/html", "text/csv"
_READING = documented(401, 404, 409, 410, 422, 503)
_ACTING = _READING | documented(400, 402, 403, 413, 415, 429)
router = APIRouter(prefix="/api/v1", responses=_READING)
health = APIRouter(tags=["health"])


def _answers(media: str) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says about answers of a media type."""
    return {200: {"content": {media: {"schema": {"type": "object" if media == _JSON else "string"}}}}}


class Strict(pydantic.BaseModel):
    """A request: nothing is guessed, and nothing that was not asked for is taken."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _in_sane_years(moment: datetime) -> datetime:
    if not 2000 <= moment.year <= 2500:
        raise ValueError("a time from 2000 to 2500")
    return moment


# Not strict about how a time is written in JSON, which knows no times.
Moment = Annotated[AwareDatetime, Field(strict=False), AfterValidator(_in_sane_years)]
Row = Annotated[
    dict[Annotated[str, StringConstraints(max_length=200)], float | int | str | bool | None],
    Field(min_length=1, max_length=10_000),
]


class NewCampaign(Strict):
    """A campaign to draft; its name and mechanism are in the rules."""

    rules: dict[str, Any] = Field(description="The rules file's content, table by table.")
    opens_at: Moment = Field(description="From then on sellers take part.")
    closes_at: Moment = Field(description="Until then sellers report or choose.")
    deliver_until: Moment = Field(description="Until then records come; then training begins by itself.")
    consent: Number | None = Field(None, description="The version of the consent text; null: the newest.")

    def arguments(self, service: Service, caller: Caller, campaign: int | None) -> dict[str, Any]:
        """Return the draft that the rules and times make."""
        given = {name: value for name, value in self if name != "rules"}
        try:
            return {"plan": draft_of(check_rules(self.rules), channel="live", **given)}
        except FileProblem as problem:
            raise WrongRules(problem.details or [str(problem)]) from None
        except pydantic.ValidationError as problem:
            said = problem.errors()[0]["msg"].removeprefix("Value error, ")
            raise MarketRefusal("invalid", said) from None


class Confirmed(Strict):
    """Opening a campaign."""

    confirmed: bool = Field(
        default=False, description="That the buyer has read why this should not be done, if 409 said so."
    )

    def arguments(self, service: Service, caller: Caller, campaign: int) -> dict[str, Any]:
        """Return what the rules come to; computed outside of the transaction, which it would hold up."""
        text = service.look(views.show_rules, caller, campaign)
        service.need(caller, ACTS["open"].roles, campaign)
        await_key(service.market, campaign)
        rules = rules_from(text)
        service.settings.refuse_unlisted(rules.training.model)
        try:
            return {"opening": opening_of(rules), "confirmed": self.confirmed}
        except FileProblem as problem:
            raise MarketRefusal("invalid", str(problem)) from None


class Record(Strict):
    """A record, checked by the public rules, then sealed to the campaign's key."""

    values: Row | Annotated[list[Row], Field(min_length=1, max_length=1_000)] = Field(
        description="By name: every column that the rules ask for; or a list of such rows."
    )

    def arguments(self, service: Service, caller: Caller, campaign: int | None) -> dict[str, Any]:
        """Return the record as bytes of one length."""
        with service.market.look() as c:
            me = views.show_participation(c, caller)
            rules = rules_from(views.show_rules(c, caller, me.campaign))
        return {"record": encode_record(rules, self.values)}


class People(Strict):
    """People to invite."""

    ids: list[Annotated[str, StringConstraints(min_length=1, max_length=200)]] = Field(
        min_length=1, max_length=1_000, description="Ids of the panel; stored as keyed digests only."
    )
    group: str | None = Field(None, max_length=200, description="The group they belong to.")

    def arguments(self, service: Service, caller: Caller, campaign: int | None) -> dict[str, Any]:
        """Return whom to invite, by mail where the service sends mails."""
        return {"ids": self.ids, "group": self.group, "mailed": service.settings.smtp_url is not None}


PREPARED: dict[str, type[Strict]] = {
    "draft": NewCampaign, "edit": NewCampaign, "open": Confirmed, "deliver": Record, "invite": People,
}  # fmt: skip
"""Bodies of the API's own, whose ``arguments`` are the act's."""


def served_acts() -> dict[str, Act]:
    """Return the acts that people call over a network: a worker's own, and those of files, are none."""
    return {
        name: entry
        for name, entry in ACTS.items()
        if entry.roles != ("worker",) and (name in PREPARED or entry.is_sendable)
    }


def path_of_act(entry: Act) -> str:
    """Return the address of an act, below the API's own."""
    if entry.name == "draft":
        return "/campaigns"
    if entry.roles == ("seller",):
        return f"/me/{entry.name}"
    return f"/campaigns/{{campaign}}/{entry.name}" if entry.of_campaign else f"/{entry.name}"


def run_form(
    service: Service, caller: Caller, act: str, key: str, form: Mapping[str, Any], campaign: int | None = None
) -> Any:
    """Run an act as its route does, by a body that a form was read into."""
    try:
        body = _body_type(ACTS[act]).model_validate(dict(form), strict=False)
    except pydantic.ValidationError:
        raise MarketRefusal("invalid", "Expected a form of this service.") from None
    return _run(service, ACTS[act], caller, key, body, campaign)


def _run(service: Service, entry: Act, caller: Caller, key: str, body: Any, campaign: int | None) -> Any:
    given = body.arguments(service, caller, campaign) if entry.name in PREPARED else dict(body)
    return service.run(entry, caller, key, **({"campaign": campaign} if entry.of_campaign else {}), **given)


def _body_type(entry: Act) -> type[pydantic.BaseModel]:
    return PREPARED.get(entry.name) or entry.request


def _endpoint(entry: Act) -> Callable[..., Response]:
    body_type = _body_type(entry)

    def endpoint(
        caller: Caller, service: Service, key: str, body: pydantic.BaseModel, campaign: int | None = None
    ) -> Response:
        return _json(entry.adapter.dump_json(_run(service, entry, caller, key, body, campaign)))

    needed = any(field.is_required() for field in body_type.model_fields.values())
    allowed = Annotated[Caller, Depends(_role_of(entry))]
    parts: dict[str, Any] = {"caller": allowed, "service": TheService, "key": Key, "body": body_type}
    if entry.of_campaign:
        parts["campaign"] = CampaignId
    defaults = {} if needed else {"body": Depends(body_type) if not body_type.model_fields else body_type()}
    _take(endpoint, parts, defaults)
    endpoint.__name__, endpoint.__doc__ = entry.name, inspect.getdoc(entry.function)
    return endpoint


def _take(endpoint: Callable[..., Any], parts: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Say what an endpoint takes from a request, by name."""
    only, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    parameters = [
        inspect.Parameter(name, only, annotation=kind, default=defaults.get(name, empty))
        for name, kind in parts.items()
    ]
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _role_of(entry: Act) -> Callable[..., Caller]:
    """Return a dependency that gives callers with an act's role, before anything else is looked at."""

    def of_market(caller: AnyCaller, service: TheService) -> Caller:
        return _with_role(service, entry, caller, None)

    def of_campaign(caller: AnyCaller, service: TheService, campaign: CampaignId) -> Caller:
        return _with_role(service, entry, caller, campaign)

    return of_campaign if entry.of_campaign else of_market


def _with_role(service: Service, entry: Act, caller: Caller, campaign: int | None) -> Caller:
    if (caller.participation is not None) != (entry.roles == ("seller",)):
        raise nothing()
    if caller.participation is None:
        service.need(caller, entry.roles, campaign)
    return caller


for _entry in served_acts().values():
    router.add_api_route(
        path_of_act(_entry),
        _endpoint(_entry),
        methods=["POST"],
        response_model=_entry.answer,
        responses=_ACTING,
        tags=["acts"],
        name=_entry.name,
    )


_ASKED = {"campaign": CampaignId, "payout": PayoutId, "after": After, "language": Language}


def _serve(path: str, view: Callable[..., Any], tag: str) -> None:
    """Add the route of a view: what it takes beside the caller is asked for, or known here."""
    takes = list(inspect.signature(view).parameters)[2:]
    asked = {name: _ASKED[name] for name in takes if name in _ASKED}
    defaults = {"after": 0, "language": "en"}
    known: dict[str, Any] = {}
    if "campaign" in asked and "{campaign}" not in path:
        del asked["campaign"]
        known["campaign"] = None  # of all campaigns

    def show(caller: Caller, service: Service, **parts: Any) -> Any:
        own = {"now": service.now, "terms": service.market.terms}
        of_service = {name: own[name] for name in takes if name in own}
        with service.market.look() as c:
            found = view(c, caller, **known, **of_service, **parts)
        return _json(found) if isinstance(found, str) else found

    _take(show, {"caller": AnyCaller, "service": TheService, **asked}, defaults)
    answer = typing.get_type_hints(view)["return"]
    router.add_api_route(
        path,
        show,
        response_model=None if answer is str else answer,
        responses=_answers(_JSON) if answer is str else None,
        description=(inspect.getdoc(view) or "").split("\n")[0],
        tags=[tag],
        name=view.__name__,
    )


for _path, _view, _tag in (
    ("/me/consent", views.show_consent, "seller"),
    ("/me/menu", views.show_menu, "seller"),
    ("/me", views.show_participation, "seller"),
    ("/me/limits", views.show_limits, "seller"),
    ("/me/events", views.show_history, "seller"),
    ("/campaigns/{campaign}", views.show_campaign, "campaigns"),
    ("/campaigns/{campaign}/rules", views.show_rules, "campaigns"),
    ("/campaigns/{campaign}/sums", views.show_sums, "campaigns"),
    ("/campaigns/{campaign}/money", views.show_money, "campaigns"),
    ("/campaigns/{campaign}/events", views.list_events, "campaigns"),
    ("/campaigns/{campaign}/deeds", deeds_after, "campaigns"),
    ("/deeds", deeds_after, "members"),
    ("/webhooks", hooks.list_webhooks, "members"),
):
    _serve(_path, _view, _tag)


@router.get("/me/receipt", tags=["seller"], responses=_answers(_JSON))
def show_receipt(caller: AnyCaller, service: TheService) -> Response:
    """Return a seller's receipt; with the certificate, 'dpmarket verify' checks it."""
    with service.market.look() as c:
        me = views.show_participation(c, caller)
        return _json(views.show_document(c, caller, me.campaign, "receipt"))


@router.get("/campaigns", tags=["campaigns"])
def list_campaigns(caller: AnyCaller, service: TheService) -> list[views.ShownCampaign]:
    """Return all campaigns that a member has a role in, oldest first."""
    if caller.participation is not None:
        raise nothing()
    return service.look(views.list_campaigns, caller)


@dataclass(frozen=True)
class PanelLinks:
    """How a panel's links are made: the address, and the secret that signs them. Confidential."""

    join: str
    secret: str


@router.get("/campaigns/{campaign}/panel", tags=["campaigns"])
def show_panel(campaign: CampaignId, caller: AnyCaller, service: TheService) -> PanelLinks:
    """Return how the panel's links are signed, to an operator: its holder can act for its people."""
    return links_of(service, caller, campaign)


def links_of(service: Service, caller: Caller, campaign: int) -> PanelLinks:
    """Return how a panel's links are made, to an operator of a campaign with a panel."""
    secret = service.look(show_secret, caller, campaign)
    if secret is None:
        raise nothing()
    join = f"{service.settings.public_url}/join/{shown_id(campaign)}?pid={{pid}}&sig={{sig}}"
    return PanelLinks(join, secret)


def document_of(service: Service, caller: Caller, campaign: int, kind: str) -> bytes:
    """Return a document that a caller may see; a sealed one is opened by a worker."""
    body = service.look(views.show_document, caller, campaign, kind)
    return unsealed_document(service.market, campaign, kind) if kind in views.SEALED else body


@dataclass(frozen=True)
class CampaignMoney:
    """A campaign, and what came in and went out."""

    campaign: views.ShownCampaign
    money: views.Money


@dataclass(frozen=True)
class Line:
    """One payment to make: its reference, the payee as the seller wrote it, and minor units."""

    reference: str
    payee: str
    amount: int


@dataclass(frozen=True)
class Lines:
    """A payout with its lines."""

    payout: Payout
    lines: list[Line]


@router.get("/payouts", tags=["payouts"])
def list_payouts(caller: AnyCaller, service: TheService) -> list[CampaignMoney]:
    """Return what is owed, on its way and paid out, campaign by campaign, to a paymaster."""
    service.need(caller, ("paymaster",), None)
    return [CampaignMoney(*one) for one in service.look(views.list_money, caller)]


@router.get("/payouts/{payout}", tags=["payouts"])
def show_payout(payout: PayoutId, caller: AnyCaller, service: TheService) -> Lines:
    """Return the lines of a payout that are not confirmed: whom to pay how much, by which reference."""
    return lines_of(service, caller, payout)[1]


def lines_of(service: Service, caller: Caller, payout: int) -> tuple[views.ShownCampaign, Lines]:
    """Return a payout's campaign and its lines, to a paymaster."""
    found, made = service.look(views.campaign_of_payout, caller, payout)
    payees = unsealed_payees(service.market, payout)
    rows = payout_lines(service.market, payout).iter_rows(named=True)
    lines = [Line(row["reference"], payees.get(row["participation"], ""), row["payment"]) for row in rows]
    return found, Lines(made, lines)


def payout_file(service: Service, caller: Caller, payout: int, kind: str | Callable[..., bytes]) -> bytes:
    """Return a payout as a file: of one of :data:`FORMATS`, or by a function like those."""
    found, made = lines_of(service, caller, payout)
    payments = [Payment(line.reference, line.payee, line.amount) for line in made.lines]
    try:
        write = FORMATS[kind] if isinstance(kind, str) else kind
        return write(payments, found.currency, found.minor_units)
    except InvalidInput as problem:
        raise MarketRefusal("invalid", str(problem)) from None


def _add_file(path: str, make: Callable[..., bytes], kind: str, media: str, about: str) -> None:
    """Add the route of a file of a campaign or a payout."""
    (name,) = re.findall(r"{(\w+)}", path)

    def show(caller: Caller, service: Service, **of: int) -> Response:
        return Response(make(service, caller, of[name], kind), media_type=media)

    _take(show, {"caller": AnyCaller, "service": TheService, name: _ASKED[name]}, {})
    router.add_api_route(
        f"{path}/{kind}",
        show,
        description=f"Return {about}",
        tags=[f"{name}s"],
        responses=_answers(media),
        name=f"show_{kind}",
    )


for _kind, _media, _about in (
    ("released", _JSON, "what was released, a model or statistics, to the buyer, a seller or an auditor."),
    ("certificate", _JSON, "the certificate; 'dpmarket verify' checks it."),
    ("signature", _JSON, "the service's signature under the certificate."),
    ("report", _HTML, "the report of a released campaign, one page, to its buyer or an auditor."),
    ("openings", _JSON, "what the certificate commits to, to an auditor. Confidential."),
    ("costs", _CSV, "the reports that an offline campaign was cleared by, to an auditor. Confidential."),
):
    _add_file("/campaigns/{campaign}", document_of, _kind, _media, _about)
for _kind, _write in FORMATS.items():
    _about = (inspect.getdoc(_write) or "").split("\n")[0].removeprefix("Return payments ")
    _add_file("/payouts/{payout}", payout_file, _kind, _CSV, f"what is not confirmed of a payout {_about}")


@router.get("/members", tags=["members"])
def show_members(caller: AnyCaller, service: TheService) -> list[Member]:
    """Return all members with their roles, to an operator."""
    service.need(caller, ("operator",), None)
    return service.look(list_members, service.now)


@health.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process lives; nothing else is looked at."""
    return {"state": "alive"}


@health.get("/readyz", responses=documented(503))
def readyz(service: TheService) -> dict[str, str]:
    """Say that the database can be read and agrees with the log."""
    service.market.verify()
    service.look(views.job_counts)
    return {"state": "ready"}


def known_names() -> set[str]:
    """Return every name that a problem may repeat: of bodies and rules, and of where values stand."""
    import dpmarket.campaign.rules.questions as questions
    import dpmarket.campaign.rules.rules_file as rules_file

    found = {"body", "header", "path", "query", "request", "campaign", "payout", "Idempotency-Key", "rules"}
    for module in (globals(), vars(rules_file), vars(questions)):
        for value in module.values():
            if isinstance(value, type) and issubclass(value, pydantic.BaseModel):
                found |= set(value.model_fields)
    for entry in served_acts().values():
        found |= set(entry.body.model_fields)
    return found


def _json(content: bytes | str) -> Response:
    return Response(content, media_type=_JSON)
