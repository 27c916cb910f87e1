"""How long certificates take: writing and verifying one for a million sellers against hashing its bytes once.

Aim: at most 60 times the hash, both together, and a receipt's check that does not grow with the market.
"""

from __future__ import annotations

import hashlib

import numpy as np

import dpmarket as dpm
from _timing import best_seconds, compare, print_table
from dpmarket.audit import certify, verify


def measured(sellers: int) -> list[str]:
    rng = np.random.default_rng(1)
    dist = dpm.Uniform(1.0, 5.0)
    outcome = dpm.OfflineMechanism(dist, dpm.BuyerObjective(1.0, 1.0, 1e-4)).run(dist.sample(sellers, rng))
    x = rng.uniform(-0.5, 0.5, size=(sellers, 3))
    y = (x[:, 0] > 0.0).astype(int)
    model = dpm.PrivateLogisticRegression(classes=(0, 1)).fit(x, y, epsilons=outcome.epsilons)
    certificate = certify(outcome, model)
    data = bytes(certificate)
    hashing, writing, verifying = compare(
        [
            lambda: hashlib.sha256(data).digest(),
            lambda: bytes(certify(outcome, model)),
            lambda: verify(data),
        ],
        repeat=5,
    )
    first = data[: data.index(b"\n") + 1]
    receipt = certificate.receipt(0)
    one = best_seconds(lambda: verify(first, receipt=receipt))
    assert verify(data, receipt=receipt).passed
    return [
        f"{sellers:,}",
        f"{len(data) / 1e6:.1f}",
        f"{writing / hashing:.1f}",
        f"{verifying / hashing:.1f}",
        f"{(writing + verifying) / hashing:.1f}",
        f"{1e3 * one:.2f}",
        f"{len(receipt):,}",
    ]


def main() -> None:
    measured(1_000)  # compile
    columns = [
        "sellers",
        "MB",
        "write / hash",
        "verify / hash",
        "both (aim 60)",
        "receipt, ms",
        "receipt, bytes",
    ]
    print_table("Certificates", columns, [measured(sellers) for sellers in (10_000, 100_000, 1_000_000)])


if __name__ == "__main__":
    main()
