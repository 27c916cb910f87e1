"""Contradictions in a rules file: between keys, each of which is fine by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpmarket.campaign.rules.keys import expected_of
from dpmarket.campaign.rules.questions import LEAST_SHARE, Question, question_problems
from dpmarket.campaign.rules.screening import screening_problems
from dpmarket.errors import InvalidInput
from dpmarket.learning.columns import column_from

if TYPE_CHECKING:
    from dpmarket.campaign.rules.rules_file import Bounds, Rules

Found = Iterator[tuple[str, str]]
MOST_GROUPS = 100
RESERVED_COLUMNS = (
    "epsilon", "payment", "payment_minor_units", "currency", "minor_units", "state", "reason", "reference",
    "probability", "prediction", "interval_low", "interval_high",
)  # fmt: skip


def probability_columns(labels: Sequence[object]) -> list[str]:
    """Return the columns in which predictions tell the probability of each of more than two labels."""
    return [f"probability_{label}" for label in labels]


def contradictions(rules: Rules) -> dict[str, str]:
    """Return, by the path of a key, the sentence about what is wrong with it beside other keys."""
    found: dict[str, str] = {}
    parts = (_bought, _prices, _groups, _network, _statistics, _features, _columns, screening_problems)
    for part in parts:
        for path, words in part(rules):
            found.setdefault(path, f"{path}: {words}")
    return found


def _bought(rules: Rules) -> Found:
    """Find rules that ask for nothing, or for a model and statistics."""
    label, target = rules.label, rules.target
    if rules.statistics:
        for name in ("features", "label", "target"):
            if getattr(rules, name):
                yield (
                    name,
                    "expected none beside [statistics]: a campaign trains a model or asks for numbers.",
                )
        return
    if not rules.features:
        yield "features", f"missing; expected {expected_of(type(rules), 'features')}."
    if label is None and target is None:
        yield "label", "missing; expected the table [label], or [target]."
    if label is not None and target is not None:
        yield "target", "expected none beside [label]: a model predicts one of them."
    if target is not None and not target.low < target.high:
        yield "target", f"expected low < high, got low = {target.low}, high = {target.high}."


def _prices(rules: Rules) -> Found:
    """Find what is missing for prices, and what the paper's objective or a delta excludes."""
    wanted, sellers, mechanism = rules.objective, rules.sellers, rules.campaign.mechanism
    budget, weight, delta = wanted.budget is not None, wanted.payment_weight is not None, wanted.delta
    mu, sigma = wanted.concentration is not None, wanted.noise is not None
    paper = "objective.concentration" if mu else "objective.noise"
    needs_people = budget or delta is not None or mechanism != "offline"
    # The path of a key, whether something is wrong with it, and the sentence.
    table = [
        ("objective", budget and weight, "expected either payment_weight or budget, found both."),
        ("objective", not budget and not weight, "expected either payment_weight or budget, found neither."),
        ("campaign.mechanism", mechanism == "posted" and not budget,
            "expected objective.budget beside a posted price, found none."),
        ("objective.confidence", wanted.confidence is not None and not budget,
            "expected a budget beside it, found none."),
        (paper, mu != sigma, "expected concentration and noise together: the paper's objective has both."),
        (paper, (mu or sigma) and delta is not None,
            "expected none beside objective.delta: the paper's objective has no delta."),
        (paper, (mu or sigma) and rules.costs.shape != "linear",
            "expected linear costs beside it, as in the paper."),
        ("sellers.expected", sellers.expected is None and needs_people,
            "missing; expected a whole number >= 1, because a budget, a delta and prices for sellers one by "
            "one are planned for so many."),
        ("training.intervals", rules.training.intervals is not None and bool(rules.statistics),
            "expected none with statistics, whose intervals cost nothing."),
        ("sellers.lifetime_delta", sellers.lifetime_delta is not None and sellers.lifetime_epsilon is None,
            "expected sellers.lifetime_epsilon beside it, found none."),
    ]  # fmt: skip
    yield from ((path, words) for path, is_wrong, words in table if is_wrong)
    if delta is not None:
        yield from _delta(rules, delta)


def _groups(rules: Rules) -> Found:
    """Find what has no meaning with groups, or without them, and names that make no sense."""
    groups, wanted, mechanism = rules.groups, rules.objective, rules.campaign.mechanism
    if not groups:
        if wanted.coverage is not None:
            yield "objective.coverage", "expected [groups] beside it, found none."
        return
    has_quotas = all(group.quota is not None for group in groups.values())
    yield from _shares([group.share for group in groups.values()], has_quotas=has_quotas)
    if rules.sellers.expected is None:
        yield "sellers.expected", "missing; expected a whole number >= 1, because shares are of so many."
    if mechanism != "offline" and wanted.budget is None and not has_quotas:
        words = "missing; expected a budget, or a quota in each group: each has an escrow of its own."
        yield "objective.budget", words
    if mechanism == "posted" and wanted.coverage not in (None, "hard"):
        yield "objective.coverage", "expected hard beside posted prices, which meet shares on average."
    for name, group in groups.items():
        if not name.isprintable() or name != name.strip() or not 0 < len(name) <= 100:
            yield "groups", "expected names of 1 to 100 printable characters, without blanks around them."
        if group.quota is not None and mechanism == "offline":
            words = "expected none offline, where everybody reports and shares decide."
            yield f"groups.{name}.quota", words


