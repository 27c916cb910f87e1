"""What can be said about a claim, and what must be said with it.

A claim of the paper comes with the paper's own sentence, with our setting, with what was measured, and with
the same question asked at other settings: a verdict that hangs on one choice of numbers shows itself there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dpmarket.paper.experiments.table import ResultTable

Verdict = Literal["holds", "consistent with", "holds under a condition", "does not hold"]
Tables = Mapping[str, ResultTable]

REPRODUCED: tuple[Verdict, ...] = ("holds", "consistent with")


@dataclass(frozen=True)
class Judgement:
    """A verdict with what was measured, in one or two sentences.

    Attributes
    ----------
    verdict
        "holds"; "consistent with", where the statement says nothing yet at sizes that can be computed; "holds
        under a condition"; "does not hold".
    measured
        The numbers behind it, and the condition if there is one.
    """

    verdict: Verdict
    measured: str


@dataclass(frozen=True)
class Sheet:
    """A small table for a page: what was varied, and what came of it.

    Attributes
    ----------
    caption
        What the rows are, in one sentence.
    columns
        Headings.
    rows
        Cells, as many in each row as there are headings.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and how tables decide about it.

    Attributes
    ----------
    key
        Short name.
    where
        Section or label in the paper.
    sentence
        The paper's words, or "implied" and why, where it does not say so itself.
    statement
        What is checked, in our words.
    experiments
        The tables that decide; the first is the one whose section tells of it.
    setting
        Tables in, the settings of the evidence out, in one line.
    judge
        Tables in, judgement out.
    robustness
        Tables in, the same question at other settings out.
    repair
        What to change in the paper for the statement to hold, where a few words suffice; else "".
    """

    key: str
    where: str
    sentence: str
    statement: str
    experiments: tuple[str, ...]
    setting: Callable[[Tables], str]
    judge: Callable[[Tables], Judgement]
    robustness: Callable[[Tables], Sheet]
    repair: str = ""


def verdict(*, always: bool, sometimes: bool) -> Verdict:
    """Return the verdict for a claim that was seen to hold everywhere, somewhere, or nowhere."""
    if always:
        return "holds"
    return "holds under a condition" if sometimes else "does not hold"


def counted(judgements: Sequence[Judgement]) -> dict[Verdict, int]:
    """Return how many judgements have each verdict, all four in order."""
    kinds: tuple[Verdict, ...] = (*REPRODUCED, "holds under a condition", "does not hold")
    return {kind: sum(judgement.verdict == kind for judgement in judgements) for kind in kinds}


def sheet(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Sheet:
    """Return a sheet of these cells."""
    return Sheet(caption, tuple(columns), tuple(tuple(row) for row in rows))


def yes(value: object) -> str:
    """Return "yes" or "no"."""
    return "yes" if value else "no"


def tiny(value: float) -> str:
    """Return a number that is meant to be 0 but for rounding: "0" if it is not above 0.

    Examples
    --------
    >>> tiny(-1e-17), tiny(3.2e-12)
    ('0', '3e-12')
    """
    return f"{value:.0e}" if value > 0.0 else "0"
