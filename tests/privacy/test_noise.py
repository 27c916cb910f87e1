"""Noise: its distribution, its distance from the ideal sample, its independence, and what happens without it.

Statistical tests use fixed seeds and a false-alarm rate of 1e-6: a failure is a fact about the code.
"""

import itertools
import os
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, gamma, kstest, uniform

from dpmarket.errors import EntropyUnavailable, InvalidInput, NotConverged
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import Account, noise
from dpmarket.privacy.noise import (
    Bits,
    NoiseDraw,
    Real,
    SecureNoise,
    SeededNoise,
    discrete_laplace,
    radial_noise,
    report_noisy_max,
    rounded_radial,
    scaled_floor,
)
from dpmarket.statistics import PrivateShare

FALSE_ALARM = 1e-6


def sampled(n, rate, count):
    return np.array(
        [radial_noise(SeededNoise(seed).bits(), n, rate, 1e-12).high_low()[0] for seed in range(count)]
    )


@pytest.mark.parametrize("n", [1, 2, 7])
def test_length_is_gamma_distributed_and_another_rate_is_noticed(n):
    draws = sampled(n, 3.0, 1_500)
    lengths = np.linalg.norm(draws, axis=1)
    assert kstest(lengths, gamma(n, scale=2.0 / 3.0).cdf).pvalue > FALSE_ALARM
    for wrong in (2.0, 4.5):
        assert kstest(lengths, gamma(n, scale=2.0 / wrong).cdf).pvalue < FALSE_ALARM


def test_length_direction_and_blocks_are_independent():
    count = 900
    draws = [
        radial_noise(SeededNoise(seed).bits(), 3, 2.5, 1e-9, blocks=2).high_low()[0] for seed in range(count)
    ]
    blocks = np.array(draws).reshape(count, 2, 3).swapaxes(0, 1)
    numbers = []
    for block in blocks:
        lengths = np.linalg.norm(block, axis=1)
        assert kstest(lengths, gamma(3, scale=2.0 / 2.5).cdf).pvalue > FALSE_ALARM
        # On the sphere in three dimensions every projection is uniform (Archimedes).
        for part in (lengths > np.median(lengths), lengths <= np.median(lengths)):
            for axis in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0.48, -0.6, 0.64]):
                projected = block[part] @ np.array(axis) / lengths[part]
                assert kstest(projected, uniform(-1, 2).cdf).pvalue > FALSE_ALARM
        numbers.append(np.column_stack([lengths, block, np.abs(block)]))
    # Correlations of ranks of independent numbers are normal with deviation 1 / sqrt(count - 1).
    ranks = np.hstack(numbers).argsort(axis=0).argsort(axis=0)
    between = np.corrcoef(ranks.T)[:7, 7:]
    assert np.abs(between).max() < 5.5 / (count - 1) ** 0.5


def test_tail_reaches_beyond_what_floats_with_53_bits_can_give():
    """A uniform with 53 bits never gives -log U above 36.8; exponentials here are sums of whole steps."""
    words = iter([1, 0, 5] * 50 + [7, 9])  # a run of two is even: add 1 and start again
    stream = Bits(lambda count: b"")
    stream.word = lambda: next(words)
    assert noise.exponential(stream).floor(64) == (50 << 64) + 7


@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (2, 1), (30, 1), (3, 4)])
def test_draw_is_within_its_accuracy_of_a_much_better_one(n, blocks):
    source = SeededNoise(n)
    best = radial_noise(source.bits(), n, 0.37, 1e-60, blocks=blocks)
    ideal = [Fraction(numerator, 2**best.bits) for numerator in best.numerators]
    for accuracy in (1e-3, 1e-12, 1e-25):
        draw = radial_noise(source.bits(), n, 0.37, accuracy, blocks=blocks)
        off = sum((Fraction(k, 2**draw.bits) - b) ** 2 for k, b in zip(draw.numerators, ideal, strict=True))
        assert off <= Fraction(accuracy / 2) ** 2
        high, low = draw.high_low()
        off = sum(
            (Fraction(h) + Fraction(rest) - b) ** 2
            for h, rest, b in zip(high.tolist(), low.tolist(), ideal, strict=True)
        )
        assert off <= Fraction(accuracy) ** 2


