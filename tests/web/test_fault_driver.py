"""The driver of faults: its reading of the books finds what is lost, twice or wrong; a small day passes."""

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpmarket.market import Terms

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("_fault_check")


@pytest.fixture
def market(check):
    return importlib.import_module("_fault_market")


class Rows:
    """A connection that has one answer."""

    def __init__(self, *rows):
        self._rows = list(rows)

    def execute(self, *_):
        return iter(self._rows)


def seller_told(told, payment=100, epsilon=0.5, payee="account of ann"):
    quote = {"epsilon": epsilon, "payment": payment}
    return SimpleNamespace(told=told, quote=quote, payee=payee, is_forgotten=False)


def test_acts_that_are_lost_untold_or_twice_are_found(check):
    acts = [SimpleNamespace(key=key) for key in ("a", "b")]
    digest = check._digest
    assert list(check._keys(Rows((digest("a"),), (digest("b"),)), acts, set())) == []
    assert list(check._keys(Rows((digest("a"),)), acts, set())) == ["1 acts were told and are not there"]
    assert list(check._keys(Rows((digest("a"),)), acts, {"b"})) == []
    rows = Rows(*[(digest(key),) for key in ("a", "b", "c", "a")])
    assert list(check._keys(rows, acts, set())) == [
        "1 acts were done and never told",
        "1 keys were used by two",
    ]


@pytest.mark.parametrize(
    ("found", "events", "words"),
    [
        (("p", "spent", 0.5, 0.0, 0.5, 100), {"trained": 1}, None),
        (("p", "lapsed", 0.0, 0.0, 0.5, 100), {"trained": 1}, "told delivered, and it is lapsed"),
        (("p", "spent", 0.6, 0.0, 0.5, 100), {"trained": 1}, "promised 0.5, spent 0.6"),
        (("p", "spent", 0.5, 0.1, 0.5, 100), {"trained": 1}, "a limit is held"),
        (("p", "spent", 0.5, 0.0, 0.5, 99), {"trained": 1}, "its quote is not the one"),
        (("p", "spent", 0.5, 0.0, 0.5, 100), {"trained": 1, "accepted": 2}, "twice accepted"),
        (("p", "spent", 0.5, 0.0, 0.5, 100), {}, "its end is told 0 times"),
    ],
)
def test_a_seller_who_is_not_as_they_were_told_is_found(check, market, found, events, words):
    campaign = market.Campaign("c", 100, None, state="released")
    problems = list(check._seller(campaign, seller_told("delivered"), found, Counter(events)))
    assert (problems == []) if words is None else any(words in line for line in problems)


@pytest.mark.parametrize(
    ("state", "quote", "seats", "words"),
    [
        ("expired", (None, None), 3, None),
        ("expired", (None, None), 2, "it ended after 2 seats"),
        ("expired", (0.5, 100), 3, "an offer that nobody was told"),
        ("spent", (None, None), 3, "told expired, and it is spent"),
    ],
)
def test_who_ended_without_an_offer_had_all_their_seats(check, market, state, quote, seats, words):
    campaign = market.Campaign("c", 100, None, state="released")
    seller = seller_told("expired")
    seller.quote = None
    problems = list(check._seller(campaign, seller, ("p", state, 0.0, 0.0, *quote), Counter(seated=seats)))
    assert (problems == []) if words is None else any(words in line for line in problems)


class Answers:
    """A service that gives seats, and takes them back before anybody has chosen."""

    def __init__(self, people, then):
        self._people, self._states, self.journal = people, iter(then), people.Journal()

    def get(self, path):
        return {"digest": "d"} if path == "/me/consent" else {"state": next(self._states)}

    def do(self, path, body=None):
        if path == "/me/quote":
            raise self._people.Refused(410, "Gone", [{"kind": "expired"}])
        state = {"/me/consent": "consented", "/me/menu": "seated"}[path]
        return SimpleNamespace(answer={"state": state})


@pytest.mark.parametrize(
    ("states", "told", "wrong"),
    [
        (["consented", "seated", "expired"], "expired", 0),
        (["seated"] * 4, "consented", 0),
        (["accepted"], "quoted", 1),
    ],
)
def test_a_seller_who_loses_seat_after_seat_is_told_so_and_stops(check, states, told, wrong):
    people = importlib.import_module("_fault_people")
    asker = Answers(people, states)
    seller = people.Seller("ann", asker, 2.0, {}, "sells")
    seller.come()
    assert (seller.told, seller.quote, len(asker.journal.wrong)) == (told, None, wrong)
    assert Terms().seats == people.SEATS


def test_money_that_does_not_come_to_what_was_told_is_found(check, market):
    campaign = market.Campaign("c", 150, None, state="released", refunded=50)
    campaign.sellers = [seller_told("delivered"), seller_told("declined", payment=7)]
    campaign.lines = [("r1", "account of ann", 100, "returned"), ("r2", "account of ann", 100, "confirmed")]
    right = [("outside", 150, 150, 0), ("escrow", 150, 150, 0), ("payable", 100, 100, 0)]
    assert list(check._money(Rows(*right), campaign)) == []
    wrong = [("outside", 150, 160, 0), *right[1:]]
    assert len(list(check._money(Rows(*wrong), campaign))) == 1
    campaign.lines.append(("r3", "account of ann", 100, "confirmed"))
    assert any("payees" in line for line in check._money(Rows(*right), campaign))


@pytest.mark.slow
def test_a_small_day_with_faults_loses_nothing_and_does_nothing_twice():
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "benchmarks/faults.py", "--runs", "1", "--seed", "3", "--sellers", "12"]
    command += ["--faults", "12", "--acts", "400", "--seconds", "1500"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('{"seed"')]
    told = json.loads(line)
    assert told["problems"] == []
    assert told["acts"] >= 400
    assert sum(told["faults"].values()) >= 12
    assert told["faults"]["older backup put back"] == 1
    assert told["receipts"] > 0
