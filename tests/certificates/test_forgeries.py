"""Forged papers, recommitted so that all hashes agree, are refused by the verifier and by the page.

A row names what was changed, by which stored papers, the check that must find it, and the change; the change
returns the line whose receipt is shown (None: the one with the largest payment).
"""

import hashlib
import json
import math

import pytest

from dpmarket.certificates import verify
from dpmarket.certificates.verifier.public import signature_check
from support.certificates import failing
from support.forging import FILES, Papers, canonical, mth
from support.receipt_page import checks_by_both

NORM = ("two-classes", "two-classes-paper", "rows", "categories", "labels", "regression", "shares", "hinge",
        "quantiles", "softmax", "softmax-categories")  # fmt: skip
DELTA = ("delta", "delta-online", "delta-softmax")
SCHEDULES = ("two-classes-online", "two-classes-posted", "two-classes-quadratic-online",
             "two-classes-irregular", "delta-online", "cross-priced")  # fmt: skip
EXACT = ("two-classes", "two-classes-quadratic", "two-classes-caps", "two-classes-groups", "delta")
INTERVALS = ("intervals", "delta-intervals")
STATISTICS = ("mean", "share", "histogram", "quantile", "vector-mean", "several")
CROSS = ("cross-priced",)
ALL = (*NORM, *DELTA, *STATISTICS, "two-classes-online", "cross-priced")


def changed(part, changes):
    """Change parts: to values, or to functions of the old ones."""
    for name, value in changes.items():
        part[name] = value(part[name]) if callable(value) else value


def line(**changes):
    """Return a change of the best paid line."""

    def change(papers):
        best = papers.best
        changed(best, changes)
        return best

    return change


def at(path, to):
    """Return a change of one public part, by the names and numbers of its path: a value, or a function."""

    def change(papers):
        *names, last = [int(name) if name.isdigit() else name for name in path.split()]
        part = papers.body
        for name in names:
            part = part[name]
        changed(part, {last: to})

    return change


def times(factor):
    return lambda value: value * factor


def less_used(papers):
    """Use a little less than the weight costs, by one part in 1e12."""
    return line(used=times(1.0 - 1e-12))(papers)


def rob(papers):
    """Pay everybody a third, by schedules with a third of every cost."""
    for part in papers.market["prices"]:
        for schedule in part["schedules"]:
            schedule["costs"] = [cost / 3.0 for cost in schedule["costs"]]
    for one in papers.lines:
        one["payment"] = math.ceil(one["payment"] / 3.0)


def no_prices(papers):
    papers.market["prices"] = []
    for one in papers.lines:
        one["payment"] = float(one["epsilon"] > 0)


def other_mechanism(papers):
    """Call a menu a market of all reports, which needs tables that were not announced."""
    papers.market.update(mechanism="offline", prices=[], split=None)
    papers.market["groups"][0]["virtual_cost"] = None


def called_offline(papers):
    """State the tables only, of which a payment anywhere up to the reserve price is sound."""
    papers.market.update(mechanism="offline", prices=[], split=None, budget=None)
    for one in papers.lines:
        one["part"] = 0


def unpaid_from_nothing(papers):
    """Announce costs from 0 on, so that the least price of an epsilon is nothing, and pay it."""
    papers.market["groups"][0]["virtual_cost"]["knots"][0] = 0.0
    return line(payment=0)(papers)


def huge_offer(papers):
    """Offer an epsilon that nobody would want besides, to make room, and pay a cent too little."""
    papers.market["epsilon_cost"] = {"shape": "linear", "shares": None}
    schedule = papers.market["prices"][0]["schedules"][0]
    for name, value in (("costs", 1e-9), ("epsilons", 1e12), ("amounts", 1e12)):
        schedule[name].insert(0, value)
    return line(payment=lambda paid: paid - 1)(papers)


def unpaid_amounts(papers):
    """State amounts that pay for half of each epsilon."""
    for part in papers.market["prices"]:
        for schedule in part["schedules"]:
            schedule["amounts"] = [amount / 2.0 for amount in schedule["amounts"]]


def swap_parts(papers):
    best = papers.best
    best["part"] = (best["part"] + 1) % 8
    return best


def hessian(**changes):
    return lambda papers: changed(papers.release["intervals"], changes)


def statistic(**changes):
    return lambda papers: changed(next(iter(papers.release["statistics"].values())), changes)


def term_added(papers):
    papers.release["terms"]["constants"] = {"reach": 0.1}


