r"""What a weight costs in privacy, and what a model must be: the same questions of every family of releases.

``norm``: objective perturbation with noise of a norm. With weight a, noise rate eta, penalty Lambda, reach S
of the loss and row bounds R1, R2 put :math:`\alpha = a \eta S R_1 / 2`, :math:`c = a R_2^2 / \Lambda`; then

.. math:: \epsilon = \alpha + \max_{0 \le t \le 1} f(t), \quad
          f(t) = \alpha t + \sum_k m_k \log(1 + c\, (p_k (1 - t) + q_k t + v_k t (1 - t))),

with log-determinant terms (m, p, q, v) of the loss. f is concave, so that for any t whatsoever its maximum is
at most :math:`f(t) + \max(f'(t)(1 - t), -f'(t) t)`: t may be found in floats. Of several bounds on the
determinant the smallest is charged.

Constants follow from the loss, the noise norm and the rows; none are stated. A sigmoid loss with derivative
``scale (sigmoid(slope z + shift) - target)`` has, with targets in [low, high], far = max(high, 1 - low) and
kappa = scale * slope, the reach ``scale * far`` and one log-determinant term (1, kappa far (1 - far), 0,
kappa far^2). The softmax of K classes has the reach 2 and the terms (1, 0, 0, K/(K-1)) and (K - 2, 0,
1/(K-1), 0). A person with r rows has r times each term with c / r and, for more rows than coefficients, also
the trace spread over all directions. With features that are public the determinant does not move, and the
reach is half of what another label moves.

``descent``: T steps of whole weights A with Gaussian noise of deviation s have
:math:`\mu = 2 A \cdot 2^{16} \sqrt T / s`.

``statistics``: a weight *is* the epsilon that it spends. Everybody has a whole weight A in each statistic; a
weight of one spends u, a power of two. Records are whole parts from 0 to :math:`M = 2^{24}` (a vector's are
at most M long), so that replaced records move a sum by at most :math:`A M` (twice that for a histogram of
more than two categories, a quantile's scores and a vector): discrete Laplace noise of scale :math:`M / u`
(:math:`2 M / u`) costs :math:`A u` exactly, and so do radial noise and report noisy max of that scale. A
line's weight is the sum of :math:`A u` over all statistics.

The norm of the noise is the Euclidean norm of the joint columns plus the absolute values of the separate
ones, and rows must be as short as it needs. An encoder divides all rows by the largest length that its
declarations allow: with m numbers of length at most r together and K groups of zeros and ones that is
``r + K``, or ``sqrt(m) r + K`` if the numbers are separate as well; the Euclidean length is then at most
``sqrt(r^2 + K)`` divided by it.

A new family is a class here, a line of the notation and a class of the page's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from .arithmetic import exact_sum, keeps_delta, log1p_up, sqrt_up
from .reading import number_text
from .verdicts import Part

Term = tuple[Any, Any, Any, Any]
_ROOM = 1e-8
_CELLS = 2**16
_PARTS = 2**24
_LARGEST_WEIGHT = 2**80
_MOST_LABEL, _MOST_SHIFT = 2**20, 2 * 10**9
_MOST_CELL = 2**63
_LARGEST_TOTAL = 2**36
"""Whole weights of a descent add up to at most this, so that its sums are exact."""


class NormRelease:
    """Objective perturbation with noise of a norm."""

    delta, whole_total = 0.0, None

    def __init__(self, found: Part) -> None:
        self.found, self.terms, self.charged = found, found["terms"], Fraction(found["numerical_epsilon"])
        self.constants: Any = constants_of(self.terms)

    def problems(self) -> list[str]:
        """Return the names of what does not fit together."""
        if self.constants is None:
            return ["loss"]
        shape = (self.constants.outputs, self.constants.coefficients)
        rows = self.found["cells"]
        good = len(rows) == shape[0] and all(len(row) == shape[1] for row in rows)
        good = good and all(abs(int(cell)) <= _MOST_CELL for row in rows for cell in row)
        model = _model_problems(self.found["model"], self.terms["loss"], self.terms["norm"], shape)
        intervals = _intervals_problems(self.found, self.terms["loss"], shape[0] * shape[1], clips=False)
        return [*([] if good else ["cells"]), *model, *intervals]

    @cached_property
    def cost(self) -> Fraction | None:
        """What releasing on the grid costs, rounded up; None: it is too fine.

        Boxes cost 2 K n artanh(share) + share * grid * slope of the log density.
        """
        own = self.constants
        names = ("grid", "weight_total", "noise_rate", "gradient_bound", "noise_accuracy")
        g, total, eta, gradient, accuracy = (Fraction(self.found[name]) for name in names)
        l2, long, kn = Fraction(self.terms["l2"]), own.row_bound_2, own.outputs * own.coefficients
        share = 2 * (gradient + accuracy) / (l2 * g)
        if not share < 1:
            return None
        noise = own.outputs * l2 * own.ones + total * own.curvature_1 * own.row_bound * own.largest_sum
        by_size = own.relative_third * own.coefficients * own.rank * long
        bent = min(by_size, own.third * total * long**3 / l2)
        slope = eta / 2 * noise + sqrt_up(Fraction(own.coefficients)) * bent
        return Fraction(kn * log1p_up(2 * share / (1 - share)) + share * g * slope)

    def covers(self, weight: float, used: Fraction) -> bool:
        """Whether an epsilon covers a weight and the grid."""
        if weight == 0.0 or self.cost is None:
            return weight == 0.0
        return bool(self._charge(Fraction(weight)) + self.cost <= used)

    def _charge(self, weight: Fraction) -> Fraction:
        """Return what a weight costs, without the grid."""
        own, found = self.constants, []
        alpha = weight * Fraction(self.found["noise_rate"]) * own.reach * own.row_bound / 2
        c = weight * own.row_bound_2**2 / Fraction(self.terms["l2"])
        for terms in own.bounds:
            in_floats = [(float(m), float(p), float(q), float(v)) for m, p, q, v in terms]
            t = Fraction(_maximiser(float(alpha), float(c), in_floats))
            slope = _slope(alpha, c, t, terms)
            logs = sum(m * log1p_up(c * _inner(t, *rest)) for m, *rest in terms)
            found.append(alpha * (1 + t) + logs + max(slope * (1 - t), -slope * t))
        return Fraction(min(found))


class DescentRelease:
    """Noisy descent in whole numbers, with a delta: nothing is rounded."""

    cost = charged = Fraction(0)

    def __init__(self, found: Part) -> None:
        self.found, terms, self.delta = found, found["terms"], found["terms"]["delta"]
        self.whole_total = Fraction(found["weight_total"])
        self.mu_of_one = 2 * _CELLS * sqrt_up(Fraction(terms["steps"])) / Fraction(terms["noise_scale"])

    def problems(self) -> list[str]:
        """Return the names of what does not fit together."""
        rows = self.found["coefficients"]
        if not rows or len({len(row) for row in rows}) > 1:
            return ["coefficients"]
        model = _model_problems(self.found["model"], self.found["loss"], None, (len(rows), len(rows[0])))
        size = len(rows) * len(rows[0])
        return [*model, *_intervals_problems(self.found, self.found["loss"], size, clips=True)]

    def covers(self, weight: float, used: Fraction) -> bool:
        """Whether an epsilon has at most the stated delta at a weight's mu."""
        if not weight.is_integer() or weight > _LARGEST_TOTAL:
            return False
        return weight == 0.0 or keeps_delta(used, Fraction(weight) * self.mu_of_one, self.delta)


