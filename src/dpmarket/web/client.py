"""A client of the service in Python, with idempotency keys and retries of its own.

An answer that was lost on its way is asked for again with the same key, so that nothing is done twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from dpmarket.errors import DpmarketError

_TRIES = 4
_API = "/api/v1"


class Refused(DpmarketError):
    """A service said no: an HTTP status, one sentence, and place and kind of everything that was found.

    ``retry_after`` says in how many seconds to try again, 0 if the service did not.
    """

    def __init__(
        self, status: int, title: str, problems: Sequence[Mapping[str, str]] = (), retry_after: float = 0.0
    ) -> None:
        told = "; ".join(f"{one['where']}: {one['kind']}" for one in problems)
        super().__init__(f"{title} ({told})" if told else title)
        self.status, self.problems, self.retry_after = status, tuple(problems), retry_after


class Client:
    """A caller of a service, for a ``with`` block.

    ``url`` is the service's address, such as ``http://127.0.0.1:8000``, ``token`` a member's API token or
    that of a seller's invitation, ``http`` what to call with; None: a connection of its own.
    """

    def __init__(self, url: str, token: str, http: httpx.Client | None = None) -> None:
        self._http = http or httpx.Client(timeout=60.0, trust_env=False)
        self._is_own = http is None
        self._url, self._headers = url.rstrip("/"), {"Authorization": f"Bearer {token}"}

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if it is this client's own."""
        if self._is_own:
            self._http.close()

    def get(self, path: str) -> Any:
        """Return what is at a path of the API, such as ``/me``, as plain data."""
        return self._send("GET", path, None, {}).json()

    def read(self, path: str) -> bytes:
        """Return what is at a path of the API as bytes, such as a certificate."""
        return self._send("GET", path, None, {}).content

    def post(self, path: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> Any:
        """Do something at a path of the API; raises :class:`Refused` if the service said no, or nothing.

        With the same key, at least 16 random characters, it is done once, however often it is asked for.
        """
        headers = {"Idempotency-Key": key or secrets.token_urlsafe(24)}
        return self._send("POST", path, body, headers).json()

    def act(self, act: str, campaign: str | None = None, key: str | None = None, **body: Any) -> Any:
        """Run an act on a campaign, or a seller's own: ``act("fund", campaign, amount=1000)``."""
        place = "/me" if campaign is None else f"/campaigns/{campaign}"
        return self.post(f"{place}/{act}", body or None, key)

    def draft(self, rules: Mapping[str, Any], opens_at: str, closes_at: str, deliver_until: str) -> str:
        """Draft a campaign; return its id. Times are texts such as ``2026-03-01T09:00:00+00:00``."""
        times = {"opens_at": opens_at, "closes_at": closes_at, "deliver_until": deliver_until}
        return str(self.post("/campaigns", {"rules": rules, **times}))

    def campaign(self, campaign: str) -> Any:
        """Return a campaign."""
        return self.get(f"/campaigns/{campaign}")

    def invite(self, campaign: str, ids: Sequence[str]) -> Any:
        """Invite people; return ids and tokens."""
        return self.act("invite", campaign, ids=list(ids))

    def document(self, campaign: str, kind: str) -> bytes:
        """Return a document of a campaign: released, certificate, signature, report, openings, costs."""
        return self.read(f"/campaigns/{campaign}/{kind}")

    def me(self) -> Any:
        """Return where a seller's participation stands."""
        return self.get("/me")

    def consent(self) -> Any:
        """Read the consent page and agree to it."""
        page = self.get("/me/consent")
        return self.act("consent", page=page["page"], language=page["language"])

    def deliver(self, values: Mapping[str, Any] | Sequence[Mapping[str, Any]], key: str | None = None) -> Any:
        """Send a record: a row by names, or a list of rows."""
        plain = dict(values) if isinstance(values, Mapping) else [dict(row) for row in values]
        return self.act("deliver", key=key, values=plain)

    def receipt(self) -> bytes:
        """Return a seller's receipt."""
        return self.read("/me/receipt")

    def pay_out(self, campaign: str) -> Any:
        """Enter all that is owed as a payout; return it with its lines."""
        return self.get(f"/payouts/{self.act('pay_out', campaign)['id']}")

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        """Send a request, and again if no answer came or the service is busy."""
        answer = None
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(0.1 * 2**attempt)
            try:
                answer = self._http.request(
                    method, f"{self._url}{_API}{path}", json=body, headers={**self._headers, **headers}
                )
            except httpx.TransportError:
                continue
            if answer.status_code != 503:
                break
        if answer is None:
            raise Refused(503, "The service cannot be reached.")
        if answer.is_success:
            return answer
        raise _refusal(answer)


def _refusal(answer: httpx.Response) -> Refused:
    try:
        told = answer.json()
        title = str(told["title"])
        problems = [{name: str(one[name]) for name in ("where", "kind")} for one in told["problems"]]
    except (ValueError, KeyError, TypeError):
        title, problems = "The service said no.", []
    after = answer.headers.get("retry-after", "")
    return Refused(answer.status_code, title, problems, float(after) if after.isdecimal() else 0.0)
