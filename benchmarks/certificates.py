"""Writing and verifying a certificate against hashing its bytes once.

A receipt is checked without reading the other lines, so that its time should not grow with the market.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import numpy as np

import dpmarket as dpm
from _results import Aimed, Table, at_most, measure, tell
from _timing import best_seconds, compare
from dpmarket.certificates import certify, verify

LARGEST = 1_000_000


def row(sellers: int) -> list[str | Aimed]:
    tell(f"{sellers:,} sellers")
    rng = np.random.default_rng(1)
    dist = dpm.Uniform(1.0, 5.0)
    mechanism = dpm.OfflineMechanism(dist, dpm.Objective.for_model(10, 1e-4))
    outcome = mechanism.run(dist.sample(sellers, rng))
    x = rng.uniform(-0.5, 0.5, size=(sellers, 3))
    y = (x[:, 0] > 0.0).astype(int)
    model = dpm.PrivateLogisticRegression(classes=(0, 1)).fit(x, y, epsilons=outcome.epsilons)
    rules = mechanism.rules()
    certificate = certify(outcome, model, rules)
    data = bytes(certificate)
    hashing, writing, verifying = compare(
        [
            lambda: hashlib.sha256(data).digest(),
            lambda: bytes(certify(outcome, model, rules)),
            lambda: verify(data),
        ],
        repeat=5,
        clock=time.process_time,
    )
    first = data[: data.index(b"\n") + 1]
    both = (writing + verifying) / hashing
    receipt = certificate.receipt("0")
    one = best_seconds(lambda: verify(first, receipt=receipt))
    assert verify(data, receipt=receipt).passed
    return [
        f"{sellers:,}",
        f"{len(data) / 1e6:.1f}",
        f"{writing / hashing:.1f}",
        f"{verifying / hashing:.1f}",
        at_most(60, both, ".1f") if sellers == LARGEST else f"{both:.1f}",
        f"{1e3 * one:.2f}",
        f"{len(receipt):,}",
    ]


def writing_and_verifying() -> Iterator[Table]:
    row(1_000)  # compiles
    yield Table(
        "Certificates, processor time in times of hashing the same bytes, and one receipt's check",
        ["sellers", "MB", "write", "verify", "both", "receipt, ms", "receipt, bytes"],
        [row(sellers) for sellers in (10_000, 100_000, LARGEST)],
    )


if __name__ == "__main__":
    measure(__file__, writing_and_verifying)