class StatisticsRelease:
    """Means, shares, histograms, quantiles and mean vectors with whole weights and whole noise."""

    delta = 0.0
    cost = charged = Fraction(0)

    def __init__(self, found: Part) -> None:
        self.found, parts = found, found["statistics"].values()
        units = [Fraction(2) ** int(one["unit_exponent"]) for one in parts]
        self.unit = min(units, default=Fraction(1))
        weights = [int(one["total_weight"]) for one in parts]
        self.whole_total = sum((w * unit for w, unit in zip(weights, units, strict=True)), Fraction(0))

    def problems(self) -> list[str]:
        """Return the names of what does not fit together."""
        rows, statistics = self.found["rows_per_person"], self.found["statistics"]
        total = Fraction(self.found["weight_total"])
        wrong = [
            f"{name!r}: {part}" for name, one in statistics.items() for part in _statistic_problems(one, rows)
        ]
        tests = {
            "statistics": 1 <= len(statistics) <= 1_000,
            "weight_total": self.whole_total <= total <= self.whole_total * (1 + Fraction(2) ** -50),
            "shares": sum(Fraction(one["share"]) for one in statistics.values()) <= 1,
        }
        return wrong + [name for name, good in tests.items() if not good]

    def covers(self, weight: float, used: Fraction) -> bool:
        """Whether an epsilon covers a weight that is a whole multiple of the least unit."""
        return (Fraction(weight) / self.unit).denominator == 1 and weight <= used


