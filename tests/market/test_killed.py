"""Killed after any write, an act was done or was not; the books are right, and it can be done again."""

import os
import shutil
import signal
from datetime import timedelta

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import balance_of, check_everything, outside, reading
from support.killing import Acts
from support.ledgers import drop_database, new_database
from support.live import ASKED, CLOSES, DELIVER, MARKET, SOLD, START, Live

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

EVERYWHERE = [3, pytest.param(1, marks=pytest.mark.slow)]
LATER = timedelta(minutes=11)  # a worker without a sign for so long is dead


@pytest.fixture(scope="module")
def acts():
    made = Acts()
    yield made
    made.close()


class Base:
    """A desk that was prepared and closed, to be copied."""

    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        self.place = folder / "market.ledger" if server is None else new_database(server)

    def make(self, mechanism, prepare, rules=MARKET):
        self.folder.mkdir()
        (self.folder / "state").mkdir(mode=0o700)
        with market.open_desk(self.place, self.folder / "keys") as desk:
            live = Live(desk, mechanism, rules=rules)
            return live.campaign, prepare(live)


class Copy:
    """A copy of everything that a desk has on the disk, and of its database."""

    def __init__(self, base, folder):
        shutil.copytree(base.folder, folder)
        self.folder, self.server = folder, base.server
        self.place, self.keys, self.state = (folder / name for name in ("market.ledger", "keys", "state"))
        if self.server is not None:
            self.place = new_database(self.server, like=sa.make_url(base.place).database)
        os.environ["DPMARKET_STATE"] = str(self.state)

    def drop(self):
        shutil.rmtree(self.folder)
        if self.server is not None:
            drop_database(self.server, self.place)

    def looked(self, look):
        with market.open_desk(self.place, self.keys) as desk, reading(desk.ledger) as connection:
            check_everything(connection, desk.ledger)
            market.check_market(connection)
            return look(connection)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def base(request, tmp_path, monkeypatch):
    """Return a desk to be prepared, on each database."""
    folder = tmp_path / "base"
    monkeypatch.setenv("DPMARKET_STATE", str(folder / "state"))
    return Base(folder, None if request.param == "sqlite" else request.getfixturevalue("server"))


def kill_everywhere(acts, base, tmp_path, act, values, now, after, stride=1):
    """Kill an act after each of its writes; ``after`` looks at what is left and does the rest."""
    number, ends = 1, []
    while True:
        copy = Copy(base, tmp_path / f"copy {number}")
        code = acts.do(copy.place, copy.keys, copy.state, act, values, now, number)
        ends.append(after(copy))
        copy.drop()
        if code == 0:
            return number - 1, ends
        assert code == -signal.SIGKILL
        number += stride


def state_of(who):
    return lambda connection: market.show_standing(connection, market.Caller("seller", who), who).state


@pytest.mark.parametrize(
    ("act", "before", "values", "states"),
    [
        ("take_seat", SOLD[:1], [], ("consented", "seated")),
        ("choose", SOLD[:2], [2.0], ("seated", "quoted")),
        ("accept", SOLD[:3], [], ("quoted", "accepted")),
        ("withdraw_participation", SOLD, [], ("delivered", "withdrawn")),
    ],
)
@pytest.mark.parametrize("stride", EVERYWHERE)
def test_an_act_of_a_seller_is_done_or_not(acts, base, tmp_path, act, before, values, states, stride):
    _, who = base.make("online", lambda live: live.newcomer("a", *before))

    def after(copy):
        state = copy.looked(state_of(who))
        if state == states[0]:
            assert acts.do(copy.place, copy.keys, copy.state, act, [who, *values], START) == 0
            assert copy.looked(state_of(who)) == states[1]
        return state

    points, ends = kill_everywhere(acts, base, tmp_path, act, [who, *values], START, after, stride)
    assert points >= 3  # a change, before the commit, after it
    assert ends == sorted(ends, key=states.index)  # once done, it stays done
    assert set(ends) == set(states)


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_clearing_is_done_or_not_and_its_successor_decides_the_same(acts, base, tmp_path, stride):
    costs = [1.1, 1.9, 2.2, 4.9]
    campaign, people = base.make(
        "offline",
        lambda live: [live.newcomer(f"p{k}", "consent", "report", cost=cost) for k, cost in enumerate(costs)],
    )
    told = set()

    def quotes(connection):
        try:
            return tuple((quote.epsilon, quote.payment)
                         for quote in (market.quote_of(connection, who) for who in people))  # fmt: skip
        except MarketRefusal:
            return None

    def after(copy):
        first = copy.looked(quotes)
        acts.do(copy.place, copy.keys, copy.state, "work", [], CLOSES + LATER)
        told.add(copy.looked(quotes))
        held = copy.looked(lambda connection: balance_of(connection, campaign).held)
        assert held == sum(payment for _, payment in copy.looked(quotes))
        return first is not None

    points, ends = kill_everywhere(acts, base, tmp_path, "work", [], CLOSES, after, stride)
    assert points > 10
    assert len(told) == 1
    assert ends == sorted(ends)


def end_of(acts, copy, campaign, people):
    """Let another worker go on after a kill; return how the campaign ended."""
    acts.do(copy.place, copy.keys, copy.state, "work", [], DELIVER + LATER)

    def look(connection):
        found = market.campaign_of(connection, campaign)
        states = {state_of(who)(connection) for who in people}
        balance = balance_of(connection, campaign)
        return found.state, states, balance

    state, states, balance = copy.looked(look)
    assert state in ("released", "lost")
    assert states == {"spent"}
    assert balance.held == 0
    assert balance.owed > 0
    kinds = [line.kind for line in outside.read_log()]
    assert kinds.count("mark") == 1
    assert list(copy.keys.glob(f"{campaign}-*.key")) == []
    return state


@pytest.mark.parametrize("rules", [MARKET, ASKED])
@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_closing_training_and_certifying_are_done_or_not(acts, base, tmp_path, stride, rules):
    campaign, people = base.make(
        "online", lambda live: [live.newcomer(f"p{k}", *SOLD) for k in range(3)], rules
    )

    def after(copy):
        return end_of(acts, copy, campaign, people)

    points, ends = kill_everywhere(acts, base, tmp_path, "work", [], DELIVER, after, stride)
    assert points > 50
    assert "released" in ends
    # Who dies between the mark and the model loses the model; before and after, nothing is lost.
    lost = [place for place, end in enumerate(ends) if end == "lost"]
    assert lost == list(range(lost[0], lost[-1] + 1)) if lost else stride > 1


@pytest.mark.parametrize("stride", EVERYWHERE)
def test_a_payout_is_entered_or_not(acts, base, tmp_path, stride):

    def prepare(live):
        live.newcomer("a", *SOLD)
        live.close()
        live.train()
        return live.balance().owed

    campaign, owed = base.make("online", prepare)

    def after(copy):
        balance = copy.looked(lambda connection: balance_of(connection, campaign))
        assert sorted([balance.owed, balance.on_its_way, balance.paid_out]) == [0, 0, owed]
        return balance.on_its_way + 2 * balance.paid_out

    points, ends = kill_everywhere(acts, base, tmp_path, "pay out", [campaign], DELIVER, after, stride)
    assert points > 5
    assert ends == sorted(ends)
    assert set(ends) == {0, owed, 2 * owed}
