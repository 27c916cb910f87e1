"""The public page that checks certificates and receipts, by the verifier that shares no code with us."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from dpmarket.certificates import receipt_page, verify
from dpmarket.web.auth import TheService
from dpmarket.web.pages.forms import Sent, number_in
from dpmarket.web.pages.rendering import page, whole_page
from dpmarket.web.service import Rate

router = APIRouter(include_in_schema=False)
_RATE = Rate(20, 60.0)


@router.get("/verify")
def ask(request: Request) -> Response:
    """Ask for a certificate, and a receipt if there is one."""
    return page(request, "verify", checks=None, problem=None)


@router.post("/verify")
def verdicts(request: Request, form: Sent, service: TheService) -> Response:
    """Check what was uploaded, and say so in words. Nothing of it is kept."""
    service.limit("verify", request.client.host if request.client else "", _RATE)
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
