"""Spend rounds on a model: debit, then read records, mark in the moment before noise, then release.

Shared by every desk: who reads the records is passed in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.features import (
    encoder_of,
    is_plain,
    loss_of_market,
    norm_of_market,
    plain_bounds,
)
from dpmarket.campaign.limits import refuse_too_much
from dpmarket.campaign.market_file import Market, label_of
from dpmarket.campaign.model_file import FeatureBounds, ModelFile, model_file
from dpmarket.campaign.records import Records
from dpmarket.campaign.released import Released
from dpmarket.campaign.releasing import release_statistics
from dpmarket.campaign.statistic_records import StatisticRecords
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal
from dpmarket.files import positions_in
from dpmarket.ledger import Connection, Ledger, Round, outside, releases, rounds, writing
from dpmarket.ledger.attempts import end_attempt, log_debit, mark_attempt
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.rounds import SELLER
from dpmarket.numerics import exact_sum
from dpmarket.privacy.noise import Bits, SecureNoise, entropy
from dpmarket.progress import StageProgress

ReadRecords = Callable[[pl.DataFrame, FloatArray], Records | StatisticRecords]
"""Reads the records of people (column seller) who were promised something (0: not to be looked at)."""


@dataclass(frozen=True)
class LastMoment(SecureNoise):
    """Secure noise that calls a function in the moment before it is drawn.

    Parameters
    ----------
    mark
        Called once entropy is known to be there, before any of it is drawn; what it raises stops the draw.
    """

    mark: Callable[[], None]

    def bits(self) -> Bits:
        """Mark, then return a stream of fresh random bits.

        Raises
        ------
        EntropyUnavailable
            There are none; nothing was marked.
        """
        entropy(32)
        self.mark()
        return super().bits()


@dataclass(frozen=True, eq=False)
class People:
    """Everybody in some rounds, once each, with what they were promised in all of them. Confidential.

    Attributes
    ----------
    table
        Column seller.
    promised
        epsilon, 0 for who withdrew, shape (people,).
    parts
        For each round its number, what its sellers were promised there, and their places in the table.
    withdrawn
        How many withdrew, over all rounds.
    """

    table: pl.DataFrame
    promised: FloatArray
    parts: tuple[tuple[int, FloatArray, IntArray], ...]
    withdrawn: int

    def split(self, amounts: FloatArray, number: int) -> FloatArray:
        """Return what people's amounts come to in one round: in proportion to what it promised them."""
        _, own, places = next(part for part in self.parts if part[0] == number)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(self.promised[places] > 0.0, own / self.promised[places], 0.0)
        return np.asarray(amounts[places] * share)


@dataclass(frozen=True)
class Spending:
    """What spending rounds on a model came to.

    Attributes
    ----------
    model
        What was released.
    total_promise
        The epsilons of those it was trained on, together.
    withdrawn
        How many of the quoted sellers had withdrawn before.
    clipped
        As in :class:`~dpmarket.campaign.records.Records`: for the data holder's eyes only.
    raised_l2
        The penalty to which the market file's was raised because of withdrawals; None if it was not.
    """

    model: Released
    total_promise: float
    withdrawn: int
    clipped: dict[str, int]
    raised_l2: float | None


def people_of(connection: Connection, numbers: Sequence[int]) -> People:
    """Return everybody in these rounds."""
    found, withdrawn = [], 0
    for number in numbers:
        quotes = rounds.quotes_of(connection, number)
        gone = rounds.withdrawn_of(connection, number, quotes)
        withdrawn += int(gone.sum())
        found.append((number, quotes, np.where(gone, 0.0, rounds.amounts_of(quotes)[0])))
    if len(found) == 1:
        number, quotes, own = found[0]
        return People(quotes.select(SELLER), own, ((number, own, np.arange(own.size)),), withdrawn)
    tables = [pl.DataFrame({SELLER: quotes.get_column(SELLER), "promised": own}) for _, quotes, own in found]
    everybody = pl.concat(tables).group_by(SELLER, maintain_order=True).sum()
    parts = tuple(
        (number, own, positions_in(quotes, SELLER, everybody, SELLER)) for number, quotes, own in found
    )
    promised = np.array(everybody.get_column("promised").to_numpy())
    return People(everybody.select(SELLER), promised, parts, withdrawn)


def spend_and_train(
    ledger: Ledger,
    spent: Sequence[Round],
    market: Market,
    read_records: ReadRecords,
    progress: StageProgress = lambda what, share: None,
    before_noise: Callable[[], None] = lambda: None,
) -> Spending:
    """Spend rounds once, and train a model, or release statistics, that keep every promise in them.

    Parameters
    ----------
    ledger
        Where the rounds are.
    spent
        The rounds, all open.
    market
        What is trained, or asked.
    read_records
        Called after the debit.
    before_noise
        Called after the mark, in the moment before noise is drawn: to destroy what must not be read again.

    Raises
    ------
    LedgerRefusal
        A round is spent already, or nobody is left in them.
    InvalidInput, Infeasible, NotConverged
        No model; and whatever ``read_records`` raises.

    Notes
    -----
    Guaranteed:

    * The promises are spent, on the disk and in the log outside, before a record is read.
    * Whatever ends it before the mark gives them back, now or when the ledger is opened next. Whatever ends
      it after the mark does not: they are spent, and sellers are paid.
    """
    numbers = [found.number for found in spent]
    attempt = new_id()
    with outside.running(attempt):
        with writing(ledger) as connection:
            people = people_of(connection, numbers)
            if not (people.promised > 0.0).any():
                raise LedgerRefusal(
                    "everybody who was promised something has withdrawn, or nobody was: there is nothing to "
                    "train on."
                )
            refuse_too_much(connection, market, people.table, people.promised, spent)
            releases.debit(connection, attempt, numbers)
        try:
            head, check = log_debit(ledger, attempt, spent)
            progress("Reading data", 0.1)
            records = read_records(people.table, people.promised)
            progress("Training", 0.3)

            marked = False

            def mark() -> None:
                nonlocal marked
                if marked:  # of several statistics each draws noise
                    return
                mark_attempt(ledger, attempt, head, check)
                marked = True
                before_noise()

            live = all(found.digest.startswith(rounds.LIVE) for found in spent)
            model, epsilons, weights, raised = _fitted(market, people, records, LastMoment(mark), live=live)
            progress("Entering the model in the ledger", 0.95)
            with writing(ledger) as connection:
                releases.release(connection, attempt, model.to_json(), _by_round(people, epsilons, weights))
        except BaseException:
            _give_up(ledger, attempt)
            raise
    return Spending(model, float(people.promised.sum()), people.withdrawn, records.clipped, raised)


