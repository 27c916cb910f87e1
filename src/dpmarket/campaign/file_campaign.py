"""A campaign whose sellers act through files: quote, withdraw, train, and what is known about one person.

Same rows, same lifetime limits and the same acts as a live campaign; here tables are brought in and written
out. All that is written is on the disk before an act is entered, and shown when it was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.campaign import campaigns, people, schema, sellers
from dpmarket.campaign.acts import OWNER, Campaign, Tx, campaign_of, lock_campaign
from dpmarket.campaign.certificate import certify_campaign, decide_of, rules_text
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_records import FileRecords, digests_of
from dpmarket.campaign.file_reports import ReportsFile, normal_ids, read_reports
from dpmarket.campaign.opening import decide_for, draft_of, opening_of, rules_of
from dpmarket.campaign.participations import count, of
from dpmarket.campaign.payouts import in_money
from dpmarket.campaign.place import Place, campaign_named, existing_campaign, place_of
from dpmarket.campaign.quoting import (
    Preview,
    Reports,
    enter_quotes,
    preview_reports,
    quotes_of,
)
from dpmarket.campaign.release import release_for
from dpmarket.campaign.rules.decision import budget_in_minor_units, refuse_too_many
from dpmarket.campaign.rules.pricing import terms_of
from dpmarket.campaign.rules.released import ModelFile, Released, released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules, to_distribution
from dpmarket.campaign.training import market_key, released, train
from dpmarket.certificates import Certificate
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import (
    is_standard_stream,
    read_table,
    refuse,
    refuse_existing,
    refuse_same,
    refuse_unwritable,
    table_kind,
    write_bytes,
    writing_table,
)
from dpmarket.progress import StageProgress

FULL, LIFETIME, EXCLUDED = "full", "lifetime", "excluded"
"""Why somebody was not quoted: no room in the budget, no epsilon left, on the list of who must not sell."""
_own, _person, _of = schema.participation.c, schema.person.c, schema.campaign.c
_ATTEMPTS = 5
_FREE = {
    ("campaign", "database"),
    ("sellers", "id_column"),
    ("sellers", "cost_column"),
    ("sellers", "excluded"),
}
Silent: StageProgress = lambda what, share: None  # noqa: E731


@dataclass(frozen=True, eq=False)
class Quoting:
    """What quoting a file came to.

    Attributes
    ----------
    epsilons, amounts
        Quotes of people in the file, payments in minor units. Confidential.
    campaign
        The campaign's row; None in a dry run of one that does not exist yet.
    rules
        Of the campaign.
    is_new
        False if everybody in the file had been quoted before.
    left_out
        How many people were not quoted, by reason: full, lifetime, excluded.
    not_quoted
        The file that lists them; None if there are none.
    below, above
        How many costs lie below and above the distribution.
    """

    epsilons: FloatArray
    amounts: np.ndarray[Any, np.dtype[np.int64]]
    campaign: Campaign | None
    rules: Rules
    is_new: bool
    left_out: dict[str, int]
    not_quoted: str | None
    below: int
    above: int


def quote_file(
    rules_path: str | os.PathLike[str],
    reports: str | os.PathLike[str],
    output: str | os.PathLike[str] | None,
    *,
    overwrite: bool = False,
    confirmed: bool = False,
    progress: StageProgress = Silent,
    database: str | None = None,
    not_quoted: str | os.PathLike[str] | None = None,
) -> Quoting:
    """Quote every seller of a file of reports, enter the quotes, and write them; again: the same quotes.

    Parameters
    ----------
    rules_path
        The rules file; its rules are fixed with the first quote.
    reports
        .csv or .parquet with the columns ``sellers.id_column`` and ``sellers.cost_column``.
    output
        .csv or .parquet for the quotes: id, epsilon, payment in money and in minor units, currency.
        Confidential, because an epsilon tells what was reported. None: a dry run, which enters nothing.
    overwrite, confirmed
        Whether existing outputs may be replaced, and whether to go on although what is bought will probably
        be no better than a guess.
    database
        A file or an address, in place of the rules' ``campaign.database``.
    not_quoted
        Where people who were not quoted are listed, with the reason; None: beside the output.

    Raises
    ------
    FileProblem
        A file that cannot be used; ``details`` name lines and columns, never a value.
    MarketRefusal
        The rules changed, too few people report, the budget is full, or a yes is needed.
    InvalidInput, Infeasible
        Nothing can be bought by these rules.
    """
    place = place_of(rules_path, database)
    outputs = _Outputs.checked(place, reports, output, not_quoted, overwrite=overwrite)
    progress("Reading reports", 0.0)
    found = read_reports(place.rules, place.path, reports)
    progress("Deciding epsilons and payments", 0.2)
    if not place.is_there:
        refuse_first(place.rules, found, confirmed=confirmed)
        if output is None:
            return _previewed(place.rules, found, outputs)
    with place.open(make=output is not None) as market:
        for attempt in range(_ATTEMPTS):
            campaign = _opened(market, place.rules, found, confirmed=confirmed, dry=output is None)
            if campaign is None:
                return _previewed(place.rules, found, outputs)
            reports_ = found.table.select("id", "cost")
            preview = preview_reports(market, campaign.id, reports_, decide_of(market, campaign))
            _refuse_nobody(market, campaign, preview, found)
            progress("Entering quotes", 0.6)
            try:
                return _entered(market, campaign, place.rules, found, preview, outputs)
            except MarketRefusal as refusal:
                if refusal.kind not in ("state", "funds") or attempt == _ATTEMPTS - 1:
                    raise  # else somebody else quoted meanwhile
    raise AssertionError("unreachable")


def refuse_first(rules: Rules, found: ReportsFile, *, confirmed: bool) -> None:
    """Refuse a first file of reports before anything is made: what is refused leaves no database behind."""
    opening = opening_of(rules)
    if opening.warning is not None and not confirmed:
        raise MarketRefusal("confirm", f"{opening.warning} To buy all the same, say --yes.")
    if rules.campaign.mechanism == "offline" and found.table.height < rules.sellers.minimum:
        raise few(found.table.height, rules.sellers.minimum)
    if not (found.table.get_column("cost") <= terms_of(rules).virtual_cost.reserve_price).any():
        raise Infeasible(
            "None of these reports buys anything: all of them lie above the reserve price. Nothing was "
            "entered."
        )


@dataclass(frozen=True)
class _Outputs:
    """Where quotes go, and the list of people who were not quoted."""

    quotes: str | os.PathLike[str] | None
    not_quoted: str | os.PathLike[str] | None
    overwrite: bool

    @classmethod
    def checked(
        cls,
        place: Place,
        reports: str | os.PathLike[str],
        quotes: str | os.PathLike[str] | None,
        not_quoted: str | os.PathLike[str] | None,
        *,
        overwrite: bool,
    ) -> _Outputs:
        if quotes is None:
            return cls(None, None, overwrite)
        if not_quoted is None and not is_standard_stream(quotes):
            path = Path(quotes)
            not_quoted = path.with_name(f"{path.stem}-not-quoted{path.suffix}")
        for target, others in ((quotes, []), (not_quoted, [quotes])):
            if target is not None:
                refuse_same(target, *place.files, reports, *others)
                refuse_unwritable(target)
                if not is_standard_stream(target):
                    table_kind(target)
        if not overwrite:
            refuse_existing(quotes)
        return cls(quotes, not_quoted, overwrite)


def _previewed(rules: Rules, found: ReportsFile, outputs: _Outputs) -> Quoting:
    """Return what quoting would enter into a campaign that does not exist yet."""
    ids = found.table.get_column("id").to_list()
    costs = found.table.get_column("cost").to_numpy()
    decision = decide_for(rules)(Reports([], costs, [], ids))
    known = pl.DataFrame(
        {
            "id": ids,
            "epsilon": np.asarray(decision.epsilons, dtype=float),
            "payment": decision.whole(rules.money.minor_units),
            "state": ["accepted"] * len(ids),
        }
    )
    return _result(rules, found, _sheet(rules, found, known), None, outputs, is_new=True)


def few(there: int, minimum: int) -> MarketRefusal:
    """Return the refusal of a campaign with too few people, by counts that no report changes."""
    return MarketRefusal(
        "few",
        f"{there:,} people are in the campaign, and sellers.minimum asks for {minimum:,}: few people cannot "
        "hide among each other. Ask more people. Nothing was entered.",
    )


def _opened(
    market: Market, rules: Rules, reports: ReportsFile, *, confirmed: bool, dry: bool
) -> Campaign | None:
    """Return the campaign of these rules, opened if it is new; None in a dry run of a new one."""
    with market.look() as c:
        found = campaign_named(c, rules.campaign.name)
        is_empty = found is None or not count(c, _own.campaign == found.id)
    if found is not None and (found.state == "draft" or not is_empty):
        refuse_changed(found, rules)
        if found.state != "draft":
            return found
    elif found is not None and found.state != "open":
        return found
    if dry:
        return None
    refuse_first(rules, reports, confirmed=confirmed)
    opening, budget = opening_of(rules), budget_in_minor_units(rules)

    def enter(tx: Tx) -> int:
        identity = _drafted(tx, rules, found)
        if rules.campaign.mechanism != "offline" and budget is not None:
            campaigns.fund(tx, OWNER, identity, budget)
        campaigns.open_(tx, OWNER, identity, opening, confirmed=True)
        return identity

    identity = market.transact(enter)
    with market.look() as c:
        return campaign_of(c, int(identity))


def _drafted(tx: Tx, rules: Rules, found: Campaign | None) -> int:
    """Return the id of the draft of these rules, made if there is none; an empty campaign is replaced."""
    if found is not None and found.state == "draft":
        return found.id
    if found is not None:
        _forget(tx, found)
    limited = rules.campaign.mechanism != "offline" and rules.objective.budget is not None
    return campaigns.draft(tx, OWNER, draft_of(rules, channel="file", self_funded=not limited))


def commit_file(rules_path: str | os.PathLike[str], *, database: str | None = None) -> tuple[str, str]:
    """Fix a campaign's rules before anybody reports; return their text to publish, and the time.

    The text is the same whenever it is asked for. Rules that were fixed and changed since, before anybody was
    quoted, are fixed anew, with a new time.

    Raises
    ------
    MarketRefusal
        Sellers were quoted by other rules.
    """
    place = place_of(rules_path, database)
    opening_of(place.rules)  # refuses rules by which nothing can be bought
    with place.open(make=True) as market:
        with market.look() as c:
            found = campaign_named(c, place.rules.campaign.name)
            is_empty = found is None or not count(c, _own.campaign == found.id)
        if found is None or (
            is_empty and found.state in ("draft", "open") and has_changed(found, place.rules)
        ):

            def enter(tx: Tx) -> int:
                if found is not None:
                    _forget(tx, found)
                return _drafted(tx, place.rules, None)

            identity = int(market.transact(enter))
            with market.look() as c:
                found = campaign_of(c, identity)
        refuse_changed(found, place.rules)
        return rules_text(market_key(market), found), found.made_at


def certify_file(rules_path: str | os.PathLike[str], *, database: str | None = None) -> Certificate:
    """Return the certificate of a campaign, with new salts at every call: keep the first one's openings.

    Raises
    ------
    NotCertifiable
        Nothing was released.
    """
    place = place_of(rules_path, database)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        refuse_changed(found, place.rules)
        return certify_campaign(market, found.id)


def _forget(tx: Tx, found: Campaign) -> None:
    """Delete a campaign in which nobody was quoted, because its first file of reports was refused."""
    found = lock_campaign(tx, found.id)
    if found.state not in ("draft", "open") or count(tx.c, _own.campaign == found.id):
        raise MarketRefusal("state", "Somebody was quoted in this campaign meanwhile; try again.")
    for table in (schema.event, schema.transfer, schema.account):
        tx.c.execute(table.delete().where(table.c.campaign == found.id))
    tx.c.execute(schema.campaign.delete().where(_of.id == found.id))


def refuse_changed(found: Campaign, rules: Rules) -> None:
    """Refuse a rules file that differs from the rules that were fixed with the first quote, or committed.

    Raises
    ------
    MarketRefusal
        Names the first key that changed.
    """
    changed = _changed(_compared(found_rules(found)), _compared(rules))
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise MarketRefusal(
            "state",
            f"The rules have changed since they were fixed: {changed[0]}{more}. Put it back; for other "
            "rules, begin another campaign.",
        )


def has_changed(found: Campaign, rules: Rules) -> bool:
    """Whether a rules file differs from a campaign's rules."""
    return bool(_changed(_compared(found_rules(found)), _compared(rules)))


