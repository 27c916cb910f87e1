"""Torch models in campaigns: announced weights set prices, announced code runs, and no other."""

import hashlib
import json
from copy import deepcopy

import numpy as np
import pytest

from dpmarket.campaign.release import network_of, released_by
from dpmarket.campaign.rules.columns import Records
from dpmarket.campaign.rules.pricing import terms_of
from dpmarket.campaign.rules.publication import announced_text
from dpmarket.campaign.rules.released import released_from
from dpmarket.campaign.rules.rules_file import check_rules
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.learning.torch_factory import made_by
from dpmarket.privacy import SeededNoise
from dpmarket.web.settings import Settings
from outside.goods import GOODS
from support import networks


def rules(**training):
    """Return rules that name the network, with changes; None leaves a key out."""
    data = GOODS["delta, torch"].rules()
    changed = {**data["training"], **training}
    return data | {"training": {key: value for key, value in changed.items() if value is not None}}


def test_the_number_of_weights_sets_prices_and_rules_announce_the_code():
    checked = check_rules(rules())
    objective = terms_of(checked).objective
    assert objective.noise_error / objective.sampling_error == pytest.approx(4 * 22)
    announced = json.loads(announced_text(checked, "2026-01-01T00:00:00Z", "0" * 64))
    stated = networks.table()
    loss = {"kind": "torch", "classes": 2, "model": stated["model"], "code": stated["code"]}
    assert announced["announced"]["release"]["loss"] == loss


def released(good):
    """Return the released document for 40 people, and their features."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(18, 90, 40), "income": rng.uniform(0, 1e5, 40)}
    target = "target" in good
    outcome = rng.uniform(0, 80, 40) if target else rng.integers(0, 2, 40)
    records = Records(np.arange(40), {**columns, "\0outcome": outcome}, {})
    found, spent, _ = released_by(check_rules(good), records, np.full(40, 1.0), SeededNoise(0))
    assert (spent <= 1.0).all()
    return found, columns


def test_a_released_network_predicts_after_it_was_written_and_read():
    found, columns = released(rules())
    again = released_from(json.loads(found.to_json()), "model.json")
    chances = again.probabilities(columns)
    assert chances.shape == (40, 2)
    assert chances == pytest.approx(found.probabilities(columns))
    settings = networks.small(2, 2)["module"]
    assert len(again.description["coefficients"][0]) == sum(part.numel() for part in settings.parameters())


def test_a_regression_predicts_within_its_bounds():
    data = rules(parameters=17)
    del data["label"]
    data["target"] = {"column": "spent", "low": 0, "high": 80}
    found, columns = released(data)
    predicted = found.numbers(columns)
    assert ((predicted >= 0.0) & (predicted <= 80.0)).all()
    assert np.ptp(predicted) > 0.0


@pytest.mark.parametrize("change", ["code", "model", "weights"])
def test_a_model_with_other_code_or_weights_is_refused(change):
    data = deepcopy(released(rules())[0].to_dict())
    loss, weights = data["description"]["loss"], data["description"]["coefficients"][0]
    if change == "weights":
        weights.pop()
    else:
        loss[change] = {"code": "0" * 64, "model": "torch:os:kill"}[change]
    with pytest.raises(FileProblem):
        released_from(data, "model.json").probabilities({"age": [30.0], "income": [5.0]})


@pytest.mark.parametrize(
    ("training", "match"),
    [
        ({"parameters": 23}, "training.parameters: expected 22"),
        ({"code": "0" * 64}, "SHA-256"),
        ({"model": "torch:support.networks:unmarked"}, "marked with @torch_factory"),
        ({"model": "torch:support.networks:absent"}, "found none"),
        ({"model": "torch:support.nothing:small"}, "cannot find the module"),
        ({"model": "torch:shutil:rmtree"}, "SHA-256"),
    ],
)
def test_only_announced_and_marked_code_runs(training, match):
    with pytest.raises(FileProblem, match=match):
        network_of(check_rules(rules(**training)))


def test_a_module_is_judged_before_it_or_a_package_around_it_is_imported(tmp_path, monkeypatch):
    silent, other = b"raise SystemExit\n", "0" * 64
    (tmp_path / "silent_package").mkdir()
    for name in ("silent_module", "silent_package/__init__", "silent_package/models"):
        (tmp_path / f"{name}.py").write_bytes(silent)
    (tmp_path / "long_module.py").write_bytes(b"#" * ((16 << 20) + 1))  # the digest would not cover all of it
    monkeypatch.syspath_prepend(tmp_path)
    for name, code, words in (
        ("silent_module", hashlib.sha256(silent).hexdigest(), "marked"),
        ("silent_package.models", other, "SHA-256"),
        ("silent_package.absent", other, "cannot find"),
        ("silent_package.models.absent", other, "cannot find"),
        ("long_module", other, "bytes"),
    ):
        with pytest.raises(FileProblem, match=words):
            made_by(f"torch:{name}:make", code, 2, 2)


def test_settings_that_no_estimator_has_are_refused_before_noise():
    with pytest.raises(InvalidInput, match="speed"):
        released(rules(model="torch:support.networks:wrong"))


def test_a_service_runs_only_models_that_its_operator_lists():
    settings = Settings(torch_factories=f"torch:other.models:one, {networks.NAME}")
    settings.refuse_unlisted(networks.NAME)
    settings.refuse_unlisted(None)
    for listed in ("", "torch:other.models:one", networks.NAME + "er"):
        with pytest.raises(MarketRefusal, match="operator"):
            Settings(torch_factories=listed).refuse_unlisted(networks.NAME)
