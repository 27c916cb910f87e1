"""The paper's grid and descent: right at every value of its grid, and never below the minimum."""

import numpy as np
import pytest

from dpmarket.allocation import BuyerObjective, allocate, paper_allocation
from dpmarket.allocation.certificate import examine
from dpmarket.errors import InvalidInput, NotConverged


@pytest.mark.parametrize("seed", range(6))
def test_with_the_right_value_in_its_grid_it_finds_the_exact_solution(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 200))
    psi = rng.uniform(1.0, 9.0, m)
    cap = None if seed % 2 else rng.uniform(1.0, 4.0)
    bound = 0.05 if seed % 3 == 0 else None
    objective = BuyerObjective(1.0, 1.0, 10.0 ** rng.uniform(-3, 0), cap, bound)
    exact = allocate(psi, objective)
    grid = exact.total_promise * np.array([0.25, 0.5, 1.0])
    found = paper_allocation(psi, objective, grid, tolerance=1e-10)
    assert found.total_promise == exact.total_promise
    assert found.objective_value == pytest.approx(exact.objective_value, rel=1e-9)
    assert found.objective_value >= exact.objective_value * (1 - 1e-12)
    np.testing.assert_allclose(found.epsilons, exact.epsilons, atol=1e-7 * exact.total_promise)
    evidence = examine(psi, found.loss_weights, found.epsilons, found.total_promise, objective)
    assert evidence.kkt_residual < 1e-6


def test_a_grid_never_beats_the_exact_solution():
    psi = np.r_[np.full(3, 0.02), np.full(20, 30.0)]
    objective = BuyerObjective(1.0, 1.0, 1e-3)
    exact = allocate(psi, objective)
    found = paper_allocation(psi, objective, np.geomspace(0.1, 1000.0, 60))
    assert found.values.min() == found.objective_value
    assert (found.values >= exact.objective_value * (1 - 1e-12)).all()


def test_bad_arguments_are_refused():
    objective = BuyerObjective(1.0, 1.0, 1.0, max_mean_epsilon=1.0)
    for grid in ([], [0.0], [-1.0], [2.5]):
        with pytest.raises(InvalidInput, match="total_promises"):
            paper_allocation([1.0, 2.0], objective, grid)
    with pytest.raises(InvalidInput, match="step_size"):
        paper_allocation([1.0, 2.0], objective, [1.0], step_size=1.5)
    with pytest.raises(InvalidInput, match="virtual_costs"):
        paper_allocation([1.0, np.inf], objective, [1.0])


def test_too_few_steps_are_an_error_not_an_answer():
    with pytest.raises(NotConverged, match="max_iterations"):
        paper_allocation(np.linspace(1.0, 9.0, 50), BuyerObjective(1.0, 1.0, 1.0), [1.0], max_iterations=2)
