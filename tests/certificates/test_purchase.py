"""What is certified: refused if it cannot be true, and told in the certificate as it is."""

import json
import platform

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.certificates import Purchase, ReleasedModel, certify, certify_purchase, read_certificate, verify
from dpmarket.certificates.commitments import Lines, commit, fresh_salts
from dpmarket.errors import EntropyUnavailable, FileProblem, InvalidInput, NotCertifiable

DIST = dpm.Uniform(1.0, 5.0)
SELLERS = 12
PEOPLE = [f"p{k}" for k in range(SELLERS)]


@pytest.fixture(scope="module")
def outcome():
    costs = DIST.sample(SELLERS, np.random.default_rng(3))
    return dpm.OfflineMechanism(DIST, dpm.BuyerObjective(1.0, 1.0, 2e-2)).run(costs, seller_ids=PEOPLE)


@pytest.fixture(scope="module")
def model(outcome):
    """A model in which no public constant has its usual value."""
    x = np.random.default_rng(5).uniform(-0.5, 0.5, size=(2 * SELLERS, 3))
    y = np.where(x[:, 0] > 0.0, "yes", "no")
    promises = dict(zip(PEOPLE, outcome.epsilons.tolist(), strict=True))
    made = dpm.PrivateLogisticRegression(
        l2=0.3,
        intercept_scaling=0.25,
        classes=("no", "yes"),
        clip=True,
        numerical_epsilon=1e-5,
        rows_per_person=2,
        stretch=1.75,
    )
    return made.fit(x, y, epsilons=promises, people=PEOPLE + PEOPLE)


@pytest.fixture(scope="module")
def certificate(outcome, model):
    return certify(outcome, model)


def test_the_body_tells_the_market_the_model_and_its_constants_as_they_are(certificate, outcome, model):
    body, plan = json.loads(certificate.body), model.release_plan_
    assert body["mechanism"] == outcome.mechanism
    assert body["market"] == json.loads(json.dumps(outcome.parameters))
    assert body["model"] == {"coef_grid": model.coef_grid_.tolist(), "grid": model.grid_, "stretch": 1.75}
    weight_total = body["training"].pop("weight_total")
    assert weight_total == pytest.approx(model.loss_weights_.sum(), rel=1e-8)
    assert body["training"] == {
        "l2": 0.3,
        "noise_rate": model.noise_rate_,
        "row_bound": model.row_bound_,
        "rows_per_person": 2,
        "n_coefficients": 4,
        "fit_intercept": True,
        "intercept_scaling": 0.25,
        "clip": True,
        "classes": ["no", "yes"],
        "gradient_bound": plan.gradient_bound,
        "noise_accuracy": plan.noise_accuracy,
        "numerical_epsilon": plan.numerical_epsilon,
    }
    assert body["versions"]["dpmarket"] == dpm.__version__
    assert body["versions"]["python"] == platform.python_version()
    assert body["versions"].keys() == {"dpmarket", "numpy", "python", "scipy"}
    assert verify(certificate, openings=certificate.openings()).passed


def test_the_body_says_what_is_not_promised(certificate):
    words = " ".join(json.loads(certificate.body)["not_promised"])
    for subject in (
        "cost",
        "records were true",
        "watching the computation",
        "further releases",
        "program ran",
    ):
        assert subject in words


def test_everybody_gets_the_receipt_of_their_own_line(certificate, outcome):
    receipts = dict(certificate.receipts())
    assert list(receipts) == PEOPLE
    for k, name in enumerate(PEOPLE):
        line = json.loads(receipts[name])["line"]
        assert line["id"] == name
        assert (line["promise"], line["payment"]) == (outcome.epsilons[k], outcome.payments[k])
        assert receipts[name] == certificate.receipt(name)


# --- refused ---


def purchase(certificate, **changes):
    promises, payments, spent, weights = certificate.lines.values.T
    parts = {
        "mechanism": "offline",
        "parameters": {},
        "seller_ids": np.array(PEOPLE),
        "promises": promises,
        "payments": payments,
        "minor_units": None,
        "spent": spent,
        "weights": weights,
    }
    return Purchase(**parts | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seller_ids": np.array([*PEOPLE[:-1], "p0"])}, "seller_ids to be all different, found 1"),
        ({"seller_ids": np.array(PEOPLE[:-1])}, "same length"),
        ({"weights": np.ones(SELLERS - 1)}, "weights and seller_ids to have the same length"),
        ({"promises": np.full(SELLERS, np.nan)}, "promises"),
        ({"payments": np.full(SELLERS, -1.0)}, "payments"),
        ({"spent": np.full(SELLERS, -1.0)}, "spent"),
        ({"weights": np.full(SELLERS, np.inf)}, "weights"),
        ({"withdrawn": -1}, "withdrawn"),
        ({"withdrawn": 1.5}, "withdrawn"),
        ({"minor_units": 0}, "minor_units"),
    ],
)
def test_a_purchase_that_cannot_be_is_refused(certificate, changes, words):
    with pytest.raises(InvalidInput, match=words):
        purchase(certificate, **changes)


