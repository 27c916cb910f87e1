"""Pairs of floats and exponentials, for kernels: every function is inlined where it is used.

Error-free transformations need exactly rounded operations: a kernel that uses them has no ``fastmath``. The
error bounds that :mod:`dpmarket.learning.rounding` states rest on those stated here; change both or none.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dpmarket.numerics import fast_two_sum, two_sum

_LOG2_E = 1.4426950408889634
_MAGIC = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_FARTHEST = 700.0

# ln 2 in three parts, the first two with 32 bits each: their products with |k| <= 2**11 are exact.
_LN2_1 = float.fromhex("0x1.62e42fee00000p-1")
_LN2_2 = float.fromhex("0x1.a39ef35600000p-33")
_LN2_3 = float.fromhex("0x1.93c7673007e5fp-65")

_SIXTH = (float.fromhex("0x1.5555555555555p-3"), float.fromhex("0x1.5555555555555p-57"))
_24TH = (float.fromhex("0x1.5555555555555p-5"), float.fromhex("0x1.5555555555555p-59"))


def _typed_fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


def _typed_bits_of(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


def _typed_float_of(typingctx: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


# a * b + c rounded once, and the bits of a float as an integer and back: one instruction each.
fma: Any = intrinsic(_typed_fma)
_bits_of: Any = intrinsic(_typed_bits_of)
_float_of: Any = intrinsic(_typed_float_of)


@numba.njit(cache=True, inline="always")
def two_product(a: float, b: float) -> tuple[float, float]:
    """Return the rounded product and what rounding lost, exactly."""
    product = a * b
    return product, fma(a, b, -product)


@numba.njit(cache=True, inline="always")
def add(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """Return the sum of two pairs."""
    total, rest = two_sum(ah, bh)
    low, lost = two_sum(al, bl)
    total, rest = fast_two_sum(total, rest + low)
    return fast_two_sum(total, rest + lost)


@numba.njit(cache=True, inline="always")
def times(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """Return the product of two pairs."""
    product, rest = two_product(ah, bh)
    return fast_two_sum(product, fma(al, bh, fma(ah, bl, rest)))


@numba.njit(cache=True, inline="always")
def exponential(z: float) -> float:
    """Return exp(z), within 8 * 2**-53 of the truth, relatively; z is limited to -700 .. 700."""
    z = min(max(z, -_FARTHEST), _FARTHEST)
    shifted = z * _LOG2_E + _MAGIC
    k = shifted - _MAGIC
    r = ((z - k * _LN2_1) - k * _LN2_2) - k * _LN2_3
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power: float = _float_of((_bits_of(shifted) + 1023) << 52)
    return p * power


@numba.njit(cache=True, inline="always")
def sigmoid(margin: float) -> float:
    """Return 1 / (1 + exp(margin)), within 8 * 2**-53 of the truth."""
    return 1.0 / (1.0 + exponential(margin))


@numba.njit(cache=True, inline="always")
def accurate_exponential(high: float, low: float) -> tuple[float, float]:
    """Return exp(high + low) as a pair, within 2**-87 of the truth, relatively, where that is above 1e-275.

    Smaller ones are within 1e-300. The sum is limited to -700 .. 700.
    """
    z = min(max(high, -_FARTHEST), _FARTHEST)
    rest = low if z == high else 0.0
    shifted = z * _LOG2_E + _MAGIC
    k = shifted - _MAGIC
    rh, rl = two_sum(z, -k * _LN2_1)
    rh, more = two_sum(rh, -k * _LN2_2)
    rh, rl = two_sum(rh, rl + more + rest - k * _LN2_3)
    rh *= 0.015625
    rl *= 0.015625
    # exp(r) - 1 for |r| < 0.0055: the series' tail needs no more than a float.
    tail = 1.0 / 362880.0
    tail = tail * rh + 1.0 / 40320.0
    tail = tail * rh + 1.0 / 5040.0
    tail = tail * rh + 1.0 / 720.0
    tail = tail * rh + 1.0 / 120.0
    ph, pl = two_product(tail, rh)
    ph, pl = add(_24TH[0], _24TH[1], ph, pl)
    ph, pl = times(ph, pl, rh, rl)
    ph, pl = add(_SIXTH[0], _SIXTH[1], ph, pl)
    ph, pl = times(ph, pl, rh, rl)
    ph, pl = add(0.5, 0.0, ph, pl)
    ph, pl = times(ph, pl, rh, rl)
    ph, pl = add(1.0, 0.0, ph, pl)
    eh, el = times(ph, pl, rh, rl)
    for _ in range(6):  # exp(2r) - 1 = 2 e + e^2
        sh, sl = times(eh, el, eh, el)
        eh, el = add(2.0 * eh, 2.0 * el, sh, sl)
    eh, el = add(1.0, 0.0, eh, el)
    power = _float_of((_bits_of(shifted) + 1023) << 52)
    return eh * power, el * power


@numba.njit(cache=True, inline="always")
def accurate_sigmoid(high: float, low: float) -> tuple[float, float]:
    """Return 1 / (1 + exp(high + low)) as a pair, within 2**-88 of the truth."""
    eh, el = accurate_exponential(high, low)
    dh, dl = add(1.0, 0.0, eh, el)
    quotient = 1.0 / dh
    remainder = fma(-quotient, dh, 1.0) - quotient * dl
    return fast_two_sum(quotient, quotient * remainder)
