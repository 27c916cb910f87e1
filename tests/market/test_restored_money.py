"""Money that went out stays out when an older backup is put back, or when who sent it dies half way."""

import contextlib

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import LedgerRefusal, MarketRefusal
from dpmarket.ledger import back_up, existing_ledger, put_back, repair
from dpmarket.ledger import tables as ledger_tables
from dpmarket.market import Caller, open_desk
from support.live import CLOSES, MARKET, SOLD, START, Live

PAYMASTER = Caller("paymaster", "p")


@pytest.fixture
def place(tmp_path):
    """Copies of a file are quick; tests/web/test_drill.py does the same to both databases."""
    return tmp_path / "market.ledger"


@contextlib.contextmanager
def put_back_and_opened(live, copy):
    """Lose the ledger, put a copy back, repair it, and open a desk on it."""
    place, keys = live.desk.ledger.path, live.desk.keys
    live.desk.ledger.engine.dispose()
    for path in list(place.parent.glob(f"{place.name}*")):
        path.unlink()
    put_back(copy, place)
    with existing_ledger(place) as ledger:
        repair(ledger)
    with open_desk(place, keys) as live.desk:
        yield


def refund(live, amount, transfer=None):
    with live.acting() as connection:
        market.refund_campaign(connection, live.campaign, amount, live.now, transfer)


def refunds(live):
    column = ledger_tables.transfer.c
    query = sa.select(column.amount).where(column.kind == "refund")
    return live.looked(lambda connection: connection.execute(query).scalars().all())


def told(live):
    """Return what became of a campaign, by the kinds of its events."""
    column = market.tables.event.c
    query = sa.select(column.kind).where(column.campaign == live.campaign, column.participation.is_(None))
    return live.looked(lambda connection: connection.execute(query).scalars().all())


def test_what_was_refunded_after_a_sale_cannot_be_refunded_again_from_an_older_copy(live, tmp_path):
    live.newcomer("a", *SOLD)
    back_up(live.desk.ledger.path, tmp_path / "copy")
    live.close()
    live.train()
    left = live.balance().available
    assert left > 0
    refund(live, left)
    with put_back_and_opened(live, tmp_path / "copy"):
        assert (live.state(), refunds(live), live.balance().available) == ("lost", [left], 0)
        with pytest.raises(MarketRefusal, match="promised to nobody"):
            refund(live, left)
        assert told(live)[-2:] == ["lost", "refunded"]
    with open_desk(tmp_path / "market.ledger", tmp_path / "keys") as live.desk:
        assert refunds(live) == [left]


def test_a_campaign_that_was_cancelled_and_refunded_does_not_come_back_with_its_money(live, tmp_path):
    who = live.newcomer("a", *SOLD)
    waits = live.newcomer("b", "consent", "seat")
    back_up(live.desk.ledger.path, tmp_path / "copy")
    with live.acting() as connection:
        market.fund_campaign(connection, live.campaign, live.opening.largest_payment, live.now)
    all_money = live.escrow + live.opening.largest_payment
    live.withdraw(who)
    assert live.close() == "cancelled"
    refund(live, all_money)
    with put_back_and_opened(live, tmp_path / "copy"):
        assert (live.state(), refunds(live)) == ("cancelled", [all_money])
        assert (live.balance().held, live.balance().available) == (0, 0)
        assert (live.state(who), live.state(waits)) == ("withdrawn", "expired")
        assert live.limits(waits).held == 0.0
        with pytest.raises(MarketRefusal, match="promised to nobody"):
            refund(live, 1)


