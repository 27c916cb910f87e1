"""A desk takes over from the ledger what was spent at a desk, and nothing that others spent."""

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.ledger import outside, reading, releases, rounds, writing
from dpmarket.ledger.attempts import log_debit, mark_attempt
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.rounds import LIVE
from dpmarket.market import adopting, tables
from support.ledgers import new_round, quotes


def spend(live, digest, identity):
    """Enter a round beside the desk, and lose it after its mark."""
    entered = new_round(quotes([0.3, 0.2]), digest=digest)
    entered = type(entered)(**{**vars(entered), "identity": identity})
    attempt = new_id()
    with writing(live.desk.ledger) as connection:
        found = rounds.enter_round(connection, live.campaign, entered)
    with outside.running(attempt):
        with writing(live.desk.ledger) as connection:
            releases.debit(connection, attempt, [found.number])
        head, check = log_debit(live.desk.ledger, attempt, [found])
        mark_attempt(live.desk.ledger, attempt, head, check)
        with writing(live.desk.ledger) as connection:
            releases.lose(connection, attempt)


@pytest.mark.parametrize("digest", ["1f" * 32, f"{LIVE}another"])
def test_a_round_that_no_desk_entered_ends_no_campaign(live, digest):
    spend(live, digest, new_id())
    assert adopting.adopt_all(live.desk, live.now) == 0
    assert live.state() == "open"
    with reading(live.desk.ledger) as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(tables.person)).scalar_one() == 0


def test_a_round_that_a_desk_entered_ends_its_campaign(live):
    identity = new_id()
    spend(live, f"{LIVE}{identity}", identity)
    assert adopting.adopt_all(live.desk, live.now) == 1
    assert live.state() == "lost"
    assert adopting.adopt_all(live.desk, live.now) == 0
    counts = live.looked(market.show_sums, market.Caller("buyer", live.buyer), live.campaign).counts
    assert counts == {"spent": 2}


def test_the_rules_of_a_campaign_that_is_made_anew_have_no_empty_keys():
    rules = {"sellers": {"expected": 30, "rows": None}, "label": None, "features": {"age": {"low": 0}}}
    assert adopting._said(rules) == {"sellers": {"expected": 30}, "features": {"age": {"low": 0}}}
