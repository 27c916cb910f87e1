"""``dpmarket plan`` and ``menu``: what a budget buys, what a target costs, what sellers may choose from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpmarket.cli.arguments import (
    RULES,
    MaxMeanEpsilonOption,
    OptionalCosts,
    RulesOption,
    Shape,
    Spoken,
    WeightCapOption,
    command,
    read_distribution,
)

if TYPE_CHECKING:
    from dpmarket.cli.render import Voice
    from dpmarket.mechanisms.objective import Objective
    from dpmarket.mechanisms.plan import Plan


_BESIDE_RULES = ("rules", "budget", "sellers", "public", "campaigns", "plot", "as_json", "quiet")


@command
def plan(
    given: Spoken, context: typer.Context, *,
    costs: OptionalCosts = None, sellers: int | None = None, features: int | None = None, classes: int = 2,
    rules: Annotated[Path | None, typer.Option("--rules", "-m")] = None, budget: float | None = None,
    target: float | None = None, probability: float | None = None, shape: Shape = "linear",
    max_epsilon: float | None = None, delta: float | None = None, weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None, public: Path | None = None,
    campaigns: Annotated[int, typer.Option(min=2)] = 12, plot: Path | None = None,
) -> None:  # fmt: skip
    """Plan a purchase: payment weight, expected error, who is bought from, and what simpler rules would give.

    The expected error is the squared error of the mean gradient, in units of its largest possible length, or
    that of a statistic.

    :param sellers: How many sellers will report.
    :param features: Columns of a record, without its label: decides how much noise matters.
    :param classes: How many labels there are.
    :param rules: Plan what this rules file asks for; beside it --budget, --sellers and --public.
    :param budget: Money for all sellers together.
    :param target: Expected error to reach, instead of a budget; see the table.
    :param probability: With which payments stay within the budget; left out: they meet it on average.
    :param shape: Cost of epsilon to a seller: linear (the paper) or quadratic (zCDP).
    :param max_epsilon: Nobody sells more; needed for quadratic costs and a delta.
    :param delta: Of every guarantee, for training by noisy descent.
    :param public: A public or pilot table with the rules' columns (never private records): forecast what
        several budgets will buy.
    :param campaigns: With --public: how many campaigns to simulate for each budget.
    :param plot: With --public: draw the forecast into this .png, .svg or .pdf file.
    """
    from dpmarket.mechanisms.epsilon_cost import EpsilonCost
    from dpmarket.mechanisms.plan import budget_for_error
    from dpmarket.mechanisms.plan import plan as compute

    if (public is not None and rules is None) or (plot is not None and public is None):
        raise typer.BadParameter("--public needs --rules, and --plot needs --public.")
    if rules is not None:
        sources = {name: context.get_parameter_source(name) for name in context.params}
        ignored = [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]
        ignored = [f"--{name.replace('_', '-')}" for name in ignored if name not in _BESIDE_RULES]
        if ignored:
            raise typer.BadParameter(f"leave out {', '.join(ignored)}: the rules file decides it.")
        if public is not None:
            _forecast(given.voice(), rules, public, sellers, budget, campaigns, plot)
        else:
            _plan_rules(given.voice(), rules, sellers, budget)
        return
    if costs is None or sellers is None or features is None:
        raise typer.BadParameter("give -m rules.toml, or --costs, --sellers and --features.")
    if (budget is None) == (target is None):
        raise typer.BadParameter("say either --budget or --target.")
    if max_epsilon is None and (delta is not None or shape == "quadratic"):
        raise typer.BadParameter("say --max-epsilon: the table of a delta or of quadratic costs must end.")
    dist = read_distribution(costs)
    objective, fewer = (
        _objective(columns, classes, delta, weight_cap, max_mean_epsilon)
        for columns in (features, features // 2)
    )
    if delta is None:
        tables = EpsilonCost.identity(max_epsilon, shape)
    else:
        tables = EpsilonCost.of_delta(delta, max_epsilon or 0.0, shape)
    voice = given.voice()
    with voice.progress() as progress:
        progress("Planning", 0.0)
        if target is not None:
            budget = budget_for_error(dist, objective, sellers, target, epsilon_cost=tables)
        assert budget is not None
        found = compute(
            dist, objective, sellers, budget, probability=probability, epsilon_cost=tables,
            fewer_features=fewer,
        )  # fmt: skip
    settings = {
        "costs.distribution": costs,
        "costs.shape": None if shape == "linear" else shape,
        "sellers.expected": sellers,
        "objective.budget": round(budget, 2),
        "objective.weight_cap": weight_cap,
        "objective.max_mean_epsilon": max_mean_epsilon,
        "objective.max_epsilon": max_epsilon,
        "objective.delta": delta,
        "objective.confidence": probability,
    }
    init = _init_command(settings)
    _tell(voice, found, {"init": init}, f"Announce it before anybody reports:\n{init}")


def _plan_rules(voice: Voice, rules: Path, sellers: int | None, budget: float | None) -> None:
    """Plan what a rules file asks for; what is given comes before what it says."""
    from dpmarket.campaign.rules.pricing import noise_warning, plan_for
    from dpmarket.campaign.rules.rules_file import check_rules, read_rules

    planned = read_rules(rules)
    sellers = planned.sellers.expected if sellers is None else sellers
    budget = planned.objective.budget if budget is None else budget
    if sellers is None or budget is None:
        raise typer.BadParameter("say --sellers and --budget, or name a rules file that has both.")
    data = planned.to_data()
    data["sellers"]["expected"] = sellers
    data["objective"] = {**data["objective"], "budget": budget}
    data["objective"].pop("payment_weight", None)
    with voice.progress() as progress:
        progress("Planning", 0.0)
        found, warning = plan_for(planned, sellers, budget), noise_warning(check_rules(data))
    _tell(voice, found, {"warning": warning}, currency=planned.money.currency)
    if warning is not None:
        typer.echo(warning, err=True)


def _forecast(
    voice: Voice, path: Path, public: Path, sellers: int | None, budget: float | None, campaigns: int,
    plot: Path | None,
) -> None:  # fmt: skip
    """Forecast what several budgets will buy, and say it."""
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.files import to_json, write_bytes
    from dpmarket.mechanisms.forecasts import BUDGETS
    from dpmarket.report.forecast import forecast_rules

    rules = read_rules(path)
    budgets = None if budget is None else [budget * factor for factor in BUDGETS]
    numbers = None if sellers is None else [sellers]
    with voice.progress() as progress:
        found = forecast_rules(
            rules, public, budgets=budgets, sellers=numbers, campaigns=campaigns, progress=progress
        )
    if plot is not None:
        write_bytes(plot, found.image(plot.suffix), overwrite=True)
    if voice.as_json:
        typer.echo(to_json(found.to_dict()), nl=False)
    rules_asked = list(dict.fromkeys(one.rule for one in found.predictions))
    lines: dict[float, dict[str, str]] = {}
    for one in found.predictions:
        lines.setdefault(one.budget, {})[one.rule] = f"{one.score:.3f} ± {one.standard_error:.3f}"
    rows = [
        [f"{money:,.6g}", *(cells.get(rule, "") for rule in rules_asked)] for money, cells in lines.items()
    ]
    number, currency = found.predictions[0].sellers, rules.money.currency
    voice.table(
        f"Forecast of the {found.measure} with {number:,} sellers, on {public.name}",
        [f"budget ({currency})", *rules_asked],
        rows,
        found.sentence(number, currency),
    )


def _objective(
    features: int, classes: int, delta: float | None, cap: float | None, mean: float | None
) -> Objective:
    """Return the objective of a model with a constant."""
    from dpmarket.mechanisms.objective import Objective

    if delta is not None:
        parameters = (features + 1) * (classes if classes > 2 else 1)
        return Objective.for_descent(parameters, weight_cap=cap, max_mean_epsilon=mean)
    return Objective.for_model(features + 1, n_classes=classes, weight_cap=cap, max_mean_epsilon=mean)


def _init_command(settings: Mapping[str, object]) -> str:
    """Return the command that writes a rules file with what was planned, the costs included."""
    said = [
        f"--set {shlex.quote(f'{name}={value}')}" for name, value in settings.items() if value is not None
    ]
    return " ".join(["dpmarket init", *said])


def _tell(
    voice: Voice, plan: Plan, more: Mapping[str, str | None], note: str | None = None, currency: str = ""
) -> None:
    from dpmarket.cli.render import number

    found = plan.prospect
    expected, largest, budget = (
        f"{number(money)} {currency}".strip()
        for money in (found.expected_payment, found.largest_payment, plan.budget)
    )
    noise = f"{found.noise_error / found.error:.0%}"
    rows = [
        ("expected payments", expected),
        ("expected error", f"{number(found.error)}, of this noise {noise}"),
        ("sellers bought from", f"{found.share_bought:.1%}"),
        ("mean epsilon, over all", number(found.mean_epsilon)),
        ("largest epsilon and payment", f"{number(found.largest_epsilon)} for {largest}"),
        ("payment weight", number(plan.payment_weight)),
        *((f"with {name}", f"{factor - 1.0:+.0%} error") for name, factor in plan.changes),
    ]
    title = f"A plan for {budget} and {plan.sellers:,} sellers"
    voice.tell(title, rows, {**plan.to_dict(), **more})
    tell_simpler_rules(voice, plan, note)


def tell_simpler_rules(voice: Voice, plan: Plan, note: str | None = None) -> None:
    """Compare a plan with what the same money buys by simpler rules, for people only."""
    from dpmarket.cli.render import number

    found, best = plan.prospect, plan.prospect.error
    rows = [
        [one.name, f"{one.share_bought:.1%}", number(one.largest_epsilon), f"{one.error / best - 1:+.0%}"]
        for one in (found, *plan.alternatives)
    ]
    columns = ["rule", "bought from", "largest epsilon", "error"]
    voice.table("What personal prices buy: the same money by simpler rules", columns, rows, note)


@command
def menu(given: Spoken, *, rules: RulesOption = RULES, group: str | None = None, points: int = 10) -> None:
    """Show the choices of epsilon and payment for sellers who arrive one by one.

    Picking one's best choice is reporting one's true cost.

    :param group: Whose menu, where the rules have groups.
    :param points: How many choices to show, besides selling nothing.
    """
    from dpmarket.campaign.rules.pricing import online_schedules
    from dpmarket.campaign.rules.rules_file import read_rules
    from dpmarket.cli.render import number

    found = read_rules(rules)
    schedules, currency = online_schedules(found)[0], found.money.currency
    if group is None and found.groups:
        raise typer.BadParameter(f"name --group: one of {', '.join(found.groups)}.")
    if group is not None and group not in found.groups:
        raise typer.BadParameter(f"the rules have no group {group!r}.")
    schedule = schedules[list(found.groups).index(group) if group is not None else 0]
    offers = [column.tolist() for column in schedule.menu(points)]
    notes = [f"Above a cost of {schedule.reserve_price:.4g} nothing is bought."]
    if found.delta:
        notes.append(f"Each epsilon comes with a delta of {found.delta:g}.")
    choices = list(zip(*offers, strict=True))
    rows = [[number(value) for value in row] for row in choices]
    menu = [{"cost": cost, "epsilon": epsilon, "payment": payment} for cost, epsilon, payment in choices]
    given.voice().tell(
        "What sellers may choose from",
        rows,
        {"schedule": schedule.to_dict(), "menu": menu},
        "\n".join(notes),
        ["best for cost", "epsilon", f"payment ({currency})" if currency else "payment"],
    )