def test_numbers_that_need_more_bits_than_usual_get_them():
    """Both normals are below 2**-54: at 64 bits their direction is known to three digits only."""
    half = 1 << 63
    length, large = [half, half + 5], [half + (half >> 1), half + (half >> 1) + 1]
    words = length * 2 + [300, 900, *large] + [500, 900, *large] + [1, 1]

    def bits():
        later = np.random.default_rng(0)
        buffers = iter([np.array(words[::-1], dtype="<u8").tobytes()])
        return Bits(lambda count: next(buffers, None) or later.bytes(count))

    def draw(accuracy):
        return radial_noise(bits(), 2, 1.0, accuracy)

    coarse, fine = draw(1e-6), draw(1e-40)
    off = sum(
        (Fraction(a, 2**coarse.bits) - Fraction(b, 2**fine.bits)) ** 2
        for a, b in zip(coarse.numerators, fine.numerators, strict=True)
    )
    assert off <= Fraction(1e-6) ** 2
    assert coarse.bits > 64


def test_noise_too_large_for_two_floats_is_an_error_that_depends_on_the_noise_alone():
    with pytest.raises(NotConverged, match="too large"):
        NoiseDraw((2**200,), 64, 1e-30).high_low()


def test_secure_draws_differ_and_keep_no_state():
    source = SecureNoise()
    assert source.certifiable
    draws = {radial_noise(source.bits(), 2, 1.0, 1e-12).numerators for _ in range(20)}
    assert len(draws) == 20
    assert not vars(source)


def test_secure_draws_differ_after_a_fork():
    code = """
import os
from dpmarket.privacy.noise import SecureNoise
source = SecureNoise()
source.bits().word()
read, write = os.pipe()
child = os.fork()
own = repr(source.bits().word())
if child == 0:
    os.write(write, own.encode())
    os._exit(0)
os.waitpid(child, 0)
assert os.read(read, 10_000).decode() != own
print("differ")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "differ"


def unavailable(count):
    raise OSError("no entropy")


@pytest.mark.parametrize("entropy", [unavailable, lambda count: b"x" * (count - 1)])
def test_without_entropy_there_is_no_noise(monkeypatch, entropy):
    monkeypatch.setattr(os, "urandom", entropy)
    with pytest.raises(EntropyUnavailable, match="entropy"):
        SecureNoise().bits().word()


@pytest.mark.parametrize(
    "arguments", [(0, 1.0, 1e-9), (2.0, 1.0, 1e-9), (2, 0.0, 1e-9), (2, np.nan, 1e-9), (2, 1.0, 0.0)]
)
def test_senseless_requests_are_refused(arguments):
    with pytest.raises(InvalidInput):
        radial_noise(SecureNoise().bits(), *arguments)


def test_seeded_noise_repeats_itself_cannot_be_certified_and_differs_between_blocks():
    def draw(seed, **more):
        return radial_noise(SeededNoise(seed).bits(), 4, 2.0, 1e-12, **more)

    assert draw(3) == draw(3, blocks=1) != draw(4)
    assert not SeededNoise(3).certifiable
    three = draw(3, blocks=3)
    assert (len(set(three.numerators)), three.accuracy) == (12, 1e-12)


# --- noise in whole numbers ---


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
            draw = radial_noise(SeededNoise(seed).bits(), n, 0.25, 1e-60)
            wanted = tuple(numerator >> draw.bits for numerator in draw.numerators)
            assert rounded_radial(stream_of(seed), n, Fraction(1, 4)) == wanted


class MethodSource(SeededNoise):
    def certifiable(self):
        return False


class SilentSource:
    def bits(self):
        return SecureNoise().bits()


@pytest.mark.parametrize("source", [MethodSource(1), SilentSource(), SecureNoise, SeededNoise, object(), 7])
def test_what_does_not_say_whether_its_bits_are_certifiable_is_no_source(source):
    account = Account(1.0)
    for fitted in (PrivateLogisticRegression(classes=(0, 1), epsilon=1.0), PrivateShare(epsilon=1.0)):
        fitted.noise_source = source
        records = ([[0.1], [0.2], [0.3]], [0, 1, 1]) if hasattr(fitted, "classes") else ([0, 1, 1],)
        with pytest.raises(InvalidInput, match="noise_source"):
            fitted.fit(*records, account=account)
    assert account.left([0]) == 1.0
