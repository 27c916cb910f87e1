"""Train diffprivlib's logistic regression for benchmarks/audit_diffprivlib.py: jobs in, coefficients out.

Runs in an environment of its own. A job is one line, ``{"X", "y", "epsilon", "norm", "count"}``; the
answer is one line with the coefficients of as many models, each with fresh noise.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression


def coefficients(job: dict) -> list[list[float]]:
    model = LogisticRegression(epsilon=job["epsilon"], data_norm=job["norm"], fit_intercept=False)
    x, y = np.array(job["X"]), np.array(job["y"])
    return [model.fit(x, y).coef_[0].tolist() for _ in range(job["count"])]


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(coefficients(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
