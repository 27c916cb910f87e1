"""A buyer's drafts: the form of a new campaign with its plan beside it, changed, copied and previewed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from dpmarket.campaign import views
from dpmarket.campaign.acts import Id
from dpmarket.campaign.consent import consent_versions
from dpmarket.campaign.rules.rules_file import check_rules
from dpmarket.campaign.schema import moment_of
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.web.api import CampaignId
from dpmarket.web.pages import rules_form as fields
from dpmarket.web.pages.forms import Form, Sent
from dpmarket.web.pages.member import HOME, Visit, Visited
from dpmarket.web.pages.purchase import MODEL, NUMBERS, Planned, planned, purpose_of, wanted_of
from dpmarket.web.pages.record_form import fields_of_form, form_of
from dpmarket.web.pages.rendering import see, texts_of
from dpmarket.web.pages.texts import FALLBACK, languages, texts_for
from dpmarket.web.problems import WrongRules
from dpmarket.web.service import path_of

router = APIRouter(prefix=HOME, include_in_schema=False)
_TIMES = ("opens_at", "closes_at", "deliver_until")
From = Annotated[Id | None, Query(alias="from")]


@router.get("/new")
def new(visit: Visited, copied: From = None) -> Response:
    """Show the form of a new campaign, empty or as another one of the buyer's."""
    visit.need("buyer")
    times = (visit.service.moment + timedelta(days=days) for days in (0, 7, 9))
    typed = fields.starts() | {name: _written(time) for name, time in zip(_TIMES, times, strict=True)}
    if copied is not None:
        typed |= fields.typed_of(visit.rules(copied).to_data())
    return _form(visit, typed)


@router.post("/new")
def draft(form: Sent, visit: Visited) -> Response:
    """Plan what the form says, or draft it; with problems the form is shown again."""
    visit.need("buyer")
    return _take(visit, form, None)


@router.get("/campaigns/{campaign}/edit")
def change(campaign: CampaignId, visit: Visited) -> Response:
    """Show the form of a draft as it stands."""
    found = _draft(visit, campaign)
    typed = fields.starts() | fields.typed_of(visit.rules(campaign).to_data())
    typed |= {name: _written(moment_of(getattr(found, name))) for name in _TIMES if getattr(found, name)}
    return _form(visit, typed, campaign=campaign)


@router.post("/campaigns/{campaign}/edit")
def edit(campaign: CampaignId, form: Sent, visit: Visited) -> Response:
    """Plan what the form says, or change the draft."""
    _draft(visit, campaign)
    return _take(visit, form, campaign)


@router.get("/campaigns/{campaign}/preview")
def preview(campaign: CampaignId, visit: Visited) -> Response:
    """Show the questions as sellers will see them."""
    found, rules = visit.campaign(campaign), visit.rules(campaign)
    shown = {"campaign": found, "path": path_of(campaign), "purpose": purpose_of(rules)}
    asked = {"wanted": wanted_of(rules), "label": fields_of_form(rules)[-1].wording}
    return visit.page("preview", {**shown, **asked, **form_of(rules, texts_of(visit.request).language)})


def _draft(visit: Visit, campaign: int) -> views.ShownCampaign:
    visit.need("buyer")
    found = visit.campaign(campaign)
    if found.state != "draft":
        raise MarketRefusal("state", "Only a draft can be changed; copy the campaign instead.")
    return found


def _take(visit: Visit, form: Form, campaign: int | None) -> Response:
    typed = form.typed()
    try:
        data = fields.rules_data(form)
        plan = planned(check_rules(data))
        if form.text("act") != "draft":
            return _form(visit, typed, plan=plan, campaign=campaign)
        if plan.problem is not None:
            return _form(visit, typed, [plan.problem], plan=plan, campaign=campaign)
        times = {name: _moment(form, name) for name in _TIMES}
        body = {"rules": data, **times, "consent": form.text("consent_version") or None}
        if campaign is None:
            return see(path_of(visit.run("draft", form.key, body)))
        visit.run("edit", form.key, body, campaign)
    except (FileProblem, WrongRules) as refusal:
        return _form(visit, typed, list(refusal.details), campaign=campaign)
    except MarketRefusal as refusal:
        return _form(visit, typed, [str(refusal)], campaign=campaign)
    return see(path_of(campaign))


def _form(
    visit: Visit,
    typed: dict[str, str],
    problems: Sequence[str] = (),
    *,
    plan: Planned | None = None,
    campaign: int | None = None,
) -> Response:
    form, keys = Form(typed), fields.keys()
    first, others = keys[: len(fields.FIRST)], keys[len(fields.FIRST) :]
    beside = {problem.split(":")[0]: problem for problem in problems}
    translated = [one for one in languages() if one != FALLBACK]
    shown = {
        "action": f"{HOME}/new" if campaign is None else f"{path_of(campaign)}/edit",
        "changed": campaign is not None,
        "spoken": [("", ""), *((f"{one}.", texts_for(one)("language")) for one in translated)],
        "first": first,
        "others": others,
        "rows": fields.lines_shown(form, "feature"),
        "feature_kinds": fields.FEATURE_KINDS,
        "gaps": fields.GAPS,
        "consents": list(visit.service.look(consent_versions).items()),
        "beside_others": any(key.path in beside for key in others),
        "purpose": NUMBERS if typed.get("purpose") == NUMBERS else MODEL,
        "lines": fields.lines_shown(form, "statistic"),
        "kinds": fields.KINDS,
        "typed": typed,
        "problems": problems,
        "beside": beside,
        "plan": plan,
    }
    return visit.page("new_campaign", shown, status=422 if problems else 200)


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _moment(form: Form, name: str) -> datetime:
    """Return a time of the form, which is in UTC."""
    try:
        return datetime.fromisoformat(form.text(name)).replace(tzinfo=UTC)
    except ValueError:
        raise MarketRefusal("invalid", f"{name}: expected a day and a time.") from None
