"""Papers of a certificate that can be changed in one place, with all that follows from the change recomputed.

Written a third time, without the program and without the verifier: what a forger with both sources would
write.
"""

import csv
import hashlib
import json
import pickle
import struct
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path

FILES = Path(__file__).parents[1] / "certificates" / "files"
ARITY = 8
VALUES = ("promise", "payment", "spent", "weight")


def canonical(data):
    """Return the one text of this data, without a line's end."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def leaf(line, salt):
    """Return the commitment to a line."""
    name = line["id"]
    kind = b"t" + name.encode() if isinstance(name, str) else b"n%d" % name
    numbers = struct.pack(">4d", *(line[value] for value in VALUES))
    state = (b"w" if line["withdrew"] else b"k") + line["quotes"].to_bytes(4, "big")
    return hashlib.sha256(b"dpmarket-line-2" + bytes.fromhex(salt) + numbers + state + kind).digest()


def tree(leaves):
    """Return all levels of the tree over sorted commitments."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        groups = (levels[-1][k : k + ARITY] for k in range(0, len(levels[-1]), ARITY))
        levels.append([hashlib.sha256(b"dpmarket-node-1" + b"".join(group)).digest() for group in groups])
    return levels


def rounded_up(total):
    """Return the smallest number with three digits that is not below the total, a fraction of a power of
    two."""
    exact = Context(prec=3_000).divide(Decimal(total.numerator), Decimal(total.denominator))
    return float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(exact))


@dataclass
class Papers:
    """A certificate's body, its lines and their salts."""

    body: dict
    lines: list
    salts: list
    reports: dict = field(default_factory=dict)

    @classmethod
    def of(cls, certificate, openings, reports=None):
        """Take the papers apart, from bytes."""
        opened = json.loads(openings)
        names = ["id", *VALUES, "withdrew", "quotes"]
        rows = zip(*(opened[name] for name in names), strict=True)
        body = json.loads(bytes(certificate))["body"]
        lines = [dict(zip(names, row, strict=True)) for row in rows]
        return cls(body, lines, opened["salt"], dict(reports or {}))

    @classmethod
    def read(cls, folder, name):
        """Read committed papers."""
        path = FILES / folder
        with open(path / f"{name}.reports.csv", encoding="utf-8", newline="") as file:
            reports = {row["seller"]: float(row["cost"]) for row in csv.DictReader(file)}
        return cls.of(
            (path / f"{name}.certificate.json").read_bytes(),
            (path / f"{name}.openings.json").read_bytes(),
            reports,
        )

    @property
    def constants(self):
        """The part of the body that holds the public constants."""
        return self.body["release"]

    def copy(self):
        return pickle.loads(pickle.dumps(self))  # faster than copy.deepcopy

    def changed(self, *path, to):
        """Return papers with one value of the body changed, nothing else."""
        other = self.copy()
        part = other.body
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = to
        return other

    def with_lines(self, change):
        """Return papers whose lines were changed in place by a function; root and totals follow."""
        other = self.copy()
        change(other.lines)
        return other.settled()

    def settled(self):
        """Return papers in which root and totals follow from the lines."""
        other = self.copy()
        other.body["root"] = other.root()
        other.body["totals"] |= other.totals()
        return other

    def totals(self):
        kept = [line for line in self.lines if not line["withdrew"]]
        counts = {
            "sellers": len(self.lines),
            "bought_from": sum(line["promise"] > 0.0 for line in kept),
        }
        sums = [sum((Fraction(line[name]) for line in kept), Fraction(0)) for name in VALUES[:3]]
        names = ("total_promise", "total_payment", "total_spent")
        counts["withdrawn"] = len(self.lines) - len(kept)
        return counts | dict(zip(names, map(rounded_up, sums), strict=True))

    def leaves(self):
        return sorted(leaf(line, salt) for line, salt in zip(self.lines, self.salts, strict=True))

    def root(self):
        levels = tree(self.leaves())
        start = b"dpmarket-root-1" + len(self.lines).to_bytes(8, "big")
        return hashlib.sha256(start + levels[-1][0]).hexdigest()

    @property
    def first(self):
        """The certificate's first line, as bytes."""
        return b'{"body":' + canonical(self.body) + b",\n"

    @property
    def certificate(self):
        rows = b'",\n"'.join(leaf.hex().encode() for leaf in self.leaves())
        return self.first + b'"commitments":[\n"' + rows + b'"]}\n'

    @property
    def digest(self):
        return hashlib.sha256(canonical(self.body)).hexdigest()

    def receipt(self, k):
        """Return the receipt of line ``k``."""
        levels = tree(self.leaves())
        position = place = levels[0].index(leaf(self.lines[k], self.salts[k]))
        path = []
        for level in levels[:-1]:
            group = level[place - place % ARITY :][:ARITY]
            path.append([node.hex() for j, node in enumerate(group) if j != place % ARITY])
            place //= ARITY
        data = {
            "schema": "dpmarket.receipt/2",
            "certificate": self.digest,
            "line": self.lines[k],
            "salt": self.salts[k],
            "position": position,
            "path": path,
            "money": self.body["money"],
            "not_promised": self.body["not_promised"],
        }
        return canonical(data) + b"\n"

    @property
    def openings(self):
        names = list(self.lines[0])
        data = {
            "schema": "dpmarket.openings/2",
            "certificate": self.digest,
            "salt": self.salts,
            **{name: [line[name] for line in self.lines] for name in names},
        }
        return canonical(data) + b"\n"
