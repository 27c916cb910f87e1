"""Files that the version before wrote are read, and say what they said."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpmarket as dpm
from dpmarket.campaign import certify_quotes, describe, read_model, train_file
from dpmarket.certificates import read_certificate
from dpmarket.mechanisms import read_market_state, read_outcome, write_outcome

BEFORE = Path(__file__).parent / "before"
ARRAYS = ("seller_ids", "epsilons", "payments", "payment_errors")


def written(name):
    """Return what stands in a file, read without this package's help."""
    if name.endswith(".json"):
        return json.loads((BEFORE / name).read_text(encoding="utf-8"))
    header = json.loads(pl.read_parquet_metadata(BEFORE / name)["dpmarket"])
    return header | pl.read_parquet(BEFORE / name).to_dict(as_series=False)


@pytest.fixture
def campaign(tmp_path):
    for name in ("market.toml", "market.ledger", "quotes.csv", "data.csv"):
        shutil.copy(BEFORE / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "offline.json",
        "offline.parquet",
        "online-outcome.json",
        "posted.json",
        "cheapest.parquet",
        "same.json",
    ],
)
def test_an_outcome_is_read_to_the_last_bit_and_written_anew(tmp_path, name):
    stored, outcome = written(name), read_outcome(BEFORE / name)
    assert stored["schema"] == "dpmarket.outcome/1"
    for array in ARRAYS:
        assert getattr(outcome, array).tolist() == stored[array]
    assert outcome.planned_weights.tolist() == stored["loss_weights"]
    assert outcome.planned_noise_rate == stored["total_epsilon"]
    assert (outcome.mechanism, outcome.parameters) == (stored["mechanism"], stored["parameters"])
    if name in ("posted.json", "cheapest.parquet", "same.json"):
        assert outcome.optimality is None  # nothing had been minimised: the zeros in the file say nothing
    else:
        assert outcome.optimality.to_dict() == {part: stored[part] for part in outcome.optimality.to_dict()}
    write_outcome(tmp_path / "again.json", outcome)
    again = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))
    assert again["schema"] == "dpmarket.outcome/2"
    assert read_outcome(tmp_path / "again.json").to_dict() == outcome.to_dict()


def test_a_model_is_read_and_its_total_epsilon_is_the_noise_rate():
    stored, model = written("model.json"), read_model(BEFORE / "model.json")
    assert stored["schema"] == "dpmarket.model/1"
    assert model.noise_rate == stored.pop("total_epsilon")
    stored["schema"], stored["noise_rate"] = "dpmarket.model/2", model.noise_rate
    assert model.to_dict() == stored
    assert ("noise rate", f"{model.noise_rate:.6g}") in describe(BEFORE / "model.json").rows


def test_a_ledger_hands_out_the_model_that_it_kept_and_certifies_it(campaign):
    result = train_file(
        campaign / "market.toml", campaign / "quotes.csv", campaign / "data.csv", campaign / "model.json"
    )
    assert not result.is_new
    assert result.model == read_model(BEFORE / "model.json") == read_model(campaign / "model.json")
    quotes = pl.read_csv(BEFORE / "quotes.csv", schema_overrides={"seller": pl.String})
    bought = quotes.filter(pl.col("seller") != "7").get_column("epsilon")
    assert (result.withdrawn, result.total_promise) == (1, pytest.approx(bought.sum()))
    certificate = certify_quotes(campaign / "market.toml", campaign / "quotes.csv")
    now, before = (
        json.loads(bytes(certificate))["body"]["release"],
        written("certificate.json")["body"]["training"],
    )
    assert now["noise_rate"] == before["total_epsilon"]
    assert all(now[name] == before[name] for name in before.keys() & now.keys())
    assert len(before.keys() & now.keys()) >= 10
    assert dpm.verify(bytes(certificate)).passed


def test_a_certificate_is_verified_and_keeps_its_layout():
    certificate = (BEFORE / "certificate.json").read_bytes()
    assert dpm.verify(certificate).passed
    assert written("certificate.json")["body"]["training"]["total_epsilon"] > 0.0
    opened = read_certificate(BEFORE / "certificate.json", BEFORE / "openings.json")
    assert bytes(opened) == certificate


@pytest.mark.parametrize("name", ["online.json"])
def test_a_market_goes_on_where_it_was(name):
    stored, market = written(name), read_market_state(BEFORE / name)
    assert market.to_dict() == stored
    assert market.quoted == 3
    if name == "online.json":
        assert market.close().epsilons.tolist() == written("online-outcome.json")["epsilons"]


def test_what_an_outcome_of_the_version_before_lacks_is_refused(tmp_path):
    for missing in ("total_epsilon", "loss_weights", "payments"):
        stored = written("offline.json")
        del stored[missing]
        (tmp_path / "part.json").write_text(json.dumps(stored), encoding="utf-8")
        with pytest.raises(dpm.InvalidInput, match="whole outcome"):
            read_outcome(tmp_path / "part.json")
    assert np.isfinite(read_outcome(BEFORE / "offline.json").total_promise)
