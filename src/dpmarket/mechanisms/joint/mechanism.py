"""Turn reports and records into promises, payments and a model, chosen together (the paper's Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective, max_epsilon
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs import CostDistribution, virtual_costs
from dpmarket.errors import InvalidInput
from dpmarket.learning.row_bounds import scales_for
from dpmarket.mechanisms.inputs import check_dist_and_objective, one_cost, position
from dpmarket.mechanisms.joint.optimum import Setting, Solved, solve
from dpmarket.mechanisms.joint.outcome import JointOutcome
from dpmarket.mechanisms.joint.payments import PaymentRule, exact_rule_for
from dpmarket.mechanisms.joint.problem import losses
from dpmarket.mechanisms.joint.readings import ExpectedNoise, Reading
from dpmarket.mechanisms.joint.solvers import InnerSolver, ReducedSolver
from dpmarket.mechanisms.outcome import checked_ids
from dpmarket.mechanisms.protocol import Response
from dpmarket.privacy import NoiseSource, SecureNoise
from dpmarket.progress import Progress

_ACCURACY = 1e-14


@dataclass(frozen=True)
class RandomStarts:
    """Starting points for the coefficients from a standard normal, as in the paper; the same for one seed.

    Parameters
    ----------
    count
        How many, besides the origin; whole, at least 0.
    seed
        Of the generator; whole, at least 0. Fixed, so that the mechanism is a function of its input.

    Examples
    --------
    >>> starts = RandomStarts(count=3, seed=1)
    >>> starts.draw(n_coefficients=2).shape, bool((starts.draw(2) == starts.draw(2)).all())
    ((3, 2), True)
    """

    count: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole("count", self.count)
        checks.whole("seed", self.seed)

    def draw(self, n_coefficients: int) -> FloatArray:
        """Return the starting points, shape (count, n_coefficients)."""
        return np.random.default_rng(self.seed).standard_normal((self.count, n_coefficients))


@dataclass(frozen=True)
class JointMechanism:
    """Choose weights, noise rate and coefficients together, from reports and records.

    Minimises ``<a, loss(w)> + 2b.w/eta + l2/2*|w|^2 + concentration*|a|^2 + noise/eta +
    payment_weight*eta*<a, psi>``. **The outcome carries no privacy certificate**: weights that are chosen by
    looking at the records are themselves a release (see the page on the data-dependent mechanism).

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge.
    objective
        The buyer's objective. Here ``concentration`` multiplies the *squared* norm of the weights, as in the
        paper's appendix, and not the norm.
    l2
        The ridge penalty Lambda, > 0.
    reading
        How the noise enters: :class:`ExpectedNoise` (None) or :class:`BoundedCoefficients`.
    solver
        :class:`ReducedSolver` (None), :class:`PaperDescent`, or :class:`GreedySolver` for ``concentration =
        0``.
    payments
        How sellers are paid. None: exactly, by :class:`EnvelopePayments` for uniform costs and
        :class:`QuadraturePayments` for others. :class:`ExpectedPayments` is cheap, and for plots.
    mean_epsilons
        Noise rates to try, divided by the number of sellers; above 0, increasing. None: a grid that covers
        every noise rate at which the objective can be stationary.
    starts
        Further starting points, used where strict convexity is not certain.
    noise_source
        Where the noise b comes from; None: the operating system's entropy.

    Notes
    -----
    Paper, appendix "Data Dependent Payments", Algorithm 4 and theorem `convexify`. With exact payments truth
    is every seller's best report if each solution is the global minimum. At each noise rate it is so where
    ``convexity > 1`` (in the outcome); elsewhere it is the best that the starting points led to. Over total
    epsilons, every valley that the grid shows is refined; with :class:`ExpectedNoise` and ``convexity > 1``
    it is proved that there is no better one (``optimality_gap``).

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> mechanism = JointMechanism(Uniform(1, 5), BuyerObjective(5.0, 1.0, 0.01), l2=1.0)
    >>> X = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]]
    >>> outcome = mechanism.run([1.5, 2.0, 2.5, 4.9], X, [1, -1, 1, -1])
    >>> bool((outcome.payments >= outcome.epsilons * [1.5, 2.0, 2.5, 4.9]).all()), outcome.certifiable
    (True, False)
    """

    dist: CostDistribution
    objective: BuyerObjective
    l2: float
    reading: Reading | None = None
    solver: InnerSolver | None = None
    payments: PaymentRule | None = None
    mean_epsilons: object = None
    starts: RandomStarts = RandomStarts()
    noise_source: NoiseSource | None = None

    def __post_init__(self) -> None:
        check_dist_and_objective(self.dist, self.objective)
        checks.positive("payment_weight", self.objective.payment_weight)
        object.__setattr__(self, "l2", checks.positive("l2", self.l2))
        for name, kind, default in (
            ("reading", Reading, ExpectedNoise()),
            ("solver", InnerSolver, ReducedSolver()),
            ("payments", PaymentRule, exact_rule_for(self.dist)),
        ):
            value = default if getattr(self, name) is None else getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, type):
                raise InvalidInput(f"expected {name} to be a {kind.__name__}, got {type(value).__name__}.")
            object.__setattr__(self, name, value)
        self.rule.check(self.dist)
        if not isinstance(self.starts, RandomStarts):
            raise InvalidInput(f"expected starts to be RandomStarts, got {type(self.starts).__name__}.")
        if self.mean_epsilons is not None:
            grid = checks.finite_vector("mean_epsilons", self.mean_epsilons).copy()
            bound = self.objective.max_mean_epsilon
            if not (grid[0] > 0.0 and bool((np.diff(grid) > 0.0).all())):
                raise InvalidInput("expected mean_epsilons to be > 0 and increasing.")
            if bound is not None and grid[-1] > bound:
                raise InvalidInput(f"expected mean_epsilons <= max_mean_epsilon={bound!r}.")
            object.__setattr__(self, "mean_epsilons", tuple(grid.tolist()))
        if self.noise_source is None:
            object.__setattr__(self, "noise_source", SecureNoise())
        elif not callable(getattr(self.noise_source, "draw", None)):
            raise InvalidInput("expected noise_source to be None or a noise source with a method draw.")

    @property
    def rule(self) -> PaymentRule:
        """The payment rule in use."""
        assert self.payments is not None
        return self.payments

    def run(
        self,
        reported_costs: object,
        X: object,
        y: object,
        seller_ids: object = None,
        progress: Progress | None = None,
    ) -> JointOutcome:
        """Decide every seller's promise and payment, and train the model.

        Parameters
        ----------
        reported_costs
            Money per unit of epsilon, finite, at least 0, shape (m,).
        X
            Records, shape (m, n), rows of Euclidean norm at most 1. Nothing is added: for a constant, make it
            a column.
        y
            Labels -1 and +1, shape (m,).
        seller_ids
            Texts or whole numbers, all different, in the same order; None: 0, 1, 2, ...
        progress
            Called with the number of sellers paid and the number to be paid.

        Raises
        ------
        InvalidInput
            Reports, records or labels that are none. No message contains a value of theirs.
        Infeasible
            No weights meet the cap, no noise rate is best, or the noise that was drawn is too long for the
            reading. The message says what to change.
        NotConverged
            A solver did not reach its tolerance.
        """
        return self.with_records(X, y).run(reported_costs, seller_ids, progress)

    def with_records(self, X: object, y: object) -> JointMarket:
        """Return the mechanism with its records filled in and its noise drawn: sellers can then only report.

        The result obeys the :class:`~dpmarket.mechanisms.protocol.Mechanism` protocol. Its noise is the same
        for all reports, as it must be for one seller's reports to be compared.
        """
        signed = _signed_rows(X, y)
        assert self.noise_source is not None
        assert self.reading is not None
        assert self.solver is not None
        n = signed.shape[1]
        # With a noise rate of 2 the noise of the objective, 2b/eta, is b itself.
        noise, _ = self.noise_source.draw(n, 2.0, _ACCURACY).high_low()
        grid = None if self.mean_epsilons is None else np.array(self.mean_epsilons)
        return JointMarket(
            self,
            Setting(
                signed,
                noise,
                self.objective,
                self.l2,
                self.reading,
                self.solver,
                self.starts.draw(n),
                grid,
            ),
        )


@dataclass(frozen=True, eq=False)
class JointMarket:
    """A :class:`JointMechanism` with records and noise; made by its ``with_records``. Holds private data.

    Attributes
    ----------
    mechanism
        What it was made from.
    setting
        The records, the noise and everything else but the reports.
    """

    mechanism: JointMechanism
    setting: Setting

    def __repr__(self) -> str:
        return f"JointMarket({self.setting.signed_rows.shape[0]} records)"

    def run(
        self, reported_costs: object, seller_ids: object = None, progress: Progress | None = None
    ) -> JointOutcome:
        """Decide every seller's promise and payment, and train the model: see :meth:`JointMechanism.run`."""
        costs = self._costs(reported_costs)
        ids = checked_ids(seller_ids, costs.size)
        solved = solve(self.setting, virtual_costs(costs, self.mechanism.dist))
        epsilons = self._epsilons(solved)
        bought = np.flatnonzero(epsilons > 0.0)
        paid = self.mechanism.rule.pay(solved, self.mechanism.dist, costs, bought, progress)
        payments, errors = np.zeros(costs.size), np.zeros(costs.size)
        payments[bought], errors[bought] = paid.payments, paid.errors
        return self._outcome(solved, ids, epsilons, payments, errors)

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        costs = self._costs(reported_costs).copy()
        i = position(costs, i)
        costs[i] = one_cost("report", report)[0]
        psi = virtual_costs(costs, self.mechanism.dist)
        if np.isinf(psi[i]):
            return Response(0.0, 0.0)
        solved = solve(self.setting, psi)
        epsilon = float(self._epsilons(solved)[i])
        if epsilon == 0.0:
            return Response(0.0, 0.0)
        paid = self.mechanism.rule.pay(solved, self.mechanism.dist, costs, np.array([i]))
        return Response(epsilon, float(paid.payments[0]))

    def _costs(self, reported_costs: object) -> FloatArray:
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        checks.same_length("reported_costs", costs, "X", self.setting.signed_rows)
        return costs

    def _epsilons(self, solved: Solved) -> FloatArray:
        wanted = solved.best.inner.weights * solved.best.noise_rate
        return np.minimum(solved.spread(wanted), max_epsilon(self.mechanism.objective))

    def _outcome(
        self, solved: Solved, ids: FloatArray, epsilons: FloatArray, payments: FloatArray, errors: FloatArray
    ) -> JointOutcome:
        mechanism, setting, best = self.mechanism, self.setting, solved.best
        eta, w, a = best.noise_rate, best.inner.coefficients, best.inner.weights
        problem = setting.problem(solved.buyable, eta)
        objective = mechanism.objective
        assert mechanism.reading is not None
        return JointOutcome(
            seller_ids=ids,
            epsilons=epsilons,
            payments=payments,
            payment_errors=errors,
            payment_rule=mechanism.rule,
            loss_weights=solved.spread(a),
            noise_rate=eta,
            coefficients=setting.train(solved.buyable, best).coefficients,
            training_loss=float(a @ losses(problem, w)),
            pull_part=float(problem.pull @ w),
            ridge_part=0.5 * setting.l2 * float(w @ w),
            concentration_part=objective.concentration * float(a @ a),
            noise_part=objective.noise / eta,
            payment_part=float(a @ problem.prices),
            residual=best.inner.residual,
            grid=np.array([trial.noise_rate for trial in solved.search.grid]),
            grid_values=np.array([trial.value for trial in solved.search.grid]),
            local_minima=len(solved.search.minima),
            edge=solved.search.edge,
            optimality_gap=solved.search.gap,
            trace=np.array(best.inner.trace) + objective.noise / eta,
            convexity=setting.convexity,
            paper_convexity=2.0 * setting.l2 * objective.concentration / setting.signed_rows.shape[0],
            stationary_points=solved.stationary_points,
            parameters={
                "distribution": mechanism.dist.to_dict(),
                "objective": objective.to_dict(),
                "l2": setting.l2,
                "reading": mechanism.reading.to_dict(),
            },
        )


def _signed_rows(X: object, y: object) -> FloatArray:
    """Return ``y_i * x_i`` for checked records, or refuse them without quoting a value."""
    rows = checks.finite_numbers("X", X)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidInput(f"expected X of shape (records, features), none of them 0, got {rows.shape}.")
    signs = checks.finite_vector("y", y)
    checks.same_length("y", signs, "X", rows)
    wrong = int((np.abs(signs) != 1.0).sum())
    if wrong:
        raise InvalidInput(f"expected every label in y to be -1 or +1, found {wrong} that are not.")
    longer = int((scales_for(np.ascontiguousarray(rows)) < 1.0).sum())
    if longer:
        raise InvalidInput(
            f"expected every row of X to have Euclidean norm at most 1, found {longer} longer. Scale with "
            "public bounds (PublicScaler)."
        )
    return read_only(np.ascontiguousarray(signs[:, None] * rows))
