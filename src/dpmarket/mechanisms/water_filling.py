r"""The exact, global allocation: water filling for every entry of a public menu of totals.

For one entry (:mod:`~dpmarket.mechanisms.objective`) the weights solve a convex problem,

.. math:: K = \min_a |a|^2 + 2 u \langle \psi, E(a) \rangle, \qquad \sum_{i \in g} a_i = \pi_g, \qquad
          0 \le a_i \le cap,

E the convex, piecewise-linear cost of a weight with slopes :math:`e_1 \le e_2 \le ...` between knots
:math:`b_0 = 0 < b_1 < ...`. At the level :math:`\rho` of a group (its multiplier divided by u) a weight is a
sum of hinges,

.. math:: a(\psi) = \sum_h \left(u (\rho - e_h \psi) - b_{h-1}\right)^+ - \left(u (\rho - e_h \psi) - b_h
          \right)^+,

and the dual function is :math:`K = \max_\rho 2 u \rho \pi - \sum_i W(\psi_i, \rho)` with W the same sum of
*squared* hinges. Virtual costs are sorted once per group, with running sums of 1, x and x^2 (x = psi less the
lowest), so that supply and K at a level are a few binary searches; safeguarded Newton steps find the level.

Soft quotas add :math:`d \sum_g (w_g - \pi_g)^2` to K and fix only the sum of the :math:`w_g`. By duality
this pulls the levels together,

.. math:: K = \max_{\rho, \Lambda} \sum_g \Big(2 u \rho_g \pi_g - \sum_{i \in g} W(\psi_i, \rho_g)\Big)
          - \frac{u^2}{d} \sum_g (\Lambda - \rho_g)^2,

so a common level :math:`\Lambda = \rho_g + (d/u) (w_g - \pi_g)` is found by the same Newton steps, each with
the groups' own levels within.

Intervals of the menu are halved, and cut off by the objective's lower bound of all entries between two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.groups import Group, quotas, weight_caps
from dpmarket.mechanisms.objective import MENU, AnyObjective, PaperObjective

Move = tuple[float, float]
"""The excess of one seller of a stratum, and another one that it becomes."""
Missing = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""What is missing at a level of some rows, and how fast a rising level makes up for it."""
_BLOCK = 4096  # running sums restart as often
_COARSE = 512  # entries between those that are evaluated first
_NEWTON_STEPS = 300
_BALANCED = 1e-13  # relative error of a sum of weights
_ZOOM = 33  # points of each refinement between entries
_ZOOM_END = 1e-8  # relative width at which a refinement ends: the objective is flat to its square


@dataclass(frozen=True, eq=False)
class Stratum:
    """The virtual costs of one group in rising order, with their running sums."""

    table: VirtualCost
    quota: float  # sum of the group's weights
    cap: float  # of one weight
    lowest: float
    excess: FloatArray  # above the lowest, rising, shape (n,)
    counts: FloatArray  # running sums of sellers, of the excess and of its square, shape (n + 1,)
    sums: FloatArray
    squares: FloatArray

    @classmethod
    def of(
        cls, table: VirtualCost, costs: FloatArray, quota: float, cap: float, counts: FloatArray | None = None
    ) -> Stratum:
        """Make a stratum of rising costs; with ``counts`` each stands for that many sellers."""
        virtual_costs = table(costs)
        running = np.arange(costs.size + 1.0) if counts is None else _running_sums(counts)
        lowest = float(virtual_costs[0])
        excess = virtual_costs - lowest
        weighted = excess if counts is None else excess * counts
        sums = _running_sums(weighted)
        squares = _running_sums(weighted * excess)
        return cls(table, quota, cap, lowest, excess, running, sums, squares)

    @property
    def size(self) -> float:
        """How many sellers there are."""
        return float(self.counts[-1])


