"""The text form of cost distributions, for rules files: ``uniform(1, 5)``, ``lognorm(s=0.5, high=10)``.

Text is read as a formula, never run: names of distributions called with numbers, and weighted sums of them
for mixtures, such as ``0.7*uniform(0, 1) + 0.3*gamma(a=2, scale=3, high=20)``.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from dpmarket.costs.distribution import CostDistribution, Mixture, Uniform
from dpmarket.errors import InvalidInput

FAMILIES = (
    "arcsine", "beta", "betaprime", "burr", "burr12", "cauchy", "chi", "chi2", "cosine", "expon",
    "exponweib", "exponpow", "fisk", "foldnorm", "gamma", "genexpon", "genextreme", "genlogistic",
    "genpareto", "gumbel_l", "gumbel_r", "halfcauchy", "halflogistic", "halfnorm", "invgamma", "invgauss",
    "invweibull", "johnsonsb", "johnsonsu", "laplace", "levy", "loggamma", "logistic", "loglaplace",
    "lognorm", "loguniform", "lomax", "maxwell", "mielke", "norm", "pareto", "powerlaw", "rayleigh",
    "reciprocal", "t", "trapezoid", "triang", "truncexpon", "truncnorm", "wald", "weibull_max",
    "weibull_min",
)  # fmt: skip
"""Families of ``scipy.stats`` whose quantiles are fast: a rules file may come from anybody."""
_LONGEST = 1_000
_MOST_PARTS = 1_000
_EXAMPLE = "such as 'uniform(1, 5)' or '0.7*uniform(0, 1) + 0.3*lognorm(s=0.5, scale=2, high=20)'"


def parse_distribution(text: str) -> CostDistribution:
    """Return the distribution of a formula: uniform, any continuous one of ``scipy.stats``, or a mixture.

    Parameters
    ----------
    text
        Names and plain numbers only.

    Returns
    -------
    CostDistribution
        As written.

    Examples
    --------
    >>> parse_distribution("0.7*uniform(0, 1) + 0.3*lognorm(s=0.5, scale=2, high=20)").support
    (0.0, 20.0)
    """
    text = str(text)
    if len(text) > _LONGEST:
        raise InvalidInput(f"expected a cost distribution {_EXAMPLE}, got {len(text):,} characters.")
    try:
        terms = _terms(ast.parse(text.strip(), mode="eval").body)
    except InvalidInput:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise InvalidInput(f"expected a cost distribution {_EXAMPLE}, got {text!r}.") from None
    weights = [weight for weight, _ in terms if weight is not None]
    if len(terms) == 1 and not weights:
        return terms[0][1]
    if len(weights) < len(terms):
        raise InvalidInput(f"expected every part of a mixture to have a weight, {_EXAMPLE}, got {text!r}.")
    return Mixture([dist for _, dist in terms], weights)


def distribution_from_dict(data: Mapping[str, Any]) -> CostDistribution:
    """Return the distribution whose ``to_dict`` gave this data."""
    try:
        kind = data["kind"]
        if kind == "uniform":
            return Uniform(data["low"], data["high"])
        if kind == "mixture" and len(data["distributions"]) <= _MOST_PARTS:
            return Mixture([distribution_from_dict(part) for part in data["distributions"]], data["weights"])
        if kind == "scipy":
            high = math.inf if data["high"] is None else data["high"]
            return _from_scipy(data["name"], [], dict(data["parameters"]), data["low"], high)
    except (KeyError, TypeError) as problem:
        raise InvalidInput(
            f"expected the plain data of a cost distribution, found {problem} missing or of a wrong type."
        ) from None
    raise InvalidInput("expected kind to be uniform, mixture or scipy.")


def _terms(node: ast.expr) -> list[tuple[float | None, CostDistribution]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _terms(node.left) + _terms(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [(_number(node.left), _call(node.right))]
    return [(None, _call(node))]


def _call(node: ast.expr) -> CostDistribution:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError
    positional = [_number(argument) for argument in node.args]
    named = {keyword.arg or "**": _number(keyword.value) for keyword in node.keywords}
    if node.func.id == "uniform":
        return Uniform(*positional, **named)
    return _from_scipy(node.func.id, positional, named, named.pop("low", None), named.pop("high", None))


def _from_scipy(
    name: str, positional: list[float], named: dict[str, float], low: float | None, high: float | None
) -> CostDistribution:
    from scipy import stats

    if name not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise InvalidInput(f"expected uniform or one of the scipy.stats distributions {known}; got {name!r}.")
    family = getattr(stats, name)
    try:
        return CostDistribution(family(*positional, **named), low, high)
    except TypeError:
        shapes = ", ".join(filter(None, (family.shapes, "loc", "scale", "low", "high")))
        raise InvalidInput(f"expected {name} with parameters {shapes}.") from None


def _number(node: ast.expr) -> float:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.Name) and node.id == "inf":
        return math.inf
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError
