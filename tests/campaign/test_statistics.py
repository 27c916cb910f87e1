"""Campaigns that buy a number instead of a model: every promise entered, spent once, and split by shares."""

import json
import re
import tomllib
from fractions import Fraction

import numpy as np
import pytest

from dpmarket.campaign import (
    check_market,
    decide_offline,
    decide_online,
    describe,
    market_template,
    quote_file,
    read_market,
    read_statistics,
    spending,
    train_file,
    withdraw_sellers,
)
from dpmarket.campaign.pricing import error_model_of
from dpmarket.campaign.questions import keys_of
from dpmarket.campaign.rules import rules_of
from dpmarket.errors import FileProblem, InvalidInput, LedgerRefusal
from dpmarket.ledger import accounts, check_ledger, existing_ledger, reading, rounds_of
from dpmarket.planning import statistic_error
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import PrivateMean, SeveralStatistics
from support.campaigns import MARKET, read_rows, write_rows
from support.statistics import BASE, COLUMNS, MEAN, SEVERAL, make_statistic_campaign


def quoted(folder, **options):
    made = make_statistic_campaign(folder, **options)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide_offline)
    return made


def released(folder, **options):
    made = quoted(folder, **options)
    return made, train(folder)


def train(folder):
    return train_file(
        folder / "market.toml",
        folder / "quotes.csv",
        folder / "data.csv",
        folder / "out.json",
        overwrite=True,
    )


def books(folder):
    with existing_ledger(folder / "market.ledger") as ledger, reading(ledger) as connection:
        check_ledger(connection)
        return {row[0]: row[1:] for row in accounts(connection).rows()}


class Seeded(spending.LastMoment):
    def bits(self):
        self.mark()
        return SeededNoise(3).bits()


def test_a_mean_is_the_statistics_of_the_room_with_the_promises_of_the_quotes(tmp_path, monkeypatch):
    monkeypatch.setattr(spending, "LastMoment", Seeded)
    (_, columns), result = released(tmp_path)
    promised = {row["seller"]: float(row["epsilon"]) for row in read_rows(tmp_path / "quotes.csv")}
    kept = [k for k, name in enumerate(columns["seller"]) if promised[name] > 0.0]
    own = PrivateMean(18, 90, noise_source=SeededNoise(3))
    own.fit([columns["age"][k] for k in kept], epsilons=[promised[columns["seller"][k]] for k in kept])
    found = result.model.releases()["mean"]
    assert found.numerators == own.release_.numerators
    assert found.values.tolist() == own.release_.values.tolist()
    spent = {name: line[1] for name, line in books(tmp_path).items()}
    assert [spent[columns["seller"][k]] for k in kept] == own.epsilons_.tolist()


def test_a_released_mean_is_kept_and_handed_out_again(tmp_path):
    _, result = released(tmp_path)
    assert result.is_new
    assert read_statistics(tmp_path / "out.json") == result.model
    assert result.model.secure_noise
    again = train(tmp_path)
    assert not again.is_new
    assert again.model == result.model
    for promise, spent, _ in books(tmp_path).values():
        assert (1 - 1e-9) * promise - 1e-9 <= spent <= promise


def test_several_statistics_split_every_promise_and_never_exceed_it(tmp_path):
    _, result = released(tmp_path, market=SEVERAL)
    found = result.model
    assert {name: round(one.share, 3) for name, one in found.statistics.items()} == {
        "age": 0.375,
        "way": 0.125,
        "member of the club": 0.125,
        "median": 0.25,
        "place": 0.125,
    }
    assert sum(Fraction(one.share) for one in found.statistics.values()) <= 1
    unit = Fraction(2) ** found.unit_exponent
    total = Fraction(0)
    for promise, spent, _ in books(tmp_path).values():
        assert (1 - 1e-9) * promise - 1e-9 <= spent <= promise
        assert (Fraction(spent) / unit).denominator == 1
        total += Fraction(spent)
    each = [
        release.total_weight * Fraction(2) ** release.unit_exponent for release in found.releases().values()
    ]
    assert total == sum(each)
    assert float(total) == pytest.approx(found.total_promise)
    shown = dict(describe(tmp_path / "out.json").rows)
    assert "age, mean" in shown
    assert "way, car" in shown
    assert len(found.releases()["median"].numerators) == 3


