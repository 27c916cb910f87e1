"""Records, closing, debit, training, end: what is spent is paid, and what is sealed is gone."""

import json
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa

import dpmarket as dpm
from dpmarket import market
from dpmarket.campaign import check_market as checked_market
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal, MarketRefusal
from dpmarket.ledger import check_ledger, existing_ledger, outside, reading, repair, rounds_of, writing
from dpmarket.ledger import tables as ledger_tables
from dpmarket.market import keys, tables
from dpmarket.market.records import opened_records
from dpmarket.privacy import noise
from support.desks import copy_ledger
from support.live import DELIVER, MARKET, RECORD, SOLD, Live


def sold(live, number=4, **options):
    """Take some people up to their record; return their participations."""
    return [live.newcomer(f"p{k}", *SOLD, cost=1.0 + k / 2, **options) for k in range(number)]


def verdicts_of(body, **given):
    return {check.name: check.verdict for check in dpm.verify(body, **given).checks}


def count(live, table):
    return live.looked(
        lambda connection: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar()
    )


def test_from_the_records_to_verified_receipts(live):
    people = sold(live)
    promised = [live.looked(market.quote_of, who) for who in people]
    live.newcomer("undecided", *SOLD[:3])
    assert live.close() == "closed"
    assert live.balance().held == sum(quote.payment for quote in promised)
    assert live.train() == "released"
    balance = live.balance()
    assert (balance.held, balance.owed) == (0, sum(quote.payment for quote in promised))
    assert all(live.state(who) == "spent" for who in people)
    for who, quote in zip(people, promised, strict=True):
        limits = live.limits(who)
        assert limits.held == 0.0
        assert 0.0 < limits.spent <= quote.epsilon + 2.0**-30
    assert count(live, tables.record) == 0
    body = market.certify_campaign(live.desk, live.campaign, live.now)
    assert market.certify_campaign(live.desk, live.campaign, live.now) == body
    for k, who in enumerate(people):
        receipt = live.looked(market.show_receipt, market.Caller("seller", who), who)
        verdicts = verdicts_of(body, receipt=receipt, cost=1.0 + k / 2)
        assert set(verdicts.values()) == {"holds", "skipped"}
        assert verdicts["participation"] == "holds"
    openings = market.show_openings(live.desk, market.Caller("auditor", "any"), live.campaign)
    assert verdicts_of(body, openings=openings)["commitments"] == "holds"
    model = json.loads(live.looked(market.model_of, live.campaign))
    assert model["records"] == 4


def test_the_key_is_gone_before_noise_is_drawn_and_in_the_log_there_is_a_mark(live, monkeypatch):
    sold(live)
    live.close()
    original, seen = noise._draw, []

    def looking(*arguments):
        seen.append(list(live.desk.keys.glob(f"{live.campaign}-*.key")))
        assert outside.read_log()[-1].kind == "mark"
        return original(*arguments)

    monkeypatch.setattr(noise, "_draw", looking)
    assert list(live.desk.keys.glob(f"{live.campaign}-*.key")) != []
    live.train()
    assert seen == [[]]


def test_training_uses_the_records_that_were_delivered(live):
    people = sold(live, 3)
    live.close()
    with live.acting() as connection:
        entered = market.begin_training(connection, live.campaign, live.now)
        found = market.campaign_of(connection, live.campaign)
    with reading(live.desk.ledger) as connection:
        from dpmarket.campaign.spending import people_of

        everybody = people_of(connection, [entered.number])
    records = opened_records(live.desk, found, everybody.table, everybody.promised)
    assert records.features.tolist() == [[41.0, 25000.0]] * 3
    assert records.labels.all()
    # A record in the place of another does not open, and becomes the public row.
    with live.acting() as connection:
        rows = dict(
            connection.execute(sa.select(tables.record.c.participation, tables.record.c.sealed)).all()
        )
        swap = {people[0]: rows[people[1]], people[1]: b"no record"}
        for who, sealed in swap.items():
            where = tables.record.c.participation == who
            connection.execute(tables.record.update().where(where).values(sealed=sealed))
    records = opened_records(live.desk, found, everybody.table, everybody.promised)
    middle = [54.0, 50000.0]
    assert sorted(records.features.tolist()) == sorted([middle, middle, [41.0, 25000.0]])
    assert not records.labels.all()


