"""Turn where a seller stands into the one situation whose text they read."""

from __future__ import annotations

from dpmarket.market import GivenQuote
from dpmarket.market.standing import Standing

SITUATIONS = (
    "early", "invited", "consented", "consented_offline", "full", "own_limit", "seated", "seat_over",
    "reported", "quoted", "unpaid", "accepted", "delivered", "closed", "training", "released", "on_its_way",
    "paid", "lost", "too_late", "declined", "not_bought", "expired", "lapsed", "withdrawn", "cancelled",
)  # fmt: skip
"""All of them; each has a text in every catalogue."""

STEPS = ("consent", "choose", "record", "payment")
_STEP = {
    "early": 0, "invited": 0, "consented": 1, "consented_offline": 1, "full": 1, "own_limit": 1, "seated": 1,
    "seat_over": 1, "reported": 1, "quoted": 1, "unpaid": 1, "accepted": 2, "delivered": 3, "closed": 3,
    "training": 3, "released": 3, "on_its_way": 3, "lost": 3, "paid": 4,
}  # fmt: skip
_COMING = ("invited", "consented", "waiting")
_PAYMENTS = {"owed": "released", "on its way": "on_its_way", "paid": "paid"}


def situation_of(found: Standing, quote: GivenQuote | None, payment: str | None, at: str) -> str:
    """Return the situation of a seller.

    Parameters
    ----------
    found
        Where they stand.
    quote
        Their offer, if they have one.
    payment
        For who is owed money: ``owed``, ``on its way`` or ``paid``; else None.
    at
        The time, as the desk writes it.
    """
    campaign = found.campaign_state
    if found.state in ("withdrawn", "lapsed"):
        return found.state
    if found.state == "declined":
        return "not_bought" if quote is not None and quote.payment == 0 else "declined"
    if campaign == "cancelled":
        return "cancelled"
    if found.state == "expired":
        return "too_late" if quote is None else "expired"
    if found.state in _COMING:
        return _coming(found, at)
    if found.state == "seated":
        return "seated" if str(found.lease_until) > at else "seat_over"
    if found.state == "quoted":
        return _quoted(campaign, quote, at)
    if found.state == "accepted":
        return "accepted" if at < found.deliver_until or campaign == "unpaid" else "lapsed"
    if found.state == "delivered":
        return campaign if campaign in ("closed", "training") else "delivered"
    if found.state == "spent":
        return "lost" if campaign == "lost" and payment == "owed" else _PAYMENTS[payment or "owed"]
    return found.state


def step_of(situation: str) -> int | None:
    """Return how many of the four steps are behind somebody; None where there is no way on."""
    return _STEP.get(situation)


def _coming(found: Standing, at: str) -> str:
    if found.campaign_state == "draft" or at < found.opens_at:
        return "early"
    if found.campaign_state != "open" or at >= found.closes_at:
        return "too_late"
    if found.state == "waiting":
        return "own_limit" if found.held_epsilon == 0.0 else "full"
    if found.state == "consented" and found.mechanism == "offline":
        return "consented_offline"
    return found.state


def _quoted(campaign: str, quote: GivenQuote | None, at: str) -> str:
    if campaign == "unpaid":
        return "unpaid"
    if campaign not in ("open", "deciding") or quote is None or quote.expires_at <= at:
        return "expired"
    return "quoted"
