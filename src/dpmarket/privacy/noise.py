r"""Exact noise from random bits: real numbers whose bits are drawn as far as decisions need them.

The noise is :math:`b' = 2 b / \eta` with :math:`|b| \sim \Gamma(n, 1)` and a uniform direction (paper,
Algorithm 1), so that its density is proportional to :math:`e^{-\eta |b'| / 2}`. No logarithm is taken and no
float is drawn. A uniform real number is a string of random bits of which only as many are drawn as a decision
needs, and every decision is made on intervals, so that what is sampled is an exact real number whose bits can
be continued at any time:

* an exponential by von Neumann's runs: draw :math:`U_1 > U_2 > \dots > U_N \le U_{N+1}`; if N is odd,
  :math:`U_1` has density :math:`e^{-x}` on [0, 1); if not, add 1 and start again;
* a normal by rejection: X and Y exponential, X is half-normal if :math:`2 Y > (X - 1)^2`;
* the norm is a sum of n exponentials, the direction that of n normals;
* independent noise of one coefficient (:mod:`dpmarket.privacy.noise_norm`) is an exponential with a sign.

Only at the end are these real numbers cut off, within a given distance of the ideal, real-valued noise. Noise
in whole numbers (discrete Laplace, report noisy max, rounded radial noise) has the ideal law.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import EntropyUnavailable, InvalidInput, NotConverged

CHUNK = 64
_BUFFER = 4096


@dataclass(frozen=True)
class NoiseDraw:
    """One draw of the noise: coordinate j is ``numerators[j] / 2**bits``, exactly.

    Attributes
    ----------
    numerators, bits
        One integer per coefficient, and their binary digits after the point.
    accuracy
        The draw lies within this Euclidean distance of the ideal, real-valued sample, always.
    """

    numerators: tuple[int, ...]
    bits: int
    accuracy: float

    def high_low(self) -> tuple[FloatArray, FloatArray]:
        """Return two float64 vectors whose exact sum is within ``2**-105`` of the draw, relatively.

        NotConverged if that is not within ``accuracy / 2``, which depends on the noise alone.
        """
        exact = [Fraction(numerator, 2**self.bits) for numerator in self.numerators]
        high = [float(number) for number in exact]
        low = [float(number - Fraction(top)) for number, top in zip(exact, high, strict=True)]
        if float(np.linalg.norm(high)) * 2.0**-105 > self.accuracy / 2.0:
            raise NotConverged("the noise is too large for two floats to hold it to the accuracy asked for.")
        return np.array(high), np.array(low)


def radial_noise(
    stream: Bits, n: int, noise_rate: float, accuracy: float, independent: int = 0, blocks: int = 1
) -> NoiseDraw:
    """Return noise of rate ``noise_rate`` for n coefficients, within ``accuracy`` of an ideal sample.

    The last ``independent`` coefficients have noise of their own, the others radial noise together. Each of
    ``blocks`` has n coefficients and noise of its own; they follow each other in the draw, whose accuracy is
    that of all together.
    """
    alone, count = checks.whole("independent", independent), checks.whole("blocks", blocks, minimum=1)
    if alone > checks.whole("n", n, minimum=1):
        raise InvalidInput(f"expected at most {n} independent coefficients, got {alone}.")
    eta = Fraction(checks.positive("noise_rate", noise_rate))
    beta = Fraction(checks.positive("accuracy", accuracy))
    parts = [_Parts.drawn(stream, n - alone, alone) for _ in range(count)]
    size = math.log2(n) + math.log2(count) / 2.0
    bits = max(CHUNK, math.ceil(size - math.log2(float(eta)) - math.log2(float(beta))) + 16)
    level = CHUNK
    while True:
        while level < bits:
            # Next bits in turn, so that the ideal sample of a seed does not depend on accuracy.
            level += CHUNK
            for part in parts:
                for number in (*part.lengths, *part.normals, *part.sizes):
                    number.floor(level)
        cut = [part.rounded(eta, bits) for part in parts]
        found = [numerators for numerators, _ in cut if numerators is not None]
        error = sum((block**2 for _, block in cut), Fraction(0))
        # Half of the accuracy is kept for writing the draw as two floats.
        if len(found) == count and error <= (beta / 2) ** 2:
            return NoiseDraw(tuple(itertools.chain.from_iterable(found)), bits, accuracy)
        bits += CHUNK


class NoiseSource(Protocol):
    """Where random bits come from: :class:`SecureNoise`, :class:`SeededNoise`, or a source of one's own.

    All noise is computed from these bits, exactly; nothing can check that they are random and secret.
    """

    @property
    def certifiable(self) -> bool:
        """Whether models made with this noise may be certified: nobody can know or repeat it."""

    def bits(self) -> Bits:
        """Return a stream of random bits."""


def checked_source(source: NoiseSource | None) -> NoiseSource:
    """Return a source of noise, :class:`SecureNoise` for None, or refuse what is none.

    Whether it is certifiable must be True or False: a method of that name would count as true.
    """
    if source is None:
        return SecureNoise()
    says = isinstance(getattr(source, "certifiable", None), bool)
    if isinstance(source, type) or not says or not callable(getattr(source, "bits", None)):
        raise InvalidInput(
            "expected noise_source to be None or to give random bits and say whether they are certifiable, "
            f"got {type(source).__name__}."
        )
    return source


@dataclass(frozen=True)
class SecureNoise:
    """Noise from the operating system's entropy. It has no seed and keeps no state.

    Notes
    -----
    Guaranteed:

    * Every stream takes fresh bytes from :func:`os.urandom`; nothing is kept between streams, so that draws
      are independent, also in threads and after a fork.
    * If the operating system gives no entropy, :class:`~dpmarket.errors.EntropyUnavailable` is raised.

    Examples
    --------
    >>> draw = radial_noise(SecureNoise().bits(), 3, noise_rate=2.0, accuracy=1e-20)
    >>> len(draw.numerators), draw.accuracy
    (3, 1e-20)
    """

    certifiable: ClassVar[bool] = True

    def bits(self) -> Bits:
        """Return a stream of fresh random bits."""
        return Bits(entropy)


@dataclass(frozen=True)
class SeededNoise:
    """Noise that anybody who knows the seed can repeat and subtract: for tests only.

    The same seed gives the same noise at every draw. A model made with it says so (``certifiable_`` is false)
    and protects nobody.

    Parameters
    ----------
    seed
        A whole number.

    Examples
    --------
    >>> first, second = (radial_noise(SeededNoise(7).bits(), 2, 1.0, 1e-9) for _ in range(2))
    >>> first == second, SeededNoise(7).certifiable
    (True, False)
    """

    seed: int
    certifiable: ClassVar[bool] = False  # the noise can be repeated

    def bits(self) -> Bits:
        """Return the stream of random bits of this seed: the same one at every call."""
        return Bits(random.Random(self.seed).randbytes)


def entropy(count: int) -> bytes:
    """Return so many random bytes of the operating system, or refuse if it gives fewer."""
    try:
        found = os.urandom(count)
    except (OSError, NotImplementedError) as error:
        raise EntropyUnavailable("the operating system gave no entropy; no noise was drawn.") from error
    if len(found) != count:
        raise EntropyUnavailable("the operating system gave less entropy than asked for; no noise was drawn.")
    return found


class Bits:
    """A stream of random bits, 64 at a time, from a function that returns random bytes."""

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._words: list[int] = []

    def word(self) -> int:
        """Return the next 64 bits."""
        if not self._words:
            self._words = np.frombuffer(self._random_bytes(_BUFFER), dtype="<u8").tolist()
        return self._words.pop()


class Real:
    """A real number ``whole + 0.bits``, of which ``known`` bits have been drawn."""

    __slots__ = ("_stream", "known", "part", "whole")

    def __init__(self, stream: Bits) -> None:
        self._stream = stream
        self.whole = 0
        self.part = stream.word()
        self.known = CHUNK

    def floor(self, bits: int) -> int:
        """Return ``floor(number * 2**bits)``, drawing further bits if needed."""
        while self.known < bits:
            self.part = (self.part << CHUNK) | self._stream.word()
            self.known += CHUNK
        return (self.whole << bits) + (self.part >> (self.known - bits))

    def below(self, other: Real) -> bool:
        """Tell whether this fraction is below another one; equal bits are continued until they differ."""
        bits = CHUNK
        if self.known == bits and other.known == bits and self.part != other.part:
            return self.part < other.part
        while self.floor(bits) == other.floor(bits):
            bits += CHUNK
        return self.floor(bits) < other.floor(bits)


def exponential(stream: Bits) -> Real:
    """Draw an exponential of mean 1, exactly, by von Neumann's runs."""
    whole = 0
    while True:
        first = previous = Real(stream)
        odd = True
        while (following := Real(stream)).below(previous):
            previous = following
            odd = not odd
        if odd:
            first.whole = whole
            return first
        whole += 1


