"""Forgeries that are consistent in all else: each is found by the one check that is made for it."""

import hashlib
import json
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dpmarket.certificates.verifier.losses import release_up
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmarket.certificates import verify
from support.certificates import constants, failing, verdicts
from support.forging import ARITY, FILES, VALUES, Papers, canonical, tree


@pytest.fixture(scope="module")
def papers():
    """Honest papers of a market that bought from all at once, payments in cents."""
    return Papers.read("version-2", "offline")


@pytest.fixture(scope="module")
def online():
    return Papers.read("version-2", "online")


def bought(papers):
    """Return the place of the seller with the largest promise."""
    return max(range(len(papers.lines)), key=lambda k: papers.lines[k]["promise"])


def with_value(papers, k, name, value):
    """Return papers with one value of one line changed; root and totals follow."""
    return papers.with_lines(lambda lines: lines[k].update({name: value}))


def found_in(papers, k=None):
    """Return the checks that fail with a receipt, and with the openings."""
    k = bought(papers) if k is None else k
    by_receipt = failing(verify(papers.certificate, receipt=papers.receipt(k)))
    return by_receipt, failing(verify(papers.certificate, openings=papers.openings))


def rewritten(file, **changes):
    """Change parts of a receipt or of openings, written in the one canonical way."""
    return canonical(json.loads(file) | changes) + b"\n"


def with_leaves(papers, leaves):
    """Return a certificate with other commitments; its root follows."""
    levels = tree(leaves)
    start = b"dpmarket-root-1" + len(leaves).to_bytes(8, "big")
    other = papers.changed("root", to=hashlib.sha256(start + levels[-1][0]).hexdigest())
    rows = b'",\n"'.join(leaf.hex().encode() for leaf in leaves)
    return other.first + b'"commitments":[\n"' + rows + b'"]}\n'


GOOD = sorted(path.relative_to(FILES).as_posix() for path in FILES.glob("*/*.certificate.json"))


# --- one text for every value ---


def test_hashes_in_capitals_are_not_the_one_canonical_way(papers):
    first, rest = papers.certificate.split(b",\n", 1)
    opening = b'"commitments":[\n'
    capitals = first + b",\n" + opening + rest.removeprefix(opening).upper()
    assert len(capitals) == len(papers.certificate)
    assert failing(verify(capitals)) == {"layout"}


OTHER_TEXTS = {
    "a space": lambda text: text.replace(b":", b": ", 1),
    "a zero before a number": lambda text: text.replace(b'"position":', b'"position":0'),
    "escaped letters": lambda text: text.replace("ë".encode(), b"\\u00eb"),
    "another order": lambda text: (
        json.dumps(
            dict(reversed(json.loads(text).items())), separators=(",", ":"), ensure_ascii=False
        ).encode()
        + b"\n"
    ),
    "another end": lambda text: text[:-1] + b" ",
    "no end": lambda text: text[:-1],
    "an empty line": lambda text: text + b"\n",
    "a part twice": lambda text: text.replace(b'{"certificate"', b'{"position":0,"certificate"', 1),
}


@pytest.mark.parametrize("change", OTHER_TEXTS.values(), ids=OTHER_TEXTS)
def test_another_text_of_the_same_receipt_is_refused(papers, change):
    receipt = papers.receipt(7)
    assert verify(papers.certificate, receipt=receipt).passed
    assert "layout" in failing(verify(papers.certificate, receipt=change(receipt)))


def test_parts_that_nobody_knows_and_other_kinds_of_files_are_refused(papers):
    assert failing(verify(papers.changed("more", to="words").certificate)) == {"layout"}
    for schema in ("dpmarket.certificate/3", "dpmarket.certificate/", "dpmarket.receipt/1", 1, None):
        assert failing(verify(papers.changed("schema", to=schema).first + b"x")) == {"layout"}
    receipt, openings = papers.receipt(7), papers.openings
    for changes in ({"more": 1}, {"schema": "dpmarket.receipt/1"}, {"schema": "dpmarket.receipt/3"}):
        assert failing(verify(papers.certificate, receipt=rewritten(receipt, **changes))) == {"layout"}
    for changes in ({"more": 1}, {"schema": "dpmarket.openings/1"}):
        assert failing(verify(papers.certificate, openings=rewritten(openings, **changes))) == {"layout"}


