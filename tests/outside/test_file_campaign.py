"""A campaign from files, offline, online and at a posted price: from rules to quotes, proofs and payments."""

import csv
import json
import re
import shutil
import unicodedata
from dataclasses import dataclass, field, replace
from fractions import Fraction

import polars as pl
import pytest

from outside.driver import FileCampaign, read_table, write_rules, write_table
from outside.goods import GOODS, sellers, tables
from outside.processes import Running

GOOD = GOODS["two classes"]
MARKETS = {  # what the buyer wants
    "offline": {},
    "cross-priced": {"budget": 40},
    "online": {"budget": 40, "mechanism": "online"},
    "posted price": {"budget": 60, "mechanism": "posted"},
}
PUBLIC = ("model.json", "certificate.json", "commitment.json", "report.html", "page.html")


def invented(number=60, seed=0):
    """Return ids, costs with digits that no other number has, and rows of invented sellers."""
    ids, costs, people = sellers(GOOD, number, seed)
    return ids, [f"{cost:.2f}{37_000 + k}" for k, cost in enumerate(costs)], people


def campaign_in(folder, rules, ids, costs, people):
    return FileCampaign(folder, rules, *tables(ids, costs, people))


def rewrite_data(campaign, change):
    """Write the data again with ``change(row)`` in place of each row; None leaves it out."""
    rows = [new for row in read_table(campaign / "data.csv") if (new := change(row)) is not None]
    write_table(campaign / "data.csv", {name: [row[name] for row in rows] for name in rows[0]})


def copied(campaign, folder):
    """Return a campaign in a copy of the folder, with the ledger and its log."""
    copy = FileCampaign.__new__(FileCampaign)
    copy.folder = folder / "copy"
    shutil.copytree(campaign.folder, copy.folder)
    return copy


def in_cents(rows):
    return {row["seller"]: int(row["payment_minor_units"]) for row in rows}


def balance(campaign):
    """Return what the ledger says about the campaign's money, in minor units by name."""
    (found,) = campaign.run("show", "rules.db", "--json").json["campaigns"]
    return found["balance_minor_units"]


def statement(campaign, seller, *options):
    return campaign.run("statement", seller, "--json", *options).json["campaigns"]


@dataclass
class Whole:
    """A campaign that came to its end, and everything that its commands printed."""

    campaign: FileCampaign
    costs: dict
    private: set
    left: list = field(default_factory=list)
    said: str = ""
    summary: dict = field(default_factory=dict)

    def hear(self, done):
        self.said += done.out + done.err
        return done

    @property
    def stayed(self):
        """Quotes of sellers who did not withdraw and were promised something, by id."""
        quotes = self.campaign.quotes().items()
        return {who: row for who, row in quotes if float(row["epsilon"]) > 0 and who not in self.left}

    def openings(self):
        data = json.loads((self.campaign / "openings.json").read_text(encoding="utf-8"))
        columns = ("epsilon", "used", "weight", "payment", "withdrew")
        return {who: {name: data[name][k] for name in columns} for k, who in enumerate(data["id"])}


def run_to_the_end(folder, kind):
    ids, costs, people = invented()
    # More are expected than come: nobody finds the budget full.
    campaign = campaign_in(folder, GOOD.rules(100, **MARKETS[kind]), ids, costs, people)
    incomes = (str(row["income"]) for person in people for row in person)
    private = {*costs, *(income for income in incomes if len(income) > 6), *ids[2:4], *ids[18:]}
    whole = Whole(campaign, dict(zip(ids, costs, strict=True)), private)
    whole.hear(campaign.run("commit", "-o", "commitment.json"))
    whole.hear(campaign.quote())
    bought = [who for who, row in campaign.quotes().items() if float(row["epsilon"]) > 0]
    whole.left = bought[:1] + bought[-1:]
    whole.hear(campaign.withdraw(*whole.left))
    # Sellers who left send something that no market would take: it must not be looked at.
    rewrite_data(
        campaign, lambda row: row | {"age": "?", "bought": "?"} if row["seller"] in whole.left else row
    )
    whole.hear(campaign.train())
    for act in (campaign.certify, campaign.receipts, campaign.payouts, campaign.check_books):
        whole.hear(act())
    whole.summary = whole.hear(campaign.report("--certificate", "certificate.json", "--json")).json
    return whole


