"""Write ``golden_releases.json``: charges, weights and grids of version 0.2.0, for tests of what replaced it.

Kept for its cases; it needs the modules of version 0.2.0 (``privacy_loss``, ``weights_for`` and their softmax
siblings, ``plan_release``, the estimator of two classes and of more).
"""

import json
from pathlib import Path

import numpy as np

from dpmarket import privacy
from dpmarket.errors import Infeasible
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import NoiseShape, SeededNoise
from dpmarket.privacy.noise_norm import NoiseNorm

HERE = Path(__file__).parent


def norm_of(rng, kind):
    n = int(rng.integers(1, 8))
    constant = rng.choice([None, 0.5, 0.25])
    if kind != "mixed":
        return NoiseNorm.euclidean(n, constant)
    separate = np.ones(n, dtype=bool)
    separate[: rng.integers(0, n)] = False
    return NoiseNorm(separate, float(rng.uniform(0.3, 1.0)), constant)


def case(rng, kind):
    norm, rows = norm_of(rng, kind), int(rng.choice([1, 1, 2, 5, 50]))
    l2, classes = float(np.exp(rng.uniform(-5, 2))), int(rng.integers(3, 10)) if kind == "softmax" else 2
    epsilons = np.round(np.exp(rng.uniform(-4, 2, 6)), 6)
    n, euclidean = norm.n_coefficients, None if kind == "binary" else norm.row_bound_2
    found = {"kind": kind, "norm": norm.to_dict(), "rows": rows, "l2": l2, "classes": classes}
    found["epsilons"] = epsilons.tolist()
    try:
        if kind == "softmax":
            weights = privacy.softmax_weights_for(epsilons, l2, classes, n, norm.row_bound, rows)
            sizes = (classes, n, weights.noise_rate, l2, norm.row_bound)
            plan = privacy.softmax_plan_release(1e-6, *sizes)
        else:
            weights = privacy.weights_for(epsilons, l2, norm.row_bound, min(rows, n), 0.0, euclidean)
            bounds = {"euclidean_bound": euclidean, "joint_columns": norm.joint}
            plan = privacy.plan_release(1e-6, n, weights.noise_rate, l2, norm.row_bound, **bounds)
    except Infeasible:
        return found | {"weights": None}
    return found | {
        "weights": weights.loss_weights.tolist(),
        "noise_rate": weights.noise_rate,
        "charges": weights.privacy_losses().tolist(),
        "grid": plan.grid,
        "gradient_bound": plan.gradient_bound,
    }


def records(seed=5, count=300, n=4):
    rng = np.random.default_rng(seed)
    x = np.round(rng.uniform(-0.25, 0.25, (count, n)), 6)
    score = 4.0 * x[:, 0] + rng.normal(size=count) * 0.5
    epsilons = np.round(np.exp(rng.uniform(-3.0, 1.0, count)), 6)
    return x, (score > 0.0).astype(int), np.digitize(score, [-0.4, 0.4]), epsilons


def fits():
    x, two, three, epsilons = records()
    found = []
    for l2 in (0.02, 0.3):
        settings = {"l2": l2, "noise_source": SeededNoise(11)}
        shape = NoiseShape([False, True, True, True], 0.8)
        people = np.arange(len(x)) // 3
        model = PrivateLogisticRegression(**settings).fit(x, two, epsilons=epsilons)
        found.append({"kind": "binary", "l2": l2, "cells": [model.coef_grid_.tolist()]})
        model = PrivateLogisticRegression(**settings, noise_shape=shape).fit(x, two, epsilons=epsilons)
        found.append({"kind": "mixed", "l2": l2, "cells": [model.coef_grid_.tolist()]})
        model = PrivateLogisticRegression(**settings).fit(x, three, epsilons=epsilons)
        found.append({"kind": "softmax", "l2": l2, "cells": model.coef_grid_.tolist()})
        model = PrivateLogisticRegression(**settings, rows_per_person=3)
        model.fit(x, two, epsilons=epsilons[:100], people=people)
        found.append({"kind": "rows", "l2": l2, "cells": [model.coef_grid_.tolist()]})
    return found


if __name__ == "__main__":
    rng = np.random.default_rng(2026)
    cases = [case(rng, kind) for kind in ("binary", "mixed", "softmax") for _ in range(25)]
    text = json.dumps({"releases": cases, "fits": fits()}, separators=(",", ":"))
    (HERE / "golden_releases.json").write_text(text.replace('{"kind"', '\n{"kind"') + "\n")