def found_rules(found: Campaign) -> Rules:
    """Return a file campaign's frozen rules."""
    if found.channel != "file":
        raise MarketRefusal("state", "This campaign is not one from files: name another campaign.")
    return rules_of(found)


def _compared(rules: Rules) -> dict[str, Any]:
    data = rules.to_data()
    data["costs"]["distribution"] = to_distribution(rules.costs.distribution).to_dict()
    for table, name in _FREE:
        data.get(table, {}).pop(name, None)
    return data


def _changed(before: Any, now: Any, path: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict) and path != "costs.distribution":
        return [
            line
            for name in dict.fromkeys((*before, *now))
            for line in _changed(before.get(name), now.get(name), f"{path}.{name}".lstrip("."))
        ]
    if before == now:
        return []
    if path == "costs.distribution":
        return ["costs.distribution is another one"]
    return [f"{path} was {before!r} and is now {now!r}"]


def _refuse_nobody(market: Market, campaign: Campaign, preview: Preview | None, found: ReportsFile) -> None:
    """Refuse a file of people none of whom can be quoted, and more people than a delta allows."""
    if preview is None:
        return
    new = preview.quotes.filter(pl.col("epsilon").is_not_null()).height
    with market.look() as c:
        there = count(c, sa.and_(_own.campaign == campaign.id, _own.epsilon.is_not(None)))
    refuse_too_many(rules_of(campaign), there + new)
    if new or preview.quotes.height + preview.full < found.table.height:
        return
    if preview.full:
        largest = (campaign.largest or 0) / campaign.minor_units
        raise MarketRefusal(
            "funds",
            f"The budget is full: what is left of it is below {largest:.6g}, the schedule's largest payment. "
            f"None of the {found.table.height} sellers can be quoted.",
        )
    raise MarketRefusal(
        "limit",
        f"Nobody in the file can be quoted: {len(found.excluded)} must not sell, and the others have less "
        "left of their lifetime's epsilon or delta than this campaign could ask for.",
    )


