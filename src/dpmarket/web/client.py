"""Call a service from Python: one method for each act, with idempotency keys and retries of their own.

An answer that was lost on its way is asked for again with the same key, so that nothing is done twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx

from dpmarket.errors import DpmarketError

_TRIES = 4
_API = "/api/v1"


class Refused(DpmarketError):
    """A service said no.

    Parameters
    ----------
    status
        The HTTP status.
    title
        One sentence for people.
    problems
        Place and kind of everything that was found.
    retry_after
        In how many seconds to try again, if the service said so.
    """

    def __init__(
        self, status: int, title: str, problems: Sequence[Mapping[str, str]] = (), retry_after: float = 0.0
    ) -> None:
        super().__init__(title)
        self.status, self.problems, self.retry_after = status, tuple(problems), retry_after


class Client:
    """A caller of a service, for a ``with`` block.

    Parameters
    ----------
    url
        The service's address, such as ``http://127.0.0.1:8000``.
    token
        A member's API token, or that of a seller's invitation.
    http
        What to call with; None: a connection of its own.
    """

    def __init__(self, url: str, token: str, http: httpx.Client | None = None) -> None:
        self._http = http or httpx.Client(timeout=60.0, trust_env=False)
        self._is_own = http is None
        self._url, self._headers = url.rstrip("/"), {"Authorization": f"Bearer {token}"}

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """Do something; with the same key it is done once, however often it is asked for.

        Parameters
        ----------
        path, body
            Of the API, such as ``/me/quote``, and the request as plain data.
        key
            At least 16 random characters; None: new ones.

        Raises
        ------
        Refused
            The service said no, or cannot be reached.
        """
        headers = {"Idempotency-Key": key or secrets.token_urlsafe(24)}
        return self._send("POST", path, body, headers).json()

    def draft(
        self, title: str, mechanism: str, market: Mapping[str, Any], opens_at: str, closes_at: str,
        deliver_until: str,
    ) -> Any:  # fmt: skip
        """Draft a campaign; times are texts such as ``2026-03-01T09:00:00+00:00``."""
        body = {"title": title, "mechanism": mechanism, "market": market}
        times = {"opens_at": opens_at, "closes_at": closes_at, "deliver_until": deliver_until}
        return self.post("/campaigns", {**body, **times})

    def campaign(self, campaign: str) -> Any:
        """Show a campaign."""
        return self.get(f"/campaigns/{campaign}")

    def fund(self, campaign: str, amount: int, key: str | None = None) -> Any:
        """Enter that money arrived, in minor units."""
        return self.post(f"/campaigns/{campaign}/fund", {"amount": amount}, key)

    def open_campaign(self, campaign: str) -> Any:
        """Freeze the rules and let sellers come."""
        return self.post(f"/campaigns/{campaign}/open")

    def invite(self, campaign: str, people: Sequence[str], lifetime_epsilon: float | None = None) -> Any:
        """Invite people; return who has which token."""
        body: dict[str, Any] = {"people": list(people)}
        if lifetime_epsilon is not None:
            body["lifetime_epsilon"] = lifetime_epsilon
        return self.post(f"/campaigns/{campaign}/invitations", body)["invitations"]

    def totals(self, campaign: str) -> Any:
        """Tell what a campaign has come to."""
        return self.get(f"/campaigns/{campaign}/totals")

    def certificate(self, campaign: str) -> bytes:
        """Return a campaign's certificate."""
        return self.read(f"/campaigns/{campaign}/certificate")

    def model(self, campaign: str) -> Any:
        """Return a campaign's model."""
        return self.get(f"/campaigns/{campaign}/model")

    def figures(self, campaign: str) -> Any:
        """Tell a released campaign in figures, with what the verifier says about its certificate."""
        return self.get(f"/campaigns/{campaign}/figures")

    def report(self, campaign: str) -> bytes:
        """Return a released campaign's report, a page."""
        return self.read(f"/campaigns/{campaign}/report")

    def me(self) -> Any:
        """Tell where a seller stands."""
        return self.get("/me")

    def consent(self) -> Any:
        """Read the consent page and agree to it."""
        return self.post("/me/consent", {"digest": self.get("/me/consent")["digest"]})

    def menu(self, key: str | None = None) -> Any:
        """Take a seat and see the menu, or get a place in line."""
        return self.post("/me/menu", None, key)

    def quote(self, cost: float, key: str | None = None) -> Any:
        """Choose by one's cost."""
        return self.post("/me/quote", {"cost": cost}, key)

    def accept(self, key: str | None = None) -> Any:
        """Accept one's offer."""
        return self.post("/me/acceptance", None, key)

    def deliver(self, values: Mapping[str, Any] | Sequence[Mapping[str, Any]], key: str | None = None) -> Any:
        """Send one's record: a row by names, or a list of rows."""
        plain = dict(values) if isinstance(values, Mapping) else [dict(row) for row in values]
        return self.post("/me/record", {"values": plain}, key)

    def set_payee(self, payee: str) -> Any:
        """Say whom to pay."""
        return self.post("/me/payee", {"payee": payee})

    def withdraw(self) -> Any:
        """Leave."""
        return self.post("/me/withdrawal")

    def events(self) -> list[str]:
        """Return what happened to one's data, in words."""
        return [one["kind"] for one in self.get("/me/events")["events"]]

    def receipt(self) -> bytes:
        """Return one's receipt."""
        return self.read("/me/receipt")

    def pay_out(self, campaign: str) -> Any:
        """Enter all that is owed as a payout; return it with its lines."""
        made = self.post("/payouts", {"campaign": campaign})
        return self.get(f"/payouts/{made['id']}")

    def confirm(self, payout: str, references: Sequence[str], kind: str = "confirmed") -> int:
        """Enter that payments were made or came back; return how many are new."""
        body = {"kind": kind, "references": list(references)}
        return int(self.post(f"/payouts/{payout}/confirmation", body)["entered"])

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
        title, problems = str(told["title"]), list(told["problems"])
    except (ValueError, KeyError, TypeError):
        title, problems = "The service said no.", []
    after = answer.headers.get("retry-after", "")
    return Refused(answer.status_code, title, problems, float(after) if after.isdecimal() else 0.0)