def half_normal(stream: Bits) -> Real:
    """Draw the absolute value of a standard normal, exactly, by rejection from an exponential."""
    while True:
        x, y = exponential(stream), exponential(stream)
        bits = CHUNK
        while True:
            # (X - 1)^2 and 2 Y lie in these intervals, in units of 2**(-2 bits).
            away = x.floor(bits) - (1 << bits)
            squares = (away * away, (away + 1) * (away + 1))
            twice = y.floor(bits) << (bits + 1)
            if twice >= max(squares):
                return x
            if twice + (2 << bits) <= min(squares):
                break
            bits += CHUNK


class _Parts(NamedTuple):
    """The exact real numbers that one block of noise is made of."""

    lengths: list[Real]
    normals: list[Real]
    signs: list[int]
    sizes: list[Real]
    own_signs: list[int]

    @classmethod
    def drawn(cls, stream: Bits, joint: int, alone: int) -> _Parts:
        return cls(
            [exponential(stream) for _ in range(joint)],
            [half_normal(stream) for _ in range(joint)],
            [sign(stream) for _ in range(joint)],
            [exponential(stream) for _ in range(alone)],
            [sign(stream) for _ in range(alone)],
        )

    def rounded(self, eta: Fraction, bits: int) -> tuple[tuple[int, ...] | None, Fraction]:
        radial, error = cut_off(self.lengths, self.normals, self.signs, eta, bits)
        own, own_error = cut_off_each(self.sizes, self.own_signs, eta, bits)
        return None if radial is None else (*radial, *own), error + own_error


