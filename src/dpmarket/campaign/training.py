"""Turn quotes and the data of who was quoted into a model: debit first, then read, then release."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.ledger import (
    EPSILON,
    SELLER,
    Round,
    debit,
    existing_ledger,
    give_back,
    ledger_path,
    matching_rounds,
    release,
    released_model,
    spent_already,
    withdraw,
    withdrawn_of,
)
from dpmarket.campaign.market_file import Market, read_market
from dpmarket.campaign.model_file import FeatureBounds, ModelFile, model_file, model_from_json
from dpmarket.campaign.quoting import id_problems, read_quotes
from dpmarket.errors import EntropyUnavailable, Infeasible, InvalidInput, LedgerRefusal
from dpmarket.files import (
    ColumnProblem,
    Database,
    find,
    numbers_of,
    positions_in,
    read_table,
    refuse,
    refuse_existing,
    refuse_same,
    write_bytes,
)
from dpmarket.progress import StageProgress

if TYPE_CHECKING:
    from dpmarket.learning import PrivateLogisticRegression


@dataclass(frozen=True)
class TrainingResult:
    """A model, whether it was trained now (or long ago, and handed out again), and how much was clipped.

    Attributes
    ----------
    model : what was released; its ``noise_rate`` is what training made of the promises.
    is_new : whether it was trained now.
    total_promise : the epsilons of those it was trained on, together.
    withdrawn : how many of the quoted sellers had withdrawn before.
    clipped : counts, per feature, values outside their public bounds. It is read from the data and is for
        the data holder's eyes only.
    """

    model: ModelFile
    is_new: bool
    total_promise: float
    withdrawn: int
    clipped: dict[str, int]


def train_file(
    market_path: str | os.PathLike[str],
    quotes: str | os.PathLike[str],
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    overwrite: bool = False,
    progress: StageProgress = lambda what, share: None,
) -> TrainingResult:
    """Train on the data of the quoted sellers, once, and write the model.

    Parameters
    ----------
    market_path : the market file; the ledger lies beside it.
    quotes : the file that ``quote`` wrote, unchanged.
    data : .csv or .parquet with one row for each seller who was promised anything and has not withdrawn:
        id, features, label. Rows of sellers promised nothing, or withdrawn, are not looked at.
    output : where the model goes.
    overwrite : whether an existing output may be replaced.

    Raises
    ------
    LedgerRefusal : no such quotes were ever given, or their promises are spent and there is no model.
    FileProblem : a file that cannot be used; ``details`` name lines and columns, never a value.
    InvalidInput, Infeasible : the promises cannot be kept with this penalty.

    Guarantees
    ----------
    * The promises are spent, on the disk, before a record is read. An error before noise is drawn gives them
      back; a process that dies or is interrupted does not, nor does an error that may depend on the noise
      (``NotConverged``): trying again until it stays away would choose among noises.
    * One model per round: a second call hands out the same one and reads no data.
    """
    market = read_market(market_path)
    refuse_same(output, market_path, ledger_path(market_path), quotes, data)
    if not overwrite:
        refuse_existing(output)
    progress("Reading quotes", 0.0)
    quoted = read_quotes(quotes, market.sellers.id_column)
    with existing_ledger(ledger_path(market_path)) as ledger:
        entered = known_round(ledger, quoted)
        kept = released_model(ledger, entered.number)
        if kept is not None:
            model, clipped, is_new = model_from_json(kept), dict[str, int](), False
        elif entered.state != "open":
            raise LedgerRefusal(spent_already(entered))
        else:
            model, clipped = _train(ledger, entered, market, quoted, quotes, data, progress)
            is_new = True
        gone = withdrawn_of(ledger, entered.number, quoted)
    write_bytes(output, model.to_json().encode(), overwrite)
    progress("Writing the model", 1.0)
    total_promise = float(quoted.get_column(EPSILON).to_numpy()[~gone].sum())
    return TrainingResult(model, is_new, total_promise, int(gone.sum()), clipped)


def withdraw_sellers(
    market_path: str | os.PathLike[str], quotes: str | os.PathLike[str], sellers: Sequence[str]
) -> int:
    """Take sellers out of a file of quotes before training; return how many had not withdrawn before.

    Parameters
    ----------
    market_path : the market file; the ledger lies beside it.
    quotes : the file that ``quote`` wrote, unchanged.
    sellers : their ids, as text.

    Raises
    ------
    FileProblem : a file that cannot be used.
    LedgerRefusal : no such quotes, a seller without a quote, or promises that are spent already.
    """
    market = read_market(market_path)
    with existing_ledger(ledger_path(market_path)) as ledger:
        entered = known_round(ledger, read_quotes(quotes, market.sellers.id_column))
        return withdraw(ledger, entered.number, sellers)


def withdraw_absent(
    market_path: str | os.PathLike[str],
    quotes: str | os.PathLike[str],
    data: str | os.PathLike[str],
) -> int:
    """Take out everybody who was promised something but has no row in a data file; return how many.

    Parameters
    ----------
    market_path, quotes : as for :func:`withdraw_sellers`.
    data : .csv or .parquet; of it only the ids are read.

    Raises
    ------
    FileProblem : a file that cannot be used.
    LedgerRefusal : no such quotes, or promises that are spent already.
    """
    market = read_market(market_path)
    id_column = market.sellers.id_column
    quoted = read_quotes(quotes, id_column)
    rows = read_table(data, [id_column], [id_column])
    present = positions_in(rows, id_column, quoted, SELLER)
    absent = quoted.get_column(EPSILON).to_numpy() > 0.0
    absent[present[present >= 0]] = False
    with existing_ledger(ledger_path(market_path)) as ledger:
        entered = known_round(ledger, quoted)
        return withdraw(
            ledger, entered.number, quoted.get_column(SELLER).gather(np.flatnonzero(absent)).to_list()
        )


def known_round(ledger: Database, quotes: pl.DataFrame) -> Round:
    """Return the round that these quotes are: an open one if there is, else the newest.

    Raises
    ------
    LedgerRefusal : no round has exactly these quotes.
    """
    known = matching_rounds(ledger, quotes)
    if not known:
        raise LedgerRefusal(
            "no such quotes were given: the ledger has no round with exactly these sellers, epsilons and "
            "payments. Use the file that 'dpmarket quote' wrote, as it was written, and its market file."
        )
    by_use = {"open": 0, "released": 1, "debited": 2}
    return min(known, key=lambda entered: by_use[entered.state])


def _train(
    ledger: Database,
    entered: Round,
    market: Market,
    quotes: pl.DataFrame,
    quotes_source: str | os.PathLike[str],
    data: str | os.PathLike[str],
    progress: StageProgress,
) -> tuple[ModelFile, dict[str, int]]:
    training = debit(ledger, entered.number)
    try:
        epsilons = np.asarray(quotes.get_column(EPSILON).to_numpy())
        promised = np.where(withdrawn_of(ledger, entered.number, quotes), 0.0, epsilons)
        progress("Reading data", 0.1)
        records = _read_records(market, quotes, promised, data)
        _refuse_absent(market, quotes, quotes_source, promised, records.owners)
        progress("Training", 0.3)
    except Exception:
        # Whatever is wrong, no noise is there yet, and nothing was released.
        give_back(ledger, training)
        raise
    try:
        estimator = _fit(market, records, promised)
    except (InvalidInput, Infeasible, EntropyUnavailable):
        # All of these come before noise is drawn (see PrivateLogisticRegression.fit): nothing was released.
        give_back(ledger, training)
        raise
    progress("Entering the model in the ledger", 0.95)
    model = model_file(
        estimator,
        records=records.owners.size,
        id_column=market.sellers.id_column,
        label_column=market.label.column,
        labels=market.label.values,
        features=[FeatureBounds(name=name, low=b.low, high=b.high) for name, b in market.features.items()],
        radius=market.training.radius,
        outside_bounds=market.training.outside_bounds,
    )
    spent, loss_weights = np.zeros(quotes.height), np.zeros(quotes.height)
    spent[records.owners] = estimator.epsilons_
    loss_weights[records.owners] = estimator.loss_weights_
    release(ledger, training, model.to_json(), spent, loss_weights)
    return model, records.clipped


@dataclass(frozen=True)
class _Records:
    owners: IntArray
    features: FloatArray
    positive: BoolArray
    clipped: dict[str, int]


def _fit(market: Market, records: _Records, promised: FloatArray) -> PrivateLogisticRegression:
    # They take scikit-learn along, which most commands do not need.
    from dpmarket.learning import PrivateLogisticRegression, PublicScaler

    bounds = list(market.features.values())
    scaler = PublicScaler([b.low for b in bounds], [b.high for b in bounds], market.training.radius)
    estimator = PrivateLogisticRegression(
        l2=market.training.l2, classes=(0, 1), numerical_epsilon=market.training.numerical_epsilon
    )
    scaled = scaler.fit_transform(records.features)
    return estimator.fit(scaled, records.positive.astype(np.int64), epsilons=promised[records.owners])


def _read_records(
    market: Market, quotes: pl.DataFrame, promised: FloatArray, source: str | os.PathLike[str]
) -> _Records:
    """Read the rows of everybody who was promised something, or refuse with all that is wrong."""
    id_column, label = market.sellers.id_column, market.label
    names = list(market.features)
    texts = [id_column, label.column]
    table = read_table(source, [id_column, *names, label.column], texts, names)
    owners = positions_in(table, id_column, quotes, SELLER)
    problems = id_problems(table, id_column)
    strangers = (owners < 0) & (table.get_column(id_column).fill_null("") != "").to_numpy()
    problems += find(id_column, "a seller without a quote", strangers)
    rows = np.flatnonzero((owners >= 0) & (promised[owners] > 0.0))
    features, more, clipped = _features(market, table, rows)
    positive, wrong = _labels(market, table, rows)
    refuse(table, source, [*problems, *more, *wrong])
    return _Records(owners[rows], features, positive, clipped)


def _features(
    market: Market, table: pl.DataFrame, rows: IntArray
) -> tuple[FloatArray, list[ColumnProblem], dict[str, int]]:
    values = np.empty((rows.size, len(market.features)))
    problems: list[ColumnProblem] = []
    clipped = {}
    for position, (name, bounds) in enumerate(market.features.items()):
        values[:, position], more = numbers_of(table, name, rows)
        problems += more
        outside = (values[:, position] < bounds.low) | (values[:, position] > bounds.high)
        if market.training.outside_bounds == "refuse":
            problems += find(name, "a value outside the public bounds", outside, rows)
        elif outside.any():
            clipped[name] = int(outside.sum())
    return values, problems, clipped


def _labels(market: Market, table: pl.DataFrame, rows: IntArray) -> tuple[BoolArray, list[ColumnProblem]]:
    column, values = market.label.column, market.label.values
    if isinstance(values[0], int):
        numbers, _ = numbers_of(table, column, rows)
        negative, positive = numbers == values[0], numbers == values[1]
    else:
        texts = table.get_column(column).gather(rows)
        negative, positive = ((texts == str(value)).fill_null(False).to_numpy() for value in values)
    return positive, find(column, "neither of the two labels", ~(negative | positive), rows)


def _refuse_absent(
    market: Market,
    quotes: pl.DataFrame,
    source: str | os.PathLike[str],
    promised: FloatArray,
    owners: IntArray,
) -> None:
    absent = promised > 0.0
    absent[owners] = False
    words = (
        "a seller who has no row in the data (add it, or let them withdraw: dpmarket withdraw --absent-from)"
    )
    refuse(quotes, source, find(market.sellers.id_column, words, absent))
