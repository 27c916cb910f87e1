"""Private shares of public categories, or of public bins of a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.numerics import project_to_capped_simplex
from dpmarket.privacy.noise import Bits
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import WeightedSample
from dpmarket.statistics.statistic import Statistic, Values, increasing, noisy_shares


@dataclass(eq=False)
class PrivateHistogram(Statistic):
    r"""The share of people in each of K public categories, with an epsilon for each person.

    A person who moves from one category to another changes two weighted counts, so that each gets noise of
    scale :math:`2 / \eta`; of two categories only one is counted, with noise of scale :math:`1 / \eta`. The
    shares are the nearest ones that sum to 1.

    Parameters
    ----------
    categories
        At least two, all different: texts or whole numbers, from what was asked, never from these records.
    edges
        None, or increasing edges of bins for numbers, one more than categories: see :meth:`from_edges`.
    confidence, epsilon, rows_per_person, noise_source, outside
        As in :class:`Statistic`. A person's records share the person's weight.

    Examples
    --------
    >>> histogram = PrivateHistogram(("train", "car"), epsilon=1.0).fit(["train"] * 300 + ["car"] * 100)
    >>> bool(abs(histogram.value_ - [0.75, 0.25]).max() < 0.2), round(float(histogram.value_.sum()), 9)
    (True, 1.0)
    >>> PrivateHistogram.from_edges([0, 10, 20]).categories
    ('0 to 10', '10 to 20')
    """

    categories: Sequence[Any]
    edges: Sequence[float] | None = None
    kind: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.categories = tuple(self.categories)
        if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
            raise InvalidInput("expected categories to be at least two, all different.")
        if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in self.categories):
            raise InvalidInput("expected categories to be texts or whole numbers; PrivateShare counts yes.")
        if self.edges is not None:
            self.edges = increasing("edges", self.edges)
            if len(self.edges) != len(self.categories) + 1:
                raise InvalidInput("expected one more edge than categories.")

    @classmethod
    def from_edges(cls, edges: Sequence[float], **settings: Any) -> PrivateHistogram:
        """Return the histogram of a number in bins ``[edge, next edge)``; values outside count at an end."""
        checked = increasing("edges", edges)
        return cls(tuple(f"{low:g} to {high:g}" for low, high in pairwise(checked)), checked, **settings)

    @property
    def error(self) -> StatisticError:
        """``1 - 1/K`` and ``8 K`` (4 for two categories): what spread and noise cost."""
        k = len(self.categories)
        spread, noise = 1.0 - 1.0 / k, 8.0 * k if k > 2 else 4.0
        return StatisticError(spread, noise, (k - 1.0) / (k * (k + 1.0)))

    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        if self.edges is not None:
            values = checks.finite_vector("records", records)
            bins = np.searchsorted(np.array(self.edges[1:-1]), values, side="right")
            return bins.astype(np.int64), (values < self.edges[0]) | (values > self.edges[-1])
        place = {category: k for k, category in enumerate(self.categories)}
        given = records.tolist() if hasattr(records, "tolist") else list(records)
        try:
            positions = np.array([place[record] for record in given], dtype=np.int64)
        except (KeyError, TypeError):
            raise InvalidInput("expected every record to be one of the categories; some are not.") from None
        return positions, np.zeros(positions.size, dtype=bool)

    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        counts = sample.sums_at(numbers, len(self.categories))
        # Two counts have a known sum, so that the second alone says all; else a person changes two of them.
        told, changed = (counts[1:], 1) if len(counts) == 2 else (counts, 2)
        labels = tuple(str(category) for category in self.categories)
        found = noisy_shares(labels, sample, told, changed, self.confidence, stream)
        shares, ends = found.values, found.intervals
        if len(counts) == 2:
            shares = np.array([1.0 - shares[0], shares[0]])
            ends = np.array([1.0 - ends[0, ::-1], ends[0]])
        return found._replace(values=project_to_capped_simplex(shares), intervals=ends)