@pytest.fixture(scope="module", params=MARKETS)
def whole(request, tmp_path_factory):
    return run_to_the_end(tmp_path_factory.mktemp("whole"), request.param)


@pytest.fixture(scope="module")
def quoted(tmp_path_factory):
    """An offline campaign that has quotes and nothing else; tests use copies."""
    campaign = campaign_in(tmp_path_factory.mktemp("quoted"), GOOD.rules(100), *invented())
    campaign.quote()
    return campaign


@pytest.fixture(scope="module")
def trained(tmp_path_factory, quoted):
    """The same campaign with a model; tests use copies."""
    campaign = copied(quoted, tmp_path_factory.mktemp("trained"))
    campaign.train()
    return campaign


# --- three markets, from rules to the report ----------------------------------------------------


def test_everybody_bought_from_is_paid_at_least_what_the_promise_costs_them(whole):
    quotes = whole.campaign.quotes()
    assert set(quotes) == set(whole.costs)
    for who, row in quotes.items():
        worth = Fraction(float(whole.costs[who])) * Fraction(float(row["epsilon"]))
        assert int(row["payment_minor_units"]) >= 100 * worth
        assert Fraction(row["payment"]) * 100 == int(row["payment_minor_units"])
        assert float(row["epsilon"]) <= 1.0
    assert len(whole.stayed) >= 10
    whole.campaign.run("audit", "participation", "quotes.csv", "reports.csv")


def test_payments_add_up_in_quotes_payouts_ledger_and_openings(whole):
    stayed, total = in_cents(whole.stayed.values()), sum(in_cents(whole.stayed.values()).values())
    assert in_cents(read_table(whole.campaign / "payouts.csv")) == stayed
    money = balance(whole.campaign)
    assert money["on_its_way"] == total
    assert money["funded"] == money["available"] + total
    assert money["held"] == money["owed"] == money["paid_out"] == 0
    assert {who: line["payment"] for who, line in whole.openings().items() if who in stayed} == stayed
    body = json.loads((whole.campaign / "certificate.json").read_text(encoding="utf-8"))["body"]
    assert total <= body["totals"]["total_payment"] <= 1.01 * total  # public totals are rounded up


def test_sellers_who_withdrew_are_neither_paid_nor_used_and_others_spend_what_was_promised(whole):
    """The rows of sellers who withdrew are such that training would refuse them."""
    paid = {row["seller"] for row in read_table(whole.campaign / "payouts.csv")}
    assert paid == set(whole.stayed)
    assert whole.campaign.released()["records"] == len(whole.stayed)
    openings, quotes = whole.openings(), whole.campaign.quotes()
    for who, line in openings.items():
        assert line["epsilon"] == float(quotes[who]["epsilon"])
        assert line["used"] <= line["epsilon"]
        assert line["withdrew"] == (who in whole.left)
    for who in whole.stayed:
        assert openings[who]["used"] >= 0.999 * openings[who]["epsilon"]
    for who in whole.left:
        assert openings[who]["used"] == openings[who]["weight"] == 0
        assert [part["spent"] for part in statement(whole.campaign, who)] == [0]
    one = next(iter(whole.stayed))
    (told,), line = statement(whole.campaign, one), openings[one]
    assert (told["epsilon"], told["spent"], told["payment"]) == (
        line["epsilon"],
        line["used"],
        line["payment"],
    )


def test_the_certificate_holds_for_an_auditor_and_for_every_kind_of_seller(whole):
    options = ("--openings", "openings.json", "--commitment", "commitment.json")
    verdict = whole.campaign.verify(*options).json
    # Histograms of reports would tell an operator everybody's cost: a campaign does not store them.
    assert verdict["passed"]
    skipped = {one["name"] for one in verdict["checks"] if one["verdict"] != "holds"}
    assert skipped <= {"histograms", "signature"}
    nothing = [who for who, row in whole.campaign.quotes().items() if float(row["epsilon"]) == 0]
    for who in (next(iter(whole.stayed)), whole.left[0], *nothing[:1]):
        receipt = ("--receipt", whole.campaign.receipt_of(who), "--ask-cost")
        assert whole.campaign.verify(*receipt, text=f"{whole.costs[who]}\n").json["passed"]