def test_withdrawals_and_minor_units_are_told(certificate, model):
    whole = np.ceil(100 * certificate.lines.values[:, 1])
    made = certify_purchase(
        purchase(certificate, payments=whole, minor_units=100, withdrawn=3), ReleasedModel.of(model)
    )
    body = json.loads(made.body)
    assert body["totals"]["withdrawn"] == 3
    assert body["money"] == {"minor_units": 100}
    assert body["totals"]["paid"] == whole.sum()
    assert verify(made, openings=made.openings()).passed


def test_what_releasing_costs_must_have_been_charged(certificate, model):
    spent = certificate.lines.values[:, 2]
    less = np.where(spent > 0.0, spent - 0.9 * model.release_plan_.numerical_epsilon, 0.0)
    with pytest.raises(NotCertifiable, match="follow from"):
        certify_purchase(purchase(certificate, spent=less), ReleasedModel.of(model))


@pytest.mark.parametrize(
    ("ids", "shape", "salt_bytes"),
    [
        ([1.5, 2.5], (2, 4), 64),
        ([["a"], ["b"]], (2, 4), 64),
        (["a", "b"], (2, 3), 64),
        (["a", "b"], (3, 4), 64),
        (["a", "b"], (2, 4), 63),
    ],
)
def test_lines_without_ids_four_values_or_salts_are_refused(ids, shape, salt_bytes):
    with pytest.raises(InvalidInput, match="expected"):
        Lines(np.array(ids), np.zeros(shape), bytes(salt_bytes))


def test_an_id_that_no_file_can_hold_is_refused():
    lines = Lines(np.array(["a", "\ud800"]), np.zeros((2, 4)), bytes(64))
    with pytest.raises(InvalidInput, match="UTF-8"):
        commit(lines)


def test_lines_and_ids_cannot_be_changed_after_they_were_committed_to(certificate):
    for array in (certificate.lines.values, certificate.lines.ids, certificate.tree.positions):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_without_the_operating_systems_random_bits_there_is_no_certificate(outcome, model, monkeypatch):
    def fail(size):
        raise NotImplementedError

    monkeypatch.setattr("dpmarket.certificates.commitments.os.urandom", fail)
    with pytest.raises(EntropyUnavailable):
        certify(outcome, model)


def test_salts_are_as_many_as_asked_for_and_all_different():
    salts = fresh_salts(1000)
    assert len({salts[k : k + 32] for k in range(0, len(salts), 32)}) == 1000


def test_commitments_that_begin_alike_are_sorted_by_all_their_bytes(monkeypatch):
    """Hashes with the same first eight bytes come up as good as never; here they all do."""
    found = iter([bytes(8) + bytes([k]) * 24 for k in (5, 1, 4, 2, 3)])
    real = dpm.certificates.commitments.sha256

    class Fixed:
        def __init__(self, data):
            self.data = data

        def digest(self):
            return next(found) if self.data.startswith(b"dpmarket-line-1") else real(self.data).digest()

    monkeypatch.setattr("dpmarket.certificates.commitments.sha256", Fixed)
    tree = commit(Lines(np.arange(5), np.zeros((5, 4)), bytes(160)))
    assert [tree.leaves[k + 8] for k in range(0, 160, 32)] == [1, 2, 3, 4, 5]
    assert tree.positions.tolist() == [4, 0, 3, 1, 2]


# --- files that do not belong together ---


@pytest.mark.parametrize(
    "change", ["a commitment", "the named digest", "the kind of file", "a salt", "a line"]
)
def test_a_certificate_and_openings_that_differ_anywhere_make_no_receipts(certificate, tmp_path, change):
    data, opened = bytes(certificate), json.loads(certificate.openings())
    if change == "a commitment":
        place = data.index(b'[\n"') + 3
        data = data[:place] + (b"0" if data[place : place + 1] != b"0" else b"1") + data[place + 1 :]
    elif change == "the named digest":
        opened["certificate"] = "0" * 64
    elif change == "the kind of file":
        opened["schema"] = "dpmarket.openings/2"
    elif change == "a salt":
        opened["salt"][3] = "0" * 64
    else:
        opened["payment"][3] += 1.0
    (tmp_path / "c.json").write_bytes(data)
    (tmp_path / "o.json").write_text(json.dumps(opened))
    with pytest.raises(FileProblem):
        read_certificate(tmp_path / "c.json", tmp_path / "o.json")