def _entered(
    market: Market, campaign: Campaign, rules: Rules, found: ReportsFile, preview: Preview | None,
    outputs: _Outputs,
) -> Quoting:  # fmt: skip
    """Enter what was previewed while its files are being written; return what it came to."""
    with market.look() as c:
        known = quotes_of(c, campaign.id)
    if preview is not None:
        known = pl.concat([known, _as_quotes(preview)])
    sheet = _sheet(rules, found, known)
    if outputs.quotes is None:
        return _result(rules, found, sheet, campaign, outputs, is_new=preview is not None)
    if sheet.left_out.height and outputs.not_quoted is None:
        raise FileProblem(
            f"{sheet.left_out.height} sellers are not quoted, and there is no file to list them in: name one "
            "with --not-quoted."
        )
    if not sheet.quotes.height and preview is None:
        raise MarketRefusal("state", "Everybody in this file has withdrawn: begin another campaign.")
    with contextlib.ExitStack() as stack:
        targets = [(outputs.quotes, sheet.quotes), (outputs.not_quoted, sheet.left_out)]
        for target, table in targets:
            if target is not None and (table.height or target is outputs.quotes):
                writing = writing_table(target, table, overwrite=outputs.overwrite)
                stack.enter_context(writing)()
        if preview is not None:
            market.run(enter_quotes, OWNER, campaign.id, preview.quotes, preview.offer, preview.reports)
    with market.look() as c:
        campaign = campaign_of(c, campaign.id)
    return _result(rules, found, sheet, campaign, outputs, is_new=preview is not None)