def test_costs_records_and_ids_are_neither_printed_nor_in_public_files(whole):
    texts = [whole.said, *((whole.campaign / name).read_text(encoding="utf-8") for name in PUBLIC)]
    texts += [whole.campaign.run("show", name).out for name in ("model.json", "rules.db")]
    for text in texts:
        assert [value for value in whole.private if value in text] == []
    for name in ("quotes.csv", "openings.json", "payouts.csv", "rules.db"):
        assert (whole.campaign / name).stat().st_mode & 0o077 == 0, name
    written = [path for path in whole.campaign.folder.rglob("*") if path.is_file()]
    for path in written:  # no file of the product holds a reported cost at all
        if path.name != "reports.csv":
            assert not [cost for cost in whole.costs.values() if cost.encode() in path.read_bytes()], path


def test_the_report_names_the_certificate_and_has_no_mean_over_fewer_than_ten_sellers(whole):
    digest = re.search(r"[0-9a-f]{64}", whole.campaign.verify().out)[0]
    assert digest in (whole.campaign / "report.html").read_text(encoding="utf-8")
    parts = [whole.summary["bought_groups"], whole.summary["other_groups"]]
    sizes = [[group["sellers"] for group in part] for part in parts]
    assert sum(map(sum, sizes)) == len(whole.costs) - len(whole.left)
    assert all(len(part) <= 1 or min(part) >= 10 for part in sizes)


def test_the_same_reports_and_quotes_hand_out_the_same_once_more(whole, tmp_path):
    campaign = copied(whole.campaign, tmp_path)
    before, quotes = (campaign / "model.json").read_bytes(), whole.campaign.quotes()
    campaign.quote("--force")
    again = campaign.quotes()
    assert set(again) == set(quotes) - set(whole.left)
    for who, row in again.items():
        assert (row["epsilon"], row["payment"]) == (quotes[who]["epsilon"], quotes[who]["payment"])
    (campaign / "data.csv").unlink()  # no record is read for it
    write_table(campaign / "data.csv", {"seller": ["nobody"], "age": [1], "income": [1], "bought": ["yes"]})
    campaign.train("--force")
    assert (campaign / "model.json").read_bytes() == before
    campaign.check_books()


# --- files as people have them ------------------------------------------------------------------


def test_neither_the_order_of_rows_nor_the_format_of_files_changes_a_quote(quoted, tmp_path):
    quotes = {who: (row["epsilon"], row["payment_minor_units"]) for who, row in quoted.quotes().items()}
    ids, costs, people = invented()
    campaign = campaign_in(tmp_path, GOOD.rules(100), ids[::-1], costs[::-1], people[::-1])
    campaign.quote()
    assert list(campaign.quotes()) == ids[::-1]  # in the order of the file
    found = campaign.quotes().items()
    assert {who: (row["epsilon"], row["payment_minor_units"]) for who, row in found} == quotes
    frame = pl.read_csv(campaign / "reports.csv", schema_overrides={"seller": pl.String}).reverse()
    frame.write_parquet(campaign / "reports.parquet")
    again = campaign.run("quote", "reports.parquet", "-o", "quotes.parquet", "--json").json
    assert not again["is_new"]  # the same reports: nobody is promised anything on top
    rows = pl.read_parquet(campaign / "quotes.parquet").rows(named=True)
    assert quotes == {row["seller"]: (str(row["epsilon"]), str(row["payment_minor_units"])) for row in rows}
    pl.read_csv(campaign / "data.csv", schema_overrides={"seller": pl.String}).reverse().write_parquet(
        campaign / "data.parquet"
    )
    campaign.run("train", "data.parquet", "-o", "model.json")
    assert campaign.released()["records"] == 60


