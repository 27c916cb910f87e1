"""Campaigns from draft to close: one purchase, one escrow, one release.

A campaign's rules are frozen when it opens, together with what was computed from them: the offer, the
largest payment, the ceiling of epsilon and the delta. Whether a campaign is cancelled depends on counts that
no report changes, because a campaign that is dropped by what sellers ask for makes misreporting pay.
"""

import json
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

import pydantic
import sqlalchemy as sa
from pydantic import Field

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import Amount, Caller, Id, Text, act
from dpmarket.campaign.consent import last_version
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.money import active, count, end_all, forget_sealed, of, pay_all, selling
from dpmarket.campaign.partitions import pay_rest, refuse_limits, void_rest
from dpmarket.campaign.rules.rules_file import MinorUnits, Sellers
from dpmarket.campaign.schema import moment_of, time_text
from dpmarket.campaign.transaction import Campaign, Tx, lock_campaign, new_id, require, step

ENDED = schema.CAMPAIGN_ENDED
LARGEST_RECORD = 2**20  # bytes of one person's record, all of whose rows together are of one width
_own, _of = schema.participation.c, schema.campaign.c


class Draft(pydantic.BaseModel, frozen=True, extra="forbid"):
    """A campaign as its buyer writes it.

    ``rules`` is the rules file as plain data. Of it the market reads ``sellers``, ``groups.NAME.quota`` and
    ``record_bytes``, the one length of all records.
    """

    name: Text
    channel: Literal["live", "file", "partitions"] = "live"
    mechanism: Literal["online", "offline", "posted"] = "online"
    rules: dict[str, Any]
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "EUR"
    minor_units: MinorUnits = 100
    opens_at: pydantic.AwareDatetime | None = None
    closes_at: pydantic.AwareDatetime | None = None  # until then sellers report or choose
    deliver_until: pydantic.AwareDatetime | None = None  # until then they send records
    self_funded: bool = False  # files: escrow is entered as it is promised, and the owner pays sellers
    consent: int | None = None  # the version of the consent text

    @pydantic.model_validator(mode="after")
    def _is_ordered(self) -> Self:
        opens, closes, until = self.opens_at, self.closes_at, self.deliver_until
        is_ordered = opens and closes and until and opens < closes <= until
        if self.channel == "live" and not is_ordered:
            raise ValueError("expected opens_at < closes_at <= deliver_until")
        Sellers.model_validate(self.rules.get("sellers", {}))
        if not 0 <= int(self.rules.get("record_bytes", 0)) <= LARGEST_RECORD:
            raise ValueError(f"expected records of at most {LARGEST_RECORD} bytes")
        return self


class Opening(pydantic.BaseModel, frozen=True, extra="forbid"):
    """What the rules come to when a campaign opens; a pure function of them computes it."""

    offer: dict[str, dict[str, Any]] | None = None  # price schedules by pool; none offline
    largest: Amount | None = None  # payment of the offer
    ceiling: Annotated[float, Field(gt=0, allow_inf_nan=False)]  # the largest epsilon of anybody
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    escrow: Annotated[int, Field(ge=0)] = 0  # needed to open
    allot: dict[str, int] = {}  # escrow of groups
    warning: str | None = None  # which the buyer must confirm


