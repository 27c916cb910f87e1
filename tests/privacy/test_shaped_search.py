"""Somebody who looks for records that give away more than was charged under shaped noise finds none."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit

import dpmarket as dpm
from dpmarket.audit import audit_privacy_exact
from dpmarket.certificates import certify, verify
from dpmarket.errors import InvalidInput
from dpmarket.learning import Categories, Dates, Numbers, PublicEncoder, YesNo
from dpmarket.learning.geometry import Geometry
from dpmarket.privacy import NoiseShape, Weights, find_shaped_worst_case, privacy_loss, weights_for
from dpmarket.privacy.shaped_worst_case import _unit_vector

SETTINGS = [
    # own weight, noise rate, penalty, R1, R2, rows
    (0.05, 20.0, 1e-4, 1.0, 0.4, 1),
    (0.4, 2.0, 0.1, 1.0625, 0.41, 1),
    (0.05, 20.0, 1e-2, 1.0, 1.0, 1),
    (0.3, 5.0, 1.0, 1.5, 0.7, 2),
    (0.01, 50.0, 1e-3, 1.5, 0.9, 5),
]


def exact_log_density(w, rows, weights, eta, l2, joint=0):
    """Return the log density of the output but for a constant; the first columns have joint noise.

    ``rows`` may be several tables of one shape: then there is a density for each. The determinant of the
    Hessian is that of a matrix with as many rows as the table (Sylvester), but for a constant.
    """
    low = expit(-(rows @ w))
    pulls = weights * low
    needed = (pulls[..., None, :] @ rows)[..., 0, :] - l2 * w
    smaller = (pulls * (1.0 - low) / l2)[..., None] * (rows @ rows.mT) + np.eye(rows.shape[-2])
    length = np.sqrt((needed[..., :joint] ** 2).sum(axis=-1)) + np.abs(needed[..., joint:]).sum(axis=-1)
    return -0.5 * eta * length + np.linalg.slogdet(smaller)[1]


@pytest.mark.parametrize(("own", "eta", "l2", "first", "second", "rows"), SETTINGS)
def test_the_worst_case_reaches_the_charge_and_does_not_exceed_it(own, eta, l2, first, second, rows):
    worst = find_shaped_worst_case([own, 1.0 - own], 0, eta, l2, first, second, rows_per_person=rows)
    charge = privacy_loss([own], eta, l2, first, rows, second)[0]
    assert 0.999 * charge < worst.log_ratio <= charge
    # R1 in the place of R2 charges for what cannot happen, R2 in the place of R1 for less than happens.
    if second < first:
        assert worst.log_ratio < privacy_loss([own], eta, l2, first, rows, first)[0]
        assert worst.log_ratio > privacy_loss([own], eta, l2, second, rows, second)[0]


@pytest.mark.parametrize(("own", "eta", "l2", "first", "second", "rows"), SETTINGS)
def test_the_worst_case_is_attained_by_rows_of_both_bounds(own, eta, l2, first, second, rows):
    worst = find_shaped_worst_case([own, 1.0 - own], 0, eta, l2, first, second, rows_per_person=rows)
    every = np.concatenate([worst.own_rows, worst.replaced_rows, worst.other_rows])
    assert float(np.abs(every).sum(axis=1).max()) <= first * (1.0 + 1e-15)
    assert float(np.linalg.norm(every, axis=1).max()) <= second * (1.0 + 1e-15)
    weights = np.concatenate([worst.own_weights, worst.other_weights])
    ratio = [
        exact_log_density(worst.output, np.concatenate([rows, worst.other_rows]), weights, eta, l2)
        for rows in (worst.own_rows, worst.replaced_rows)
    ]
    assert ratio[0] - ratio[1] == pytest.approx(worst.log_ratio, abs=1e-5)


@pytest.mark.parametrize("kappa", [1.0, 1.2, 1.5, 2.0, 2.5, 3.9])
def test_unit_vectors_have_the_sum_that_is_asked_for(kappa):
    vector = _unit_vector(kappa)
    assert np.abs(vector).sum() == pytest.approx(kappa, rel=1e-14)
    assert np.linalg.norm(vector) == pytest.approx(1.0, rel=1e-14)
    assert vector.min() > 0.0


def test_the_worst_case_refuses_bounds_that_no_row_has():
    with pytest.raises(InvalidInput, match="at most row_bound"):
        find_shaped_worst_case([0.5, 0.5], 0, 1.0, 1.0, 1.0, 1.1)
    with pytest.raises(InvalidInput, match="two people"):
        find_shaped_worst_case([0.5], 0, 1.0, 1.0, 1.0, 0.5)


def test_the_exact_audit_passes_shaped_weights_and_finds_broken_ones():
    promises = np.array([0.3, 1.0, 2.0, 4.0])
    weights = weights_for(promises, l2=0.005, row_bound=1.0625, euclidean_bound=0.4)
    found = audit_privacy_exact(weights, promises)
    assert found.passed
    assert (found.found > 0.95 * found.promises).all()
    # Charged as if rows were shorter than they are: by either bound.
    for bounds in ((0.9, 0.4), (1.0625, 0.3)):
        cheaper = weights_for(promises, l2=0.005, row_bound=bounds[0], euclidean_bound=bounds[1])
        stated = Weights(cheaper.loss_weights, cheaper.noise_rate, 0.005, 1.0625, euclidean_bound=0.4)
        assert not audit_privacy_exact(stated, promises).passed
    with pytest.raises(InvalidInput, match="n_features = 2"):
        audit_privacy_exact(weights, promises, n_features=1)


# ---------------------------------------------------------------- from records to densities

TABLES = {
    "categories with other": (
        {f"c{k}": Categories(("a", "b"), other=True) for k in range(3)},
        [("a", "a", "a"), ("b", "b", "b"), ("odd", "odd", "odd"), ("a", "odd", "b")],
    ),
    "unknown categories with no active level": (
        {f"c{k}": Categories(("a", "b")) for k in range(3)},
        [("a", "a", "a"), ("b", "b", "b"), ("odd", "odd", "odd"), ("a", "odd", "odd")],
    ),
    "gaps as categories": (
        {"n": Numbers(0, 1, missing_category=True), "t": YesNo(missing_category=True)}
        | {f"c{k}": Categories(tuple("abcd"), missing_category=True) for k in range(3)},
        [(1.0, True, *"aaa"), (None, None, *[None] * 3), (-9.0, False, *"bbb"), (0.5, None, "c", None, "d")],
    ),
    "dates beside categories": (
        {"d": Dates("2000-01-01", "2010-01-01", missing_category=True)}
        | {f"c{k}": Categories(tuple("abc"), missing_category=True) for k in range(3)},
        [("2010-01-01", "a", "a", "a"), (None, None, None, None), ("1999-01-01", "b", "b", "b")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("columns", "records"), TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("rows_each", [1, 2])
def test_no_records_of_a_table_give_away_more_than_was_promised(columns, records, rows_each):
    """Climb over outputs for every pair of extreme records; the constants are those of a fitted model."""
    encoder = PublicEncoder(columns, sparse_output=False)
    frame = pd.DataFrame(records, columns=list(columns), dtype=object)
    x = encoder.fit_transform(frame)
    shape = encoder.noise_shape()
    assert shape is not None
    promises = np.array([1.0] * (len(records) - 1) + [2.0])
    people = np.arange(len(records))
    model = dpm.PrivateLogisticRegression(classes=(0, 1), l2=0.02, rows_per_person=rows_each)
    model.fit(x, people % 2, epsilons=dict(enumerate(promises.tolist())), people=people)
    rows = np.column_stack([np.asarray(x), np.full(len(x), model.intercept_scaling_)])
    order = np.argsort(np.append(shape.mask, True), kind="stable")
    rows = rows[:, order]
    # What is charged for: no row is longer than either bound.
    joint = shape.joint_columns
    lengths = np.linalg.norm(rows[:, :joint], axis=1) + np.abs(rows[:, joint:]).sum(axis=1)
    assert float(lengths.max()) <= model.row_bound_
    assert float(np.linalg.norm(rows, axis=1).max()) <= model.euclidean_bound_
    rng = np.random.default_rng(len(records))
    best = 0.0
    signed = np.concatenate([rows, -rows])
    own = model.loss_weights_[0]
    rest = float(model.loss_weights_[1:].sum())
    assert model.epsilons_[0] <= promises[0]
    weights = np.array([own / rows_each] * rows_each + [rest])

    def losses(mine, theirs, others):
        both = np.stack([np.vstack([theirs, others]), np.vstack([mine, others])])
        constants = (weights, model.noise_rate_, model.l2_, joint)
        return lambda w: np.subtract(*exact_log_density(w, both, *constants))

    for _ in range(60):
        mine, theirs = (signed[rng.integers(0, len(signed), rows_each)] for _ in range(2))
        others = signed[rng.integers(0, len(signed), 1)]
        away = mine.sum(axis=0) - theirs.sum(axis=0)
        start = rng.standard_normal(away.size) * np.exp(rng.uniform(-1.0, 6.0)) - away * rng.uniform(0, 20)
        found = minimize(losses(mine, theirs, others), start, method="Powell", options={"maxfev": 800})
        best = max(best, -float(found.fun))
    assert best <= promises[0]
    assert best > 0.4 * promises[0]  # the search is no empty one


# ---------------------------------------------------------------- rows as they come

SHAPE = NoiseShape([True, True, True], 0.8)


def shaped_fit(x, labels=(0, 1), **settings):
    model = dpm.PrivateLogisticRegression(classes=(0, 1), epsilon=1.0, noise_shape=SHAPE, **settings)
    return model.fit(x, list(labels))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entries_of_one_place_are_added_before_a_row_is_measured(dtype):
    """A CSR matrix may name one place several times, and zeros."""
    twice = csr_array(
        (np.array([0.4, 0.4, 0.4, 0.5], dtype=dtype), np.array([0, 0, 1, 2]), np.array([0, 3, 4])),
        shape=(2, 3),
    )
    with pytest.raises(InvalidInput, match="found 1 longer"):
        shaped_fit(twice)
    cancelling = csr_array(
        (np.array([0.9, -0.9, 0.25, 0.0], dtype=dtype), np.array([0, 0, 1, 2]), np.array([0, 3, 4])),
        shape=(2, 3),
    )
    assert shaped_fit(cancelling).row_bound_ > 1.0


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.bool_, np.float32])
def test_rows_of_other_number_types_are_measured_in_the_norm_of_the_noise(dtype):
    with pytest.raises(InvalidInput, match="noise_shape, found 2 longer"):
        shaped_fit(np.array([[1, 1, 0], [0, 1, 1]], dtype=dtype))
    with pytest.raises(InvalidInput, match="noise_shape, found 1 longer"):
        shaped_fit(np.array([[1, 0, 0], [0, 0, 0]], dtype=dtype))  # longer than 0.8 in the Euclidean norm


def test_rows_longer_by_rounding_are_shortened_below_both_bounds_and_others_refused():
    unit = 2.0**-52
    fits = np.array([[0.5, 0.25, 0.25 + 3.0 * unit], [0.25, -0.5, 0.25]])
    model = shaped_fit(fits)
    assert model.euclidean_bound_ < model.row_bound_
    with pytest.raises(InvalidInput, match="found 1 longer"):
        shaped_fit(np.array([[0.5, 0.25, 0.25 + 6.0 * unit], [0.25, -0.5, 0.25]]))
    with pytest.raises(InvalidInput, match="found 1 longer"):
        shaped_fit(np.array([[0.8 + 16.0 * unit, 0.0, 0.0], [0.25, -0.5, 0.25]]))


@pytest.mark.parametrize("constant", [None, *(2.0**k for k in range(-20, 21))])
@pytest.mark.parametrize("bound", [1.0, 0.3])
def test_bounds_with_a_constant_are_rounded_up_and_in_order(constant, bound):
    geometry = Geometry(3, constant, NoiseShape([True] * 3, bound))
    c = Fraction(constant or 0.0)
    assert Fraction(geometry.row_bound) >= 1 + c
    assert Fraction(geometry.euclidean_bound) ** 2 >= Fraction(bound) ** 2 + c**2
    assert geometry.euclidean_bound <= geometry.row_bound


@pytest.mark.parametrize("settings", [{"intercept_scaling": 0.25}, {"fit_intercept": False}])
def test_a_shaped_model_with_and_without_a_constant_gets_a_certificate_that_verifies(settings):
    mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(3, 0.01))
    outcome = mechanism.run([1.5, 2.0, 2.5])
    model = dpm.PrivateLogisticRegression(
        classes=(0, 1), noise_shape=NoiseShape([True, True, True], 1.0), **settings
    ).fit(np.eye(3), [0, 1, 0], epsilons=outcome.epsilons)
    certificate = certify(outcome, model)
    assert verify(certificate, openings=certificate.openings()).passed


def test_a_column_that_is_called_as_the_mark_is_no_mark():
    frame = pd.DataFrame({"noise_shape": [0.5, -0.5], "other": [0.1, 0.2]})
    model = dpm.PrivateLogisticRegression(classes=(0, 1), epsilon=1.0).fit(frame, [0, 1])
    assert model.noise_shape_ is None
    assert model.predict(frame).shape == (2,)