def test_ids_are_text_in_one_form_and_no_cell_runs_as_a_formula(tmp_path):
    ids, costs, people = invented(30)
    ids = [f"Zo\u00eb {k}" for k in range(26)] + ["=1+1", "+49 30", "@home", "-5"]
    campaign = campaign_in(tmp_path, GOOD.rules(30), ids, costs, people)
    campaign.quote()
    assert set(campaign.quotes()) == set(ids)
    # The same letters in their other form are the same people.
    rewrite_data(campaign, lambda row: row | {"seller": unicodedata.normalize("NFD", row["seller"])})
    campaign.withdraw(unicodedata.normalize("NFD", ids[3]), "=1+1")
    campaign.train()
    assert campaign.released()["records"] == 28
    for act in (campaign.payouts, campaign.certify, campaign.receipts):
        act()
    assert {row["seller"] for row in read_table(campaign / "payouts.csv")} == set(ids) - {ids[3], "=1+1"}
    assert json.loads(campaign.receipt_of("@home").read_text(encoding="utf-8"))
    for name in ("quotes.csv", "payouts.csv", "receipts/index.csv"):
        with open(campaign / name, encoding="utf-8", newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in tuple("=+-@")], name


def test_predictions_have_a_line_for_every_row_and_follow_the_probability(trained, tmp_path):
    campaign = copied(trained, tmp_path)
    campaign.run("predict", "model.json", "data.csv", "-o", "predictions.csv")
    rows, data = (read_table(campaign / name) for name in ("predictions.csv", "data.csv"))
    assert [row["seller"] for row in rows] == [row["seller"] for row in data]
    for row in rows:
        assert 0 <= float(row["probability"]) <= 1
        assert row["prediction"] == ("yes" if float(row["probability"]) >= 0.5 else "no")
    # A public table without ids and labels; a number beyond its bounds counts as the bound.
    write_table(campaign / "public.csv", {"age": [90, 900], "income": [5, 5]})
    campaign.run("predict", "model.json", "public.csv", "-o", "public-predictions.csv")
    first, second = read_table(campaign / "public-predictions.csv")
    assert first["probability"] == second["probability"]


# --- quotes, withdrawals, trainings -------------------------------------------------------------


def test_too_few_sellers_and_a_purchase_of_noise_are_not_quoted(tmp_path):
    rules = GOOD.rules(100)
    rules["sellers"]["minimum"] = 26
    campaign = campaign_in(tmp_path, rules, *invented(25))
    assert "sellers.minimum" in campaign.quote(code=1).err
    write_rules(campaign / "rules.toml", GOOD.rules(100, payment_weight=0.1))
    assert "no better than" in campaign.run("quote", "reports.csv", "-o", "quotes.csv", code=1).err
    assert not (campaign / "rules.db").exists()
    campaign.quote()  # with a yes


def test_a_dry_run_enters_nothing_in_a_database_that_is_there(tmp_path):
    campaign = campaign_in(tmp_path, GOOD.rules(100), *invented(25))
    campaign.run("commit", "-o", "commitment.json")
    before = campaign.run("show", "rules.db", "--json").json
    for _ in range(2):
        assert campaign.run("quote", "reports.csv", "--dry-run", "--yes", "--json").json["is_new"]
    campaign.run("check", "reports.csv")
    assert campaign.run("show", "rules.db", "--json").json == before
    assert not list(campaign.folder.glob("*quot*"))


def test_a_dry_run_is_not_split_by_the_salt_of_the_real_quotes(tmp_path):
    campaign = campaign_in(tmp_path, GOOD.rules(100, budget=60.0), *invented(60))
    campaign.run("commit", "-o", "commitment.json")
    ways = (["--dry-run"], ["--dry-run"], ["-o", "quotes.csv"])
    dry, again, real = (campaign.run("quote", "reports.csv", *way, "--yes", "--json").json for way in ways)
    assert dry["total_epsilon"] == again["total_epsilon"] != real["total_epsilon"]