def _spent_on_intervals(release: Part, line: Part) -> Fraction:
    """Return what a noisy Hessian cost a line's seller: the stated share of the epsilon, in whole units.

    A weight w costs w units: replaced records move the released whole numbers, whose noise has a density
    proportional to exp(-unit |b| / 2^17), by at most 2 w 2^16 in length.
    """
    stated = release.get("intervals")
    if stated is None or line["used"] == 0.0:
        return Fraction(0)
    unit = Fraction(stated["unit"])
    return Fraction(line["epsilon"] * stated["share"]) // unit * unit


def is_covered(release: Any, line: Part) -> bool:
    """Whether the epsilon used covers a line's weight and its share of a noisy Hessian."""
    left = Fraction(line["used"]) - _spent_on_intervals(release.found, line)
    return left >= 0 and bool(release.covers(line["weight"], left))


def add_up(release: Any, lines: Sequence[Part]) -> bool:
    """Whether all weights, and those in a noisy Hessian, add up to what is stated."""
    stated, weights = release.found.get("intervals"), [line["weight"] for line in lines]
    hessian = 0 if stated is None else Fraction(stated["unit"]) * int(stated["weight_total"])
    if sum(_spent_on_intervals(release.found, line) for line in lines) != hessian:
        return False
    if release.whole_total is None:
        return bool(math.fsum(weights) <= release.found["weight_total"])
    return bool(exact_sum(weights) == release.whole_total)


def _intervals_problems(found: Part, loss: Part, size: int, *, clips: bool) -> list[str]:
    """Say if a Hessian of so many coefficients has other numbers than one triangle and a squared length.

    The length is released where gradients are clipped, or a label moves the curvature.
    """
    stated = found.get("intervals")
    if stated is None:
        return []
    squares = clips or loss.get("shift", (0.0, 0.0))[1] != 0.0
    good = len(stated["cells"]) == size * (size + 1) // 2 + squares and (stated["clip"] is not None) == clips
    return [] if good else ["intervals"]


FAMILIES: dict[str, Any] = {"norm": NormRelease, "descent": DescentRelease, "statistics": StatisticsRelease}


def _inner(t: Any, start: Any, end: Any, bend: Any) -> Any:
    return start * (1 - t) + end * t + bend * t * (1 - t)


def _slope(alpha: Any, c: Any, t: Any, terms: Sequence[Term]) -> Any:
    return alpha + sum(
        m * c * (end - start + bend * (1 - 2 * t)) / (1 + c * _inner(t, start, end, bend))
        for m, start, end, bend in terms
    )


def _maximiser(alpha: float, c: float, terms: Sequence[Term]) -> float:
    """Return about where f is largest: by halving, in floats."""
    if _slope(alpha, c, 1.0, terms) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _slope(alpha, c, middle, terms) > 0.0 else (low, middle)
    return low


