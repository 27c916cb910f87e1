"""A forger who has read the format: changes papers and computes commitments, root and totals again.

Nothing of the package is used, so that only the check that is made for a change can find it.
"""

import copy
import functools
import hashlib
import json
import math
import struct
from fractions import Fraction
from pathlib import Path

FILES = Path(__file__).parents[1] / "certificates" / "files"
VALUES = ("epsilon", "payment", "used", "weight")


def canonical(data):
    """Return the canonical JSON of plain data (RFC 8785), in UTF-8."""
    return _written(data).encode("utf-8", "surrogatepass")


def _written(value):
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_written(name)}:{_written(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return _number(float(value))
    return json.dumps(value, ensure_ascii=False)


def _number(value):
    if not math.isfinite(value):
        return str(value)  # no JSON: for a forger's sake
    if value == 0.0:
        return "0"
    digits, _, power = repr(abs(value)).partition("e")
    whole, _, rest = digits.partition(".")
    if not power:  # to the form d.ddd times a power of ten
        text = (whole + rest).lstrip("0")
        power = len(whole) - 1 if whole != "0" else len(text) - len(rest) - 1
        digits = text.rstrip("0")
    digits, n = digits.replace(".", ""), int(power) + 1
    sign = "-" if value < 0 else ""
    if len(digits) <= n <= 21:
        return sign + digits + "0" * (n - len(digits))
    if 0 < n <= 21:
        return f"{sign}{digits[:n]}.{digits[n:]}"
    if -6 < n <= 0:
        return f"{sign}0.{'0' * -n}{digits}"
    tail = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{tail}e{'+' if n > 0 else '-'}{abs(n - 1)}"


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


class Papers:
    """A certificate's body, its lines with salts, and its secrets, to be changed and written again."""

    def __init__(self, certificate, openings):
        first = certificate.split(b"\n")[0]
        self.body = json.loads(first.removeprefix(b'{"body":').removesuffix(b","))
        opened = json.loads(openings)
        names = ["id", *VALUES, "withdrew", "part", "group", "rules", "salt"]
        self.lines = [dict(zip(names, row, strict=True)) for row in zip(*map(opened.get, names), strict=True)]
        self.secrets = opened["secrets"]
        self.certificate_was, self.openings_were = certificate, openings
        self.costs = None

    @classmethod
    def stored(cls, name):
        """Return papers that are stored with the tests."""
        return copy.deepcopy(_stored(name))

    def copy(self):
        return copy.deepcopy(self)

    @property
    def release(self):
        return self.body["release"]

    @property
    def market(self):
        return self.body["market"]

    @property
    def best(self):
        """The line with the largest payment among those that were used."""
        return max(self.lines, key=lambda line: (not line["withdrew"], line["payment"]))

    def leaf(self, line):
        numbers = struct.pack(
            ">4dBHH", *(line[name] for name in VALUES), line["withdrew"], line["part"], line["group"]
        )
        rules = bytes(32) if line["rules"] is None else bytes.fromhex(line["rules"])
        return sha(b"\0", bytes.fromhex(line["salt"]), numbers, rules, line["id"].encode())

    def leaves(self):
        return sorted(map(self.leaf, self.lines))

    def commit(self):
        """Let the root follow from the lines."""
        self.body["root"] = mth(self.leaves()).hex()
        return self

    def settle(self):
        """Let root and totals follow from the lines."""
        stayed = [line for line in self.lines if not line["withdrew"]]
        sums = {name: sum(Fraction(line[name]) for line in stayed) for name in VALUES[:3]}
        exact = not self.market["delta"]
        self.body["totals"] = {
            "sellers": len(self.lines),
            "bought_from": sum(line["epsilon"] > 0.0 for line in stayed),
            "withdrawn": len(self.lines) - len(stayed),
            "total_epsilon": up_to_three_digits(sums["epsilon"]),
            "total_payment": up_to_three_digits(sums["payment"]),
            "total_used": float(sums["used"]) if exact else up_to_three_digits(sums["used"]),
        }
        return self.commit()

    @property
    def digest(self):
        return sha(canonical(self.body)).hex()

    @property
    def first(self):
        return b'{"body":' + canonical(self.body) + b",\n"

    def certificate(self, leaves=None):
        rows = b'",\n"'.join(leaf.hex().encode() for leaf in leaves or self.leaves())
        return self.first + b'"commitments":[\n"' + rows + b'"]}\n'

    def openings(self):
        columns = {name: [line[name] for line in self.lines] for name in self.lines[0]}
        schema = {"schema": "dpmarket.openings/3", "certificate": self.digest, "secrets": self.secrets}
        return canonical(columns | schema) + b"\n"

    def receipt(self, line=None, **changes):
        line = self.best if line is None else line
        leaves = self.leaves()
        index = leaves.index(self.leaf(line))
        found = {
            "schema": "dpmarket.receipt/3",
            "certificate": self.digest,
            "line": {name: value for name, value in line.items() if name != "salt"},
            "salt": line["salt"],
            "index": index,
            "path": [node.hex() for node in inclusion(index, leaves)],
        }
        return canonical(found | changes) + b"\n"


@functools.cache
def _stored(name):
    return Papers((FILES / f"{name}.json").read_bytes(), (FILES / f"{name}.openings.json").read_bytes())


def mth(leaves):
    """Return the Merkle tree hash as RFC 9162 defines it, section 2.1.1."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\1", mth(leaves[:k]), mth(leaves[k:]))


def inclusion(index, leaves):
    """Return the inclusion proof as RFC 9162 defines it, section 2.1.3.1."""
    if len(leaves) == 1:
        return []
    k = 1 << (len(leaves) - 1).bit_length() - 1
    if index < k:
        return [*inclusion(index, leaves[:k]), mth(leaves[k:])]
    return [*inclusion(index - k, leaves[k:]), mth(leaves[:k])]


def up_to_three_digits(total):
    """Return the smallest number of three digits that is not below a total."""
    if not total:
        return 0.0
    exponent = math.floor(math.log10(total)) - 2
    exponent += Fraction(10) ** (exponent + 3) < total  # rounding of the logarithm
    return float(f"{math.ceil(total / Fraction(10) ** exponent)}e{exponent}")
