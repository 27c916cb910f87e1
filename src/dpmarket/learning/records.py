"""Checked records of people who take part: what training asks of them, here or on many machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.learning.descent import People
from dpmarket.learning.people import Holding
from dpmarket.learning.rows import Rows, row_scales
from dpmarket.learning.sums import LocalSums, Sums
from dpmarket.privacy.release import Release


@dataclass(frozen=True, eq=False)
class Records:
    """Checked records of people who take part, their positions among all given, and the owners of these."""

    features: Any
    labels: FloatArray
    kept: IntArray
    holding: Holding

    def owners(self) -> IntArray:
        """Return the position of each record's owner among the people."""
        owners = self.holding.owners
        return self.kept if owners is None else np.asarray(owners[self.kept])

    @property
    def n_features(self) -> int:
        """Number of features, without the constant."""
        return int(self.features.shape[1])

    def sums(self, release: Release, person_weights: FloatArray, *, clip: bool) -> Sums:
        """Return the loss's sums over these records; rows longer than 1 are shortened with ``clip``."""
        norm = release.norm
        weights = np.asarray(self.holding.record_weights(person_weights)[self.kept])
        rows = Rows(self.features, self.labels, weights, constant=norm.constant)
        rows = replace(rows, scales=row_scales(rows, norm, clip=clip))
        return LocalSums(rows.active(), release.loss, norm.row_bound_2)

    def people(self, whole: IntArray, constant: float | None) -> People:
        """Return the records of people with a whole weight above 0, sorted by person."""
        owners = self.owners()
        order = np.argsort(owners, kind="stable")
        order = order[whole[owners[order]] > 0]
        present, starts = np.unique(owners[order], return_index=True)
        features, labels = self.features[order], self.labels[order]
        return People(features, labels, starts, whole[present], int(whole.sum()), constant)
