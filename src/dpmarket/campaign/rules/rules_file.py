"""The rules file (TOML): a checked value, or a list of everything that is wrong with the file.

The models below are its one description, from which template, form and reference page come.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dpmarket.campaign.rules.contradictions import contradictions
from dpmarket.campaign.rules.keys import Categories, NamedTable, Table, key, sentence
from dpmarket.campaign.rules.questions import Question
from dpmarket.campaign.rules.screening import Panel, Screening
from dpmarket.errors import FileProblem
from dpmarket.files import read_json, read_toml
from dpmarket.learning.columns import Column, column_from

if TYPE_CHECKING:
    from dpmarket.costs import CostDistribution

_FACTORY = r"^torch:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"
MOST_LABELS = 256  # so that a label's number is one byte wherever records are kept


def _usable_distribution(value: Any) -> Any:
    to_distribution(value)
    return value


def _labels(values: list[Any]) -> list[Any]:
    texts = all(isinstance(value, str) and value and value == value.strip() for value in values)
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if not 2 <= len(values) <= MOST_LABELS or not (texts or whole) or len(set(values)) < len(values):
        raise ValueError("different texts or different whole numbers, at least two")
    return values


def _text_of_date(value: Any) -> Any:
    is_date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return value.isoformat() if is_date else value


Date = Annotated[str, BeforeValidator(_text_of_date)]  # a text such as 2020-12-31, or a date of TOML


class CampaignTable(Table):
    """The campaign: one purchase, with one release. Another purchase is another campaign."""

    name: str = key("campaign", example="spring-2026", min_length=1, max_length=200)
    """The campaign's name in its database; several campaigns can share one."""
    database: str | None = key(
        None, "a file, or an address such as postgresql://user@host/name", example="market.db", min_length=1
    )
    """Where people, privacy budgets and money are entered. Campaigns that share a database share each
    person's lifetime limits. Left out: a file beside the rules file, with the ending .db."""
    mechanism: Literal["offline", "online", "posted"] = key("offline")
    """Offline: everybody reports, then all are decided about at once. Online: each seller is quoted by a
    public price schedule, in any order and in several files. Posted: one epsilon at one price for all, the
    best for the budget."""


class Sellers(Table):
    """Who sells, and where the reports say so."""

    id_column: str = key("seller", "the name of a column", min_length=1)
    """Column with the sellers' ids, in every file."""
    cost_column: str = key("cost", "the name of a column", min_length=1)
    """Column with the reported costs, money per unit of epsilon, or of its square with quadratic costs.
    Confidential."""
    group_column: str = key("group", "the name of a column", min_length=1)
    """Column of the reports with each seller's group, where there are [groups]: verified by the operator."""
    rows_per_person: int = key(1, ge=1, le=10_000)
    """How many rows of data one seller may have: public, a fact about the study, never about the data. More
    are refused. A seller's epsilon covers all of them together."""
    expected: int | None = key(None, example=1000, ge=1, le=10**8)
    """How many sellers are expected: public, fixed before anybody reports. Needed with a budget and for
    online quotes."""
    minimum: int = key(20, ge=1, le=10**8)
    """How many people must report, or be offered something, so that the campaign takes place: few people
    cannot hide among each other. The number of reports decides, never what they say."""
    lifetime_epsilon: float | None = key(None, example=5.0, gt=0)
    """Upper limit of a person's epsilons over all campaigns of the database, from files, live, and models of
    the library. An open campaign counts with the largest epsilon that it could ask for, offline
    objective.max_epsilon; afterwards what was spent counts. Sellers with less left are not quoted. The lowest
    limit of any campaign holds for the whole database."""
    lifetime_delta: float | None = key(None, example=1e-5, gt=0, lt=1)
    """Upper limit of a person's deltas over all campaigns of the database; beside lifetime_epsilon. Sellers
    at either limit are not quoted. A campaign with lifetime_epsilon and without this one allows no delta at
    all."""
    excluded: str | None = key(
        None, "the name of a .csv or .parquet file beside the rules file", example="pilot.csv", min_length=1
    )
    """People who must not sell, by their ids: those of the pilot to which costs.distribution was fitted."""


class Costs(Table):
    """What privacy costs people: common knowledge, fixed before anybody reports."""

    distribution: Annotated[Any, AfterValidator(_usable_distribution)] = key(
        ...,
        "a cost distribution: a formula such as 'uniform(1, 5)', a .json file that 'dpmarket costs fit' "
        "wrote (beside the rules file), or its content as a table",
        example="uniform(1, 5)",
    )
    """The distribution of costs, money per unit of epsilon, or of its square with quadratic costs."""
    shape: Literal["linear", "quadratic"] = key("linear")
    """What a reported cost multiplies: epsilon (linear, as in the paper) or its square (quadratic, where the
    first bit of privacy hardly matters to people and a large loss matters much). Quadratic costs spread a
    purchase over more people, at smaller epsilons."""


