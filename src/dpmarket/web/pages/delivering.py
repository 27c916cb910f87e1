"""The record as a form: made from what the market file declares, checked, then sealed by the desk."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from dpmarket.web.api import models, sellers
from dpmarket.web.auth import TheService
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.looking import SignedSeller, View, look
from dpmarket.web.pages.recording import OTHER, Filled, fields_of, filled, place_of, rows_of, rows_shown
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.pages.selling import HOME, frame

router = APIRouter(prefix="/s", include_in_schema=False)
_EMPTY = Filled([], {}, {})


@router.get("/record")
def record(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Ask for the record."""
    view = look(service, caller)
    if view.situation != "accepted":
        return see(HOME)
    return page(request, "record", **frame(view), **_form(view, _EMPTY))


@router.post("/record")
def deliver(request: Request, form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Check the record and hand it to the desk; with problems the form is shown again."""
    view = look(service, caller)
    given = filled(view.market, form)
    if form.text("act") == "more" and view.situation == "accepted":
        kept = Filled(given.rows, {}, given.typed)
        used = max(len(given.rows), int(form.text("rows")) if form.text("rows").isdecimal() else 0)
        return page(request, "record", **frame(view), **_form(view, kept, used))
    if given.problems:
        return page(request, "record", status=422, **frame(view), **_form(view, given))
    values = given.rows[0] if len(given.rows) == 1 else given.rows
    sellers.deliver(models.Record(values=values), caller, service, form.key)
    return see("/s/payee")


def _form(view: View, given: Filled, used: int = 0) -> dict[str, Any]:
    most = rows_of(view.market)
    last = max((row for row in range(most) if place_of(row, "label") in given.typed), default=0)
    return {
        "fields": fields_of(view.market),
        "rows": rows_shown(view.market, max(used, last + 1 if last else 0)),
        "most": most,
        "allowed": view.market.sellers.rows_per_person,
        "place_of": place_of,
        "other": OTHER,
        "filled": given,
    }
