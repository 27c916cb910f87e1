"""Tables as they are from the command line's side: categories, dates, gaps, several rows of one seller."""

import json
import tomllib

import numpy as np
import polars as pl
import pytest

from dpmarket import FileProblem, PublicEncoder
from dpmarket.campaign import (
    certify_quotes,
    check_market,
    decide_offline,
    predict_file,
    quote_file,
    read_model,
    sample_template,
    train_file,
)
from dpmarket.certificates import verify
from dpmarket.ledger import accounts, existing_ledger, reading
from support.campaigns import read_rows, write_rows

MARKET = """\
[sellers]
{sellers}

[costs]
distribution = "uniform(1, 5)"

[objective]
payment_weight = 0.001
concentration = 1
noise = 1

[features]
age = {{ low = 18, high = 90, missing = 40 }}
job = {{ categories = ["baker", "smith", 3], other = true }}
town = {{ categories = {towns}, missing_category = true }}
member = {{ boolean = true }}
joined = {{ first = "2000-01-01", last = "2010-01-01" }}

[label]
values = [0, 1]

[training]
outside_bounds = "{outside}"
"""
TOWNS = [f"town {k}" for k in range(30)]
HEADER = ["seller", "age", "job", "town", "member", "joined", "label"]


def market_text(sellers="", outside="clip"):
    return MARKET.format(sellers=sellers, towns=json.dumps(TOWNS), outside=outside)


def rows_of(count, each=1, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(count * each):
        job = ["baker", "smith", "3", "pilot"][rng.integers(4)]
        age = "" if k % 7 == 0 else f"{rng.uniform(18, 90):.1f}"
        town = "" if k % 5 == 0 else TOWNS[rng.integers(30)]
        joined = f"200{rng.integers(10)}-0{rng.integers(1, 10)}-11"
        member = ["yes", "no", "true", "0"][rng.integers(4)]
        rows.append([f"s{k // each}", age, job, town, member, joined, int(job in ("baker", "3"))])
    return rows


def campaign(folder, text, rows, sellers):
    (folder / "market.toml").write_text(text, encoding="utf-8")
    costs = np.random.default_rng(1).uniform(1, 5, sellers).tolist()
    write_rows(folder / "reports.csv", ["seller", "cost"], [(f"s{k}", c) for k, c in enumerate(costs)])
    write_rows(folder / "data.csv", HEADER, rows)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide_offline)


def train(folder):
    paths = (folder / name for name in ("market.toml", "quotes.csv", "data.csv", "model.json"))
    return train_file(*paths)


def test_a_table_with_categories_dates_and_gaps_is_trained_on_and_predicted(tmp_path):
    rows = rows_of(300)
    campaign(tmp_path, market_text(), rows, 300)
    result = train(tmp_path)
    model = read_model(tmp_path / "model.json")
    assert model.encoder["columns"]["town"] == {"categories": TOWNS, "missing_category": True}
    assert model.encoder["columns"]["job"]["categories"] == ["baker", "smith", "3"]
    assert [feature.name for feature in model.features][:3] == ["age", "job=baker", "job=smith"]
    assert any(model.description["release"]["norm"]["separate"])
    constants = model.description["release"]["constants"]
    assert 0.0 < constants["row_bound_2"] < 1.0 < constants["row_bound"]
    assert result.clipped == {}
    write_rows(tmp_path / "new.csv", HEADER[:-1], [row[:-1] for row in rows[:50]])
    found = predict_file(model, tmp_path / "new.csv", tmp_path / "predictions.csv")
    assert found.rows == 50
    # The same map as in training, from the model file alone: the encoder, then coefficients.
    table = pl.DataFrame(rows[:50], schema=HEADER, orient="row").select(HEADER[1:-1])
    encoder = PublicEncoder.from_dict(model.encoder)
    values = {name: [value or None for value in table[name].to_list()] for name in table.columns}
    values["age"] = [None if value is None else float(value) for value in values["age"]]
    values["member"] = [value in ("yes", "true") for value in values["member"]]
    margins = encoder.fit(values).transform(values) @ model.coefficients[:-1] + model.coefficients[-1]
    told = [float(row["probability"]) for row in read_rows(tmp_path / "predictions.csv")]
    assert told == pytest.approx((1.0 / (1.0 + np.exp(-margins))).tolist(), rel=1e-9)


def test_what_is_spent_on_sellers_with_several_rows_is_theirs(tmp_path):
    rows = rows_of(40, each=3)
    order = np.random.default_rng(2).permutation(len(rows))
    text = market_text(sellers="rows_per_person = 3")
    campaign(tmp_path, text, [rows[k] for k in order], 40)
    train(tmp_path)
    model = read_model(tmp_path / "model.json")
    assert (model.records, model.description["release"]["rows_per_person"]) == (40, 3)
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        table = accounts(connection)
    spent, promised = table["spent"].to_numpy(), table["promised"].to_numpy()
    assert bool((spent <= promised).all())
    assert spent == pytest.approx(promised, rel=1e-3, abs=2e-6)