class GroupTable(NamedTable):
    """A group of sellers: its share of the population, its costs, and how many may sell online.

    Membership is the operator's word, and no guarantee protects it: offers and published shares reveal it.
    """

    expected: ClassVar[str] = '{ share = 0.5, distribution = "uniform(1, 5)" }'
    share: float | None = key(
        None, "a number above 0 and below 1; shares of all groups add up to 1", gt=0, lt=1
    )
    """Its share of the population, which the group's records shall have of the result. Left out of all
    groups: in proportion to their quotas."""
    distribution: Annotated[Any, AfterValidator(_usable_distribution)] = key(
        None, "a cost distribution such as 'uniform(1, 5)'"
    )
    """What privacy costs its sellers. Left out: costs.distribution."""
    quota: int | None = key(None, ge=1, le=10**8)
    """Online and posted: how many of its sellers may sell; later ones learn at once that it is full."""


class Objective(Table):
    """What the buyer wants. Fixed before anybody reports: tuned to reports, it makes misreporting pay."""

    payment_weight: float | None = key(None, "a number from 1e-50 to 1e50", example=0.001, ge=1e-50, le=1e50)
    """Expected squared error that a unit of money must save (the paper's gamma): higher buys less. This or a
    budget."""
    budget: float | None = key(None, example=500.0, gt=0)
    """Total of all payments, in money, rounding included. Online and posted it is never exceeded. Offline
    payments meet it on average: from 50 reports on within a few percent, because each part of the sellers is
    priced by the other parts' reports; with fewer reports within more. This or a payment weight."""
    confidence: float | None = key(None, example=0.95, gt=0, lt=1)
    """With a budget: the probability with which payments stay within it, as far as the cost distribution is
    right; offline, the exact mechanism then decides at any size. Left out: they meet it."""
    delta: float | None = key(
        None, "a number from 1e-17 to 1 / (10 * sellers.expected)", example=1e-6, ge=1e-17, lt=1
    )
    """Guarantees are then (epsilon, delta): a person changes the chance of any result by at most the factor
    of the epsilon, plus delta. Training is a noisy descent, with less noise where there are many features
    ('dpmarket plan' says what it gains). The same for everybody; people report what an epsilon costs them at
    this delta. Left out: no delta."""
    concentration: float | None = key(None, example=1.0, gt=0)
    """The paper's mu, the price of uneven weights. With noise, in place of the expected squared error of what
    is released, the paper's bound is minimised."""
    noise: float | None = key(None, example=1.0, gt=0)
    """The paper's sigma, the price of noise; beside concentration."""
    weight_cap: float | None = key(None, example=3.0, ge=1)
    """No record weighs more than this many times the average (the paper's k)."""
    coverage: Literal["hard"] | Annotated[float, Field(ge=0)] | None = key(
        None, 'a number >= 0, or "hard"', example=0.02
    )
    """How binding the shares of [groups] are: a number D adds D times the squared gaps to the expected
    squared error; hard meets them exactly offline, on average online. Left out: hard."""
    max_mean_epsilon: float | None = key(None, example=1.0, gt=0)
    """Upper bound of the mean epsilon over all sellers (the paper's L); with a delta, of the mean of the
    Gaussian parameter mu."""
    max_epsilon: float = key(10.0, "a number from 1e-6 to 100", ge=1e-6, le=100.0)
    """Nobody is asked for more than this. With the paper's objective, whose weight cap is then 3 if left out,
    it is kept by bounding the mean epsilon."""


MinorUnits = Literal[1, 10, 100, 1000, 10_000]  # an amount has an end in decimals


class Money(Table):
    """How payments are rounded."""

    minor_units: MinorUnits = key(100)
    """Smallest currency units to one unit of money, such as 100 cents; payments round up to them."""
    currency: str = key(
        "", "a currency's three letters, such as EUR", example="EUR", pattern=r"^([A-Z]{3})?$"
    )
    """The currency, which stands beside every amount."""


