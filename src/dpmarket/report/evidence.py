"""Run the audits whose answers belong on a page: a few seconds each, whatever the size of the market."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.audit import Audit, Claim, audit_participation, audit_spending, audit_truthfulness
from dpmarket.campaign.rules.pricing import everybodys_costs
from dpmarket.campaign.rules.released import ModelFile
from dpmarket.certificates import Verification
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS
from dpmarket.report.rule import answers_of

GAIN = "Could anybody have gained by naming another cost?"
LOSS = "Was anybody paid less than the promise costs them?"
KEPT = "Does what was released keep the promises?"
SEALED = "Does the certificate hold together?"
_SELLERS, _MISREPORTS = 12, 20  # of a simulated market that is searched for misreports
_ACCOUNTS = 500  # promises whose spending is recomputed


def truthfulness_of(rules: Mapping[str, Any], people: int) -> tuple[str, Audit]:
    """Search a simulated market under a campaign's rules for a misreport that gains."""
    sellers = LEAST_SELLERS if "budget" in rules else min(_SELLERS, people)
    audit = audit_truthfulness(
        answers_of(rules, sellers / people),  # type: ignore[arg-type]
        everybodys_costs(rules),
        sellers,
        1,
        _MISREPORTS,
        np.random.default_rng(0),
    )
    return GAIN, audit


def participation_of(
    rules: Mapping[str, Any], costs: FloatArray, epsilons: FloatArray, amounts: IntArray, minor_units: int
) -> tuple[str, Audit]:
    """Check that sellers who were bought from are paid what epsilon costs them, by their reports."""
    bought = epsilons > 0.0
    losses = epsilons[bought] ** (2 if rules["epsilon_cost"]["shape"] == "quadratic" else 1)
    audit = audit_participation(
        losses, amounts[bought] / minor_units, costs[bought], minor_unit=1.0 / minor_units
    )
    return LOSS, audit


def accounting_of(
    model: ModelFile, loss_weights: FloatArray, promises: FloatArray, rng: np.random.Generator
) -> tuple[str, Audit]:
    """Recompute, by other code, what the model spent of the promises: of 500 at random if there are more."""
    used = np.flatnonzero(loss_weights > 0.0)
    if used.size > _ACCOUNTS:
        used = rng.choice(used, _ACCOUNTS, replace=False)
    left, hessian = promises[used], model.description.get("intervals")
    if hessian is not None:  # took a share of every epsilon, in whole units
        unit = float(hessian["unit"])
        left = left - np.floor(left * float(hessian["share"]) / unit) * unit
    return KEPT, audit_spending(Claim.of(model.description, loss_weights[used]), left)


class Verified:
    """The verification of a certificate in the shape of an audit."""

    def __init__(self, verification: Verification) -> None:
        self._verification = verification

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return self._verification.passed

    def summary(self) -> list[tuple[str, str]]:
        """Return one row per check that was made."""
        return [
            (check.name, check.verdict) for check in self._verification.checks if check.verdict != "skipped"
        ]

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data."""
        return self._verification.to_dict()
