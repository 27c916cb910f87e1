"""Accounts: exact sums, composition of epsilons and Gaussian distances, all or nothing."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import Account, PrivacyAccount
from dpmarket.privacy.gaussian import gaussian_epsilons


def gaussian_epsilon(mu, delta):
    return float(gaussian_epsilons(mu, delta))


ABOVE = 1 + 1e-9  # far more than what is rounded up


# --- epsilons, exactly ---


def test_a_limit_can_be_spent_to_the_last_bit():
    account = Account({"a": 1.0})
    assert isinstance(account, PrivacyAccount)
    for left in (0.5, 0.0):
        account.charge(["a"], [0.5])
        assert account.left(["a"]).tolist() == [left]
    with pytest.raises(Infeasible):
        account.charge(["a"], [5e-324])


@pytest.mark.parametrize(("tenth", "fit"), [(0.1, 9), (Fraction(1, 10), 10), (math.nextafter(0.1, 0), 10)])
def test_floats_are_charged_as_the_binary_fractions_they_are(tenth, fit):
    """The float 0.1 is above one tenth, so that ten of it exceed 1; a fraction is charged as it is."""
    account = Account(1.0)
    for _ in range(fit):
        account.charge(["a"], [tenth])
    assert account.spent(["a"])[0] == pytest.approx(0.1 * fit)
    with pytest.raises(Infeasible):
        account.charge(["a"], [tenth])


@given(st.floats(0.01, 5.0), st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30))
def test_a_charge_is_refused_if_and_only_if_the_exact_sum_exceeds_the_limit(limit, charges):
    account = Account({"a": limit})
    spent = Fraction(0)
    for charge in charges:
        try:
            account.charge(["a"], [charge])
        except Infeasible:
            assert spent + Fraction(charge) > Fraction(limit)
        else:
            spent += Fraction(charge)
            assert spent <= Fraction(limit)
    assert Fraction(account.left(["a"])[0]) <= Fraction(limit) - spent
    assert Fraction(account.spent(["a"])[0]) >= spent
    assert account.spent(["a"])[0] == pytest.approx(float(spent), rel=1e-15)


# --- Gaussian distances and deltas ---


def test_epsilons_and_distances_compose_by_the_sum_of_both_and_never_exceed_the_limit():
    account = Account({"a": 2.5, "b": 2.5}, delta=1e-5)
    account.charge(["a", "b"], [0.5, 0.0], mus=[0.3, 0.3])
    gaussian = gaussian_epsilon(0.3, 1e-5)
    assert account.spent(["a", "b"]) == pytest.approx([0.5 + gaussian, gaussian])
    assert account.left(["a", "b"]) == pytest.approx([2.0 - gaussian, 2.5 - gaussian])
    # What is left for an epsilon is exactly what can be charged.
    left = float(account.left(["a"])[0])
    with pytest.raises(Infeasible, match="found 1 of 2"):
        account.charge(["a", "b"], [left * ABOVE, 0.1])
    account.charge(["a"], [left / ABOVE])
    assert account.left(["b"])[0] == pytest.approx(2.5 - gaussian)
    # The largest distance that fits has the delta of what is left.
    low, high = 0.3, 3.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_epsilon(middle, 1e-5) <= 2.5 else (low, middle)
    with pytest.raises(Infeasible):
        account.charge(["b"], mus=[math.sqrt(high**2 * ABOVE - 0.09)])
    account.charge(["b"], mus=[math.sqrt(low**2 / ABOVE - 0.09)])
    assert 2.5 / ABOVE**3 <= account.spent(["b"])[0] <= 2.5


def test_a_known_delta_is_taken_off_the_accounts_delta():
    account = Account({"ann": 1.0, "bob": 1.0}, delta=3e-6)
    account.charge(["ann", "bob"], [0.25, 0.0], delta=1e-6)
    account.charge(["ann", "bob"], [0.25, 0.5], delta=1.5e-6)
    with pytest.raises(Infeasible, match="found 1 of 2 people"):
        account.charge(["ann", "bob"], [0.1, 0.1], delta=1e-6)
    assert account.left(["ann", "bob"]).tolist() == [0.5, 0.5]
    account.charge(["ann", "bob"], mus=[0.02, 0.02])
    rest = [gaussian_epsilon(0.02, 0.5e-6), gaussian_epsilon(0.02, 1.5e-6)]
    assert account.left(["ann", "bob"]) == pytest.approx([0.5 - rest[0], 0.5 - rest[1]])


def test_an_account_without_a_delta_charges_epsilons_only():
    account = Account(5.0)
    for charge in ({"mus": [1e-9]}, {"epsilons": [1.0], "delta": 1e-9}):
        with pytest.raises(Infeasible, match="delta"):
            account.charge(["ann"], **charge)
    account.charge(["ann"], [1.0], mus=[0.0])
    assert account.left(["ann"]).tolist() == [4.0]


# --- all or nothing, and what is refused ---


def test_a_refused_charge_changes_nothing_and_names_nobody():
    account = Account({"ann": 1.0, "bob": 0.1})
    with pytest.raises(Infeasible, match=r"found 1 of 2 people who would\. Nobody was charged") as refusal:
        account.charge(["ann", "bob"], [0.5, 0.5])
    assert account.left(["ann", "bob"]).tolist() == [1.0, 0.1]
    assert not any(word in str(refusal.value) for word in ("ann", "bob", "0."))
    assert repr(account) == "Account(people: 2)"


def test_one_limit_for_anybody_and_limits_by_number():
    account = Account(1.0)
    account.charge(["new", "spared"], [0.75, 0.0])
    with pytest.raises(Infeasible):
        account.charge(["unseen", "new"], [0.5, 0.5])
    assert account.left(["new", "unseen"]).tolist() == [0.25, 1.0]
    account = Account(np.array([1.0, 2.0]))
    account.charge(range(2), np.array([1.0, 1.0]))
    assert account.left(np.arange(2)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("people", "charge"),
    [
        (["a", "a"], {"epsilons": [0.1, 0.1]}),
        (["a", "c"], {"epsilons": [0.1, 0.1]}),
        (["a"], {"epsilons": [0.1, 0.2]}),
        (["a"], {"epsilons": [-0.1]}),
        (["a"], {"epsilons": [Fraction(-1, 10)]}),
        (["a"], {"mus": [np.nan]}),
        (["a"], {"mus": ["0.1"]}),
        (["a"], {"epsilons": [0.1], "delta": -1e-9}),
    ],
)
def test_charges_that_make_no_sense_are_refused(people, charge):
    account = Account({"a": 1.0, "b": 1.0}, delta=1e-5)
    with pytest.raises(InvalidInput):
        account.charge(people, **charge)
    assert account.left(["a", "b"]).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "settings",
    [*([limits] for limits in ({"a": -1.0}, [np.inf], "1", {"a": None})),
     *([1.0, delta] for delta in (-1e-9, 1e-101, 1.0, math.nan))],
)  # fmt: skip
def test_limits_and_deltas_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidInput):
        Account(*settings)


def test_charges_from_many_threads_are_all_or_nothing_and_never_exceed_a_limit():
    """Each charge is of two people; both have room for ten, and none is charged without the other."""

    class Slow(str):
        """A name that lets other threads in whenever somebody is looked up."""

        __slots__ = ()

        def __hash__(self):
            time.sleep(1e-4)
            return str.__hash__(self)

    account = Account({"a": 1.0, "b": 2.0})
    people = [Slow("a"), Slow("b")]

    def charge(_):
        try:
            account.charge(people, [Fraction(1, 10), Fraction(1, 10)])
        except Infeasible:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(charge, range(200))) == 10
    assert account.left(["a", "b"]).tolist() == [0.0, 1.0]


def test_a_person_without_a_name_is_refused_because_nan_is_somebody_new_every_time():
    with pytest.raises(InvalidInput, match="gap"):
        Account(1.0).charge([math.nan], [0.9])