def sign(stream: Bits) -> int:
    """Return 1 or -1, each with the probability one half."""
    return 1 if (stream.word() & 1) else -1


def cut_off_each(
    sizes: list[Real], signs: list[int], eta: Fraction, bits: int
) -> tuple[tuple[int, ...], Fraction]:
    """Cut independent noise off after ``bits`` bits; return it in units of 2**-bits and an error bound."""
    numerators = tuple(
        2 * eta.denominator * sign * number.floor(bits) // eta.numerator
        for sign, number in zip(signs, sizes, strict=True)
    )
    root = math.isqrt(len(sizes)) + 1 if sizes else 0
    return numerators, root * (2 / eta + 1) * Fraction(1, 2**bits)


def cut_off(
    lengths: list[Real], normals: list[Real], signs: list[int], eta: Fraction, bits: int
) -> tuple[tuple[int, ...] | None, Fraction]:
    """Cut all numbers off after ``bits`` bits; return the noise in units of 2**-bits and an error bound.

    With L = g + (less than n units), Z = z + (less than one unit per coordinate), and because
    ``|Z/|Z| - z/|z|| <= 2 |Z - z| / |z|``, the error is at most
    ``(2 / eta) (n units + g * 2 sqrt(n) units / |z|)``, plus ``|b'| / root`` for the integer square root and
    one unit per coordinate for the integer division.
    """
    n = len(lengths)
    if n == 0:
        return (), Fraction(0)
    length = sum(number.floor(bits) for number in lengths)
    direction = [sign * number.floor(bits) for sign, number in zip(signs, normals, strict=True)]
    root = math.isqrt(sum(part * part for part in direction))
    if root < 4 * n:
        return None, Fraction(1)
    numerators = tuple(2 * eta.denominator * length * part // (eta.numerator * root) for part in direction)
    unit = Fraction(1, 2**bits)
    root_n = math.isqrt(n) + 1
    # |z| >= root and |z|/root <= 2.
    error = (2 / eta) * (n * unit + length * unit * Fraction(2 * root_n + 2, root)) + root_n * unit
    return numerators, error


def scaled_floor(number: Real, scale: Fraction) -> int:
    """Return the largest whole number not above ``scale`` times a real number."""
    bits = CHUNK
    while True:
        part = number.floor(bits)
        below = scale.numerator * part // (scale.denominator << bits)
        # The number lies strictly below its next cut-off value, so that this end is not reached.
        above = -(-scale.numerator * (part + 1) // (scale.denominator << bits)) - 1
        if below == above:
            return below
        bits += CHUNK


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
    bits = CHUNK
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
        bits += CHUNK


def rounded_radial(stream: Bits, n: int, noise_rate: Fraction) -> tuple[int, ...]:
    r"""Draw noise with density proportional to :math:`e^{-\eta |b| / 2}`, every coordinate rounded down.

    Exactly: whole numbers plus this noise are their sums with the real-valued noise, rounded afterwards.
    """
    lengths = [exponential(stream) for _ in range(n)]
    normals = [half_normal(stream) for _ in range(n)]
    signs = [sign(stream) for _ in range(n)]
    bits = CHUNK
    while True:
        numerators, error = cut_off(lengths, normals, signs, noise_rate, bits)
        if numerators is not None:
            off = -(-error.numerator * (1 << bits) // error.denominator) + 1  # in units of 2**-bits
            low = tuple((numerator - off) >> bits for numerator in numerators)
            if low == tuple((numerator + off) >> bits for numerator in numerators):
                return low
        bits += CHUNK