def test_a_release_of_a_kind_that_is_not_known_is_refused(online):
    for kind in ("softmax model", "gaussian model", "statistics", "", None, ["binary model"]):
        assert failing(verify(online.changed("release", "kind", to=kind).certificate)) == {"layout"}


# --- the tree ---


def test_commitments_out_of_order_or_repeated_are_found(papers):
    leaves = papers.leaves()
    assert verify(with_leaves(papers, leaves)).passed
    swapped = [*leaves[:4], leaves[5], leaves[4], *leaves[6:]]
    assert failing(verify(with_leaves(papers, swapped))) == {"commitments"}
    repeated = [*leaves[:4], leaves[5], *leaves[5:]]
    assert failing(verify(with_leaves(papers, repeated))) == {"commitments"}


def test_commitments_that_begin_alike_are_ordered_by_all_their_bytes(papers):
    leaves = papers.leaves()
    small, large = (leaves[5][:8] + bytes([k]) * 24 for k in (1, 2))
    assert verify(with_leaves(papers, [*leaves[:5], small, large, *leaves[7:]])).passed
    turned = with_leaves(papers, [*leaves[:5], large, small, *leaves[7:]])
    assert failing(verify(turned)) == {"commitments"}


def first_eight(papers):
    """Return papers of the first eight sellers, whose tree has one full group."""
    other = papers.copy()
    del other.lines[8:], other.salts[8:]
    return other.settled()


def test_a_position_has_one_number(papers):
    """In a tree of full groups a place before the first leads along the same path."""
    full = first_eight(papers)
    receipt = full.receipt(3)
    position = json.loads(receipt)["position"]
    assert verdicts(verify(full.first, receipt=receipt))["receipt's line"] == "holds"
    for other in (position - 8, position + 8, (position + 1) % 8):
        found = verify(full.first, receipt=rewritten(receipt, position=other))
        assert failing(found) == {"receipt's line"}


@pytest.mark.parametrize("told", [5, 9])
def test_a_path_of_another_tree_than_one_of_so_many_sellers_is_found(papers, told):
    """More sellers in a group than there are said to be, and a path too short for so many."""
    full = first_eight(papers)
    start = b"dpmarket-root-1" + told.to_bytes(8, "big")
    root = hashlib.sha256(start + tree(full.leaves())[-1][0]).hexdigest()
    forged = full.changed("root", to=root).changed("totals", "sellers", to=told)
    forged.body["totals"]["bought_from"] = 1
    assert "receipt's line" in failing(verify(forged.first, receipt=forged.receipt(0)))


