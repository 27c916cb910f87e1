"""Coverage of intervals for coefficients: how often they hold their target, and how wide they are.

A set's records are the population, and people are drawn from them with replacement. In each of 2,000
repetitions 500 people are drawn, a model is released, and its 90% and 95% intervals are compared with what
the same fit returns from the whole population without noise. Three sources of the Hessian: 400 public rows
with their labels, drawn apart; the stand-in, which knows nothing; a noisy Hessian for 30% of every epsilon.

A repetition solves for the released coefficients in floats, a hundred repetitions at once, with noise of the
release's law, rounded to its grid. Every cell checks that this is the released model, against a fit with the
same noise. All else is the library's: weights, penalty, noise rate, whole Hessians, intervals. Seeded and
resumable (``out/intervals.json``). Writes ``docs/tables/intervals.md``, and fails if a coverage is more than
3 points below its level. The coverage of predictions is measured as well, and stays in the cache. With
``--table`` it writes what an interrupted run has measured so far.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm as normal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from _cache import Cache
from _markdown import write_tables
from _results import Table
from _trials import promises
from dpmarket.errors import Infeasible
from dpmarket.learning import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PublicScaler,
)
from dpmarket.learning import descent as noisy_descent
from dpmarket.learning.curvature import NoisyHessian, whole_hessians
from dpmarket.learning.spread import moments_of, norm_and_loss, released, spread_of, with_constant
from dpmarket.learning.validation import numbers_of
from dpmarket.privacy import SeededNoise
from dpmarket.privacy.descent import CELLS

ROOT = Path(__file__).parent.parent
REPETITIONS, BATCH, PEOPLE, PUBLIC, SHARE = 2_000, 100, 500, 400, 0.3
PREDICTED = 10
PARTS = range(REPETITIONS // BATCH)
LEVELS = (0.9, 0.95)
EPSILONS = ("1", "10", "54/37/9% at 0.01/0.2/1")
WITH_DELTA = ("1", "10")
DELTA = 1e-6
MODES = ("public", "stand-in", "Hessian")
TOGETHER = (("public", "stand-in"), ("Hessian",))  # with the same models


@dataclass(frozen=True)
class Population:
    """Records, labels as an estimator takes them, and the estimator."""

    rows: np.ndarray
    labels: np.ndarray
    estimator: Any


def _scaled(x: np.ndarray, radius: float = 1.0) -> np.ndarray:
    middle, spread = x.mean(axis=0), 2.0 * x.std(axis=0)
    return PublicScaler(middle - spread, middle + spread, radius).fit_transform(x)


@cache
def populations() -> dict[str, Population]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1.0, 1.0, (4_000, 5)) / np.sqrt(5.0)
    chances = 1.0 / (1.0 + np.exp(-(x @ [4.0, -2.0, 1.0, 0.0, 0.0] + 0.5)))
    yes = (rng.uniform(size=4_000) < chances).astype(int)
    mixed = x @ rng.normal(size=(5, 6)) * 0.7 + 0.1
    tails = (
        10.0
        + 4.0 * mixed[:, 0]
        - 3.0 * mixed[:, 1]
        + rng.standard_t(3.0, 4_000)
        + rng.exponential(size=4_000)
    )
    cancer, iris, wine, sugar = load_breast_cancer(), load_iris(), load_wine(), load_diabetes()
    center, scale = float(np.round(sugar.target.mean())), float(np.round(sugar.target.std()))
    regression = PrivateLinearRegression(center, scale)
    sugar_rows = _scaled(sugar.data, 1.5)
    return {
        "logistic": Population(x, yes, PrivateLogisticRegression((0, 1))),
        "breast cancer": Population(_scaled(cancer.data), cancer.target, PrivateLogisticRegression((0, 1))),
        "iris, three classes": Population(
            _scaled(iris.data), iris.target, PrivateLogisticRegression((0, 1, 2))
        ),
        "diabetes, regression": Population(sugar_rows, sugar.target, regression),
        "wine, support vectors": Population(
            _scaled(wine.data), (wine.target == 1).astype(int), PrivateLinearSVC((0, 1))
        ),
        "heavy tails, 80% quantile": Population(
            _scaled(mixed, 1.5), tails, PrivateQuantileRegressor(0.8, center=11.0, scale=3.0)
        ),
        "logistic, delta": Population(x, yes, PrivateLogisticRegression((0, 1), delta=DELTA)),
        "diabetes, delta": Population(sugar_rows, sugar.target, clone(regression).set_params(delta=DELTA)),
    }


def cells() -> Iterator[tuple[str, str]]:
    for name, population in populations().items():
        yield from (
            (name, level) for level in (EPSILONS if population.estimator.delta is None else WITH_DELTA)
        )


def minimise(loss, l2, rows, labels, weights, noise, start=0.0):  # noqa: PLR0917
    """Return minimisers of many objectives at once, by damped Newton steps: shape (batch, outputs, n)."""
    batch, k, n = noise.shape
    w = np.zeros(noise.shape) + start
    for _ in range(200):
        z = rows @ w.transpose(0, 2, 1)
        flat = z.reshape(-1, k), labels.ravel()
        first = loss.derivatives(*flat).reshape(z.shape) * weights[:, None]
        gradient = first.transpose(0, 2, 1) @ rows + noise + l2 * w
        diagonal, vector = (part.reshape(z.shape) for part in loss.curvatures(*flat))
        hessian = np.zeros((batch, k, n, k, n))
        for a in range(k):
            for b in range(k):
                bend = weights * (diagonal[..., a] * float(a == b) - vector[..., a] * vector[..., b])
                hessian[:, a, :, b, :] = (rows * bend[..., None]).transpose(0, 2, 1) @ rows
        hessian = hessian.reshape(batch, k * n, k * n) + l2 * np.eye(k * n)
        step = np.linalg.solve(hessian, gradient.reshape(batch, -1, 1)).reshape(w.shape)
        moved = np.abs(rows @ step.transpose(0, 2, 1)).max(axis=(1, 2), keepdims=True)
        w = w - step / (1.0 + loss.relative_third * moved * (moved > 1e-3))
        if np.abs(step).max() < 1e-11:
            return w
    raise RuntimeError("the minimiser did not converge")


def descend(loss, descent, rows, labels, weights, noise):
    """Return the ends of many descents at once; noise per step has the shape (steps, batch, outputs, n)."""
    w, clip = np.zeros(noise.shape[1:]), noisy_descent.gradient_clip(loss)
    velocity, mean = np.zeros_like(w), np.zeros_like(w)
    lengths = np.linalg.norm(rows, axis=2)
    for turn in range(descent.steps):
        z = rows @ w.transpose(0, 2, 1)
        first = loss.derivatives(z.reshape(-1, z.shape[2]), labels.ravel()).reshape(z.shape)
        long = np.linalg.norm(first, axis=2) * lengths
        first *= (weights * np.minimum(1.0, clip / np.maximum(long, 1e-300)))[..., None]
        gradient = first.transpose(0, 2, 1) @ rows + noise[turn]
        velocity = noisy_descent._MOMENTUM * velocity + gradient + noisy_descent._RIDGE * loss.curvature * w
        w = w - velocity / (4.0 * loss.curvature)
        mean += w * (turn >= descent.steps // 2)
    return mean / (descent.steps - descent.steps // 2)


@dataclass(frozen=True)
class Cell:
    """A set and epsilons: a fit, for its public description, and the population as training takes it."""

    population: Population
    model: Any
    rows: np.ndarray
    labels: np.ndarray
    epsilons: np.ndarray

    @cached_property
    def target(self) -> np.ndarray:
        """Return the coefficients that the whole population leads to without noise, shape (outputs, n)."""
        every = np.full(len(self.labels), 1.0 / len(self.labels))
        shape = (1, *released(self.model, norm_and_loss(self.model)[0]).shape)
        steps = () if self.model.delta is None else (self.model.descent_.steps,)
        return centred(self._solved(self.rows[None], self.labels[None], every, np.zeros((*steps, *shape))))[0]

    def solved(self, chosen: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return what is released for each choice of people and noise, shape (batch, outputs, n)."""
        given = self.rows[chosen], self.labels[chosen], self.model.loss_weights_, noise
        found = self._solved(*given, self.target)
        if self.model.delta is None:
            found = np.round(found / self.model.grid_) * self.model.grid_
        return centred(found)

    def _solved(self, rows, labels, weights, noise, start=0.0):
        loss = norm_and_loss(self.model)[1]
        if self.model.delta is None:
            return minimise(loss, self.model.l2_, rows, labels, weights, noise, start)
        return descend(loss, self.model.descent_, rows, labels, weights, noise)

    def noise(self, rng: np.random.Generator) -> np.ndarray:
        """Return noise of the release's law for a batch; with a delta, for each step."""
        norm, loss = norm_and_loss(self.model)
        shape = (BATCH, loss.outputs, norm.n_coefficients)
        if self.model.delta is not None:
            total = float(self.model.description_["weight_total"])
            unit = noisy_descent.gradient_clip(loss) / (CELLS * total) * self.model.descent_.noise_scale
            return rng.normal(size=(self.model.descent_.steps, *shape)) * unit
        draws = rng.normal(size=shape)  # all of these sets have radial noise
        lengths = rng.gamma(shape[2], 2.0 / self.model.noise_rate_, size=(*shape[:2], 1))
        return draws / np.linalg.norm(draws, axis=2, keepdims=True) * lengths

    def with_coefficients(self, w: np.ndarray) -> Any:
        """Return the model with other released coefficients."""
        model = copy.copy(self.model)
        norm, _ = norm_and_loss(model)
        model._keep(w * float(getattr(model, "shrinkage_correction_", 1.0)), norm.constant)
        return model

    def with_hessian(self, model: Any, w: np.ndarray, chosen: np.ndarray, rng: np.random.Generator) -> None:
        """Release a Hessian at these coefficients: whole numbers, and noise of the same law."""
        plan = self.model.hessian_.plan
        weights = np.floor(self.epsilons * plan.share / float(plan.unit))
        columns, starts = np.ascontiguousarray(self.rows[chosen].T), np.arange(len(chosen))
        sums = weights @ whole_hessians(plan, columns, self.labels[chosen], starts, w)
        draw = rng.normal(size=plan.size)
        length = rng.gamma(plan.size, 2.0 * CELLS / float(plan.unit))
        whole = np.floor(sums + draw / np.linalg.norm(draw) * length)
        model.hessian_ = NoisyHessian(plan, tuple(int(value) for value in whole))