@dataclass(frozen=True, eq=False)
class Ramps:
    """The hinges of a stratum's weights at several entries; levels are counted from the lowest seller's.

    A seller with excess x reaches a chord at ``starts + steepness * x``; a level plus ``base`` is rho.
    """

    pull: FloatArray  # u of each entry, shape (E,)
    steepness: FloatArray  # slope e of each chord, shape (H,)
    starts: FloatArray  # level at which the lowest seller reaches each chord, shape (E, H)
    widths: FloatArray  # length of each chord in weight, 0 beyond the cap, shape (E, H)
    base: float  # e_1 times the lowest virtual cost

    @classmethod
    def of(cls, stratum: Stratum, table: EpsilonCost, pull: FloatArray, totals: FloatArray) -> Ramps:
        """Return the ramps at entries with these u and totals."""
        steepness = table.slopes
        if table.is_identity:
            knots = np.tile([0.0, stratum.cap], (pull.size, 1))
        else:
            knots = np.minimum(table.shares[None, :] / totals[:, None], stratum.cap)
        beyond = (steepness - steepness[0]) * stratum.lowest
        starts = knots[:, :-1] / pull[:, None] + beyond
        return cls(pull, steepness, starts, np.diff(knots, axis=1), float(steepness[0]) * stratum.lowest)

    @cached_property
    def ends(self) -> FloatArray:
        """Level at which the lowest seller has passed each chord, shape (E, H)."""
        return self.starts + self.widths / self.pull[:, None]

    def at(self, rows: IntArray) -> Ramps:
        """Return the ramps of some of the entries."""
        if rows.size == self.pull.size:
            return self
        return Ramps(self.pull[rows], self.steepness, self.starts[rows], self.widths[rows], self.base)

    @cached_property
    def _before(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Sums over the chords before each: widths, times starts, times steepness, and of squared widths."""
        terms = self.widths, self.widths * self.starts, self.widths * self.steepness, self.widths**2
        return tuple(np.cumsum(term, axis=1) - term for term in terms)  # type: ignore[return-value]

    def hold(self, entry: IntArray, excess: FloatArray, levels: FloatArray) -> Holding:
        """Return what sellers hold at levels of entries, elementwise."""
        pull, n = self.pull[entry], self.steepness.size
        if n == 1:
            ramp = (levels - float(self.steepness[0]) * excess) * pull
            within = np.clip(ramp, 0.0, self.widths[entry, 0])
            return Holding(within, within * (2.0 * ramp - within), pull * (within == ramp))
        # The last chord whose start the level has reached, by halving.
        chord, step = np.zeros(levels.size, dtype=np.int64), 1 << (n - 1).bit_length()
        while step := step >> 1:
            further = np.minimum(chord + step, n - 1)
            reached = self.starts[entry, further] + self.steepness[further] * excess < levels
            chord = np.where(reached, further, chord)
        ramp = (levels - self.starts[entry, chord] - self.steepness[chord] * excess) * pull
        within = np.clip(ramp, 0.0, self.widths[entry, chord])
        widths, starts, steepness, squares = (term[entry, chord] for term in self._before)
        before = 2.0 * pull * (levels * widths - starts - excess * steepness) - squares
        return Holding(widths + within, before + within * (2.0 * ramp - within), pull * (within == ramp))

    def hold_at(self, excess: float, levels: FloatArray) -> Holding:
        """Return what one seller holds at a level of each entry."""
        return self.hold(np.arange(levels.size), np.full(levels.size, excess), levels)


@dataclass(frozen=True, eq=False)
class Holding:
    """What sellers hold: weight, its squared hinges W, and how fast it grows with the level."""

    weights: FloatArray
    squares: FloatArray
    slopes: FloatArray


def supply(
    stratum: Stratum, ramps: Ramps, levels: FloatArray, move: Move | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the sum of weights and its derivative at one level per entry."""
    reach, started, passed = _reached(stratum, ramps, levels)
    slope = stratum.counts[started] - stratum.counts[passed]
    total = slope * reach - (stratum.sums[started] - stratum.sums[passed])
    total *= ramps.steepness * ramps.pull[:, None]
    total += stratum.counts[passed] * ramps.widths
    supplied, slopes = total.sum(axis=1), slope.sum(axis=1) * ramps.pull
    if move is not None:
        after, before = ramps.hold_at(move[1], levels), ramps.hold_at(move[0], levels)
        supplied, slopes = supplied + after.weights - before.weights, slopes + after.slopes - before.slopes
    return supplied, slopes


def inner_values(stratum: Stratum, ramps: Ramps, levels: FloatArray, move: Move | None = None) -> FloatArray:
    """Return K of a hard quota, the dual function, at one level per entry."""
    reach, started, passed = _reached(stratum, ramps, levels)
    scale = ramps.steepness * ramps.pull[:, None]
    count = stratum.counts[started] - stratum.counts[passed]
    first = stratum.sums[started] - stratum.sums[passed]
    squares = (count * reach - 2.0 * first) * reach + (stratum.squares[started] - stratum.squares[passed])
    n = stratum.counts[passed]
    dual = squares * scale**2
    dual += ramps.widths * (2.0 * scale * (n * reach - stratum.sums[passed]) - ramps.widths * n)
    held = dual.sum(axis=1)
    if move is not None:
        held += ramps.hold_at(move[1], levels).squares - ramps.hold_at(move[0], levels).squares
    return np.asarray(2.0 * ramps.pull * (levels + ramps.base) * stratum.quota - held)


def _least_inner_values(stratum: Stratum, ramps: Ramps) -> FloatArray:
    """Return a bound below K, equal weights plus the lowest cost: close where u is too large for the dual."""
    most = ramps.widths.sum(axis=1)
    at = np.searchsorted(stratum.counts, stratum.quota / most, side="right") - 1
    rest = np.maximum(stratum.quota - most * stratum.counts[at], 0.0)
    cost = most * stratum.sums[at] + rest * stratum.excess[np.minimum(at, stratum.excess.size - 1)]
    cost = cost * ramps.steepness[0] + ramps.base * stratum.quota
    return np.asarray(2.0 * ramps.pull * cost + stratum.quota**2 / stratum.size) * (1.0 - 1e-12)


def _reached(stratum: Stratum, ramps: Ramps, levels: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the highest excess on each chord, and how many sellers have started and passed it."""
    reach = (levels[:, None] - ramps.starts) / ramps.steepness
    passed = (levels[:, None] - ramps.ends) / ramps.steepness
    started_at = np.searchsorted(stratum.excess, reach, side="right")
    return reach, started_at, np.searchsorted(stratum.excess, passed, side="right")


def find_levels(
    stratum: Stratum, ramps: Ramps, guess: FloatArray | None = None, move: Move | None = None
) -> FloatArray:
    """Return the level of each entry at which the weights add up to the quota."""
    furthest = max(float(stratum.excess[-1]), 0.0 if move is None else move[1])
    high = ramps.ends[:, -1] + ramps.steepness[-1] * furthest
    if move is None:
        # The lowest seller alone, where the first chord is long enough.
        alone = ramps.widths[:, 0] >= stratum.quota
        high = np.where(alone, np.minimum(high, stratum.quota / ramps.pull), high)

    def missing(levels: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        total, slope = supply(stratum, ramps.at(rows), levels, move)
        return stratum.quota - total, slope

    start = high if guess is None else guess
    return balance(missing, high, start, np.full(high.size, _BALANCED * stratum.quota))


def _elastic_levels(
    stratum: Stratum, ramps: Ramps, common: FloatArray, d: float, start: FloatArray, move: Move | None
) -> FloatArray:
    """Return the stratum's level at each common one: they differ by d/u times the gap to its quota."""
    most = ramps.pull * common + d * stratum.quota

    def missing(levels: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        of = ramps.at(rows)
        total, slope = supply(stratum, of, levels, move)
        return most[rows] - of.pull * levels - d * total, of.pull + d * slope

    if d == 0.0:
        return common
    tolerance = _BALANCED * (d * stratum.quota + 1.0 / stratum.size) + 1e-15 * np.abs(most)
    found = balance(missing, np.maximum(most, 0.0) / ramps.pull, start, tolerance)
    return np.where(most > 0.0, found, most / ramps.pull)


def balance(missing: Missing, high: FloatArray, start: FloatArray, tolerance: FloatArray) -> FloatArray:
    """Return where rising piecewise-linear functions make up for what is missing: safeguarded Newton steps.

    ``missing`` takes levels and the rows that they belong to, and returns what is missing there (at least 0
    at level 0, at most 0 at ``high``) and how fast a rising level makes up for it. Steps that do not halve
    what is missing give way to chords of the bracket, every other one to its halves; a last Newton step
    follows where no more than the ``tolerance`` is missing.
    """
    found, rows = np.clip(start, 0.0, high), np.arange(high.size)
    levels, low, high = found.copy(), np.zeros(high.size), high.copy()
    above = below = before = np.full(high.size, math.inf)
    for step in range(_NEWTON_STEPS):
        lack, slope = missing(levels, rows)
        is_low = lack > 0.0
        low, above = np.where(is_low, levels, low), np.where(is_low, lack, above)
        high, below = np.where(is_low, high, levels), np.where(is_low, below, -lack)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = levels + lack / slope
            chord = low + (high - low) * (above / (above + below))
        sound = (slope > 0.0) & (newton >= low) & (newton <= high)
        done = (np.abs(lack) <= tolerance[rows]) | (high - low <= 4e-16 * high)
        found[rows] = np.where(sound, newton, levels)
        going = np.flatnonzero(~done)
        if not going.size:
            break
        between = 0.5 * (low + high)
        if step % 2:
            between = np.where((chord > low) & (chord < high), chord, between)
        falling = np.abs(lack) <= 0.5 * before
        levels = np.where(sound & falling & (newton > low) & (newton < high), newton, between)
        before = np.abs(lack)
        if going.size < rows.size:
            rows, levels, before = rows[going], levels[going], before[going]
            low, high, above, below = low[going], high[going], above[going], below[going]
    return found


@dataclass(frozen=True, eq=False)
class Entry:
    """One solved entry of the menu: K, J and a level per stratum (soft quotas: the common one is last)."""

    entry: float
    inner: float
    value: float
    levels: Sequence[float]


class Market:
    """The allocation problem: groups that have sellers, an objective, the table of a share's cost.

    Each group comes with rising costs up to its reserve price, and how many sellers each of them stands for
    (None: one); groups without a cost leave their shares to the others, those ``present``. ``coverage`` is D,
    what a squared gap to a quota costs; infinite: there is none.
    """

    def __init__(
        self, groups: Sequence[tuple[Group, FloatArray, FloatArray | None]], objective: AnyObjective,
        table: EpsilonCost, coverage: float = math.inf,
    ) -> None:  # fmt: skip
        check_terms(objective, table)
        sizes = [float(costs.size if counts is None else counts.sum()) for _, costs, counts in groups]
        shares = quotas([group for group, _, _ in groups], sizes)
        caps = weight_caps(shares, sizes, objective.weight_cap, coverage)
        self.present = [g for g, size in enumerate(sizes) if size]
        if not self.present:
            raise Infeasible("expected a report up to the reserve price.")
        self.strata = tuple(
            Stratum.of(groups[g][0].virtual_cost, groups[g][1], shares[g], caps[g], groups[g][2])
            for g in self.present
        )
        self.objective, self.table = objective, table
        self.elasticity = objective.relative_coverage(coverage if len(self.strata) > 1 else math.inf)
        self.sellers = math.fsum(sizes)
        bound = objective.max_mean_epsilon
        self.most = math.inf if bound is None else self.sellers * bound
        capacity = table.max_share * self.sellers
        if not self.is_soft:
            capacity = table.max_share * min(stratum.size / stratum.quota for stratum in self.strata)
        last = objective.largest_entry(self.most, capacity)
        self.menu = np.append(MENU[last > MENU], last) if last < MENU[-1] else MENU
        if self.menu.size < 2:
            raise Infeasible("expected bounds on epsilon that leave room for a purchase.")
        self._found: dict[int, Entry] = {}

    @property
    def is_soft(self) -> bool:
        """Whether groups may depart from their quotas, at a price."""
        return math.isfinite(self.elasticity)

    def best(self) -> Entry:
        """Return the entry with the least objective: the exact, global optimum of the announced problem."""
        return self.near(0.0)[0]

    def near(self, more: float) -> list[Entry]:
        """Return every entry whose objective is at most ``more`` above the least, the best one first."""
        self._halve(more)
        limit = min(entry.value for entry in self._found.values()) + more
        found = [entry for entry in self._found.values() if entry.value <= limit]
        return sorted(found, key=lambda entry: (entry.value, entry.entry))

    def refined(self) -> Entry:
        """Return the optimum over all totals around the best entry, for schedules, which need no menu."""
        best = self.best()
        index = int(np.searchsorted(self.menu, best.entry))
        low, high = self.menu[max(index - 1, 0)], self.menu[min(index + 1, self.menu.size - 1)]
        while high - low > _ZOOM_END * high:
            entries = np.geomspace(low, high, _ZOOM)
            entries[-1] = high
            found = self._solve(entries, [best] * _ZOOM)
            k = min(range(_ZOOM), key=lambda j: found[j].value)
            best = min(best, found[k], key=lambda entry: entry.value)
            low, high = entries[max(k - 1, 0)], entries[min(k + 1, _ZOOM - 1)]
        return best

    def ramps(self, stratum: Stratum, entries: FloatArray) -> Ramps:
        """Return the ramps of a stratum at some entries."""
        return Ramps.of(stratum, self.table, self.objective.slope(entries), entries)

    def total(self, entry: Entry) -> float:
        """Return the total that belongs to an entry."""
        return float(self.objective.total(np.array([entry.entry]), np.array([entry.inner]), self.most)[0])

    def settle(
        self, entries: FloatArray, start: Sequence[FloatArray] | None = None,
        mover: tuple[int, Move] | None = None,
    ) -> tuple[list[FloatArray], FloatArray]:  # fmt: skip
        """Return levels of entries, one array per stratum (soft: and the common one), and K, for a mover."""
        ramps = [self.ramps(stratum, entries) for stratum in self.strata]
        moves = [mover[1] if mover is not None and mover[0] == k else None for k in range(len(ramps))]
        if self.is_soft:
            return self._settle_together(ramps, start, moves)
        levels, inner = [], np.zeros(entries.size)
        for k, (stratum, own, move) in enumerate(zip(self.strata, ramps, moves, strict=True)):
            levels.append(find_levels(stratum, own, None if start is None else start[k], move))
            found = inner_values(stratum, own, levels[k], move)
            inner += found if move is not None else np.maximum(found, _least_inner_values(stratum, own))
        return levels, inner

    def _settle_together(
        self, ramps: Sequence[Ramps], start: Sequence[FloatArray] | None, moves: Sequence[Move | None]
    ) -> tuple[list[FloatArray], FloatArray]:
        """Return levels and K with soft quotas; the common level is counted from the lowest base."""
        d, pull = self.elasticity, ramps[0].pull
        lowest = min(own.base for own in ramps)
        levels = [np.zeros(pull.size) for _ in ramps] if start is None else [each.copy() for each in start]

        def respond(common: FloatArray, rows: IntArray) -> list[tuple[FloatArray, FloatArray]]:
            """Return each stratum's supply at a common level, and how fast it grows with its own."""
            found = []
            for k, (stratum, all_ramps) in enumerate(zip(self.strata, ramps, strict=True)):
                own, move = all_ramps.at(rows), moves[k]
                levels[k][rows] = _elastic_levels(
                    stratum, own, common - (own.base - lowest), d, levels[k][rows], move
                )
                found.append(supply(stratum, own, levels[k][rows], move))
            return found

        def missing(common: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
            held = respond(common, rows)
            slopes = [slope / (1.0 + d * slope / pull[rows]) for _, slope in held]
            return np.asarray(1.0 - sum(total for total, _ in held)), np.asarray(sum(slopes))

        high = np.zeros(pull.size)
        for stratum, own, move in zip(self.strata, ramps, moves, strict=True):
            furthest = max(float(stratum.excess[-1]), 0.0 if move is None else move[1])
            full = own.ends[:, -1] + own.steepness[-1] * furthest
            most = stratum.size * own.widths.sum(axis=1)
            enough = full + own.base - lowest + d * np.maximum(most - stratum.quota, 0.0) / pull
            high = np.maximum(high, enough)
        spread = max(own.base for own in ramps) - lowest
        tolerance = _BALANCED + 1e-15 * pull * spread
        common = balance(missing, high, high if start is None else start[-1], tolerance)
        respond(common, np.arange(pull.size))
        inner = np.zeros(pull.size)
        for stratum, own, level, move in zip(self.strata, ramps, levels, moves, strict=False):
            inner += inner_values(stratum, own, level, move)
            if d > 0.0:
                inner -= (pull * (common - (level + own.base - lowest))) ** 2 / d
        if not any(moves):
            inner = np.maximum(inner, (2.0 * pull * lowest + 1.0 / self.sellers) * (1.0 - 1e-12))
        return [*levels[: len(ramps)], common], inner

    def _halve(self, more: float) -> None:
        """Split intervals of the menu until none can hold an entry within ``more`` of the best."""
        if not self._found:
            marks = [*range(0, self.menu.size - 1, _COARSE), self.menu.size - 1]
            self._found.update(zip(marks, self._solve(self.menu[marks]), strict=True))
        while True:
            marks = sorted(self._found)
            found = [self._found[mark] for mark in marks]
            entries, inner = np.array([(e.entry, e.inner) for e in found]).T
            bounds = self.objective.bound(entries[:-1], entries[1:], (inner[:-1], inner[1:]))
            wide, limit = np.diff(marks) > 1, min(e.value for e in found) + more
            split = np.flatnonzero(wide & (bounds <= limit))
            if not split.size:
                return
            middles = [(marks[k] + marks[k + 1]) // 2 for k in split]
            solved = self._solve(self.menu[middles], [found[k] for k in split])
            self._found.update(zip(middles, solved, strict=True))

    def _solve(self, entries: FloatArray, guesses: Sequence[Entry] = ()) -> list[Entry]:
        start = list(np.array([guess.levels for guess in guesses]).T) if guesses else None
        levels, inner = self.settle(entries, start)
        values = self.objective.value(entries, inner, self.most)
        columns = entries.tolist(), inner.tolist(), values.tolist(), np.array(levels).T.tolist()
        return [Entry(*row) for row in zip(*columns, strict=True)]


def check_terms(objective: object, epsilon_cost: EpsilonCost | None) -> EpsilonCost:
    """Return the table of epsilon costs, the paper's by default; refuse terms that do not fit together."""
    table = EpsilonCost.identity() if epsilon_cost is None else epsilon_cost
    if not isinstance(objective, AnyObjective):
        raise InvalidInput(f"expected an Objective, got {type(objective).__name__}.")
    if not isinstance(table, EpsilonCost):
        raise InvalidInput(f"expected an EpsilonCost, got {type(table).__name__}.")
    if isinstance(objective, PaperObjective) and not table.is_identity:
        raise InvalidInput(
            "expected unbounded pure epsilons at a linear cost with the paper's objective: take Objective "
            "for a largest epsilon, a delta or a quadratic cost."
        )
    return table


def announced_terms(
    mechanism: str, objective: AnyObjective, table: EpsilonCost, groups: Sequence[Group], coverage: float
) -> dict[str, Any]:
    """Return a market's public tables as plain data."""
    return {
        "mechanism": mechanism,
        "objective": objective.to_dict(),
        "epsilon_cost": table.to_dict(),
        "groups": [group.to_dict() for group in groups],
        "coverage": coverage if math.isfinite(coverage) else "hard",
    }


def _running_sums(values: FloatArray) -> FloatArray:
    """Return running sums from 0, block by block: sums of blocks are carried with more digits."""
    blocks = np.zeros((-(-values.size // _BLOCK), _BLOCK))
    blocks.ravel()[: values.size] = values
    np.cumsum(blocks, axis=1, out=blocks)
    blocks[1:] += np.cumsum(blocks[:-1, -1], dtype=np.longdouble).astype(np.float64)[:, None]
    return np.concatenate(([0.0], blocks.ravel()[: values.size]))
