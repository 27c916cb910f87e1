"""Compare what two source trees compute: bit-equal, or the largest relative difference, case by case.

``python benchmarks/same_results.py OLD_SRC NEW_SRC [WORDS...]`` runs the same cases in two processes, one per
tree, and fails if anything differs by more than 1e-12; with words, only cases whose names contain one of
them. Only names that both trees must have are used.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from _two_trees import run_with, source_tree

ALLOWED = 1e-12
Arrays = Mapping[str, np.ndarray]
CASES: dict[str, Callable[[], Arrays]] = {}


def offline(name: str, dist: str, costs: Callable[..., np.ndarray], **bounds: float) -> None:
    """Add a market: ``costs`` makes reports from a distribution and a source of random numbers."""

    def case() -> Arrays:
        import dpmarket as dpm

        settings = {"concentration": 1.0, "noise": 1.0, "payment_weight": 1e-3} | bounds
        made = _distributions()[dist]
        reports = np.asarray(costs(made, np.random.default_rng(7)), dtype=np.float64)
        outcome = dpm.OfflineMechanism(made, dpm.BuyerObjective(**settings)).run(reports)
        return _of_outcome(outcome)

    CASES[f"offline: {name}"] = case


def _of_outcome(outcome: object) -> Arrays:
    weights = getattr(outcome, "planned_weights", None)  # called loss_weights in older trees, and so below
    decided = outcome if weights is None else outcome.optimality
    return {
        "epsilons": outcome.epsilons,
        "payments": outcome.payments,
        "loss_weights": outcome.loss_weights if weights is None else weights,
        "cutoff": decided.cutoff,
    }


def _distributions() -> dict[str, object]:
    import dpmarket as dpm

    samples = np.random.default_rng(1).lognormal(0.0, 1.0, 200)
    return {
        "uniform": dpm.Uniform(1, 5),
        "wide uniform": dpm.Uniform(0, 300),
        "log-normal": dpm.FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 20),
        "unbounded": dpm.FromScipy(stats.gamma(a=2.0)),
        "ironed mixture": dpm.Mixture([dpm.Uniform(0.5, 1), dpm.Uniform(2, 3)], [0.7, 0.3]),
        "empirical": dpm.Empirical(samples),
    }


def _drawn(sellers: int) -> Callable[..., np.ndarray]:
    return lambda dist, rng: dist.sample(sellers, rng)


def _rounded(sellers: int, step: float) -> Callable[..., np.ndarray]:
    return lambda dist, rng: np.round(dist.sample(sellers, rng) / step) * step


def _two_groups(cheap: int, dear: int) -> Callable[..., np.ndarray]:
    """Few cheap sellers and many dear ones: buying much from the few or less from all are both minima."""
    return lambda dist, rng: np.concatenate((rng.uniform(1.0, 1.1, cheap), rng.uniform(3.0, 3.2, dear)))


def _with_ties_above(sellers: int, ties: int) -> Callable[..., np.ndarray]:
    """Many equal costs a little above the cutoff of the others."""

    def costs(dist: Any, rng: np.random.Generator) -> np.ndarray:
        import dpmarket as dpm

        others = dist.sample(sellers, rng)
        objective = dpm.BuyerObjective(1.0, 1.0, 1e-3)
        cutoff = dpm.allocate(dpm.virtual_costs(others, dist), objective).cutoff
        return np.concatenate((others, np.full(ties, 0.5 * (cutoff + 1.0) * (1.0 + 1e-6))))

    return costs


for _sellers in (1, 2, 7, 60, 3_000, 100_000):
    for _label, _bounds in {
        "no cap": {},
        "cap 3": {"weight_cap": 3.0},
        "cap 2, mean 0.05": {"weight_cap": 2.0, "max_mean_epsilon": 0.05},
    }.items():
        offline(f"uniform, {_sellers}, {_label}", "uniform", _drawn(_sellers), **_bounds)
for _dist in ("log-normal", "unbounded", "ironed mixture", "empirical"):
    for _sellers in (40, 30_000):
        offline(f"{_dist}, {_sellers}, no cap", _dist, _drawn(_sellers), max_mean_epsilon=50.0)
        offline(
            f"{_dist}, {_sellers}, cap 1.5", _dist, _drawn(_sellers), weight_cap=1.5, max_mean_epsilon=50.0
        )
for _step in (0.01, 0.5, 1.0):
    for _sellers in (50, 20_000):
        offline(f"uniform in steps of {_step}, {_sellers}, no cap", "uniform", _rounded(_sellers, _step))
        offline(
            f"uniform in steps of {_step}, {_sellers}, cap 3",
            "uniform",
            _rounded(_sellers, _step),
            weight_cap=3.0,
        )
offline("log-normal in cents, 20000, cap 3", "log-normal", _rounded(20_000, 0.01), weight_cap=3.0)
offline("empirical, its own samples", "empirical", lambda dist, rng: np.sort(dist.sample(400, rng))[::-1])
offline("nobody dear counts, 5000", "uniform", _drawn(5_000), concentration=0.0, weight_cap=2.5)
offline(
    "nobody dear counts, whole numbers", "uniform", _rounded(5_000, 1.0), concentration=0.0, weight_cap=2.5
)
offline("everybody alike", "uniform", _drawn(500), concentration=1e3, noise=1e-3, payment_weight=1e-250)
offline("400 ties above the cutoff of 1500", "uniform", _with_ties_above(1_500, 400))
offline("1200 ties above the cutoff of 1500", "uniform", _with_ties_above(1_500, 1_200))
offline("two groups, 20 and 300", "uniform", _two_groups(20, 300), payment_weight=0.02)
offline(
    "two groups, 20 and 300, cap 40", "uniform", _two_groups(20, 300), payment_weight=0.02, weight_cap=40.0
)
offline(
    "two groups of equal value, 30 and 3000", "uniform", _two_groups(30, 3_000), payment_weight=4.851904e-3
)
offline(
    "two groups of equal value, 1000 and 3000",
    "uniform",
    _two_groups(1_000, 3_000),
    payment_weight=8.668622e-5,
)
offline(
    "a basin that appears as a report moves",
    "wide uniform",
    lambda dist, rng: np.array([528.535, 0.0403, 0.81056]) / 2,
    concentration=1.10505,
    noise=1.37927,
    payment_weight=0.524756,
)


def _response(step: float, **bounds: float) -> Callable[[], Arrays]:
    def case() -> Arrays:
        import dpmarket as dpm

        rng = np.random.default_rng(3)
        costs = np.round(rng.uniform(1, 5, 400) / step) * step
        mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.02, **bounds))
        curve = mechanism.response_curve(costs, int(np.argmin(costs)), np.linspace(0.5, 5.5, 60))
        return {"epsilons": curve.epsilons, "payments": curve.payments}

    return case


CASES["response curve, no cap"] = _response(1e-12)
CASES["response curve, cap 3"] = _response(1e-12, weight_cap=3.0)
CASES["response curve, cents, cap 3"] = _response(0.01, weight_cap=3.0)


def _online(dist: str, **bounds: float) -> Callable[[], Arrays]:
    def case() -> Arrays:
        import dpmarket as dpm

        made = _distributions()[dist]
        curve = dpm.population_curve(made, dpm.BuyerObjective(1.0, 1.0, 1e-3, **bounds), 2_000)
        market = dpm.OnlineMechanism(made, curve)
        quotes = market.quote_many(made.sample(500, np.random.default_rng(5)))
        menu = market.menu(points=40)
        return {
            "epsilons": quotes.epsilons,
            "payments": quotes.payments,
            "menu epsilons": menu.epsilons,
            "menu payments": menu.payments,
        }

    return case


for _dist in ("uniform", "log-normal", "ironed mixture", "empirical"):
    CASES[f"online: {_dist}, no cap"] = _online(_dist, max_mean_epsilon=50.0)
    CASES[f"online: {_dist}, cap 3"] = _online(_dist, weight_cap=3.0, max_mean_epsilon=50.0)


def identity() -> Arrays:
    import dpmarket as dpm

    rules = {
        "line": lambda z: max(3.0 - z, 0.0),
        "step": lambda z: 2.0 if z < 2.7 else 0.5,
        "smooth": lambda z: 1.0 / (1.0 + z * z),
    }
    paid = [float(dpm.payment_identity(rule, c, 5.0)) for rule in rules.values() for c in (1.0, 2.0, 4.5)]
    return {"payments": np.array(paid)}


CASES["payment identity"] = identity


def _promises(sellers: int, l2: float) -> Callable[[], Arrays]:
    def case() -> Arrays:
        import dpmarket as dpm

        epsilons = np.random.default_rng(sellers).gamma(0.6, 1.0, sellers)
        epsilons[::7] = 0.0
        loss_weights, rate = dpm.weights_for(epsilons, l2)
        return {
            "loss_weights": loss_weights,
            "rate": np.asarray(rate),
            "losses": dpm.privacy_loss(loss_weights, rate, l2),
            "losses of three rows": dpm.privacy_loss(loss_weights, rate, l2, 1.5, 3),
        }

    return case


for _sellers, _l2 in ((30, 0.5), (3_000, 1e-3), (50_000, 1e-5), (50_000, 1.0)):
    CASES[f"weights and losses, {_sellers}, l2 {_l2:g}"] = _promises(_sellers, _l2)


def _model(rows: int, **settings: object) -> Callable[[], Arrays]:
    def case() -> Arrays:
        import dpmarket as dpm
        from dpmarket.privacy import SeededNoise

        rng = np.random.default_rng(rows)
        X = rng.uniform(-0.5, 0.5, (rows, 3))
        y = np.where(X[:, 0] + 0.2 * rng.normal(size=rows) > 0.0, 1, 0)
        epsilons = rng.uniform(0.0, 2.0, rows)
        model = dpm.PrivateLogisticRegression(noise_source=SeededNoise(11), classes=(0, 1), **settings)
        model.fit(X, y, epsilons=epsilons)
        names = ("coef_", "intercept_", "coef_grid_", "grid_", "epsilons_", "loss_weights_")
        return {name: np.asarray(getattr(model, name)) for name in names}

    return case


def _kind(name: str) -> Callable[[], Arrays]:
    """A model of another kind: more classes, a delta, both, or noise of another shape."""

    def case() -> Arrays:
        import dpmarket as dpm
        from dpmarket.privacy import NoiseShape, SeededNoise

        rng = np.random.default_rng(5)
        classes = tuple(range(4)) if "classes" in name else (0, 1)
        settings = {"delta": 1e-6} if "delta" in name else {}
        if "shape" in name:
            settings["noise_shape"] = NoiseShape([True, False, False], euclidean_bound=0.9)
        X = rng.uniform(-0.3, 0.3, (900, 3))
        y = (np.abs(X[:, 0]) * 40).astype(int) % len(classes)
        model = dpm.PrivateLogisticRegression(noise_source=SeededNoise(11), classes=classes, **settings)
        model.fit(X, y, epsilons=rng.uniform(0.0, 2.0, 900))
        names = ("coef_", "intercept_", "coef_grid_", "grid_", "epsilons_", "loss_weights_", "stretch_")
        plan = model.release_plan_
        return {part: np.asarray(getattr(model, part)) for part in names} | {
            "plan": np.array([plan.gradient_bound, plan.noise_accuracy, plan.numerical_epsilon])
        }

    return case


for _name in ("more classes", "a delta", "a delta and more classes", "a shape"):
    CASES[f"model with {_name}"] = _kind(_name)


def _worst_cases() -> Arrays:
    from dpmarket.privacy import find_shaped_worst_case, find_softmax_worst_case, find_worst_case

    weights = [0.05, 0.15, 0.8]
    return {
        "Euclidean": np.array(find_worst_case(weights, 0, 20.0, 1e-3).log_ratio),
        "two rows": np.array(find_worst_case(weights, 1, 20.0, 1e-2, 1.0, 2).log_ratio),
        "shaped": np.array(find_shaped_worst_case(weights, 0, 20.0, 1e-3, 1.0, 0.4).log_ratio),
        "softmax": np.array(find_softmax_worst_case(weights, 0, 20.0, 1e-3, 3).log_ratio),
    }


CASES["worst cases"] = _worst_cases
CASES["model, 200 rows"] = _model(200)
CASES["model, 5000 rows"] = _model(5_000)
CASES["model, 2000 rows, small penalty"] = _model(2_000, l2=1e-3)


def compute(path: str, words: list[str]) -> None:
    """Write the results of the chosen cases to ``path``; an error is a result as well."""
    found: dict[str, np.ndarray] = {}
    for name, case in _chosen(words).items():
        try:
            result = case()
        except Exception as error:
            result = {"error": np.array(type(error).__name__)}
        for part, value in result.items():
            found[f"{name}|{part}"] = np.asarray(value)
    np.savez(path, **found)


def _chosen(words: list[str]) -> dict[str, Callable[[], Arrays]]:
    return {name: case for name, case in CASES.items() if not words or any(word in name for word in words)}


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Return the largest relative difference: 0 for equal bits, infinity for what cannot be compared."""
    if old.shape != new.shape:
        return np.inf
    if old.tobytes() == new.tobytes() and old.dtype == new.dtype:
        return 0.0
    if not (np.issubdtype(old.dtype, np.number) and np.issubdtype(new.dtype, np.number)):
        return 0.0 if np.array_equal(old, new) else np.inf
    old, new = old.astype(np.float64), new.astype(np.float64)
    if not np.array_equal(np.isnan(old), np.isnan(new)):
        return np.inf
    differs = (old != new) & ~np.isnan(old)
    old, new = old[differs], new[differs]
    with np.errstate(invalid="ignore"):
        relative = np.abs(old - new) / np.maximum(np.abs(old), np.abs(new))
    return float(np.nan_to_num(relative, nan=np.inf).max(initial=0.0))


