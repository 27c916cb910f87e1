"""Check a certificate, a receipt and openings.

Every check gives a :class:`Check`: it holds, it fails, or it was not made and why. What can be checked
depends on what one has: the certificate alone, a seller's receipt, or the buyer's openings (all lines with
their salts). Formulas are derived anew here; their letters are those
of the paper, and (*) is the privacy formula of the documentation.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from binascii import unhexlify
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

HOLDS, FAILS, NOT_MADE = "holds", "FAILS", "not made"
_ARITY = 8
VALUES = ("promise", "payment", "spent", "weight")
_HASH = re.compile("[0-9a-f]{64}")
_LINE = {"id": (str, int), "promise": float, "payment": float, "spent": float, "weight": float}
_BODY: dict[str, Any] = {
    "market": dict,
    "mechanism": str,
    "model": {"coef_grid": list, "grid": float, "stretch": float},
    "money": {"minor_units": (int, type(None))},
    "not_promised": list,
    "root": str,
    "schema": str,
    "totals": {
        "bought_from": int,
        "paid": float,
        "promised": float,
        "sellers": int,
        "spent": float,
        "withdrawn": int,
    },
    "training": {
        "classes": list,
        "clip": bool,
        "fit_intercept": bool,
        "gradient_bound": float,
        "intercept_scaling": float,
        "l2": float,
        "n_coefficients": int,
        "noise_accuracy": float,
        "numerical_epsilon": float,
        "row_bound": float,
        "rows_per_person": int,
        "total_epsilon": float,
        "weight_total": float,
    },
    "versions": dict,
}
_RECEIPT = {"certificate": str, "line": _LINE, "path": list, "position": int, "salt": str, "schema": str}
_OPENINGS = {"certificate": str, "schema": str, **dict.fromkeys(("id", "salt", *VALUES), list)}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: its name, "holds", "FAILS" or "not made", and why.

    Attributes
    ----------
    name
        What was looked at.
    verdict
        "holds", "FAILS" or "not made".
    detail
        Why, in a few words.
    """

    name: str
    verdict: str
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks. ``passed`` is true if none failed; what was not made is listed, not counted.

    Attributes
    ----------
    checks
        One :class:`Check` for everything that was looked at, or that needs more than was given.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5], seller_ids=["ann", "bob", "cem"])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model)
    >>> verification = dpm.verify(certificate)
    >>> verification.passed, [check.name for check in verification.checks if check.verdict == "not made"]
    (True, ['signature'])
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.verdict != FAILS for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        rows = [{"name": c.name, "verdict": c.verdict, "detail": c.detail} for c in self.checks]
        return {"schema": "dpmarket.verification/1", "passed": self.passed, "checks": rows}


class _Broken(Exception):
    """What is checked is not even of the right shape."""


