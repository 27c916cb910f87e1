"""What is certified: refused if it cannot be true, and told in the certificate as it is."""

import json
import platform
from dataclasses import replace

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.certificates import Purchase, ReleasedModel, certify, certify_purchase, read_certificate, verify
from dpmarket.certificates.commitments import Lines, commit, fresh_salts
from dpmarket.errors import EntropyUnavailable, FileProblem, InvalidInput, NotCertifiable
from dpmarket.mechanisms.outcome import whole_units
from support.certificates import RULES, bought

DIST = dpm.Uniform(1.0, 5.0)
SELLERS = 12
PEOPLE = [f"p{k}" for k in range(SELLERS)]


@pytest.fixture(scope="module")
def outcome():
    costs = DIST.sample(SELLERS, np.random.default_rng(3))
    return bought(costs)


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
    )
    return made.fit(x, y, epsilons=promises, people=PEOPLE + PEOPLE)


@pytest.fixture(scope="module")
def certificate(outcome, model):
    return certify(outcome, model, RULES, seller_ids=PEOPLE)


def test_the_body_tells_the_market_the_model_and_its_constants_as_they_are(certificate, outcome, model):
    body, plan = json.loads(certificate.body), model.release_plan_
    assert body["mechanism"] == RULES["mechanism"]
    assert body["market"] == json.loads(json.dumps(RULES))
    weight_total = body["release"].pop("weight_total")
    assert weight_total == pytest.approx(model.loss_weights_.sum(), rel=1e-8)
    assert body["release"] == {
        "kind": "binary model",
        "delta": 0.0,
        "features": {"name": ["x0", "x1", "x2"], "low": [-1.0] * 3, "high": [1.0] * 3},
        "coef_grid": model.coef_grid_[0].tolist(),
        "grid": model.grid_,
        "stretch": 1.0,
        "l2": 0.3,
        "noise_rate": model.noise_rate_,
        "row_bound": model.release_.norm.row_bound,
        "rows_per_person": 2,
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
        "cost is secret",
        "a cost that goes with somebody's record",
        "secret from who knows all others",
        "prices were fixed before the reports",
        "records were true",
        "watching the computation",
        "further ones",
        "program ran",
    ):
        assert subject in words


def test_features_are_told_with_their_public_bounds(outcome, model):
    bounds = {"age": (18, 90), "income": (0.0, 1e5), "size": (0.5, 2.5)}
    told = json.loads(certify(outcome, model, RULES, seller_ids=PEOPLE, features=bounds).body)["release"][
        "features"
    ]
    assert told == {"name": list(bounds), "low": [18.0, 0.0, 0.5], "high": [90.0, 1e5, 2.5]}
    for wrong in ({"age": (18, 90)}, {**bounds, "age": (90, 18)}, {**bounds, "age": (18, float("inf"))}):
        with pytest.raises(InvalidInput, match=r"features|high"):
            certify(outcome, model, RULES, seller_ids=PEOPLE, features=wrong)


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
        "withdrew": np.zeros(SELLERS, dtype=bool),
        "quotes": np.ones(SELLERS, dtype=np.int64),
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
        ({"withdrew": np.zeros(SELLERS - 1, dtype=bool)}, "withdrew"),
        ({"withdrew": np.zeros(SELLERS)}, "withdrew"),
        ({"quotes": np.ones(SELLERS - 1, dtype=np.int64)}, "quotes"),
        ({"minor_units": 0}, "minor_units"),
    ],
)
def test_a_purchase_that_cannot_be_is_refused(certificate, changes, words):
    with pytest.raises(InvalidInput, match=words):
        purchase(certificate, **changes)


def test_withdrawals_and_minor_units_are_told(outcome):
    left = [k for k in range(SELLERS) if outcome.epsilons[k] > 0.0][:2]
    promises = np.where(np.isin(np.arange(SELLERS), left), 0.0, outcome.epsilons)
    x = np.random.default_rng(5).uniform(-0.5, 0.5, size=(SELLERS, 3))
    y = np.where(x[:, 0] > 0.0, "yes", "no")
    model = dpm.PrivateLogisticRegression(classes=("no", "yes")).fit(x, y, epsilons=promises)
    names = [PEOPLE[k] for k in left]
    made = certify(outcome, model, RULES, seller_ids=PEOPLE, minor_units=100, currency="EUR", withdrawn=names)
    body, whole = json.loads(made.body), whole_units(outcome.payments, 100)
    assert body["totals"]["withdrawn"] == 2
    assert body["money"] == {"currency": "EUR", "minor_units": 100}
    paid = whole.sum() - whole[left].sum()
    assert paid <= body["totals"]["total_payment"] <= 1.01 * paid
    line = json.loads(made.receipt(names[0]))["line"]
    assert line["withdrew"] is True
    assert (line["promise"], line["payment"]) == (outcome.epsilons[left[0]], whole[left[0]])
    assert verify(made, openings=made.openings()).passed
    with pytest.raises(InvalidInput, match="withdrawn"):
        certify(outcome, model, RULES, seller_ids=PEOPLE, withdrawn=["nobody"])


