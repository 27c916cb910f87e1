"""``dpmarket plan``: from a budget, a target or both to a payment weight, before anybody reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmarket.cli.arguments import (
    DISTRIBUTION_HELP,
    ConcentrationOption,
    CostsOption,
    FeaturesOption,
    JsonFlag,
    MaxMeanEpsilonOption,
    NoiseOption,
    OwnConcentrationOption,
    OwnNoiseOption,
    SellersOption,
    WeightCapOption,
    read_distribution,
    whole_numbers,
)

if TYPE_CHECKING:
    from dpmarket.campaign import Market
    from dpmarket.planning import Plan

app = typer.Typer(help="What a budget buys: plan a purchase from the cost distribution, before reports.")

TargetOption = Annotated[
    float,
    typer.Option(
        help="Excess risk to reach: concentration times the norm of the weights, plus noise / noise rate."
    ),
]
BudgetOption = Annotated[float, typer.Option(help="Money to spend on all sellers together.")]


@app.command(
    epilog='Example: dpmarket plan budget --costs "uniform(1, 5)" --sellers 1000 --budget 50 --features 4'
)
def budget(
    sellers: Annotated[
        int | None, typer.Option(help="How many sellers there are; left out: as the market file expects.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Money to spend on all sellers together; left out: as the market file says."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            "--costs",
            help="How costs per unit of epsilon are distributed; left out, with --market: as it says there. "
            + DISTRIBUTION_HELP,
        ),
    ] = None,
    features: FeaturesOption = None,
    classes: Annotated[int, typer.Option(help="How many labels there are, with --features.")] = 2,
    market: Annotated[
        Path | None,
        typer.Option(
            "--market", "-m", help="Plan for the model or the statistics of this market file, not --features."
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Probability with which payments stay within the budget; left out: they meet it on average."
        ),
    ] = None,
    concentration: OwnConcentrationOption = None,
    noise: OwnNoiseOption = None,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Plan prices and payment weight for a budget: the least expected error, and the rule to announce."""
    from dpmarket.campaign import read_market
    from dpmarket.campaign.market_file import to_distribution
    from dpmarket.campaign.terms import terms_of
    from dpmarket.cli.render import progress_bar
    from dpmarket.planning import ErrorModel, plan_budget

    if market is not None and features is not None:
        raise typer.BadParameter("leave out --features: the market file says what is trained or asked.")
    planned = None if market is None else read_market(market)
    own = {
        "confidence": confidence,
        "concentration": concentration,
        "noise": noise,
        "weight_cap": weight_cap,
        "max_mean_epsilon": max_mean_epsilon,
    }
    if sellers is None:
        sellers = None if planned is None else planned.sellers.expected
    if budget is None and planned is not None:
        budget = _budget_of(planned, own)
    if sellers is None or budget is None:
        raise typer.BadParameter("say --sellers and --budget, or name a market file that has both.")
    if planned is not None and planned.objective.delta is not None:
        if costs is not None:
            raise typer.BadParameter("leave out --costs: the market has a delta, and its own distribution.")
        if any(value is not None for value in own.values()):
            raise typer.BadParameter("leave out prices, bounds and confidence: the market has a delta.")
        _show_with_delta(planned, sellers, budget, as_json)
        return
    model = None
    if planned is not None:
        terms = terms_of(planned).objective
        model = ErrorModel(terms.sampling_error, terms.noise_error, 0.2 * terms.sampling_error)  # type: ignore[union-attr]
    if costs is not None:
        dist = read_distribution(costs)
    elif planned is not None:
        dist = to_distribution(planned.costs.distribution)
    else:
        raise typer.BadParameter("say how costs are distributed, by --costs or by a market file.")
    with progress_bar("Simulating campaigns") as progress:
        found = plan_budget(
            dist,
            sellers,
            budget,
            features,
            concentration=own["concentration"],
            noise=own["noise"],
            weight_cap=own["weight_cap"],
            max_mean_epsilon=own["max_mean_epsilon"],
            confidence=own["confidence"],
            n_classes=classes,
            error_model=model,
            progress=progress,
        )
    sentences = found.sentences()
    if planned is not None and found.plan.expected_error is not None:
        sentences = [*_about_numbers(planned, found.plan.expected_error.total), *sentences]
    settings = found.settings()
    _show(found.plan, "A plan for this budget", as_json, found.to_dict(), sentences, settings, market)


def _budget_of(market: Market, options: dict[str, float | None]) -> float | None:
    """Return a market file's budget; what it says beside it holds for options that were left out."""
    wanted = market.objective
    if wanted.delta is None:
        for name, value in options.items():
            options[name] = getattr(wanted, name) if value is None else value
    return wanted.budget


