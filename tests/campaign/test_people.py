"""Accounts of people: one ledger for many campaigns, a limit for a lifetime, a statement, payouts."""

import shutil

import numpy as np
import pytest

from dpmarket.campaign import certify_quotes, decide_offline, pay_out, quote_file
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import existing_ledger, outside, payouts, repair
from support.campaigns import read_rows, seller_ids, write_rows
from support.desks import Desk, copy_ledger, market_text

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

CAPPED = {"max_epsilon": 1.0}


def shared(tmp_path, name, ledger="people.ledger", **tables):
    tables = {"ledger": {"campaign": name}, **tables}
    if ledger is not None:
        tables["ledger"]["url"] = f"../{ledger}"
    desk = Desk(tmp_path / name, market=market_text(**tables))
    desk.place = None
    desk.shared = tmp_path / ledger if ledger else None
    return desk


def books(desk, look):
    """Look into the shared ledger."""
    desk.place = str(desk.shared)
    try:
        return look(desk)
    finally:
        desk.place = None


def test_campaigns_of_one_ledger_share_people_and_nothing_else(tmp_path):
    spring, autumn = shared(tmp_path, "spring"), shared(tmp_path, "autumn")
    spring.quote()
    autumn.quote()  # the same people and reports, in another campaign
    assert not (spring / "market.ledger").exists()
    found = books(spring, Desk.rounds)
    assert [entered.number for entered in found] == [1, 2]
    assert len({entered.identity for entered in found}) == 2
    spring.train()
    lines = spring.statement("007")
    assert [(line.campaign, line.state) for line in lines] == [("spring", "released"), ("autumn", "open")]
    assert lines[0].spent > 0.0 == lines[1].spent
    with pytest.raises(LedgerRefusal, match="nobody of this id"):
        spring.statement("nobody")


def test_a_shared_ledger_needs_the_campaigns_name(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(ledger={"url": "people.ledger"}))
    with pytest.raises(FileProblem, match=r"ledger\.campaign: missing"):
        desk.quote()
    desk = Desk(tmp_path / "other", ledger=str(tmp_path / "x.ledger"))
    with pytest.raises(FileProblem, match=r"ledger\.campaign: missing"):
        desk.quote()
    assert not list(tmp_path.glob("*.ledger"))


def test_a_lifetime_limit_counts_ceilings_while_open_and_what_was_spent_after(tmp_path):
    keys = {"sellers": {"lifetime_epsilon": 1.5}, "objective": CAPPED}
    spring, autumn, winter = (shared(tmp_path, name, **keys) for name in ("spring", "autumn", "winter"))
    first = spring.quote()
    assert first.round.ceiling == pytest.approx(1.0)
    assert first.outcome.epsilons.max() <= 1.0
    # 1 of 1.5 is held for everybody, whatever they were promised: nobody can be asked for 1 more.
    with pytest.raises(LedgerRefusal, match=r"nobody in the file can be quoted: 0 .* 60 have less left"):
        autumn.quote()
    autumn.report("some.csv", [("007", 1.5), ("somebody new", 2.0), ("also new", 3.0)])
    found = autumn.quote("some.csv", "some-quotes.csv")
    assert found.left_out == {"lifetime": 1}
    assert read_rows(autumn / "some-quotes-not-quoted.csv") == [{"seller": "007", "reason": "lifetime"}]
    assert [row["seller"] for row in read_rows(autumn / "some-quotes.csv")] == ["somebody new", "also new"]
    spring.withdraw("7")
    spring.train()
    spent = books(spring, Desk.accounts)
    winter.quote()
    invited = {row["seller"] for row in read_rows(winter / "quotes.csv")}
    assert invited == {seller for seller in seller_ids(60) if spent[seller][1] + 1.0 <= 1.5}
    assert "7" in invited


def test_the_least_limit_of_any_campaign_holds_for_all_of_the_ledger(tmp_path):
    spring = shared(tmp_path, "spring", sellers={"lifetime_epsilon": 1.5}, objective=CAPPED)
    summer = shared(tmp_path, "summer", sellers={"lifetime_epsilon": 50.0}, objective=CAPPED)
    autumn, winter = shared(tmp_path, "autumn", objective=CAPPED), shared(tmp_path, "winter")
    spring.quote()
    for other in (summer, autumn):
        with pytest.raises(LedgerRefusal, match="60 have less left"):
            other.quote()
    with pytest.raises(LedgerRefusal, match="of another one in the ledger"):
        winter.quote()
    assert len(books(spring, Desk.rounds)) == 1