class Bounds(NamedTable):
    """What is public about one feature: bounds of a number, categories, dates, or true and false."""

    expected: ClassVar[str] = "{ low = ..., high = ... } or { categories = [...] }"
    low: float | None = key(None)
    """Where a number lies at the least: public, never read from the data."""
    high: float | None = key(None, "a number above low")
    """Where a number lies at the most: public as well."""
    categories: Categories | None = key(
        None, "texts (no blanks around them) or whole numbers, in brackets", min_length=1
    )
    """The categories that may occur, in place of bounds; each becomes a column of 0 and 1."""
    other: bool | None = key(None)
    """Whether all other values are one more category."""
    first: Date | None = key(None, "a date such as 2020-12-31")
    """The earliest date, in place of low."""
    last: Date | None = key(None, "a date after first")
    """The latest date, in place of high."""
    boolean: Literal[True] | None = key(None)
    """That the feature is true or false."""
    missing: int | float | Date | bool | None = key(None, "a value of the feature")
    """What stands for an empty cell. Left out: such cells are refused."""
    missing_category: bool | None = key(None)
    """Whether an empty cell is a category of its own, in place of missing."""

    def column(self, name: str) -> Column:
        """Return the declaration, with categories as texts, which files hold; refuses one without sense."""
        declared = self.declared()
        if self.categories is not None:
            texts = {"missing": str(self.missing)} if self.missing is not None else {}
            declared |= {"categories": list(map(str, self.categories)), **texts}
        return column_from(name, declared)


class Label(Table):
    """What a classifier predicts. Rules without features ask for statistics instead."""

    column: str = key("label", "the name of a column", min_length=1)
    """Column with the labels."""
    values: Annotated[list[Any], AfterValidator(_labels)] = key(
        ...,
        f"two to {MOST_LABELS} different texts (no blanks around them) or whole numbers, in brackets",
        example=["no", "yes"],
    )
    """The labels; of two, the negative one first. All that may occur, whether anybody has them or not."""


class Target(Table):
    """What a regression predicts, in place of a label: a number with public bounds."""

    column: str = key("target", "the name of a column", min_length=1)
    """Column with the numbers to predict."""
    low: float = key(..., example=0.0)
    """Where the number lies at the least: public; values below count as this."""
    high: float = key(..., "a number above low", example=100.0)
    """Where the number lies at the most: public as well."""
    scale: float | None = key(None, example=20.0, gt=0)
    """A public guess of the standard deviation. Left out: a quarter of the distance from low to high."""
    quantile: float | None = key(None, example=0.5, gt=0, lt=1)
    """Predict this quantile, such as 0.5 for the median. Left out: the mean, less drawn by outliers."""

    @property
    def center(self) -> float:
        """The middle of the public bounds."""
        return 0.5 * self.low + 0.5 * self.high

    @property
    def spread(self) -> float:
        """The public guess of the standard deviation."""
        return 0.25 * (self.high - self.low) if self.scale is None else self.scale


class Translation(Table):
    """A question in one language."""

    wording: str = key(..., example="How old are you?", min_length=1, max_length=500)
    """The question, in English if it is no translation."""
    help: str = key("", example="In whole years.", max_length=2_000)
    """What helps to answer it."""


class Wording(Translation):
    """How sellers of a live campaign are asked for a column; left out: by the column's name."""

    translations: dict[str, Translation] = key(
        {}, 'tables by language, such as de = { wording = "Wie alt sind Sie?" }'
    )
    """The same in other languages, by their codes."""


class Training(Table):
    """How records are read and a model is trained. Public choices, made without looking at the data."""

    l2: float | None = key(None, example=0.05, gt=0)
    """Ridge penalty (the paper's Lambda). Left out: suggested from the epsilons and the number of
    features."""
    model: str | None = key(
        None, "torch:package.module:factory", example="torch:our_models.networks:two_layers", pattern=_FACTORY
    )
    """A function marked with @torch_factory that makes the network to train, from the numbers of features and
    of labels (1 for a target). Needs objective.delta. Left out: a linear model."""
    code: str | None = key(None, "64 hexadecimal digits", example="0" * 64, pattern="^[0-9a-f]{64}$")
    """Beside model: the SHA-256 of the file of its module, as sha256sum shows it."""
    parameters: int | None = key(None, example=2410, ge=1, le=10**7)
    """Beside model: how many weights of the network are trained. Prices follow from it."""
    radius: float = key(1.0, gt=0)
    """Rows longer than this, after features are mapped to [-1, 1], are shortened to it. The square root of
    the number of features shortens nothing."""
    outside_bounds: Literal["clip", "refuse"] = key("clip")
    """What happens to numbers outside their public bounds: clipped and counted, or refused."""
    numerical_epsilon: float = key(1e-6, gt=0, le=1)
    """The part of every epsilon set aside for releasing rounded numbers."""
    intervals: float | None = key(None, example=0.3, gt=0, lt=1)
    """The share of every epsilon that is spent on a noisy Hessian, so that predictions and coefficients have
    intervals. Left out: nothing, and intervals are rough."""


