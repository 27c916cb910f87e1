"""Noise computed in floats leaks through its last bits (Mironov 2012); a released model does not.

An observer looks at one event: "this number is no value of a float Laplace sampler around 0". Whatever the
event, its probability may change by the factor exp(epsilon) at most when one person's record is replaced.
"""

import numpy as np

from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import SeededNoise

FITS = 200
EPSILON = 0.5


def unreachable(values, scale):
    """Tell for which numbers no uniform float u gives ``scale * log(u)``, whatever the sign."""
    sizes = np.abs(values)
    near = np.rint(np.exp(-sizes / scale) * 2.0**53)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ~np.any([-scale * np.log((near + k) * 2.0**-53) == sizes for k in range(-16, 17)], axis=0)


def violated(counts, runs):
    """Tell whether two counts out of runs contradict epsilon: beyond 6 deviations, false alarm below 1e-6."""
    factor = np.exp(EPSILON)
    return max(counts) > factor * min(counts) + 6.0 * (1.0 + factor) * np.sqrt(runs) / 2.0


def test_released_models_of_neighbours_lie_on_the_same_grid_and_their_bits_tell_nothing():
    x = np.array([[1.0], [1.0]])
    counts, grids = [], set()
    for labels in ([0, 1], [1, 1]):  # the minimiser without noise is 0, or is not
        models = [
            PrivateLogisticRegression(
                (0, 1), l2=10.0, fit_intercept=False, noise_source=SeededNoise(seed)
            ).fit(x, labels, epsilons=[EPSILON, EPSILON])
            for seed in range(FITS)
        ]
        values = np.array([model.coef_[0, 0] for model in models])
        grids |= {model.grid_ for model in models}
        assert (values / models[0].grid_ == np.rint(values / models[0].grid_)).all()
        scale = 2.0 / (models[0].noise_rate_ * models[0].l2_)
        counts.append(int(unreachable(values, scale).sum()))
        # The last bit of the released whole number is a fair coin: 6 deviations, false alarm 2e-9.
        odd = sum(int(model.coef_grid_[0, 0]) % 2 for model in models)
        assert abs(odd - FITS / 2) <= 6.0 * np.sqrt(FITS) / 2.0
    assert len(grids) == 1
    assert not violated(counts, FITS)