def test_the_groups_of_the_tree_have_eight_members(papers):
    assert len(tree(papers.leaves())[1]) == -(-len(papers.lines) // ARITY)


# --- a line's numbers ---


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("value", [-1.0, 1e16])
def test_a_number_below_nothing_or_beyond_all_bounds_is_found(papers, name, value):
    k = bought(papers)
    for found in found_in(with_value(papers, k, name, value), k):
        assert "layout" in found


def test_a_spent_epsilon_a_thousandth_too_small_is_found(papers):
    k = bought(papers)
    low = with_value(papers, k, "spent", 0.999 * papers.lines[k]["spent"])
    assert found_in(low) == ({"receipt's spent epsilon"}, {"spent epsilons"})


@pytest.mark.parametrize("name", ["offline", "curved", "online"])
def test_a_spent_epsilon_one_float_below_what_the_weight_costs_is_found(name):
    """The comparison is exact: nothing is forgiven as rounding."""
    papers = Papers.read("version-2", name)
    k = bought(papers)
    low, high = 0.999 * papers.lines[k]["spent"], papers.lines[k]["spent"]
    while np.nextafter(low, 1.0) < high:
        middle = 0.5 * (low + high)
        receipt = with_value(papers, k, "spent", middle)
        covered = "receipt's spent epsilon" not in failing(verify(receipt.first, receipt=receipt.receipt(k)))
        low, high = (low, middle) if covered else (middle, high)
    assert high >= papers.lines[k]["spent"] * (1.0 - 1e-13)  # the program rounds up, by no more than that
    forged = with_value(papers, k, "spent", float(low))
    assert found_in(forged) == ({"receipt's spent epsilon"}, {"spent epsilons"})


def test_what_releasing_costs_is_part_of_what_is_spent(papers):
    k = bought(papers)
    release = papers.constants["numerical_epsilon"]
    low = with_value(papers, k, "spent", papers.lines[k]["spent"] - 0.9 * release)
    assert found_in(low) == ({"receipt's spent epsilon"}, {"spent epsilons"})


def test_a_promise_that_was_exceeded_is_found(papers):
    k = bought(papers)
    forged = with_value(papers, k, "promise", 0.99 * papers.lines[k]["spent"])
    forged = forged.changed("totals", "total_promise", to=900.0)
    by_receipt, by_openings = found_in(forged)
    assert by_receipt == {"receipt's promise"}
    assert by_openings == {"promises", "totals"}


def test_a_receipt_with_more_than_the_total_is_found(papers):
    promise, payment, spent = "total_promise", "total_payment", "total_spent"
    for changes in ({promise: 1e-9, spent: 1e-9}, {payment: 1e-9}, {spent: 1e-9}):
        forged = papers.copy()
        forged.body["totals"] |= changes
        assert "receipt's numbers" in found_in(forged)[0]
    forged = papers.copy()
    forged.constants["weight_total"] = 1e-9
    assert "receipt's numbers" in found_in(forged)[0]


def test_participation_is_judged_in_money_exactly_also_where_payments_are_in_minor_units(papers):
    k = bought(papers)
    worth = Fraction(papers.lines[k]["payment"]) / 100 / Fraction(papers.lines[k]["promise"])
    just = float(worth) if Fraction(float(worth)) <= worth else float(np.nextafter(float(worth), 0.0))
    receipt = papers.receipt(k)
    for cost, verdict in ((just, "holds"), (float(np.nextafter(just, 9.0)), "FAILS")):
        found = verify(papers.certificate, receipt=receipt, cost=cost)
        assert verdicts(found)["participation"] == verdict


def test_money_in_minor_units_is_whole(papers):
    forged = with_value(papers, 3, "payment", papers.lines[3]["payment"] + 0.5)
    assert found_in(forged, 3) == ({"receipt's payment"}, {"money"})


# --- who left ---


def test_who_withdrew_has_nothing_spent_and_is_not_counted(online):
    papers = Papers.read("version-2", "withdrawn")
    gone = next(k for k, line in enumerate(papers.lines) if line["withdrew"] and line["promise"] > 0.0)
    line = papers.lines[gone]
    assert line["payment"] > 0.0 == line["spent"] == line["weight"]
    used = papers.with_lines(lambda lines: lines[gone].update(spent=line["promise"], weight=0.01))
    by_receipt, by_openings = found_in(used, gone)
    assert by_receipt == {"receipt's promise"}
    assert "promises" in by_openings
    secretly = papers.copy()
    secretly.lines[gone]["withdrew"] = False  # counted nowhere, and owed what was quoted
    secretly.body["root"] = secretly.root()
    assert found_in(secretly, gone)[1] == {"totals"}


def test_a_receipt_of_somebody_who_withdrew_needs_somebody_who_withdrew():
    papers = Papers.read("version-2", "offline")
    forged = papers.copy()
    k = bought(papers)
    forged.lines[k] |= {"withdrew": True, "spent": 0.0, "weight": 0.0}
    forged.body["root"] = forged.root()
    assert found_in(forged, k) == ({"receipt's numbers"}, {"totals"})


# --- openings ---


def test_what_is_of_version_1_is_refused_in_one_sentence(papers):
    old = papers.changed("schema", to="dpmarket.certificate/1").certificate
    found = [
        verify(old),
        verify(papers.certificate, receipt=rewritten(papers.receipt(0), schema="dpmarket.receipt/1")),
        verify(papers.certificate, openings=rewritten(papers.openings, schema="dpmarket.openings/1")),
    ]
    for one, kind in zip(found, ("certificate", "receipt", "openings"), strict=True):
        (told,) = [check.detail for check in one.checks if check.verdict == "FAILS"]
        assert f"is not of the schema dpmarket.{kind}/2, the only one that this program reads" in told


def test_openings_name_their_certificate(papers):
    other = rewritten(papers.openings, certificate="0" * 64)
    assert failing(verify(papers.certificate, openings=other)) == {"openings' digest"}


def test_a_seller_who_is_there_twice_is_found(papers):
    forged = papers.with_lines(lambda lines: lines[5].update(id=lines[6]["id"]))
    assert found_in(forged)[1] == {"ids"}


def test_the_number_one_and_the_text_one_may_both_be_sellers(papers):
    def named(lines):
        lines[0]["id"], lines[1]["id"] = 1, "1"

    other = papers.with_lines(named)
    assert found_in(other, 0) == (set(), set())


@pytest.mark.parametrize("column", ["id", *VALUES, "withdrew", "quotes"])
def test_openings_with_a_value_of_another_type_are_refused(papers, column):
    opened = json.loads(papers.openings)
    opened[column][0] = None if column == "withdrew" else True
    assert failing(verify(papers.certificate, openings=canonical(opened) + b"\n")) == {"layout"}
    opened = json.loads(papers.openings)
    opened[column].pop()
    assert failing(verify(papers.certificate, openings=canonical(opened) + b"\n")) == {"layout"}


def test_every_total_must_follow_from_the_lines(papers):
    changes = [(name, papers.body["totals"][name] * 1.001) for name in ("total_promise", "total_payment")]
    changes += [("bought_from", papers.body["totals"]["bought_from"] - 1), ("withdrawn", 7), ("withdrawn", 1)]
    for name, value in changes:
        forged = papers.changed("totals", name, to=value)
        found = failing(verify(forged.certificate, openings=forged.openings))
        assert found & {"totals", "public numbers"}, (name, value)


def test_totals_are_rounded_up_to_three_digits():
    papers = Papers.read("version-2", "withdrawn")
    kept = [line for line in papers.lines if not line["withdrew"]]
    exact = sum(Fraction(line["promise"]) for line in kept)
    told = papers.body["totals"]["total_promise"]
    assert exact <= Fraction(told) <= exact * Fraction(101, 100)
    assert len(str(told).replace(".", "").strip("0")) <= 3


def test_weights_that_add_up_to_more_than_stated_are_found(papers):
    """The stated total also bounds what releasing costs, so that less is never charged for more."""
    forged = papers.copy()
    forged.constants["weight_total"] *= 0.99
    assert found_in(forged)[1] == {"weights"}


# --- public numbers ---


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("rows_per_person", 0, "public numbers"),
        ("rows_per_person", 10**7, "public numbers"),
        ("rows_per_person", 1.9, "layout"),
        ("classes", ["no", "yes", "perhaps"], "public numbers"),
        ("classes", ["no"], "public numbers"),
        ("classes", ["no", "no"], "public numbers"),
        ("classes", [["no"], "yes"], "public numbers"),
        ("clip", 1, "layout"),
        ("l2", 0.0, "public numbers"),
        ("l2", -1.0, "public numbers"),
        ("l2", 1e-16, "public numbers"),
        ("noise_rate", 1e13, "public numbers"),
        ("noise_accuracy", -1e-30, "public numbers"),
        ("gradient_bound", 1e-3, "release"),
        ("numerical_epsilon", 1e-9, "release"),
        ("row_bound", 1.0, "public numbers"),
        ("row_bound", 1e7, "public numbers"),
        ("intercept_scaling", 2.0, "public numbers"),
        ("intercept_scaling", "1e3000000", "layout"),
        ("grid", 2.0**-40, "release"),
        ("grid", 0.3, "public numbers"),
        ("stretch", 0.0, "public numbers"),
        ("coef_grid", [1, 2], "public numbers"),
        ("coef_grid", [1, 2, 3, True], "public numbers"),
        ("coef_grid", [1, 2, 3, 4.0], "public numbers"),
        ("coef_grid", [1, 2, 3, 2**64], "public numbers"),
    ],
)
def test_a_constant_out_of_its_range_is_found(papers, name, value, check):
    forged = papers.copy()
    forged.constants[name] = value
    assert failing(verify(forged.certificate)) == {check}