def test_a_refused_record_changes_nothing(live):
    who = live.newcomer("a", *SOLD[:4])
    with pytest.raises(MarketRefusal, match="age: expected a number"):
        live.deliver(who, {**RECORD, "age": None})
    assert live.state(who) == "accepted"
    live.deliver(who)
    with pytest.raises(MarketRefusal) as refusal:
        live.deliver(who)
    assert refusal.value.kind == "state"


def test_closing_waits_for_its_time_and_lets_go_who_sent_no_record(live):
    kept, accepted, quoted, seated = (live.newcomer(f"p{k}", *SOLD[:k]) for k in (5, 4, 3, 2))
    with pytest.raises(MarketRefusal) as refusal, live.acting() as connection:
        market.close_campaign(connection, live.campaign, DELIVER - timedelta(seconds=1))
    assert refusal.value.kind == "early"
    live.close()
    states = [live.state(who) for who in (kept, accepted, quoted, seated)]
    assert states == ["delivered", "lapsed", "expired", "expired"]
    assert live.balance().held == live.looked(market.quote_of, kept).payment
    assert [live.limits(who).held > 0 for who in (kept, accepted, quoted, seated)] == [
        True,
        False,
        False,
        False,
    ]


def test_without_a_record_there_is_nothing_to_train_and_all_money_is_free(live):
    live.newcomer("a", *SOLD[:4])
    assert live.close() == "cancelled"
    assert live.balance().held == 0
    with live.acting() as connection:
        market.refund_campaign(connection, live.campaign, live.escrow, live.now)
    assert live.balance().available == 0
    market.sweep(live.desk, live.now)
    assert list(live.desk.keys.glob(f"{live.campaign}-*.key")) == []


def test_who_withdraws_after_closing_is_left_out_and_nobody_else_changes(live):
    people = sold(live)
    before = [live.looked(market.quote_of, who) for who in people]
    live.close()
    assert live.withdraw(people[0]) == "withdrawn"
    live.train()
    assert [live.looked(market.quote_of, who) for who in people] == before
    assert [live.state(who) for who in people] == ["withdrawn", "spent", "spent", "spent"]
    assert live.balance().owed == sum(quote.payment for quote in before[1:])


def test_if_all_withdraw_the_training_is_cancelled(live):
    people = sold(live, 2)
    live.close()
    for who in people:
        live.withdraw(who)
    assert live.train() == "cancelled"
    assert live.balance().held == 0


def test_an_error_before_noise_gives_everything_back_and_it_can_be_trained_again(live, monkeypatch):
    people = sold(live)
    live.close()
    held = live.balance().held

    def broken(*arguments, **options):
        raise Infeasible("no such weights.")

    with monkeypatch.context() as patch:
        patch.setattr("dpmarket.campaign.spending._fitted", broken)
        with pytest.raises(Infeasible):
            live.train()
    assert live.state() == "closed"
    assert live.balance().held == held
    assert all(live.limits(who).spent == 0.0 < live.limits(who).held for who in people)
    assert live.withdraw(people[0]) == "withdrawn"  # still possible, now out of the round
    assert live.balance().held < held
    assert live.train() == "released"
    body = market.certify_campaign(live.desk, live.campaign, live.now)
    receipt = live.looked(market.show_receipt, market.Caller("seller", people[0]), people[0])
    assert set(verdicts_of(body, receipt=receipt).values()) == {"holds", "skipped"}