def test_several_rows_of_a_seller_count_as_one_promise(tmp_path):
    market = MEAN + "\n[sellers]\nrows_per_person = 2\n"
    _, result = released(tmp_path, market=market, rows=2)
    bought = sum(float(row["epsilon"]) > 0 for row in read_rows(tmp_path / "quotes.csv"))
    assert result.model.records == bought  # how many rows somebody has is private
    assert all(spent <= promise for promise, spent, _ in books(tmp_path).values())


def test_who_withdraws_spends_nothing_and_is_not_asked(tmp_path):
    quoted(tmp_path)
    withdraw_sellers(tmp_path / "market.toml", tmp_path / "quotes.csv", ["007"])
    result = train(tmp_path)
    assert result.withdrawn == 1
    assert books(tmp_path)["007"][1] == 0.0


def test_quotes_of_many_days_give_one_number(tmp_path):
    market = MEAN + "\n[sellers]\nexpected = 60\n"
    make_statistic_campaign(tmp_path, market=market)
    rows = [list(row.values()) for row in read_rows(tmp_path / "reports.csv")]
    files = []
    for day, part in enumerate((rows[:40], rows[40:] + rows[:5])):
        write_rows(tmp_path / f"reports{day}.csv", ["seller", "cost"], part)
        files.append(tmp_path / f"quotes{day}.csv")
        quote_file(
            tmp_path / "market.toml", tmp_path / f"reports{day}.csv", files[-1], decide_online, again=True
        )
    result = train_file(tmp_path / "market.toml", files, tmp_path / "data.csv", tmp_path / "out.json")
    total = float(sum(spent for _, spent, _ in books(tmp_path).values()))
    assert total == pytest.approx(result.model.total_promise)
    assert all(spent <= promise * (1 + 1e-15) for promise, spent, _ in books(tmp_path).values())


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("age", "old", "no number"),
        ("age", "", "an empty cell"),
        ("way", "tram", "none of the public categories"),
        ("way", "", "none of the public categories"),
        ("member", "perhaps", "neither true nor false"),
    ],
)
def test_records_that_do_not_fit_are_refused_by_line_without_their_value(tmp_path, column, value, words):
    quoted(tmp_path, market=SEVERAL)
    rows = [list(row.values()) for row in read_rows(tmp_path / "data.csv")]
    promised = {row["seller"]: float(row["epsilon"]) for row in read_rows(tmp_path / "quotes.csv")}
    place = next(k for k, row in enumerate(rows) if promised[row[0]] > 0.0)
    rows[place][COLUMNS.index(column)] = value
    write_rows(tmp_path / "data.csv", COLUMNS, rows)
    with pytest.raises(FileProblem) as refusal:
        train(tmp_path)
    said = "\n".join(refusal.value.details)
    assert words in said
    assert str(place + 2) in said
    assert not value or value not in said
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        assert rounds_of(connection)[0].state == "open"  # nothing was spent


@pytest.mark.parametrize("outside", ["clip", "refuse"])
def test_values_outside_the_bounds_are_counted_or_refused_as_the_market_says(tmp_path, outside):
    market = MEAN.replace("high = 90", "high = 60") + f'\n[training]\noutside_bounds = "{outside}"\n'
    _, columns = quoted(tmp_path, market=market)
    if outside == "refuse":
        with pytest.raises(FileProblem, match="age"):
            train(tmp_path)
        return
    promised = {row["seller"]: float(row["epsilon"]) for row in read_rows(tmp_path / "quotes.csv")}
    pairs = zip(columns["seller"], columns["age"], strict=True)
    beyond = sum(age > 60 and promised[name] > 0.0 for name, age in pairs)
    assert train(tmp_path).clipped == {"age": beyond}