def centred(w: np.ndarray) -> np.ndarray:
    """Return coefficients without what all outputs of a softmax have in common."""
    return w if w.shape[1] == 1 else w - w.mean(axis=1, keepdims=True)


def make_cell(name: str, level: str, share: float | None) -> Cell:
    """Fit once, for the public description; check that the batched solver finds the same model."""
    population = populations()[name]
    rng = np.random.default_rng([3, len(name), len(level)])
    epsilons = promises(level, PEOPLE, rng)
    chosen = rng.integers(len(population.labels), size=PEOPLE)
    model = clone(population.estimator).set_params(noise_source=SeededNoise(1))
    model.fit(population.rows[chosen], population.labels[chosen], epsilons=epsilons, intervals=share)
    norm, loss = norm_and_loss(model)
    if hasattr(model, "classes_"):
        labels = numbers_of(model.classes_, population.labels).astype(float)
    else:
        labels = (population.labels - model.center) / model.scale
    cell = Cell(population, model, with_constant(population.rows, norm), labels, epsilons)
    if model.delta is None:
        accuracy = model.release_plan_.noise_accuracy
        noise = norm.draw(SeededNoise(1).bits(), loss.outputs, model.noise_rate_, accuracy)[0]
        assert np.allclose(cell.solved(chosen[None], noise[None])[0], released(model, norm), atol=1e-9)
    return cell


