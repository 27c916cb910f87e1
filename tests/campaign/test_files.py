"""Campaigns from files on the core: what is refused, what is entered, and what is spent."""

import json

import numpy as np
import pytest

from dpmarket.campaign import file_campaign, file_payouts, file_quotes
from dpmarket.campaign.account import MarketAccount
from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.checks import books
from dpmarket.campaign.database import open_market
from dpmarket.campaign.place import place_of
from dpmarket.campaign.release import LastMoment
from dpmarket.campaign.rules.prediction import predict_file
from dpmarket.campaign.rules.released import read_released, released_from
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, Infeasible, InvalidInput, MarketRefusal, NotCertifiable
from dpmarket.privacy.account import PrivacyAccount
from outside.driver import read_table, write_rules, write_table
from outside.goods import GOODS, sellers, tables


class Folder:
    """A campaign in a folder, and the functions that commands call."""

    def __init__(self, path, good="two classes", number=25, **rules):
        self.path, self.good = path, GOODS[good]
        path.mkdir(exist_ok=True)
        self.ids, self.costs, self.people = sellers(self.good, number)
        self.rules = self.good.rules(max(number, 100), **rules)
        self.write()

    def write(self, **given):
        for name, table in given.items():
            self.rules[name] = self.rules.get(name, {}) | table
        write_rules(self.path / "rules.toml", self.rules)
        reports, data = tables(self.ids, self.costs, self.people)
        write_table(self.path / "reports.csv", reports)
        write_table(self.path / "data.csv", data)

    def __truediv__(self, name):
        return self.path / name

    def quote(self, output="quotes.csv", reports="reports.csv", **options):
        options = {"confirmed": True, **options}
        return file_quotes.quote_file(self / "rules.toml", self / reports, self / output, **options)

    def train(self, output="model.json", data="data.csv"):
        return file_campaign.train_file(self / "rules.toml", self / data, self / output)

    def market(self):
        return place_of(self / "rules.toml").open()

    def campaign(self):
        with place_of(self / "rules.toml").campaign() as (market, found):
            assert books_of(market) == []
            return found


def books_of(market):
    with market.look() as c:
        return books(c)


@pytest.fixture
def new(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    return lambda *given, **more: Folder(tmp_path / "here", *given, **more)


# --- what is refused leaves nothing behind ---


def test_few_people_changed_rules_and_noise_are_refused(new):
    folder = new()
    folder.write(sellers={"minimum": 26})
    with pytest.raises(MarketRefusal, match=r"sellers\.minimum"):
        folder.quote()
    folder.write(sellers={"minimum": 5}, objective={"payment_weight": 1e-1})
    with pytest.raises(MarketRefusal, match="no better than"):
        folder.quote(confirmed=False)
    assert not (folder / "rules.db").exists()
    folder.quote()
    folder.write(objective={"payment_weight": 2e-1})
    for act in (folder.train, lambda: folder.quote("again.csv")):
        with pytest.raises(MarketRefusal, match=r"objective\.payment_weight was 0\.1 and is now 0\.2"):
            act()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ids, costs: (ids[:-1] + ids[:1], costs), "earlier row"),
        (lambda ids, costs: ([*ids[:-2], "Zoe@x.org", "zoe@X.org"], costs), "earlier row"),
        (lambda ids, costs: ([*ids[:-1], "a\u200bb"], costs), "nobody sees"),
        (lambda ids, costs: (ids, [100 * cost for cost in costs]), "another unit"),
        (lambda ids, costs: (ids, [*costs[:-1], "much"]), "no number"),
    ],
)
def test_reports_that_are_wrong_are_refused_by_line(new, change, words):
    folder = new()
    folder.ids, folder.costs = change(folder.ids, folder.costs)
    reports = {"seller": folder.ids, "cost": folder.costs}
    write_table(folder / "reports.csv", reports)
    with pytest.raises(FileProblem, match=words):
        folder.quote()
    assert not (folder / "rules.db").exists()