@dataclass(frozen=True, eq=False)
class _Sheet:
    """Quotes as they are written, and the people who were not quoted, with the reason."""

    quotes: pl.DataFrame
    left_out: pl.DataFrame


def _as_quotes(preview: Preview) -> pl.DataFrame:
    state = (
        pl.when(pl.col("epsilon").is_not_null())
        .then(pl.lit("accepted"))
        .when(pl.col("reason") == "withdrawn")
        .then(pl.lit("withdrawn"))
        .otherwise(pl.lit("excluded"))
    )
    return preview.quotes.select(id="name", epsilon="epsilon", payment="payment", state=state)


def _sheet(rules: Rules, found: ReportsFile, known: pl.DataFrame) -> _Sheet:
    """Return the quotes of people in a file, in its order and its spelling, without those who left."""
    rows = found.table.join(known, on="id", how="left", maintain_order="left")
    column = rules.sellers.id_column
    quoted = rows.filter(pl.col("epsilon").is_not_null(), ~pl.col("state").is_in(["withdrawn", "lapsed"]))
    quotes = quoted.select(
        pl.col("written").alias(column),
        "epsilon",
        payment=in_money(quoted.get_column("payment"), rules.money.minor_units),
        payment_minor_units="payment",
        currency=pl.lit(rules.money.currency),
    )
    why = pl.when(pl.col("state").is_null()).then(pl.lit(FULL)).otherwise(pl.lit(LIFETIME))
    left = rows.filter(pl.col("state").is_null() | (pl.col("state") == "excluded"))
    left_out = pl.concat(
        [
            pl.DataFrame({column: found.excluded, "reason": [EXCLUDED] * len(found.excluded)},
                schema={column: pl.String, "reason": pl.String}),
            left.select(pl.col("written").alias(column), reason=why),
        ]
    )  # fmt: skip
    return _Sheet(quotes, left_out)


