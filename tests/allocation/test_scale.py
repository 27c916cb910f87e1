"""Ten million sellers: exact, and lean in memory."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from dpmarket.allocation import BuyerObjective, allocate

OBJECTIVES = [
    BuyerObjective(1.0, 1.0, 1e-3),
    BuyerObjective(1.0, 1.0, 1e-9),
    BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
    BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.3, max_mean_epsilon=1e-6),
    BuyerObjective(0.0, 1.0, 1e-3, weight_cap=3.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_ten_million_sellers_are_exact_and_need_few_arrays(objective):
    m = 10**7
    psi = np.random.default_rng(0).uniform(1.0, 9.0, m)
    tracemalloc.start()
    found = allocate(psi, objective)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.kkt_residual < 1e-13
    assert abs(float(found.loss_weights.sum()) - 1.0) < 1e-14
    # Besides the caller's own array; the result itself is two.
    assert peak <= 9 * psi.nbytes


@pytest.mark.slow
def test_one_seller_among_millions_matters_to_the_last_digits():
    # Removing nobody but making one seller a little dearer moves the value by the envelope's slope.
    psi = np.random.default_rng(1).uniform(1.0, 9.0, 2_000_000)
    psi[0] = 1.0001
    objective = BuyerObjective(1.0, 1.0, 1.0)
    found = allocate(psi, objective)
    assert found.epsilons[0] > 0.0
    psi[0] = 1.0002
    dearer = allocate(psi, objective)
    slope = (dearer.objective_value - found.objective_value) / 1e-4
    between = 0.5 * (found.epsilons[0] + dearer.epsilons[0])
    assert slope == pytest.approx(objective.payment_weight * between, rel=1e-5)


@pytest.mark.slow
def test_a_hundred_million_sellers_fit():
    script = (
        "import numpy as np, resource\n"
        "from dpmarket.allocation import BuyerObjective, allocate\n"
        "psi = np.random.default_rng(0).random(10**8)\n"
        "found = allocate(psi, BuyerObjective(1.0, 1.0, 1e-3, weight_cap=5.0))\n"
        "assert found.kkt_residual < 1e-12, found.kkt_residual\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / psi.nbytes)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 10.0