def other_joint(papers):
    """Let the norm be Euclidean on a column of zeros and ones, not on the number."""
    separate = papers.release["terms"]["norm"]["separate"]
    k = separate.index(False)
    separate[k], separate[k - 1] = True, False


def loss(**changes):
    def change(papers):
        terms = papers.release["terms"]
        (terms if "loss" in terms else papers.release)["loss"].update(changes)

    return change


def agreed(papers, text):
    """Let everybody have agreed to this text of rules, from which the salt follows."""
    papers.body["rules"]["text"] = text
    digest, split = hashlib.sha256(text.encode()).hexdigest(), papers.market["split"]
    bound = b"dpmarket-salt-1" + bytes.fromhex(digest) + bytes.fromhex(split["sellers"])
    split["salt"] = hashlib.sha256(bound).hexdigest()
    for one in papers.lines:
        one["rules"] = digest


def announced(change):
    """Return a change of what was announced about the market; everybody agreed to it."""

    def other(papers):
        rules = json.loads(papers.body["rules"]["text"])
        change(rules["announced"]["market"])
        agreed(papers, canonical(rules).decode())

    return other


def respelled(papers):
    """Write the rules with blanks: readers could see different values."""
    agreed(papers, json.dumps(json.loads(papers.body["rules"]["text"])))


def twice(papers):
    """State a part of the rules twice: readers take the first or the last."""
    text = papers.body["rules"]["text"]
    agreed(papers, text.replace('{"announced"', '{"announced":{"money":{"currency":"EUR"}},"announced"', 1))


def nested(papers):
    agreed(papers, '{"announced":' + "[" * 5_000 + "]" * 5_000 + "}")


def other_option(option):
    """Announce a choice by sellers whose only entry is no pair, has no number, or is never reached."""
    return announced(lambda market: market["mechanism"].update(by_sellers=[option]))


def own_salt(papers):
    """Draw a salt that suits, and place everybody by it."""
    split = papers.market["split"]
    split.update(sellers=None, salt="cd" * 32)
    for one in papers.lines:
        text = b"dpmarket-part-1" + bytes.fromhex(split["salt"]) + one["id"].encode()
        one["part"] = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % 16


def generous(papers):
    """Offer something above the announced reserve price."""
    for part in papers.market["prices"]:
        for schedule in part["schedules"]:
            schedule["costs"][-1] = 6.0


def large_delta(papers):
    papers.release["terms"]["delta"] = papers.market["delta"] = 0.01


def term(name, to):
    return at(f"release terms {name}", to)


