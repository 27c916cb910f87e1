"""Pages for people from a panel: the link that leads here, screening before consent, and the way back.

The way back is a page with a link, and the header ``Refresh``: browsers do not follow a redirect to another
site after a form under the policy ``form-action 'self'``. The panel's id waits in a cookie of the person's
own browser, and is believed only if its digest is the seller's.
"""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from dpmarket.campaign.access import issue_token
from dpmarket.campaign.opening import rules_of
from dpmarket.campaign.panel import PID, digest_of_pid, enter
from dpmarket.campaign.transaction import Tx, campaign_of
from dpmarket.campaign.views import is_person
from dpmarket.web.api import CampaignId, run_form
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.pages.seller import HOME, View, Viewed
from dpmarket.web.problems import NotSignedIn
from dpmarket.web.service import SESSION, Rate, TheService, keep_cookie, session, start_session

router = APIRouter(include_in_schema=False)
COOKIE = "__Host-panel"
OWN_BROWSER = timedelta(days=60)  # so long the one browser that used an unsigned link can come back
_RATE = Rate(120, 60.0)  # of one address: many people of a panel may share it
_SECONDS = 8
OUTCOMES = {
    "screened_out": "screened_out",
    "group_full": "full",
    **dict.fromkeys(
        ("reported", "delivered", "closed", "training", "released", "on_its_way", "paid", "failed"),
        "complete",
    ),
    **dict.fromkeys(
        ("declined", "withdrawn", "priced_out", "expired", "lapsed", "too_late", "cancelled"), "left"
    ),
}
"""How somebody's part ended for the panel, by situation: a key of ``[panel]``. Others go on."""
Pid = Annotated[str, Query(pattern=PID)]
Signature = Annotated[str | None, Query(max_length=200)]


@router.get("/join/{campaign}")
def button(campaign: CampaignId, request: Request, pid: Pid, sig: Signature = None) -> Response:
    """Show a button. The link is checked when the button is pressed."""
    return page(request, "sign_in", action=f"{request.url.path}?{request.url.query}", kind="panel")


@router.post("/join/{campaign}")
def join(
    campaign: CampaignId, request: Request, service: TheService, pid: Pid, sig: Signature = None
) -> Response:
    """Sign in the seller whom a panel's link names."""
    service.limit_address(request, "join", _RATE)
    try:
        known = session(request, service).participation
    except NotSignedIn:
        known = None
    lasts = OWN_BROWSER if sig is None else SESSION

    def signed_in(tx: Tx) -> str:
        return issue_token(tx, "session", enter(tx, campaign, pid, sig, known), lasts)

    token = service.market.transact(signed_in)
    answer = start_session(token, lasts)
    keep_cookie(answer, COOKIE, pid, OWN_BROWSER)
    return answer


@router.get(f"{HOME}/screen")
def screening(view: Viewed) -> Response:
    """Ask the screening questions, all at once."""
    return _screening(view) if view.situation == "screening" else see(HOME)


@router.post(f"{HOME}/screen")
def screen(form: Sent, view: Viewed) -> Response:
    """Take the answers to all screening questions, and keep none of them."""
    if view.situation != "screening":
        return see(HOME)
    answers = [form.text(f"q{place}") for place in range(len(view.rules.screening))]
    if not all(answer.isdecimal() and len(answer) < 4 for answer in answers):
        return _screening(view, problem=True)
    state = run_form(view.service, view.caller, "screen", form.key, {"answers": answers})
    return see(f"{HOME}/consent" if state == "invited" else HOME)


@router.get(f"{HOME}/done")
def done(view: Viewed) -> Response:
    """Lead back to the panel, by a link and by itself."""
    found = way_back(view)
    if found is None:
        return see(HOME)
    outcome, url = found
    answer = view.page("done", {"outcome": outcome, "url": url})
    if url is not None:
        answer.headers["Refresh"] = f"{_SECONDS}; url={url}"
    return answer


def way_back(view: View) -> tuple[str, str | None] | None:
    """Return how a seller's part ended, and the panel's address for that if there is one."""
    outcome = OUTCOMES.get(view.situation) if view.me.panel else None
    if outcome is None:
        return None
    pid = view.request.cookies.get(COOKIE, "")
    with view.service.market.look() as c:
        panel = rules_of(campaign_of(c, view.me.campaign)).panel
        if panel is None:
            return outcome, None
        is_own = is_person(c, view.caller, digest_of_pid(view.service.market.key, panel, pid))
    url: str | None = getattr(panel, outcome)
    if url is None or (not is_own and "{pid}" in url):
        return outcome, None
    return outcome, url.replace("{pid}", pid)


def _screening(view: View, *, problem: bool = False) -> Response:
    asked = [one.asked(view.texts.language) for one in view.rules.screening]
    return view.page("screen", {"asked": asked, "problem": problem}, status=422 if problem else 200)