def test_people_of_the_pilot_and_excluded_people_do_not_sell(tmp_path):
    ids, costs, people = invented(25)
    rules = GOOD.rules(100)
    campaign = campaign_in(tmp_path, rules, ids, costs, people)
    pilot = [f"pilot {k}" for k in range(80)]
    for who in (ids[0], "another"):
        write_table(
            campaign / "pilot.csv", {"seller": [who, *pilot], "cost": [1 + k / 20 for k in range(81)]}
        )
        campaign.run("costs", "fit", "pilot.csv", "-o", "fit.json", "--force")
        write_rules(campaign / "rules.toml", rules | {"costs": {"distribution": "fit.json"}})
        done = campaign.run("quote", "reports.csv", "--dry-run", code=1 if who == ids[0] else 0)
        assert ("people of the pilot" in done.err) == (who == ids[0])
    write_table(campaign / "excluded.csv", {"seller": ids[:2]})
    rules["sellers"]["excluded"] = "excluded.csv"
    write_rules(campaign / "rules.toml", rules)
    campaign.quote()
    assert {row["seller"] for row in read_table(campaign / "quotes-not-quoted.csv")} == set(ids[:2])


def test_a_delta_allows_no_more_people_over_several_files_than_at_once(tmp_path):
    rules = GOODS["delta"].rules(100, mechanism="online", budget=1000)
    rules["objective"]["delta"] = 1e-3
    ids, costs, people = invented(120)
    campaign = campaign_in(tmp_path, rules, ids[:60], costs[:60], people[:60])
    campaign.quote()
    write_table(campaign / "more.csv", {"seller": ids[60:], "cost": costs[60:]})
    said = campaign.run("quote", "more.csv", "-o", "more-quotes.csv", "--yes", code=1).err
    assert "allows at most 100" in said
    assert not (campaign / "more-quotes.csv").exists()


def test_a_first_file_that_is_refused_does_not_fix_the_rules(tmp_path):
    rules = GOODS["delta"].rules(100)
    rules["objective"]["delta"] = 1e-3
    campaign = campaign_in(tmp_path, rules, *invented(101))
    assert "allows at most 100" in campaign.quote(code=1).err
    rules["objective"]["delta"] = 1e-5
    write_rules(campaign / "rules.toml", rules)
    campaign.quote()


def test_sellers_without_data_can_be_taken_out_together(quoted, tmp_path):
    campaign = copied(quoted, tmp_path)
    missing = list(campaign.quotes())[10:14]
    rewrite_data(campaign, lambda row: None if row["seller"] in missing else row)
    campaign.train(code=1)  # somebody who was promised something sent nothing
    assert balance(campaign)["owed"] == 0
    campaign.withdraw("--absent-from", "data.csv")
    campaign.train()
    assert campaign.released()["records"] == 56
    campaign.payouts()
    assert not set(missing) & {row["seller"] for row in read_table(campaign / "payouts.csv")}
    campaign.withdraw(next(iter(campaign.quotes())), code=1)  # too late: it is spent


def test_rules_that_change_after_the_first_quote_are_refused(quoted, tmp_path):
    campaign = copied(quoted, tmp_path)
    for table, key, value in (
        ("objective", "payment_weight", 0.002),
        ("features", "age", {"low": 0, "high": 90}),
        ("money", "currency", "USD"),
    ):
        rules = GOOD.rules(100)
        write_rules(campaign / "rules.toml", rules | {table: rules[table] | {key: value}})
        for refused in (campaign.train(code=1), campaign.quote("--force", code=1)):
            assert key in refused.err
    assert not (campaign / "model.json").exists()
    write_rules(campaign / "rules.toml", GOOD.rules(100))
    campaign.train()


def test_an_offline_campaign_is_quoted_once(quoted, tmp_path):
    """Sellers who could report in two rounds of one campaign would gain by a misreport in the first."""
    campaign = copied(quoted, tmp_path)
    ids, costs, _ = invented()
    for who, cost in ((ids, [f"{cost}1" for cost in costs]), (["somebody else"], ["1.5"])):
        write_table(campaign / "later.csv", {"seller": who, "cost": cost})
        refused = campaign.run("quote", "later.csv", "-o", "later-quotes.csv", code=1)
        assert "another campaign" in refused.err
    assert not (campaign / "later-quotes.csv").exists()
    campaign.certify(code=1)  # not before a model
    campaign.payouts(code=1)  # and nothing is owed yet
    campaign.check_books()


