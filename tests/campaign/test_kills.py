"""kill -9 after any write: what was begun is done once, or not at all, and the books balance.

Each act is killed after its first write, its second, and so on, until it survives; quick runs take some.
"""

import contextlib
import shutil
import signal

import pytest

from campaign.killing import do, methods
from campaign.live import CLOSES, DELIVER, NOW, Clock, Live, balanced, copy_of, opened
from dpmarket.campaign import line, payouts, quoting, sellers, worker
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.database import is_address, lines_after
from dpmarket.campaign.views import show_money
from dpmarket.errors import DpmarketError, MarketRefusal

MOST = 200
CASES = {  # the act, when it happens, and after which writes quick runs kill it
    "choose": (NOW, (1, 4, 6)),
    "accept": (NOW, (2, 4)),
    "withdraw": (NOW, (5, 7, 8, 10)),
    "clear": (CLOSES, (4, 14, 22)),
    "train": (DELIVER, (12, 16, 18, 20, 22, 28)),
    "pay": (DELIVER, (3, 6, 8, 10)),
}


def prepared(place, folder, act):
    """Make a market in which an act is next; return its live campaign and participation."""
    market = opened(place, folder)
    live = Live(market, "offline", escrow=5000) if act == "clear" else Live(market)
    if act == "clear":
        me = live.join("a")
        live.act(quoting.report, me, 2.0)
        live.act(quoting.report, live.join("b"), 1.5)
    elif act == "choose":
        me = live.join("a")
        live.act(line.reserve, me)
    elif act == "accept":
        me, _ = live.quote("a")
    else:
        me = live.deliver("a")
        live.deliver("b", 1.0)
        live.act(sellers.set_payee, me, "account")
    if act == "pay":
        live.train()
    if act == "train":
        live.close()
    market.close()
    return live, me


def killed(place, folder, act, live, me, number):
    """Do an act in a process that is killed after so many writes; return whether it was."""
    name = {"clear": "work", "train": "work"}.get(act, act)
    values = {"work": [], "pay": [live.campaign]}.get(name, [me])
    code = do(place, folder, name, values, CASES[act][0], number)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def finish(place, folder, act, live, me):
    """Go on after the kill; check what must hold whenever it came."""
    clock = Clock()
    clock.now = CASES[act][0]
    with opened(place, folder, clock, make=False) as market:
        live.market = market
        balanced(market)
        worker.work(market, methods(folder))
        clock.now += market.terms.job  # a killed worker's job is due again
        worker.work(market, methods(folder))
        balanced(market)
        market.verify()
        _goes_on(market, folder, act, live, me)
        balanced(market)
        assert market.log.last().tick == len(market.log.lines())
        with market.look() as c:
            assert lines_after(c, 0) == market.log.lines()


def _goes_on(market, folder, act, live, me):
    if act == "choose":
        again = live.act(quoting.choose, me, 2.0, key="k" * 20)
        assert again.payment == 250
    elif act == "accept":
        live.act(sellers.accept, me)
        assert live.state(me) == "accepted"
    elif act == "withdraw":
        with contextlib.suppress(MarketRefusal):
            live.act(sellers.withdraw, me)
        assert live.state(me) == "withdrawn"
    elif act == "clear":
        assert live.campaign_state() == "offered"
        assert live.state(me) == "quoted"
    elif act == "train":
        noise = folder / "noise"
        drawn = noise.read_text().count("1") if noise.exists() else 0
        assert live.campaign_state() in ("released", "failed")
        assert drawn <= 1
        assert drawn == 1 or live.campaign_state() == "failed"
        with market.look() as c:
            assert show_money(c, OWNER, live.campaign).owed == 650
        assert live.state(me) == "spent"
        assert list(market.keys.glob(f"{live.campaign}-*.key")) == []
    elif act == "pay":
        handed_out = folder / "paid"
        before = set(handed_out.read_text().split()) if handed_out.exists() else set()
        try:
            made = market.run(payouts.pay_out, OWNER, live.campaign)
            after = set(payouts.payout_lines(market, made.id).get_column("reference"))
        except DpmarketError:
            after = set()
        assert not before & after
        with market.look() as c:
            assert len(show_money(c, OWNER, live.campaign).payouts) == 1


def case(place, folder, server, act, numbers):
    """Kill an act after each of some writes, each time in a copy of the same market."""
    template = folder / "template"
    template.mkdir()
    place = place or template / "market.db"
    live, me = prepared(place, template, act)
    survived = False
    for number in numbers:
        own = folder / f"{act}-{number}"
        there = copy_of(place, template, own, server)
        survived = not killed(there, own, act, live, me, number)
        finish(there, own, act, live, me)
        shutil.rmtree(own)
        if survived:
            break
    return survived


@pytest.mark.parametrize("act", CASES)
def test_some_kills(tmp_path, act):
    assert not case(None, tmp_path, None, act, CASES[act][1])  # the last kill came before the end


@pytest.mark.slow
@pytest.mark.parametrize("act", CASES)
def test_every_kill(place, tmp_path, request, act):
    server = request.getfixturevalue("server") if is_address(place) else None
    assert case(place if server else None, tmp_path, server, act, range(1, MOST))
