"""Turn quotes and the data of who was quoted into a model or statistics, once; before, let sellers leave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.campaign.ids import tidy_ids, tidy_names
from dpmarket.campaign.market_file import Market, read_market
from dpmarket.campaign.place import opened_existing, place_of
from dpmarket.campaign.quotes import Quotes, read_quotes
from dpmarket.campaign.records import Records, read_records, refuse_absent
from dpmarket.campaign.released import Released, released_from_json
from dpmarket.campaign.frozen_rules import refuse_changed
from dpmarket.campaign.spending import people_of, spend_and_train
from dpmarket.campaign.statistic_records import StatisticRecords, read_statistic_records
from dpmarket.errors import LedgerRefusal
from dpmarket.files import (
    positions_in,
    read_table,
    refuse_existing,
    refuse_same,
    refuse_unwritable,
    write_bytes,
)
from dpmarket.ledger import Connection, Round, reading, releases, rounds, withdraw, writing
from dpmarket.ledger.rounds import SELLER
from dpmarket.progress import StageProgress

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class TrainingResult:
    """What was released, whether that was now (or long ago, and handed out again), and how much was clipped.

    Attributes
    ----------
    model
        The model, whose ``noise_rate`` is what training made of the promises; or statistics.
    is_new
        Whether it was trained now.
    total_promise
        The epsilons of those it was trained on, together.
    withdrawn
        How many of the quoted sellers had withdrawn before.
    clipped
        Counts, per feature, values outside their public bounds. It is read from the data and is for the data
        holder's eyes only.
    raised_l2
        The penalty to which the market file's was raised because of withdrawals; None if it was not.
    """

    model: Released
    is_new: bool
    total_promise: float
    withdrawn: int
    clipped: dict[str, int]
    raised_l2: float | None = None


def train_file(
    market_path: str | os.PathLike[str],
    quotes: Files,
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: StageProgress = lambda what, share: None,
    ledger: str | None = None,
) -> TrainingResult:
    """Train on the data of the quoted sellers, once, and write the model; or ask for the market's statistics.

    Parameters
    ----------
    market_path
        The market file, with the rules that sellers were quoted by.
    quotes
        The file that ``quote`` wrote, unchanged; or several, for one model from the quotes of many days.
    data
        .csv or .parquet with one row for each seller who was promised anything and has not withdrawn: id,
        features, label. Rows of sellers promised nothing, or withdrawn, are not looked at.
    output
        Where the model goes.
    overwrite
        Whether an existing output may be replaced.
    ledger
        A file or an address, in place of the market file's ``ledger.url``.

    Raises
    ------
    LedgerRefusal
        No such quotes were ever given, the rules changed since, a training is under way, or the promises are
        spent and there is no model.
    FileProblem
        A file that cannot be used; ``details`` name lines and columns, never a value.
    InvalidInput, Infeasible
        The promises cannot be kept with this penalty.

    Notes
    -----
    Guaranteed:

    * The promises are spent, on the disk, before a record is read. Whatever ends the training before noise
      is drawn gives them back: an error at once, a process that dies when the ledger is used next. Once
      noise may have been drawn they are spent and paid: trying again would choose among noises.
    * Each round is debited once, and there is one model for it: a second call hands out the same one and
      reads no data.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    files = [quotes] if isinstance(quotes, str | os.PathLike) else list(quotes)
    refuse_same(output, market_path, *place.files, *files, data)
    refuse_unwritable(output)
    if not overwrite:
        refuse_existing(output)
    progress("Reading quotes", 0.0)
    quoted = [(read_quotes(source, market.sellers.id_column), source) for source in files]
    with opened_existing(place) as opened_ledger:
        with reading(opened_ledger) as connection:
            found = [known_round(connection, one) for one, _ in quoted]
            if len({one.number for one in found}) < len(found):
                raise LedgerRefusal("the same round of quotes is given twice.")
            kept = released_before(connection, found, market)
            people = people_of(connection, [one.number for one in found])
        if kept is not None:
            result = TrainingResult(
                kept,
                is_new=False,
                total_promise=float(people.promised.sum()),
                withdrawn=people.withdrawn,
                clipped={},
            )
        else:

            def read(people: pl.DataFrame, promised: FloatArray) -> Records | StatisticRecords:
                reader = read_records if market.label is not None else read_statistic_records
                records = reader(market, people, promised, data)
                refuse_absent(market, people, promised, records.owners, quoted)
                return records

            spending = spend_and_train(opened_ledger, found, market, read, progress)
            result = TrainingResult(is_new=True, **vars(spending))
    write_bytes(output, result.model.to_json().encode(), overwrite=overwrite)
    progress("Writing the model", 1.0)
    return result