def verify(
    certificate: Any,
    *,
    receipt: bytes | None = None,
    cost: float | None = None,
    digest: str | None = None,
    openings: bytes | None = None,
    signature: bytes | None = None,
    public_key: bytes | None = None,
) -> Verification:
    """Check all that can be checked with what is given.

    Parameters
    ----------
    certificate
        The file's bytes, or its path, or anything with ``bytes(certificate)``.
    receipt
        Bytes of a seller's receipt.
    cost
        The receipt holder's own cost, money per unit of epsilon: is the payment worth the promise? It is
        used here and goes nowhere.
    digest
        The certificate's digest as the reader knows it from elsewhere.
    openings
        Bytes of the buyer's openings: checks every line.
    signature, public_key
        Ed25519 signature of the body's bytes, 64 bytes, and the raw public key, 32 bytes.

    Returns
    -------
    Verification
        With a receipt only the certificate's first line is needed, and only it is read from a path: the
        commitments are not, and are said not to be checked.

    Raises
    ------
    OSError
        If a path cannot be read. Whatever is wrong with what was read is a check that fails.

    Examples
    --------
    A seller checks the certificate with a receipt and the own cost; a changed certificate does not pass.

    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5], seller_ids=["ann", "bob", "cem"])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model)
    >>> dpm.verify(certificate, receipt=certificate.receipt("ann"), cost=1.5).passed
    True
    >>> dpm.verify(bytes(certificate).replace(b'"bought_from":3', b'"bought_from":4')).passed
    False
    """
    alone = receipt is not None and openings is None
    checks: list[Check] = []
    try:
        body_bytes, leaves = _read(certificate, first_line_only=alone)
        body = _parse(body_bytes, "the certificate's first line")
        _refuse_other_parts(body, _BODY, "dpmarket.certificate/1", "the certificate")
        found = hashlib.sha256(body_bytes).hexdigest()
        checks.append(Check("layout", HOLDS, f"canonical; the digest is {found}"))
        if digest is not None:
            checks.append(judged("digest", found == digest, "the one given", "not the one given"))
        checks.append(_signature(body_bytes, signature, public_key))
        checks.append(_commitments(body, leaves))
        checks.extend(_public_numbers(body))
        if receipt is not None:
            checks.extend(_receipt(body, found, receipt, cost))
        if openings is not None:
            checks.extend(_openings(body, found, leaves, openings))
    except _Broken as problem:
        checks.append(Check("layout", FAILS, str(problem)))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        checks.append(Check("layout", FAILS, f"a part is missing or wrong ({type(problem).__name__})"))
    return Verification(tuple(checks))


# --- reading: one canonical text for every value, so that every changed byte is seen ---


def _read(certificate: Any, first_line_only: bool) -> tuple[bytes, bytes | None]:
    """Return the body's bytes and the commitments, 32 bytes each; None where they were not read."""
    if isinstance(certificate, str | os.PathLike):
        with open(certificate, "rb") as file:
            data = file.readline() if first_line_only else file.read()
    else:
        data = bytes(certificate)
    end = data.find(b",\n")
    if end < 0 or not data.startswith(b'{"body":'):
        raise _Broken("this is not a certificate: expected its first line to hold the body")
    body, start = data[len(b'{"body":') : end], end + len(b",\n")
    if start == len(data) and first_line_only:
        return body, None
    # After the opening every commitment takes 68 bytes: 64 digits and four more, which the last closes with.
    opening, between, closing = b'"commitments":[\n"', b'",\n"', b'"]}\n'
    count, left = divmod(len(data) - start - len(opening), 68)
    if not data.startswith(opening, start) or count < 1 or left:
        raise _Broken("the commitments are not whole")
    rows = np.frombuffer(data, dtype=[("digits", "V64"), ("after", "V4")], offset=start + len(opening))
    digits = rows["digits"].tobytes()
    framed = rows["after"].tobytes() == between * (count - 1) + closing
    if not framed or any(capital in digits for capital in b"ABCDEF"):
        raise _Broken("the commitments are not written in the one canonical way")
    return body, unhexlify(digits)  # refuses what is no digit


def _parse(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data, parse_constant=_refuse)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        same = text.encode() == data
    except (ValueError, RecursionError):
        raise _Broken(f"{what} is not JSON in UTF-8") from None
    if not same or not isinstance(value, dict):
        raise _Broken(f"{what} is not written in the one canonical way")
    return value


