"""What can be said about a claim: that it holds, holds under a condition, or does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dpmarket.paper.experiments.table import ResultTable

Verdict = Literal["holds", "holds under a condition", "does not hold"]
Tables = Mapping[str, ResultTable]


@dataclass(frozen=True)
class Judgement:
    """A verdict with what was measured, in one or two sentences.

    Attributes
    ----------
    verdict
        "holds", "holds under a condition" or "does not hold".
    measured
        The numbers behind it.
    """

    verdict: Verdict
    measured: str


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and how a table decides about it.

    Attributes
    ----------
    key
        Short name.
    where
        Section or label in the paper.
    statement
        What the paper says, in our words.
    experiments
        The tables that decide.
    judge
        Tables in, judgement out.
    """

    key: str
    where: str
    statement: str
    experiments: tuple[str, ...]
    judge: Callable[[Tables], Judgement]


def verdict(always: bool, sometimes: bool) -> Verdict:
    """Return the verdict for a claim that was seen to hold everywhere, somewhere, or nowhere."""
    if always:
        return "holds"
    return "holds under a condition" if sometimes else "does not hold"
