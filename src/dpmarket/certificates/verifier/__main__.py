"""The verifier's own command line: ``python -m verifier certificate.json``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .certificate import verify


def main(arguments: Sequence[str]) -> int:
    """Check the named files; print one line per check; return 0 if none failed."""
    parser = argparse.ArgumentParser(description="Check a dpmarket certificate.")
    parser.add_argument("certificate")
    parser.add_argument("--receipt", help="a seller's receipt")
    parser.add_argument("--cost", type=float, help="the cost that you reported; it goes nowhere")
    parser.add_argument("--digest", help="the certificate's digest, known from elsewhere")
    parser.add_argument("--commitment", help="the rules as they were published before anybody reported")
    parser.add_argument("--openings", help="the buyer's openings, for an auditor")
    parser.add_argument("--reports", help="the frozen reports, a CSV file of id and cost, for an auditor")
    options = parser.parse_args(arguments)
    try:
        result = verify(
            options.certificate,
            receipt=_content(options.receipt),
            cost=options.cost,
            digest=options.digest,
            openings=_content(options.openings),
            reports=_content(options.reports),
            commitment=_content(options.commitment),
        )
    except OSError as problem:
        print(f"cannot read {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1
    for check in result.checks:
        print(f"{check.verdict:9} {check.name}: {check.detail}")
    return 0 if result.passed else 1


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
