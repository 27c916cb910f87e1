"""The verifier's own command line: ``python -m verifier certificate.json``."""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Sequence

from .certificate import examined
from .payments import payment_checks
from .verdicts import Verification

_BLANK = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""Unicode's white space: what Python takes for it is more."""


def main(arguments: Sequence[str]) -> int:
    """Check the named files; print one line per check; return 0 if none failed."""
    parser = argparse.ArgumentParser(description="Check a dpmarket certificate.")
    parser.add_argument("certificate")
    parser.add_argument("--receipt", help="a seller's receipt")
    parser.add_argument("--cost", type=float, help="your own cost per unit of epsilon; it goes nowhere")
    parser.add_argument("--digest", help="the certificate's digest, known from elsewhere")
    parser.add_argument("--commitment", help="the rules as they were published before anybody reported")
    parser.add_argument("--openings", help="the buyer's openings, for an auditor")
    parser.add_argument("--reports", help="with the openings: a CSV file with the columns seller and cost")
    options = parser.parse_args(arguments)
    if options.reports is not None and options.openings is None:
        parser.error("--reports needs --openings")
    try:
        result, body, lines = examined(
            options.certificate,
            receipt=_content(options.receipt),
            cost=options.cost,
            digest=options.digest,
            openings=_content(options.openings),
            commitment=_content(options.commitment),
        )
        if options.reports is not None and result.passed and body is not None and lines is not None:
            more = payment_checks(body, lines, _reports(options.reports), None)
            result = Verification((*result.checks, *more))
    except OSError as problem:
        print(f"cannot read {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1
    except (KeyError, ValueError):
        print(f"cannot read {options.reports}: expected the columns seller and cost", file=sys.stderr)
        return 1
    for check in result.checks:
        print(f"{check.verdict:9} {check.name}: {check.detail}")
    return 0 if result.passed else 1


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def _reports(path: str) -> dict[str, float]:
    with open(path, "rb") as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        return {_as_meant(row["seller"]): float(row["cost"]) for row in csv.DictReader(text)}


def _as_meant(name: str) -> str:
    """Return an id without the apostrophe that keeps spreadsheets from running it as a formula."""
    return name[1:] if re.match(rf"'+(?:[\t\r\n]|{_BLANK}*[=+\-@\uff1d\uff0b\uff0d\uff20])", name) else name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