def _give_up(ledger: Ledger, attempt: str) -> None:
    """End an attempt that failed; what cannot be done now is done when the ledger is used next."""
    with contextlib.suppress(FileProblem):
        end_attempt(ledger, attempt)


def _fitted(
    market: Market, people: People, records: Records | StatisticRecords, noise: SecureNoise, *, live: bool
) -> tuple[Released, FloatArray, FloatArray, float | None]:
    """Return what is released, what it spent on each of the people with which weight, and a raised penalty.

    The weight of somebody in a statistic is told as what it spends, in epsilon.
    """
    if isinstance(records, StatisticRecords):
        promised = np.zeros(people.promised.size)
        promised[records.owners] = people.promised[records.owners]
        statistics, spent = release_statistics(market, promised, records, noise)
        return statistics, spent, spent, None
    return _trained(market, people, records, noise, live=live)


def _trained(
    market: Market, people: People, records: Records, noise: SecureNoise, *, live: bool
) -> tuple[ModelFile, FloatArray, FloatArray, float | None]:
    """Return the model, what it spent on each of the people with which weight, and a raised penalty."""
    # They take scikit-learn along, which most commands do not need.
    from dpmarket.learning import PrivateLogisticRegression, PublicScaler

    plain, several = is_plain(market), market.sellers.rows_per_person > 1
    sellers = np.unique(records.owners) if several else records.owners
    promised = people.promised[sellers]
    # At a live desk never all come who were planned for: for the penalty that is as if they had withdrawn.
    raised = raised_penalty(market, promised) if people.withdrawn or live else None
    estimator = PrivateLogisticRegression(
        l2=market.training.l2 if raised is None else raised,
        classes=tuple(range(len(label_of(market).values))),
        noise_norm=None if plain else encoder_of(market).noise_norm(),
        numerical_epsilon=market.training.numerical_epsilon,
        rows_per_person=market.sellers.rows_per_person,
        noise_source=noise,
        delta=market.objective.delta,
    )
    rows, labels = records.features, records.labels
    if plain:
        _, low, high = zip(*plain_bounds(market), strict=True)
        rows = PublicScaler(low, high, market.training.radius).fit_transform(rows)
    if several:
        budgets = dict(zip(sellers.tolist(), promised.tolist(), strict=True))
        estimator.fit(rows, labels, epsilons=budgets, people=records.owners)
    else:
        estimator.fit(rows, labels, epsilons=promised)
    # People, not rows: how many rows somebody has is private, and no noise covers it.
    model = model_file(
        estimator,
        records=sellers.size,
        id_column=market.sellers.id_column,
        label_column=label_of(market).column,
        labels=label_of(market).values,
        features=_model_features(market),
        radius=market.training.radius,
        outside_bounds=market.training.outside_bounds,
        encoder=None if plain else encoder_of(market).to_dict(),
    )
    spent, weights = np.zeros(people.table.height), np.zeros(people.table.height)
    spent[sellers], weights[sellers] = estimator.epsilons_, estimator.loss_weights_
    return model, spent, weights, raised


def _model_features(market: Market) -> list[FeatureBounds]:
    if is_plain(market):
        return [FeatureBounds(name=name, low=low, high=high) for name, low, high in plain_bounds(market)]
    columns = encoder_of(market).get_feature_names_out()
    return [FeatureBounds(name=str(name), low=-1.0, high=1.0) for name in columns]


def raised_penalty(market: Market, promised: FloatArray) -> float | None:
    """Return the least penalty that keeps promises without slack, where the market file's cannot keep them.

    None if it can, if the market file leaves the penalty to be suggested, and with a delta. A function of
    promises and public constants: it costs no privacy.
    """
    from dpmarket.privacy import Release

    l2, reserve = market.training.l2, market.training.numerical_epsilon
    if l2 is None or market.objective.delta is not None:
        return None
    release = Release(loss_of_market(market), norm_of_market(market), l2, market.sellers.rows_per_person)
    try:
        release.weights(promised, reserve)
    except Infeasible:
        return release.least_l2(exact_sum(np.maximum(promised - reserve, 0.0)))
    return None


def _by_round(
    people: People, spent: FloatArray, loss_weights: FloatArray
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """Return what was spent on every seller of every round, and with which weight."""
    if len(people.parts) == 1:
        return {people.parts[0][0]: (spent, loss_weights)}
    found = {}
    for number, own, _ in people.parts:
        part = people.split(spent, number)
        part = np.where(part > 0.0, np.nextafter(part, np.inf), 0.0)  # never less than was spent
        found[number] = (np.minimum(part, own), people.split(loss_weights, number))
    return found