def test_what_fails_after_noise_may_have_been_drawn_is_spent(tmp_path, monkeypatch):
    quoted(tmp_path, market=SEVERAL)

    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("dpmarket.statistics.quantile.race", broken)
    with pytest.raises(ZeroDivisionError):
        train(tmp_path)
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        assert rounds_of(connection)[0].state == "lost"
    with pytest.raises(LedgerRefusal, match="by a release that ended without a number after noise may"):
        train(tmp_path)


def test_prices_are_planned_for_the_statistic(tmp_path):
    mean = check_market(tomllib.loads(MEAN))
    assert error_model_of(mean) == statistic_error(PrivateMean(18, 90))
    several = check_market(tomllib.loads(SEVERAL))
    asked = {name: question.statistic() for name, question in several.statistics.items()}
    shares = {name: question.share or 1.0 for name, question in several.statistics.items()}
    assert error_model_of(several) == statistic_error(SeveralStatistics(asked, shares))


def test_the_question_is_a_rule_that_sellers_sold_by(tmp_path):
    quoted(tmp_path)
    (tmp_path / "market.toml").write_text(MEAN.replace("high = 90", "high = 91"))
    with pytest.raises(LedgerRefusal, match=r"statistic\.high was 90\.0 and is now 91\.0"):
        train(tmp_path)


def test_rules_of_models_are_as_they_were():
    assert set(rules_of(check_market(tomllib.loads(MARKET)))) == {
        "sellers", "costs", "objective", "money", "features", "label",
    }  # fmt: skip
    assert set(rules_of(check_market(tomllib.loads(MEAN)))) == {
        "sellers", "costs", "objective", "money", "statistic",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["mean", "share", "histogram", "quantile", "vector_mean"])
def test_a_first_market_file_asks_for_the_statistic_that_was_chosen(kind):
    market = check_market(tomllib.loads(market_template({"statistic.kind": kind})))
    assert market.statistic.kind == kind
    assert market.label is None
    assert market.features == {}
    every = tomllib.loads(re.sub(r"(?m)^# (\w+ = )", r"\1", market_template({"statistic.kind": kind})))
    assert set(every["statistic"]) == keys_of(kind)
    assert set(every["training"]) == {"outside_bounds"}


