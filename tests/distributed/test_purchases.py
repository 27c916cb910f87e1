"""A campaign over many files buys what one file buys, for the same money, and its books balance."""

import shutil

import polars as pl
import pytest

from dpmarket.campaign import file_parts
from dpmarket.campaign.checks import books, findings
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_campaign import certify_file, statement_of, train_file, withdraw_sellers
from dpmarket.campaign.file_payouts import enter_payout_file, write_payout
from dpmarket.campaign.file_quotes import quote_file
from dpmarket.campaign.partitions import enter_quotes_files
from dpmarket.campaign.place import place_of
from dpmarket.campaign.repair import repair
from dpmarket.certificates import verify
from dpmarket.distributed.purchases import quote_files, train_files
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from outside.goods import GOODS, sellers, tables
from outside.many import ManyFiles, scheduler


class Campaign(ManyFiles):
    """The same campaign, by functions in this process."""

    @property
    def rules(self):
        return self.folder / "rules.toml"

    def buy(self, reports="reports/*.parquet", folder="quotes"):
        return quote_files(self.rules, self / reports, self / folder, scheduler(), confirmed=True)

    def learn(self, records="by-person/*.parquet"):
        return train_files(self.rules, self / records, self / "model.json", scheduler())

    def books(self):
        with place_of(self.rules).open() as market, market.look() as c:
            return books(c)


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(file_parts, "_SPACING", 2)
    monkeypatch.setattr(file_parts, "_AT_ONCE", 16)  # ids come here in several ranges

    def made(number=60, good="two classes", sellers_table=None, **objective):
        ids, costs, people = sellers(GOODS[good], number)
        rules = GOODS[good].rules(max(number, 100), **objective)
        rules["sellers"] |= sellers_table or {}
        return Campaign(tmp_path / "campaign", rules, *tables(ids, costs, people))

    return made


@pytest.mark.parametrize("objective", [{}, {"budget": 40.0}, {"mechanism": "online", "budget": 40.0}])
def test_many_files_are_bought_from_the_first_quote_to_the_last_payment(make, objective):
    campaign = make(**objective)
    told = campaign.buy()
    quotes = campaign.quotes()
    assert told.total_payment == sum(row["payment_minor_units"] for row in quotes.values())
    assert campaign.books() == []
    left, first, *others = [who for who, row in quotes.items() if row["epsilon"] > 0]
    assert withdraw_sellers(campaign.rules, [left]) == 1
    assert campaign.books() == []
    trained = campaign.learn()
    assert trained.withdrawn == 1
    assert campaign.books() == []
    (line,) = statement_of(campaign.rules, first)
    assert (line["state"], line["epsilon"]) == ("spent", quotes[first]["epsilon"])
    assert 0 < line["spent"] <= line["epsilon"]
    paid, _ = write_payout(campaign.rules, campaign / "payouts.csv")
    owed = {who: quotes[who]["payment_minor_units"] for who in (first, *others)}
    assert (paid.people, paid.amount) == (len(owed), sum(owed.values()))
    assert campaign.books() == []
    lines = pl.read_csv(campaign / "payouts.csv")
    lines.head(1).write_csv(campaign / "back.csv")
    assert enter_payout_file(campaign.rules, campaign / "back.csv", "returned") == 1
    assert campaign.books() == []
    again, _ = write_payout(campaign.rules, campaign / "again.csv")
    assert (again.people, again.amount) == (1, lines["payment_minor_units"][0])
    assert campaign.books() == []
    certificate = certify_file(campaign.rules)
    assert len(certificate.lines) == len(quotes)
    assert verify(bytes(certificate), openings=certificate.openings()).passed


def test_a_hard_budget_holds_over_all_files_in_their_order(make):
    campaign = make(120, mechanism="online", budget=20.0)
    told = campaign.buy()
    assert told.left_out["full"] > 0
    assert told.total_payment <= 2000
    assert told.sellers + told.left_out["full"] == 120


def test_quotes_are_those_of_one_file(make):
    campaign = make()
    campaign.buy()
    place = place_of(campaign.rules, str(campaign / "one.db"))
    one = quote_file(place, campaign / "reports.csv", campaign / "one.csv", confirmed=True)
    many = campaign.quotes()
    table = pl.read_csv(campaign / "one.csv", schema_overrides={"seller": pl.String})
    assert one.epsilons.size == len(many)
    known = {who.lstrip("'"): (epsilon, amount) for who, epsilon, amount in
             table.select("seller", "epsilon", "payment_minor_units").iter_rows()}  # fmt: skip
    for who, row in many.items():
        assert known[who] == pytest.approx((row["epsilon"], row["payment_minor_units"]))


