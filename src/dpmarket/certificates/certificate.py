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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.certificates.canonical import canonical, digest_of
from dpmarket.certificates.commitments import SALT, Sellers, Tree, commit, fresh_salts
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
class Certificate:
    """A certificate with all that its owner needs to hand out receipts. ``bytes(certificate)`` is the file.

    Attributes
    ----------
    body
        The body as canonical JSON.
    lines, salts, tree
        Every seller's line, and 32 bytes that hide it: confidential, not part of the file. Commitments to
        them.
    rules, nonce
        The digest of the rules that everybody agreed to, and the key of the digest of the sellers, which an
        auditor gets: confidential. None where there is none.
    """

    body: bytes
    lines: Sellers
    salts: bytes
    tree: Tree
    rules: str | None
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
        if seller_id not in self.lines.ids:
            raise InvalidInput("expected the id of a seller in this certificate, found no such seller.")
        return self._receipt(self.lines.ids.index(seller_id), self.digest)

    def openings(self) -> bytes:
        """Return all lines with their salts, for the buyer's safe and for an auditor. Confidential."""
        sellers = range(len(self.lines))
        opened = {
            "schema": OPENINGS,
            "certificate": self.digest,
            "id": list(self.lines.ids),
            **{name: values.tolist() for name, values in self.lines.columns().items()},
            "rules": [self.rules for _ in sellers],
            "salt": [self._salt(k) for k in sellers],
            "secrets": {"nonce": None if self.nonce is None else self.nonce.hex()},
        }
        return canonical(opened) + b"\n"

    def line(self, k: int) -> dict[str, object]:
        """Return line ``k`` as plain data, without its salt."""
        own = {name: values[k].item() for name, values in self.lines.columns().items()}
        return {"id": self.lines.ids[k], **own, "rules": self.rules}

    def _salt(self, k: int) -> str:
        return self.salts[SALT * k : SALT * (k + 1)].hex()

    def _receipt(self, k: int, digest: str) -> bytes:
        place = int(self.tree.places[k])
        shown = {
            "schema": RECEIPT,
            "certificate": digest,
            "line": self.line(k),
            "salt": self._salt(k),
            "index": place,
            "path": self.tree.path(place),
        }
        return canonical(shown) + b"\n"


def make_certificate(
    sellers: Sellers, market: Mapping[str, Any], release: Mapping[str, Any], money: Mapping[str, Any], *,
    rules: str | None = None, quoted_at: str | None = None, nonce: bytes | None = None,
) -> Certificate:  # fmt: skip
    """Return the certificate of a purchase and its release, with new salts at every call.

    That noise was secret, and classes and bounds were declared, is the caller's word. Market and release are
    from :mod:`~dpmarket.certificates.description`; ``money`` is a ``currency`` of up to 12 letters and
    currency signs and its ``minor_units``; ``rules`` is the text that sellers agreed to, ``quoted_at`` when
    the first quote was given (ISO 8601, with the distance from UTC), ``nonce`` the key of the digest of the
    sellers that the salt of a cross-priced market is bound to. Refused is what exceeds a privacy budget, what
    was used of sellers who withdrew, and what the verifier refuses: the public part, or a line of a sample.
    """
    exceeded = int(np.count_nonzero(sellers.used > sellers.epsilons))
    if exceeded:
        raise NotCertifiable(f"expected nobody's epsilon exceeded, found {exceeded} sellers whose was.")
    if bool(((sellers.used + sellers.weights)[sellers.withdrew] > 0.0).any()):
        raise NotCertifiable("expected nothing used of sellers who withdrew; a record of one was.")
    agreed, salts = None if rules is None else rules_digest(rules), fresh_salts(len(sellers))
    tree = commit(sellers, agreed, salts)
    body = canonical(
        {
            "schema": CERTIFICATE,
            "market": dict(market),
            "release": dict(release),
            "money": dict(money),
            "totals": _totals(sellers, has_delta=bool(market["delta"])),
            "rules": None if rules is None else {"text": rules, "quoted_at": quoted_at},
            "root": tree.root,
            "versions": {"dpmarket": __version__, "python": platform.python_version()},
            "limits": list(LIMITS),
        }
    )
    made = Certificate(body, sellers, salts, tree, agreed, nonce)
    _refuse_unverifiable(made)
    return made


def _refuse_unverifiable(made: Certificate) -> None:
    """Refuse what the verifier refuses: the public part, and lines of a sample with the largest payments."""
    chosen = np.argsort(-made.lines.payments, kind="stable")[:_SAMPLE]
    wrong: list[str] = []
    try:
        public = Public(parsed(made.body, "certificate", MOST_BODY))
        wrong = [f"{one.name}: {one.detail}" for one in public.checks(None) if one.verdict == FAILS]
        lines = [made.line(int(k)) for k in chosen] if not wrong else []
        wrong += [
            name for name, check in LINE_CHECKS.items() for line in lines if check(public, line) is False
        ]
    except Broken as problem:
        wrong = [str(problem)]
    if wrong:
        raise NotCertifiable(f"expected a certificate that verifies: {wrong[0]}.")


def _totals(lines: Sellers, *, has_delta: bool) -> dict[str, Any]:
    """Return counts and sums, rounded up where an exact sum would tell one line to owners of all others."""
    columns = lines.columns()
    stayed = ~columns["withdrew"]
    sums = [_exact_sum(columns[name][stayed]) for name in ("epsilon", "payment", "used")]
    return {
        "sellers": len(lines),
        "bought_from": int(np.count_nonzero(lines.epsilons[stayed])),
        "withdrawn": len(lines) - int(stayed.sum()),
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