def test_a_lifetime_limit_needs_a_number_that_nobody_can_be_asked_to_exceed(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"lifetime_epsilon": 1.5}))
    with pytest.raises(LedgerRefusal, match=r"weight_cap and objective\.max_mean_epsilon"):
        desk.quote()
    assert not (desk / "market.ledger").exists()
    desk = Desk(tmp_path / "other", market=market_text(sellers={"lifetime_epsilon": 5.0, "expected": 60}))
    assert desk.quote(online=True).round.ceiling < 5.0


def test_people_of_the_pilot_can_be_excluded_by_their_ids(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"excluded": "pilot.csv"}))
    desk.report("pilot.csv", [("007", 1.0), ("e\u0301", 2.0), ("nobody", 3.0)])
    found = desk.quote()
    assert found.left_out == {"excluded": 2}
    assert {row["seller"] for row in read_rows(desk / "quotes-not-quoted.csv")} == {"007", "\u00e9"}
    assert not {"007", "\u00e9"} & {row["seller"] for row in read_rows(desk / "quotes.csv")}
    (desk / "pilot.csv").unlink()
    desk.report("reports.csv", [("new", 1.5), ("newer", 2.0)])
    with pytest.raises(FileProblem, match=r"pilot\.csv: there is no such file"):
        desk.quote(output="other.csv")


def test_who_is_not_quoted_needs_a_list(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(sellers={"excluded": "pilot.csv"}))
    desk.report("pilot.csv", [("007", 1.0)])
    with pytest.raises(FileProblem, match="--not-quoted"):
        quote_file(desk.market, desk / "reports.csv", "-", decide_offline)
    assert not desk.rounds()


def test_payouts_are_net_of_withdrawals_and_paid_once(tmp_path):
    desk = Desk(tmp_path / "desk", market=market_text(money={"currency": "EUR"}))
    desk.quote()
    with pytest.raises(LedgerRefusal, match="nothing is owed"):
        desk.pay()
    desk.withdraw("007")
    desk.train()
    made = desk.pay()
    rows = read_rows(desk / "payouts.csv")
    owed = {
        row["seller"]: int(row["payment_minor_units"])
        for row in read_rows(desk / "quotes.csv")
        if row["seller"] != "007" and int(row["payment_minor_units"]) > 0
    }
    assert {row["seller"]: int(row["payment_minor_units"]) for row in rows} == owed
    assert {row["currency"] for row in rows} == {"EUR"}
    assert all(float(row["payment"]) * 100 == pytest.approx(int(row["payment_minor_units"])) for row in rows)
    assert len({row["reference"] for row in rows}) == len(rows) == made.payout.lines
    assert desk.balance().on_its_way == made.payout.amount == sum(owed.values())
    with pytest.raises(LedgerRefusal, match=r"nothing is owed .*--repeat"):
        desk.pay("again.csv")
    desk.pay("again.csv", repeat=1)
    assert (desk / "again.csv").read_bytes() == (desk / "payouts.csv").read_bytes()


def test_confirmed_payments_are_paid_and_returned_ones_are_owed_again(tmp_path):
    desk = Desk(tmp_path / "desk")
    desk.quote()
    desk.train()
    amount = desk.pay().payout.amount
    rows = read_rows(desk / "payouts.csv")
    back = [row["reference"] for row in rows[:2]]
    (desk / "returned.csv").write_text("reference\n" + "\n".join(back) + "\n")
    (desk / "confirmed.csv").write_text("reference\n" + "\n".join(r["reference"] for r in rows[2:]) + "\n")
    assert desk.enter("returned.csv", "returned") == 2
    assert desk.enter("returned.csv", "returned") == 0
    assert desk.enter("confirmed.csv", "confirmed") == len(rows) - 2
    with pytest.raises(LedgerRefusal, match="2 of these payments were returned already"):
        desk.enter("payouts.csv", "confirmed")
    owed = sum(int(row["payment_minor_units"]) for row in rows[:2])
    assert (desk.balance().owed, desk.balance().paid_out) == (owed, amount - owed)
    assert desk.pay("second.csv").payout.amount == owed
    second = read_rows(desk / "second.csv")
    assert [row["seller"] for row in second] == [row["seller"] for row in rows[:2]]
    assert not {row["reference"] for row in second} & {row["reference"] for row in rows}
    assert desk.enter("second.csv", "confirmed") == 2
    assert desk.balance().paid_out == amount
    (desk / "wrong.csv").write_text("reference\nnonsense\n")
    with pytest.raises(LedgerRefusal, match="1 of 1 references are in no payout"):
        desk.enter("wrong.csv", "confirmed")


