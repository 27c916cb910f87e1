"""Pages for everybody: the check of certificates and receipts, and the choice of a language.

Certificates are checked by the verifier that shares no code with us. A language that is chosen by a link, in
place of what the browser asks for, is kept in a cookie of its own.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from dpmarket.certificates import receipt_page, verify
from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.forms import Sent, number_in
from dpmarket.web.pages.rendering import LANGUAGE, page, see, whole_page
from dpmarket.web.pages.texts import languages
from dpmarket.web.service import Rate, TheService, keep_cookie

router = APIRouter(include_in_schema=False)
_RATE = Rate(20, 60.0)


@router.get("/verify")
def ask(request: Request) -> Response:
    """Ask for a certificate, and a receipt if there is one."""
    return page(request, "verify", checks=None, problem=None)


@router.post("/verify")
def verdicts(request: Request, form: Sent, service: TheService) -> Response:
    """Check what was uploaded, and say so in words. Nothing of it is kept."""
    service.limit_address(request, "verify", _RATE)
    certificate, receipt = form.files.get("certificate"), form.files.get("receipt")
    typed, digest = form.text("cost"), form.text("digest").lower()
    cost = number_in(typed) if typed else None
    problem = None
    if certificate is None:
        problem = "verify.missing"
    elif typed and (cost is None or cost < 0.0):
        problem = "verify.cost_problem"
    checks = None
    if problem is None:
        checks = verify(certificate, receipt=receipt, cost=cost, digest=digest or None)
    status = 200 if problem is None else 422
    return page(request, "verify", status=status, checks=checks, problem=problem)


@router.get("/check-receipt")
def check_receipt(request: Request) -> Response:
    """Give the page that checks a receipt in the browser, by its own and stricter policy."""
    return whole_page(request, receipt_page())


_YEAR = timedelta(days=365)
# Pages of this service only: not another host, whose address would begin with two slashes.
_OWN = re.compile(r"/(?:[\w.-]+/)*[\w.-]*", re.ASCII)


@router.get("/language/{name}")
def choose(
    name: Annotated[str, Path(max_length=20)], back: Annotated[str, Query(max_length=200)] = "/"
) -> Response:
    """Keep which language somebody reads, and lead back to where they were.

    It changes nothing but how pages are shown to this browser, and so needs no button.
    """
    if name not in languages():
        raise MarketRefusal("unknown", "there is no such language.")
    answer = see(back if is_own(back) else "/")
    keep_cookie(answer, LANGUAGE, name, _YEAR)
    return answer


def is_own(back: str) -> bool:
    """Return whether an address is a page of this service."""
    return _OWN.fullmatch(back) is not None