def test_two_commands_at_once_quote_and_train_once(tmp_path):
    campaign = campaign_in(tmp_path, GOOD.rules(100), *invented())
    for name, command in (("quotes", ("quote", "reports.csv", "-o")), ("model", ("train", "data.csv", "-o"))):
        outputs = [
            f"{which}-{name}{'.csv' if name == 'quotes' else '.json'}" for which in ("first", "second")
        ]
        both = [Running(*command, output, cwd=tmp_path) for output in outputs]
        # One may say that the other is at it; asked again, it hands out the same.
        done = [process.wait(None) for process in both]
        assert sorted(one.code for one in done) in ([0, 0], [0, 1]), [one.err for one in done]
        for output, one in zip(outputs, done, strict=True):
            if one.code:
                campaign.run(*command, output)
        first, second = ((campaign / output).read_bytes() for output in outputs)
        assert first == second
    assert [part["state"] for part in statement(campaign, "seller 20")] == ["spent"]
    campaign.check_books()


# --- budgets and limits -------------------------------------------------------------------------


def test_a_budget_online_is_never_exceeded_over_many_days(tmp_path):
    """Everybody has the lowest cost, which is the worst for a budget."""
    ids, _, people = invented(18)
    rules = GOOD.rules(30, budget=10, max_epsilon=0.5, mechanism="online")
    campaign = campaign_in(tmp_path, rules, ids, ["1"] * 18, people)
    spent, told, codes = 0, [], []
    for day in range(3):
        mine = ids[6 * day : 6 * (day + 1)]
        write_table(campaign / "reports.csv", {"seller": mine, "cost": ["1"] * 6})
        done = campaign.run("quote", "reports.csv", "-o", f"quotes-{day}.csv", "--yes", code=None)
        codes.append(done.code)
        if done.code == 0:
            rows = read_table(campaign / f"quotes-{day}.csv")
            spent += sum(in_cents(rows).values())
            told += [row["seller"] for row in rows]
    assert codes == [0, 0, 1]  # on the third day nobody can be quoted any more
    assert 850 < spent <= 1000
    missed = [row["seller"] for row in read_table(campaign / "quotes-1-not-quoted.csv")]
    assert told + missed == ids[:12]
    assert balance(campaign)["funded"] == 1000
    # One model from the quotes of both days.
    rewrite_data(campaign, lambda row: row if row["seller"] in told else None)
    campaign.run("train", "data.csv", "-o", "model.json")
    campaign.payouts()
    assert sum(in_cents(read_table(campaign / "payouts.csv")).values()) == spent
    campaign.check_books()


@pytest.mark.parametrize(
    ("campaigns", "refused"),
    [
        ([("delta", {"lifetime_delta": 2.5e-5})] * 3, [False, False, True]),
        ([("two classes", {}), ("delta", {"lifetime_delta": 2.5e-5})], [False, True]),
    ],
    ids=["deltas add up", "a campaign without a limit of delta allows none"],
)
def test_a_limit_of_delta_holds_over_the_campaigns_of_one_ledger(tmp_path, campaigns, refused):
    place = {"DPMARKET_STATE": str(tmp_path / "state")}
    found = []
    for number, (good, limits) in enumerate(campaigns):
        shared = {"database": str(tmp_path / "shared.db"), "name": f"number {number}"}
        caps = {} if good == "delta" else {"max_mean_epsilon": 0.3, "weight_cap": 2.0}
        rules = GOODS[good].rules(100, **caps) | {"campaign": shared}
        rules["sellers"] |= {"lifetime_epsilon": 9.0, **limits}
        campaign = campaign_in(tmp_path / str(number), rules, *invented())
        Running("quote", "reports.csv", "-o", "quotes.csv", cwd=campaign.folder, environment=place).wait(None)
        found.append(not (campaign / "quotes.csv").exists() or not campaign.quotes())
    assert found == refused


# --- proofs -------------------------------------------------------------------------------------