def test_a_training_that_would_always_be_refused_ends_and_pays_who_delivered(live, monkeypatch):
    people = sold(live)
    live.close()
    held = live.balance().held

    def broken(*arguments, **options):
        raise Infeasible("no such weights.")

    monkeypatch.setattr("dpmarket.campaign.spending._fitted", broken)
    for _ in market.work(live.desk, live.now):
        pass
    assert live.state() == "lost"
    assert (live.balance().held, live.balance().owed) == (0, held)
    assert all(live.limits(who).held == 0.0 < live.limits(who).spent for who in people)
    live.looked(market.check_market)


@pytest.mark.parametrize("cost", [1.5, 4.0])
def test_a_penalty_that_was_planned_for_more_people_than_came_is_raised(desk, cost):
    live = Live(desk, rules={**MARKET, "training": {"l2": 1e-3}})
    for k in range(3):
        live.newcomer(f"p{k}", *SOLD, cost=cost + k / 10)
    live.close()
    for _ in market.work(live.desk, live.now):
        pass
    assert live.state() == "released"


def test_an_error_after_the_mark_is_spent_and_paid_and_the_key_is_gone(live, monkeypatch):
    people = sold(live)
    live.close()
    held = live.balance().held

    def broken(*arguments):
        raise FileProblem("cannot draw.")

    with monkeypatch.context() as patch:
        patch.setattr(noise, "_draw", broken)
        with pytest.raises(FileProblem):
            live.train()
    assert live.state() == "lost"
    assert live.balance().owed == held
    assert all(live.state(who) == "spent" and live.limits(who).held == 0.0 for who in people)
    assert count(live, tables.record) == 0
    assert list(live.desk.keys.glob(f"{live.campaign}-*.key")) == []
    with pytest.raises(MarketRefusal):
        live.train()


def test_a_key_that_cannot_be_destroyed_stops_the_noise(live, monkeypatch):
    sold(live)
    live.close()
    drawn = []
    monkeypatch.setattr(noise, "_draw", lambda *arguments: drawn.append(arguments))

    def stuck(*arguments):
        raise FileProblem("cannot destroy the key.")

    with monkeypatch.context() as patch:
        patch.setattr("dpmarket.market.training.destroy_key", stuck)
        with pytest.raises(FileProblem):
            live.train()
    assert drawn == []
    assert live.state() == "lost"


def test_nobody_withdraws_while_the_training_runs(live, monkeypatch):
    people = sold(live)
    live.close()
    refused = []

    def during(*arguments):
        with pytest.raises(MarketRefusal) as refusal:
            live.withdraw(people[0])
        refused.append(refusal.value.kind)
        return opened_records(*arguments)

    monkeypatch.setattr("dpmarket.market.training.opened_records", during)
    live.train()
    assert refused == ["state"]
    assert live.state(people[0]) == "spent"


def test_a_worker_does_everything_in_time_and_nothing_twice(live):
    sold(live)
    assert market.work(live.desk, live.now) == []
    live.now = DELIVER
    assert [job.kind for job in market.work(live.desk, live.now)] == ["close", "train", "certify"]
    assert live.state() == "released"
    assert market.work(live.desk, live.now) == []
    assert [found.state for found in live.looked(rounds_of)] == ["released"]


def test_a_person_spends_in_two_campaigns_no_more_than_their_limit(live, desk):
    cap = live.opening.ceiling * 1.2
    first = live.newcomer("a", *SOLD, cost=1.0, cap=cap)
    live.close()
    live.train()
    spent = live.limits(first).spent
    other = Live(desk, title="autumn")
    second = other.newcomer("a", "consent")
    assert spent + live.opening.ceiling > cap
    assert other.state(second) == "waiting"


