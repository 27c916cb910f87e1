"""The samplers have the laws that the promises rest on, and decide nothing on rounded numbers.

Statistical tests use fixed seeds and a false-alarm rate of 1e-6: a failure is a fact about the code.
"""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from dpmarket.privacy import SeededNoise
from dpmarket.privacy.exact import discrete_laplace, report_noisy_max, rounded_radial, scaled_floor
from dpmarket.privacy.noise import Bits, Real

FALSE_ALARM = 1e-6


def stream_of(seed):
    return Bits(random.Random(seed).randbytes)


def known_real(whole, bits):
    """A number whose bits after the point are given, then 1010..."""
    words = iter([*bits, *[0xAAAAAAAAAAAAAAAA] * 50])
    stream = Bits(lambda count: b"")
    stream.word = lambda: next(words)
    number = Real(stream)
    number.whole = whole
    return number


def p_value(draws, mass):
    """Chi-square of draws against a law on whole numbers, rare ones put together."""
    values, counts = np.unique(draws, return_counts=True)
    likely = [k for k in range(-400, 401) if mass(k) * len(draws) >= 20.0]
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    observed = [seen.get(k, 0) for k in likely]
    expected = [mass(k) * len(draws) for k in likely]
    observed.append(len(draws) - sum(observed))
    expected.append(len(draws) - sum(expected))
    return chisquare(observed, expected).pvalue


def laplace_mass(scale):
    ratio = np.exp(-1.0 / float(scale))
    return lambda k: (1.0 - ratio) / (1.0 + ratio) * ratio ** abs(k)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(7, 3), Fraction(16)])
def test_discrete_laplace_has_its_law_and_another_scale_is_noticed(scale):
    stream = stream_of(5)
    draws = [discrete_laplace(stream, scale) for _ in range(20_000)]
    assert p_value(draws, laplace_mass(scale)) > FALSE_ALARM
    for wrong in (scale * 2 / 3, scale * 3 / 2):
        assert p_value(draws, laplace_mass(wrong)) < FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5), Fraction(22, 7), Fraction(2) ** 90])
def test_a_scaled_floor_is_that_of_the_number_with_all_its_bits(scale):
    for seed in range(50):
        stream = stream_of(seed)
        number = Real(stream)
        number.whole = seed
        found = scaled_floor(number, scale)
        exact = scale * Fraction(number.floor(1_000), 2**1_000)
        assert found == exact.numerator // exact.denominator


def test_a_floor_that_the_first_bits_leave_open_is_decided_by_later_ones():
    third = int("01" * 32, 2)  # 0.010101... is 1/3: three times as much hangs between 0 and 1
    below, above = known_real(2, [third, third, 0]), known_real(2, [third, third, 2**64 - 1])
    assert scaled_floor(below, Fraction(3)) == 6
    assert scaled_floor(above, Fraction(3)) == 7


def noisy_max_law(handicaps):
    """Exact chances to win: integrate over the winner's number and expand the product over all others."""
    chances = []
    for t, own in enumerate(handicaps):
        others = [h - own for k, h in enumerate(handicaps) if k != t]
        start = max(0.0, *(-h for h in others))
        chances.append(
            sum(
                (-1) ** size * np.exp(-sum(chosen) - (1 + size) * start) / (1 + size)
                for size in range(len(others) + 1)
                for chosen in itertools.combinations(others, size)
            )
        )
    return np.array(chances)


@pytest.mark.parametrize("scores", [(0, 1, 2, 5), (3, 0, 0, 1), (7, 7, 7, 7)])
def test_noisy_max_has_its_exact_chances_and_another_rate_is_noticed(scores):
    stream = stream_of(3)
    wins = np.bincount([report_noisy_max(stream, scores, Fraction(1, 3)) for _ in range(20_000)], minlength=4)
    for rate, fits in ((1 / 3, True), (1 / 2, False), (2 / 9, False)):
        law = noisy_max_law([rate * score for score in scores])
        assert abs(law.sum() - 1.0) < 1e-12
        found = chisquare(wins, 20_000 * law).pvalue
        assert (found > FALSE_ALARM) == (fits or len(set(scores)) == 1)


def test_a_maximum_is_decided_by_all_bits_and_not_by_the_first():
    """After 64 bits the second leads by a third of a unit in the last place; further bits turn that round."""
    first = 1 << 63
    second = first - (2**64 - 1) // 3  # about a third below, as is the handicap of the first
    words = iter([first, first + 5, second, second + 5, 2**64 - 1, 0])
    stream = Bits(lambda count: b"")
    stream.word = lambda: next(words)
    assert report_noisy_max(stream, [1, 0], Fraction(1, 3)) == 0


def test_rounded_noise_is_the_estimators_draw_rounded_down():
    for seed in range(30):
        for n in (1, 2, 5):
            draw = SeededNoise(seed).draw(n, 0.25, 1e-60)
            wanted = tuple(numerator >> draw.bits for numerator in draw.numerators)
            assert rounded_radial(stream_of(seed), n, Fraction(1, 4)) == wanted
