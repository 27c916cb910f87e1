"""Turn records and promises into released statistics, with what each of the people spent."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.campaign.market_file import Market, questions_of
from dpmarket.campaign.statistic_file import StatisticFile, statistic_file
from dpmarket.campaign.statistic_records import StatisticRecords
from dpmarket.privacy.noise import SecureNoise
from dpmarket.statistics.weights import integer_weights


def shares_of(market: Market) -> dict[str, float]:
    """Return each statistic's part of every promise: rounded down, so that they add up to at most 1."""
    asked = questions_of(market)
    given = {name: Fraction(question.share or 1.0) for name, question in asked.items()}
    return {name: _down(share / sum(given.values())) for name, share in given.items()}


def release_statistics(
    market: Market, promised: FloatArray, records: StatisticRecords, noise: SecureNoise
) -> tuple[StatisticFile, FloatArray]:
    """Release all that a market asks for; return it, and what it spent on each of the people, exactly.

    Parameters
    ----------
    market
        A market that asks for statistics.
    promised
        Everybody's promise, shape (people,), 0 for who has no record.
    records
        Of everybody with a promise.
    noise
        Where the noise comes from. What could be refused was refused before any of it is drawn.

    Notes
    -----
    Guaranteed: what all statistics spend on a person together is never above the promise, in exact
    arithmetic. A share is rounded down, its product with a promise again, and whole weights once more.
    """
    rows = market.sellers.rows_per_person
    asked, shares = questions_of(market), shares_of(market)
    several = rows > 1
    sellers = np.unique(records.owners) if several else records.owners
    prepared = []
    for name, question in asked.items():
        statistic: Any = question.statistic(rows)
        statistic.noise_source = noise
        part = promised if len(asked) == 1 else np.nextafter(promised * shares[name], 0.0)
        part = np.maximum(part, 0.0)
        integer_weights(part[sellers])  # refuses now what it would refuse after others drew noise
        prepared.append((name, statistic, part))
    spent = np.zeros(promised.size)
    releases = {}
    for name, statistic, part in prepared:
        if several:
            budgets = dict(zip(sellers.tolist(), part[sellers].tolist(), strict=True))
            statistic.fit(records.columns[name], epsilons=budgets, people=records.owners)
        else:
            statistic.fit(records.columns[name], epsilons=part[sellers])
        releases[name] = statistic.release_
        spent[sellers] += statistic.epsilons_  # exact: shares differ by less than the bits that are left
    file = statistic_file(
        releases,
        columns={name: question.names for name, question in asked.items()},
        shares=shares,
        records=sellers.size,  # people, not rows: how many somebody has is private
        rows_per_person=rows,
        outside_bounds=market.training.outside_bounds,
    )
    return file, spent


def _down(exact: Fraction) -> float:
    share = float(exact)
    return share if Fraction(share) <= exact else math.nextafter(share, 0.0)