def _shares(shares: Sequence[float | None], *, has_quotas: bool) -> Found:
    if len(shares) > MOST_GROUPS:
        yield "groups", f"expected at most {MOST_GROUPS} groups, got {len(shares)}."
    total = math.fsum(share or 0.0 for share in shares)
    if None in shares:
        if total > 0.0 or not has_quotas:
            yield "groups", "expected a share in each group, or a quota in each and no share."
    elif abs(total - 1.0) > 1e-9:
        yield "groups", f"expected shares that add up to 1, got {total:.9g}."


def _delta(rules: Rules, delta: float) -> Found:
    """Find what contradicts a delta, or what it lacks beside it."""
    sellers = rules.sellers
    most = 1.0 if sellers.expected is None else 0.1 / sellers.expected
    if rules.statistics:
        yield "objective.delta", "expected none with statistics, whose noise needs no delta."
    if delta > most:
        yield (
            "objective.delta",
            f"expected at most 1 / (10 * sellers.expected) = {most:.3g}, got {delta!r}: publishing the "
            "records of a few people at random would keep such guarantees.",
        )
    if sellers.lifetime_epsilon is not None and sellers.lifetime_delta is None:
        yield (
            "sellers.lifetime_delta",
            "missing; expected a number >= objective.delta, because sellers.lifetime_epsilon is set: over a "
            "lifetime epsilons and deltas add up, each by itself.",
        )
    elif sellers.lifetime_delta is not None and sellers.lifetime_delta < delta:
        words = f"expected at least objective.delta = {delta!r}, got {sellers.lifetime_delta!r}."
        yield "sellers.lifetime_delta", words


def _network(rules: Rules) -> Found:
    """Find what a torch model lacks or excludes."""
    training, target = rules.training, rules.target
    named = training.model is not None
    for name in ("code", "parameters"):
        given = getattr(training, name) is not None
        if named and not given:
            yield f"training.{name}", f"missing; expected {expected_of(type(training), name)}."
        if given and not named:
            yield f"training.{name}", "expected training.model beside it, found none."
    if not named:
        return
    if rules.statistics:
        yield "training.model", "expected none beside [statistics]."
    if rules.objective.delta is None:
        yield "objective.delta", "missing; expected a number: guarantees of a torch model have a delta."
    if training.l2 is not None:
        yield "training.l2", "expected none beside training.model, whose factory sets weight_decay."
    if training.intervals is not None:
        yield "training.intervals", "expected none beside training.model: intervals are for linear models."
    if target is not None and target.quantile is not None:
        yield "target.quantile", "expected none beside training.model, whose factory sets the loss."


def _statistics(rules: Rules) -> Found:
    """Find questions that make no sense, too small shares, and columns that are read in two ways."""
    total = sum(question.share or 1.0 for question in rules.statistics.values())
    first: dict[str, tuple[str, Any]] = {}
    for name, question in rules.statistics.items():
        path = f"statistics.{name}"
        yield from question_problems(path, question)
        if (question.share or 1.0) < LEAST_SHARE * total:
            yield f"{path}.share", "expected at least a thousandth of all shares."
        for column in question.names:
            other, reading = first.setdefault(column, (path, _reading(question)))
            if reading != _reading(question):
                yield path, f"expected another column than {other}, which reads {column!r} otherwise."


def _reading(question: Question) -> Any:
    if question.has_numbers or question.kind == "share":
        return question.has_numbers
    return sorted(map(str, question.categories or ()))


def _features(rules: Rules) -> Found:
    for name, bounds in rules.features.items():
        yield from _feature(f"features.{name}", bounds)


def _feature(path: str, bounds: Bounds) -> Found:
    declared = bounds.declared()
    if not {"categories", "first", "last", "boolean"} & set(declared):
        missing = [end for end in ("low", "high") if end not in declared]
        for end in missing:
            yield f"{path}.{end}", f"missing; expected {expected_of(type(bounds), end)}."
        if missing:
            return
    try:
        column_from(path, declared)
    except InvalidInput as error:
        yield path, str(error).removeprefix(f"column {path!r}: ")


def _columns(rules: Rules) -> Found:
    """Find columns with two uses, and an id column that predictions and quotes need themselves."""
    ids = rules.sellers.id_column
    uses = [("sellers.id_column", ids), ("sellers.cost_column", rules.sellers.cost_column)]
    if rules.groups:
        uses.append(("sellers.group_column", rules.sellers.group_column))
    uses += [(f"{name}.column", one.column) for name in ("label", "target") if (one := getattr(rules, name))]
    uses += [(f"features.{name}", name) for name in rules.features]
    first: dict[str, str] = {}
    for path, name in uses:
        if first.setdefault(name, path) != path:
            yield path, f"expected another column than {first[name]}, got {name!r} in both."
    for name, question in rules.statistics.items():  # two of them may ask about one column
        for column in question.names:
            if column in first:
                words = f"expected another column than {first[column]}, got {column!r} in both."
                yield f"statistics.{name}", words
    answered = {name for path, name in uses if not path.startswith("sellers.")}
    answered |= {column for question in rules.statistics.values() for column in question.names}
    for name in rules.questions:
        if name not in answered:
            yield f"questions.{name}", "expected a column that sellers are asked for; there is none."
    labels = rules.label.values if rules.label is not None else []
    reserved = [*RESERVED_COLUMNS, *(probability_columns(labels) if len(labels) > 2 else [])]
    if ids in reserved:
        yield "sellers.id_column", f"expected none of {', '.join(reserved)}, got {ids!r}."