def withdraw_sellers(
    market_path: str | os.PathLike[str],
    quotes: str | os.PathLike[str],
    sellers: Sequence[str],
    *,
    ledger: str | None = None,
) -> int:
    """Take sellers out of a file of quotes before training; return how many had not withdrawn before.

    Parameters
    ----------
    market_path
        The market file.
    quotes
        The file that ``quote`` wrote, unchanged.
    sellers
        Their ids, as text.
    ledger
        A file or an address, in place of the market file's ``ledger.url``.

    Raises
    ------
    FileProblem
        A file that cannot be used.
    LedgerRefusal
        No such quotes, a seller without a quote, or promises that are spent already.
    """
    market = read_market(market_path)
    quoted = read_quotes(quotes, market.sellers.id_column)
    names = tidy_names(sellers)
    with (
        opened_existing(place_of(market_path, market, ledger)) as opened_ledger,
        writing(opened_ledger) as connection,
    ):
        return withdraw(connection, known_round(connection, quoted).number, names)


def withdraw_absent(
    market_path: str | os.PathLike[str],
    quotes: str | os.PathLike[str],
    data: str | os.PathLike[str],
    *,
    ledger: str | None = None,
) -> int:
    """Take out everybody who was promised something but has no row in a data file; return how many.

    Parameters
    ----------
    market_path, quotes, ledger
        As for :func:`withdraw_sellers`.
    data
        .csv or .parquet; of it only the ids are read.

    Raises
    ------
    FileProblem
        A file that cannot be used.
    LedgerRefusal
        No such quotes, or promises that are spent already.
    """
    market = read_market(market_path)
    id_column = market.sellers.id_column
    quoted = read_quotes(quotes, id_column)
    rows = tidy_ids(read_table(data, [id_column], [id_column]), id_column)
    present = positions_in(rows, id_column, quoted.table, SELLER)
    absent = quoted.epsilons > 0.0
    absent[present[present >= 0]] = False
    leaving = quoted.table.get_column(SELLER).gather(np.flatnonzero(absent)).to_list()
    with (
        opened_existing(place_of(market_path, market, ledger)) as opened_ledger,
        writing(opened_ledger) as connection,
    ):
        return withdraw(connection, known_round(connection, quoted).number, leaving)


def known_round(connection: Connection, quotes: Quotes) -> Round:
    """Return the round that these quotes name, if they are as they were written.

    Raises
    ------
    LedgerRefusal
        There is no such round, or the file is not as it was written.
    """
    found = rounds.round_with_identity(connection, quotes.round)
    if found is not None and _is_written(connection, found, quotes):
        return found
    raise LedgerRefusal(
        "no such quotes were given: the ledger has no round with exactly these sellers, epsilons, payments, "
        "minor units and currency. Use the file that 'dpmarket quote' wrote, as it was written, and its "
        "market file."
    )


def _is_written(connection: Connection, found: Round, quotes: Quotes) -> bool:
    """Whether a file says what the ledger says; one that was written again may lack who had withdrawn."""
    currency = rounds.campaign_of(connection, found.campaign).currency
    if (quotes.scale, quotes.currency) != (found.minor_units, currency):
        return False
    known = rounds.quotes_of(connection, found.number)
    if known.height > len(quotes):
        there = positions_in(known, SELLER, quotes.table, SELLER) >= 0
        if not (there | rounds.withdrawn_of(connection, found.number, known)).all():
            return False
        known = known.filter(there)
    return bool(known.equals(quotes.table))


def spent_already(connection: Connection, found: Round) -> str:
    """Say why a round whose promises are spent cannot be trained on."""
    if found.state in ("debited", "marked"):
        return (
            f"a training on these quotes is under way since {found.debited_at}: wait for its end, or end "
            "that process."
        )
    campaign = rounds.campaign_of(connection, found.campaign)
    asks = {"statistic", "statistics"} & set(campaign.rules or ())
    work = "a release that ended without a number" if asks else "a training that ended without a model"
    return (
        f"the promises of these quotes were spent at {found.debited_at} by {work} after noise may have "
        "been drawn: sellers are paid. To buy from them once more, begin another campaign."
    )


def released_before(connection: Connection, found: Sequence[Round], market: Market) -> Released | None:
    """Return the model or the statistics that these rounds bought already, None if all are open.

    Raises
    ------
    LedgerRefusal
        The rules changed since, or some are spent and there is no model for exactly these.
    """
    _refuse_other_rules(connection, found, market)
    return _model_of(connection, found)


def _refuse_other_rules(connection: Connection, found: Sequence[Round], market: Market) -> None:
    if len({one.campaign for one in found}) > 1:
        raise LedgerRefusal("these quotes are of several campaigns: a model is trained for one.")
    refuse_changed(rounds.campaign_of(connection, found[0].campaign).rules, market)


def _model_of(connection: Connection, found: Sequence[Round]) -> Released | None:
    spent = [one for one in found if one.state != "open"]
    if not spent:
        return None
    kept = releases.released_model(connection, spent[0].number)
    if kept is None:
        raise LedgerRefusal(spent_already(connection, spent[0]))
    whole = releases.release_with(connection, str(spent[0].release))
    if whole is None or set(whole.rounds) != {one.number for one in found}:
        raise LedgerRefusal(
            "some of these quotes bought a model already, together with other quotes or alone: give exactly "
            "the quotes files that it was trained on, or only such as are not spent."
        )
    return released_from_json(kept)