def _result(
    rules: Rules, found: ReportsFile, sheet: _Sheet, campaign: Campaign | None, outputs: _Outputs, *,
    is_new: bool,
) -> Quoting:  # fmt: skip
    reasons = sheet.left_out.group_by("reason", maintain_order=True).len().rows()
    return Quoting(
        sheet.quotes.get_column("epsilon").to_numpy(),
        sheet.quotes.get_column("payment_minor_units").to_numpy(),
        campaign,
        rules,
        is_new,
        {str(reason): int(number) for reason, number in reasons},
        str(outputs.not_quoted) if reasons and outputs.not_quoted is not None else None,
        found.below,
        found.above,
    )


def withdraw_sellers(
    rules_path: str | os.PathLike[str], ids: Sequence[str], *, database: str | None = None
) -> int:
    """Take people out of a campaign before training; return how many had not withdrawn before.

    They are not paid, and nobody else's epsilon or payment changes.

    Raises
    ------
    MarketRefusal
        An id without a quote, or epsilon that is spent already.
    """
    place = place_of(rules_path, database)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        digests = set(people.person_digests(market_key(market), _texts(ids)))
        unknown = digests - _quoted(market, found)
        if unknown:
            raise MarketRefusal("unknown", f"No quote for {len(unknown)} of these ids.")
        return int(market.run(sellers.withdraw_people, OWNER, found.id, list(ids)))


