"""Campaigns from draft to close: one purchase, one escrow, one release.

A campaign's rules are frozen when it opens, together with what was computed from them: the offer, the
largest payment, the ceiling of epsilon and the delta. Whether a campaign is cancelled depends on counts that
no report changes, because a campaign that is dropped by what sellers ask for makes misreporting pay.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pydantic
import sqlalchemy as sa
from pydantic import Field

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import (
    Amount,
    Caller,
    Campaign,
    Id,
    Text,
    Tx,
    act,
    campaign_of,
    lock_campaign,
    new_id,
    step,
)
from dpmarket.campaign.consent import last_version
from dpmarket.campaign.log import canonical, digest_of
from dpmarket.campaign.participations import (
    active,
    count,
    end_all,
    of,
    pay_all,
    selling_state,
)
from dpmarket.campaign.times import moment_of, time_text
from dpmarket.errors import MarketRefusal

ENDED = ("released", "failed", "cancelled")
MINIMUM = 20
"""So many people report, or are offered something, at least; else the campaign is cancelled."""
LARGEST_RECORD = 2**20
"""Bytes of one person's record, all of whose rows together are of one width."""
_own, _of = schema.participation.c, schema.campaign.c


class SellersRules(pydantic.BaseModel, frozen=True, extra="ignore"):
    """What the market itself reads of ``[sellers]`` in the rules."""

    expected: Annotated[int, Field(ge=1, le=10**8)] = 1000
    minimum: Annotated[int, Field(ge=1, le=10**8)] = MINIMUM
    lifetime_epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    lifetime_delta: Annotated[float, Field(ge=0, le=1)] | None = None


class Draft(pydantic.BaseModel, frozen=True, extra="forbid"):
    """A campaign as its buyer writes it.

    Attributes
    ----------
    name, channel, mechanism
        What it is called, how sellers act, and how they are quoted.
    rules
        The rules file as plain data. Of it the market reads ``sellers``, ``groups.NAME.quota`` and
        ``record_bytes``, the one length of all records.
    currency, minor_units
        Of all its money.
    opens_at, closes_at, deliver_until
        When sellers come, until when they report or choose, and until when they send records; none for files.
    self_funded
        Escrow is entered as it is promised: of files, whose owner pays sellers.
    consent
        The version of the consent text.
    """

    name: Text
    channel: Literal["live", "file", "partitions"] = "live"
    mechanism: Literal["online", "offline", "posted"] = "online"
    rules: dict[str, Any]
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] = "EUR"
    minor_units: Annotated[int, Field(ge=1, le=10_000)] = 100
    opens_at: pydantic.AwareDatetime | None = None
    closes_at: pydantic.AwareDatetime | None = None
    deliver_until: pydantic.AwareDatetime | None = None
    self_funded: bool = False
    consent: int | None = None

    @pydantic.model_validator(mode="after")
    def _is_ordered(self) -> Draft:
        times = (self.opens_at, self.closes_at, self.deliver_until)
        if self.channel == "live":
            opens, closes, until = times
            if opens is None or closes is None or until is None or not opens < closes <= until:
                raise ValueError("expected opens_at < closes_at <= deliver_until")
        SellersRules.model_validate(self.rules.get("sellers", {}))
        if not 0 <= int(self.rules.get("record_bytes", 0)) <= LARGEST_RECORD:
            raise ValueError(f"expected records of at most {LARGEST_RECORD} bytes")
        return self


class Opening(pydantic.BaseModel, frozen=True, extra="forbid"):
    """What the rules come to when a campaign opens; a pure function of them computes it.

    Attributes
    ----------
    offer
        Online, one price schedule for each pool of escrow, as plain data.
    largest
        Online, the largest payment, in minor units: what is held for each reservation.
    ceiling, delta
        The largest epsilon that anybody can be quoted, and the campaign's delta.
    escrow
        How much must be in escrow before sellers come, in minor units.
    allot
        How much of it goes to each group's own escrow.
    warning
        Why the buyer should not do this, in the buyer's words; it must be confirmed.
    """

    offer: dict[str, dict[str, Any]] | None = None
    largest: Amount | None = None
    ceiling: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    escrow: Annotated[int, Field(ge=0)] = 0
    allot: dict[str, int] = {}
    warning: str | None = None


def rules_of(campaign: Campaign) -> dict[str, Any]:
    """Return a campaign's rules as plain data."""
    return dict(pydantic.TypeAdapter(dict[str, Any]).validate_json(campaign.rules))


