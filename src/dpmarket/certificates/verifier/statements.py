"""What a certificate does not guarantee, which it must state, so that nobody reads more into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .verdicts import Check, judged

LIMITS = (
    "Nobody's cost is secret: epsilons and payments follow from reported costs, and a cost that depends on "
    "a person's record tells about the record, beyond epsilon.",
    "An epsilon is not secret from a reader who knows all others: the noise tells their sum.",
    "Prices were fixed before the reports only if the rules were announced before them and are compared.",
    "The records may be wrong, or collected unlawfully.",
    "Time, memory, power and error messages of the computation may tell about records.",
    "Further releases from the same records add to the epsilon used.",
    "The computation itself is not proved, only its accounting.",
)


def statements_check(body: Mapping[str, Any]) -> Check:
    """Check that every limit that is known here is stated."""
    missing = sum(sentence not in body["limits"] for sentence in LIMITS)
    more = len(body["limits"]) - len(LIMITS)
    stated = "what is not guaranteed is stated"
    yes = stated + (f", and {more} sentences more: read them" if more > 0 else "")
    return judged("limits", missing == 0, yes, f"{missing} statements of them are missing")
