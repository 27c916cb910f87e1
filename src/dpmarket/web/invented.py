"""An invented market: rules, and people with costs, records and habits. For demonstrations only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Of 20 people: how they behave.
_HABITS = ("withdraws", "lapses", "declines", "lies", "lies", "retries", "retries")


@dataclass(frozen=True)
class Person:
    """Somebody invented.

    Attributes
    ----------
    name
        What the panel calls them.
    cost
        Money per unit of epsilon.
    habit
        ``sells``, ``withdraws`` (after sending the record), ``lapses`` (accepts, and sends none),
        ``declines``, ``lies`` (about the cost) or ``retries`` (sends everything twice).
    record
        What they would sell.
    """

    name: str
    cost: float
    habit: str
    record: dict[str, Any]

    def __repr__(self) -> str:
        return f"Person({self.name!r})"


def market_for(people: int) -> dict[str, Any]:
    """Return the rules of a market for so many people, as a market file has them."""
    return {
        "sellers": {"expected": people},
        "costs": {"distribution": "uniform(1, 5)"},
        "objective": {"payment_weight": 0.001, "max_epsilon": 1.0},
        "money": {"currency": "EUR"},
        "features": {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 1e5}},
        "label": {"column": "bought", "values": ["no", "yes"]},
    }


def invented_people(number: int) -> list[Person]:
    """Return people, always the same."""
    rng = np.random.default_rng(29)
    costs, ages = rng.uniform(1, 5, number), rng.uniform(18, 90, number)
    incomes = rng.uniform(0, 1e5, number)
    made = []
    for k in range(number):
        age, income = float(ages[k]), float(incomes[k])
        place = k % 20
        habit = _HABITS[place] if place < len(_HABITS) else "sells"
        record = {"age": age, "income": income, "bought": "yes" if age / 90 + income / 1e5 > 1.0 else "no"}
        made.append(Person(f"panel {k}", float(costs[k]), habit, record))
    return made