def withdraw_absent(
    rules_path: str | os.PathLike[str], data: str | os.PathLike[str], *, database: str | None = None
) -> int:
    """Take out everybody who was quoted something but has no row in a data file; return how many."""
    place = place_of(rules_path, database)
    column = place.rules.sellers.id_column
    table = read_table(data, [column], [column])
    ids, problems = normal_ids(table, column)
    refuse(table, data, problems)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        there = set(digests_of(market_key(market), ids))
        query = sa.select(_person.name, _person.digest).join(schema.participation, _own.person == _person.id)
        with market.look() as c:
            rows = c.execute(query.where(of(found.id, "accepted"))).all()
        absent = [str(name) for name, digest in rows if bytes(digest) not in there]
        return int(market.run(sellers.withdraw_people, OWNER, found.id, absent)) if absent else 0


def cancel_campaign(rules_path: str | os.PathLike[str], *, database: str | None = None) -> int:
    """End a campaign before training, for everybody in it; return how many people that were."""
    place = place_of(rules_path, database)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        with market.look() as c:
            number = count(c, of(found.id, "accepted"))
        market.run(campaigns.cancel, OWNER, found.id)
        return number


def _texts(ids: Sequence[str]) -> list[str]:
    for text in ids:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FileProblem("expected a seller's id in UTF-8.") from None
    return list(ids)


def _quoted(market: Market, found: Campaign) -> set[bytes]:
    """Return the digests of everybody in a campaign."""
    query = sa.select(_person.digest).join(schema.participation, _own.person == _person.id)
    with market.look() as c:
        rows = c.execute(query.where(_own.campaign == found.id)).scalars()
        return {bytes(digest) for digest in rows}


def sellers_in(market: Market, rules: Rules) -> tuple[list[bytes], set[bytes]]:
    """Return the digests of people who would sell now, and of everybody who was quoted; none: no campaign."""
    with market.look() as c:
        found = campaign_named(c, rules.campaign.name)
        if found is None:
            return [], set()
        query = sa.select(_person.digest).join(schema.participation, _own.person == _person.id)
        selling = c.execute(query.where(of(found.id, "accepted")).order_by(_person.digest)).scalars()
        return [bytes(digest) for digest in selling], _quoted(market, found)


@dataclass(frozen=True)
class Training:
    """What training came to.

    Attributes
    ----------
    released
        The model or the statistics.
    is_new
        Whether it was trained now, or long ago and handed out again.
    total_epsilon
        The epsilons of the people it was trained on, together.
    withdrawn
        How many quoted people had withdrawn before.
    clipped
        How many values of each column lay outside of what is declared: for the data holder's eyes only.
    raised_l2
        The penalty to which the rules' was raised because fewer people sell; None if it was not.
    """

    released: Released
    is_new: bool
    total_epsilon: float
    withdrawn: int
    clipped: dict[str, int]
    raised_l2: float | None


