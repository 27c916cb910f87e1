r"""Exact noise in whole numbers: discrete Laplace, report noisy max, rounded radial noise.

All of it is made of exponentials and normals whose bits are drawn as far as a decision needs them
(:mod:`dpmarket.privacy.noise`). No float takes part: the numbers that come out have the ideal laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpmarket.privacy.noise import Bits, Real, cut_off, exponential, half_normal

_STEP = 64  # bits by which a number is continued


def scaled_floor(number: Real, scale: Fraction) -> int:
    """Return the largest whole number not above ``scale`` times a real number."""
    bits = _STEP
    while True:
        part = number.floor(bits)
        below = scale.numerator * part // (scale.denominator << bits)
        # The number lies strictly below its next cut-off value, so that this end is not reached.
        above = -(-scale.numerator * (part + 1) // (scale.denominator << bits)) - 1
        if below == above:
            return below
        bits += _STEP


def discrete_laplace(stream: Bits, scale: Fraction) -> int:
    r"""Draw a whole number k with probability proportional to :math:`e^{-|k| / scale}`.

    ``floor(scale * E)`` of an exponential E is geometric, and the difference of two has this law.
    """
    return scaled_floor(exponential(stream), scale) - scaled_floor(exponential(stream), scale)


def report_noisy_max(stream: Bits, scores: Sequence[int], rate: Fraction) -> int:
    """Return the position with the largest ``E - rate * score``, with an independent exponential E for each.

    If a person changes every score by at most d, no position's probability changes by more than the factor
    ``exp(2 * rate * d)``: to win, E must exceed a threshold that moves by at most ``2 * rate * d``. The
    winner's score is r above the best with probability at most ``len(scores) * exp(-rate * r)``.
    """
    numbers = {k: exponential(stream) for k in range(len(scores))}
    bits = _STEP
    while True:
        # In units of 2**-bits / denominator, E - rate * score lies in [low, low + denominator).
        lows = {
            k: rate.denominator * number.floor(bits) - (rate.numerator * scores[k] << bits)
            for k, number in numbers.items()
        }
        best = max(lows.values())
        numbers = {k: number for k, number in numbers.items() if lows[k] + rate.denominator > best}
        if len(numbers) == 1:
            return next(iter(numbers))
        bits += _STEP


def rounded_radial(stream: Bits, n: int, noise_rate: Fraction) -> tuple[int, ...]:
    r"""Draw noise with density proportional to :math:`e^{-\eta |b| / 2}`, every coordinate rounded down.

    Exactly: whole numbers plus this noise are their sums with the real-valued noise, rounded afterwards.
    """
    lengths = [exponential(stream) for _ in range(n)]
    normals = [half_normal(stream) for _ in range(n)]
    signs = [1 if (stream.word() & 1) else -1 for _ in range(n)]
    bits = _STEP
    while True:
        numerators, error = cut_off(lengths, normals, signs, noise_rate, bits)
        if numerators is not None:
            off = -(-error.numerator * (1 << bits) // error.denominator) + 1  # in units of 2**-bits
            low = tuple((numerator - off) >> bits for numerator in numerators)
            if low == tuple((numerator + off) >> bits for numerator in numerators):
                return low
        bits += _STEP