@pytest.mark.parametrize(
    ("path", "value", "check"),
    [
        (("release", "delta"), 1e-6, "public numbers"),
        (("release", "features", "name"), ["age", "age", "size"], "public numbers"),
        (("release", "features", "name"), ["age", "size"], "public numbers"),
        (("release", "features", "low"), [90.0, 0.0, 0.5], "public numbers"),
        (("release", "features", "high"), [90.0, 1e5, 2], "public numbers"),
        (("release", "features"), [], "layout"),
        (("not_promised",), [], "limits"),
        (("money", "minor_units"), 0, "public numbers"),
        (("money", "minor_units"), "100", "layout"),
        (("totals", "sellers"), 21, "commitments"),
        (("totals", "sellers"), 20.0, "layout"),
        (("totals", "sellers"), 10**12, "public numbers"),
        (("totals", "bought_from"), 21, "public numbers"),
        (("totals", "bought_from"), -1, "public numbers"),
        (("totals", "withdrawn"), -1, "public numbers"),
        (("totals", "total_payment"), -1.0, "total spent"),
        (("totals", "total_spent"), 1e9, "total spent"),
        (("totals", "total_spent"), -1.0, "total spent"),
    ],
)
def test_a_public_number_that_does_not_fit_is_found(path, value, check):
    forged = Papers.read("version-2", "offline").changed(*path, to=value)
    assert check in failing(verify(forged.certificate))