def test_a_confirmed_payment_may_come_back_later(tmp_path):
    desk = Desk(tmp_path / "desk")
    desk.quote()
    desk.train()
    amount = desk.pay().payout.amount
    rows = read_rows(desk / "payouts.csv")
    assert desk.enter("payouts.csv", "confirmed") == len(rows)
    (desk / "returned.csv").write_text(f"reference\n{rows[0]['reference']}\n")
    assert desk.enter("returned.csv", "returned") == 1
    assert desk.enter("returned.csv", "returned") == 0
    own = int(rows[0]["payment_minor_units"])
    balance = desk.balance()
    assert (balance.owed, balance.paid_out, balance.committed) == (own, amount - own, amount)
    with pytest.raises(LedgerRefusal, match="1 of these payments were returned already"):
        desk.enter("returned.csv", "confirmed")
    assert desk.pay("second.csv").payout.amount == own
    (second,) = read_rows(desk / "second.csv")
    assert (second["seller"], second["reference"] != rows[0]["reference"]) == (rows[0]["seller"], True)
    desk.enter("second.csv", "confirmed")
    assert desk.balance().paid_out == amount


def test_what_was_paid_before_a_restore_is_not_paid_again_and_the_rest_is(tmp_path):
    """Two rounds are two payments: of which the log outside knows the first."""
    desk = Desk(tmp_path / "desk", sellers=20)
    desk.quote()
    copy_ledger(desk / "market.ledger", tmp_path / "backup")
    desk.train()
    desk.pay("first.csv")
    desk.enter("first.csv", "confirmed")
    desk.report("more.csv", [(seller, 1.5 + k / 10) for k, seller in enumerate(seller_ids(20))])
    desk.quote("more.csv", "more-quotes.csv")
    desk.train("more-quotes.csv", output="more.json")
    copy_ledger(tmp_path / "backup", desk / "market.ledger")
    with existing_ledger(desk / "market.ledger") as ledger:
        repair(ledger)
    desk.pay("second.csv")
    first, second = (
        {row["reference"]: (row["seller"], row["payment_minor_units"]) for row in read_rows(desk / name)}
        for name in ("first.csv", "second.csv")
    )
    assert not first.keys() & second.keys()
    paid, waiting = (sum(int(amount) for _, amount in lines.values()) for lines in (first, second))
    assert (desk.balance().paid_out, desk.balance().on_its_way) == (paid, waiting)
    assert paid + waiting == desk.balance().committed


def test_what_was_refused_to_be_entered_is_not_entered_later(tmp_path):
    desk = Desk(tmp_path / "desk", sellers=20)
    desk.quote()
    desk.train()
    desk.pay("first.csv")
    known = [row["reference"] for row in read_rows(desk / "first.csv")]
    write_rows(desk / "back.csv", ["reference"], [[known[0]], [known[1]], ["another"]])
    with pytest.raises(LedgerRefusal, match="1 of 3 references are in no payout"):
        desk.enter("back.csv", "returned")
    with pytest.raises(LedgerRefusal, match="nothing is owed"):
        desk.pay("second.csv")
    desk.enter("first.csv", "confirmed")
    assert desk.balance().on_its_way == 0


def test_a_payout_that_was_made_before_payouts_were_logged_comes_back_with_what_became_of_it(
    tmp_path, monkeypatch
):
    desk = Desk(tmp_path / "desk", sellers=20)
    desk.quote()
    desk.train()
    copy_ledger(desk / "market.ledger", tmp_path / "backup")
    append = outside.append
    with monkeypatch.context() as patch:
        patch.setattr(outside, "append", lambda *one, **more: one[2] != "payout" and append(*one, **more))
        desk.pay("first.csv")
    desk.enter("first.csv", "confirmed")
    before = desk.balance()
    copy_ledger(tmp_path / "backup", desk / "market.ledger")
    with pytest.raises(LedgerRefusal, match="nothing is owed"):
        desk.pay("second.csv")
    assert desk.balance() == before


