"""The verifier's own command line: ``python -m verifier certificate.json``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .certificate import verify

_FILES = {
    "receipt": "a seller's receipt",
    "commitment": "the rules as they were published before anybody reported",
    "openings": "the buyer's openings, for an auditor",
    "reports": "the frozen reports, a CSV file of id and cost, for an auditor",
}


def main(arguments: Sequence[str]) -> int:
    """Check the named files; print one line per check; return 0 if none failed."""
    parser = argparse.ArgumentParser(description="Check a dpmarket certificate.")
    parser.add_argument("certificate")
    parser.add_argument("--cost", type=float, help="the cost that you reported; it goes nowhere")
    parser.add_argument("--digest", help="the certificate's digest, known from elsewhere")
    for name, text in _FILES.items():
        parser.add_argument(f"--{name}", type=Path, help=text)
    given = vars(parser.parse_args(arguments))
    try:
        files = {name: given.pop(name).read_bytes() for name in _FILES if given[name] is not None}
        result = verify(given["certificate"], cost=given["cost"], digest=given["digest"], **files)
    except OSError as problem:
        print(f"cannot read {problem.filename}: {problem.strerror}", file=sys.stderr)
        return 1
    for check in result.checks:
        print(f"{check.verdict:9} {check.name}: {check.detail}")
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