def plain_deviations(cell: Cell, target: np.ndarray) -> np.ndarray:
    """Return standard deviations with equal weights and no noise, from the population's own moments."""
    _, loss = norm_and_loss(cell.model)
    clip = None if cell.model.delta is None else noisy_descent.gradient_clip(loss)
    hessian, gradients = moments_of(loss, target, cell.rows, cell.labels, clip)
    values, vectors = np.linalg.eigh(hessian)
    if cell.model.delta is None:
        steady = 1.0 / (np.maximum(values, 0.0) + cell.model.l2_)
    else:
        steady = np.abs(noisy_descent.responses(cell.model.descent_, loss, values)[0])
    response = (vectors * steady) @ vectors.T
    directions = coefficient_directions(target.shape)
    return np.sqrt(np.diag(directions @ response @ gradients @ response @ directions.T) / PEOPLE)


def directions_of_outputs(k: int) -> np.ndarray:
    """Return the combinations of outputs that count: each less the mean of all, if there are several."""
    return np.eye(k) - (1.0 / k if k > 1 else 0.0)


def coefficient_directions(shape: tuple[int, ...]) -> np.ndarray:
    """Return the direction of each coefficient."""
    return np.kron(directions_of_outputs(shape[0]), np.eye(shape[1]))


def measured(cell: Cell, modes: tuple[str, ...], part: int) -> dict[str, Any]:
    """Return, for one batch of repetitions, how often each coefficient was covered, and half widths."""
    rng = np.random.default_rng([11, part, len(modes)])
    target = cell.target
    chosen = rng.integers(len(cell.labels), size=(BATCH, PEOPLE))
    found = cell.solved(chosen, cell.noise(rng))
    directions = coefficient_directions(target.shape)
    totals = {
        mode: {"hits": np.zeros((2, target.size)), "widths": np.zeros(target.size), "predicted": 0.0}
        for mode in modes
    }
    for w, people in zip(found, chosen, strict=True):
        model, public = cell.with_coefficients(w), rng.integers(len(cell.labels), size=PUBLIC)
        asked = cell.rows[rng.integers(len(cell.labels), size=PREDICTED)]
        scores = np.vstack([np.kron(output, asked) for output in directions_of_outputs(len(w))])
        if "Hessian" in modes:
            cell.with_hessian(model, w, people, rng)
        for mode, total in totals.items():
            rows = (
                (cell.population.rows[public], cell.population.labels[public]) if mode == "public" else None
            )
            spread = spread_of(model, rows)
            half = [spread.half_widths(directions, level) for level in LEVELS]
            off = (w - target).ravel()
            total["hits"] += np.abs(off) <= half
            total["widths"] += half[0]
            total["predicted"] += float(
                (np.abs(scores @ off) <= spread.half_widths(scores, LEVELS[0])).mean()
            )
    return {
        mode: {name: np.asarray(value).tolist() for name, value in total.items()}
        for mode, total in totals.items()
    }