def test_a_copy_that_pays_out_in_the_same_moment_pays_alone(tmp_path, monkeypatch):
    desk = Desk(tmp_path / "desk", sellers=20)
    desk.quote()
    desk.train()
    shutil.copytree(desk / ".", tmp_path / "twin")
    entered = payouts.enter_forgotten

    def looked(connection):
        found = entered(connection)
        monkeypatch.setattr(payouts, "enter_forgotten", entered)
        pay_out(tmp_path / "twin" / "market.toml", tmp_path / "twin" / "paid.csv")
        return found

    monkeypatch.setattr(payouts, "enter_forgotten", looked)
    with pytest.raises(LedgerRefusal, match="a copy of this ledger has paid out meanwhile"):
        desk.pay("first.csv")
    with pytest.raises(LedgerRefusal, match="nothing is owed"):
        desk.pay("first.csv")
    desk.pay("first.csv", repeat=1)
    assert read_rows(desk / "first.csv") == read_rows(tmp_path / "twin" / "paid.csv")


def test_a_campaign_that_a_backup_does_not_know_comes_back_with_its_rules_and_references(tmp_path):
    spring, autumn = shared(tmp_path, "spring"), shared(tmp_path, "autumn")
    spring.quote()
    copy_ledger(tmp_path / "people.ledger", tmp_path / "backup")
    autumn.quote()
    autumn.train()
    autumn.pay("first.csv")
    copy_ledger(tmp_path / "backup", tmp_path / "people.ledger")
    with existing_ledger(tmp_path / "people.ledger") as ledger:
        assert repair(ledger).rounds == 1
    with pytest.raises(LedgerRefusal, match="--repeat"):
        autumn.pay("second.csv")
    autumn.pay("second.csv", repeat=1)
    assert read_rows(autumn / "second.csv") == read_rows(autumn / "first.csv")
    keys = {"ledger": {"campaign": "autumn", "url": "../people.ledger"}, "money": {"minor_units": 1}}
    autumn.market.write_text(market_text(**keys))
    autumn.report("more.csv", [("new", 1.5), ("newer", 2.5)])
    with pytest.raises(LedgerRefusal, match=r"money\.minor_units was 100 and is now 1"):
        autumn.quote("more.csv", "more-quotes.csv")


def test_a_payout_whose_file_cannot_be_written_is_not_entered(tmp_path):
    desk = Desk(tmp_path / "desk")
    desk.quote()
    desk.train()
    with pytest.raises(FileProblem, match="does not exist"):
        desk.pay("nowhere/payouts.csv")
    assert desk.balance().on_its_way == 0
    assert desk.pay().payout.number == 1


def test_one_model_from_the_quotes_of_many_days_and_each_round_debited_once(tmp_path):
    text = market_text(sellers={"expected": 60})
    desk = Desk(tmp_path / "desk", market=text)
    rng = np.random.default_rng(0)
    ids = []
    for day in (1, 2, 3):
        own = [f"{day}, {k}" for k in range(20)]
        desk.report(f"{day}.csv", zip(own, rng.uniform(1, 3, 20).tolist(), strict=True))
        desk.quote(f"{day}.csv", f"q{day}.csv", online=True)
        ids += own
    desk.withdraw("2, 3", quotes="q2.csv")
    desk.records_of(ids)
    files = [f"q{day}.csv" for day in (1, 2, 3)]
    result = desk.train(*files)
    promised = {seller: row[0] for seller, row in desk.accounts().items()}
    assert result.model.records == sum(value > 0 for value in promised.values())
    assert {found.state for found in desk.rounds()} == {"released"}
    assert len({found.release for found in desk.rounds()}) == 1
    for seller, (own, spent, _) in desk.accounts().items():
        assert 0.98 * own - 1e-5 <= spent <= own, seller
    again = desk.train(*reversed(files), output="again.json")
    assert not again.is_new
    assert again.model == result.model
    with pytest.raises(LedgerRefusal, match="exactly the quotes files"):
        desk.train("q1.csv")
    with pytest.raises(LedgerRefusal, match="given twice"):
        desk.train("q1.csv", "q1.csv")
    certificate = certify_quotes(desk.market, desk / "q2.csv")
    assert len(certificate.lines) == 60


def test_a_model_says_how_many_people_it_was_trained_on_and_not_how_many_rows_they_had(tmp_path):
    """The number of somebody's rows is part of what may be replaced, and no noise covers a count of them."""
    told = []
    for name, rows in (("many", 3), ("few", 1)):
        desk = Desk(tmp_path / name, market=market_text(sellers={"rows_per_person": 3}))
        table = read_rows(desk / "data.csv")
        write_rows(desk / "data.csv", list(table[0]), [list(row.values()) for row in table * rows])
        desk.quote()
        told.append(desk.train().model.records)
    assert told == [60, 60]