def constants_of(terms: Part) -> SimpleNamespace | None:
    """Return what the cost of a weight follows from; None for a loss out of range."""
    loss = _softmax(terms["loss"]) if terms["loss"]["kind"] == "softmax" else _sigmoid(terms["loss"])
    if loss is None:
        return None
    found = SimpleNamespace(**loss, **_norm(terms["norm"]))
    if terms["private"] == "labels":
        if found.span is None:
            return None
        found.reach, found.bounds = found.span / 2, [[]]
        return found
    rows, n = Fraction(terms["rows_per_person"]), found.coefficients
    found.bounds = [[(m * rows, p / rows, q / rows, v / rows) for m, p, q, v in found.terms]]
    if rows > n:
        size = Fraction(n * found.rank)
        spread = [sum(term[0] * term[k] for term in found.terms) / size for k in (1, 2, 3)]
        found.bounds.append([(size, *spread)])
    return found


def _softmax(loss: Part) -> dict[str, Any]:
    k = Fraction(loss["classes"])
    others = k - 1
    terms = [(Fraction(1), Fraction(0), Fraction(0), k / others)]
    if others > 1:
        terms.append((others - 1, Fraction(0), 1 / others, Fraction(0)))
    return {"outputs": k, "rank": others, "reach": Fraction(2), "span": Fraction(2), "terms": terms,
            "curvature_1": Fraction(1), "third": 2 - 2 / k, "relative_third": Fraction(2)}  # fmt: skip


def _sigmoid(loss: Part) -> dict[str, Any] | None:
    scale, slope = Fraction(loss["scale"]), Fraction(loss["slope"])
    (shift, moved), (target, by), (low, high) = (
        map(Fraction, loss[name]) for name in ("shift", "target", "labels")
    )
    targets = sorted((target + by * low, target + by * high))
    shifts = max(abs(shift + moved * low), abs(shift + moved * high))
    labelled = -_MOST_LABEL <= low <= high <= _MOST_LABEL and shifts <= _MOST_SHIFT
    if not labelled or targets[0] < 0 or targets[1] > 1:
        return None
    far, kappa = max(targets[1], 1 - targets[0]), scale * slope
    return {
        "outputs": 1,
        "rank": 1,
        "reach": scale * far,
        "span": scale * (targets[1] - targets[0]) if moved == 0 else None,
        "terms": [(Fraction(1), kappa * far * (1 - far), Fraction(0), kappa * far * far)],
        "curvature_1": kappa / 4,
        "third": scale * slope * slope * sqrt_up(Fraction(1, 3)) / 6,
        "relative_third": slope,
    }


def _norm(norm: Part) -> dict[str, Any]:
    """Return the sizes that the norm gives rows with their constant."""
    separate, c = norm["separate"], Fraction(norm["constant"] or 0)
    n = len(separate) + (norm["constant"] is not None)
    root = sqrt_up(Fraction(n))
    if any(separate):
        joint, bound = len(separate) - sum(separate), 1 + c
        long = min(sqrt_up(Fraction(norm["euclidean_bound"]) ** 2 + c * c), bound)
        sums = min(root * long, sqrt_up(Fraction(max(joint, 1))) * bound)
        ones = (sqrt_up(Fraction(joint)) if joint else 0) + n - joint
    else:
        bound = long = sqrt_up(1 + c * c) if c else Fraction(1)
        sums, ones = root * bound, root
    return {"coefficients": n, "row_bound": bound, "row_bound_2": long, "largest_sum": sums, "ones": ones}