def sellers_rules(campaign: Campaign) -> SellersRules:
    """Return what a campaign's rules say about its sellers."""
    return SellersRules.model_validate(rules_of(campaign).get("sellers", {}))


@act("buyer")
def draft(tx: Tx, caller: Caller, plan: Draft) -> Id:
    """Enter a campaign; its private key is made by a worker. Return its id."""
    # In their own order, which is that of the questions to sellers.
    rules = json.dumps(plan.rules, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    identity = new_id()
    values = plan.model_dump(include={"name", "channel", "mechanism", "currency", "minor_units", "consent"})
    for name in ("opens_at", "closes_at", "deliver_until"):
        moment = getattr(plan, name)
        values[name] = None if moment is None else time_text(moment)
    if values["closes_at"] is not None and values["closes_at"] <= tx.now:
        raise MarketRefusal("invalid", "Expected closes_at in the future.")
    if plan.channel == "live" and plan.consent is None:
        values["consent"] = last_version(tx.c)
    named = sa.and_(_of.name == plan.name, _of.owner.is_not_distinct_from(caller.member))
    if tx.c.execute(sa.select(_of.id).where(named)).first() is not None:
        raise MarketRefusal("invalid", "There is a campaign of this name already.")
    tx.c.execute(
        schema.campaign.insert(),
        {
            **values,
            "id": identity,
            "owner": caller.member,
            "state": "draft",
            "rules": rules,
            "rules_digest": digest_of(rules),
            "self_funded": int(plan.self_funded),
            "made_at": tx.now,
        },
    )
    groups = plan.rules.get("groups", {})
    money.make_accounts(tx, identity, {name: group.get("quota") for name, group in groups.items()})
    tx.event(identity, "draft")
    if plan.channel == "live":
        tx.job("key", identity, tx.now, lane="now")
    return identity


@act("worker")
def set_key(tx: Tx, caller: Caller, campaign: int, public: bytes) -> None:
    """Enter the public half of a campaign's key, which a worker made."""
    found = lock_campaign(tx, campaign)
    if found.public_key is None:
        step(tx, campaign, ("draft",), public_key=public)


@act("buyer")
def open_(tx: Tx, caller: Caller, campaign: int, opening: Opening, confirmed: bool = False) -> None:  # noqa: FBT001, FBT002
    """Open a campaign to sellers: freeze its rules and offer, and allot escrow to groups."""
    found = lock_campaign(tx, campaign)
    if opening.warning is not None and not confirmed:
        raise MarketRefusal("confirm", opening.warning)
    if found.channel == "live" and found.public_key is None:
        raise MarketRefusal("early", "The campaign's key is being made; try again in a minute.")
    if found.closes_at is not None and found.closes_at <= tx.now:
        raise MarketRefusal("expired", "The time at which sellers had to report or choose is over.")
    if (opening.offer is None) != (found.mechanism == "offline"):
        raise MarketRefusal("invalid", "An online campaign needs an offer, an offline one has none yet.")
    if opening.offer is not None and opening.largest is None:
        raise MarketRefusal("invalid", "An online campaign needs the largest payment of its offer.")
    there = money.free_by_pool(tx.c, campaign)[money.ESCROW]
    if not found.self_funded and there < max(opening.escrow, sum(opening.allot.values())):
        missing = max(opening.escrow, sum(opening.allot.values())) - there
        raise MarketRefusal("funds", f"Escrow lacks {missing} minor units; fund the campaign first.")
    offer = None if opening.offer is None else canonical(opening.offer)
    step(
        tx,
        campaign,
        ("draft",),
        state="open",
        offer=offer,
        offer_digest=None if offer is None else digest_of(offer),
        largest=opening.largest,
        ceiling=people.epsilon_units(opening.ceiling),
        delta=people.delta_units(opening.delta),
    )
    for group, amount in opening.allot.items():
        money.post(tx, campaign, "allot", money.ESCROW, f"{money.ESCROW}/{group}", amount)
    if found.closes_at is not None and found.deliver_until is not None:
        tx.job("end_reports", campaign, found.closes_at)
        if found.mechanism != "offline":
            tx.job("close", campaign, found.deliver_until)
    tx.event(campaign, "open")
    rules = sellers_rules(found)
    alone = rules.lifetime_epsilon is not None and rules.lifetime_delta is None
    people.lower_caps(tx, rules.lifetime_epsilon, 0.0 if alone else rules.lifetime_delta)


@act("paymaster")
def fund(tx: Tx, caller: Caller, campaign: int, amount: Amount, pool: str = money.ESCROW) -> None:
    """Enter money that came into escrow; a debt is paid from it.

    While an online campaign is open, amounts are multiples of its largest payment: so many more people are
    called from the waiting line. Sent cent by cent, money would call somebody at an amount that tells what
    others are paid.
    """
    found = lock_campaign(tx, campaign)
    if found.state not in ("draft", "open", "unpaid"):
        raise MarketRefusal("state", "Money comes in while a campaign is a draft, open or unpaid.")
    if found.state == "open" and found.largest and amount % found.largest:
        raise MarketRefusal(
            "invalid", f"Expected a multiple of {found.largest} minor units, the largest payment."
        )
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
    if not hold_quotes(tx, found):
        raise MarketRefusal("funds", "Escrow has less than sellers were quoted.")
    late = max(tx.moment - moment_of(str(found.cleared_at)), tx.moment - tx.moment)
    until = time_text(moment_of(str(found.deliver_until)) + late)
    step(tx, found.id, ("unpaid",), state="offered", debt=0, deliver_until=until)
    tx.c.execute(schema.participation.update().where(of(found.id, "quoted")).values(until=until))
    tx.job("close", found.id, until)
    tx.event(found.id, "offered")


def hold_quotes(tx: Tx, found: Campaign) -> bool:
    """Hold the payments of everybody quoted, all or none; return whether escrow had them."""
    quoted = of(found.id, "quoted")
    pools = money.sums_by_pool(tx.c, quoted, _own.payment)
    free = money.free_by_pool(tx.c, found.id)
    if any(amount > free[pool] for pool, amount, _ in pools):
        return False
    for pool, amount, _ in pools:
        number = count(tx.c, sa.and_(quoted, _own.pool == pool))
        if not money.hold(tx, found.id, pool, amount, number):
            raise MarketRefusal("state", "More sellers were quoted than a group's quota.")
    tx.c.execute(schema.participation.update().where(quoted).values(money_held=_own.payment))
    return True


@act("buyer")
def cancel(tx: Tx, caller: Caller, campaign: int) -> None:
    """End a campaign before anybody was quoted; of files, before training: its owner knows who was told."""
    found = lock_campaign(tx, campaign)
    if found.state not in (("draft", "open") if found.channel == "live" else ("draft", "open", "offered")):
        raise MarketRefusal("state", "A campaign can be cancelled while it is a draft or open.")
    if found.channel == "live" and count(tx.c, sa.and_(_own.campaign == campaign, _own.epsilon.is_not(None))):
        raise MarketRefusal("state", "Sellers were quoted: the campaign can no longer be cancelled.")
    end_campaign(tx, found, "cancelled", "buyer")


def end_campaign(tx: Tx, found: Campaign, state: str, reason: str) -> None:
    """End a locked campaign without a release: free everything that is held."""
    end_all(tx, found, active(found.id), "lapsed", reason)
    step(tx, found.id, (found.state,), state=state, reason=reason, debt=0)
    tx.event(found.id, state)
    if found.channel == "live":
        tx.job("sweep_key", found.id, tx.now)
        tx.job("ended", found.id, tx.now, lane="mail")


@act("paymaster")
def refund(tx: Tx, caller: Caller, campaign: int, amount: Amount, pool: str = money.ESCROW) -> None:
    """Enter that money left escrow, of a draft or of a campaign that has ended."""
    found = lock_campaign(tx, campaign)
    if found.state not in ("draft", *ENDED):
        raise MarketRefusal("state", "Money goes back while a campaign is a draft, or once it has ended.")
    if amount > money.free_by_pool(tx.c, campaign).get(pool, 0):
        raise MarketRefusal("funds", "Escrow has less than that.")
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

    With fewer people than ``sellers.minimum`` who reported (offline) or were shown their offer (online),
    whatever it was, the campaign is cancelled.
    """
    found = lock_campaign(tx, campaign)
    if found.state != "open":
        return found.state
    if found.closes_at is None or tx.now < found.closes_at:
        raise MarketRefusal("early", "Sellers can still report or choose.")
    offline = found.mechanism == "offline"
    shown = sa.and_(_own.campaign == campaign, _own.epsilon.is_not(None))
    if count(tx.c, of(campaign, "reported") if offline else shown) < sellers_rules(found).minimum:
        end_campaign(tx, found, "cancelled", "few")
        return "cancelled"
    end_all(tx, found, of(campaign, "invited", "consented", "waiting", "reserved"), "expired")
    if offline:
        step(tx, campaign, ("open",), state="clearing")
        tx.job("clear", campaign, tx.now)
        return "clearing"
    return "open"


@act("worker")
def close(tx: Tx, caller: Caller, campaign: int) -> str:
    """End the time in which records come; return the campaign's state."""
    found = lock_campaign(tx, campaign)
    before = "offered" if found.mechanism == "offline" else "open"
    if found.state != before:
        return found.state
    if found.deliver_until is not None and tx.now < found.deliver_until:
        raise MarketRefusal("early", "Sellers can still send records.")
    return close_now(tx, found)


def close_now(tx: Tx, found: Campaign) -> str:
    """Free everybody who has not sold, and close a locked campaign; return its state."""
    selling = selling_state(found.channel)
    if selling == "delivered":
        end_all(tx, found, of(found.id, "accepted"), "lapsed")
    others = [state for state in schema.ACTIVE if state not in ("accepted", "delivered")]
    end_all(tx, found, of(found.id, *others), "expired")
    if count(tx.c, of(found.id, selling)) == 0:
        end_campaign(tx, found, "cancelled", "nobody")
        return "cancelled"
    step(tx, found.id, (found.state,), state="closed")
    tx.event(found.id, "closed")
    if found.channel == "live":
        tx.job("train", found.id, tx.now)
    return "closed"


@act("worker")
def cancel_deserted(tx: Tx, caller: Caller, campaign: int) -> str:
    """End an unpaid campaign that all quoted sellers have left; return its state."""
    found = lock_campaign(tx, campaign)
    if found.state == "unpaid" and count(tx.c, of(campaign, "quoted")) == 0:
        end_campaign(tx, found, "cancelled", "nobody")
        return "cancelled"
    return found.state


@act("worker")
def refuse_training(tx: Tx, caller: Caller, campaign: int) -> None:
    """End a closed campaign whose training is refused for good: sellers are paid, and epsilon is free."""
    found = lock_campaign(tx, campaign)
    if found.state != "closed":
        raise MarketRefusal("state", "The campaign is not closed.")
    pay_without_noise(tx, found, of(campaign, selling_state(found.channel)), "refused")


def pay_without_noise(tx: Tx, found: Campaign, condition: Any, reason: str) -> None:
    """Pay sellers of a locked campaign whose epsilon is not spent, free all others, and end it."""
    pay_all(tx, found, condition, 0)
    end_all(tx, found, active(found.id), "lapsed", reason)
    tx.c.execute(schema.sealed.delete().where(schema.sealed.c.participation.in_(
        sa.select(_own.id).where(_own.campaign == found.id))))  # fmt: skip
    step(tx, found.id, (found.state,), state="failed", reason=reason, debt=0)
    tx.event(found.id, "failed")
    tx.job("sweep_key", found.id, tx.now)
    tx.job("ended", found.id, tx.now, lane="mail")


@act("worker")
def key_missing(tx: Tx, caller: Caller, campaign: int, missing: bool) -> str:  # noqa: FBT001
    """Enter whether a campaign's key is in the worker's folder; after a day without it the campaign ends.

    The worker asks only while it has the operator's key: otherwise the folder is the wrong one. Sellers who
    sent records are paid; before quotes the campaign is cancelled.
    """
    found = lock_campaign(tx, campaign)
    if found.channel != "live" or found.state in (*ENDED, "draft", "training"):
        return found.state
    if not missing:
        if found.key_missed_at is not None:
            step(tx, campaign, (found.state,), key_missed_at=None)
    elif found.key_missed_at is None:
        step(tx, campaign, (found.state,), key_missed_at=tx.now)
    elif moment_of(found.key_missed_at) + tx.terms.key <= tx.moment:
        delivered = of(campaign, "delivered")
        if count(tx.c, delivered):
            pay_without_noise(tx, found, delivered, "key")
            return "failed"
        end_campaign(tx, found, "cancelled", "key")
        return "cancelled"
    return found.state


def state_of(c: sa.Connection, campaign: int) -> str:
    """Return a campaign's state."""
    return campaign_of(c, campaign).state