def run(cache: Cache) -> None:
    """Measure what is missing."""
    for name, level in cells():
        for modes in TOGETHER:
            keys = {mode: f"{name}|{level}|{mode}" for mode in modes}
            missing = [part for part in PARTS if any(f"{key}|{part}" not in cache for key in keys.values())]
            if not missing:
                continue
            try:
                cell = make_cell(name, level, SHARE if "Hessian" in modes else None)
            except Infeasible:
                for name_of_part in ("plain", *PARTS):
                    cache.keep(f"{keys['Hessian']}|{name_of_part}", None)
                continue
            for key in keys.values():
                cache.keep(f"{key}|plain", plain_deviations(cell, cell.target).tolist())
            for part in missing:
                for mode, found in measured(cell, modes, part).items():
                    cache.keep(f"{keys[mode]}|{part}", found)
        print(*row(cache, name, level), flush=True)
    cache.write()


def is_measured(cache: Cache, name: str, level: str) -> bool:
    """Tell whether a row is complete."""
    return all(f"{name}|{level}|{mode}|{part}" in cache for mode in MODES for part in ("plain", *PARTS))


def coverage(cache: Cache, name: str, level: str, mode: str) -> list[np.ndarray] | None:
    """Return the coverage of each coefficient at both levels, and relative half widths; None if refused."""
    key = f"{name}|{level}|{mode}"
    if cache[f"{key}|plain"] is None:
        return None
    parts = [cache[f"{key}|{part}"] for part in PARTS]
    hits, widths = (np.mean([part[what] for part in parts], axis=0) / BATCH for what in ("hits", "widths"))
    plain = np.array(cache[f"{key}|plain"]) * normal.ppf(0.5 + LEVELS[0] / 2.0)
    return [*hits, widths / plain]


def row(cache: Cache, name: str, level: str) -> list[str]:
    """Return one row of the table."""
    cells = [f"{name}, {level}"]
    for mode in MODES:
        found = coverage(cache, name, level, mode)
        if found is None:
            cells += ["refused", "", ""]
        else:
            cells += [f"{found[0].mean():.3f}", f"{found[0].min():.3f}", f"{found[2].mean():.2f}"]
    return cells


def table(cache: Cache, measured: list[tuple[str, str]]) -> Table:
    columns = ["set, epsilon"]
    for mode in MODES:
        columns += [mode, "lowest", "width"]
    return Table(
        "Coverage of 90% intervals for coefficients, 2,000 repetitions of 500 people",
        columns,
        [row(cache, name, level) for name, level in measured],
        "Coverage is the mean over coefficients and repetitions; `lowest` is that of the coefficient covered "
        "least. Width: mean half width, divided by that of a fit with the same penalty, equal weights and no "
        "noise. Public: 400 rows with labels. Hessian: 30% of every epsilon; refused where the epsilons are "
        "too small for it.",
    )


def main() -> None:
    settings = {"repetitions": REPETITIONS, "people": PEOPLE, "public": PUBLIC, "share": SHARE, "version": 1}
    cache = Cache(ROOT / "out" / "intervals.json", settings)
    if "--table" not in sys.argv:
        run(cache)
    measured = [cell for cell in cells() if is_measured(cache, *cell)]
    write_tables(__file__, [table(cache, measured)])
    low = [
        f"{name}, {epsilon}: {mode} {level}"
        for name, epsilon in measured
        for mode in MODES
        if (found := coverage(cache, name, epsilon, mode)) is not None
        for level, hits in zip(LEVELS, found, strict=False)
        if hits.mean() < level - 0.03
    ]
    if low:
        sys.exit("More than 3 points below the level: " + "; ".join(low))


if __name__ == "__main__":
    main()
