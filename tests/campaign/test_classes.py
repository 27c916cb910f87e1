"""A campaign whose records have one of three labels: from the market file to a verified certificate."""

import json
import tomllib

import numpy as np
import pytest

from dpmarket.campaign import (
    certify_quotes,
    check_market,
    decide_offline,
    describe,
    predict_file,
    quote_file,
    read_market,
    read_model,
    train_file,
    withdraw_sellers,
)
from dpmarket.campaign.pricing import error_model_of
from dpmarket.campaign.spending import raised_penalty
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_table
from dpmarket.learning import PrivateLogisticRegression, PublicScaler
from dpmarket.ledger import accounts, existing_ledger, reading
from dpmarket.planning import softmax_error
from dpmarket.privacy import SeededNoise
from support.campaigns import HEADER, LABELS, MARKET, THREE, make_three, read_rows, write_rows

WHOLE = MARKET.replace('["no", "yes"]', "[3, 1, 2]")


def quoted(folder, **options):
    make_three(folder, **options)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide_offline)
    return folder / "market.toml", folder / "quotes.csv"


def trained(folder, **options):
    market, quotes = quoted(folder, **options)
    return train_file(market, quotes, folder / "data.csv", folder / "model.json")


@pytest.mark.parametrize(("market", "labels"), [(THREE, LABELS), (WHOLE, [3, 1, 2])])
def test_three_labels_go_from_quotes_to_predictions(tmp_path, market, labels):
    model = trained(tmp_path, market=market, labels=labels).model
    assert read_model(tmp_path / "model.json") == model
    assert model.schema_version == "dpmarket.model/4"
    assert model.labels == labels
    assert np.shape(model.coef_grid) == (3, 3)
    done = predict_file(model, tmp_path / "data.csv", tmp_path / "out.parquet")
    found = read_table(tmp_path / "out.parquet")
    shares = found.select([f"probability_{label}" for label in labels]).to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    likeliest = [labels[place] for place in shares.argmax(axis=1)]
    assert found.get_column("prediction").to_list() == likeliest
    assert done.counts == tuple(likeliest.count(label) for label in labels)
    with existing_ledger(tmp_path / "market.ledger") as ledger, reading(ledger) as connection:
        books = accounts(connection)
    promised, spent = (books.get_column(name).to_numpy() for name in ("promised", "spent"))
    assert (spent <= promised).all()
    assert (spent > 0.98 * promised - 2e-6).all()


def test_the_model_of_three_labels_is_the_estimators_with_the_labels_in_the_files_order(
    tmp_path, monkeypatch
):
    from dpmarket.campaign import spending

    class Seeded(spending.LastMoment):
        def draw(self, *numbers, **named):
            self.mark()
            return SeededNoise(5).draw(*numbers, **named)

    monkeypatch.setattr(spending, "LastMoment", Seeded)
    model = trained(tmp_path, sellers=300).model
    table = read_table(tmp_path / "data.csv", texts=["seller"])
    promised = {row["seller"]: float(row["epsilon"]) for row in read_rows(tmp_path / "quotes.csv")}
    epsilons = np.array([promised[name] for name in table.get_column("seller").to_list()])
    kept = epsilons > 0.0
    raw = table.select("age", "yearly income").to_numpy().astype(float)[kept]
    rows = PublicScaler([18, 0], [90, 100000]).fit_transform(raw)
    labels = table.get_column("has bought").to_numpy()[kept]
    own = PrivateLogisticRegression(classes=LABELS, noise_source=SeededNoise(5))
    own.fit(rows, labels, epsilons=epsilons[kept])
    assert model.coef_grid == own.coef_grid_.tolist()
    np.testing.assert_allclose(model.label_probabilities(raw), own.predict_proba(rows), rtol=1e-9)
    with pytest.raises(InvalidInput, match="label_probabilities"):
        model.probabilities(raw)