def test_a_draft_whose_money_came_and_went_since_the_backup_has_none(desk, tmp_path):
    live = Live(desk)
    with live.acting() as connection:
        version = market.add_consent(connection, "en", market.ENGLISH, live.now)
        schedule = market.Schedule(START, CLOSES, CLOSES)
        drafted = market.draft_campaign(
            connection, live.buyer, "later", MARKET, "online", schedule, consent_version=version, now=live.now
        )
    live.campaign = drafted.campaign
    back_up(desk.ledger.path, tmp_path / "copy")
    with live.acting() as connection:
        market.fund_campaign(connection, live.campaign, 700, live.now)
    refund(live, 500)
    with put_back_and_opened(live, tmp_path / "copy"):
        assert (live.state(), refunds(live), live.balance().available) == ("draft", [500], 0)


@pytest.mark.parametrize("opened", ["again", "not again"])
def test_who_dies_between_the_log_and_the_ledger_refunds_once(live, tmp_path, opened):
    live.close()
    transfer = market.refund_id("p", "a key of sixteen or more")
    die_after(live, market.refund_campaign, live.campaign, 400, live.now, transfer)
    assert refunds(live) == []
    with contextlib.ExitStack() as stack:
        if opened == "again":
            live.desk = stack.enter_context(open_desk(tmp_path / "market.ledger", tmp_path / "keys"))
            assert refunds(live) == [400]
        refund(live, 400, transfer)  # as whoever was told nothing asks again
        assert refunds(live) == [400]
        assert live.balance().available == live.escrow - 400
        with pytest.raises(MarketRefusal, match="another request"):
            refund(live, 401, transfer)


def die_after(live, act, *values, **more):
    """Do an act whose process dies before the ledger has it."""
    with contextlib.suppress(KeyboardInterrupt), live.acting() as connection:
        act(connection, *values, **more)
        raise KeyboardInterrupt


def payout(live):
    lines = market.make_payout(live.desk, PAYMASTER, live.campaign, live.now)
    return [line.reference for line in lines]


def enter(live, kind, references):
    return market.enter_payments(live.desk, PAYMASTER, live.campaign, kind, references, live.now)


def test_payouts_and_what_became_of_them_are_entered_again_from_the_log(live, tmp_path):
    people = [live.newcomer(name, *SOLD) for name in ("a", "b")]
    back_up(live.desk.ledger.path, tmp_path / "copy")
    live.close()
    live.train()
    first = payout(live)
    enter(live, "confirmed", first)
    enter(live, "returned", first[:1])  # after it was confirmed: an account that was closed
    (again,) = payout(live)
    enter(live, "confirmed", [again])
    before = live.balance()
    states = [live.looked(market.payment_state, who) for who in people]
    with put_back_and_opened(live, tmp_path / "copy"):
        after = live.balance()
        assert (after.owed, after.on_its_way, after.paid_out) == (0, 0, before.paid_out)
        assert [live.looked(market.payment_state, who) for who in people] == states
        with pytest.raises(LedgerRefusal, match="nothing is owed"):
            payout(live)
        assert enter(live, "returned", [again]) == 1
        assert len({again, *first, *payout(live)}) == 4  # nobody's payment has a reference twice


def test_who_dies_between_the_log_and_the_ledger_pays_out_once(live):
    live.newcomer("a", *SOLD)
    live.close()
    live.train()
    owed = live.balance().owed
    die_after(live, market.enter_payout, PAYMASTER, live.campaign, live.now)
    assert (live.balance().owed, live.balance().on_its_way) == (owed, 0)
    with pytest.raises(LedgerRefusal, match="nothing is owed"):
        payout(live)  # and the refusal keeps nothing
    market.sweep(live.desk, live.now)
    assert (live.balance().owed, live.balance().on_its_way) == (0, owed)
    (line,) = market.payout_lines(live.desk, PAYMASTER, live.campaign, 1)
    assert enter(live, "confirmed", [line.reference]) == 1
    returned = [line.reference]
    die_after(live, market.enter_payments_in, PAYMASTER, live.campaign, "returned", returned, now=live.now)
    assert live.balance().paid_out == owed
    market.sweep(live.desk, live.now)
    assert (live.balance().paid_out, live.balance().owed) == (0, owed)
