"""A file campaign after its quotes: withdraw, train, certify, statement, check."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import campaigns, people, schema, sellers
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_quotes import few, quote_file
from dpmarket.campaign.file_reports import digests_of, normal_ids, people_in_file, read_records
from dpmarket.campaign.money import count, of
from dpmarket.campaign.partitions import CHANNEL, people_in, people_of, refuse_channel, rest_of
from dpmarket.campaign.place import Place, Source, campaign_named, place_of, refuse_changed
from dpmarket.campaign.release import release_for
from dpmarket.campaign.rules.columns import Records, columns_by_type, fields_of
from dpmarket.campaign.rules.released import ModelFile, Released, released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import Read, Release, Sellers, document_of, sellers_by, train
from dpmarket.campaign.transaction import Campaign, campaign_of
from dpmarket.certificates import Certificate
from dpmarket.errors import MarketRefusal
from dpmarket.files import column_names, read_table, write_bytes
from dpmarket.progress import StageProgress, silent

_own, _person, _of = schema.participation.c, schema.person.c, schema.campaign.c


def withdraw_sellers(rules: Source | Place, ids: Sequence[str]) -> int:
    """Take people out before training; return how many had not withdrawn. Nobody else's terms change."""
    with place_of(rules).campaign() as (market, found):
        digests, known = people.person_digests(market.key, ids), _people(market, found)
        unknown = [name for name, digest in zip(ids, digests, strict=True) if digest not in known]
        if unknown:
            named = ", ".join(map(repr, unknown[:3])) + (", ..." if len(unknown) > 3 else "")
            raise MarketRefusal("unknown", f"No quote for {named}. Nobody was withdrawn.")
        return int(market.run(sellers.withdraw_people, OWNER, found.id, list(ids)))


def withdraw_absent(rules: Source | Place, data: Source) -> int:
    """Take out everybody who was quoted something but has no row in a data file; return how many."""
    place = place_of(rules)
    ids = people_in_file(data, place.rules.sellers.id_column)
    with place.campaign() as (market, found):
        there = set(digests_of(market.key, ids))
        absent = [name for digest, name in _people(market, found, "accepted").items() if digest not in there]
        return int(market.run(sellers.withdraw_people, OWNER, found.id, absent)) if absent else 0


def cancel_campaign(rules: Source | Place) -> int:
    """End a campaign before training, for everybody in it; return how many people that were."""
    with place_of(rules).campaign() as (market, found):
        with market.look() as c:
            number = count(c, of(found.id, "accepted")) + rest_of(c, found.id)[1]
        market.run(campaigns.cancel, OWNER, found.id)
        return number


def certify_file(rules: Source | Place) -> Certificate:
    """Return the certificate of a campaign, with new salts at every call: keep the first one's openings."""
    place = place_of(rules)
    with place.campaign() as (market, found):
        refuse_changed(found, place.rules)
        return certify_campaign(market, found.id)


def _people(market: Market, found: Campaign, *states: str) -> dict[bytes, str]:
    """Return the digests and names of everybody in a campaign, or in some states of it."""
    with market.look() as c:
        table = people_of(c, found)
    chosen = table.filter(pl.col("state").is_in(states)) if states else table
    return dict(chosen.select("digest", "name").iter_rows())


@dataclass(frozen=True)
class Training:
    """What training came to."""

    released: Released
    is_new: bool  # trained now, not handed out again
    total_epsilon: float  # of the people it was trained on
    withdrawn: int  # others, before
    clipped: dict[str, int]  # values of each column outside of what is declared: for the data holder alone
    raised_l2: float | None  # the penalty to which the rules' was raised because fewer people sell


def train_file(
    rules: Source | Place,
    data: Source,
    output: Source,
    *,
    overwrite: bool = False,
    progress: StageProgress = silent,
) -> Training:
    """Spend the campaign once on a model or statistics, and write it; a second call hands out the same.

    ``data`` has the rows of everybody who was quoted something and has not withdrawn: ids, features and
    label, or the columns that statistics ask for; other people's rows are not looked at. Guaranteed: the
    debit is entered before a record is read, and the commit point is in the log before noise is drawn.
    Whatever ends the training before that gives all epsilons back.
    """
    place = place_of(rules)
    place.refuse_output(output, data, overwrite=overwrite)
    with place.campaign() as (market, found):
        clipped: dict[str, int] = {}
        with market.look() as c:
            there = people_of(c, found)

        def read(sellers: Sellers) -> Records:
            records = read_records(place.rules, data, market.key, set(there["digest"]), sellers)
            clipped.update(records.clipped)
            return records

        return hand_out(
            place, market, found, there, read, release_for(place.rules),
            output=output, channel="file", clipped=clipped, overwrite=overwrite, progress=progress,
        )  # fmt: skip


