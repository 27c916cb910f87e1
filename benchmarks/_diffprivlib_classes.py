"""Train diffprivlib's logistic regression for benchmarks/softmax.py: jobs in, probabilities out.

Runs in an environment of its own. A job is one line, ``{"file", "epsilon", "C", "seed"}``; the answer is one
line with the classes found and their probabilities at the rows to test on. Rows have norm at most 1.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression


def probabilities(job: dict) -> dict[str, list]:
    with np.load(job["file"]) as stored:
        data = dict(stored)
    model = LogisticRegression(epsilon=job["epsilon"], C=job["C"], data_norm=1.0, random_state=job["seed"])
    model.fit(data["train"], data["labels"])
    shown = model.predict_proba(data["test"])
    # Where every class has the probability 0 quotients are 0 / 0: the scores still say which is likeliest.
    unknown = ~np.isfinite(shown).all(axis=1)
    shown[unknown] = np.eye(shown.shape[1])[model.decision_function(data["test"])[unknown].argmax(axis=1)]
    return {"classes": model.classes_.tolist(), "probabilities": shown.tolist()}


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(probabilities(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