def test_one_row_each_where_three_are_allowed_goes_to_its_seller(tmp_path):
    rows = rows_of(40)[::-1]
    campaign(tmp_path, market_text(sellers="rows_per_person = 3"), rows, 40)
    train(tmp_path)
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        table = accounts(connection)
    assert table["spent"].to_numpy() == pytest.approx(table["promised"].to_numpy(), rel=1e-3, abs=2e-6)


def test_more_rows_than_declared_are_refused_by_line(tmp_path):
    campaign(tmp_path, market_text(sellers="rows_per_person = 2"), rows_of(30, each=3), 30)
    with pytest.raises(FileProblem) as caught:
        train(tmp_path)
    assert "a seller's row beyond rows_per_person = 2" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "cell", "words"),
    [
        (1, "old", "no number"),
        (2, "", "an empty cell"),
        (3, "atlantis", "none of the public categories"),
        (4, "perhaps", "neither true nor false"),
        (5, "3.4.2001", "no date"),
        (5, "1999-01-01", "a date outside the public bounds"),
        (1, "200", "a value outside the public bounds"),
    ],
)
def test_cells_that_do_not_fit_are_refused_by_line_and_column_without_their_value(
    tmp_path, place, cell, words
):
    rows = rows_of(30)
    rows[4][place] = cell
    campaign(tmp_path, market_text(outside="refuse"), rows, 30)
    with pytest.raises(FileProblem) as caught:
        train(tmp_path)
    assert words in str(caught.value)
    assert HEADER[place] in str(caught.value)
    assert not cell or cell not in str(caught.value)


def test_values_outside_are_counted_where_they_are_clipped(tmp_path):
    rows = rows_of(30)
    rows[4][3], rows[6][3], rows[4][1] = "atlantis", "utopia", "200"
    campaign(tmp_path, market_text(), rows, 30)
    assert train(tmp_path).clipped == {"age": 1, "town": 2}


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        ({"low": 1.0}, "features.x.high: missing; expected a number above low."),
        ({"categories": ["a", "a"]}, "features.x: expected categories that differ"),
        ({"categories": ["a"], "missing": "b"}, "features.x: expected missing to be one of the categories"),
        (
            {"low": 0.0, "high": 1.0, "missing": 0.5, "missing_category": True},
            "features.x: expected one meaning",
        ),
        ({"first": "2000-13-01", "last": "2001-01-01"}, "features.x: expected first to be dates"),
        ({"low": 0.0, "high": 1.0, "categories": ["a"]}, "features.x: expected known settings"),
    ],
)
def test_features_that_make_no_sense_are_refused_with_their_path(declared, line):
    data = tomllib.loads(market_text())
    data["features"] = {"x": declared}
    with pytest.raises(FileProblem) as caught:
        check_market(data)
    assert line in str(caught.value)


def test_a_first_market_file_is_written_from_a_public_sample(tmp_path):
    rows = [
        ["a", "no", 30, "baker", "2001-02-03"],
        ["b", "yes", 50, "", "2003-02-03"],
        ["c", "no", 40, "smith", "2002-01-01"],
    ]
    write_rows(tmp_path / "public.csv", ["seller", "label", "age", "job", "since"], rows)
    text = sample_template(tmp_path / "public.csv", {"objective.budget": 300.0, "sellers.expected": 100})
    assert "TO BE READ OVER" in text
    features = check_market(tomllib.loads(text)).model_dump()["features"]
    assert features["job"] == {"categories": ["baker", "smith"], "other": True, "missing_category": True}
    assert features["since"] == {"first": "2001-02-03", "last": "2003-02-03"}
    assert features["age"]["low"] < 30 < 50 < features["age"]["high"]
    assert set(features) == {"age", "job", "since"}


def test_a_model_whose_encoder_was_changed_is_refused(tmp_path):
    campaign(tmp_path, market_text(), rows_of(60), 60)
    train(tmp_path)
    data = json.loads((tmp_path / "model.json").read_text())
    data["encoder"]["columns"]["job"]["categories"] = ["baker", "smith", "4"]
    (tmp_path / "changed.json").write_text(json.dumps(data))
    with pytest.raises(FileProblem, match="features that its encoder makes"):
        read_model(tmp_path / "changed.json")


def test_a_campaign_with_categories_is_certified_with_its_encoder(tmp_path):
    campaign(tmp_path, market_text(), rows_of(60), 60)
    train(tmp_path)
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    release = json.loads(certificate.body)["release"]
    assert release["model"]["encoder"] == read_model(tmp_path / "model.json").encoder
    assert verify(certificate, openings=certificate.openings()).passed