def rules_of(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign's rules as plain data."""
    return dict(json.loads(campaign.rules))


def sellers_rules(campaign: Campaign) -> Sellers:
    """Return what a campaign's rules say about its sellers."""
    return Sellers.model_validate(rules_of(campaign).get("sellers", {}))


@act("buyer")
def draft(tx: Tx, caller: Caller, plan: Draft) -> Id:
    """Enter a campaign; its private key is made by a worker. Return its id."""
    identity = new_id()
    values = {"id": identity, "owner": caller.member, "channel": plan.channel, "state": "draft"}
    values |= {"self_funded": int(plan.self_funded), "made_at": tx.now}
    tx.add(schema.campaign, **values, **_columns(tx, plan, caller.member))
    money.make_accounts(tx, identity, _quotas(plan))
    tx.event(identity, "draft")
    if plan.channel == "live":
        tx.job("key", identity, tx.now, lane="now")
    return identity


@act("buyer")
def edit(tx: Tx, caller: Caller, campaign: int, plan: Draft) -> None:
    """Replace a draft's name, rules and times; money that came in stays."""
    found = lock_campaign(tx, campaign)
    kept = plan.rules.get("groups", {}).keys() == rules_of(found).get("groups", {}).keys()
    require(kept, "invalid", "A draft keeps its groups; copy it for others.")
    same = (found.currency, found.minor_units) == (plan.currency, plan.minor_units)
    empty = same or not any(money.free_by_pool(tx.c, campaign).values())
    require(empty, "state", "Money has come in: the draft keeps its currency.")
    step(tx, campaign, ("draft",), **_columns(tx, plan, found.owner, campaign))
    money.make_accounts(tx, campaign, _quotas(plan))


def _quotas(plan: Draft) -> dict[str, Any]:
    return {name: group.get("quota") for name, group in plan.rules.get("groups", {}).items()}


def _columns(tx: Tx, plan: Draft, owner: int | None, campaign: int = 0) -> dict[str, Any]:
    """Return a draft as its row has it; the rules in their own order, which is that of the questions."""
    named = sa.and_(_of.name == plan.name, _of.owner.is_not_distinct_from(owner), _of.id != campaign)
    is_new = tx.c.scalar(sa.select(_of.id).where(named)) is None
    require(is_new, "invalid", "There is a campaign of this name already.")
    values = plan.model_dump(include={"name", "mechanism", "currency", "minor_units", "consent"})
    for name in ("opens_at", "closes_at", "deliver_until"):
        moment = getattr(plan, name)
        values[name] = moment and time_text(moment)
    is_over = plan.closes_at is not None and values["closes_at"] <= tx.now
    require(not is_over, "invalid", "Expected closes_at in the future.")
    if plan.channel == "live" and plan.consent is None:
        values["consent"] = last_version(tx.c)
    rules = json.dumps(plan.rules, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return {**values, "rules": rules, "rules_digest": digest_of(rules)}


@act("worker")
def set_key(tx: Tx, caller: Caller, campaign: int, public: bytes) -> None:
    """Enter the public half of a campaign's key, which a worker made."""
    if lock_campaign(tx, campaign).public_key is None:
        step(tx, campaign, ("draft",), public_key=public)


@act("buyer")
def open_(tx: Tx, caller: Caller, campaign: int, opening: Opening, confirmed: bool = False) -> None:  # noqa: FBT001, FBT002
    """Open a campaign to sellers: freeze its rules and offer, and allot escrow to groups."""
    found = lock_campaign(tx, campaign)
    require(confirmed or opening.warning is None, "confirm", opening.warning or "")
    has_key = found.channel != "live" or found.public_key is not None
    require(has_key, "early", "The campaign's key is being made; try again in a minute.")
    is_over = found.closes_at is not None and found.closes_at <= tx.now
    require(not is_over, "expired", "The time at which sellers had to report or choose is over.")
    fits = (opening.offer is None) == (found.mechanism == "offline")
    require(fits, "invalid", "An online campaign needs an offer, an offline one has none yet.")
    fits = opening.offer is None or opening.largest is not None
    require(fits, "invalid", "An online campaign needs the largest payment of its offer.")
    needed = max(opening.escrow, sum(opening.allot.values()))
    missing = needed - money.free_by_pool(tx.c, campaign)[money.ESCROW]
    sentence = f"Escrow lacks {missing} minor units: the paymaster enters money first."
    require(found.self_funded or missing <= 0, "funds", sentence)
    offer = None if opening.offer is None else canonical(opening.offer)
    facts = {"offer": offer, "offer_digest": None if offer is None else digest_of(offer)}
    limits = {"ceiling": people.epsilon_units(opening.ceiling), "delta": people.delta_units(opening.delta)}
    step(tx, campaign, ("draft",), state="open", largest=opening.largest, **facts, **limits)
    # A self-funded campaign has no money yet: it comes into each group's escrow as it is promised.
    for group, amount in ({} if found.self_funded else opening.allot).items():
        money.post(tx, campaign, "allot", money.ESCROW, money.pool_of(group), amount)
    if found.closes_at is not None and found.deliver_until is not None:
        tx.job("end_reports", campaign, found.closes_at)
        if found.mechanism != "offline":
            tx.job("close", campaign, found.deliver_until)
    tx.event(campaign, "open")
    rules = sellers_rules(found)
    alone = rules.lifetime_epsilon is not None and rules.lifetime_delta is None
    people.lower_caps(tx, rules.lifetime_epsilon, 0.0 if alone else rules.lifetime_delta)
    refuse_limits(tx)
    cap = tx.c.execute(sa.select(schema.market.c.cap)).scalar_one()
    sentence = f"Nobody's lifetime limit of {cap / people.EPSILON_UNITS:g} has room for an epsilon of "
    sentence += f"{opening.ceiling:g}: lower objective.max_epsilon."
    require(limits["ceiling"] <= cap, "invalid", sentence)


@act("paymaster")
def fund(tx: Tx, caller: Caller, campaign: int, amount: Amount, pool: str = money.ESCROW) -> None:
    """Enter money that came into escrow; a debt is paid from it.

    While an online campaign is open, amounts are multiples of its largest payment: so many more people are
    called from the waiting line. Sent cent by cent, money would call somebody at an amount that tells what
    others are paid.
    """
    found = lock_campaign(tx, campaign, "draft", "open", "unpaid")
    is_whole = found.state != "open" or not found.largest or amount % found.largest == 0
    sentence = f"Expected a multiple of {found.largest} minor units, the largest payment."
    require(is_whole, "invalid", sentence)
    money.enter_funds(tx, campaign, pool, amount)
    tx.event(campaign, "funded")
    if found.state == "unpaid":
        _pay_debt(tx, found, amount)


def _pay_debt(tx: Tx, found: Campaign, amount: int) -> None:
    """Count money against a debt; once it is paid, hold what all quotes that stand come to.

    The time to accept and to send records is as much later as the buyer was.
    """
    if amount < found.debt:
        step(tx, found.id, ("unpaid",), debt=found.debt - amount)
        return
    require(hold_quotes(tx, found), "funds", "Escrow has less than sellers were quoted.")
    late = max(tx.moment - moment_of(found.cleared_at), timedelta())
    until = time_text(moment_of(found.deliver_until) + late)
    step(tx, found.id, ("unpaid",), state="offered", debt=0, deliver_until=until)
    tx.set(schema.participation, of(found.id, "quoted"), until=until)
    tx.job("close", found.id, until)
    tx.event(found.id, "offered")


def hold_quotes(tx: Tx, found: Campaign) -> bool:
    """Hold the payments of everybody quoted, all or none; return whether escrow had them."""
    quoted = of(found.id, "quoted")
    pools = money.sums_by_pool(tx.c, quoted, _own.payment)
    free = money.free_by_pool(tx.c, found.id)
    if money.needed(pools, free) > free[money.ESCROW]:
        return False
    for pool, amount, _ in pools:
        if pool != money.ESCROW:
            money.post(tx, found.id, "allot", money.ESCROW, pool, max(amount - free[pool], 0))
        number = count(tx.c, sa.and_(quoted, _own.pool == pool))
        is_held = money.hold(tx, found.id, pool, amount, number)
        require(is_held, "state", "More sellers were quoted than a group's quota.")
    tx.set(schema.participation, quoted, money_held=_own.payment)
    return True


@act("buyer")
def cancel(tx: Tx, caller: Caller, campaign: int) -> None:
    """End a campaign before anybody was quoted; of files, before training: its owner knows who was asked."""
    found = lock_campaign(tx, campaign, "draft", "open", "offered")
    is_live = found.channel == "live"
    may = not is_live or count(tx.c, _quoted(campaign)) == 0
    require(may, "state", "Sellers were quoted: the campaign can no longer be cancelled.")
    end_campaign(tx, found, "cancelled", "buyer")


def _quoted(campaign: int) -> Any:
    """Return the condition that a seller was shown an offer, whatever became of it."""
    return sa.and_(_own.campaign == campaign, _own.epsilon.is_not(None))


def end_campaign(tx: Tx, found: Campaign, state: str, reason: str | None) -> None:
    """End a locked campaign: free everything that is still held, and its key."""
    end_all(tx, found, active(found.id), "lapsed", reason)
    (void_rest if state == "cancelled" else pay_rest)(tx, found)
    step(tx, found.id, (found.state,), state=state, reason=reason, debt=0)
    tx.event(found.id, state)
    if found.channel == "live":
        forget_sealed(tx, _own.campaign == found.id)
        tx.job("sweep_key", found.id, tx.now)


@act("paymaster")
def refund(tx: Tx, caller: Caller, campaign: int, amount: Amount, pool: str = money.ESCROW) -> None:
    """Enter that money left escrow, of a draft or of a campaign that has ended."""
    found = lock_campaign(tx, campaign, "draft", *ENDED)
    is_there = amount <= money.free_by_pool(tx.c, campaign).get(pool, 0)
    require(is_there, "funds", "Escrow has less than that.")
    ref = f"refund/{campaign}/{new_id()}"
    money.post(tx, campaign, "refund", pool, money.OUTSIDE, amount, ref=ref)
    tx.event(campaign, "refunded")
    tx.commit_point("refund", campaign=describe(found), ref=ref, amount=amount, pool=pool)


def describe(found: Campaign) -> dict[str, Any]:
    """Return what a line of the log says about a campaign, enough to enter it again."""
    names = ("id", "name", "owner", "channel", "mechanism", "currency", "minor_units", "ceiling", "delta")
    return {**{name: getattr(found, name) for name in names}, "rules": found.rules}


@act("worker")
def end_reports(tx: Tx, caller: Caller, campaign: int) -> str:
    """End the time in which sellers report or choose; return the campaign's state.

    Cancelled with fewer than ``sellers.minimum`` who reported (offline) or were shown any offer (online).
    """
    found = lock_campaign(tx, campaign)
    if found.state != "open":
        return str(found.state)
    is_over = found.closes_at is not None and tx.now >= found.closes_at
    require(is_over, "early", "Sellers can still report or choose.")
    offline = found.mechanism == "offline"
    came = of(campaign, "reported") if offline else _quoted(campaign)
    if count(tx.c, came) < sellers_rules(found).minimum:
        end_campaign(tx, found, "cancelled", "few")
        return "cancelled"
    end_all(tx, found, of(campaign, "invited", "consented", "waiting", "reserved"), "expired")
    if not offline:
        return "open"
    step(tx, campaign, ("open",), state="clearing")
    tx.job("clear", campaign, tx.now)
    return "clearing"


@act("worker")
def close(tx: Tx, caller: Caller, campaign: int) -> str:
    """End the time in which records come: free all sellers who have not sold; return the campaign's state."""
    found = lock_campaign(tx, campaign)
    if found.state != ("offered" if found.mechanism == "offline" else "open"):
        return str(found.state)
    is_over = found.deliver_until is None or tx.now >= found.deliver_until
    require(is_over, "early", "Sellers can still send records.")
    if found.channel == "live":
        end_all(tx, found, of(campaign, "accepted"), "lapsed")
    others = [state for state in schema.ACTIVE if state not in ("accepted", "delivered")]
    end_all(tx, found, of(campaign, *others), "expired")
    if count(tx.c, selling(found)) == 0:
        end_campaign(tx, found, "cancelled", "nobody")
        return "cancelled"
    step(tx, campaign, (found.state,), state="closed")
    tx.event(campaign, "closed")
    if found.channel == "live":
        tx.job("train", campaign, tx.now)
    return "closed"


@act("worker")
def cancel_deserted(tx: Tx, caller: Caller, campaign: int) -> str:
    """End an unpaid or closed campaign that all its quoted or selling people have left; return its state."""
    found = lock_campaign(tx, campaign)
    left = {"unpaid": of(campaign, "quoted"), "closed": selling(found)}.get(found.state)
    if left is not None and count(tx.c, left) == 0:
        end_campaign(tx, found, "cancelled", "nobody")
        return "cancelled"
    return str(found.state)


@act("worker")
def refuse_training(tx: Tx, caller: Caller, campaign: int) -> None:
    """End a closed campaign whose training is refused for good: sellers are paid, and epsilon is free."""
    found = lock_campaign(tx, campaign, "closed")
    pay_all(tx, found, selling(found), 0)
    end_campaign(tx, found, "failed", "refused")


@act("worker")
def key_missing(tx: Tx, caller: Caller, campaign: int, missing: bool) -> str:  # noqa: FBT001
    """Enter whether a campaign's key is in the worker's folder; after a day without it the campaign ends.

    The worker asks only while it has the operator's key: otherwise the folder is the wrong one. Sellers who
    sent records are paid; before quotes the campaign is cancelled.
    """
    found = lock_campaign(tx, campaign)
    if found.channel != "live" or found.state in (*ENDED, "draft", "training"):
        return str(found.state)
    if not missing or found.key_missed_at is None:
        step(tx, campaign, (found.state,), key_missed_at=tx.now if missing else None)
    elif moment_of(found.key_missed_at) + tx.terms.key <= tx.moment:
        state = "failed" if count(tx.c, selling(found)) else "cancelled"
        pay_all(tx, found, selling(found), 0)
        end_campaign(tx, found, state, "key")
        return state
    return str(found.state)
