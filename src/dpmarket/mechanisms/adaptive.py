"""Sellers one by one when costs are not known: learn from past reports, and plan again, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs import CostDistribution, distribution_from_dict
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.books import Books
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.inputs import check_dist_and_objective, position, settings_of
from dpmarket.mechanisms.offline import ResponseCurve
from dpmarket.mechanisms.quotes import Quotes
from dpmarket.mechanisms.quoting import QuotingMarket
from dpmarket.mechanisms.refitting import keep_prior, name_of, refit
from dpmarket.mechanisms.replanning import Bought, plan_curve

SCHEMA = "dpmarket.adaptive-market/1"
Refit = Callable[[FloatArray, CostDistribution], CostDistribution]
_SETTINGS = ("first_epoch", "growth", "pilot_share")
_FITS: dict[str, Refit] = {name_of(fit): fit for fit in (refit, keep_prior)}


class AdaptiveMechanism(QuotingMarket):
    """Quote sellers as they come, knowing the support of costs only, and learn in between.

    Sellers come in epochs. Within an epoch all are quoted by one curve, fixed before its first seller from
    *past* reports only; so truth is everybody's best report, and nobody loses by taking part. Between
    epochs the distribution is fitted again to all reports so far, and the curve is planned again for the
    sellers still expected, given what has been bought. Quotes that are still open count as bought there.

    Parameters
    ----------
    prior
        What is believed before the first report; its support must be finite and right. Where nothing else is
        known: ``Uniform(low, high)``.
    objective
        The buyer's, with concentration, noise and payment weight above 0; fixed beforehand.
    expected_sellers
        How many sellers are expected in all; :meth:`expect` corrects it on the way.
    fit
        Past reports and prior in, belief out; :func:`refit` by default. With :func:`keep_prior`, for costs
        whose distribution is known, only the plan changes from epoch to epoch.
    first_epoch
        Sellers of the first epoch, at least 1.
    growth
        Each epoch multiplies the number of sellers so far by this, > 1.
    pilot_share
        Share of the planned epsilons that the first epoch offers, in (0, 1]. A wrong prior can make the plan
        buy far too much, and too little from few sellers costs little.
    budget, minor_units
        As for :class:`OnlineMechanism`.

    Notes
    -----
    A seller reports once and cannot choose the epoch: let them come in an order that they do not decide.
    The state, saved by :func:`write_market_state`, holds reported costs: it is confidential. So are, in part,
    curves: from the second epoch on a curve, and with it every quote and menu, depends on earlier reports.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmarket.costs import Uniform
    >>> market = AdaptiveMechanism(Uniform(0, 10), BuyerObjective(1.0, 1.0, 1e-2), expected_sellers=200)
    >>> quotes = market.quote_many(np.random.default_rng(0).gamma(2.0, size=200).clip(0, 10))
    >>> market.accept(quotes)
    >>> market.epoch > 3, bool((market.close().epsilons > 0).any())
    (True, True)
    """

    name = "adaptive"

    def __init__(
        self,
        prior: CostDistribution,
        objective: BuyerObjective,
        expected_sellers: int,
        *,
        fit: Refit = refit,
        first_epoch: int = 20,
        growth: float = 1.5,
        pilot_share: float = 0.25,
        budget: float | None = None,
        minor_units: int | None = None,
    ) -> None:
        check_dist_and_objective(prior, objective)
        if not math.isfinite(prior.support[1]):
            raise InvalidInput(
                "expected a prior with a finite upper end: cut it at the highest possible cost."
            )
        if not min(objective.concentration, objective.noise, objective.payment_weight) > 0.0:
            raise InvalidInput(
                "expected concentration, noise and payment_weight > 0 to plan again and again."
            )
        if not callable(fit):
            raise InvalidInput(f"expected fit to be a function, got {type(fit).__name__}.")
        self.prior = prior
        self.objective = objective
        self.first_epoch = checks.whole("first_epoch", first_epoch, 1)
        self.growth = checks.finite("growth", growth)
        if not self.growth > 1.0:
            raise InvalidInput(f"expected growth > 1, got {self.growth!r}.")
        self.pilot_share = checks.positive("pilot_share", pilot_share)
        if self.pilot_share > 1.0:
            raise InvalidInput(f"expected pilot_share to be at most 1, got {self.pilot_share!r}.")
        self._fit = fit
        self._expected = self._first_expected = checks.whole("expected_sellers", expected_sellers, 1)
        self._books = Books(budget, minor_units)
        self._epoch = 0
        self._epoch_end = self.first_epoch
        planned = plan_curve(prior, objective, self._expected, Bought(), self._expected)
        self._curve = planned.scaled(self.pilot_share)

    def __repr__(self) -> str:
        return f"AdaptiveMechanism({self.prior!r}, quoted={self.quoted}, epoch={self._epoch})"

    @property
    def expected_sellers(self) -> int:
        """How many sellers are expected in all, as far as is known now."""
        return self._expected

    @property
    def epoch(self) -> int:
        """The epoch in which the next seller will be quoted, from 0.

        If the last epoch is over, asking for its successor, its curve or its menu begins it: what has been
        shown stays as it was shown.
        """
        self._advance()
        return self._epoch

    @property
    def curve(self) -> Curve:
        """The curve by which the next seller will be quoted; see :attr:`epoch`."""
        self._advance()
        return self._curve

    def expect(self, remaining: int) -> None:
        """Say how many sellers are still to come; an epoch planned for them begins with the next one.

        Whoever says so must know it from elsewhere (the calendar, the number of visitors), not from the
        report of a seller who has not been quoted yet.
        """
        self._books.refuse_closed()
        self._expected = self.quoted + checks.whole("remaining", remaining, 1)
        self._epoch_end = self.quoted

    def quote_many(self, costs: object, seller_ids: object = None) -> Quotes:
        """Quote sellers in the order given: the same as one :meth:`quote` after the other, none declining.

        All of them are quoted, or none if something goes wrong on the way.
        """
        reports = checks.non_negative_vector("costs", costs)
        self._books.refuse_closed()
        ids = self._books.checked_ids(seller_ids, reports.size)
        before = self.quoted, self._epoch, self._epoch_end, self._expected, self._curve
        try:
            return self._quote_by_epochs(reports, ids)
        except BaseException:
            quoted, self._epoch, self._epoch_end, self._expected, self._curve = before
            self._books.withdraw_from(quoted)
            raise

    def _quote_by_epochs(self, reports: FloatArray, ids: list[Any] | None) -> Quotes:
        parts = []
        done = 0
        while done < reports.size:
            self._advance()
            end = min(done + self._epoch_end - self.quoted, reports.size)
            names = None if ids is None else ids[done:end]
            parts.append(self._books.issue(self._curve, reports[done:end], names, self._epoch))
            done = end
        return Quotes(
            parts[0].first,
            read_only(np.concatenate([part.epsilons for part in parts])),
            read_only(np.concatenate([part.payments for part in parts])),
            read_only(np.concatenate([part.epochs for part in parts])),
            self._books.market,
        )

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits."""
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        i = position(costs, i)
        asked = checks.non_negative_vector("reports", reports)
        fresh = self._fresh()
        if i > 0:
            fresh.accept(fresh.quote_many(costs[:i]))
        epsilons, payments = fresh._books.alternatives(fresh.curve, asked)
        return ResponseCurve(read_only(asked.copy()), read_only(epsilons), read_only(payments))

    def settings(self) -> dict[str, Any]:
        """Return what decides how sellers are quoted, as plain data: nothing about who has come.

        ``fit`` stands there by its name; one that cannot be imported by what its ``repr`` says.
        """
        return {
            "mechanism": self.name,
            "distribution": self.prior.to_dict(),
            "objective": self.objective.to_dict(),
            "expected_sellers": self._first_expected,
            **{name: getattr(self, name) for name in _SETTINGS},
            "fit": name_of(self._fit),
            "budget": self._books.budget,
            "minor_units": self._books.minor_units,
        }

    @classmethod
    def from_settings(cls, data: Mapping[str, Any], fit: Refit | None = None) -> AdaptiveMechanism:
        """Make a market with these :meth:`settings`, to which nobody has come yet.

        ``fit`` as in :meth:`from_dict`.
        """
        names = ("distribution", "objective", "expected_sellers", "fit", "budget", "minor_units", *_SETTINGS)
        prior, objective, expected, name, budget, minor_units, *others = settings_of(data, cls.name, *names)
        return cls(
            distribution_from_dict(prior),
            BuyerObjective.from_dict(objective),
            expected,
            fit=_fit_of(name, fit),
            budget=budget,
            minor_units=minor_units,
            **dict(zip(_SETTINGS, others, strict=True)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain data. It holds reported costs: confidential."""
        return {
            "schema": SCHEMA,
            "prior": self.prior.to_dict(),
            "objective": self.objective.to_dict(),
            "expected_sellers": self._expected,
            "first_expected_sellers": self._first_expected,
            **{name: getattr(self, name) for name in _SETTINGS},
            "fit": name_of(self._fit),
            "epoch": self._epoch,
            "epoch_end": self._epoch_end,
            "curve": self._curve.to_dict(),
            "books": self._books.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], fit: Refit | None = None) -> AdaptiveMechanism:
        """Make the market whose ``to_dict()`` gave this data.

        Of ``fit`` the data holds the name only: :func:`refit` and :func:`keep_prior` are found by it, for a
        market with another function give that function again.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InvalidInput(f"expected the plain data of a market with schema {SCHEMA!r}.")
        try:
            market = cls(
                distribution_from_dict(data["prior"]),
                BuyerObjective.from_dict(data["objective"]),
                data["first_expected_sellers"],
                fit=_fit_of(data["fit"], fit),
                **{name: data[name] for name in _SETTINGS},
            )
            market._expected = checks.whole("expected_sellers", data["expected_sellers"], 1)
            market._epoch = checks.whole("epoch", data["epoch"])
            market._epoch_end = checks.whole("epoch_end", data["epoch_end"])
            market._curve = Curve.from_dict(data["curve"])
            market._books = Books.from_dict(data["books"])
        except KeyError as missing:
            raise InvalidInput(f"expected a whole market, found no {missing}.") from None
        return market

    def _advance(self) -> None:
        """Begin a new epoch if the last one is over: its curve depends on the past only."""
        if self.quoted < self._epoch_end:
            return
        costs, epsilons = self._books.column("cost"), self._books.column("epsilon")
        bought = epsilons[self._books.bought]
        size = max(math.ceil(self.quoted * (self.growth - 1.0)), self.first_epoch)
        # More have come than expected: as many again as this epoch holds are expected.
        self._expected = max(self._expected, self.quoted + (0 if self._expected > self.quoted else size))
        self._curve = plan_curve(
            self._fit(costs, self.prior),
            self.objective,
            self._expected,
            Bought(float(bought.sum()), float(bought @ bought)),
            self._expected - self.quoted,
        )
        self._epoch += 1
        self._epoch_end = self.quoted + size

    def _next_curve(self) -> Curve:
        return self.curve

    def _values(self) -> tuple[BuyerObjective, CostDistribution]:
        return self.objective, self._fit(self._books.column("cost"), self.prior)

    def _fresh(self) -> AdaptiveMechanism:
        return AdaptiveMechanism(
            self.prior,
            self.objective,
            self._first_expected,
            fit=self._fit,
            first_epoch=self.first_epoch,
            growth=self.growth,
            pilot_share=self.pilot_share,
            budget=self._books.budget,
            minor_units=self._books.minor_units,
        )

    def _parameters(self) -> dict[str, Any]:
        settings = {name: value for name, value in self.settings().items() if name != "mechanism"}
        return settings | {"epochs": self._epoch + 1}


def _fit_of(name: object, given: Refit | None) -> Refit:
    """Return the function given, or the one that is known by this name."""
    fit = _FITS.get(str(name)) if given is None else given
    if fit is None:
        raise InvalidInput(
            "expected the market's own fit function, because the data holds its name only: pass fit "
            "to AdaptiveMechanism.from_dict."
        )
    return fit