@app.command(epilog='Example: dpmarket plan target --costs "uniform(1, 5)" --sellers 1000 --target 0.2')
def target(
    costs: CostsOption,
    sellers: SellersOption,
    target: TargetOption,
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the cheapest plan that reaches a target excess risk."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy
    from dpmarket.planning import plan_target

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with busy("Planning"):
        plan = plan_target(read_distribution(costs), objective, sellers, target)
    _show(plan, "The cheapest plan for this target", as_json)


@app.command(epilog='Example: dpmarket plan sellers --costs "uniform(1, 5)" --budget 10 --target 0.2')
def sellers(
    costs: CostsOption,
    budget: BudgetOption,
    target: TargetOption,
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Find how many sellers a budget needs for a target excess risk."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy
    from dpmarket.planning import plan_sellers

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with busy("Planning"):
        plan = plan_sellers(read_distribution(costs), objective, budget, target)
    _show(plan, "The fewest sellers for this budget and target", as_json)


@app.command(epilog='Example: dpmarket plan table --costs "uniform(1, 5)" --target 0.2')
def table(
    costs: CostsOption,
    target: TargetOption,
    sellers: Annotated[
        str, typer.Option(help="Numbers of sellers, with commas between them.")
    ] = "100,1000,10000,100000,1000000",
    concentration: ConcentrationOption = 1.0,
    noise: NoiseOption = 1.0,
    weight_cap: WeightCapOption = None,
    max_mean_epsilon: MaxMeanEpsilonOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the budget that a target excess risk takes, for several numbers of sellers."""
    from dpmarket.allocation import BuyerObjective
    from dpmarket.cli.render import busy, number, print_table
    from dpmarket.files import to_json
    from dpmarket.planning import budget_for_loss

    objective = BuyerObjective(concentration, noise, 1.0, weight_cap, max_mean_epsilon)
    with busy("Planning"):
        found = budget_for_loss(
            read_distribution(costs), objective, target, whole_numbers("sellers", sellers)
        )
    if as_json:
        typer.echo(to_json(found.to_dict()), nl=False)
        return
    rows = [
        [f"{count:,}", "out of reach", ""]
        if plan is None
        else [f"{count:,}", number(plan.expected_payment), f"{plan.share_bought:.2%}"]
        for count, plan in zip(found.sellers, found.plans, strict=True)
    ]
    print_table(
        f"What an excess risk of {number(target)} costs",
        ["sellers", "expected payments", "bought from"],
        rows,
        f"With ever more sellers it costs {number(found.limit)}.",
    )


def _show(
    plan: Plan,
    title: str,
    as_json: bool,
    data: dict[str, Any] | None = None,
    sentences: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    market: Path | None = None,
) -> None:
    """Print a plan and what else is to say, and what announces it: a call, or lines of a market file."""
    from dpmarket.cli.render import print_table
    from dpmarket.files import to_json

    if as_json:
        typer.echo(to_json(plan.to_dict() if data is None else data), nl=False)
        return
    if settings is None:
        settings = {f"objective.{name}": value for name, value in plan.objective.to_dict().items()}
    announced = f"dpmarket init {' '.join(_options(settings))}"
    if market is not None:
        announced = f"in {market}, {', '.join(_keys(settings))}"
    lines = [*sentences, f"Announce it before anybody reports: {announced}"]
    print_table(title, ["", ""], plan.summary(), "\n".join(lines))


def _show_with_delta(market: Market, sellers: int, budget: float, as_json: bool) -> None:
    """Print the plan of a market whose promises have a delta."""
    from dpmarket.campaign.terms import plan_for
    from dpmarket.cli.render import busy, print_table
    from dpmarket.files import to_json

    with busy("Planning"):
        plan = plan_for(market, sellers, budget)
    if as_json:
        typer.echo(to_json(plan.to_dict()), nl=False)
        return
    rows = [("expected payment", f"{plan.prospect.expected_payment:.6g}"),
            ("expected error", f"{plan.prospect.error:.4g}"),
            ("share bought", f"{plan.prospect.share_bought:.1%}")]  # fmt: skip
    print_table("A plan for this budget", ["", ""], rows, "Promises hold with the probability 1 - delta.")


def _about_numbers(market: Market, error: float) -> list[str]:
    """Say how far off a statistic is expected to be: in its own unit, which the squared error is not."""
    from dpmarket.campaign.market_file import questions_of

    asked = questions_of(market)
    if not asked:
        return []
    if len(asked) > 1:
        return [
            "The expected error is squared: of each statistic in units of what guessing the middle of its "
            "range costs, added up."
        ]
    (name,) = asked
    unit = "in levels" if name == "quantile" else "in its own unit"
    return [f"The expected error is squared: the {name} is off by about {error**0.5:.3g} {unit}."]


def _keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a market file that say this."""
    for path, value in settings.items():
        if value is not None:
            yield f'{path} = "{value}"' if isinstance(value, str) else f"{path} = {value:.12g}"


def _options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of ``init`` that write these values; what it would write anyway is left out."""
    for path, value in settings.items():
        if value is not None and (path, value) not in (
            ("objective.concentration", 1),
            ("objective.noise", 1),
        ):
            text = f"{value:.12g}" if isinstance(value, float) else str(value)
            yield f"--set '{path}={text}'" if " " in text else f"--set {path}={text}"
