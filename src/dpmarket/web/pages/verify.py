"""The public page that checks certificates and receipts, by the verifier that shares no code with us."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from dpmarket.certificates import verify
from dpmarket.web.auth import TheService
from dpmarket.web.limits import Rate
from dpmarket.web.pages.forms import number_in
from dpmarket.web.pages.rendering import page
from dpmarket.web.pages.uploads import Uploaded

router = APIRouter(include_in_schema=False)
_RATE = Rate(20, 60.0)


@router.get("/verify")
def form(request: Request) -> Response:
    """Ask for a certificate, and a receipt if there is one."""
    return page(request, "verify", title=None, home=None, checks=None, problem=None)


@router.post("/verify")
def verdicts(request: Request, sent: Uploaded, service: TheService) -> Response:
    """Check what was uploaded, and say so in words. Nothing of it is kept."""
    service.limit("verify", request.client.host if request.client else "", _RATE)
    certificate, receipt = sent.files.get("certificate"), sent.files.get("receipt")
    typed, digest = sent.form.text("cost"), sent.form.text("digest").lower()
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
    return page(request, "verify", status=status, title=None, home=None, checks=checks, problem=problem)