@settings(max_examples=100)
@given(
    n=st.integers(1, 60),
    eta=st.floats(1e-2, 1e4),
    l2=st.floats(1e-4, 1e2),
    bound=st.floats(1.0, 3.0),
    total=st.floats(0.5, 2.0),
    share=st.floats(1e-12, 0.99),
)
def test_the_verifiers_cost_of_releasing_is_exact_and_never_below(n, eta, l2, bound, total, share):
    grid = 2.0**-4
    accuracy = share * grid / 2.0 * l2
    gradient_bound, noise_accuracy = 0.75 * accuracy, 0.25 * accuracy
    release = constants(
        coef_grid=[0] * n, grid=grid, noise_rate=eta, l2=l2, row_bound=bound, weight_total=total,
        gradient_bound=gradient_bound, noise_accuracy=noise_accuracy,
    )  # fmt: skip
    found = release_up(release)
    with mpmath.workdps(80):
        g, eta, l2, bound, total = map(mpmath.mpf, (grid, eta, l2, bound, total))
        rho = (mpmath.mpf(gradient_bound) + noise_accuracy) / l2
        slope = eta / 2 * (l2 + total * bound**2 / 4)
        slope += min(n * bound, total * bound**3 / (6 * mpmath.sqrt(3) * l2))
        exact = n * mpmath.log((g + 2 * rho) / (g - 2 * rho)) + 2 * rho * mpmath.sqrt(n) * slope
        told = mpmath.mpf(found.numerator) / found.denominator
        assert exact <= told <= exact * (1 + mpmath.mpf(2) ** -150)


# --- menus ---


def test_an_offer_that_is_not_on_the_menu_is_found(online):
    k = bought(online)
    payment = online.lines[k]["payment"]
    for other in (payment - 1.0, payment + 2.0):
        forged = with_value(online, k, "payment", other)
        assert found_in(forged, k) == ({"receipt's offer"}, {"offers"})
    zero = next(k for k, line in enumerate(online.lines) if line["promise"] == 0.0)
    assert found_in(with_value(online, zero, "payment", 1.0), zero) == ({"receipt's offer"}, {"offers"})
    # More than the menu offers to anybody.
    most = online.body["menu"]["epsilon"][-1]
    forged = online.with_lines(lambda lines: lines[k].update(promise=1.1 * most, payment=1e4))
    assert found_in(forged, k) == ({"receipt's offer"}, {"offers"})