def hand_out(
    place: Place, market: Market, found: Campaign, there: pl.DataFrame, read: Read, release: Release, *,
    output: Source, channel: str, clipped: dict[str, int], overwrite: bool, progress: StageProgress,
) -> Training:  # fmt: skip
    """Train a campaign of a channel, or hand out what was released before, and write it."""
    refuse_changed(found, place.rules)
    refuse_channel(found, channel)
    known = document_of(market, found.id)
    is_new = known is None
    if known is None:
        refuse_untrainable(market, found, place.rules)
        progress("Training", 0.2)
        known = train(market, found.id, read, release, OWNER)
    write_bytes(output, known, overwrite=overwrite)
    progress("Writing", 1.0)
    bought, left = there.filter(pl.col("payment") > 0), pl.col("state").is_in(["withdrawn", "lapsed"])
    total, withdrawn = float(bought.filter(~left)["epsilon"].sum()), bought.filter(left).height
    made = released_from_bytes(known)
    return Training(made, is_new, total, withdrawn, clipped, _raised_l2(place.rules, made))


def _raised_l2(rules: Rules, made: Released) -> float | None:
    """Return the penalty to which the rules' was raised; None if it was not."""
    if not isinstance(made, ModelFile) or rules.training.l2 is None or made.delta:
        return None
    used = float(made.description["release"]["l2"])
    return used if used > rules.training.l2 else None


def refuse_untrainable(market: Market, found: Campaign, rules: Rules) -> None:
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
        shown += rest_of(c, found.id)[1]
    if shown < rules.sellers.minimum:
        raise few(shown, rules.sellers.minimum)


def statement_of(rules: Source | Place, seller: str) -> list[dict[str, Any]]:
    """Return what a database knows about one person, by campaign. Confidential; times are UTC."""
    with place_of(rules).open(verified=False) as market:
        digest = people.person_digest(market.key, seller)
        query = (
            sa.select(schema.participation)
            .join(schema.person, _person.id == _own.person)
            .where(_person.digest == digest)
            .order_by(_own.id)
        )
        lines = []
        with market.look() as c:
            for row in c.execute(query).mappings():
                held, spent, used = row["epsilon_held"], row["epsilon_spent"], row["epsilon_used"]
                own = float(spent / people.EPSILON_UNITS if used is None else used)
                found = campaign_of(c, row["campaign"])
                lines.append(_line(found, row, held / people.EPSILON_UNITS, own, uses_delta=held + spent > 0))
            for one in c.scalars(sa.select(_of.id).where(_of.channel == CHANNEL)).all():
                found = campaign_of(c, one)
                rows = people_in(c, found).filter(pl.col("digest") == digest)
                for filed in rows.iter_rows(named=True):  # without a lifetime account
                    own = float(filed["used"] or filed["epsilon"]) if filed["state"] == "spent" else 0.0
                    sold = filed["state"] in ("accepted", "spent")
                    lines.append(_line(found, filed, 0.0, own, uses_delta=sold))
    if not lines:
        raise MarketRefusal("unknown", "No quote for this id in this database.")
    return lines


def _line(
    found: Campaign, row: Mapping[Any, Any], held: float, spent: float, *, uses_delta: bool
) -> dict[str, Any]:
    return {
        "campaign": found.name, "channel": found.channel, "quoted_at": row["since"], "state": row["state"],
        "epsilon": float(row["epsilon"] or 0.0), "held": held, "spent": spent,
        "delta": found.delta / people.DELTA_UNITS if uses_delta else 0.0, "payment": int(row["payment"] or 0),
        "minor_units": found.minor_units, "currency": found.currency, "paid_at": row.get("paid_at"),
    }  # fmt: skip


def check_files(rules: Source | Place, files: Sequence[Source]) -> list[tuple[str, str]]:
    """Check reports and data against the rules, entering nothing; return a name and a sentence for each.

    A file with the column of costs is checked as ``quote`` would, any other one as ``train`` would: for the
    sellers of the campaign if somebody was quoted, else for everybody in the file.
    """
    place = place_of(rules)
    return [(os.fspath(file), _checked(place, file)) for file in files]


def _checked(place: Place, file: Source) -> str:
    if place.rules.sellers.cost_column in column_names(file):
        done = quote_file(place, file, None, confirmed=True)
        return f"reports of {done.sellers:,} sellers; {done.bought_from:,} of them would be bought from"
    column, key = place.rules.sellers.id_column, bytes(32)
    texts, numbers = columns_by_type(fields_of(place.rules))  # as read_records does
    ids, _ = normal_ids(read_table(file, [column, *texts, *numbers], [column, *texts], numbers), column)
    selling = list(dict.fromkeys(one for one in digests_of(key, ids) if one))
    quoted = set(selling)
    if place.is_there:
        with place.open() as market:
            with market.look() as c:
                found = campaign_named(c, place.rules.campaign.name)
            known = {} if found is None else _people(market, found)
            if found is not None and known:
                key, quoted = market.key, set(known)
                selling = list(_people(market, found, "accepted"))
    records = read_records(place.rules, file, key, quoted, sellers_by(selling))
    rows, clipped = records.owners.size, sum(records.clipped.values())
    return f"{rows:,} rows of {len(selling):,} sellers; {clipped:,} values outside their bounds"
