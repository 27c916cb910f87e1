"""Fig. 2 again with other settings: another cap, fewer features, other shares of sellers, other grids."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpmarket.paper.experiments.market import MarketConfig, Task, bought_rows, marked_rows, tasks_of
from dpmarket.paper.experiments.running import Experiment, Work, plain
from dpmarket.paper.experiments.table import ResultTable, table_from_rows
from dpmarket.paper.figures.market import draw_market_variants
from dpmarket.planning.rows import Row

_BASE = MarketConfig(
    payment_weights=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    concentrations=(10.0, 100.0, 1000.0),
    noises=(1.0, 10.0),
    penalties=(0.1, 1.0),
    mean_epsilons=(0.01, 0.1, 1.0, 10.0),
    seeds=(0, 1, 2),
)


@dataclass(frozen=True)
class Variant:
    """A name, and the settings that it stands for."""

    name: str
    market: MarketConfig


@dataclass(frozen=True)
class MarketVariantsConfig:
    """Settings: smaller grids of hyper-parameters than those of the figure itself."""

    variants: tuple[Variant, ...] = (
        Variant("as in the figure, smaller grids", _BASE),
        Variant("ten features (means only)", replace(_BASE, features="means")),
        Variant("k = 2", replace(_BASE, weight_cap=2.0)),
        Variant("k = 20", replace(_BASE, weight_cap=20.0)),
        Variant("30% of the records sold", replace(_BASE, seller_share=0.3)),
        Variant("one penalty Λ = 0.01", replace(_BASE, penalties=(0.01,))),
    )


FULL = MarketVariantsConfig()
_SMALL = MarketConfig(
    payment_weights=(1e-5, 1e-3, 1e-1),
    concentrations=(100.0,),
    noises=(10.0,),
    penalties=(1.0,),
    mean_epsilons=(0.01, 1.0),
    noise_draws=5,
    seeds=(0,),
)
QUICK = MarketVariantsConfig((Variant("ten features (means only)", replace(_SMALL, features="means")),))


@dataclass(frozen=True)
class _VariantTask:
    name: str
    task: Task


def compute(config: MarketVariantsConfig, work: Work) -> ResultTable:
    """Return the marked rows of every variant, as in the experiment of the figure."""
    tasks = [
        _VariantTask(variant.name, task)
        for variant in config.variants
        for task in tasks_of(variant.market)
        if task.reading == "euler"
    ]
    table = work.table("market-variants", _rows, tasks, config)
    rows: list[Row] = []
    for variant in config.variants:
        rows += marked_rows(table.where(variant=variant.name), variant.market)
    return table_from_rows("market-variants", rows, plain(config))


def _rows(task: _VariantTask) -> list[Row]:
    return [{"variant": task.name, **row} for row in bought_rows(task.task)]


MARKET_VARIANTS = Experiment(
    "market-variants", "Paper Fig. 2, other settings: overall error against the payment weight",
    FULL, QUICK, compute, draw_market_variants,
)  # fmt: skip
