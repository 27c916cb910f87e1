"""Turn refusals into ``application/problem+json``: a sentence, a status, and place and kind of what is wrong.

Never a value of the request, and never the name of a key that nobody asked for: both may be private, and an
error is copied into many places.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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


def problem(
    status: int, findings: Sequence[tuple[str, str]] = (), title: str | None = None, **headers: str
) -> Response:
    """Return an answer that refuses."""
    body = {
        "title": title or TITLES.get(status, TITLES[500]),
        "status": status,
        "problems": [{"where": where, "kind": kind} for where, kind in findings],
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(json.dumps(body), status, named, media_type=PROBLEM)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says about refusals of a route."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {status: {"description": TITLES[status], "content": {PROBLEM: schema}} for status in statuses}


def tell_problems(app: FastAPI, known: Iterable[str]) -> None:
    """Answer every refusal of an application with a problem; ``known`` names may be shown as places."""
    names = frozenset(known)

    def not_valid(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, RequestValidationError)
        _note(request, "invalid")
        found = [(_place(error, names), _kind(error)) for error in refusal.errors()]
        return problem(422, list(dict.fromkeys(found)))

    def market(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, MarketRefusal)
        _note(request, refusal.kind)
        status = STATUS[refusal.kind]
        title = None if status == 404 else str(refusal)
        return problem(status, [("request", refusal.kind)], title)

    def rules(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, WrongRules)
        _note(request, "rules")
        paths = dict.fromkeys(line.split(":")[0] for line in refusal.details)
        places = (".".join(part if part in names else "*" for part in path.split(".")) for path in paths)
        return problem(422, [(f"body.rules.{place}", "rules") for place in dict.fromkeys(places)])

    def file(request: Request, _: Exception) -> Response:
        _note(request, "unavailable")
        return problem(503, [("service", "unavailable")], Retry_After="5")

    def other(request: Request, refusal: Exception) -> Response:
        _note(request, type(refusal).__name__)
        return problem(422, [("request", type(refusal).__name__)])

    def often(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, TooOften)
        _note(request, "too often")
        return problem(429, [("request", "too often")], Retry_After=str(max(1, round(refusal.seconds + 0.5))))

    def stranger(request: Request, _: Exception) -> Response:
        _note(request, "token")
        return problem(401, [("header.Authorization", "token")], WWW_Authenticate="Bearer")

    def http(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, HTTPException)
        _note(request, str(refusal.status_code))
        answer = problem(refusal.status_code)
        answer.headers.update(refusal.headers or {})
        return answer

    def unexpected(request: Request, refusal: Exception) -> Response:
        _note(request, type(refusal).__name__)
        return problem(500)

    handlers: Mapping[Any, Any] = {
        RequestValidationError: not_valid,
        MarketRefusal: market,
        WrongRules: rules,
        FileProblem: file,
        TooOften: often,
        NotSignedIn: stranger,
        DpmarketError: other,
        HTTPException: http,
        Exception: unexpected,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _note(request: Request, kind: str) -> None:
    """Leave the kind of a refusal for the log."""
    request.scope["dpmarket.kind"] = kind


def _place(error: Mapping[str, Any], known: frozenset[str]) -> str:
    """Return where something is wrong, without a name that the request made up."""
    parts = list(error["loc"])
    if error["type"] == "extra_forbidden":
        parts = parts[:-1]
    told = [str(part) if isinstance(part, int) or part in known else "*" for part in parts]
    return ".".join(told)


def _kind(error: Mapping[str, Any]) -> str:
    return {"extra_forbidden": "unknown key", "missing": "missing"}.get(error["type"], str(error["type"]))