def test_rules_that_were_published_cannot_be_replaced_or_predated(tmp_path):
    campaign = campaign_in(tmp_path, GOOD.rules(100, payment_weight=0.002), *invented())
    campaign.run("commit", "-o", "changed.json")
    write_rules(campaign / "rules.toml", GOOD.rules(100))
    campaign.quote(code=1)  # other rules were committed
    campaign.run("commit", "-o", "commitment.json")  # nobody was quoted yet
    for act in (campaign.quote, campaign.train, campaign.certify):
        act()
    assert campaign.verify("--commitment", "commitment.json").json["passed"]
    assert not campaign.verify("--commitment", "changed.json", code=1).json["passed"]
    write_rules(campaign / "rules.toml", GOOD.rules(100, payment_weight=0.002))
    campaign.run("commit", "-o", "late.json", code=1)  # sellers were quoted by these rules


# --- payments and predictions -------------------------------------------------------------------


def test_payments_that_came_back_are_owed_again_and_nothing_is_paid_twice(trained, tmp_path):
    campaign = copied(trained, tmp_path)
    campaign.payouts()
    first = read_table(campaign / "payouts.csv")
    campaign.run("payouts", "-o", "second.csv", code=1)  # nothing more is owed
    assert not (campaign / "second.csv").exists()
    campaign.run("payouts", "--repeat", 1, "-o", "repeated.csv")
    assert (campaign / "repeated.csv").read_bytes() == (campaign / "payouts.csv").read_bytes()
    write_table(campaign / "back.csv", {"reference": [row["reference"] for row in first[:2]]})
    write_table(campaign / "made.csv", {"reference": [row["reference"] for row in first[2:]]})
    campaign.run("payouts", "--confirmed", "made.csv")
    campaign.run("payouts", "--confirmed", "made.csv")  # said twice, entered once
    campaign.run("payouts", "--repeat", 1, "-o", "rest.csv")
    assert read_table(campaign / "rest.csv") == first[:2]
    campaign.run("payouts", "--returned", "back.csv")
    campaign.run("payouts", "--repeat", 1, "-o", "none.csv", code=1)
    campaign.run("payouts", "--confirmed", "back.csv", code=1)
    money = balance(campaign)
    amounts = in_cents(first)
    assert money["owed"] == sum(int(row["payment_minor_units"]) for row in first[:2])
    assert money["paid_out"] == sum(amounts.values()) - money["owed"]
    campaign.run("payouts", "-o", "second.csv")
    second = read_table(campaign / "second.csv")
    assert in_cents(second) == in_cents(first[:2])
    assert not {row["reference"] for row in second} & {row["reference"] for row in first}
    campaign.run("payouts", "--confirmed", "second.csv")
    assert balance(campaign)["paid_out"] == sum(amounts.values()) == balance(campaign)["funded"]
    campaign.check_books()


@pytest.mark.parametrize("delta", [None, 1e-5])
def test_a_share_of_every_epsilon_buys_intervals_for_predictions_and_the_coefficients(tmp_path, delta):
    good = replace(GOODS["intervals"], delta=delta)
    campaign = FileCampaign(tmp_path, good.rules(100), *tables(*sellers(good, 30)))
    campaign.quote()
    campaign.train()
    stated = campaign.released()["description"]["intervals"]
    assert stated["share"] == 0.5
    campaign.run("predict", "model.json", "data.csv", "--interval", "0.9", "-o", "predicted.csv")
    for row in read_table(campaign / "predicted.csv"):
        low, value, high = (float(row[name]) for name in ("interval_low", "probability", "interval_high"))
        assert 0.0 <= low < value < high <= 1.0
    assert "90% interval of age" in campaign.run("show", "model.json").out


@pytest.mark.parametrize("good", ["quantile regression", "regression, categories"])
def test_a_regression_predicts_numbers_within_its_public_bounds(tmp_path, good):
    good = GOODS[good]
    campaign = FileCampaign(tmp_path, good.rules(100, payment_weight=1e-5), *tables(*sellers(good, 30)))
    campaign.quote()
    campaign.train()
    model = campaign.released()
    for correction in (model["shrinkage_correction"], 1e9):
        extreme = json.dumps(model | {"shrinkage_correction": correction})
        (campaign / "model.json").write_text(extreme, encoding="utf-8")
        campaign.run("predict", "model.json", "data.csv", "-o", "predictions.csv", "--force")
        numbers = [float(row["prediction"]) for row in read_table(campaign / "predictions.csv")]
        assert 0.0 <= min(numbers) <= max(numbers) <= 80.0
