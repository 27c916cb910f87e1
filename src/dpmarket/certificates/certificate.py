"""A certificate, with a receipt for every seller and the openings for an auditor, from plain values.

A certificate is a text of fixed layout. Its first line has the *body*: the market's and the release's
descriptions, totals, the announced rules, the root of all commitments, and what is not guaranteed. The lines
after it are the commitments. The SHA-256 of the body's canonical bytes is the certificate's *digest*; since
the body has the root, the digest stands for the commitments as well. Receipts name it.
"""

from __future__ import annotations

import math
import platform
from array import array
from binascii import hexlify
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray, read_only
from dpmarket.certificates.canonical import canonical, digest_of
from dpmarket.certificates.commitments import VALUES, Lines, Tree, commit, fresh_salts
from dpmarket.certificates.description import rules_digest
from dpmarket.certificates.verifier.lines import LINE_CHECKS
from dpmarket.certificates.verifier.public import Public
from dpmarket.certificates.verifier.reading import MOST_BODY, parsed
from dpmarket.certificates.verifier.verdicts import FAILS, LIMITS, Broken
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.version import __version__

CERTIFICATE, RECEIPT, OPENINGS = "dpmarket.certificate/3", "dpmarket.receipt/3", "dpmarket.openings/3"
_SAMPLE = 50  # lines that the verifier looks at before a certificate is handed out


@dataclass(frozen=True, eq=False, repr=False)
class Sellers:
    """Everybody a mechanism decided about, column by column; confidential.

    Attributes
    ----------
    ids
        Texts, all different: those that were hashed into parts, if sellers were split.
    epsilons, payments
        What each was quoted: the privacy budget, and whole minor units of money.
    used, weights
        Epsilon that the release used of each, and the weight in it: of training, a whole weight of a descent,
        or what statistics spent. Both 0 for sellers without a record in it.
    withdrew
        Sellers who were quoted this and left before the release: nothing is used, nothing is owed.
    parts, groups
        By which prices each was quoted: positions in the market's ``prices`` and ``groups``. None: 0.
    rules
        The digest of the rules that each agreed to (None: no rules); None: the certificate's, for everybody.
    """

    ids: Sequence[str]
    epsilons: FloatArray
    payments: IntArray
    used: FloatArray
    weights: FloatArray
    withdrew: BoolArray | None = None
    parts: IntArray | None = None
    groups: IntArray | None = None
    rules: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        if set(map(type, self.ids)) != {str}:
            raise InvalidInput("expected ids to be texts, at least one.")
        if len(set(self.ids)) < len(self.ids):
            raise InvalidInput("expected ids that are all different.")
        for name in ("epsilons", "payments", "used", "weights"):
            values = checks.non_negative_vector(name, getattr(self, name))
            object.__setattr__(self, name, values)
        for name in ("withdrew", "parts", "groups"):
            given = getattr(self, name)
            kind = np.bool_ if name == "withdrew" else np.int64
            values = np.zeros(len(self.ids), dtype=kind) if given is None else np.asarray(given).astype(kind)
            object.__setattr__(self, name, values)
        for name in ("epsilons", "payments", "used", "weights", "withdrew", "parts", "groups"):
            if getattr(self, name).shape != (len(self.ids),):
                raise InvalidInput(f"expected {name} of {len(self.ids)} sellers, got another number.")
        if not bool((self.payments == np.floor(self.payments)).all()):
            raise InvalidInput("expected payments in whole minor units.")


