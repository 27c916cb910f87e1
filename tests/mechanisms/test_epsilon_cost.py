"""Tables of epsilon and of its cost: convex, above what they stand for, exact at their knots."""

import numpy as np
import pytest
from scipy.stats import norm

from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost


def gaussian_delta(epsilon, mu):
    return norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_the_certified_epsilon_of_a_delta_is_never_too_small(delta):
    table = EpsilonCost.of_delta(delta, max_epsilon=8.0)
    mu = np.linspace(table.shares[1] / 5, table.max_share, 500)
    assert (gaussian_delta(table.epsilon(mu), mu) <= delta * (1 + 1e-9)).all()
    # At the knots nothing is given away.
    knots = table.shares[5:]
    np.testing.assert_allclose(gaussian_delta(table.epsilon(knots), knots), delta, rtol=1e-6)


@pytest.mark.parametrize(
    "table", [EpsilonCost.identity(5.0, "quadratic"), EpsilonCost.of_delta(1e-5, 5.0, "quadratic")], ids=repr
)
def test_chords_of_a_quadratic_cost_lie_above_it_by_no_more_than_they_say(table):
    q = np.linspace(0.0, table.max_share, 20_001)
    over = table.cost(q) - table.epsilon(q) ** 2
    assert over.min() >= -1e-12
    assert over.max() <= table.chord_error * (1 + 1e-9)
    assert table.chord_error <= 1.0001e-3
    assert (np.diff(table.slopes) >= 0.0).all()


def test_shares_and_epsilons_are_inverse_and_tables_survive_plain_data():
    for table in (EpsilonCost.identity(), EpsilonCost.identity(2.0), EpsilonCost.of_delta(1e-6, 3.0)):
        q = np.linspace(0.0, min(table.max_share, 3.0), 50)
        np.testing.assert_allclose(table.share(table.epsilon(q)), q, rtol=1e-12)
        assert EpsilonCost.from_dict(table.to_dict()) == table


def test_what_is_no_table_is_refused():
    with pytest.raises(InvalidInput, match="max_epsilon"):
        EpsilonCost.identity(shape="quadratic")
    with pytest.raises(InvalidInput, match="convex"):
        EpsilonCost([0, 1, 2], [0, 2, 3], [0, 2, 3])
    with pytest.raises(InvalidInput, match="shape"):
        EpsilonCost([0, 1], [0, 1], [0, 1], "cubic")