def _refuse_other_parts(found: Any, shape: Mapping[str, Any], schema: str | None, what: str) -> None:
    """Refuse what does not have exactly these parts, each of exactly its type: True is no number here."""
    if not isinstance(found, dict) or found.keys() != shape.keys():
        raise _Broken(f"{what} does not have the parts that this program knows")
    if schema is not None and found["schema"] != schema:
        raise _Broken(f"{what} is of a kind that this program does not know")
    for name, kind in shape.items():
        if isinstance(kind, dict):
            _refuse_other_parts(found[name], kind, None, f"{name!r} in {what}")
        elif type(found[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise _Broken(f"{name!r} in {what} is not of the type that it must have")


def _hash(digits: Any) -> bytes:
    """Return 32 bytes from 64 hexadecimal digits, and from no other text."""
    if not isinstance(digits, str) or not _HASH.fullmatch(digits):
        raise _Broken("expected 64 hexadecimal digits for every salt and every hash")
    return bytes.fromhex(digits)


def _line(data: bytes) -> bytes:
    if not data.endswith(b"\n"):
        raise _Broken("expected a file that ends with its only line")
    return data[:-1]


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def judged(name: str, good: bool, yes: str, no: str) -> Check:
    """Return a check that holds for the reason ``yes``, or fails for the reason ``no``."""
    return Check(name, HOLDS if good else FAILS, yes if good else no)


# --- commitments ---


def _leaf(line: Mapping[str, Any], salt: str) -> bytes:
    name = line["id"]
    kind = b"t" + name.encode() if isinstance(name, str) else b"n%d" % name
    numbers = [line[value] for value in VALUES]
    if not all(0.0 <= number < math.inf for number in numbers):
        raise _Broken("a line's numbers must be finite and at least 0")
    packed = struct.pack(">4d", *numbers)
    return hashlib.sha256(b"dpmarket-line-1" + _hash(salt) + packed + kind).digest()


def _node(group: bytes) -> bytes:
    return hashlib.sha256(b"dpmarket-node-1" + group).digest()


def _root(node: bytes, count: int) -> str:
    return hashlib.sha256(b"dpmarket-root-1" + count.to_bytes(8, "big") + node).hexdigest()


def _commitments(body: Mapping[str, Any], leaves: bytes | None) -> Check:
    name = "commitments"
    if leaves is None:
        return Check(name, NOT_MADE, "only the first line was read; the receipt's path leads to the root")
    count = len(leaves) // 32
    if count != body["totals"]["sellers"]:
        return Check(name, FAILS, "not one commitment for each seller")
    first = np.frombuffer(leaves, dtype=">u8")[::4].astype(np.uint64)
    tied = np.flatnonzero(first[1:] == first[:-1])  # as good as never: then all bytes are compared
    ordered = bool((first[1:] >= first[:-1]).all())
    if not ordered or any(leaves[32 * k : 32 * k + 32] >= leaves[32 * k + 32 : 32 * k + 64] for k in tied):
        return Check(name, FAILS, "not in increasing order, all different")
    level = leaves
    while len(level) > 32:
        level = b"".join([_node(level[k : k + 32 * _ARITY]) for k in range(0, len(level), 32 * _ARITY)])
    return judged(
        name, _root(level, count) == body["root"], f"{count} lead to the root", "do not lead to the root"
    )


def _climbs(body: Mapping[str, Any], leaf: bytes, position: int, path: Sequence[Any]) -> bool:
    """Whether the path leads from this commitment at this position to the certificate's root."""
    count = body["totals"]["sellers"]
    if not 0 <= position < count:
        return False
    node, width, place = leaf, count, position
    for siblings in path:
        first = place - place % _ARITY
        group = [_hash(digits) for digits in siblings]
        if width <= 1 or len(group) + 1 != min(_ARITY, width - first):
            return False
        group.insert(place - first, node)
        node = _node(b"".join(group))
        place, width = place // _ARITY, -(-width // _ARITY)
    return width == 1 and bool(_root(node, count) == body["root"])


# --- privacy ---


def _loss(a: float, training: Mapping[str, Any]) -> Any:
    """Return (*) for weight ``a``, with 50 digits; 0 for weight 0, which the data cannot influence."""
    if a == 0.0:
        return mpmath.mpf(0)
    eta, l2, bound = (mpmath.mpf(training[k]) for k in ("total_epsilon", "l2", "row_bound"))
    r = int(training["rows_per_person"])
    linear = a * eta * bound / 2
    share = a * bound**2 / (r * l2)

    def bracket(s: Any) -> Any:
        return linear * s + r * mpmath.log(1 + share * s * (1 - s))

    # The derivative is 0 where linear (1 + share s (1 - s)) + r share (1 - 2 s) = 0: the larger root in s.
    p, q, c = linear * share, linear * share - 2 * r * share, linear + r * share
    s = (q + mpmath.sqrt(q * q + 4 * p * c)) / (2 * p)
    return linear + max(bracket(mpmath.mpf(1)), bracket(min(max(s, mpmath.mpf(0)), mpmath.mpf(1))))


def _losses(weights: Any, training: Mapping[str, Any]) -> Any:
    """Return (*) for many weights, in floats: good to twelve digits."""
    eta, l2, bound = (float(training[k]) for k in ("total_epsilon", "l2", "row_bound"))
    r = int(training["rows_per_person"])
    a = np.where(weights > 0.0, weights, 1.0)
    linear, share = a * eta * bound / 2.0, a * bound**2 / (r * l2)
    p, q, c = linear * share, linear * share - 2.0 * r * share, linear + r * share
    root = np.sqrt(q * q + 4.0 * p * c)
    s = np.clip(np.where(q > 0.0, (q + root) / (2.0 * p), 2.0 * c / (root - q)), 0.0, 1.0)
    bracket = linear * s + r * np.log1p(share * s * (1.0 - s))
    return np.where(weights > 0.0, linear + np.maximum(bracket, linear), 0.0)


def _release(body: Mapping[str, Any]) -> Any:
    """Return what releasing on the grid costs, with 50 digits; infinite if the grid is too fine."""
    t = body["training"]
    g, n, l2 = mpmath.mpf(body["model"]["grid"]), int(t["n_coefficients"]), mpmath.mpf(t["l2"])
    bound, total, eta = (mpmath.mpf(t[k]) for k in ("row_bound", "weight_total", "total_epsilon"))
    rho = (mpmath.mpf(t["gradient_bound"]) + mpmath.mpf(t["noise_accuracy"])) / l2
    if not g > 2 * rho:
        return mpmath.inf
    third = total * bound**3 / (6 * mpmath.sqrt(3) * l2)
    slope = eta / 2 * (l2 + total * bound**2 / 4) + min(n * bound, third)
    return n * mpmath.log((g + 2 * rho) / (g - 2 * rho)) + 2 * rho * mpmath.sqrt(n) * slope


def _public_numbers(body: Mapping[str, Any]) -> list[Check]:
    t, totals, model = body["training"], body["totals"], body["model"]
    positive = ("l2", "total_epsilon", "row_bound", "weight_total", "gradient_bound", "noise_accuracy")
    units = body["money"]["minor_units"]
    cells = model["coef_grid"]
    constant = Fraction(t["intercept_scaling"]) if t["fit_intercept"] else Fraction(0)
    sound = (
        all(0.0 < t[k] < math.inf for k in positive)
        and t["rows_per_person"] >= 1
        and (units is None or units >= 1)
        and 0.0 < model["stretch"] < math.inf
        and 0 <= totals["bought_from"] <= totals["sellers"]
        and 0 <= totals["withdrawn"] <= totals["sellers"]
        and Fraction(t["row_bound"]) ** 2 >= 1 + constant**2
        and len(cells) == t["n_coefficients"] > 0
        and all(type(cell) is int for cell in cells)
        and len(t["classes"]) == 2
        and t["classes"][0] != t["classes"][1]
    )
    with mpmath.workdps(50):
        cost = _release(body)
        released = cost <= t["numerical_epsilon"] and math.frexp(model["grid"])[0] == 0.5
    kept = 0.0 <= totals["spent"] <= totals["promised"] < math.inf and totals["paid"] >= 0.0
    return [
        judged("public numbers", sound, "consistent", "of a wrong kind, or they do not fit together"),
        judged(
            "release", bool(released), f"costs {mpmath.nstr(cost, 4)}, as charged", "costs more than charged"
        ),
        judged("total spent", kept, "at most the total promised", "more than promised, or not a number"),
    ]


def _kept(line: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether the spent epsilon covers the line's weight, and whether the promise covers the spent."""
    with mpmath.workdps(50):
        weight = float(line["weight"])
        cost = _loss(weight, body["training"]) + (_release(body) if weight > 0.0 else 0)
        return bool(cost <= line["spent"]), line["spent"] <= line["promise"]


# --- receipts and openings ---


def _receipt(body: Mapping[str, Any], digest: str, data: bytes, cost: float | None) -> list[Check]:
    receipt = _parse(_line(data), "the receipt")
    _refuse_other_parts(receipt, _RECEIPT, "dpmarket.receipt/1", "the receipt")
    line, totals = receipt["line"], body["totals"]
    inside = _climbs(body, _leaf(line, receipt["salt"]), receipt["position"], receipt["path"])
    mine = (
        f"is in the certificate: id {line['id']!r}, promise {line['promise']!r}, payment {line['payment']!r}"
    )
    fits = (
        line["promise"] <= totals["promised"]
        and line["payment"] <= totals["paid"]
        and line["spent"] <= totals["spent"]
        and line["weight"] <= body["training"]["weight_total"]
    )
    covered, kept = _kept(line, body)
    checks = [
        judged(
            "receipt's digest", receipt["certificate"] == digest, "this certificate", "another certificate"
        ),
        judged("receipt's line", inside, mine, "is not in the certificate"),
        judged("receipt's numbers", fits, "fit into the totals", "are more than the totals"),
        judged("receipt's spent epsilon", covered, "covers the weight used", "is less than the weight costs"),
        judged("receipt's promise", kept, "was kept", "was exceeded"),
    ]
    if cost is None:
        return [*checks, Check("participation", NOT_MADE, "enter your own cost to check it")]
    unit = Fraction(1, body["money"]["minor_units"] or 1)
    worth = Fraction(line["payment"]) * unit >= Fraction(cost) * Fraction(line["promise"])
    return [
        *checks,
        judged("participation", worth, "the payment covers the loss", "the payment is too small"),
    ]


def _openings(body: Mapping[str, Any], digest: str, leaves: bytes | None, data: bytes) -> list[Check]:
    opened = _parse(_line(data), "the openings")
    _refuse_other_parts(opened, _OPENINGS, "dpmarket.openings/1", "the openings")
    columns = [opened[name] for name in ("id", *VALUES)]
    lines = [dict(zip(("id", *VALUES), row, strict=True)) for row in zip(*columns, strict=True)]
    for line in lines:
        _refuse_other_parts(line, _LINE, None, "a line of the openings")
    hashes = sorted(_leaf(line, salt) for line, salt in zip(lines, opened["salt"], strict=True))
    promise, payment, spent, weight = (np.array(opened[name], dtype=np.float64) for name in VALUES)
    totals = {
        "sellers": len(lines),
        "bought_from": int(np.count_nonzero(promise)),
        "promised": math.fsum(promise),
        "paid": math.fsum(payment),
        "spent": math.fsum(spent),
        "withdrawn": body["totals"]["withdrawn"],
    }
    t = body["training"]
    with mpmath.workdps(50):
        release = float(_release(body))
    needed = _losses(weight, t) + np.where(weight > 0.0, release, 0.0)
    names = {(type(line["id"]), line["id"]) for line in lines}
    return [
        judged(
            "openings' digest", opened["certificate"] == digest, "this certificate", "another certificate"
        ),
        judged(
            "openings", b"".join(hashes) == leaves, "open every commitment", "do not open the commitments"
        ),
        judged("ids", len(names) == len(lines), "all different", "some are repeated"),
        judged(
            "spent epsilons",
            bool((spent >= needed * (1.0 - 1e-12)).all()),
            "each covers the weight used, to twelve digits",
            "some are less than the weight costs",
        ),
        judged("promises", bool((spent <= promise).all()), "all kept", "some exceeded"),
        judged("weights", math.fsum(weight) <= t["weight_total"], "add up", "add up to more than stated"),
        judged("totals", totals == body["totals"], "as stated", "not as stated"),
    ]


# --- signature ---


def _signature(body: bytes, signature: bytes | None, public_key: bytes | None) -> Check:
    if signature is None or public_key is None:
        return Check("signature", NOT_MADE, "needs the signature and the signer's public key")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return Check("signature", FAILS, "cannot be checked: the cryptography package is missing")
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, body)
    except (InvalidSignature, ValueError):
        return Check("signature", FAILS, "not made with this key over this certificate")
    return Check("signature", HOLDS, "made with this key over this certificate")
