"""Check that a certificate says what it does not promise, so that nobody reads more into it."""

from __future__ import annotations

from .layout import Body
from .verdicts import Check, judged

NOT_PROMISED = (
    "That anybody's cost is secret: promises and payments follow from reported costs, and a cost that goes "
    "with somebody's record tells about the record, beyond epsilon.",
    "That a promise is secret from who knows all others: totals and the noise rate are public, and what is "
    "missing from them is the last one's.",
    "That prices were fixed before the reports, unless the rules were published before them and are "
    "compared.",
    "That the records were true, or collected lawfully.",
    "Anything about what can be learnt by watching the computation: time, memory, power, error messages.",
    "Anything beyond this one release: further ones from the same records add to what was spent.",
    "That the stated program ran: the computation itself is not proved, only its accounting.",
)


def statements_check(body: Body) -> list[Check]:
    """Check that every limit that is known here is stated."""
    missing = sum(sentence not in body.not_promised for sentence in NOT_PROMISED)
    more = len(body.not_promised) - len(NOT_PROMISED)
    texts = all(type(sentence) is str for sentence in body.not_promised)
    return [
        judged(
            "limits",
            missing == 0 and texts,
            "what is not promised is stated"
            + (f", and {more} sentences more: read them" if more > 0 else ""),
            f"{missing} statements of them are missing" if texts else "some are no sentences",
        )
    ]
