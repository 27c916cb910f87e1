"""Audit another library's claim: diffprivlib's logistic regression, with rows of norm 1 and above.

The library runs in an environment of its own (``out/diffprivlib-env``, made once) and is asked through a
pipe; the audit sees a learner like any other. The claim is epsilon = 1 for everybody. Its noise is scaled
for a change of curvature that grows with the row bound, whereas the change grows with its square, so that
from some bound on the claim does not hold. Measured here: a lower bound on epsilon for each row bound, at
a stated false-alarm rate. Usage: python audit_diffprivlib.py [models]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

import dpmarket as dpm
from _diffprivlib_environment import environment
from _results import Table, measure, tell

NORMS = (1.0, 100.0, 1000.0)
BATCH = 250


class Diffprivlib:
    """diffprivlib's logistic regression as a learner: rows of norm 1 become rows of norm ``norm``."""

    def __init__(self, worker: subprocess.Popen[str], norm: float) -> None:
        self.worker, self.norm = worker, norm
        self._asked, self._ready = "", []

    def fit(self, X, y, epsilons) -> Diffprivlib:
        """Train once; models for the same records are asked for in batches, each with its own noise."""
        job = {"X": (self.norm * X).tolist(), "y": y.tolist(), "epsilon": float(epsilons[0])}
        line = json.dumps(job | {"norm": self.norm, "count": BATCH})
        if line != self._asked or not self._ready:
            self.worker.stdin.write(line + "\n")
            self.worker.stdin.flush()
            answer = self.worker.stdout.readline()
            if not answer:
                raise SystemExit("diffprivlib's process ended; its message is above.")
            self._asked, self._ready = line, json.loads(answer)
        self.coef_ = np.array(self._ready.pop())
        return self


def audit(python: Path, norm: float, fits: int) -> dpm.audit.PrivacyFindings:
    """Audit the claim of epsilon = 1 for rows of norm at most ``norm``."""
    tell(f"rows of norm {norm:g}, {fits:,} models")
    command = [str(python), str(Path(__file__).with_name("_diffprivlib_fits.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        return dpm.audit_privacy(Diffprivlib(worker, norm), [1.0] * 3, people=[0], fits=fits).sampled


def claims() -> Iterator[Table]:
    fits = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    python = environment()
    rows = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # threads that wait for processes of diffprivlib
        audits = list(pool.map(partial(audit, python, fits=fits), NORMS))
    for norm, findings in zip(NORMS, audits, strict=True):
        guess = findings.details["guesses"][0]
        rows.append(
            [
                f"{norm:g}",
                "1",
                f"{findings.found[0]:.2f}",
                "not refuted" if findings.passed else "refuted",
                f"{guess['right']:,} of {guess['guesses']:,}",
                f"{guess['tested']:,}",
                guess["neighbours"],
            ]
        )
    yield Table(
        f"diffprivlib 0.6.6, claim of epsilon = 1 audited with {fits:,} models, false-alarm rate 0.001 each",
        ["row bound", "claimed", "at least", "claim", "guesses right", "models tested", "neighbours"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, claims)