def test_who_withdrew_and_was_trained_on_gets_no_certificate(outcome, model):
    seller = PEOPLE[int(np.argmax(outcome.epsilons))]
    with pytest.raises(NotCertifiable, match="withdrew"):
        certify(outcome, model, RULES, seller_ids=PEOPLE, withdrawn=[seller])


def test_constants_that_no_verifier_accepts_get_no_certificate(certificate, model):
    released = ReleasedModel.of(model)
    for name, value in (("l2", 1e10), ("stretch", 1e10), ("intercept_scaling", 1e7)):
        with pytest.raises(NotCertifiable, match=name):
            certify_purchase(purchase(certificate), replace(released, **{name: value}))
    with pytest.raises(NotCertifiable, match="payments up to"):
        certify_purchase(purchase(certificate, payments=np.full(SELLERS, 1e16)), released)


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
    states = np.zeros(2, dtype=bool), np.ones(2, dtype=np.int64)
    with pytest.raises(InvalidInput, match="expected"):
        Lines(np.array(ids), np.zeros(shape), bytes(salt_bytes), *states)


@pytest.mark.parametrize("withdrew", [np.zeros(3, dtype=bool), np.zeros(2), np.zeros((2, 1), dtype=bool)])
def test_lines_that_do_not_say_of_everybody_whether_they_withdrew_are_refused(withdrew):
    with pytest.raises(InvalidInput, match="true or false"):
        Lines(np.array(["a", "b"]), np.zeros((2, 4)), bytes(64), withdrew, np.ones(2, dtype=np.int64))


@pytest.mark.parametrize("quotes", [np.zeros(2, dtype=np.int64), np.ones(3, dtype=np.int64)])
def test_lines_that_do_not_say_of_everybody_how_many_quotes_they_add_up_are_refused(quotes):
    with pytest.raises(InvalidInput, match="quote"):
        Lines(np.array(["a", "b"]), np.zeros((2, 4)), bytes(64), np.zeros(2, dtype=bool), quotes)


def test_an_id_that_no_file_can_hold_is_refused():
    states = np.zeros(2, dtype=bool), np.ones(2, dtype=np.int64)
    lines = Lines(np.array(["a", "\ud800"]), np.zeros((2, 4)), bytes(64), *states)
    with pytest.raises(InvalidInput, match="UTF-8"):
        commit(lines)


def test_lines_and_ids_cannot_be_changed_after_they_were_committed_to(certificate):
    for array in (
        certificate.lines.values,
        certificate.lines.ids,
        certificate.lines.withdrew,
        certificate.lines.quotes,
        certificate.tree.positions,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_without_the_operating_systems_random_bits_there_is_no_certificate(outcome, model, monkeypatch):
    def fail(size):
        raise NotImplementedError

    monkeypatch.setattr("dpmarket.certificates.commitments.os.urandom", fail)
    with pytest.raises(EntropyUnavailable):
        certify(outcome, model, RULES, seller_ids=PEOPLE)


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
            return next(found) if self.data.startswith(b"dpmarket-line-2") else real(self.data).digest()

    monkeypatch.setattr("dpmarket.certificates.commitments.sha256", Fixed)
    states = np.zeros(5, dtype=bool), np.ones(5, dtype=np.int64)
    tree = commit(Lines(np.arange(5), np.zeros((5, 4)), bytes(160), *states))
    assert [tree.leaves[k + 8] for k in range(0, 160, 32)] == [1, 2, 3, 4, 5]
    assert tree.positions.tolist() == [4, 0, 3, 1, 2]


# --- files that do not belong together ---


@pytest.mark.parametrize(
    "change", ["a commitment", "the named digest", "the kind of file", "a salt", "a line", "who left"]
)
def test_a_certificate_and_openings_that_differ_anywhere_make_no_receipts(certificate, tmp_path, change):
    data, opened = bytes(certificate), json.loads(certificate.openings())
    if change == "a commitment":
        place = data.index(b'[\n"') + 3
        data = data[:place] + (b"0" if data[place : place + 1] != b"0" else b"1") + data[place + 1 :]
    elif change == "the named digest":
        opened["certificate"] = "0" * 64
    elif change == "the kind of file":
        opened["schema"] = "dpmarket.openings/1"
    elif change == "a salt":
        opened["salt"][3] = "0" * 64
    elif change == "who left":
        opened["withdrew"][3] = True
    else:
        opened["payment"][3] += 1.0
    (tmp_path / "c.json").write_bytes(data)
    (tmp_path / "o.json").write_text(json.dumps(opened))
    with pytest.raises(FileProblem):
        read_certificate(tmp_path / "c.json", tmp_path / "o.json")
