"""Intervals for coefficients and predictions, as methods of every private linear model.

Their law and target: :mod:`dpmarket.learning.spread`. Nothing here reads a record or spends an epsilon. Each
single interval holds its target as often as ``level`` says; several do not do so together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from dpmarket.arrays import FloatArray
from dpmarket.display import html_grid
from dpmarket.learning.spread import norm_and_loss, released, rows_of, spread_of, unit_of
from dpmarket.privacy.noise_norm import NoiseNorm

if TYPE_CHECKING:
    import polars as pl


class Interval(NamedTuple):
    """Ends of intervals, and whether rows had to be guessed.

    Attributes
    ----------
    low, high, approximate
        Ends, in the shape of what the interval is about; and whether there were neither public rows nor a
        noisy Hessian.
    """

    low: FloatArray
    high: FloatArray
    approximate: bool


@dataclass(frozen=True, eq=False)
class CoefficientSummary:
    """Estimates with their uncertainty: a row for each coefficient.

    Attributes
    ----------
    names, estimates, noise, sampling
        A name and the released value of each coefficient, intercepts last; and the standard deviations of the
        two parts of its error.
    low, high, level, approximate
        Ends of the interval, how often such intervals hold their target, and whether rows were guessed.
    """

    names: tuple[str, ...]
    estimates: FloatArray
    noise: FloatArray
    sampling: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    approximate: bool

    @property
    def _title(self) -> str:
        rough = ", approximate: no public rows" if self.approximate else ""
        return f"{self.level:.4g} intervals for the penalised coefficients of the population{rough}"

    def _columns(self) -> dict[str, Any]:
        numbers = (self.estimates, self.noise, self.sampling, self.low, self.high)
        named = zip(("estimate", "noise", "sampling", "low", "high"), numbers, strict=True)
        return {"coefficient": list(self.names), **{name: values.tolist() for name, values in named}}

    def to_frame(self) -> pl.DataFrame:
        """Return a row per coefficient: estimate, noise and sampling part, ends of the interval."""
        import polars as pl

        return pl.DataFrame(self._columns())

    def __repr__(self) -> str:
        _, *columns = self._columns().items()
        first = max(map(len, ("coefficient", *self.names)))
        texts = [[text.ljust(first) for text in ("coefficient", *self.names)]]
        for name, values in columns:
            own = [name, *(f"{value:.4g}" for value in values)]
            texts.append([text.rjust(max(map(len, own))) for text in own])
        return "\n".join([self._title, *map("  ".join, zip(*texts, strict=True))])

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
        return html_grid(self._title, rows)

    def plot(self, axes: Any = None) -> Any:
        """Draw estimates with their intervals and, thicker, what noise makes of them; None makes new axes."""
        if axes is None:
            from matplotlib.figure import Figure

            size = (4.8, 1.0 + 0.28 * len(self.names))
            axes = Figure(figsize=size, layout="constrained").add_subplot()
        places = np.arange(len(self.names))[::-1]
        axes.axvline(0.0, color="#000000", linewidth=0.8)
        axes.hlines(places, self.low, self.high, color="#0072B2", label=f"{self.level:.4g} interval")
        ends = self.estimates - self.noise, self.estimates + self.noise
        axes.hlines(places, *ends, color="#D55E00", linewidth=4.0, alpha=0.6, label="noise, one deviation")
        axes.plot(self.estimates, places, "o", color="#0072B2", markersize=4.5)
        axes.set_yticks(places, list(self.names))
        axes.set_xlabel("coefficient" + (" (approximate)" if self.approximate else ""))
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        return axes


class IntervalsMixin:
    """How sure a fitted linear model is; one with another link than the identity has its own ``_linked``."""

    def _linked(self, scores: FloatArray) -> FloatArray:
        """Return what is predicted at these scores; never falling."""
        return scores

    def coef_interval(self, level: float = 0.9, public_rows: Any = None) -> Interval:
        """Return intervals for ``coef_``, each of which holds its target with probability ``level``.

        ``level`` is at most 0.999. ``public_rows`` are of the same kind as the private ones, as ``fit`` takes
        them, two or more for each coefficient; or a pair of rows and labels, which support vectors need, and
        which makes intervals of regressions narrower. None means the noisy Hessian if ``fit`` was given
        ``intervals=``, else a stand-in; the interval is wide and marked approximate then.
        """
        found = self.summary(level, public_rows)
        size, shape = np.size(self.coef_), np.shape(self.coef_)  # type: ignore[attr-defined]
        low, high = (ends[:size].reshape(shape) for ends in (found.low, found.high))
        return Interval(low, high, found.approximate)

    def predict_interval(self, X: Any, level: float = 0.9, public_rows: Any = None) -> Interval:
        """Return intervals for predictions, each of which holds its target with probability ``level``.

        Probabilities, in the shape of ``predict_proba``, where the model has them; scores of support vectors;
        expected labels of regressions. They are about the model's prediction, not about a new person's label.
        ``level`` and ``public_rows`` are as for :meth:`coef_interval`.
        """
        spread = spread_of(self, public_rows)
        norm, loss = norm_and_loss(self)
        rows = rows_of(self, X, norm)
        scores, unit = self._outputs(X), unit_of(self)  # type: ignore[attr-defined]
        if loss.outputs == 1:
            half = spread.half_widths(rows * unit, level)
            low, high = self._linked(scores[:, 0] - half), self._linked(scores[:, 0] + half)
            if hasattr(self, "predict_proba"):
                low, high = np.column_stack([1.0 - high, low]), np.column_stack([1.0 - low, high])
            return Interval(low, high, spread.approximate)
        chances = np.clip(self.predict_proba(X), 1e-12, 1.0 - 1e-12)  # type: ignore[attr-defined]
        low, high = np.empty_like(chances), np.empty_like(chances)
        for k, own in enumerate(chances.T):
            # To first order the log odds of a class move by its score less the mean of the others' scores.
            slopes = -chances / (1.0 - own)[:, None]
            slopes[:, k] = 1.0
            half = spread.half_widths(_directions(rows * unit, slopes), level)
            low[:, k], high[:, k] = expit(logit(own) - half), expit(logit(own) + half)
        return Interval(low, high, spread.approximate)

    def summary(self, level: float = 0.9, public_rows: Any = None) -> CoefficientSummary:
        """Return a table of coefficients and intercepts; arguments are as for :meth:`coef_interval`."""
        spread = spread_of(self, public_rows)
        norm, loss = norm_and_loss(self)
        k, n, features = loss.outputs, norm.n_coefficients, len(norm.separate)
        # What all outputs of a softmax have in common is taken out of its coefficients.
        centred = np.eye(k) - (1.0 / k if k > 1 else 0.0)
        units = np.full(n, unit_of(self))
        units[features:] *= norm.constant or 1.0
        directions = (centred[:, None, :, None] * np.diag(units)[None, :, None, :]).reshape(k, n, k * n)
        order = [directions[:, :features].reshape(-1, k * n), directions[:, features:].reshape(-1, k * n)]
        estimates = released(self, norm) * units
        center = float(getattr(self, "center", 0.0))
        flat = [estimates[:, :features].ravel(), estimates[:, features:].ravel() + center]
        wanted, values = np.vstack(order), np.concatenate(flat)
        sampling, noise = spread.parts(wanted)
        half = spread.half_widths(wanted, level)
        return CoefficientSummary(
            names=_names(self, norm),
            estimates=values,
            noise=np.sqrt(noise.sum(axis=1)),
            sampling=np.sqrt(sampling),
            low=values - half,
            high=values + half,
            level=float(level),
            approximate=spread.approximate,
        )


def _names(model: Any, norm: NoiseNorm) -> tuple[str, ...]:
    numbered = [f"x{j}" for j in range(len(norm.separate))]
    columns = [str(name) for name in getattr(model, "feature_names_in_", numbered)]
    outputs = [f"{label}: " for label in getattr(model, "classes_", ())]
    outputs = outputs if len(outputs) > 2 else [""]
    ends = [f"{output}intercept" for output in outputs] if norm.constant is not None else []
    return tuple([f"{output}{column}" for output in outputs for column in columns] + ends)


def _directions(rows: FloatArray, outputs: FloatArray) -> FloatArray:
    """Return, for each row, the direction of this combination of outputs, shape (rows, D)."""
    return np.asarray((outputs[:, :, None] * rows[:, None, :]).reshape(len(rows), -1))