def _statistic_problems(one: Part, rows: float) -> list[str]:
    question, numbers = one["question"], one["numerators"]
    kind, labels = question["kind"], question.get("categories", question.get("names", ["one"]))
    edges, candidates = question.get("edges"), question.get("candidates", ())
    # By how many times a weight one person's replaced records move what is released.
    moved = 1 if kind in ("mean", "share") or (kind == "histogram" and len(labels) == 2) else 2
    expected = 1 if moved == 1 else len(labels)
    if kind == "quantile":
        expected = 3 if question["interval_share"] > 0.0 else 1
    tests = {
        "question": question["rows_per_person"] == rows
        and (kind != "mean" or question["low"] < question["high"])
        and len(labels) >= (2 if kind == "histogram" else 1)
        and (edges is None or len(edges) == len(labels) + 1),
        "total_weight": 1 <= int(one["total_weight"]) <= _LARGEST_WEIGHT,
        "noise_scale": Fraction(one["noise_scale"])
        == moved * _PARTS / Fraction(2) ** int(one["unit_exponent"]),
        "numerators": len(numbers) == expected
        and (not candidates or all(0 <= int(place) < len(candidates) for place in numbers)),
    }
    return [name for name, good in tests.items() if not good]


def _model_problems(model: Part, loss: Part, norm: Part | None, shape: tuple[int, int]) -> list[str]:
    """Return the names of what does not fit together; ``shape`` is that of coefficients without a norm."""
    features, classes, outputs = model["features"], model["classes"], int(loss.get("classes") or 1)
    names, low, high = features["name"], features["low"], features["high"]
    network = loss["kind"] == "torch"  # with weights of its own, whatever its features
    counts = {len(norm["separate"])} if norm is not None else {shape[1], shape[1] - 1}
    bounded = len(low) == len(high) == len(names) and all(a < b for a, b in zip(low, high, strict=True))
    counted = bool(names) and (network or len(names) in counts)
    tests = {
        "coefficients": norm is not None or shape[0] == (1 if network else outputs),
        "scale, shift, target or labels of the loss": loss["kind"] != "sigmoid"
        or _is_known(loss, two_classes=classes is not None),
        "features": counted and bounded,
        "classes": outputs == 1 if classes is None else len(classes) == max(outputs, 2),
        "encoder": model["encoder"] is None or (counted and _is_declared(model["encoder"], names, norm)),
    }
    return [name for name, good in tests.items() if not good]


def _is_known(loss: Part, *, two_classes: bool) -> bool:
    """Whether a loss is of labels 0 to 1 (logistic, hinge) or of residuals (quantile, log-cosh).

    A loss times s is the same model as the penalty divided by s, and is stated in that way.
    """
    scale, slope, (low, high) = loss["scale"], loss["slope"], loss["labels"]
    if two_classes or loss["target"][1] != 0.0:
        return bool(scale == 1.0 and loss["target"] == loss["labels"] == [0.0, 1.0])
    of_residuals = loss["shift"] == [0.0, -slope] and low < high
    return bool(of_residuals and (scale == 1.0 or abs(scale * slope - 4.0) <= _ROOM))


def _is_declared(encoder: Part, features: list[str], norm: Part | None) -> bool:
    """Whether an encoder makes these features, and rows as short as their norm says."""
    names: list[str] = []
    numbers: list[str] = []
    groups = 0
    for name, part in encoder["columns"].items():
        levels = [level if type(level) is str else number_text(level) for level in part.get("categories", [])]
        levels += ["yes"] * ("boolean" in part) + ["other"] * part.get("other", False)
        levels += ["missing"] * part.get("missing_category", False)
        if "low" in part or "first" in part:
            numbers.append(name)
        names += [f"{name}={level}" for level in levels]
        groups += bool(levels)
    # Canonical JSON sorts what is declared; the order of the columns is that of the features.
    if sorted([*numbers, *names]) != sorted(features):
        return False
    if norm is None or not any(norm["separate"]):
        return True
    joint = [name for name, apart in zip(features, norm["separate"], strict=True) if not apart]
    length = min(encoder["radius"], math.sqrt(len(numbers)))
    largest = length + groups if joint else math.sqrt(len(numbers)) * length + groups
    shortest = (length**2 + groups) / largest**2
    fits = not joint or sorted(joint) == sorted(numbers)
    return fits and norm["euclidean_bound"] ** 2 >= shortest * (1.0 - _ROOM)
