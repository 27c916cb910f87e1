"""An account of what people have left over many models."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy import Account, DeltaAccount, PrivacyAccount


def test_an_account_obeys_the_protocol():
    assert isinstance(Account(1.0), PrivacyAccount)
    assert isinstance(Account(1.0), DeltaAccount)


def test_deltas_add_up_exactly_beside_the_epsilons():
    account = Account({"ann": 1.0, "bob": 1.0}, delta_cap=3e-6)
    account.charge_with_delta(["ann", "bob"], [0.25, 0.0], 1e-6)
    account.charge_with_delta(["ann", "bob"], [0.25, 0.5], 1.5e-6)
    assert account.left_of_delta(["ann", "bob"]).tolist() == pytest.approx([0.5e-6, 1.5e-6], rel=1e-9)
    with pytest.raises(Infeasible, match=r"cap of delta, found 1 of 2 people"):
        account.charge_with_delta(["ann", "bob"], [0.1, 0.1], 1e-6)
    with pytest.raises(Infeasible, match=r"their cap, found 1 of 2 people"):
        account.charge_with_delta(["ann", "bob"], [0.6, 0.1], 1e-7)
    # Both refusals charged nobody anything, of epsilon or of delta.
    assert account.left(["ann", "bob"]).round(9).tolist() == [0.5, 0.5]
    assert account.left_of_delta(["ann", "bob"]).tolist() == pytest.approx([0.5e-6, 1.5e-6], rel=1e-9)
    account.charge_with_delta(["bob"], [0.1], 1.5e-6)
    assert float(account.left_of_delta(["bob"])[0]) <= float(
        Fraction(3e-6) - Fraction(1.5e-6) - Fraction(1.5e-6)
    )


def test_an_account_without_a_cap_of_delta_charges_no_promise_that_has_one():
    account = Account(5.0)
    with pytest.raises(Infeasible, match="cap of delta"):
        account.charge_with_delta(["ann"], [1.0], 1e-9)
    assert account.left(["ann"]).tolist() == [5.0]
    account.charge_with_delta(["ann"], [1.0], 0.0)
    assert float(account.left(["ann"])[0]) == pytest.approx(4.0)


@pytest.mark.parametrize("cap", [-1e-9, 1.0, float("nan")])
def test_a_cap_of_delta_is_a_probability(cap):
    with pytest.raises(InvalidInput):
        Account(1.0, delta_cap=cap)


@given(st.floats(0.01, 5.0), st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30))
def test_the_exact_sum_of_charges_never_exceeds_the_cap(cap, charges):
    account = Account({"a": cap})
    spent = Fraction(0)
    for charge in charges:
        try:
            account.charge(["a"], [charge])
        except Infeasible:
            assert spent + Fraction(charge) > Fraction(cap) * (1 - Fraction(1, 10**12))
        else:
            spent += Fraction(charge)
    assert spent <= Fraction(cap)
    assert Fraction(float(account.left(["a"])[0])) <= Fraction(cap) - spent


def test_a_cap_can_be_used_to_the_last_bit():
    account = Account({"a": 1.0})
    for _ in range(4):
        account.charge(["a"], [0.25 - 1e-12])
    assert 0.0 < float(account.left(["a"])[0]) < 1e-11


def test_a_refused_charge_changes_nothing_for_anybody():
    account = Account({"a": 1.0, "b": 0.1})
    with pytest.raises(Infeasible, match=r"found 1 of 2 people who would\. Nobody was charged"):
        account.charge(["a", "b"], [0.5, 0.5])
    assert account.left(["a", "b"]) == pytest.approx([1.0, 0.1])


def test_who_is_charged_nothing_may_be_at_the_cap():
    account = Account({"a": 0.0, "b": 1.0})
    account.charge(["a", "b"], [0.0, 0.5])
    assert account.left(["a"])[0] == 0.0


def test_one_cap_for_anybody():
    account = Account(1.0)
    account.charge(["new"], [0.75])
    assert account.left(["new", "unseen"]) == pytest.approx([0.25, 1.0])
    with pytest.raises(Infeasible):
        account.charge(["unseen", "new"], [0.5, 0.5])
    assert account.left(["unseen"])[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("people", "epsilons"),
    [(["a", "a"], [0.1, 0.1]), (["c"], [0.1]), (["a"], [0.1, 0.2]), (["a"], [-0.1]), (["a"], [np.nan])],
)
def test_charges_that_make_no_sense_are_refused(people, epsilons):
    account = Account({"a": 1.0, "b": 1.0})
    with pytest.raises(InvalidInput):
        account.charge(people, epsilons)
    assert account.left(["a", "b"]) == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("caps", [{"a": -1.0}, [np.inf], "1", {"a": None}])
def test_caps_that_make_no_sense_are_refused(caps):
    with pytest.raises(InvalidInput):
        Account(caps)


def test_charges_from_many_threads_never_exceed_the_cap():
    account = Account({"a": 1.0})

    def charge(_):
        try:
            account.charge(["a"], [0.1 - 1e-9])
        except Infeasible:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(charge, range(200))) == 10


def test_what_is_shown_names_nobody():
    assert repr(Account({"ann": 1.0})) == "Account(people: 1)"