def test_a_cancelled_campaign_frees_limits_and_one_with_a_quote_is_not_cancelled(live, desk):
    who = live.newcomer("a", "consent", "seat")
    with live.acting() as connection:
        market.cancel_campaign(connection, live.campaign, live.now)
    assert live.state() == "cancelled"
    assert (live.state(who), live.limits(who).held, live.balance().held) == ("expired", 0.0, 0)
    other = Live(desk, title="autumn")
    other.newcomer("b", "consent", "seat", "choose")
    with pytest.raises(MarketRefusal, match="a quote is a promise"), other.acting() as connection:
        market.cancel_campaign(connection, other.campaign, other.now)
    assert other.state() == "open"


def test_a_campaign_opens_with_its_own_plan_and_enough_money_only(desk):
    live = Live(desk)
    schedule = market.Schedule(live.now, DELIVER, DELIVER)
    with live.acting() as connection:
        drafted = market.draft_campaign(
            connection, live.buyer, "autumn", MARKET, "online", schedule, consent_version=1, now=live.now
        ).campaign
        key = keys.new_key(desk.keys, drafted)
        with pytest.raises(MarketRefusal, match=f"at least {live.opening.escrow} minor units"):
            market.open_campaign(connection, drafted, live.opening, key, live.now)
        market.fund_campaign(connection, drafted, live.opening.escrow, live.now)
        other = market.plan_opening(checked_market({**MARKET, "sellers": {"expected": 31}}), "online")
        with pytest.raises(MarketRefusal, match="a plan of this campaign's market file"):
            market.open_campaign(connection, drafted, other, key, live.now)
        assert market.open_campaign(connection, drafted, live.opening, key, live.now).state == "open"
        with pytest.raises(MarketRefusal, match="expected a draft"):
            market.open_campaign(connection, drafted, live.opening, key, live.now)


def test_a_backup_that_is_put_back_does_not_train_again_and_limits_know_what_was_spent(tmp_path):
    """The backup knows one of two sellers, with a seat; the other came later."""
    place, backup = tmp_path / "market.ledger", tmp_path / "backup"
    with market.open_desk(place, tmp_path / "keys") as desk:
        live = Live(desk)
        first = live.newcomer("a", *SOLD[:2])
        copy_ledger(place, backup)
        live.steps(first, *SOLD[2:])
        second = live.newcomer("b", *SOLD)
        live.close()
        live.train()
        spent = [live.limits(who).spent for who in (first, second)]
        owed = live.balance().owed
    copy_ledger(backup, place)
    with pytest.raises(LedgerRefusal, match="repair"), market.open_desk(place, tmp_path / "keys"):
        pass
    with existing_ledger(place) as ledger:
        assert repair(ledger).spent == 1
    with market.open_desk(place, tmp_path / "keys") as desk:
        live.desk = desk
        market.work(desk, live.now)
        assert live.state() == "lost"
        assert (live.state(first), live.limits(first).held) == ("spent", 0.0)
        # Lost: the whole promise counts, and that is a little more than what the model had spent.
        assert spent[0] <= live.limits(first).spent <= spent[0] + 1e-5
        assert (live.balance().owed, live.balance().held) == (owed, 0)
        other = Live(desk, title="autumn")
        again = other.newcomer("b", "consent", cap=1.0)
        assert spent[1] <= other.limits(again).spent <= spent[1] + 1e-5


def test_a_repair_enters_no_money_that_nobody_paid(tmp_path):
    """What was held for sellers when the backup was made is what their round is paid by."""
    place, backup = tmp_path / "market.ledger", tmp_path / "backup"
    with market.open_desk(place, tmp_path / "keys") as desk:
        live = Live(desk, seats=3)
        people = [live.newcomer(name, *SOLD[:3]) for name in "abc"]  # all of escrow is held
        live.accept(people[2])
        copy_ledger(place, backup)
        for who in people[:2]:
            live.steps(who, "accept", "deliver")
        live.close()
        live.train()
        before = live.balance()
    copy_ledger(backup, place)
    with existing_ledger(place) as ledger:
        repair(ledger)
    with market.open_desk(place, tmp_path / "keys") as live.desk:
        assert live.balance() == before
        assert before.funded == live.escrow
        assert [live.state(who) for who in people] == ["spent", "spent", "lapsed"]
        events = live.looked(market.events_of, people[2])
        assert [one.kind for one in events][-1] == "lapsed"
        assert "expired" not in {one.kind for one in live.looked(market.events_of, people[0])}


