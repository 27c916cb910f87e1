"""Three readers of papers with random changes: verifier and page agree, and the library refuses no more."""

import json
import random
from itertools import pairwise

import numpy as np
import pytest

from dpmarket.errors import DpmarketError
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.privacy import NoiseNorm, Release
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.loss import loss_from
from support.certificates import HONEST
from support.forging import Papers, canonical
from support.receipt_page import NODE, checks_by_both

NAMES = [*HONEST, "cross-priced"]
FACTORS = [1.0 + by * sign for by in (1e-15, 1e-9, 1e-3) for sign in (1, -1)]
FACTORS += [2.0, 0.5, -1.0, 1e6, 1e-6, 0.0, 1e300]


def leaves_of(part, path=()):
    """Yield the path of every value that is no list and no object."""
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else None
    if items is None:
        yield path
        return
    for name, value in items:
        yield from leaves_of(value, (*path, name))


def change_one(papers, rng):
    """Change one value of the body or of the shown line; return the line."""
    shown = papers.best
    places = [("body", *path) for path in leaves_of(papers.body) if path[0] not in ("versions", "root")]
    places += [("line", name) for name in shown if name not in ("salt",)] * 8
    path = rng.choice(places)
    part = papers.body if path[0] == "body" else shown
    for name in path[1:-1]:
        part = part[name]
    part[path[-1]] = other(part[path[-1]], rng)
    return shown


def other(value, rng):
    if isinstance(value, bool):
        return rng.choice([not value, None, 1])
    if isinstance(value, int | float):
        return rng.choice(
            [value * rng.choice(FACTORS), value + 1, value - 1, 0, None, str(value), True, [value], 2.0**60]
        )
    if isinstance(value, str):
        digits = value.lstrip("-").isdigit()
        return rng.choice(
            [str(int(value) + 1) if digits else value + "x", value[:-1], "", None, 7, value[::-1]]
        )
    return rng.choice([0, "", {}, [], "x"])


def library_accepts(papers, line):
    """Whether the library's own formulas allow the line: the weight is covered, payments follow prices."""
    try:
        release, prices = papers.release, papers.market["prices"]
        terms = json.loads(canonical(release.get("terms")))  # with ints, as JSON readers have them
        if release["family"] == "norm":
            norm = NoiseNorm.from_dict(terms["norm"])
            own = Release(
                loss_from(terms["loss"]), norm, terms["l2"], terms["rows_per_person"], terms["private"]
            )
            charged = own.epsilons([line["weight"]], release["noise_rate"])[0]
            covered = line["weight"] == 0 or charged * (1.0 - 1e-11) <= line["used"]
        elif release["family"] == "descent":
            own = Descent.from_dict(terms)
            covered = own.epsilons(np.array([int(line["weight"])]))[0] <= line["used"] * (1.0 + 1e-9)
        else:
            covered = line["weight"] <= line["used"]
        if not covered or line["used"] > line["epsilon"]:
            return False
        if not prices or not line["epsilon"]:
            return True
        schedule = PriceSchedule.from_dict(prices[line["part"]]["schedules"][line["group"]])
        costs = np.concatenate([np.linspace(a, b, 50) for a, b in pairwise(schedule.costs)])
        epsilons, payments = schedule.quote(costs)
        least = np.interp(line["epsilon"], epsilons[::-1], payments[::-1])
        least *= papers.body["money"]["minor_units"]
        return bool(line["payment"] >= least * (1.0 - 1e-3) - 1.0)
    except (DpmarketError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        return False


def changed_papers(count, seed):
    rng = random.Random(seed)
    for k in range(count):
        papers = Papers.stored(NAMES[k % len(NAMES)])
        line = change_one(papers, rng)
        try:
            if rng.random() < 0.8:
                papers.settle()
            receipt = papers.receipt(line)
        except Exception:  # a line that cannot even be packed: the old receipt is shown
            papers = Papers.stored(NAMES[k % len(NAMES)])
            receipt = papers.receipt().replace(b'"payment":', b'"payment":"')
        yield papers, line, receipt


def compare(count, seed):
    """Compare the readers on so many changes; return how many were accepted."""
    made = [(papers.first, papers, line, receipt) for papers, line, receipt in changed_papers(count, seed)]
    found = checks_by_both([(first, receipt, None) for first, _, _, receipt in made])
    accepted = 0
    for (first, papers, line, receipt), checks in zip(made, found, strict=True):
        if "FAILS" not in {check.verdict for check in checks}:
            accepted += 1
            assert library_accepts(papers, line), (first, receipt)
    return accepted


@pytest.mark.skipif(NODE is None, reason="needs node on the path")
def test_verifier_page_and_library_agree_on_a_few_hundred_changes():
    assert 0 < compare(300, seed=1) < 150


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="needs node on the path")
@pytest.mark.parametrize("seed", range(10))
def test_verifier_page_and_library_agree_on_many_changes(seed):
    assert 0 < compare(2_000, seed=100 + seed) < 1_000
