"""Where a seller stands, as the one situation whose text the seller reads; and the choices of the menu."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from dpmarket.campaign.rules.meaning import epsilon_shown, guess_percent
from dpmarket.campaign.views import MenuLine, MyParticipation
from dpmarket.web.pages.texts import Texts

STEPS = ("consent", "choose", "record", "payment")
# How many of the four steps are behind somebody.
STEP_OF = {
    "early": 0, "screening": 0, "invited": 0, "consented": 1, "consented_offline": 1, "full": 1,
    "own_limit": 1, "reserved": 1, "reservation_over": 1, "reported": 1, "quoted": 1, "unpaid": 1,
    "accepted": 2, "delivered": 3, "closed": 3, "training": 3, "released": 3, "on_its_way": 3, "failed": 3,
    "paid": 4,
}  # fmt: skip
SITUATIONS = (
    *STEP_OF, "too_late", "declined", "priced_out", "expired", "lapsed", "withdrawn", "screened_out",
    "group_full", "cancelled",
)  # fmt: skip
"""All of them, the last ones without a way on; each has a text in every catalogue."""
_COMING = ("invited", "consented", "waiting")


def situation_of(me: MyParticipation, at: str) -> str:
    """Return the situation of a seller at a time."""
    campaign = me.campaign_state
    if me.state in ("withdrawn", "declined", "priced_out"):
        return me.state
    if me.state == "screened_out":
        return "group_full" if me.reason == "full" else "screened_out"
    if campaign == "cancelled":
        return "cancelled"
    if me.state == "expired":
        return "too_late" if me.payment is None else "expired"
    if me.state in _COMING:
        return _coming(me, at)
    if me.state == "reserved":
        return "reserved" if str(me.until) > at else "reservation_over"
    if me.state == "quoted":
        return _quoted(me, at)
    if me.state == "accepted":
        late = me.deliver_until is not None and at >= me.deliver_until
        return "lapsed" if late and campaign != "unpaid" else "accepted"
    if me.state == "delivered":
        return campaign if campaign in ("closed", "training") else "delivered"
    if me.state == "spent":
        return _spent(me)
    return me.state


def _coming(me: MyParticipation, at: str) -> str:
    if me.campaign_state == "draft" or at < str(me.opens_at):
        return "early"
    if me.campaign_state != "open" or at >= str(me.closes_at):
        return "too_late"
    if me.screening:
        return "screening"
    if me.state == "waiting":
        return "own_limit" if me.reason == "cap" else "full"
    return "consented_offline" if me.state == "consented" and me.mechanism == "offline" else me.state


def _quoted(me: MyParticipation, at: str) -> str:
    if me.campaign_state == "unpaid":
        return "unpaid"
    return "quoted" if me.campaign_state in ("open", "offered") and str(me.until) > at else "expired"


def _spent(me: MyParticipation) -> str:
    if me.paid_at is not None:
        return "paid"
    if me.sent:
        return "on_its_way"
    return "failed" if me.campaign_state == "failed" else "released"


POSITIONS = 11  # paid choices of the slider; one more shares nothing


@dataclass(frozen=True)
class Choice:
    """One position of the slider."""

    number: int
    cost: float
    payment: str
    epsilon: str
    percent: int


@functools.lru_cache(maxsize=64)
def choices_of(
    lines: tuple[MenuLine, ...], texts: Texts, money: tuple[int, str], delta: float | None
) -> tuple[Choice, ...]:
    """Return a menu's choices, the most private first; lines without a payment are left out."""
    minor_units, currency = money
    paid = sorted((line for line in lines if line.payment > 0), key=lambda line: line.epsilon)
    nothing = MenuLine(float("inf"), 0.0, 0)
    return tuple(
        Choice(
            number,
            line.cost,
            texts.money(line.payment, minor_units, currency),
            texts.number(epsilon_shown(line.epsilon)),
            guess_percent(line.epsilon, delta),
        )
        for number, line in enumerate([nothing, *steps_of(paid)])
    )


def steps_of(paid: Sequence[MenuLine]) -> list[MenuLine]:
    """Return few lines of a menu, in its order, whose payments are spread evenly, both ends included.

    Fewer lines to choose from keep a truthful choice the best one: each is a quote of the same schedule.

    >>> lines = [MenuLine(100.0 - k, k, k * k) for k in range(1, 50)]
    >>> [line.payment for line in steps_of(lines)][:4], len(steps_of(lines))
    ([1, 256, 484, 729], 11)
    """
    if len(paid) <= POSITIONS:
        return list(paid)
    least, most = paid[0].payment, paid[-1].payment
    wanted = [least + (most - least) * step / (POSITIONS - 1) for step in range(POSITIONS)]
    nearest = [min(range(len(paid)), key=lambda k: abs(paid[k].payment - one)) for one in wanted]
    return [paid[k] for k in sorted(set(nearest))]