def test_the_same_reports_have_the_same_quotes_and_others_are_refused(make):
    campaign = make()
    first = campaign.buy()
    again = campaign.buy(folder="elsewhere")
    assert (again.is_new, again.total_payment) == (False, first.total_payment)
    assert not (campaign / "elsewhere").exists()
    with pytest.raises(MarketRefusal, match="other reports"):
        campaign.buy("reports/[01].parquet", "elsewhere")
    with pytest.raises(MarketRefusal, match="with --dask"):
        train_file(campaign.rules, campaign / "data.csv", campaign / "model.json")


def test_quotes_that_were_entered_stay_where_an_interruption_comes_after_it(make, monkeypatch):
    campaign, run = make(), Market.run

    def interrupted(market, function, *args, **options):
        done = run(market, function, *args, **options)
        if function is enter_quotes_files:
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Market, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            campaign.buy()
    told = campaign.buy()
    assert not told.is_new
    assert told.total_payment == sum(row["payment_minor_units"] for row in campaign.quotes().values())
    assert campaign.books() == []


def test_a_folder_that_somebody_else_made_meanwhile_stays_as_it_is(make, monkeypatch):
    campaign, price = make(), file_parts._priced

    def meanwhile(*given):
        (campaign / "quotes").mkdir()
        (campaign / "quotes" / "theirs").write_text("")
        return price(*given)

    monkeypatch.setattr(file_parts, "_priced", meanwhile)
    with pytest.raises(FileProblem, match="quotes"):
        campaign.buy()
    assert [one.name for one in (campaign / "quotes").iterdir()] == ["theirs"]
    assert campaign.books() == []


@pytest.mark.parametrize("mechanism", ["offline", "online"])
def test_an_id_in_two_files_is_refused_and_nothing_is_entered(make, mechanism):
    campaign = make(mechanism=mechanism)
    shutil.copy(campaign / "reports" / "0.parquet", campaign / "reports" / "9.parquet")
    with pytest.raises(MarketRefusal, match="20 ids stand in two rows"):
        campaign.buy()
    assert not (campaign / "quotes").exists()
    assert not (campaign / "rules.db").exists()


@pytest.mark.parametrize(
    ("good", "limits", "words"),
    [
        ("intervals", {}, "cannot use training"),
        ("delta, torch", {}, "cannot use training"),
        ("two classes", {"lifetime_epsilon": 3.0, "lifetime_delta": 0.5}, "no lifetime accounts"),
    ],
)
def test_what_is_done_in_one_place_only_is_refused_before_anybody_is_quoted(make, good, limits, words):
    campaign = make(good=good, sellers_table=limits)
    with pytest.raises((Infeasible, MarketRefusal), match=words):
        campaign.buy()
    assert not (campaign / "rules.db").exists()


def test_records_of_a_person_in_two_files_and_strangers_are_refused_before_anything_is_spent(make):
    campaign = make()
    campaign.buy()
    table = pl.read_parquet(campaign / "by-person" / "0.parquet")
    table.head(1).write_parquet(campaign / "by-person" / "9.parquet")
    with pytest.raises(FileProblem, match="in two files"):
        campaign.learn()
    table.head(1).with_columns(seller=pl.lit("nobody")).write_parquet(campaign / "by-person" / "9.parquet")
    with pytest.raises(FileProblem, match="1 people without a quote"):
        campaign.learn()
    (campaign / "by-person" / "9.parquet").unlink()
    (campaign / "by-person" / "0.parquet").unlink()
    with pytest.raises(FileProblem, match="no row for 20 sellers"):
        campaign.learn()
    assert campaign.books() == []


def test_a_file_of_quotes_that_was_changed_is_found(make):
    campaign = make()
    campaign.buy()
    path = campaign / "quotes" / "part-00001.parquet"
    pl.read_parquet(path).with_columns(payment_minor_units=pl.lit(1)).write_parquet(path)
    with place_of(campaign.rules).open() as market:
        assert [one.kind for one in findings(market)] == ["files"]
    with pytest.raises(FileProblem, match="not there as it was written"):
        campaign.learn()


def test_a_backup_from_before_the_training_is_repaired_and_everybody_is_paid(make):
    campaign = make()
    told = campaign.buy()
    shutil.copy(campaign / "rules.db", campaign / "copy.db")
    campaign.learn()
    shutil.copy(campaign / "copy.db", campaign / "rules.db")
    place = place_of(campaign.rules)
    assert repair(place.url, place.state) == ["spend"]
    assert campaign.books() == []
    paid, _ = write_payout(campaign.rules, campaign / "payouts.csv")
    assert (paid.people, paid.amount) == (told.bought_from, told.total_payment)
    assert campaign.books() == []