def compare(old: Arrays, new: Arrays) -> int:
    """Print a line for every case; return how many differ by too much.

    A case that only the old tree cannot do has nothing to differ from.
    """
    before, after = _by_case(old), _by_case(new)
    wrong = 0
    for case, parts in before.items():
        verdict, bad = _verdict(parts, after[case])
        wrong += bad
        print(f"{case:<60} {verdict}{'  TOO MUCH' if bad else ''}", flush=True)
    print(f"{len(before)} cases, {wrong} that differ by more than {ALLOWED:g}.")
    return wrong


def _by_case(arrays: Arrays) -> dict[str, dict[str, np.ndarray]]:
    cases: dict[str, dict[str, np.ndarray]] = {}
    for key, value in arrays.items():
        case, _, part = key.rpartition("|")
        cases.setdefault(case, {})[part] = value
    return cases


def _verdict(old: Arrays, new: Arrays) -> tuple[str, bool]:
    errors = [str(parts["error"]) if "error" in parts else None for parts in (old, new)]
    if errors[0] != errors[1]:
        return f"before {errors[0]}, now {errors[1] or 'a result'}", errors[1] is not None
    apart = {part: difference(old[part], new[part]) for part in old}
    worst = max(apart, key=lambda part: apart[part])
    if apart[worst] == 0.0:
        return "bit-equal" + (f" ({errors[0]})" if errors[0] else ""), False
    return f"{apart[worst]:.1e} ({worst})", apart[worst] > ALLOWED


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--compute"]:
        compute(arguments[1], arguments[2:])
        return 0
    if len(arguments) < 2:
        raise SystemExit(f"usage: {Path(__file__).name} OLD_SRC NEW_SRC [WORDS...]")
    trees, words = [source_tree(text) for text in arguments[:2]], arguments[2:]
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, tree in zip(("old", "new"), trees, strict=True):
            path = str(Path(folder) / f"{name}.npz")
            run_with(tree, [__file__, "--compute", path, *words])
            with np.load(path) as stored:
                found.append(dict(stored))
    return 1 if compare(*found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
