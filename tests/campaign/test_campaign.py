"""A whole campaign from files: every promise entered, spent once, and no confidential value in sight."""

import contextlib
import os
import sqlite3
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa

from dpmarket import BuyerObjective, FileProblem, OfflineMechanism, Uniform, population_curve
from dpmarket.campaign import (
    decide_offline,
    decide_online,
    predict_file,
    quote_file,
    quoting,
    read_model,
    read_quotes,
    records,
    train_file,
    training,
    withdraw_absent,
    withdraw_sellers,
)
from dpmarket.campaign.quotes import Quotes
from dpmarket.cli.campaign import predict
from dpmarket.errors import EntropyUnavailable, Infeasible, LedgerRefusal, NotConverged
from dpmarket.files import read_table, table_from_bytes, write_parquet
from dpmarket.learning import PrivateLogisticRegression, PublicScaler
from dpmarket.ledger import accounts, check_ledger, existing_ledger, reading, rounds_of, tables
from dpmarket.privacy import release_cost
from dpmarket.privacy.release import ReleasePlan
from support.campaigns import FEATURES, HEADER, MARKET, make_campaign, read_rows, seller_ids, write_rows


class Campaign:
    """A campaign's files in a folder, and the steps with their usual names."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.costs = make_campaign(folder, **options)

    def __truediv__(self, name):
        return self.folder / name

    def quote(self, output="quotes.csv", reports="reports.csv", **options):
        return quote_file(self / "market.toml", self / reports, self / output, decide_offline, **options)

    def train(self, data="data.csv", quotes="quotes.csv", output="model.json", overwrite=True):
        return train_file(
            self / "market.toml", self / quotes, self / data, self / output, overwrite=overwrite
        )

    def rounds(self):
        with existing_ledger(self / "market.ledger") as ledger, reading(ledger) as connection:
            check_ledger(connection)
            return rounds_of(connection)

    def accounts(self):
        with existing_ledger(self / "market.ledger") as ledger, reading(ledger) as connection:
            check_ledger(connection)
            return {row[0]: row[1:] for row in accounts(connection).rows()}

    def rewrite(self, change, source="data.csv", target="data.csv", header=HEADER):
        rows = [list(row.values()) for row in read_rows(self / source)]
        change(rows)
        write_rows(self / target, header, rows)


@pytest.fixture
def campaign(tmp_path):
    return Campaign(tmp_path)


def test_quotes_are_what_the_mechanism_decides_and_nobody_loses(campaign):
    campaign.quote()
    outcome = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.001)).run(campaign.costs)
    rows = read_rows(campaign / "quotes.csv")
    assert [row["seller"] for row in rows] == seller_ids(60)
    # The limit on what anybody is asked for is far away: it changes at most the last bit.
    np.testing.assert_allclose([float(row["epsilon"]) for row in rows], outcome.epsilons, rtol=1e-14)
    for row, cost in zip(rows, campaign.costs, strict=True):
        paid = Fraction(int(row["payment_minor_units"]), 100)
        assert paid >= Fraction(float(row["epsilon"])) * Fraction(cost)
        assert float(row["payment"]) == float(paid)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_whole_campaign_keeps_every_promise(campaign, ending):
    entered = campaign.quote(f"quotes.{ending}").round
    result = campaign.train(quotes=f"quotes.{ending}")
    model = result.model
    assert read_model(campaign / "model.json") == model
    assert model.secure_noise
    quotes = read_quotes(campaign / f"quotes.{ending}", "seller")
    assert (quotes.scale, quotes.currency, quotes.round) == (100, "", entered.identity)
    assert model.records == int((quotes.epsilons > 0).sum())
    books = campaign.accounts()
    assert set(books) == set(seller_ids(60))
    for seller, epsilon, payment in quotes.table.rows():
        promised, spent, paid = books[seller]
        assert promised == epsilon
        assert 0.99 * epsilon - 2e-6 <= spent <= epsilon
        assert paid == payment
    assert entered.payments == sum(paid for _, _, paid in books.values())
    predictions = predict_file(model, campaign / "data.csv", campaign / f"out.{ending}")
    assert predictions.rows == 60


def test_all_that_is_wrong_with_reports_is_said_at_once_and_before_what_the_market_says(campaign):
    (campaign / "reports.csv").write_text("seller,cost\na,-1\na,2\n")
    with pytest.raises(FileProblem, match="2 problems") as refusal:
        campaign.quote()
    below, twice = refusal.value.details
    assert "below 0" in below
    assert "an earlier row" in twice

    def no_market(market, costs, remaining):
        raise Infeasible("expected another market.")

    (campaign / "reports.csv").write_text("seller,cost\na,1\na,2\n")
    with pytest.raises(FileProblem, match="1 problem"):
        quote_file(campaign / "market.toml", campaign / "reports.csv", campaign / "quotes.csv", no_market)
    (campaign / "reports.csv").write_text("seller,cost\na,1\nb,2\n")
    with pytest.raises(Infeasible):
        quote_file(campaign / "market.toml", campaign / "reports.csv", campaign / "quotes.csv", no_market)
    assert not (campaign / "quotes.csv").exists()
    assert not (campaign / "market.ledger").exists()


def test_quotes_are_told_when_they_are_entered_and_not_before(campaign, monkeypatch):
    enter = quoting.enter_draft

    def look_and_enter(*arguments):
        time.sleep(0.2)  # long enough for writing the file
        assert not (campaign / "quotes.csv").exists()
        return enter(*arguments)

    monkeypatch.setattr(quoting, "enter_draft", look_and_enter)
    campaign.quote()
    assert (campaign / "quotes.csv").exists()
    write_rows(campaign / "other-reports.csv", ["seller", "cost"], [("new", 1.5), ("newer", 2.5)])

    def fail(*_):
        raise LedgerRefusal("expected another time.")

    monkeypatch.setattr(quoting, "enter_draft", fail)
    with pytest.raises(LedgerRefusal, match="another time"):
        campaign.quote("other.csv", "other-reports.csv")
    assert not list(campaign.folder.glob("*other.csv*"))


def test_the_ledger_keeps_a_parquet_file_of_quotes_as_it_is(campaign):
    campaign.quote("quotes.parquet")
    with existing_ledger(campaign / "market.ledger") as ledger, reading(ledger) as connection:
        pages = connection.execute(tables.page.select()).all()
    assert [row.content for row in pages] == [(campaign / "quotes.parquet").read_bytes()]
    # A CSV file of the same reports is the same promises.
    assert not campaign.quote("quotes.csv").is_new
    csv, parquet = (read_quotes(campaign / f"quotes.{ending}", "seller") for ending in ("csv", "parquet"))
    assert csv.table.equals(parquet.table)
    assert csv.round == parquet.round


def test_parquet_files_of_several_rounds_can_be_put_below_each_other(tmp_path):
    for name in ("spring", "autumn"):
        sellers = [f"ann in {name}", f"bob in {name}"]
        table = pl.DataFrame({"seller": sellers, "epsilon": [0.5, 0.0], "payment_minor_units": [120, 0]})
        quotes = Quotes(table, 100, "EUR", name)
        quotes.as_written("seller").write_parquet(tmp_path / f"{name}.parquet")
        back = read_quotes(tmp_path / f"{name}.parquet")
        assert (back.scale, back.currency, back.round) == (100, "EUR", name)
        assert back.table.equals(table)
    below = pl.read_parquet(tmp_path / "*.parquet")
    assert below.get_column("round").to_list() == ["autumn", None, "spring", None]
    assert below.get_column("currency").drop_nulls().to_list() == ["EUR", "EUR"]
    below.write_parquet(tmp_path / "both.parquet")
    with pytest.raises(FileProblem, match="several rounds"):
        read_quotes(tmp_path / "both.parquet")


def test_the_model_file_holds_all_that_an_outsider_needs(campaign):
    """The release's cost recomputed from the file alone; predictions equal to scikit-learn's pipeline."""
    campaign.quote()
    model = campaign.train().model
    plan = ReleasePlan(model.grid, model.gradient_bound, model.noise_accuracy, model.numerical_epsilon)
    cost = release_cost(plan, len(model.coef_grid), model.noise_rate, model.l2, model.row_bound, 1.0 + 1e-9)
    assert cost <= model.numerical_reserve
    assert cost == pytest.approx(model.numerical_epsilon, rel=1e-6)
    # Coefficients that matter, all of them, in place of the noisy ones.
    model = model.model_copy(update={"coef_grid": [30, -20, 5], "grid": 0.0625})
    rows = read_rows(campaign / "data.csv")
    raw = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    estimator = PrivateLogisticRegression(classes=("no", "yes"), epsilon=1.0)
    estimator.fit(np.zeros((4, 2)), ["no", "yes", "no", "yes"])
    estimator.coef_, estimator.intercept_ = model.coefficients[None, :-1], model.coefficients[-1:]
    scaled = PublicScaler([18, 0], [90, 1e5], model.radius).fit_transform(raw)
    predict_file(model, campaign / "data.csv", campaign / "out.csv")
    out = read_rows(campaign / "out.csv")
    assert [row["seller"] for row in out] == [row["seller"] for row in rows]
    assert [row["prediction"] for row in out] == estimator.predict(scaled).tolist()
    np.testing.assert_allclose(
        [float(row["probability"]) for row in out], estimator.predict_proba(scaled)[:, 1], rtol=1e-12
    )


def test_the_same_reports_are_promised_once_unless_asked_for_again(campaign):
    first = campaign.quote()
    second = campaign.quote(overwrite=True)
    assert (first.is_new, second.is_new) == (True, False)
    assert campaign.quote(overwrite=True, again=True).round.number == 1  # open: nothing to promise again
    campaign.train()
    assert not campaign.quote(overwrite=True).is_new
    assert campaign.quote(overwrite=True, again=True).round.number == 2
    before = campaign.accounts()
    assert campaign.train().is_new
    after = campaign.accounts()
    assert [found.state for found in campaign.rounds()] == ["released", "released"]
    for seller, (promised, spent, paid) in after.items():
        assert promised == before[seller][0]
        assert spent == pytest.approx(2 * before[seller][1], abs=1e-5)
        assert paid == 2 * before[seller][2]


def test_promises_are_spent_on_the_disk_before_a_record_is_read(campaign, monkeypatch):
    campaign.quote()
    states = []

    def spying(source, *arguments, **options):
        states.extend(found.state for found in campaign.rounds())
        return original(source, *arguments, **options)

    original = records.read_table
    monkeypatch.setattr(records, "read_table", spying)
    campaign.train()
    assert states == ["debited"]


def test_a_second_training_hands_out_the_same_model_and_reads_no_data(campaign):
    campaign.quote()
    first = campaign.train().model
    before = campaign.accounts()
    (campaign / "data.csv").unlink()
    second = campaign.train(output="model2.json")
    assert not second.is_new
    assert (campaign / "model.json").read_bytes() == (campaign / "model2.json").read_bytes()
    assert second.model == first
    assert campaign.accounts() == before


def test_ended_after_the_mark_the_promises_are_spent_and_there_is_no_model(campaign, monkeypatch):
    campaign.quote()

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpmarket.privacy.noise._draw", die)
        with pytest.raises(KeyboardInterrupt):
            campaign.train()
    assert campaign.rounds()[0].state == "lost"
    assert all(spent == promised for promised, spent, _ in campaign.accounts().values())
    assert not (campaign / "model.json").exists()
    payments = campaign.rounds()[0].payments
    with pytest.raises(LedgerRefusal, match=rf"spent at .* quote --again.* {payments / 100:.2f} on top"):
        campaign.train()
    assert campaign.quote(again=True, overwrite=True).round.number == 2
    assert campaign.train().is_new


def test_dying_between_release_and_file_keeps_the_model_for_later(campaign, monkeypatch):
    campaign.quote()
    released = []

    def die(output, data, overwrite):
        released.append(data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "write_bytes", die)
        with pytest.raises(KeyboardInterrupt):
            campaign.train()
    assert not (campaign / "model.json").exists()
    assert not campaign.train().is_new
    assert (campaign / "model.json").read_bytes() == released[0]


def test_dying_between_ledger_and_quotes_loses_no_promise(campaign, monkeypatch):
    link = os.link

    def die(source, target):
        if Path(target).name == "quotes.csv":
            raise KeyboardInterrupt
        link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", die)  # the step in which a new file appears
        with pytest.raises(KeyboardInterrupt):
            campaign.quote()
    assert not (campaign / "quotes.csv").exists()
    assert len(campaign.rounds()) == 1
    assert not campaign.quote().is_new
    assert campaign.train().is_new


def test_quotes_that_were_changed_by_hand_are_refused(campaign):
    campaign.quote()
    header = list(read_rows(campaign / "quotes.csv")[0])

    def raise_one(rows):
        rows[0][1] = str(float(rows[0][1]) * 1.5)

    def drop_one(rows):
        del rows[3]

    def swap(rows):
        rows[0][0], rows[1][0] = rows[1][0], rows[0][0]

    for change in (raise_one, drop_one, swap):
        campaign.rewrite(change, "quotes.csv", "changed.csv", header)
        with pytest.raises(LedgerRefusal, match="no such quotes were given"):
            campaign.train(quotes="changed.csv")
    assert campaign.rounds()[0].state == "open"


def test_rows_of_sellers_promised_nothing_are_neither_needed_nor_looked_at(tmp_path):
    campaign = Campaign(tmp_path, market=MARKET.replace("0.001", "0.05"))
    campaign.quote()
    nothing = {row["seller"] for row in read_rows(campaign / "quotes.csv") if float(row["epsilon"]) == 0.0}
    assert len(nothing) > 2

    def spoil(rows):
        for row in rows:
            if row[1] in nothing:
                row[0], row[2], row[3] = "garbage", "", "neither"
        del rows[next(k for k, row in enumerate(rows) if row[1] in nothing)]

    campaign.rewrite(spoil)
    rows = read_rows(campaign / "data.csv")
    last = max(k for k, row in enumerate(rows) if row["seller"] not in nothing)
    campaign.rewrite(set_cell(last, 3, "neither"), target="wrong.csv")
    campaign.rewrite(set_cell(last, 2, "none"), "wrong.csv", "wrong.csv")
    with pytest.raises(FileProblem) as refusal:
        campaign.train(data="wrong.csv")
    assert str(refusal.value).count(f"in 1 row: line {last + 2}.") == 2
    assert campaign.train().model.records == 60 - len(nothing)


def test_withdrawal_removes_a_seller_and_changes_nobody_else(campaign):
    campaign.quote()
    before = campaign.accounts()
    leaving = ["007", 'Zoë "Z" Ó Néill, jr.']
    assert withdraw_sellers(campaign / "market.toml", campaign / "quotes.csv", leaving) == 2

    def spoil(rows):
        for row in rows:
            if row[1] in leaving:
                row[0] = "garbage"

    campaign.rewrite(spoil)
    winners = sum(promised > 0 for promised, _, _ in before.values())
    gone = sum(before[seller][0] > 0 for seller in leaving)
    assert gone > 0
    assert campaign.train().model.records == winners - gone
    after = campaign.accounts()
    for seller, (promised, spent, paid) in after.items():
        if seller in leaving:
            assert (promised, spent, paid) == (0.0, 0.0, 0)
        else:
            assert promised == before[seller][0]
            assert spent <= promised


def test_sellers_without_data_are_named_by_line_and_can_withdraw(campaign):
    campaign.quote()
    quotes = read_rows(campaign / "quotes.csv")
    gone = [k for k, row in enumerate(quotes) if float(row["epsilon"]) > 0.0][:4]
    ids = [quotes[k]["seller"] for k in gone]

    def drop(rows):
        rows[:] = [row for row in rows if row[1] not in ids]

    campaign.rewrite(drop)
    lines = ", ".join(str(k + 2) for k in gone[:3])
    with pytest.raises(FileProblem, match=f"no row in the data .* in 4 rows: line {lines} and 1 more"):
        campaign.train()
    assert campaign.rounds()[0].state == "open"
    before = campaign.accounts()
    assert withdraw_absent(campaign / "market.toml", campaign / "quotes.csv", campaign / "data.csv") == 4
    after = campaign.accounts()
    assert {seller for seller in after if after[seller] != before[seller]} == set(ids)
    assert campaign.train().is_new


def set_cell(row, column, value):
    def change(rows):
        rows[row][column] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_cell(4, 3, "s3cret"), ["column 'has bought': neither of the two labels in 1 row: line 6."]),
        (set_cell(4, 2, "s3cret"), ["column 'age': no number in 1 row: line 6."]),
        (set_cell(4, 2, ""), ["column 'age': an empty cell in 1 row: line 6."]),
        (set_cell(4, 2, "3,5"), ["column 'age': a decimal comma (write a point) in 1 row: line 6."]),
        (set_cell(4, 0, "inf"), ["column 'yearly income': NaN or infinity in 1 row: line 6."]),
        (set_cell(4, 1, "s3cret"), ["column 'seller': a seller without a quote in 1 row: line 6."]),
        (set_cell(4, 1, ""), ["column 'seller': no seller id in 1 row: line 6."]),
        (lambda rows: rows.append(rows[4]), ["id that an earlier row has already in 1 row: line 62."]),
        (
            lambda rows: [set_cell(k, 2, "s3cret")(rows) or set_cell(k, 3, "3,5")(rows) for k in range(60)],
            ["column 'age': no number in ", "column 'has bought': neither of the two labels in ", " more."],
        ),
    ],
)  # fmt: skip
def test_bad_data_are_refused_by_line_and_column_and_give_the_debit_back(tmp_path, change, words):
    # All sellers are bought from, so that every row counts.
    campaign = Campaign(tmp_path, market=MARKET.replace("0.001", "0.0000001"))
    campaign.quote()
    campaign.rewrite(change)
    with pytest.raises(FileProblem) as refusal:
        campaign.train()
    for word in words:
        assert word in str(refusal.value)
    assert "s3cret" not in str(refusal.value)
    assert "3,5" not in str(refusal.value)
    assert campaign.rounds()[0].state == "open"
    assert all(spent == 0.0 and paid == 0 for _, spent, paid in campaign.accounts().values())
    assert not (campaign / "model.json").exists()


@pytest.mark.parametrize("column", ["seller", "age", "has bought"])
def test_data_of_a_wrong_type_are_refused_and_give_the_debit_back(campaign, column):
    campaign.quote()
    columns = read_table(campaign / "data.csv", HEADER, ["seller"]).to_dict(as_series=False)
    columns[column] = [b"s3cret\xff"] * 60
    write_parquet(campaign / "data.parquet", pl.DataFrame(columns), {})
    with pytest.raises(FileProblem, match=f"column '{column}'") as refusal:
        campaign.train(data="data.parquet")
    assert "s3cret" not in str(refusal.value)
    assert campaign.rounds()[0].state == "open"


@pytest.mark.parametrize(
    ("step", "error", "state"),
    [
        ("dpmarket.campaign.training.read_records", ZeroDivisionError, "open"),
        ("dpmarket.campaign.training.read_records", KeyboardInterrupt, "open"),
        ("dpmarket.campaign.spending._fitted", EntropyUnavailable, "open"),
        ("os.urandom", NotImplementedError, "open"),  # looked at before the mark
        ("dpmarket.privacy.noise._draw", NotConverged, "lost"),  # may depend on the noise
        ("dpmarket.privacy.noise._draw", ZeroDivisionError, "lost"),
        ("dpmarket.learning.estimator.round_to_grid", KeyboardInterrupt, "lost"),
    ],
)
def test_what_ends_a_training_gives_the_debit_back_before_the_mark_and_not_after_it(
    campaign, monkeypatch, step, error, state
):
    campaign.quote()

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        with pytest.raises((error, EntropyUnavailable)):
            campaign.train()
    assert campaign.rounds()[0].state == state
    if state == "open":
        assert campaign.train().is_new


def test_features_outside_their_bounds_are_clipped_and_counted_or_refused(campaign):
    campaign.quote()
    winner = next(row["seller"] for row in read_rows(campaign / "quotes.csv") if float(row["epsilon"]) > 0)

    def push(rows):
        for row in rows:
            if row[1] == winner:
                row[0], row[2] = "-77777", "91.5"

    campaign.rewrite(push)
    strict = MARKET + '[training]\noutside_bounds = "refuse"\n'
    (campaign / "market.toml").write_text(strict)
    with pytest.raises(FileProblem, match=r"'age': a value outside the public bounds in 1 row") as refusal:
        campaign.train()
    assert "91.5" not in str(refusal.value)
    (campaign / "market.toml").write_text(MARKET)
    assert campaign.train().clipped == {"age": 1, "yearly income": 1}


def test_whole_numbers_as_labels_are_compared_as_numbers(tmp_path):
    campaign = Campaign(tmp_path, market=MARKET.replace('["no", "yes"]', "[0, 1]"))
    campaign.quote()

    def relabel(rows):
        for k, row in enumerate(rows):
            row[3] = ("0", "1", "0.0", "1e0")[k % 4]

    campaign.rewrite(relabel)
    assert campaign.train().model.labels == [0, 1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("seller,cost\na,1.75\na,2.75\n", ["an earlier row has already in 1 row: line 3."]),
        ("seller,cost\na,1.75\n,2.75\n", ["no seller id in 1 row: line 3."]),
        ("seller,cost\na,1.75\nb,-2.75\n", ["a cost below 0 in 1 row: line 3."]),
        ("seller,cost\na,1.75\nb,oops\n", ["no number in 1 row: line 3."]),
        ('seller,cost\na,"1,75"\nb,2.75\n', ["a decimal comma (write a point) in 1 row: line 2."]),
        ("seller,cost\na,1,75\nb,2,75\n", ["decimals have points"]),
        ("seller;cost\na;1,75\n", ["separated by semicolons"]),
        ("seller\tcost\na\t1.75\n", ["separated by tabs"]),
        ("who,cost\na,1.75\n", ["cannot find 'seller'", "of its 2 columns only 'cost' is expected"]),
        ("seller,cost,cost\na,1.75,2.75\n", ["'cost' once", "more often"]),
        ("seller,cost\na,1.75\na\0,2.75\n", ["an id with a NUL character in 1 row: line 3."]),
        ("oops,1.75\nb,2.75\n", ["none of its 2 columns is expected", "header row missing"]),
        ("seller,cost\n", ["no rows"]),
        ("", ["empty"]),
        (
            "seller,cost\na,nan\nb,inf\nc,\n",
            ["NaN or infinity in 2 rows: line 2, 3.", "an empty cell in 1 row: line 4."],
        ),
        ('seller,cost\n"a\nb",1.75\nc,oops\n', ["no number in 1 row: row 2."]),
    ],
)  # fmt: skip
def test_bad_reports_are_refused_by_line_and_never_by_value(campaign, content, words):
    (campaign / "reports.csv").write_text(content)
    with pytest.raises(FileProblem) as refusal:
        campaign.quote()
    for word in words:
        assert word in str(refusal.value)
    for secret in ("1.75", "2.75", "1,75", "oops"):
        assert secret not in str(refusal.value)
    assert not (campaign / "quotes.csv").exists()
    assert not (campaign / "market.ledger").exists()


def test_a_byte_order_mark_is_no_part_of_the_first_column(campaign):
    expected = campaign.quote().round
    content = (campaign / "reports.csv").read_bytes()
    (campaign / "reports.csv").write_bytes(b"\xef\xbb\xbf" + content)
    assert campaign.quote(overwrite=True).round == expected
    (campaign / "reports.csv").write_bytes(content.decode().encode("utf-16"))
    with pytest.raises(FileProblem, match="UTF-16"):
        campaign.quote(overwrite=True)


def test_reported_costs_are_in_no_file_that_is_written(campaign):
    campaign.quote()
    campaign.train()
    with existing_ledger(campaign / "market.ledger") as ledger, reading(ledger) as connection:
        columns = accounts(connection).columns
        pages = str([found.rows() for found in map(table_from_bytes, _contents(connection))])
    with contextlib.closing(sqlite3.connect(campaign / "market.ledger")) as database:
        dump = "\n".join(database.iterdump()) + pages
    state = Path(os.environ["DPMARKET_STATE"])
    dump += (state / "spent.log").read_text()
    assert columns == ["seller", "promised", "spent", "paid"]
    texts = [(campaign / name).read_text() for name in ("quotes.csv", "model.json")] + [dump]
    for cost in campaign.costs:
        digits = repr(float(cost))[:7]
        assert not any(digits in text for text in texts)


def _contents(connection):
    return connection.execute(sa.select(tables.page.c.content)).scalars()


def test_an_output_that_exists_is_refused_before_anything_is_promised_or_spent(campaign):
    (campaign / "quotes.csv").write_text("mine")
    with pytest.raises(FileProblem, match="exists"):
        campaign.quote()
    assert not (campaign / "market.ledger").exists()
    campaign.quote(overwrite=True)
    (campaign / "model.json").write_text("mine")
    with pytest.raises(FileProblem, match="exists"):
        campaign.train(overwrite=False)
    assert campaign.rounds()[0].state == "open"


def test_an_output_that_is_a_file_of_the_campaign_is_refused(campaign):
    for output in ("market.toml", "market.ledger", "reports.csv"):
        with pytest.raises(FileProblem, match="still needed"):
            campaign.quote(output, overwrite=True)
    campaign.quote()
    (campaign / "link.json").symlink_to("market.ledger")
    names = ["market.toml", "market.ledger", "quotes.csv", "data.csv"]
    before = [(campaign / name).read_bytes() for name in names]
    for output in (*names, "link.json"):
        with pytest.raises(FileProblem, match="still needed"):
            campaign.train(output=output)
    assert [(campaign / name).read_bytes() for name in names] == before
    assert campaign.rounds()[0].state == "open"


@pytest.mark.parametrize("name", ["model.json", "data.csv"])
def test_predictions_over_the_model_or_the_data_are_refused(campaign, name):
    campaign.quote()
    campaign.train()
    before = (campaign / name).read_bytes()
    with pytest.raises(FileProblem, match="still needed"):
        predict(campaign / "model.json", campaign / "data.csv", campaign / name, force=True)
    assert (campaign / name).read_bytes() == before


def test_quotes_are_their_owners_to_read_and_models_are_public(campaign):
    old = os.umask(0o022)
    try:
        campaign.quote()
        campaign.train()
    finally:
        os.umask(old)
    modes = [(campaign / name).stat().st_mode & 0o777 for name in ("quotes.csv", "model.json")]
    assert modes == [0o600, 0o644]


def test_promises_that_cannot_be_kept_at_this_penalty_are_refused_and_given_back(tmp_path):
    from dpmarket import Infeasible

    campaign = Campaign(tmp_path, market=MARKET + "[training]\nl2 = 0.00001\n")
    campaign.quote()
    with pytest.raises(Infeasible):
        campaign.train()
    assert campaign.rounds()[0].state == "open"


@pytest.mark.parametrize(
    "change",
    [
        {"coef_grid": [1, 2]},
        {"grid": 0.0},
        {"schema": "other/1"},
        {"features": []},
        {"extra": 1},
        {"l2": None},
    ],
)
def test_a_model_file_that_is_not_whole_is_refused(campaign, change):
    import json

    campaign.quote()
    data = campaign.train().model.to_dict() | change
    (campaign / "model.json").write_text(json.dumps(data))
    with pytest.raises(FileProblem, match="expected"):
        read_model(campaign / "model.json")


def test_predictions_need_no_ids_and_name_bad_cells_by_line(campaign):
    campaign.quote()
    model = campaign.train().model
    write_rows(campaign / "new.csv", ["yearly income", "age"], [(1000, 30), (2e5, 40)])
    done = predict_file(model, campaign / "new.csv", campaign / "out.csv")
    assert (done.rows, done.clipped) == (2, 1)
    assert [row["row"] for row in read_rows(campaign / "out.csv")] == ["1", "2"]
    write_rows(campaign / "new.csv", ["yearly income", "age"], [(1000, 30), (2e5, "s3cret")])
    with pytest.raises(FileProblem, match="'age': no number in 1 row: line 3"):
        predict_file(model, campaign / "new.csv", campaign / "out2.csv")


def test_a_budget_is_planned_from_the_market_file_alone(tmp_path):
    """The same payment weight whatever is reported, and payments near the budget."""
    market = "[sellers]\nexpected = 300\n" + MARKET.replace("payment_weight = 0.001", "budget = 50.0")
    weights = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        campaign = Campaign(folder, market=market, sellers=300, seed=seed)
        quoting = campaign.quote()
        weights.append(quoting.outcome.parameters["objective"]["payment_weight"])
        assert quoting.outcome.total_payment == pytest.approx(50.0, rel=0.2)
    assert weights[0] == weights[1]


def test_online_quotes_depend_on_the_own_report_only_and_come_in_parts(tmp_path):
    campaign = Campaign(tmp_path, market="[sellers]\nexpected = 60\n" + MARKET)
    market, all_at_once = campaign / "market.toml", campaign / "all.csv"
    quote_file(market, campaign / "reports.csv", all_at_once, decide_online)
    reports = read_rows(campaign / "reports.csv")
    parts = []
    (tmp_path / "apart").mkdir()
    apart = Campaign(tmp_path / "apart", market="[sellers]\nexpected = 60\n" + MARKET)
    for name, rows in (("first", reports[:25]), ("second", reports[:24:-1])):
        write_rows(apart / f"{name}.csv", ["seller", "cost"], [row.values() for row in rows])
        quote_file(apart / "market.toml", apart / f"{name}.csv", apart / f"{name}-quotes.csv", decide_online)
        parts += read_rows(apart / f"{name}-quotes.csv")

    def own(row):
        return [row[name] for name in ("epsilon", "payment", "payment_minor_units")]

    by_id = {row["seller"]: own(row) for row in parts}
    assert [by_id[row["seller"]] for row in read_rows(all_at_once)] == list(map(own, read_rows(all_at_once)))
    for row, cost in zip(read_rows(all_at_once), campaign.costs, strict=True):
        assert Fraction(int(row["payment_minor_units"]), 100) >= Fraction(float(row["epsilon"])) * Fraction(
            cost
        )
    curve = population_curve(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.001), 60)
    epsilons = [float(row["epsilon"]) for row in read_rows(all_at_once)]
    np.testing.assert_allclose(epsilons, curve.epsilons(campaign.costs), rtol=1e-13)
    assert campaign.train(quotes="all.csv").is_new


def test_online_quotes_need_the_number_of_sellers_expected(campaign):
    with pytest.raises(FileProblem, match=r"sellers\.expected: missing"):
        quote_file(campaign / "market.toml", campaign / "reports.csv", campaign / "q.csv", decide_online)
    assert not (campaign / "market.ledger").exists()