def test_people_of_the_pilot_and_excluded_people_do_not_sell(new):
    folder = new()
    pilot = {
        "seller": [*folder.ids[:1], *(f"pilot {k}" for k in range(30))],
        "cost": [2.0, *np.linspace(1, 5, 30)],
    }
    write_table(folder / "pilot.csv", pilot)
    fitted = {"distribution": "uniform(1, 5)", "pilot": {"file": "pilot.csv", "column": "cost"}}
    (folder / "fit.json").write_text(json.dumps(fitted | {"distribution": _uniform()}))
    folder.write(costs={"distribution": "fit.json"})
    with pytest.raises(FileProblem, match="people of the pilot"):
        folder.quote()
    write_table(folder / "excluded.csv", {"seller": folder.ids[:2]})
    write_table(folder / "pilot.csv", {"seller": pilot["seller"][1:], "cost": pilot["cost"][1:]})
    folder.write(sellers={"excluded": "excluded.csv"})
    done = folder.quote()
    assert done.left_out == {"excluded": 2}
    assert {row["seller"] for row in read_table(folder / "quotes-not-quoted.csv")} == set(folder.ids[:2])


def _uniform():
    import dpmarket as dpm

    return dpm.Uniform(1, 5).to_dict()


def test_an_offline_campaign_is_quoted_once(new):
    folder = new()
    folder.quote()
    folder.costs[0] += 0.5
    folder.write()
    with pytest.raises(MarketRefusal, match="begin another campaign"):
        folder.quote("other.csv")


def test_a_first_file_that_is_refused_does_not_fix_the_rules(new):
    folder = new("delta", 25)
    folder.write(objective={"delta": 4e-3}, sellers={"expected": 25})
    folder.ids += ["one more"]
    folder.costs, folder.people = [*folder.costs, 2.0], [*folder.people, folder.people[0]]
    folder.write()
    with pytest.raises(MarketRefusal, match="allows at most 25"):
        folder.quote()
    folder.write(objective={"delta": 1e-5})
    folder.quote()


# --- money ---


def test_a_budget_online_is_never_exceeded_and_sellers_without_room_are_listed(new):
    folder = new(number=40, mechanism="online", budget=8.0)
    folder.costs = [1.0] * 40
    folder.write()
    done = folder.quote()
    assert 0 < done.amounts.sum() <= 800
    assert done.left_out["full"] == 40 - done.epsilons.size
    listed = [row["seller"] for row in read_table(folder / "quotes-not-quoted.csv")]
    assert [row["seller"] for row in read_table(folder / "quotes.csv")] + listed == folder.ids
    write_table(folder / "later.csv", {"seller": ["late"], "cost": ["1.0"]})
    with pytest.raises(MarketRefusal, match="budget is full"):
        folder.quote("more.csv", "later.csv")


def test_payouts_are_written_once_and_a_bank_file_needs_an_account_for_everybody(new):
    folder = new()
    folder.quote()
    folder.train()
    from datetime import date

    from dpmarket.campaign.bank_file import BankAccount

    iban = "DE89 3704 0044 0532 0130 00"
    bank = file_payouts.Bank(folder / "accounts.csv", BankAccount("A Clinic", iban), date(2030, 3, 4))
    write_table(folder / "accounts.csv", {"id": folder.ids[1:], "name": ["N"] * 24, "iban": [iban] * 24})
    with pytest.raises(InvalidInput, match="an account for everybody"):
        file_payouts.write_payout(folder / "rules.toml", folder / "bank.xml", bank=bank)
    made = file_payouts.write_payout(folder / "rules.toml", folder / "payouts.csv")
    assert made.payout.number == 1
    with pytest.raises(MarketRefusal, match="--repeat 1"):
        file_payouts.write_payout(folder / "rules.toml", folder / "second.csv")
    lines = (folder / "payouts.csv").read_text().splitlines(keepends=True)
    (folder / "some.csv").write_text("".join(lines[:21]))
    assert file_payouts.enter_payout_file(folder / "rules.toml", folder / "some.csv", "confirmed") == 20
    again = file_payouts.write_payout(folder / "rules.toml", folder / "again.csv", repeat=1)
    assert (again.payout.people, made.payout.people) == (5, 25)
    assert file_payouts.enter_payout_file(folder / "rules.toml", folder / "payouts.csv", "confirmed") == 5
    with pytest.raises(MarketRefusal, match="confirmed"):
        file_payouts.write_payout(folder / "rules.toml", folder / "none.csv", repeat=1)


def test_the_folder_of_logs_is_for_its_owner_alone(tmp_path):
    with open_market(tmp_path / "market.db", tmp_path / "state", make=True) as market:
        market.ship()
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state", market.log.folder)} == {0o700}


# --- records and releases ---


