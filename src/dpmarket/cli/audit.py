"""``dpmarket audit``: search for profitable misreports, payments below cost, exceeded privacy budgets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpmarket import files
from dpmarket.cli.arguments import (
    RULES,
    CostsOption,
    MaxMeanEpsilonOption,
    PaymentWeightOption,
    RulesOption,
    Shape,
    Spoken,
    WeightCapOption,
    command,
    read_distribution,
)

if TYPE_CHECKING:
    from dpmarket.audit import Audit
    from dpmarket.cli.render import Voice


@command
def truthfulness(
    given: Spoken, *, costs: CostsOption, payment_weight: PaymentWeightOption, features: int,
    weight_cap: WeightCapOption = None, max_mean_epsilon: MaxMeanEpsilonOption = None,
    max_epsilon: float | None = None, shape: Shape = "linear",
    mechanism: Literal["offline", "online"] = "offline", sellers: int = 30, markets: int = 2,
    misreports: int = 40, seed: int = 0,
) -> None:  # fmt: skip
    """Search simulated markets for a misreport that gains; exit code 1 if one is found.

    :param features: Columns of a record, without its label.
    :param max_epsilon: Nobody sells a larger epsilon.
    :param shape: Cost of epsilon to a seller: linear (the paper) or quadratic.
    :param mechanism: All sellers at once (offline), or one by one at public prices (online).
    :param sellers: Sellers in each simulated market.
    :param markets: How many markets to simulate.
    :param misreports: How many misreports each seller tries.
    :param seed: Seed of the simulated costs.
    """
    import numpy as np

    from dpmarket.audit import audit_truthfulness
    from dpmarket.mechanisms.epsilon_cost import EpsilonCost
    from dpmarket.mechanisms.exact import OfflineMechanism
    from dpmarket.mechanisms.objective import Objective
    from dpmarket.mechanisms.price_schedule import population_schedule

    dist = read_distribution(costs)
    objective = Objective.for_model(
        features + 1, payment_weight, weight_cap=weight_cap, max_mean_epsilon=max_mean_epsilon
    )
    tables = EpsilonCost.identity(max_epsilon, shape)
    audited = (
        OfflineMechanism(dist, objective, epsilon_cost=tables)
        if mechanism == "offline"
        else population_schedule(dist, objective, sellers, epsilon_cost=tables)
    )
    voice = given.voice()
    with voice.progress() as progress:
        audit = audit_truthfulness(
            audited, dist, sellers, markets, misreports, np.random.default_rng(seed), epsilon_cost=tables,
            progress=lambda done, total: progress("Trying misreports", done / total),
        )  # fmt: skip
    _tell(voice, "Truthfulness: does a misreport gain?", audit)


@command
def privacy(
    given: Spoken, epsilons: list[float], *, l2: float | None = None,
    intercept: Annotated[bool, typer.Option("--intercept/--no-intercept")] = False, fits: int | None = None,
    false_alarm: float = 1e-3,
) -> None:  # fmt: skip
    """Search for privacy budgets that the estimator exceeds, in three ways; exit code 1 if one is found.

    Sampled models show a lower bound on a person's privacy loss, the exact density shows the worst case
    found, and everybody's spending is recomputed by other code.

    :param epsilons: The privacy budget of each person, at least three; or one, which is then audited among
        people whose budgets are so large that they hide nothing of it.
    :param l2: The model's ridge penalty; left out: what the estimator suggests.
    :param intercept: Whether the model has a constant.
    :param fits: Models trained for each audited person; left out: 16,000 to 128,000, most for small ones,
        which takes minutes.
    :param false_alarm: Probability, at most, of calling a respected budget exceeded.
    """
    from dpmarket.audit import audit_privacy
    from dpmarket.cli.render import number
    from dpmarket.learning import PrivateLogisticRegression

    learner = PrivateLogisticRegression(l2=l2, fit_intercept=intercept, classes=(0, 1))
    budgets = epsilons[0] if len(epsilons) == 1 else epsilons
    voice = given.voice()
    with voice.progress() as progress:
        audit = audit_privacy(
            learner, budgets, fits=fits, false_alarm=false_alarm,
            progress=lambda done, total: progress("Training models", done / total),
        )  # fmt: skip
    rows, names = audit.people(), ["sampled, at least", "exact density", "recomputed spending"]
    cells = [[str(row[0]), *("" if x is None else number(x) for x in row[1:])] for row in rows]
    voice.table("Audited people", ["person", "epsilon", *names], cells)
    _tell(voice, "Privacy: is a privacy budget exceeded?", audit)


@command
def participation(given: Spoken, quotes: Path, costs: Path, *, rules: RulesOption = RULES) -> None:
    """Check that every seller is paid at least the cost of what they sell; exit code 1 otherwise.

    The rules file names the columns, and says how epsilon costs a seller, costs.shape. No cost is shown.

    :param quotes: The quotes that 'dpmarket quote' wrote.
    :param costs: Table with seller ids and true costs.
    """
    from dpmarket.audit import audit_participation
    from dpmarket.campaign.file_reports import normal_ids
    from dpmarket.campaign.rules.pricing import terms_of
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.errors import FileProblem

    found = read_rules(rules)
    id_column, cost_column = found.sellers.id_column, found.sellers.cost_column
    table = files.read_table(costs, [id_column, cost_column], [id_column], [cost_column])
    names = normal_ids(table, id_column)[0].to_list()
    own = dict(zip(names, files.number_column(table, cost_column, costs), strict=True))
    figures = ["epsilon", "payment_minor_units"]
    quoted = files.read_table(quotes, [id_column, *figures], [id_column], figures)
    ids = normal_ids(quoted, id_column)[0].to_list()
    missing = sum(name not in own for name in ids)
    if missing or len(own) != table.height:
        raise FileProblem(
            f"expected one cost for every seller in {costs}, found {missing} sellers without one and "
            f"{table.height - len(own)} repeated."
        )
    unit = 1.0 / found.money.minor_units
    audit = audit_participation(
        files.number_column(quoted, "epsilon", quotes),
        files.number_column(quoted, "payment_minor_units", quotes) * unit,
        [own[name] for name in ids],
        epsilon_cost=terms_of(found).epsilon_cost,
        minor_unit=unit,
    )
    _tell(given.voice(), "Participation: was a seller paid less than the cost?", audit)


def _tell(voice: Voice, title: str, audit: Audit) -> None:
    """Say the verdict and its evidence; a failed audit is exit code 1."""
    voice.tell(title, audit.summary(), audit.to_dict())
    if not audit.passed:
        raise typer.Exit(1)
