"""Turn looks at all pairs of neighbours into those that are worth a second one.

What a pair promises is in part believed: the likelihood ratio of the mechanism as it should be says how often
its guesses are right, and a few models do not contradict it. Of a learner that is something else it knows
nothing. Where such a learner scales its noise or its penalty wrongly for the curvature, it gives a record
away against an empty one, often in a few of a hundred models only: no first look would find that, so that
these pairs always get a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.audit.books import Books
from dpmarket.audit.distinguishing import Guess, choose_guess, expected_epsilon, seldom_guess
from dpmarket.audit.neighbours import Neighbours
from dpmarket.audit.scores import fitted_scores, likelihood_ratio


@dataclass(frozen=True, eq=False)
class Look:
    """A pair of neighbours and what models of both sides released, for choosing only.

    Attributes
    ----------
    pair
        The two data sets.
    first, second
        Outputs under them, shapes (samples, coefficients).
    """

    pair: Neighbours
    first: FloatArray
    second: FloatArray

    def longer(self, first: FloatArray, second: FloatArray) -> Look:
        """Return a look at these outputs, too."""
        return Look(self.pair, np.concatenate([self.first, first]), np.concatenate([self.second, second]))

    def guess(self, books: Books, tests: int, alpha: float) -> tuple[Guess, float]:
        """Return the rule that promises most in ``tests`` further models, and the epsilon it promises."""
        scores = fitted_scores(self.pair, self.first, self.second)
        ratio = likelihood_ratio(self.pair, self.first, books)
        return choose_guess(self.first, self.second, scores, ratio, tests, alpha)

    def promised(self, books: Books, tests: int, alpha: float) -> float:
        """Return the epsilon that the better of both rules promises."""
        _, value = self.guess(books, tests, alpha)
        seldom = self.seldom()
        if seldom is None:
            return value
        samples = len(self.first) + len(self.second)
        return max(value, expected_epsilon(*seldom.count(self.first, self.second), tests / samples, alpha))

    def seldom(self) -> Guess | None:
        """Return a rule for outputs far out, if there is one."""
        return seldom_guess(self.first, self.second, fitted_scores(self.pair, self.first, self.second))


def best_look(looks: Sequence[Look], books: Books, tests: int, alpha: float) -> Look:
    """Return the look that promises the largest epsilon."""
    return max(looks, key=lambda look: look.promised(books, tests, alpha))


def finalists(looks: Sequence[Look], books: Books, tests: int, alpha: float) -> list[Look]:
    """Return the best look at a pair of two records, and all at a record against an empty one."""
    against_nothing = [look for look in looks if look.pair.against_nothing]
    others = [look for look in looks if not look.pair.against_nothing]
    return [best_look(others, books, tests, alpha), *against_nothing]