class Rules(Table):
    """A whole rules file, checked: frozen, one attribute per table.

    Rules have features with a label or a target, or statistics. :func:`read_rules` and :func:`check_rules`
    make them, and check what holds between keys as well.
    """

    campaign: CampaignTable = Field(default_factory=CampaignTable)
    sellers: Sellers = Field(default_factory=Sellers)
    costs: Costs
    objective: Objective
    money: Money = Field(default_factory=Money)
    features: dict[str, Bounds] = key(
        {},
        "at least one feature with its public bounds, such as age = { low = 18, high = 90 }, or with its "
        'categories, such as job = { categories = ["baker", "smith"] }',
    )
    """The features: the name of a column, and its public bounds or categories."""
    label: Label | None = None
    target: Target | None = None
    statistics: dict[str, Question] = key(
        {}, 'tables of statistics, such as age = { kind = "mean", column = "age", low = 18, high = 90 }'
    )
    """Statistics in place of a model: a name for each, and what is asked. Every epsilon is split between them
    by their shares; together they never spend more."""
    training: Training = Field(default_factory=Training)
    questions: dict[str, Wording] = key(
        {}, 'tables by column, such as age = { wording = "How old are you?" }'
    )
    """How sellers of a live campaign are asked: by column wording, help and translations."""
    groups: dict[str, GroupTable] = key(
        {}, 'tables by group, such as young = { share = 0.4, distribution = "uniform(1, 3)", quota = 100 }'
    )
    """Groups of sellers by name, with their shares of the population: representative purchases."""
    screening: list[Screening] = key(
        [], 'tables such as { question = "Do you drive?", answers = ["yes", "no"], accept = ["yes"] }'
    )
    """Questions before consent. No epsilon protects the answers; only the resulting group is stored."""
    panel: Panel | None = None

    def __hash__(self) -> int:  # so that what follows from rules can be remembered
        return hash(self.model_dump_json(exclude_none=True))

    @property
    def delta(self) -> float:
        """The delta of every guarantee; 0 without one."""
        return self.objective.delta or 0.0

    @property
    def shares(self) -> dict[str, float]:
        """Each group's share of the population; a single one of 1 without groups."""
        if not self.groups:
            return {"all": 1.0}
        places = sum(group.quota or 0 for group in self.groups.values())
        return {
            name: (group.quota or 0) / places if group.share is None else group.share
            for name, group in self.groups.items()
        }

    @property
    def people(self) -> int:
        """How many sellers are expected; refuses rules that do not say it."""
        if self.sellers.expected is None:
            raise FileProblem(
                "sellers.expected: missing; expected a whole number >= 1, for which prices are planned."
            )
        return self.sellers.expected

    def to_data(self) -> dict[str, Any]:
        """Return the rules as plain data, from which :func:`check_rules` makes them again."""
        return self.model_dump(mode="json", exclude_none=True)


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """Read and check a rules file; of a ``FileProblem`` ``details`` has a line for each wrong key."""
    data = read_toml(path)
    costs = data.get("costs")
    name = costs.get("distribution") if isinstance(costs, dict) else None
    if isinstance(costs, dict) and isinstance(name, str) and name.endswith(".json"):
        content = read_json(Path(path).parent / name)
        costs["distribution"] = content.get("distribution", content) if isinstance(content, dict) else content
    return check_rules(data, str(path))


def check_rules(data: Mapping[str, Any], name: str = "the rules") -> Rules:
    """Return the rules of tables as a TOML file gives them, or raise ``FileProblem`` with all that is wrong.

    >>> check_rules({"costs": {"distribution": "uniform(1, 5)"}, "objective": {"payment_weight": 0.01},
    ...     "features": {"age": {"low": 18, "high": 90}}, "label": {"values": [0, 1]}}).label.column
    'label'
    """
    problems: dict[str, str] = {}
    try:
        rules = Rules.model_validate(dict(data))
    except ValidationError as error:
        for found in error.errors():
            path, line = sentence(found, Rules)
            problems.setdefault(path, line)
    else:
        problems = contradictions(rules)
    if problems:
        count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
        raise FileProblem(f"cannot use {name}: {count}.", list(problems.values()))
    return rules


@lru_cache(maxsize=64)
def rules_from(text: str) -> Rules:
    """Return the rules that a campaign's row stores as JSON; the same ones are made once in a process."""
    data = json.loads(text)
    data.pop("record_bytes", None)  # read by the market itself
    return check_rules(data, "the campaign's rules")


def to_distribution(value: Any) -> CostDistribution:
    """Make the cost distribution that a formula or a table describes."""
    from dpmarket.costs.text import distribution_from_dict, parse_distribution  # takes scipy.stats along

    if isinstance(value, str):
        return parse_distribution(value)
    if isinstance(value, Mapping):
        return distribution_from_dict(value)
    raise ValueError("neither a text nor a table")