@pytest.mark.parametrize(
    "change",
    [
        lambda menu: menu["payment"].__setitem__(50, 0.9 * menu["payment"][50]),
        lambda menu: menu["cost"].__setitem__(50, 0.9 * menu["cost"][50]),
        lambda menu: menu["epsilon"].__setitem__(50, menu["epsilon"][49]),
        lambda menu: menu["payment"].__setitem__(0, 0.1),
        lambda menu: menu["payment"].pop(),
        lambda menu: [menu[name].__delitem__(slice(1, None)) for name in menu],
        lambda menu: menu["cost"].__setitem__(3, 3),
        lambda menu: menu["payment"].__setitem__(slice(None), [0.5 * x for x in menu["payment"]]),
    ],
)
def test_a_menu_that_does_not_pay_what_each_bit_costs_is_found(online, change):
    forged = online.copy()
    change(forged.body["menu"])
    found = verify(forged.certificate, receipt=forged.receipt(bought(online)))
    assert {"menu", "receipt's offer"} <= failing(found)


def test_without_a_menu_everybody_has_one_quote():
    papers = Papers.read("version-2", "offline")
    k = bought(papers)
    forged = with_value(papers, k, "quotes", 2)
    assert found_in(forged, k) == ({"receipt's numbers"}, {"quotes"})
    for none in (0, -1, 10**7):
        other = with_value(papers, k, "quotes", 2)
        receipt = rewritten(other.receipt(k), line=other.lines[k] | {"quotes": none})
        assert "layout" in failing(verify(other.certificate, receipt=receipt))


def test_offers_for_everybody_have_a_menu_and_others_have_none(online):
    assert failing(verify(online.changed("menu", to=None).certificate)) == {"menu"}
    offline = Papers.read("version-2", "offline")
    assert failing(verify(offline.changed("menu", to=online.body["menu"]).certificate)) == {"menu"}


def test_a_point_of_the_menu_is_worth_taking_to_who_has_its_cost(online):
    menu = online.body["menu"]
    for cost, epsilon, payment in zip(*(menu[name] for name in ("cost", "epsilon", "payment")), strict=True):
        assert payment >= cost * epsilon


# --- payments, with the reports disclosed ---


@pytest.mark.parametrize("file", GOOD)
def test_files_that_were_good_once_are_good(file):
    assert len(GOOD) == 17
    version, name = file.removesuffix(".certificate.json").split("/")
    papers = Papers.read(version, name)
    assert papers.certificate == (FILES / version / f"{name}.certificate.json").read_bytes()
    for k, line in enumerate(papers.lines):
        result = verify(papers.certificate, receipt=papers.receipt(k), cost=papers.reports[line["id"]])
        assert result.passed, result
    assert verify(papers.certificate, openings=papers.openings).passed


def test_several_quotes_add_up_to_several_offers_of_the_menu(online):
    """Somebody who sold three times has one line; nothing else says how often."""
    k = bought(online)
    others = sorted(
        (line for j, line in enumerate(online.lines) if j != k and line["promise"] > 0.0),
        key=lambda line: line["promise"],
    )[-2:]
    promise = online.lines[k]["promise"] + sum(line["promise"] for line in others)
    payment = online.lines[k]["payment"] + sum(line["payment"] for line in others)
    sold = {"promise": promise, "payment": payment, "quotes": 3}
    together = online.with_lines(lambda lines: lines[k].update(sold))
    assert found_in(together, k) == (set(), set())
    for wrong in (
        {"quotes": 2},
        {"quotes": 1},
        {"payment": 0.9 * payment // 1},
        {"payment": 1.1 * payment // 1},
    ):
        forged = online.with_lines(lambda lines, wrong=wrong: lines[k].update(sold | wrong))
        assert found_in(forged, k) == ({"receipt's offer"}, {"offers"}), wrong
