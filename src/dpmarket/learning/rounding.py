"""The unit of rounding and Higham's gamma: what rigorous error bounds are written in.

A sum of k products in any order is off by at most gamma(k) times the sum of the absolute products (Higham,
*Accuracy and Stability of Numerical Algorithms*, section 3.1); compensated, by gamma(k)^2 times it, if high
and low part are kept (Ogita, Rump and Oishi, *Accurate sum and dot product*, 2005).
"""

from __future__ import annotations

UNIT = 2.0**-53


def gamma(k: int) -> float:
    """Return k u / (1 - k u), rounded up."""
    return k * UNIT / (1.0 - k * UNIT) * (1.0 + 1e-15)
