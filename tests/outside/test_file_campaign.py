"""A campaign from files, offline, online and at a posted price: from rules to quotes, proofs and payments."""

import csv
import json
import re
import shutil
import unicodedata
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field, replace
from fractions import Fraction

import polars as pl
import pytest

from outside.driver import FileCampaign, read_table, write_rules, write_table
from outside.goods import GOODS, sellers, tables
from outside.processes import Running

GOOD = GOODS["two classes"]
MARKETS = {  # how many sellers, and what the buyer wants
    "offline": (60, {}),
    "cross-priced": (60, {"budget": 40}),
    "online": (60, {"budget": 40, "mechanism": "online"}),
    "posted price": (120, {"budget": 60, "mechanism": "posted"}),
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
    public_key: str = ""
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
    number, objective = MARKETS[kind]
    ids, costs, people = invented(number)
    expected = number + 20  # fewer come: nobody finds the budget full
    campaign = campaign_in(folder, GOOD.rules(expected, **objective), ids, costs, people)
    private = {*costs, *(str(row["income"]) for person in people for row in person), *ids[2:4], *ids[18:]}
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
    whole.public_key = campaign.run("signing-key", "key.pem", "--json").json["public_key"]
    whole.hear(campaign.certify("--key", "key.pem"))
    for act in (campaign.receipts, campaign.payouts, campaign.check_books):
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


def test_sellers_who_withdrew_are_neither_paid_nor_in_the_model(whole):
    """Their rows are such that training would refuse them."""
    paid = {row["seller"] for row in read_table(whole.campaign / "payouts.csv")}
    assert paid == set(whole.stayed)
    assert whole.campaign.released()["records"] == len(whole.stayed)
    for who in whole.left:
        line = whole.openings()[who]
        assert line["withdrew"]
        assert line["used"] == line["weight"] == 0
        assert [part["spent"] for part in statement(whole.campaign, who)] == [0]


def test_nobody_spends_more_than_was_promised(whole):
    quotes = whole.campaign.quotes()
    for who, line in whole.openings().items():
        assert line["epsilon"] == float(quotes[who]["epsilon"])
        assert line["used"] <= line["epsilon"]
    for who in whole.stayed:  # and what was promised is used
        assert whole.openings()[who]["used"] >= 0.999 * whole.openings()[who]["epsilon"]
    (one,) = statement(whole.campaign, next(iter(whole.stayed)))
    line = whole.openings()[next(iter(whole.stayed))]
    assert (one["epsilon"], one["spent"], one["payment"]) == (line["epsilon"], line["used"], line["payment"])


def test_the_certificate_holds_with_openings_rules_and_signature(whole):
    given = {
        "--openings": "openings.json",
        "--commitment": "commitment.json",
        "--signature": "certificate.json.sig",
        "--public-key": whole.public_key,
    }
    verdict = whole.campaign.verify(*(part for pair in given.items() for part in pair)).json
    assert verdict["passed"]
    # Histograms of reports would tell an operator everybody's cost: a campaign does not store them.
    skipped = {check["name"] for check in verdict["checks"] if check["verdict"] == "skipped"}
    assert skipped <= {"histograms"}
    other = ("--signature", "certificate.json.sig", "--public-key", "ab" * 32)
    assert not whole.campaign.verify(*other, code=1).json["passed"]


def test_every_kind_of_seller_can_check_their_receipt(whole):
    nothing = [who for who, row in whole.campaign.quotes().items() if float(row["epsilon"]) == 0]
    for who in (*list(whole.stayed)[:2], whole.left[0], *nothing[:1]):
        receipt = whole.campaign.receipt_of(who)
        assert whole.campaign.verify("--receipt", receipt).json["passed"]
        cost = whole.costs[who]
        assert whole.campaign.verify("--receipt", receipt, "--ask-cost", text=f"{cost}\n").code == 0
    receipt = whole.campaign.receipt_of(next(iter(whole.stayed)))
    whole.campaign.verify("--receipt", receipt, "--ask-cost", text="1000\n", code=1)


def test_costs_records_and_ids_are_neither_printed_nor_in_public_files(whole):
    texts = [whole.said, *((whole.campaign / name).read_text(encoding="utf-8") for name in PUBLIC)]
    texts += [whole.campaign.run("show", name).out for name in ("model.json", "rules.db")]
    for text in texts:
        assert [value for value in whole.private if value in text] == []
    for name in ("quotes.csv", "openings.json", "payouts.csv", "rules.db", "key.pem"):
        assert (whole.campaign / name).stat().st_mode & 0o077 == 0, name
    written = [path for path in whole.campaign.folder.rglob("*") if path.is_file()]
    for path in written:  # no file of the product holds a reported cost at all
        if path.name != "reports.csv":
            assert not [cost for cost in whole.costs.values() if cost.encode() in path.read_bytes()], path


def test_the_report_names_the_certificate_and_loads_nothing(whole):
    page = (whole.campaign / "report.html").read_text(encoding="utf-8")
    digest = re.search(r"[0-9a-f]{64}", whole.campaign.verify().out)[0]
    assert digest in page
    fetched = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", page)
    assert [address for address in fetched if not address.startswith(("#", "data:"))] == []


def test_no_mean_of_the_report_is_taken_over_fewer_than_ten_sellers(whole):
    groups = [*whole.summary["bought_groups"], *whole.summary["other_groups"]]
    assert sum(group["sellers"] for group in groups) == len(whole.costs) - len(whole.left)
    for part in ("bought_groups", "other_groups"):
        sizes = [group["sellers"] for group in whole.summary[part]]
        assert len(sizes) <= 1 or min(sizes) >= 10


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
    assert {row["seller"]: row["payment_minor_units"] for row in rows} == {
        who: int(cents) for who, (_, cents) in quotes.items()
    }
    assert {row["seller"]: row["epsilon"] for row in rows} == {
        who: float(e) for who, (e, _) in quotes.items()
    }
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


# --- withdrawals, trainings and rounds ----------------------------------------------------------


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


def test_refused_data_spends_nothing_and_mended_data_trains(quoted, tmp_path):
    campaign = copied(quoted, tmp_path)
    good = (campaign / "data.csv").read_bytes()
    rewrite_data(campaign, lambda row: row | {"bought": "maybe"} if row["seller"] == "seller 30" else row)
    refused = campaign.train(code=1)
    assert "bought" in refused.err
    assert "maybe" not in refused.err
    assert not (campaign / "model.json").exists()
    (one,) = statement(campaign, "seller 30")
    assert (one["spent"], one["state"]) == (0, "accepted")
    (campaign / "data.csv").write_bytes(good)
    campaign.train()
    campaign.check_books()


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


def test_an_offline_campaign_is_quoted_once(trained, quoted, tmp_path):
    """Sellers who could report in two rounds of one campaign would gain by a misreport in the first."""
    for k, before in enumerate((quoted, trained)):
        campaign = copied(before, tmp_path / str(k))
        ids, costs, _ = invented()
        write_table(campaign / "later.csv", {"seller": ids, "cost": [f"{cost}1" for cost in costs]})
        refused = campaign.run("quote", "later.csv", "-o", "later-quotes.csv", code=1)
        assert "another campaign" in refused.err
        write_table(campaign / "later.csv", {"seller": ["somebody else"], "cost": ["1.5"]})
        campaign.run("quote", "later.csv", "-o", "later-quotes.csv", code=1)
        assert not (campaign / "later-quotes.csv").exists()
        campaign.check_books()


def test_two_commands_at_once_quote_and_train_once(tmp_path):
    campaign = campaign_in(tmp_path, GOOD.rules(100), *invented())
    for name, command in (("quotes", ("quote", "reports.csv", "-o")), ("model", ("train", "data.csv", "-o"))):
        outputs = [
            f"{which}-{name}{'.csv' if name == 'quotes' else '.json'}" for which in ("first", "second")
        ]
        both = [Running(*command, output, cwd=tmp_path) for output in outputs]
        # One may say that the other is at it; asked again, it hands out the same.
        codes = [process.wait(None).code for process in both]
        assert 0 in codes
        assert set(codes) <= {0, 1}
        for output, code in zip(outputs, codes, strict=True):
            if code:
                campaign.run(*command, output)
        first, second = ((campaign / output).read_bytes() for output in outputs)
        assert first == second
    assert [part["state"] for part in statement(campaign, "seller 20")] == ["spent"]
    campaign.check_books()


# --- budgets and limits -------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["online", "posted"])
def test_a_budget_online_is_never_exceeded_over_many_days(tmp_path, mechanism):
    """Everybody has the lowest cost, which is the worst for a budget."""
    ids, _, people = invented(18)
    rules = GOOD.rules(30, budget=10, max_epsilon=0.5, mechanism=mechanism)
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


def test_a_lifetime_limit_holds_over_two_campaigns_of_one_ledger(tmp_path):
    limit, database = 0.8, tmp_path / "shared.db"
    rules = GOOD.rules(100, max_mean_epsilon=0.3, weight_cap=2.0, max_epsilon=0.6)
    rules["sellers"]["lifetime_epsilon"] = limit
    both = []
    for name in ("first", "second"):
        mine = {**rules, "campaign": {"database": str(database), "name": name}}
        both.append(campaign_in(tmp_path / name, mine, *invented()))
    first, second = both
    place = {"DPMARKET_STATE": str(tmp_path / "state")}  # one log for one ledger

    def run(campaign, *arguments, code=0):
        return Running(*arguments, cwd=campaign.folder, environment=place).wait(code)

    run(first, "quote", "reports.csv", "-o", "quotes.csv")
    # As long as the first is open it counts with the most that it could ask: nobody has room left.
    run(second, "quote", "reports.csv", "-o", "quotes.csv", code=None)
    assert not (second / "quotes.csv").exists() or not second.quotes()
    run(first, "train", "data.csv", "-o", "model.json")
    run(second, "quote", "reports.csv", "-o", "quotes.csv", "--force")
    quoted = second.quotes()
    refused = {row["seller"] for row in read_table(second / "quotes-not-quoted.csv")}
    spent = {who: float(row["epsilon"]) for who, row in first.quotes().items()}
    assert refused == {who for who, epsilon in spent.items() if epsilon + 0.6 > limit}
    assert set(quoted) | refused == set(spent)
    assert 0 < len(refused) < len(spent)
    rewrite_data(second, lambda row: row if row["seller"] in quoted else None)
    run(second, "train", "data.csv", "-o", "model.json")
    for who in quoted:
        assert spent[who] + float(quoted[who]["epsilon"]) <= limit
    rounds = run(second, "statement", next(iter(quoted)), "--json").json["campaigns"]
    assert len(rounds) == 2
    assert sum(part["spent"] for part in rounds) <= limit
    run(second, "check")


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


def test_a_posted_price_under_a_low_limit_spends_its_budget(tmp_path):
    """At 0.3 for 0.77 EUR, 23 of 60 would sell on average: together about 18 EUR."""
    rules = GOOD.rules(100, budget=20, max_epsilon=0.3, mechanism="posted")
    campaign = campaign_in(tmp_path, rules, *invented())
    campaign.quote()
    assert sum(in_cents(campaign.quotes().values()).values()) > 1000


# --- proofs -------------------------------------------------------------------------------------


def test_rules_that_were_published_cannot_be_replaced_or_predated(quoted, tmp_path):
    campaign = copied(quoted, tmp_path)
    campaign.train()
    other = campaign_in(tmp_path / "other", GOOD.rules(100, payment_weight=0.002), *invented())
    other.run("commit", "-o", "changed.json")
    write_rules(other / "rules.toml", GOOD.rules(100))
    other.quote(code=1)  # other rules were committed
    other.run("commit", "-o", "commitment.json")  # nobody was quoted yet
    other.quote()
    other.train()
    other.certify()
    assert other.verify("--commitment", "commitment.json").json["passed"]
    assert not other.verify("--commitment", "changed.json", code=1).json["passed"]
    campaign.certify()
    (campaign / "others.json").write_bytes((other / "commitment.json").read_bytes())
    assert not campaign.verify("--commitment", "others.json", code=1).json["passed"]
    write_rules(other / "rules.toml", GOOD.rules(100, payment_weight=0.002))
    other.run("commit", "-o", "late.json", code=1)  # sellers were quoted by these rules


def test_there_is_no_certificate_before_a_model(quoted, tmp_path):
    campaign = copied(quoted, tmp_path)
    campaign.certify(code=1)
    campaign.payouts(code=1)  # and nothing is owed yet
    assert not {path.name for path in campaign.folder.iterdir()} & {
        "certificate.json",
        "openings.json",
        "payouts.csv",
    }


# --- payments -----------------------------------------------------------------------------------


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
    campaign.run("payouts", "--returned", "back.csv")
    campaign.run("payouts", "--confirmed", "made.csv")
    campaign.run("payouts", "--confirmed", "made.csv")  # said twice, entered once
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


def test_a_bank_file_holds_every_payment_once_under_its_reference(trained, tmp_path):
    campaign = copied(trained, tmp_path)
    campaign.payouts()
    rows = read_table(campaign / "payouts.csv")
    ids = [row["seller"] for row in rows]
    account = "DE89 3704 0044 0532 0130 00"
    write_table(
        campaign / "accounts.csv",
        {"id": ids, "name": [f"Nam\u00e9 {k}" for k in range(len(ids))], "iban": [account] * len(ids)},
    )
    payer = ("--payer-name", "A Clinic", "--payer-iban", account, "--day", "2030-03-04")
    command = ("payouts", "--repeat", 1, "--bank", "accounts.csv", *payer, "-o")
    said = campaign.run(*command, "payouts.xml")
    assert account not in said.out
    tree = ET.parse(campaign / "payouts.xml")
    texts = {}
    for element in tree.iter():
        texts.setdefault(element.tag.rpartition("}")[2], []).append(element.text)
    assert [float(amount) for amount in texts["InstdAmt"]] == [float(row["payment"]) for row in rows]
    assert float(texts["CtrlSum"][0]) == pytest.approx(sum(float(row["payment"]) for row in rows), abs=1e-9)
    assert texts["EndToEndId"] == [row["reference"] for row in rows]
    write_table(
        campaign / "accounts.csv", {"id": ids[1:], "name": ids[1:], "iban": [account] * (len(ids) - 1)}
    )
    campaign.run(*command, "partial.xml", code=1)  # nobody is left out silently
    assert not (campaign / "partial.xml").exists()


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
    campaign.certify()
    assert campaign.verify("--openings", "openings.json").json["passed"]
    if delta is None:  # with one, a report takes seconds
        campaign.report()
        assert "90% interval" in (campaign / "report.html").read_text(encoding="utf-8")


def test_epsilons_too_small_for_a_hessian_are_refused_before_anything_is_spent(tmp_path):
    good = GOODS["intervals"]
    campaign = FileCampaign(tmp_path, good.rules(100, max_epsilon=0.01), *tables(*sellers(good, 30)))
    campaign.quote()
    refused = campaign.train(code=1)
    assert "too small for a noisy Hessian" in refused.err
    assert campaign.run("show", "rules.db", "--json").json["campaigns"][0]["state"] == "offered"