STATED = "cross-priced"
FORGERIES = [
    # privacy
    ("used less than the weight costs", ALL, "epsilon used", less_used),
    ("half used", ALL, "epsilon used", line(used=times(0.5))),
    ("a heavier weight", NORM, "epsilon used", line(weight=times(1.0 + 1e-9))),
    ("a heavier whole weight", DELTA, "epsilon used", line(weight=lambda w: w + max(round(w * 1e-9), 1))),
    ("a weight that is not whole", (*DELTA, *STATISTICS), "epsilon used",
     line(weight=lambda w: w - 0.5 if w > 2 else w * (1 - 3e-14))),
    ("more used than sold", ALL, "privacy budget", line(used=lambda u: u * 1.5)),
    ("used after leaving", ALL, "privacy budget", line(withdrew=True)),
    ("less noise", NORM, "epsilon used", at("release noise_rate", times(1.0 + 1e-9))),
    ("less Gaussian noise", DELTA, "epsilon used", at("release terms noise_scale", times(1.0 - 1e-9))),
    ("more steps", DELTA, "epsilon used", at("release terms steps", lambda t: t + 1)),
    ("a smaller delta", DELTA, "epsilon used", at("release terms delta", times(0.99))),
    ("a delta above the priced one", DELTA, "market tables", at("release terms delta", times(2.0))),
    ("a delta for too many people", DELTA, "delta", large_delta),
    ("a smaller penalty", ("rows", "softmax", "two-classes-paper"), "epsilon used", term("l2", times(0.99))),
    ("an absurd penalty", NORM, "layout", term("l2", 1e300)),
    ("a penalty of nothing", NORM, "layout", term("l2", 0.0)),
    ("no rows", NORM, "layout", term("rows_per_person", 0)),
    ("absurdly many rows", NORM, "layout", term("rows_per_person", 1e12)),
    ("half a row", NORM, "layout", term("rows_per_person", 1.5)),
    ("another loss", ("softmax",), "public numbers", term("loss", {"kind": "softmax", "classes": 2})),
    ("an unknown loss", NORM, "layout", term("loss", {"kind": "square", "classes": 2})),
    ("a cheaper grid", NORM, "release", at("release numerical_epsilon", times(0.5))),
    ("a coarser solver", NORM, "release", at("release gradient_bound", times(1.5))),
    ("a grid of no power of two", NORM, "layout", at("release grid", times(1.5))),
    ("a finer grid", NORM, "release", at("release grid", times(0.5))),
    ("no noise rate", NORM, "layout", at("release noise_rate", 0.0)),
    ("a weight total of nothing", NORM, "layout", at("release weight_total", 1e-9)),
    ("a coefficient too few", NORM, "public numbers", lambda p: p.release["cells"][0].pop() and None),
    ("a coefficient beyond all bounds", NORM, "public numbers", at("release cells 0 0", "9" * 19)),
    ("a coefficient with a zero before it", NORM, "layout", at("release cells 0 0", "007")),
    ("longer encoded rows", ("categories",), "public numbers",
     at("release terms norm euclidean_bound", times(0.5))),
    ("a class twice", ("two-classes",), "layout", at("release model classes", [0, 0])),
    ("a class too many", ("two-classes", "softmax", "delta"), "public numbers",
     at("release model classes", [0, 1, 2, 3])),
    ("less noise of a statistic", STATISTICS, "public numbers", statistic(noise_scale=times(0.5))),
    ("a smaller unit", STATISTICS, "public numbers", statistic(unit_exponent=lambda k: k - 1)),
    ("a smaller total weight", STATISTICS, "public numbers",
     statistic(total_weight=lambda t: str(int(t) // 2))),
    ("shares above one", ("several",), "public numbers", statistic(share=1.0)),
    ("an unknown statistic", STATISTICS, "layout", statistic(question=lambda q: {**q, "kind": "mode"})),
    ("bounds in no order", ("mean",), "public numbers", statistic(question=lambda q: {**q, "low": 11.0})),
    ("a vector without a component", ("vector-mean",), "public numbers",
     statistic(question=lambda q: {**q, "names": []}, numerators=["1"])),
    ("a candidate beyond the last", ("quantile",), "public numbers", statistic(numerators=["99", "1", "2"])),
    # money
    ("unpaid", ALL, "payment", line(payment=0)),
    ("unpaid, from costs of nothing on", ("two-classes", "delta"), "payment", unpaid_from_nothing),
    ("a cent less than the schedule", SCHEDULES, "payment", line(payment=lambda paid: paid - 1)),
    ("two cents more than the schedule", SCHEDULES, "payment", line(payment=lambda paid: paid + 2)),
    ("parts of a cent", ALL, "layout", line(payment=lambda paid: paid + 0.5)),
    ("less than the first knot's cost", EXACT, "payment", line(payment=lambda paid: paid // 6)),
    ("more than the reserve price", EXACT, "payment", line(payment=lambda paid: paid * 6)),
    ("an epsilon that is not offered", ("two-classes-posted",), "payment", line(epsilon=times(1.01))),
    ("a larger epsilon for the same money", SCHEDULES, "payment", line(epsilon=times(1.2))),
    ("an epsilon above the cap", EXACT, "payment", line(epsilon=1.2, payment=lambda paid: paid * 1.3 // 1)),
    ("payments without prices", SCHEDULES, "market tables", no_prices),
    ("a menu called a market", ("two-classes-online", "delta-online"), "market tables", other_mechanism),
    ("no table of virtual costs", EXACT, "market tables", at("market groups 0 virtual_cost", None)),
    ("virtual costs that fall", EXACT, "market tables",
     at("market groups 0 virtual_cost values", lambda v: v[::-1])),
    ("no objective", EXACT, "market tables", at("market objective", None)),
    ("an objective of nothing", EXACT, "layout", lambda p: p.market["objective"].update(
        {name: 0.0 for name in ("payment_weight", "gamma") if name in p.market["objective"]})),
    ("an unknown mechanism", ALL, "layout", at("market mechanism", "by taste")),
    ("a table left out", EXACT, "layout", lambda p: p.market.pop("epsilon_cost") and None),
    ("a table of another shape", ("two-classes-quadratic",), "market tables",
     at("market epsilon_cost shape", "linear")),
    ("a schedule that rises", SCHEDULES, "market tables",
     at("market prices 0 schedules 0 epsilons", lambda e: [x + k for k, x in enumerate(e)])),
    ("a schedule that pays for half", SCHEDULES, "market tables", unpaid_amounts),
    ("room for rounding from a huge offer", ("two-classes-online", "two-classes-irregular"), "payment",
     huge_offer),
    ("a budget of nothing", CROSS, "layout", at("market budget", 0.0)),
    ("shares of groups above one", ("two-classes-groups",), "market tables",
     at("market groups 0 share", 0.9)),
    ("another minor unit", ALL, "payment", at("money minor_units", 10_000)),
    ("a minor unit of nothing", ALL, "layout", at("money minor_units", 0)),
    ("a currency that is an amount", ALL, "public numbers", at("money currency", "000 EUR")),
    ("a part of other prices", CROSS, "part", swap_parts),
    ("a part that does not exist", ALL, "part", line(part=16)),
    ("a group that does not exist", ALL, "part", line(group=2)),
    ("another salt", CROSS, "salt", at("market split salt", "ab" * 32)),
    ("other sellers", CROSS, "salt", at("market split sellers", "ab" * 32)),
    # rules, totals, limits
    ("a salt that is not bound to sellers", CROSS, "salt",
     lambda p: p.market["split"].update(sellers=None, salt="ab" * 32)),
    ("parts of one's own choice, without a list of sellers", CROSS, "salt", own_salt),
    ("an option of rules that is no number", CROSS, "announced rules", other_option(["0", STATED])),
    ("an option of rules that is no pair", CROSS, "announced rules", other_option(STATED)),
    ("options of rules that nobody reaches", CROSS, "announced rules", other_option([1e9, STATED])),
    ("rules that are written in another way", CROSS, "announced rules", respelled),
    ("rules with a key twice", CROSS, "announced rules", twice),
    ("rules that are nested too deeply", CROSS, "announced rules", nested),
    ("a third of every cost", CROSS, "market tables", rob),
    ("prices beyond the reserve price", CROSS, "market tables", generous),
    ("a salt that nothing binds", CROSS, "announced rules",
     lambda p: p.market["split"].update(sellers=None, nonce=None)),
    ("a budget other than announced", CROSS, "announced rules", at("market budget", 39.0)),
    ("other rows than announced", CROSS, "announced rules", term("rows_per_person", 2)),
    ("labels alone said to be private", CROSS, "announced rules", term("private", "labels")),
    ("labels that are all alike", ("labels", "two-classes"), "public numbers", loss(labels=[1, 1])),
    ("a loss that hardly rises", ("two-classes", "regression", "quantiles", "hinge", "delta"),
     "public numbers", loss(scale=1e-6)),
    ("labels of a regression as classes", ("regression",), "public numbers",
     at("release model classes", [0, 1])),
    ("constants stated besides", NORM, "layout", term_added),
    ("another column said to be joint", ("categories", "softmax-categories"), "public numbers", other_joint),
    ("a cross-priced market called offline", CROSS, "announced rules", called_offline),
    ("a mechanism other than announced", CROSS, "announced rules", other_mechanism),
    ("a cap other than announced", CROSS, "announced rules",
     at("market epsilon_cost", {"shape": "linear", "shares": None})),
    ("a currency other than announced", CROSS, "announced rules", at("money currency", "USD")),
    ("rules that a seller did not agree to", CROSS, "agreed rules", line(rules="ab" * 32)),
    ("rules for a seller who agreed to none", CROSS, "agreed rules", line(rules=None)),
    ("rules that nobody announced", ("two-classes",), "agreed rules", line(rules="ab" * 32)),
    ("other rules", CROSS, "agreed rules", at("rules text", lambda t: t.replace("2026", "2025"))),
    ("an announced part left out", CROSS, "announced rules",
     announced(lambda market: market.update(least_payment=5))),
    ("rules left out", CROSS, "agreed rules", at("rules", None)),
    ("limits left out", ALL, "limits", at("limits", [])),
]  # fmt: skip
# Totals that the forger does not let follow from the lines.
UNSETTLED = [
    ("everybody withdrew", ALL, "public numbers", at("totals withdrawn", 1e6)),
    ("fewer sellers", ALL, "commitments", at("totals sellers", lambda n: n - 1)),
    ("half a seller", ALL, "layout", at("totals sellers", 20.5)),
    ("nobody was bought from", ALL, "public numbers", at("totals bought_from", 0)),
    ("a negative total", ALL, "layout", at("totals total_payment", -1.0)),
    ("a total payment of nothing", ALL, "receipt's totals", at("totals total_payment", 0.0)),
    ("a smaller total used", ALL, "totals", at("totals total_used", times(0.999))),
    ("a smaller total epsilon", ALL, "total used", at("totals total_epsilon", times(0.5))),
    ("another root", ALL, "commitments", at("root", "ab" * 32)),
    ("no root", ALL, "layout", at("root", "")),
    ("a larger share for intervals", INTERVALS, "epsilon used", hessian(share=0.6)),
    ("a larger unit of the Hessian", INTERVALS, "epsilon used", hessian(unit=2.0**-2, share=0.99)),
    ("another total in the Hessian", INTERVALS, "weights", hessian(weight_total=lambda total: total + 1)),
    ("one number more of the Hessian", INTERVALS, "public numbers",
     hessian(cells=lambda cells: [*cells, "1"])),
    ("gradients clipped or not", INTERVALS, "public numbers",
     hessian(clip=lambda c: 1.0 if c is None else None)),
    ("a unit that is no power of two", INTERVALS, "layout", hessian(unit=times(1.5))),
]  # fmt: skip


def forged(name, change, *, settle):
    """Return forged papers and the line whose receipt is shown."""
    papers = Papers.stored(name)
    shown = change(papers)
    if settle:
        papers.settle()
    return papers, shown if isinstance(shown, dict) else None


ROWS = [(*row, True) for row in FORGERIES] + [(*row, False) for row in UNSETTLED]


@pytest.mark.parametrize(("what", "names", "check", "change", "settle"), ROWS, ids=[row[0] for row in ROWS])
def test_a_forgery_is_found_by_the_verifier_with_receipt_and_openings(what, names, check, change, settle):
    for name in names:
        papers, line_ = forged(name, change, settle=settle)
        leaves = None if settle else Papers.stored(name).leaves()
        certificate = papers.certificate(leaves)
        found = failing(verify(certificate, openings=papers.openings(), receipt=papers.receipt(line_)))
        wanted = {check, f"receipt's {check}", f"every {check}"}
        assert found & wanted, (name, found)


def test_every_forgery_that_a_receipt_can_show_is_found_by_the_page_as_by_the_verifier():
    cases, names = [], []
    for what, stored, _, change, settle in ROWS:
        for name in stored:
            papers, line_ = forged(name, change, settle=settle)
            cases.append((papers.first, papers.receipt(line_), None))
            names.append(what)
    found = zip(names, checks_by_both(cases), strict=True)
    unseen = {name for name, checks in found if "FAILS" not in {check.verdict for check in checks}}
    # A receipt alone cannot count lines: these need the commitments or the openings.
    assert unseen <= {"a smaller total used", "fewer sellers", "another total in the Hessian"}


def test_openings_find_lines_that_break_caps_quotas_ids_and_salts():
    def broken(name, change):
        papers, _ = forged(name, change, settle=True)
        return failing(verify(papers.certificate(), openings=papers.openings()))

    def second(papers):
        papers.lines[5]["id"] = papers.lines[6]["id"]

    def same_salt(papers):
        papers.lines[5]["salt"] = papers.lines[6]["salt"]

    def to_another_group(papers):
        papers.best["group"] = 1 - papers.best["group"]

    assert broken("two-classes", second) == {"ids"}
    assert broken("two-classes", same_salt) == {"salts"}
    assert "caps and quotas" in broken("two-classes-groups", to_another_group)
    assert "caps and quotas" in broken("two-classes-caps", at("market objective max_mean_epsilon", 0.05))
    assert "weights" in broken("mean", lambda p: p.lines.remove(p.best))
    assert "weights" in broken("delta", lambda p: p.lines.remove(p.best))


def test_openings_of_another_certificate_or_of_other_lines_are_found():
    papers = Papers.stored("two-classes")
    other = json.loads(papers.openings())
    for change, check in (
        ({"certificate": "0" * 64}, "openings' digest"),
        ({"salt": [other["salt"][1], other["salt"][0], *other["salt"][2:]]}, "openings"),
        ({"schema": "dpmarket.openings/2"}, "layout"),
        ({"more": 1}, "layout"),
        ({"id": other["id"][:-1]}, "layout"),
        ({"withdrew": [0] * len(other["id"])}, "layout"),
    ):
        found = verify(papers.certificate(), openings=canonical(other | change) + b"\n")
        assert check in failing(found), change


def test_commitments_out_of_order_repeated_or_missing_are_found():
    papers = Papers.stored("two-classes")
    leaves = papers.leaves()
    for other in (
        [leaves[1], leaves[0], *leaves[2:]], [leaves[1], *leaves[1:]], leaves[:-1], [*leaves, b"\xff" * 32],
    ):  # fmt: skip
        papers.body["root"] = mth(other).hex()
        assert failing(verify(papers.certificate(other))) == {"commitments"}
    capitals = papers.certificate(leaves).upper()
    text = papers.first + capitals[len(papers.first) :].replace(b'"COMMITMENTS"', b'"commitments"')
    assert failing(verify(text)) == {"layout"}
    moved = papers.certificate(leaves).replace(b'",\n"', b'\n",\n"', 1)
    assert failing(verify(moved[:-5] + moved[-4:])) == {"layout"}


def test_proofs_of_another_index_length_or_certificate_are_found():
    for name in ("two-classes", "cross-priced"):
        papers = Papers.stored(name)
        honest = json.loads(papers.receipt())
        size, path = len(papers.lines), honest["path"]
        index = honest["index"]
        indices = (-1, size, index ^ 1, index + 0.5, 1e300, index + 2**32)
        paths = (path[:-1], [*path, "00" * 32], path[::-1], [], ["00"] * len(path))
        wrong = [{"index": value} for value in indices] + [{"path": value} for value in paths]
        wrong += [{"salt": "00" * 32}, {"salt": "00"}, {"certificate": "00" * 32}]
        found = checks_by_both([(papers.first, canonical(honest | one) + b"\n", None) for one in wrong])
        assert all("FAILS" in {check.verdict for check in checks} for checks in found)


P = 2**255 - 19
SMALL = [0, 1, P - 1, P, P + 1, int.from_bytes(bytes.fromhex(
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")]  # fmt: skip


@pytest.mark.parametrize("y", SMALL)
@pytest.mark.parametrize("sign", [0, 1])
def test_a_key_with_which_one_signature_fits_all_certificates_is_none(y, sign):
    """The key 1 makes the signature (1, 0) fit every text."""
    key = (y | sign << 255).to_bytes(32, "little")
    signature = (1).to_bytes(32, "little") + bytes(32)
    assert {signature_check(b"%d" % k, signature, key).verdict for k in range(64)} == {"FAILS"}


def test_published_rules_are_the_certificates_and_older_than_its_quotes():
    papers, rules = Papers.stored("cross-priced"), (FILES / "cross-priced.rules.json").read_bytes()
    assert failing(verify(papers.certificate(), commitment=rules)) == set()
    assert "published rules" in failing(verify(papers.certificate(), commitment=rules.replace(b"40", b"41")))
    assert "published rules" in failing(verify(Papers.stored("mean").certificate(), commitment=rules))
    for time in ("2025-12-31T00:00:00+00:00", "2026-01-02T00:00:00", None, "soon"):
        papers.body["rules"]["quoted_at"] = time
        assert "published rules" in failing(verify(papers.certificate(), commitment=rules)), time


def test_reports_other_than_the_frozen_ones_are_found():
    papers = Papers.stored("cross-priced")
    file = (FILES / "cross-priced.reports.csv").read_text(encoding="utf-8")
    shown = {"openings": papers.openings()}
    assert failing(verify(papers.certificate(), **shown, reports=file.encode())) == set()
    rows = file.splitlines()
    row = min(range(1, len(rows)), key=lambda k: float(rows[k].split(",")[1]))
    name, cost = rows[row].split(",")
    for other, check in (
        ([*rows[:row], f"{name},{float(cost) * 5.0!r}", *rows[row + 1 :]], "every quote"),
        (rows[:-1], "reports"),
        ([*rows, rows[-1]], "layout"),
        ([*rows[:-1], "s63,nan"], "layout"),
    ):
        found = failing(verify(papers.certificate(), **shown, reports="\n".join(other).encode()))
        assert check in found, check


def test_a_list_of_sellers_other_than_the_one_that_the_salt_follows_from_is_found():
    papers = Papers.stored("cross-priced")
    papers.secrets["nonce"] = "00" * 32
    reports = (FILES / "cross-priced.reports.csv").read_bytes()
    found = verify(papers.certificate(), openings=papers.openings(), reports=reports)
    assert "sellers' digest" in failing(found)
