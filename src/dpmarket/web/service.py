"""What every route needs: the market, the settings, rate limits, who calls, and one way to run an act.

Rate limits are token buckets in this process's memory. They are not in the database: a refused request must
count, and would be rolled back with its act.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from dpmarket.campaign.access import caller_of
from dpmarket.campaign.acts import Act, Caller, is_allowed, shown_id
from dpmarket.campaign.database import Market
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.transaction import nothing
from dpmarket.errors import MarketRefusal
from dpmarket.web.problems import NotSignedIn, TooOften
from dpmarket.web.settings import Settings

_T = TypeVar("_T")
_MOST = 100_000

COOKIE = "__Host-dpmarket"  # browsers take it over TLS (or from loopback) only, for this host alone
SESSION = timedelta(hours=12)
_LONGEST = 200

_bearer = HTTPBearer(
    auto_error=False,
    description="A member's API token, or the token of a seller's invitation: 256 random bits as text.",
)


@dataclass(frozen=True)
class Rate:
    """So many requests at once, and so many more in each ``seconds``."""

    number: int
    seconds: float


class Limits:
    """Buckets of all callers; the ones that were used least recently are forgotten first.

    >>> from datetime import UTC
    >>> limits, now = Limits(), datetime(2026, 3, 1, tzinfo=UTC)
    >>> [limits.take("login", "an address", Rate(2, 60.0), now) for _ in range(3)]
    [0.0, 0.0, 30.0]
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], tuple[float, datetime]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, kind: str, who: str, rate: Rate, now: datetime) -> float:
        """Count a request; return 0, or in how many seconds there is room for it."""
        pace = rate.number / rate.seconds
        with self._lock:
            level, last = self._buckets.pop((kind, who), (float(rate.number), now))
            passed = max((now - last).total_seconds(), 0.0)
            level = min(level + passed * pace, float(rate.number))
            wait = 0.0 if level >= 1.0 else (1.0 - level) / pace
            self._buckets[kind, who] = (level - 1.0 if wait == 0.0 else level, now)
            while len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        return wait


RATES = {"invite": Rate(30, 3600.0), **dict.fromkeys(("reserve", "choose", "report"), Rate(10, 60.0))}
"""Of acts by a caller; all of a seller's quotes count together."""


@dataclass(frozen=True, eq=False)
class Service:
    """An open market and how its service is set up."""

    market: Market
    settings: Settings
    limits: Limits = field(default_factory=Limits)

    @property
    def moment(self) -> datetime:
        """The time."""
        return self.market.clock()

    @property
    def now(self) -> str:
        """The time as the database writes it."""
        return time_text(self.moment)

    def limit_sign_in(self, request: Request) -> None:
        """Count an address's try to sign in."""
        self.limit_address(request, "login", Rate(self.settings.sign_ins_per_minute, 60.0))

    def limit_address(self, request: Request, kind: str, rate: Rate) -> None:
        """Count a request of an address."""
        self.limit(kind, request.client.host if request.client else "", rate)

    def limit(self, kind: str, who: str, rate: Rate) -> None:
        """Count a request."""
        seconds = self.limits.take(kind, who, rate, self.moment)
        if seconds > 0.0:
            raise TooOften(seconds)

    def run(self, entry: Act, caller: Caller, key: str, **arguments: Any) -> Any:
        """Run an act once for an idempotency key, within its rate; return its answer."""
        rate = RATES.get(entry.name)
        if rate is not None:
            self.limit("invite" if entry.name == "invite" else "quote", caller.label, rate)
        return self.market.run(entry.function, caller, key=key, **arguments)

    def look(self, view: Callable[..., _T], *args: Any) -> _T:
        """Return what a view shows, in one reading."""
        with self.market.look() as c:
            return view(c, *args)

    def need(self, caller: Caller, roles: tuple[str, ...], campaign: int | None) -> None:
        """Refuse a caller without one of some roles, as if there were nothing."""
        if not self.look(is_allowed, caller, roles, campaign):
            raise nothing()

    def link(self, token: str, *, of: str = "i") -> str:
        """Return the address of a link that signs in: of a seller (``i``) or of a member (``login``)."""
        return f"{self.settings.public_url}/{of}/{token}"


def path_of(campaign: int) -> str:
    """Return the address of a campaign's page for members."""
    return f"/m/campaigns/{shown_id(campaign)}"


def the_service(request: Request) -> Service:
    """Return the service whose request this is."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


TheService = Annotated[Service, Depends(the_service)]


def bearer(
    service: TheService, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Return who calls the API, by the token in the header ``Authorization`` and by nothing else."""
    if given is None:
        raise NotSignedIn("no token")
    return _caller(service, given.credentials, "api", "invitation")


AnyCaller = Annotated[Caller, Depends(bearer)]


def session(request: Request, service: TheService) -> Caller:
    """Return who looks at a page, by their session's cookie."""
    return _caller(service, request.cookies.get(COOKIE, ""), "session")


def start_session(token: str, lasts: timedelta = SESSION) -> Response:
    """Return an answer that keeps a session's token in a cookie; the next page is asked for by this site."""
    answer = RedirectResponse("/signed-in", status_code=303)
    keep_cookie(answer, COOKIE, token, lasts)
    return answer


def keep_cookie(answer: Response, name: str, value: str, lasts: timedelta) -> None:
    """Have the browser keep something for this service alone, which no script reads; none for no time."""
    seconds = int(lasts.total_seconds())
    answer.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def _caller(service: Service, token: str, *kinds: str) -> Caller:
    if not 0 < len(token) <= _LONGEST or not token.isascii():
        raise NotSignedIn("no token")
    try:
        return service.look(caller_of, token, kinds, service.now)
    except MarketRefusal:
        raise NotSignedIn("no token that is known") from None