def train_file(
    rules_path: str | os.PathLike[str],
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: StageProgress = Silent,
    database: str | None = None,
) -> Training:
    """Spend the campaign once on a model or statistics, and write it; a second call hands out the same.

    Parameters
    ----------
    rules_path
        The rules file.
    data
        .csv or .parquet with the rows of everybody who was quoted something and has not withdrawn: ids,
        features and label, or the columns that statistics ask for. Other people's rows are not looked at.
    output
        Where the released document goes.
    overwrite
        Whether an existing output may be replaced.
    database
        As for :func:`quote_file`.

    Raises
    ------
    MarketRefusal
        Nobody was quoted, the rules changed since, a training is under way, or the epsilons are spent and
        there is no model.
    FileProblem
        A file that cannot be used.
    InvalidInput, Infeasible
        The epsilons cannot be kept by these rules. Nothing was spent.

    Notes
    -----
    Guaranteed: the debit is entered before a record is read, and the commit point is in the log before noise
    is drawn. Whatever ends the training before that gives all epsilons back.
    """
    place = place_of(rules_path, database)
    refuse_same(output, *place.files, data)
    refuse_unwritable(output)
    if not overwrite:
        refuse_existing(output)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        refuse_changed(found, place.rules)
        known = released(market, found.id)
        source = FileRecords(place.rules, data, market_key(market), _quoted(market, found))
        if known is None:
            _refuse_few(market, found, place.rules)
            progress("Training", 0.2)
            known = train(market, found.id, source, release_for(place.rules), OWNER)
            is_new = True
        else:
            is_new = False
        with market.look() as c:
            total = sa.select(sa.func.sum(_own.epsilon)).where(of(found.id, "spent"))
            spent = float(c.execute(total).scalar() or 0.0)
            withdrawn = count(c, of(found.id, "withdrawn", "lapsed"))
    write_bytes(output, known, overwrite=overwrite)
    progress("Writing", 1.0)
    made = released_from_bytes(known)
    return Training(made, is_new, spent, withdrawn, dict(source.clipped), _raised(place.rules, made))


def _raised(rules: Rules, made: Released) -> float | None:
    if not isinstance(made, ModelFile) or rules.training.l2 is None or made.delta:
        return None
    used = float(made.description["release"]["l2"])
    return used if used > rules.training.l2 else None


def _refuse_few(market: Market, found: Campaign, rules: Rules) -> None:
    """Refuse a campaign of fewer people than it must have, and one that cannot be trained any more."""
    if found.state == "failed":
        raise MarketRefusal(
            "state",
            "The epsilons of this campaign were spent by a training that ended after noise may have been "
            "drawn: sellers are paid. To buy from them once more, begin another campaign.",
        )
    if found.state == "training":
        raise MarketRefusal("state", "A training of this campaign is under way: wait for its end.")
    with market.look() as c:
        shown = count(c, sa.and_(_own.campaign == found.id, _own.epsilon.is_not(None)))
    if shown < rules.sellers.minimum:
        raise few(shown, rules.sellers.minimum)


@dataclass(frozen=True)
class StatementLine:
    """What one campaign has on one person. Confidential; times are UTC."""

    campaign: str
    channel: str
    quoted_at: str
    state: str
    epsilon: float
    held: float
    spent: float
    delta: float
    payment: int
    minor_units: int
    currency: str
    paid_at: str | None


def statement_of(
    rules_path: str | os.PathLike[str], seller: str, *, database: str | None = None
) -> list[StatementLine]:
    """Return what a database knows about one person, over all of its campaigns.

    Raises
    ------
    MarketRefusal
        Nobody of this id was ever in a campaign of it.
    """
    place = place_of(rules_path, database)
    with place.open(verified=False) as market:
        digest = people.person_digest(market_key(market), _texts([seller])[0])
        query = (
            sa.select(schema.participation, schema.campaign)
            .join(schema.person, _person.id == _own.person)
            .join(schema.campaign, _of.id == _own.campaign)
            .where(_person.digest == digest)
            .order_by(_own.id)
        )
        with market.look() as c:
            rows = [row._mapping for row in c.execute(query)]
    if not rows:
        raise MarketRefusal("unknown", "No quote for this id in this database.")
    return [
        StatementLine(
            row[_of.name],
            row[_of.channel],
            row[_own.since],
            row[_own.state],
            float(row[_own.epsilon] or 0.0),
            row[_own.epsilon_held] / people.EPSILON_UNITS,
            float(row[_own.epsilon_used] or 0.0)
            if row[_own.epsilon_used] is not None
            else row[_own.epsilon_spent] / people.EPSILON_UNITS,
            row[_of.delta] / people.DELTA_UNITS if row[_own.epsilon_held] or row[_own.epsilon_spent] else 0.0,
            int(row[_own.payment] or 0),
            row[_of.minor_units],
            row[_of.currency],
            row[_own.paid_at],
        )
        for row in rows
    ]
