"""Torch models: everybody's budget, gradients that nobody else moves, and what scikit-learn asks."""

import pickle

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, norm
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from torch.nn import Conv1d, Flatten, LayerNorm, Linear, ReLU, Sequential, Tanh

import dpmarket as dpm
from dpmarket.audit import Claim, audit_spending
from dpmarket.errors import InvalidInput
from dpmarket.learning.torch_gradients import Network, PersonGradients
from dpmarket.privacy import SeededNoise
from dpmarket.privacy.descent import CELLS, Descent
from dpmarket.privacy.gaussian import gaussian_mus

CROSS_ENTROPY = torch.nn.functional.cross_entropy


def network(features=3, classes=2, seed=0):
    torch.manual_seed(seed)
    return Sequential(Linear(features, 8), LayerNorm(8), Tanh(), Linear(8, classes))


def records(count=400, seed=0):
    """Return records of two classes that no line divides."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (count, 3))
    return x, np.where(x[:, 0] * x[:, 1] > 0.0, "same", "other"), rng.choice([0.0, 1.0, 2.0, 3.0], count)


def classifier(**settings):
    common = {"classes": ("other", "same"), "delta": 1e-4, "steps": 6, "noise_source": SeededNoise(1)}
    return dpm.PrivateTorchClassifier(**{"module": network(), **common, **settings})


# --- privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_the_exact_law_of_one_small_release_keeps_the_charged_epsilon(epsilon):
    """Two records with opposite gradients; the law of whole sums with rounded normals, summed one by one."""
    module = Linear(1, 1, bias=False)
    x, y = torch.tensor([[1.0], [1.0]]), torch.tensor([0.0, 0.0])
    delta = 1e-3
    descent, whole = Descent.for_epsilons([epsilon, 0.01], delta, 1, steps=1)

    def total(sign):
        def loss(outputs, labels):
            return sign * 5.0 * outputs.sum()

        found = PersonGradients(Network(module), loss, x[:1], y[:1], np.zeros(1, dtype=int), whole, 0.5)
        return int(found(np.zeros(1))[0])

    moved = total(1.0) - total(-1.0)
    assert 0.9999 < moved / (2 * int(whole[0]) * CELLS) <= 1.0
    # A grid so coarse that all its values can be summed: the law of round(s Z) in units of the shift.
    unit = moved // 2000
    scale = descent.noise_scale / unit
    k = np.arange(-60_000, 60_001)
    p = norm.cdf((k + 0.5) / scale) - norm.cdf((k - 0.5) / scale)
    shifted = np.roll(p, 2000)
    charged = float(descent.epsilons(whole)[0])
    found = float(np.maximum(shifted - np.exp(charged) * p, 0.0)[2000:].sum())
    assert 0.99 * delta < found <= delta


@pytest.mark.parametrize("rows", [0, 7])
@pytest.mark.parametrize("loud", [False, True])
def test_replacing_a_person_moves_the_sum_by_the_persons_norm_and_nobody_else_by_a_bit(rows, loud):
    """Others weigh so much that one cell of theirs would exceed what the person may move."""
    rng = np.random.default_rng(rows)
    owners = rng.integers(0, 300, 500)
    owners[:2], whole = 17, np.full(300, 2**20)
    whole[[17, 40]] = 1, 0
    x, y = rng.normal(size=(500, 3)), rng.integers(0, 2, 500)
    net = Network(network())

    def total(x, y, owners):
        features, labels = net.inputs(x), torch.from_numpy(y)
        found = PersonGradients(net, CROSS_ENTROPY, features, labels, owners, whole, 1e-3)(net.weights)
        return [int(value) for value in found]

    others = owners != 17
    new = rng.normal(size=(rows, 3)) * (1e30 if loud else 1.0)
    replaced = (
        np.concatenate([new, x[others]]),
        np.concatenate([rng.integers(0, 2, rows), y[others]]),
        np.concatenate([np.full(rows, 17), owners[others]]),
    )
    moved = [a - b for a, b in zip(total(x, y, owners), total(*replaced), strict=True)]
    assert 0 < sum(cell**2 for cell in moved) <= (2 * CELLS) ** 2


def test_cells_are_the_clipped_mean_of_a_persons_gradients():
    rng = np.random.default_rng(0)
    x, y, owners = rng.normal(size=(40, 3)), rng.integers(0, 2, 40), np.repeat(np.arange(10), 4)
    net = Network(network())
    parameters = list(net.module.parameters())
    for clip in (0.05, 100.0):
        for person in range(10):
            own = owners == person
            loss = CROSS_ENTROPY(net.module(net.inputs(x[own])), torch.from_numpy(y[own]))
            mean = (
                torch.cat([part.ravel() for part in torch.autograd.grad(loss, parameters)]).double().numpy()
            )
            mean *= min(1.0, clip / np.linalg.norm(mean))
            labels, whole = torch.from_numpy(y), (np.arange(10) == person).astype(int)
            found = PersonGradients(net, CROSS_ENTROPY, net.inputs(x), labels, owners, whole, clip)
            assert found(net.weights) * clip / CELLS == pytest.approx(
                mean, abs=2e-6 * clip + 2 * clip / CELLS
            )


def test_people_without_a_budget_have_no_influence_at_all():
    x, y, epsilons = records()
    a = classifier().fit(x, y, epsilons=epsilons)
    assert (a.epsilons_ <= epsilons).all()
    assert a.epsilons_ == pytest.approx(epsilons, rel=1e-6)
    assert audit_spending(Claim.of(a.description_, a.loss_weights_), a.epsilons_).passed
    x[epsilons == 0.0], y[epsilons == 0.0] = np.nan, "neither"
    b = classifier().fit(x, y, epsilons=epsilons)
    assert a.description_ == b.description_
    assert (a.epsilons_[epsilons == 0.0] == 0.0).all()


def test_an_account_is_charged_before_noise_is_drawn_and_stops_who_has_too_little():
    x, y, _ = records(100)
    account = dpm.Account(np.full(100, 1.0), delta=1e-3)
    classifier(delta=1e-3).fit(x, y, epsilons=np.full(100, 0.9), account=account)
    model = classifier(delta=1e-3)
    with pytest.raises(dpm.Infeasible):
        model.fit(x, y, epsilons=np.full(100, 0.9), account=account)
    assert not hasattr(model, "module_")


@pytest.mark.slow
def test_a_sampled_audit_passes_the_model_and_catches_one_that_spends_half_as_much_again():
    """Nobody guesses a label more often than the trade-off of epsilon 2 allows; false-alarm rate 1e-6.

    Three people, of whom two cancel: the sign of one weight is the best guess of the third's label. Epsilon 3
    passes once in five million times.
    """
    rng, fits, delta = np.random.default_rng(0), 6_000, 1.0 / 30.0
    module = Linear(1, 2)
    torch.nn.init.zeros_(module.weight)
    torch.nn.init.zeros_(module.bias)
    allowed = norm.cdf(0.5 * gaussian_mus(np.array([2.0]), delta)[0])
    found = []
    for spent in (2.0, 3.0):
        model = dpm.PrivateTorchClassifier(module, classes=(0, 1), delta=delta, steps=1, weight_decay=0.0)
        right = 0
        for label in rng.integers(0, 2, fits):
            model.fit(np.ones((3, 1)), np.array([label, 0, 1]), epsilons=np.full(3, spent))
            weights = model.state_dict()["weight"].ravel() + model.state_dict()["bias"]
            right += int((weights[1] > weights[0]) == label)
        found.append(binomtest(right, fits, allowed, alternative="greater").pvalue)
    assert found[0] > 1e-6 > found[1], found


# --- scikit-learn --------------------------------------------------------------------------------


def test_it_learns_what_no_linear_model_can():
    x, y, _ = records(1_000)
    model = classifier(steps=60, noise_source=None).fit(x, y, epsilons=np.full(1_000, 20.0))
    test, labels, _ = records(1_000, seed=1)
    assert model.score(test, labels) > 0.75
    assert model.certifiable_
    linear = dpm.PrivateLogisticRegression(classes=("other", "same"), delta=1e-4, epsilon=20.0).fit(x, y)
    assert model.score(test, labels) > linear.score(test, labels) + 0.1


def test_it_is_cloned_pickled_put_into_pipelines_and_leaves_the_given_module_alone():
    x, y, epsilons = records()
    module, steps = network(), []
    before = [value.clone() for value in module.parameters()]
    model = classifier().set_params(module=module)
    again = clone(model).fit(x, y, epsilons=epsilons, progress=lambda *done: steps.append(done))
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    assert steps == [(k, 6) for k in range(1, 7)]
    restored = pickle.loads(pickle.dumps(again))
    pipeline = make_pipeline(dpm.PublicScaler([-1.0] * 3, [1.0] * 3, radius=3.0), clone(model))
    pipeline.fit(x, y, privatetorchclassifier__epsilons=epsilons)
    fresh = network(seed=5)
    fresh.load_state_dict(again.state_dict())
    with torch.no_grad():
        direct = torch.softmax(fresh(torch.tensor(x, dtype=torch.float32)), 1).numpy()
    for other in (restored, again):
        assert other.predict_proba(x) == pytest.approx(direct, abs=1e-6)
    assert set(pipeline.predict(x)) <= {"other", "same"}
    assert not hasattr(again.published(), "epsilons_")
    assert np.exp(again.predict_log_proba(x)) == pytest.approx(again.predict_proba(x))
    assert ((again.decision_function(x) > 0) == (again.predict(x) == "same")).all()


def test_series_keep_their_shape_and_frozen_weights_stay():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2, 9)), rng.integers(0, 3, 60)
    module = Sequential(Conv1d(2, 3, 3), ReLU(), Flatten(), Linear(21, 3))
    module[0].weight.requires_grad_(requires_grad=False)
    model = dpm.PrivateTorchClassifier(module, classes=range(3), delta=1e-3, steps=3, epsilon=1.0).fit(x, y)
    assert model.predict_proba(x).shape == (60, 3)
    assert torch.equal(model.module_[0].weight, module[0].weight)
    assert not torch.equal(model.module_[3].weight, module[3].weight)
    assert len(model.description_["coefficients"][0]) == 3 + 21 * 3 + 3


class Branching(torch.nn.Module):
    """A module that looks at its record."""

    def __init__(self):
        super().__init__()
        self.layer = Linear(3, 2)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else self.layer(-x)


class Remembering(torch.nn.Module):
    """A module that stores its records and moves with the number of its calls."""

    def __init__(self):
        super().__init__()
        self.layer, self.calls, self.seen = Linear(3, 2), 0, []

    def forward(self, x):
        self.calls += 1
        self.last = x
        self.seen.append(x)
        return self.layer(x) / self.calls


def test_nothing_that_a_module_remembers_moves_others_or_is_released():
    """A person with many records takes many batches, which a module could count."""
    x, y, _ = records()
    module, budgets = Remembering(), dict.fromkeys(range(400), 1.0)

    def fitted(more):
        people = np.concatenate([np.arange(400), np.zeros(more, dtype=int)])
        rows, labels = x[people], y[people]
        return classifier(module=module).fit(rows, labels, epsilons=budgets, people=people)

    once, often = fitted(0), fitted(6)
    assert once.description_ == often.description_
    often.predict(x)
    for used in (module, often.module_):
        assert used.calls == 0
        assert used.seen == []
        assert not hasattr(used, "last")


class Table(torch.nn.Module):
    """A module that raises an error for numbers that it has no row for."""

    def __init__(self):
        super().__init__()
        self.rows, self.layer = torch.nn.Embedding(4, 3), Linear(3, 2)

    def forward(self, x):
        return self.layer(torch.tanh(self.rows(x[:, 0].long())))


def test_a_record_for_which_a_module_fails_counts_as_nothing_and_stops_nobody():
    rng = np.random.default_rng(0)
    owners, whole = np.repeat(np.arange(300), 2), np.full(300, 2**20)
    x, y = rng.integers(0, 4, (600, 1)).astype(float), torch.from_numpy(rng.integers(0, 2, 600))
    torch.manual_seed(0)
    net = Network(Table())
    x[owners == 17] = 9.0  # both of a person's records

    def total(kept):
        features = net.inputs(x[kept])
        return PersonGradients(net, CROSS_ENTROPY, features, y[kept], owners[kept], whole, 0.5)(net.weights)

    everybody = np.ones(600, dtype=bool)
    assert np.array_equal(total(everybody), total(owners != 17))
    few = x[:60], y.numpy()[:60]
    model = dpm.PrivateTorchClassifier(Table(), classes=(0, 1), delta=1e-4, steps=2, epsilon=1.0)
    assert model.fit(*few).certifiable_


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"module": "no module"}, "torch.nn.Module"),
        ({"module": Sequential(Linear(3, 4), torch.nn.BatchNorm1d(4), Linear(4, 2))}, "GroupNorm"),
        ({"module": ReLU()}, "weights to train"),
        ({"module": torch.nn.LazyLinear(2)}, "waits for a first batch"),
        ({"module": Linear(3, 2, device="meta")}, "floats on the CPU"),
        ({"module": Linear(4, 2)}, r"rows of shape \(3,\)"),
        ({"module": Linear(3, 5)}, "2 outputs"),
        ({"module": Branching()}, "record by record"),
        ({"loss": lambda outputs, labels: outputs}, "record by record"),
        ({"delta": 0.5}, "delta"),
        ({"clip": 0.0}, "clip"),
        ({"momentum": 1.0}, "momentum"),
        ({"steps": 0}, "steps"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_noise_is_drawn(settings, match):
    x, y, epsilons = records(100)

    class NoNoise(SeededNoise):
        def bits(self):
            raise AssertionError

    model = classifier(noise_source=NoNoise(1)).set_params(**settings)
    with pytest.raises(InvalidInput, match=match):
        model.fit(x, y, epsilons=epsilons)


def test_a_refusal_during_training_quotes_no_record():
    x, y, epsilons = records(100)

    def loss(outputs, labels):
        if len(seen) > 2:
            raise ValueError("record 123456789")
        seen.append(1)
        return CROSS_ENTROPY(outputs, labels)

    seen = []
    with pytest.raises(InvalidInput) as caught:
        classifier(loss=loss).fit(x, y, epsilons=epsilons)
    assert "123456789" not in str(caught.value)


def test_a_torch_model_has_no_intervals():
    x, y, epsilons = records(100)
    with pytest.raises(InvalidInput, match="intervals"):
        classifier().fit(x, y, epsilons=epsilons, intervals=0.3)