@dataclass(frozen=True)
class Money:
    """The money of a certificate.

    Attributes
    ----------
    minor_units
        How many make one unit of money.
    currency
        Its short name, up to 12 letters and currency signs; empty: none.
    """

    minor_units: int
    currency: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"currency": self.currency, "minor_units": self.minor_units}


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A certificate with all that its owner needs to hand out receipts. ``bytes(certificate)`` is the file.

    Attributes
    ----------
    body
        The body as canonical JSON.
    lines
        Every seller's line and salt. Confidential; not part of the file.
    tree
        Commitments to the lines.
    nonce
        The key of the digest of the sellers, which an auditor gets; None where there is none. Confidential.

    Examples
    --------
    The buyer publishes the file, and gives every seller a receipt.

    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(2, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> file, receipt = bytes(certificate), certificate.receipt("ann")
    >>> b'"ann"' in file, b'"ann"' in receipt, len(certificate.digest)
    (False, True, 64)
    """

    body: bytes
    lines: Lines
    tree: Tree
    nonce: bytes | None

    @property
    def digest(self) -> str:
        """SHA-256 of the body, in hexadecimal digits."""
        return digest_of(self.body)

    def __bytes__(self) -> bytes:
        rows = np.empty(len(self.lines), dtype=[("opening", "V1"), ("digits", "V64"), ("closing", "V3")])
        rows["opening"], rows["closing"] = b'"', b'",\n'
        rows["digits"] = np.frombuffer(hexlify(self.tree.leaves), dtype="V64")
        commitments = rows.view(np.uint8)[: -len(b",\n")].data
        return b"".join([b'{"body":', self.body, b',\n"commitments":[\n', commitments, b"]}\n"])

    def receipts(self) -> Iterator[tuple[str, bytes]]:
        """Yield every seller's id and receipt, in the order of the lines."""
        digest = self.digest
        for k in range(len(self.lines)):
            yield self.lines.ids[k], self._receipt(k, digest)

    def receipt(self, seller_id: str) -> bytes:
        """Return one seller's receipt: the line, its salt, its path to the root and the digest."""
        for k, name in enumerate(self.lines.ids):
            if name == seller_id:
                return self._receipt(k, self.digest)
        raise InvalidInput("expected the id of a seller in this certificate, found no such seller.")

    def openings(self) -> bytes:
        """Return all lines with their salts, for the buyer's safe and for an auditor. Confidential."""
        lines = self.lines
        columns = {name: lines.values[:, k].tolist() for k, name in enumerate(VALUES)}
        return canonical(
            {
                "schema": OPENINGS,
                "certificate": self.digest,
                "id": list(lines.ids),
                **columns,
                "withdrew": lines.withdrew.tolist(),
                "part": lines.parts.tolist(),
                "group": lines.groups.tolist(),
                "rules": list(lines.rules),
                "salt": [lines.salt(k) for k in range(len(lines))],
                "secrets": {"nonce": None if self.nonce is None else self.nonce.hex()},
            }
        ) + b"\n"  # fmt: skip

    def _receipt(self, k: int, digest: str) -> bytes:
        place = int(self.tree.places[k])
        return canonical(
            {
                "schema": RECEIPT,
                "certificate": digest,
                "line": self.lines.line(k),
                "salt": self.lines.salt(k),
                "index": place,
                "path": self.tree.path(place),
            }
        ) + b"\n"  # fmt: skip


def make_certificate(
    sellers: Sellers,
    market: Mapping[str, Any],
    release: Mapping[str, Any],
    money: Money,
    *,
    rules: str | None = None,
    quoted_at: str | None = None,
    nonce: bytes | None = None,
) -> Certificate:
    """Return the certificate of a purchase and its release.

    That noise was secret, and classes and bounds were declared, is the caller's word.

    Parameters
    ----------
    sellers
        Everybody the mechanism decided about, with what was used of each.
    market
        From :func:`~dpmarket.certificates.description.describe_market`.
    release
        From :func:`~dpmarket.certificates.description.describe_model` or ``describe_statistics``.
    money
        The currency and its minor units.
    rules
        The text of the rules that sellers agreed to, from
        :func:`~dpmarket.certificates.description.announce_rules`; None: no rules were announced.
    quoted_at
        When the first quote was given: ISO 8601, with the distance from UTC; None: not stated.
    nonce
        The key of the digest of the sellers that the salt of a cross-priced market is bound to; None: none.

    Returns
    -------
    Certificate
        With new salts at every call: the first one's openings belong to it alone.

    Raises
    ------
    NotCertifiable
        If a privacy budget was exceeded, something was used of sellers who withdrew, or the verifier refuses
        the certificate's public part or a line of a sample.
    """
    exceeded = int(np.count_nonzero(sellers.used > sellers.epsilons))
    if exceeded:
        raise NotCertifiable(f"expected nobody's epsilon exceeded, found {exceeded} sellers whose was.")
    assert sellers.withdrew is not None
    assert sellers.parts is not None
    assert sellers.groups is not None
    if bool(((sellers.used + sellers.weights)[sellers.withdrew] > 0.0).any()):
        raise NotCertifiable("expected nothing used of sellers who withdrew; a record of one was.")
    agreed = None if rules is None else rules_digest(rules)
    lines = Lines(
        ids=sellers.ids,
        values=read_only(
            np.column_stack([sellers.epsilons, sellers.payments, sellers.used, sellers.weights])
        ),
        withdrew=sellers.withdrew,
        parts=sellers.parts,
        groups=sellers.groups,
        rules=[agreed] * len(sellers.ids) if sellers.rules is None else sellers.rules,
        salts=fresh_salts(len(sellers.ids)),
    )
    tree = commit(lines)
    body = canonical(
        {
            "schema": CERTIFICATE,
            "market": dict(market),
            "release": dict(release),
            "money": money.to_dict(),
            "totals": _totals(lines, has_delta=bool(market["delta"])),
            "rules": None if rules is None else {"text": rules, "quoted_at": quoted_at},
            "root": tree.root,
            "versions": {"dpmarket": __version__, "python": platform.python_version()},
            "limits": list(LIMITS),
        }
    )
    made = Certificate(body, lines, tree, nonce)
    _refuse_unverifiable(made)
    return made


def _refuse_unverifiable(made: Certificate) -> None:
    """Refuse what the verifier refuses: the public part, and lines of a sample with the largest payments."""
    chosen = np.argsort(-made.lines.values[:, 1], kind="stable")[:_SAMPLE]
    wrong: list[str] = []
    try:
        public = Public(parsed(made.body, "certificate", MOST_BODY))
        wrong = [f"{one.name}: {one.detail}" for one in public.checks(None) if one.verdict == FAILS]
        lines = [made.lines.line(int(k)) for k in chosen] if not wrong else []
        wrong += [
            name for name, check in LINE_CHECKS.items() for line in lines if check(public, line) is False
        ]
    except Broken as problem:
        wrong = [str(problem)]
    if wrong:
        raise NotCertifiable(f"expected a certificate that verifies: {wrong[0]}.")


def _totals(lines: Lines, *, has_delta: bool) -> dict[str, Any]:
    """Return how many sellers there are and what they have in all.

    The epsilon used is exact where the noise gives it away; other sums are rounded up to three digits, since
    exact ones would tell the last line to a reader who knows all others.
    """
    stayed = lines.values[~lines.withdrew]
    sums = [_exact_sum(np.ascontiguousarray(stayed[:, k])) for k in range(3)]
    return {
        "sellers": len(lines),
        "bought_from": int(np.count_nonzero(stayed[:, 0])),
        "withdrawn": int(lines.withdrew.sum()),
        "total_epsilon": _rounded_up(sums[0]),
        "total_payment": _rounded_up(sums[1]),
        "total_used": _rounded_up(sums[2]) if has_delta else float(sums[2]),
    }


def _exact_sum(values: FloatArray) -> Decimal:
    # Summing an array's own numbers spares a million objects; what the sum's rounding lost is a float again.
    numbers = array("d", values.tobytes())
    total = math.fsum(numbers)
    numbers.append(-total)
    return Context(prec=2_000).add(Decimal(total), Decimal(math.fsum(numbers)))


def _rounded_up(total: Decimal) -> float:
    return float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(total))
