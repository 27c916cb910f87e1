"""Fig. 4a: error against the mean epsilon, with equal weights, on the appendix's synthetic records."""

import numpy as np

from common import figure, in_parallel, label, lines, main, mean_and_error
from printed import draw_noise, error, train
from records import synthetic

SETTINGS = {
    "records": 500,
    "test_records": 2_000,
    "features_and_l2": [[10, 0.01], [5, 0.01], [30, 0.01], [10, 0.1], [10, 0.001]],
    "mean_epsilons": np.geomspace(1e-3, 10.0, 13).round(10).tolist(),
    "noise_draws": 15,
    "data_sets": 10,
    "seed": 0,
}
QUICK = {"features_and_l2": [[10, 0.01]], "mean_epsilons": [1e-3, 0.1, 1.0, 10.0], "data_sets": 2}


def compute(s):
    yield from in_parallel(
        setting, [(s, n, l2, mean) for n, l2 in s.features_and_l2 for mean in s.mean_epsilons]
    )


def setting(s, n, l2, mean):
    """Return train and test error, and the loss, at one mean epsilon: eta is m times as much."""
    weights, found = np.full(s.records, 1.0 / s.records), []
    for k in range(s.data_sets):
        (rows, signs), test = synthetic(s.records, s.test_records, n, s.seed + k)
        rng = np.random.default_rng([s.seed, k, 4])
        pulls = np.array([2.0 * draw_noise(n, rng) for _ in range(s.noise_draws)]) / (s.records * mean)
        w = train(rows, signs, weights, pulls, l2)
        losses = np.logaddexp(0.0, -signs * (w @ rows.T)).mean(axis=1)
        found.append((error(w, rows, signs).mean(), error(w, *test).mean(), losses.mean()))
    row = {"features": n, "l2": l2, "mean_epsilon": mean}
    for name, values in zip(("train_error", "test_error", "loss"), np.transpose(found), strict=True):
        row[name], row[f"{name}_se"] = mean_and_error(values)
    return [row]


def draw(table):
    drawn, (left, right) = figure(columns=2)
    part = table.filter(features=10, l2=0.01)
    lines(
        left, part.with_columns(on=np.repeat("training records", part.height)), "mean_epsilon", "train_error"
    )
    left.lines[-1].set_label("training records")
    left.plot(part["mean_epsilon"], part["test_error"], "s--", color="#c8553d", label="test records")
    label(left, "n = 10, Λ = 0.01, equal weights", "mean ε", "error", log="x")
    for (n, l2), group in table.group_by("features", "l2", maintain_order=True):
        right.plot(group["mean_epsilon"], group["test_error"], marker="o", label=f"n = {n}, Λ = {l2:g}")
    label(right, "Other settings, test records", "mean ε", "error", log="x")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
