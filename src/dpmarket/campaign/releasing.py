"""Turn records and promises into released statistics, with what each of the people spent."""

from __future__ import annotations

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.campaign.market_file import Market, questions_of
from dpmarket.campaign.statistic_file import StatisticFile, statistic_file
from dpmarket.campaign.statistic_records import StatisticRecords
from dpmarket.privacy.noise import SecureNoise
from dpmarket.statistics import SeveralStatistics


def shares_of(market: Market) -> dict[str, float]:
    """Return each statistic's part of every epsilon: rounded down, so that they add up to at most 1."""
    several = _several(market, None)
    return {name: several.share(name) for name in several.statistics}


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
    arithmetic (:class:`~dpmarket.statistics.SeveralStatistics`).
    """
    asked, several = questions_of(market), _several(market, noise)
    rows, owners = market.sellers.rows_per_person, records.owners
    sellers = np.unique(owners) if rows > 1 else owners
    if rows > 1:
        budgets = dict(zip(sellers.tolist(), promised[sellers].tolist(), strict=True))
        several.fit(records.columns, epsilons=budgets, people=owners)
    else:
        several.fit(records.columns, epsilons=promised[sellers])
    spent = np.zeros(promised.size)
    for own in several.spent_by_.values():
        spent[sellers] += own  # exact: shares differ by less than the bits that are left
    file = statistic_file(
        several.releases_,
        columns={name: question.names for name, question in asked.items()},
        shares={name: several.share(name) for name in asked},
        records=sellers.size,  # people, not rows: how many somebody has is private
        rows_per_person=rows,
        outside_bounds=market.training.outside_bounds,
    )
    return file, spent


def _several(market: Market, noise: SecureNoise | None) -> SeveralStatistics:
    asked = questions_of(market)
    statistics = {
        name: question.statistic(market.sellers.rows_per_person) for name, question in asked.items()
    }
    for statistic in statistics.values():
        statistic.noise_source = noise
    return SeveralStatistics(statistics, {name: question.share or 1.0 for name, question in asked.items()})