def test_sellers_who_withdrew_are_not_read_paid_or_certified_as_paid(new):
    folder = new()
    folder.quote()
    gone = folder.ids[3]
    assert file_campaign.withdraw_sellers(folder / "rules.toml", [gone]) == 1
    with pytest.raises(MarketRefusal, match="No quote"):
        file_campaign.withdraw_sellers(folder / "rules.toml", ["nobody"])
    folder.people[3][0] |= {"age": "?", "bought": "?"}
    folder.write()
    assert folder.train().released.records == 24
    with folder.market() as market:
        certificate = certify_campaign(market, folder.campaign().id)
    assert verify(bytes(certificate), openings=certificate.openings()).passed
    lines = json.loads(certificate.openings())
    assert dict(zip(lines["id"], lines["withdrew"], strict=True))[gone] is True


def test_data_that_is_wrong_spends_nothing(new):
    folder = new()
    folder.quote()
    folder.people[0][0]["bought"] = "maybe"
    folder.write()
    with pytest.raises(FileProblem, match="neither of the two labels"):
        folder.train()
    folder.ids[1] = "a stranger"
    folder.people[0][0]["bought"] = "no"
    folder.write()
    with pytest.raises(FileProblem, match="a seller without a quote"):
        folder.train()
    assert folder.campaign().state == "offered"
    with folder.market() as market, pytest.raises(NotCertifiable):
        certify_campaign(market, folder.campaign().id)


def test_values_outside_are_refused(new):
    folder = new()
    folder.people[2][0]["age"] = 95
    folder.write(training={"outside_bounds": "refuse"})
    with pytest.raises(FileProblem, match="outside the public bounds"):
        file_campaign.check_files(folder / "rules.toml", [folder / "data.csv"])


@pytest.mark.parametrize("good", ["quantile regression", "regression, categories"])
def test_a_regression_predicts_numbers_within_its_public_bounds(new, good):
    folder = new(good, 30, payment_weight=1e-5)
    folder.quote()
    folder.train()
    model = read_released(folder / "model.json")
    done = predict_file(model, folder / "data.csv", folder / "predictions.csv")
    numbers = [float(row["prediction"]) for row in read_table(folder / "predictions.csv")]
    assert done.rows == 30
    assert 0.0 <= min(numbers) <= max(numbers) <= 80.0
    extreme = released_from(model.to_dict() | {"shrinkage_correction": 1e9}, "an extreme model")
    predict_file(extreme, folder / "data.csv", folder / "extreme.csv")
    extremes = [float(row["prediction"]) for row in read_table(folder / "extreme.csv")]
    assert 0.0 <= min(extremes) <= max(extremes) <= 80.0


def test_the_commit_point_is_passed_in_the_moment_before_noise():
    passed = []
    noise = LastMoment(lambda: passed.append(1))
    noise.bits()
    assert passed == [1]


def test_a_refusal_after_the_debit_and_before_noise_gives_everything_back(new, monkeypatch):
    folder = new()
    folder.quote()

    def refuse(*_):
        raise InvalidInput("no")

    monkeypatch.setattr(file_campaign, "release_for", lambda rules: refuse)
    with pytest.raises(InvalidInput):
        folder.train()
    assert folder.campaign().state == "offered"
    monkeypatch.undo()
    monkeypatch.setenv("DPMARKET_STATE", str(folder.path.parent / "state"))
    folder.train()


@pytest.mark.parametrize(("objective", "more"), [({}, set()), ({"budget": 20.0}, {"split"})])
def test_rules_are_announced_with_all_that_prices_follow_from(new, objective, more):
    folder = new(number=60, **objective)
    text, _ = file_quotes.commit_file(folder / "rules.toml")
    announced = json.loads(text)["announced"]["market"]
    assert {"objective", "epsilon_cost", "groups", *more} <= set(announced)


# --- limits over campaigns and library models ---


def test_a_model_of_the_library_counts_against_the_limits_of_campaigns(new):
    folder = new(max_epsilon=0.5)
    folder.write(sellers={"lifetime_epsilon": 1.0})
    folder.quote()
    folder.train()
    with folder.market() as market:
        account = MarketAccount(market)
        assert isinstance(account, PrivacyAccount)
        left = account.left([folder.ids[0], "somebody new"])
        assert 0.5 <= left[0] < 1.0
        assert left[1] == 1.0
        account.charge([folder.ids[0], "somebody new"], [0.25, 0.25])
        with pytest.raises(Infeasible, match="1 people"):
            account.charge([folder.ids[0], "somebody new"], [0.6, 0.1])
        assert account.left(["somebody new"])[0] == 0.75
        assert books_of(market) == []
    lines = file_campaign.statement_of(folder / "rules.toml", folder.ids[0])
    assert [line.channel for line in lines] == ["file", "account"]
