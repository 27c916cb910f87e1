"""Let a ledger's odometer be the account of models that are fitted outside of a campaign.

What such a model spends is a round without payments, entered, debited and marked before any noise is drawn:
it counts for a person's lifetime limit like any other, and it is in the log outside, so that a restored
backup cannot spend it twice. The model itself is not kept in the ledger, which therefore calls the round
lost.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import FileProblem, Infeasible, InvalidInput
from dpmarket.files import table_to_bytes
from dpmarket.ledger import odometer, outside, releases, rounds
from dpmarket.ledger.attempts import end_attempt, log_debit, mark_attempt
from dpmarket.ledger.engine import Connection, Ledger, new_id, reading, writing
from dpmarket.ledger.restoring import settle
from dpmarket.ledger.rounds import EPSILON, MODEL, PAYMENT, SELLER, NewRound
from dpmarket.privacy.gaussian import gaussian_epsilons

_MINOR_UNITS = 100


class LedgerAccount:
    """What people have left of a limit over everything that a ledger knows about them.

    Obeys :class:`~dpmarket.privacy.PrivacyAccount`: pass it as ``account`` to a fit.

    Parameters
    ----------
    ledger
        An open ledger.
    limit
        The most that may be spent on a person (epsilon) over all campaigns and models, > 0.
    campaign
        Under which name such models are entered.
    delta_limit
        The most that the deltas of a person's promises may add up to, at least 0 and below 1. Without it no
        promise with a delta is charged.

    Notes
    -----
    Guaranteed: as :class:`~dpmarket.privacy.Account`, and on the disk before it returns. A campaign that is
    open counts with the most that it can ask of anybody.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from dpmarket.ledger import open_ledger
    >>> with TemporaryDirectory() as folder, open_ledger(f"{folder}/market.ledger") as ledger:
    ...     LedgerAccount(ledger, limit=2.0).left(["ann"]).tolist()
    [2.0]
    """

    def __init__(
        self, ledger: Ledger, limit: float, campaign: str = "models", *, delta_limit: float = 0.0
    ) -> None:
        if not checks.non_negative("delta_limit", delta_limit) < 1.0:
            raise InvalidInput(f"expected delta_limit below 1, got {delta_limit!r}.")
        self._delta_limit = float(delta_limit)
        self._ledger = ledger
        self._limit = checks.positive("limit", limit)
        self._campaign = campaign

    def charge(
        self,
        people: Sequence[Any],
        epsilons: ArrayLike | None = None,
        *,
        mus: ArrayLike | None = None,
        delta: float = 0.0,
    ) -> None:
        """Charge everybody, or nobody.

        Parameters
        ----------
        people
            Who, each once: ids, texts, without blanks around them. As everywhere in a ledger, all spellings
            of the same letters (Unicode's form NFC) are one person.
        epsilons
            What each is charged, shape (people,), at least 0.
        mus
            Distances of Gaussian differential privacy in place of epsilons. A ledger counts epsilons and
            deltas only: charged are ``delta`` and the epsilons at it.
        delta
            Charged to everybody who is charged an epsilon above 0; at least 0 and below 1.

        Raises
        ------
        InvalidInput
            If a person is named twice or not by such a text, or for amounts that are no amounts.
        Infeasible
            If anybody would exceed the limit, of epsilon or of delta. The message says how many, not who.
        LedgerRefusal
            An older copy of the ledger was put back, or another copy spent something meanwhile. Nobody was
            charged.
        """
        if (epsilons is None) == (mus is None):
            raise InvalidInput("expected epsilons or mus: a ledger charges one of them at a time.")
        sellers = _sellers(people)
        if mus is not None:
            checks.strictly_between("delta", delta, 0.0, 1.0)
            epsilons = gaussian_epsilons(checks.non_negative_vector("mus", mus), delta)
        amounts = checks.non_negative_vector("epsilons", epsilons)
        checks.same_length("epsilons", amounts, "people", people)
        if not checks.non_negative("delta", delta) < 1.0:
            raise InvalidInput(f"expected delta below 1, got {delta!r}.")
        settle(self._ledger)
        attempt = new_id()
        with outside.running(attempt):
            with writing(self._ledger) as connection:
                self._refuse_beyond(odometer.charges(connection, sellers), amounts)
                if delta > 0.0:
                    self._refuse_beyond_delta(odometer.delta_charges(connection, sellers), amounts, delta)
                new = _round(sellers, amounts, delta)
                entered = rounds.enter_round(connection, self._entry(connection), new)
                releases.debit(connection, attempt, [entered.number])
            try:
                mark_attempt(self._ledger, attempt, *log_debit(self._ledger, attempt, [entered]))
            except BaseException:
                with contextlib.suppress(FileProblem):  # what cannot be done now is done when it is used next
                    end_attempt(self._ledger, attempt)
                raise
            end_attempt(self._ledger, attempt)

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return what each of these people has left (epsilon), at least 0.

        Parameters
        ----------
        people
            Ids, texts.

        Returns
        -------
        FloatArray
            Shape (people,), read-only.
        """
        with reading(self._ledger) as connection:
            spent = odometer.charges(connection, _sellers(people))
        return read_only(np.maximum(self._limit - spent, 0.0))

    def left_of_delta(self, people: Sequence[Any]) -> FloatArray:
        """Return what of delta each of these people has left, at least 0, rounded down.

        Parameters
        ----------
        people
            Ids, texts.

        Returns
        -------
        FloatArray
            Shape (people,), read-only.
        """
        with reading(self._ledger) as connection:
            spent = odometer.delta_charges(connection, _sellers(people))
        return read_only(np.maximum(np.nextafter(self._delta_limit - spent, -np.inf), 0.0))

    def _refuse_beyond_delta(self, spent: FloatArray, amounts: FloatArray, delta: float) -> None:
        beyond = int(((spent + delta > self._delta_limit) & (amounts > 0.0)).sum())
        if beyond:
            raise Infeasible(
                f"expected nobody to exceed their limit of delta, found {beyond} of {len(amounts)} people "
                "who would. Nobody was charged."
            )

    def _refuse_beyond(self, spent: FloatArray, amounts: FloatArray) -> None:
        total = spent + amounts
        # What rounding lost of the sum, exactly: a float at the limit may stand for more.
        lost = (spent - (total - (total - spent))) + (amounts - (total - spent))
        beyond = int((((total - self._limit) + lost > 0.0) & (amounts > 0.0)).sum())
        if beyond:
            raise Infeasible(
                f"expected nobody to exceed their cap, found {beyond} of {len(amounts)} people who would. "
                "Nobody was charged."
            )

    def _entry(self, connection: Connection) -> str:
        known = rounds.campaign_named(connection, self._campaign)
        return (known or rounds.make_campaign(connection, self._campaign, {}, _MINOR_UNITS, "EUR")).id


def _sellers(people: Sequence[Any]) -> pl.DataFrame:
    names = list(people)
    if not all(isinstance(name, str) and name and name == name.strip() for name in names):
        raise InvalidInput("expected ids that are texts, without blanks before and after them.")
    # As campaigns know people: another spelling of the same letters is no second limit.
    names = [unicodedata.normalize("NFC", name) for name in names]
    if len(set(names)) != len(names):
        raise InvalidInput("expected every person once.")
    return pl.DataFrame({SELLER: names}, schema={SELLER: pl.String})


def _round(sellers: pl.DataFrame, amounts: FloatArray, delta: float) -> NewRound:
    payments = np.zeros(len(amounts), dtype=np.int64)
    quotes = sellers.with_columns(pl.Series(EPSILON, amounts), pl.Series(PAYMENT, payments))
    return NewRound(
        quotes=quotes,
        content=table_to_bytes(quotes),
        identity=new_id(),
        digest=new_id(),
        repetition=0,
        mechanism=MODEL,
        minor_units=_MINOR_UNITS,
        ceiling=None,
        parameters={},
        delta=delta,
    )
