"""Double entry: money moves whole, is held before it is paid, and no account falls below zero."""

import pytest
import sqlalchemy as sa

from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Balance, balance_of, check_ledger, money, reading, tables, writing
from support.ledgers import campaign_in, enter, quotes


def balance(ledger, name="spring"):
    with reading(ledger) as connection:
        assert money.money_problems(connection) == []
        check_ledger(connection)
        return balance_of(connection, campaign_in(connection, name))


def test_money_goes_from_outside_through_escrow_to_sellers_and_out_again(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([1.0, 0.5])).number  # 300 and 150
        campaign = campaign_in(connection)
        money.fund(connection, campaign, 50)
    assert balance(ledger) == Balance(500, held=450, available=50, owed=0, on_its_way=0, paid_out=0)
    with writing(ledger) as connection:
        money.post_round(connection, number)
        money.refund(connection, campaign, 50)
    with reading(ledger) as connection:
        assert balance_of(connection, campaign) == Balance(450, 0, 0, 450, 0, 0)
    with writing(ledger) as connection:
        connection.execute(
            tables.payout.insert().values(
                id="p", number=1, campaign=campaign, lines=2, amount=450, made_at=""
            )
        )
        money.begin_payout(connection, campaign, "p", 450)
    with reading(ledger) as connection:
        assert balance_of(connection, campaign) == Balance(450, 0, 0, 0, 450, 0)
    with writing(ledger) as connection:
        money.end_payout(connection, "p", confirmed=300, returned=100)
    with reading(ledger) as connection:
        assert balance_of(connection, campaign) == Balance(450, 0, 0, 100, 50, 300)
        assert money.money_problems(connection) == []


def test_what_is_held_for_who_withdraws_is_free_again(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([1.0, 0.5])).number
        money.shrink_hold(connection, number, 150)
    with reading(ledger) as connection:
        assert money.held_for(connection, number) == 300
        assert balance_of(connection, campaign_in(connection)).available == 150
    with writing(ledger) as connection:
        money.shrink_hold(connection, number, 300)
        money.post_round(connection, number)  # nobody is left: there is nothing to post
    with reading(ledger) as connection:
        assert balance_of(connection, campaign_in(connection)) == Balance(450, 0, 450, 0, 0, 0)


def test_escrow_never_falls_below_zero(ledger):
    with writing(ledger) as connection:
        campaign = campaign_in(connection)
        money.fund(connection, campaign, 100)
        number = enter(connection, quotes([0.1])).number
    for act in (
        lambda connection: money.refund(connection, campaign, 101),
        lambda connection: money.hold(connection, campaign, 101, number),
        lambda connection: money.begin_payout(connection, campaign, None, 1),
    ):
        with pytest.raises(LedgerRefusal, match="Nothing was changed"), writing(ledger) as connection:
            act(connection)
    assert balance(ledger) == Balance(130, 30, 100, 0, 0, 0)


def test_a_round_is_paid_once(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([1.0])).number
        campaign = campaign_in(connection)
        money.fund(connection, campaign, 1000)
        money.post_round(connection, number)
        money.post_round(connection, number)  # nothing is held any more
    with reading(ledger) as connection:
        assert balance_of(connection, campaign).owed == 300
    # Not only the program's care, but the database, makes a second payment impossible.
    rule = r"one_payment_per_round|transfer\.round"
    with pytest.raises(LedgerRefusal, match=rule), writing(ledger) as connection:
        money.hold(connection, campaign, 300, number)
    with reading(ledger) as connection:
        assert balance_of(connection, campaign).owed == 300


def test_no_more_is_confirmed_or_returned_than_was_paid_out(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([1.0])).number
        campaign = campaign_in(connection)
        money.post_round(connection, number)
        connection.execute(
            tables.payout.insert().values(
                id="p", number=1, campaign=campaign, lines=1, amount=300, made_at=""
            )
        )
        money.begin_payout(connection, campaign, "p", 300)
        money.end_payout(connection, "p", confirmed=200, returned=0)
    with pytest.raises(LedgerRefusal, match="than was paid out"), writing(ledger) as connection:
        money.end_payout(connection, "p", confirmed=50, returned=51)


@pytest.mark.parametrize("column", ["credits", "debits", "pending"])
def test_an_account_that_is_not_the_sum_of_its_transfers_is_found(ledger, column):
    with writing(ledger) as connection:
        enter(connection, quotes([1.0]))
        change = {column: tables.account.c[column] + 1}
        connection.execute(tables.account.update().where(tables.account.c.kind == "outside").values(change))
        assert any(column in problem for problem in money.money_problems(connection))
        assert connection.execute(sa.select(sa.func.count()).select_from(tables.transfer)).scalar() == 2
