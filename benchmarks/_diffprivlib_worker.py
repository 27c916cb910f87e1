"""Train diffprivlib's logistic regression for benchmarks/accuracy.py: jobs in, scores out, one line each.

Runs in an environment of its own. A job names a file of records, a part to score on, and the settings:
``{"file", "part", "promises", "least", "C", "norm", "seed"}``. Records promised less than ``least`` are left
out, the others trained on at epsilon = ``least``, with rows of norm at most ``norm``.
"""

from __future__ import annotations

import json
import sys
import warnings
from functools import lru_cache

import numpy as np
from diffprivlib.models import LogisticRegression


@lru_cache(maxsize=2)
def records(file: str) -> dict[str, np.ndarray]:
    with np.load(file) as stored:
        return dict(stored)


def score(job: dict) -> dict[str, float]:
    data = records(job["file"])
    used = data[job["promises"]] >= job["least"]
    model = LogisticRegression(
        epsilon=job["least"], C=job["C"], data_norm=job["norm"], random_state=job["seed"]
    )
    model.fit(data["train_x"][used] * job["norm"], data["train_y"][used])
    x, y = data[f"{job['part']}_x"] * job["norm"], data[f"{job['part']}_y"]
    margins = y * (x @ model.coef_[0] + model.intercept_[0])
    return {
        "accuracy": float((margins > 0.0).mean()),
        "log_loss": float(np.logaddexp(0.0, -margins).mean()),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(score(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