def test_a_model_of_three_labels_is_described_by_label(tmp_path):
    trained(tmp_path)
    rows = dict(describe(tmp_path / "model.json").rows)
    assert rows["predicts"] == "has bought: 'bus', 'car' or 'train'"
    values = [float(rows[f"coefficient of age for {label!r}"]) for label in LABELS]
    assert sum(values) == pytest.approx(0.0, abs=1e-5 * max(map(abs, values)))
    assert "constant for 'train'" in rows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: model["labels"].pop(), "only"),
        (lambda model: model["coef_grid"].pop(), "of 3 labels"),
        (lambda model: model["coef_grid"][1].pop(), "3 coefficients"),
        (lambda model: model.update(coef_grid=[1, 2, 3]), "3 coefficients"),
        (lambda model: model.update(labels=["bus", "bus", "car"]), "different labels"),
        (lambda model: model.update(schema="dpmarket.model/2"), "more than two labels only"),
    ],
)
def test_a_model_file_with_other_parts_is_refused(tmp_path, change, words):
    model = trained(tmp_path).model.to_dict()
    change(model)
    (tmp_path / "model.json").write_text(json.dumps(model))
    with pytest.raises(FileProblem, match=words):
        read_model(tmp_path / "model.json")


def test_labels_that_the_market_does_not_know_are_refused_by_line(tmp_path):
    market, quotes = quoted(tmp_path)
    rows = [list(row.values()) for row in read_rows(tmp_path / "data.csv")]
    rows[4][3] = "tram"
    write_rows(tmp_path / "data.csv", HEADER, rows)
    with pytest.raises(FileProblem) as refusal:
        train_file(market, quotes, tmp_path / "data.csv", tmp_path / "model.json")
    assert any("none of the labels" in line and "6" in line for line in refusal.value.details)
    assert not any("tram" in line for line in refusal.value.details)


def test_withdrawals_raise_the_penalty_of_three_labels_just_enough(tmp_path):
    market, quotes = quoted(tmp_path, market=THREE + "\n[training]\nl2 = 0.05\n")
    promised = {row["seller"]: float(row["epsilon"]) for row in read_rows(quotes)}
    stay = [seller for seller in sorted(promised, key=promised.get) if promised[seller] > 0.0][:3]
    withdraw_sellers(market, quotes, [seller for seller in promised if seller not in stay])
    result = train_file(market, quotes, tmp_path / "data.csv", tmp_path / "model.json")
    own = np.array([promised[seller] for seller in stay])
    assert result.model.l2 == result.raised_l2 == raised_penalty(read_market(market), own) > 0.05
    # Without slack weights are in proportion to promises, and a little less of the penalty leaves slack.
    total, bound = own.sum() - 3e-6, result.model.row_bound
    expected = (total / bound - bound / (2.0 * result.raised_l2)) / 2.0
    assert result.model.noise_rate == pytest.approx(expected, rel=1e-2)


def test_several_rows_of_a_seller_cost_three_labels_more_than_one(tmp_path):
    several = THREE + "\n[sellers]\nrows_per_person = 3\n[training]\nl2 = 0.5\n"
    (tmp_path / "one").mkdir()
    (tmp_path / "three").mkdir()
    one = trained(tmp_path / "one", market=THREE + "\n[training]\nl2 = 0.5\n").model
    three = trained(tmp_path / "three", market=several).model
    assert (one.rows_per_person, three.rows_per_person) == (1, 3)
    assert three.noise_rate < one.noise_rate


def test_prices_know_the_number_of_labels():
    base = tomllib.loads(THREE)
    market = check_market(base)
    assert error_model_of(market) == softmax_error(3, 1.4142135623730954, 3)
    two = check_market(base | {"label": {"values": ["no", "yes"]}})
    assert error_model_of(market).noise == 8.0 * error_model_of(two).noise


def test_what_three_labels_do_not_allow_is_said_of_the_market_file():
    base = tomllib.loads(THREE)
    base["features"]["job"] = {"categories": ["baker", "smith"]}
    base["sellers"] = {"id_column": "probability_car"}
    with pytest.raises(FileProblem) as refusal:
        check_market(base)
    said = "\n".join(refusal.value.details)
    assert "features.job: expected a number with low and high only, with more than two labels." in said
    assert "sellers.id_column: expected none of epsilon" in said


def test_three_labels_are_certified_and_every_line_is_checked(tmp_path):
    trained(tmp_path)
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    result = verify(certificate, openings=certificate.openings(), receipt=certificate.receipt("007"))
    assert result.passed
    body = json.loads(certificate.body)["release"]
    assert (body["kind"], body["classes"]) == ("softmax model", LABELS)
    model = read_model(tmp_path / "model.json")
    assert body["coef_grid"] == model.coef_grid
    forged = bytes(certificate).replace(b'"noise_rate":', b'"noise_rate":9', 1)
    assert not verify(forged, openings=certificate.openings()).passed
