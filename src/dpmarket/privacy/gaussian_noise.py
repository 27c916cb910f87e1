r"""Turn random bits into Gaussian noise, exactly.

Every coefficient has noise of its own, :math:`b_j = 2 z_j / \eta` with :math:`z_j` normal: a half-normal by
rejection from exact exponentials (:mod:`dpmarket.privacy.noise`) and a random sign. These are real numbers
whose bits can be continued at any time; they are cut off at the end, at a precision that bounds the distance
between all noise together and the ideal, real-valued sample.

A discrete Gaussian would be the wrong tool: the outputs of neighbours would lie on different sets.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol, runtime_checkable

from dpmarket import checks
from dpmarket.privacy.noise import CHUNK, Bits, NoiseDraw, cut_off_each, half_normal, sign


@runtime_checkable
class GaussianSource(Protocol):
    """Where Gaussian noise comes from. ``certifiable`` is true only if nobody can know or repeat it.

    A protocol: :class:`~dpmarket.privacy.noise.SecureNoise` and
    :class:`~dpmarket.privacy.noise.SeededNoise` obey it.
    """

    @property
    def certifiable(self) -> bool:
        """Whether models made with this noise may be certified as private."""
        ...

    def draw_normal(self, n_coefficients: int, noise_rate: float, accuracy: float) -> NoiseDraw:
        """Return independent normals of standard deviation ``2 / noise_rate``, within ``accuracy``."""
        ...


def draw_normals(stream: Bits, n_coefficients: int, noise_rate: float, accuracy: float) -> NoiseDraw:
    """Return independent normals of standard deviation ``2 / noise_rate`` from a stream of random bits.

    The draw is within ``accuracy`` of the ideal sample, in the Euclidean norm over all coefficients. Always,
    not only with high probability.
    """
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    eta = Fraction(checks.positive("noise_rate", noise_rate))
    beta = Fraction(checks.positive("accuracy", accuracy))
    sizes = [half_normal(stream) for _ in range(n)]
    signs = [sign(stream) for _ in range(n)]
    bits = max(CHUNK, math.ceil(math.log2(n) / 2.0 - math.log2(float(eta)) - math.log2(float(beta))) + 16)
    level = CHUNK
    while True:
        while level < bits:
            # Everybody's next bits in turn, so that the ideal sample of a seed does not depend on accuracy.
            level += CHUNK
            for number in sizes:
                number.floor(level)
        numerators, error = cut_off_each(sizes, signs, eta, bits)
        # Half of the accuracy is kept for writing the draw as two floats.
        if error <= beta / 2:
            return NoiseDraw(numerators, bits, accuracy)
        bits += CHUNK