@pytest.mark.parametrize(
    ("table", "path", "words"),
    [
        ('kind = "median"', "statistic.kind", '"mean", "share"'),
        ('kind = "mean"\nlow = 1', "statistic.high", "missing; expected a number above low"),
        ('kind = "mean"\nlow = 1\nhigh = 1', "statistic", "expected low < high"),
        ('kind = "share"\nlow = 1', "statistic.low", "a share has no such key"),
        ('kind = "share"\nshare = 1', "statistic.share", "several statistics"),
        ('kind = "histogram"', "statistic.categories", "missing; expected at least two"),
        ('kind = "histogram"\ncategories = ["a", "a"]', "statistic", "all different"),
        ('kind = "histogram"\nedges = [1, 2, 2]', "statistic", "increasing"),
        ('kind = "quantile"\nlow = 0\nhigh = 1', "statistic.steps", "missing; expected a whole number"),
        ('kind = "quantile"\ncandidates = [1, 2]', "statistic.candidates", "at least three"),
        ('kind = "vector_mean"\ncolumns = ["a", "b"]', "statistic.bound", "missing; expected a number > 0"),
        ('kind = "share"\ncolumn = "cost"', "statistic", "another column than sellers.cost_column"),
        ('kind = "share"\nclumn = "a"', "statistic.clumn", "did you mean column?"),
        ('kind = "share"\n[label]\nvalues = [0, 1]', "label", "expected none beside [statistic]"),
        ('kind = "share"\n[statistics.a]\nkind = "share"', "statistics", "found both"),
    ],
)
def test_a_statistic_that_makes_no_sense_is_refused_with_its_path(table, path, words):
    with pytest.raises(FileProblem) as refusal:
        check_market(tomllib.loads(f"{BASE}\n[statistic]\n{table}\n"))
    line = next(line for line in refusal.value.details if line.startswith(f"{path}:"))
    assert words in line


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        (("share = 3", "share = 3000"), "statistics.way.share", "thousandth"),
        (('column = "way"', 'column = "age"'), "statistics.way", "reads 'age' otherwise"),
        (('kind = "histogram"', 'kind = "hist"'), "statistics.way.kind", '"mean", "share"'),
        (('column = "member"', 'column = "way"'), "statistics.member of the club", "reads 'way' otherwise"),
    ],
)
def test_several_statistics_that_make_no_sense_are_refused_with_their_path(change, path, words):
    with pytest.raises(FileProblem) as refusal:
        check_market(tomllib.loads(SEVERAL.replace(*change)))
    line = next(line for line in refusal.value.details if line.startswith(f"{path}:"))
    assert words in line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.pop("records"), "wrong are records"),
        (lambda data: data["statistics"]["mean"]["release"].pop("numerators"), "part is missing"),
        (lambda data: data.update(schema="dpmarket.statistics/9"), "schema 'dpmarket.statistics/1'"),
    ],
)
def test_a_file_of_statistics_with_other_parts_is_refused(tmp_path, change, words):
    _, result = released(tmp_path)
    data = result.model.to_dict()
    change(data)
    (tmp_path / "out.json").write_text(json.dumps(data))
    with pytest.raises(FileProblem, match=words):
        read_statistics(tmp_path / "out.json")


def test_a_mean_of_many_sellers_is_near_the_truth(tmp_path):
    """The interval's confidence is 1 - 1e-6."""
    market = MEAN.replace("0.001", "0.00001") + "confidence = 0.999999\n"
    (_, columns), result = released(tmp_path, market=market, sellers=500)
    found = result.model.releases()["mean"]
    assert found.lows[0] < 54.0 < found.highs[0]
    assert found.lows[0] > 18.0
    assert np.mean(columns["age"]) == pytest.approx(54.0, abs=4.0)
    assert read_market(tmp_path / "market.toml").statistic.confidence == 0.999999


@pytest.mark.parametrize("market", [MEAN, SEVERAL])
def test_nothing_but_noisy_numbers_differs_where_somebody_has_another_number_of_rows(
    tmp_path, monkeypatch, market
):
    """Whatever else is published follows from promises alone."""
    monkeypatch.setattr(spending, "LastMoment", Seeded)
    told = []
    for name, rows in (("many", 2), ("few", 1)):
        folder = tmp_path / name
        folder.mkdir()
        make_statistic_campaign(folder, market=market + "\n[sellers]\nrows_per_person = 2\n", rows=rows)
        quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide_offline)
        data = train(folder).model.to_dict()
        for one in data["statistics"].values():
            for part in ("values", "lows", "highs", "numerators"):
                one["release"].pop(part, None)
        told.append(data)
    assert told[0] == told[1]


def test_a_share_too_small_for_any_weight_is_refused_before_noise_is_drawn(tmp_path, monkeypatch):
    """Of two statistics one could be released and the other not: then none is, and nothing is spent."""
    from dpmarket.campaign import releasing

    market = BASE + '[statistics.a]\nkind = "share"\ncolumn = "member"\n[statistics.b]\nkind = "share"\n'
    quoted(tmp_path, market=market + 'column = "member"\n')
    shares = releasing.shares_of
    monkeypatch.setattr(releasing, "shares_of", lambda market: {**shares(market), "b": 1e-250})
    with pytest.raises(InvalidInput, match="largest epsilon"):
        train(tmp_path)
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        assert rounds_of(connection)[0].state == "open"
