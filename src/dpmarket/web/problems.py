"""Turn refusals into ``application/problem+json``: a sentence, a status, and place and kind of what is wrong.

Never a value of the request, and never the name of a key that nobody asked for: both may be private.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from dpmarket.errors import DpmarketError, FileProblem, MarketRefusal

PROBLEM = "application/problem+json"
STATUS = {
    "unknown": 404,
    "state": 409,
    "early": 409,
    "reused": 409,
    "expired": 410,
    "invalid": 422,
    "funds": 402,
    "confirm": 409,
}
TITLES = {
    400: "This is not a request that can be read.",
    401: "Expected a bearer token that is known.",
    402: "Too little money is set aside.",
    403: "This request comes from another site.",
    404: "There is nothing here for this caller.",
    405: "This cannot be done here.",
    408: "The request did not come to its end.",
    409: "This is not possible now.",
    410: "This is over.",
    413: "The request is too large.",
    415: "Expected application/json, and no Content-Encoding.",
    421: "This is not the service's address.",
    422: "The request is not what was asked for.",
    429: "Too often: wait a little.",
    500: "Something went wrong on our side.",
    503: "This cannot be done at the moment: try again.",
}


class Finding(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(description="The place: names with dots between them, such as body.cost.")
    kind: str = Field(description="What is wrong there, in a word or two for programs.")


class Problem(BaseModel):
    """What was refused, and why; nothing was changed."""

    title: str = Field(description="One sentence for people.")
    status: int = Field(description="The HTTP status.")
    problems: list[Finding] = Field(description="Place and kind of everything found. Never a value.")


class TooOften(DpmarketError):
    """Somebody asks too often; ``seconds`` says when to come again."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too often")
        self.seconds = seconds


class WrongRules(DpmarketError):
    """Rules that cannot be used; ``details`` are lines such as ``objective.budget: missing``."""

    def __init__(self, details: Sequence[str]) -> None:
        super().__init__("the rules cannot be used.")
        self.details = list(details)


class NotSignedIn(DpmarketError):
    """There is no token, or none that is known."""


def problem(status: int, findings: Sequence[tuple[str, str]] = (), title: str | None = None) -> Response:
    """Return an answer that refuses."""
    body = {
        "title": title or TITLES.get(status, TITLES[500]),
        "status": status,
        "problems": [{"where": where, "kind": kind} for where, kind in findings],
    }
    return Response(json.dumps(body), status, media_type=PROBLEM)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says about refusals of a route."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": TITLES[status], "content": {PROBLEM: schema}} for status in statuses}


@dataclass(frozen=True)
class Description:
    """What an answer says about a refusal; ``kind`` is for the log. Nothing of it holds a value."""

    status: int
    kind: str
    findings: Sequence[tuple[str, str]] = ()
    title: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def describe(refusal: Exception, known: frozenset[str]) -> Description:
    """Describe a refusal; ``known`` names may be shown as places."""
    match refusal:
        case RequestValidationError():
            kinds = {"extra_forbidden": "unknown key"}
            found = [(_place(one, known), kinds.get(one["type"], one["type"])) for one in refusal.errors()]
            return Description(422, "invalid", list(dict.fromkeys(found)))
        case MarketRefusal():
            title = None if refusal.kind == "unknown" else str(refusal)
            return Description(STATUS[refusal.kind], refusal.kind, [("request", refusal.kind)], title)
        case WrongRules():
            paths = dict.fromkeys(line.split(":")[0] for line in refusal.details)
            places = (".".join(part if part in known else "*" for part in path.split(".")) for path in paths)
            return Description(
                422, "rules", [(f"body.rules.{place}", "rules") for place in dict.fromkeys(places)]
            )
        case FileProblem():
            return Description(503, "unavailable", [("service", "unavailable")], headers={"Retry-After": "5"})
        case TooOften():
            after = str(max(1, round(refusal.seconds + 0.5)))
            return Description(429, "too often", [("request", "too often")], headers={"Retry-After": after})
        case NotSignedIn():
            named = {"WWW-Authenticate": "Bearer"}
            return Description(401, "token", [("header.Authorization", "token")], headers=named)
        case DpmarketError():
            return Description(422, type(refusal).__name__, [("request", type(refusal).__name__)])
        case HTTPException():
            return Description(refusal.status_code, str(refusal.status_code), headers=refusal.headers or {})
        case _:
            return Description(500, type(refusal).__name__)


def tell_refusals(
    app: FastAPI, known: Iterable[str], page: Callable[[Request, Exception, Description], Response | None]
) -> None:
    """Answer every refusal of an application with a page, where there is one for it, or with a problem."""
    names = frozenset(known)

    async def answer(request: Request, refusal: Exception) -> Response:
        found = describe(refusal, names)
        request.scope["dpmarket.kind"] = found.kind  # for the log
        shown = page(request, refusal, found)
        if shown is None:
            shown = problem(found.status, found.findings, found.title)
        shown.headers.update(found.headers)
        return shown

    for kind in (RequestValidationError, DpmarketError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)


def _place(error: Mapping[str, Any], known: frozenset[str]) -> str:
    """Return where something is wrong, without a name that the request made up."""
    parts = list(error["loc"])
    if error["type"] == "extra_forbidden":
        parts = parts[:-1]
    told = [str(part) if isinstance(part, int) or part in known else "*" for part in parts]
    return ".".join(told)