def test_money_and_epsilon_that_were_changed_by_hand_are_found(live):
    who = live.newcomer("a", *SOLD)
    changes = [
        ledger_tables.transfer.update().where(ledger_tables.transfer.c.participation == who).values(amount=1),
        tables.person.update().values(held_epsilon=tables.person.c.held_epsilon / 2),
        tables.participation.update().values(state="accepted"),
        tables.participation.update().values(state="quoted", held_epsilon=0.5),
        tables.record.delete(),
        tables.quote.delete(),
    ]
    for change in changes:
        with writing(live.desk.ledger) as connection:
            trial = connection.begin_nested()
            connection.execute(change)
            with pytest.raises(FileProblem, match="add up"):
                market.check_market(connection)
            trial.rollback()
    with reading(live.desk.ledger) as connection:
        market.check_market(connection)
        check_ledger(connection)
    assert np.isfinite(live.limits(who).held)


def test_limits_know_what_was_spent_before_anybody_can_act_on_a_desk_that_was_put_back(tmp_path):
    """With a backup from before the seller came, and with one from before the campaign was drafted."""
    place = tmp_path / "market.ledger"
    backups = [tmp_path / "earlier", tmp_path / "later"]
    with market.open_desk(place, tmp_path / "keys") as desk:
        old = Live(desk, title="old")
        cap = old.opening.ceiling * 1.2
        copy_ledger(place, backups[0])
        live = Live(desk)
        copy_ledger(place, backups[1])
        who = live.newcomer("a", *SOLD, cost=1.0, cap=cap)
        live.close()
        live.train()
        spent, owed = live.limits(who).spent, live.balance().owed
    for backup in backups:
        copy_ledger(backup, place)
        with existing_ledger(place) as ledger:
            repair(ledger)
        with market.open_desk(place, tmp_path / "keys") as old.desk:
            again = old.newcomer("a", "consent", cap=cap)
            assert old.state(again) == "waiting"
            assert old.limits(again).cap <= cap
            assert spent <= old.limits(again).spent <= spent + 1e-5
            (paying,) = (
                one
                for one in old.looked(market.list_paying, market.Caller("paymaster", "p"))
                if one.campaign.title == "spring"
            )
            assert paying.campaign.state == "lost"
            if backup == backups[0]:
                assert paying.balance.owed == owed
                market.make_payout(
                    old.desk, market.Caller("paymaster", "p"), paying.campaign.campaign, old.now
                )
            else:  # the log knows of that payout
                assert (paying.balance.owed, paying.balance.on_its_way) == (0, owed)
            market.work(old.desk, old.now)
            assert old.limits(again).cap <= cap


def test_who_delivered_is_paid_although_escrow_held_more_than_the_market_files_budget(desk):
    rules = {**MARKET, "objective": {"budget": 1.5, "max_mean_epsilon": 0.1, "max_epsilon": 1.0}}
    rules["sellers"] = {"expected": 5}
    live = Live(desk, rules=rules, seats=12)
    people = [live.newcomer(f"p{k}", *SOLD, cost=1.0) for k in range(12)]
    total = sum(live.looked(market.quote_of, who).payment for who in people)
    assert total > 150
    live.close()
    assert live.train() == "released"
    assert live.balance().owed == total


def test_a_live_market_has_no_lifetime_limit_of_its_own(desk):
    """It would bind people in the campaigns of other buyers, too."""
    rules = {**MARKET, "sellers": {"expected": 30, "lifetime_epsilon": 0.7}}
    with pytest.raises(MarketRefusal, match=r"without sellers\.lifetime_epsilon"):
        Live(desk, rules=rules)
