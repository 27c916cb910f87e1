"""Contradictions in a rules file: between keys, each of which is fine by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpmarket.campaign.rules.keys import Table, expected_of
from dpmarket.campaign.rules.questions import LEAST_SHARE, Question, question_problems
from dpmarket.campaign.rules.screening import MOST_GROUPS, screening_problems
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    from dpmarket.campaign.rules.rules_file import Rules

Found = Iterator[tuple[str, str]]
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
    for part in (_purchase, _groups, _network, _statistics, _features, _columns, screening_problems):
        for path, words in part(rules):
            found.setdefault(path, f"{path}: {words}")
    return found


def _missing(table: Table, name: str) -> str:
    return f"missing; expected {expected_of(type(table), name)}."


def _wrong(table: list[tuple[str, bool, str]]) -> Found:
    """Yield the rows of which something is wrong: the path of a key, whether it is, and the sentence."""
    yield from ((path, words) for path, is_wrong, words in table if is_wrong)


def _purchase(rules: Rules) -> Found:
    """Find rules that ask for nothing or too much, and what prices and a delta need and exclude."""
    wanted, sellers, mechanism = rules.objective, rules.sellers, rules.campaign.mechanism
    label, target, asks = rules.label, rules.target, bool(rules.statistics)
    beside = "expected none beside [statistics]: a campaign trains a model or asks for numbers."
    budget, weight, delta = wanted.budget is not None, wanted.payment_weight is not None, wanted.delta or 0.0
    mu, sigma = wanted.concentration is not None, wanted.noise is not None
    paper = "objective.concentration" if mu else "objective.noise"
    needs_people = budget or delta > 0.0 or mechanism != "offline"
    most = 1.0 if sellers.expected is None else 0.1 / sellers.expected
    yield from _wrong([
        ("features", asks and bool(rules.features), beside),
        ("label", asks and label is not None, beside),
        ("target", asks and target is not None, beside),
        ("features", not asks and not rules.features, _missing(rules, "features")),
        ("label", not asks and label is None and target is None,
            "missing; expected the table [label], or [target]."),
        ("target", label is not None and target is not None,
            "expected none beside [label]: a model predicts one of them."),
        ("target", target is not None and not target.low < target.high,
            f"expected low < high, got low = {target and target.low}, high = {target and target.high}."),
        ("objective", budget and weight, "expected either payment_weight or budget, found both."),
        ("objective", not budget and not weight, "expected either payment_weight or budget, found neither."),
        ("campaign.mechanism", mechanism == "posted" and not budget,
            "expected objective.budget beside a posted price, found none."),
        ("objective.confidence", wanted.confidence is not None and not budget,
            "expected a budget beside it, found none."),
        (paper, mu != sigma, "expected concentration and noise together: the paper's objective has both."),
        (paper, (mu or sigma) and delta > 0.0,
            "expected none beside objective.delta: the paper's objective has no delta."),
        (paper, (mu or sigma) and rules.costs.shape != "linear",
            "expected linear costs beside it, as in the paper."),
        ("sellers.expected", sellers.expected is None and needs_people,
            "missing; expected a whole number >= 1, because a budget, a delta and prices for sellers one by "
            "one are planned for so many."),
        ("training.intervals", rules.training.intervals is not None and asks,
            "expected none with statistics, whose intervals cost nothing."),
        ("training.outside_bounds", rules.training.outside_bounds == "refuse"
            and any(question.kind == "vector_mean" for question in rules.statistics.values()),
            "expected clip with a vector_mean, whose records are shortened as a whole."),
        ("objective.delta", delta > 0.0 and asks,
            "expected none with statistics, whose noise needs no delta."),
        ("objective.delta", delta > most,
            f"expected at most 1 / (10 * sellers.expected) = {most:.3g}, got {delta!r}: publishing the "
            "records of a few people at random would keep such guarantees."),
        ("sellers.lifetime_delta", sellers.lifetime_delta is not None and sellers.lifetime_epsilon is None,
            "expected sellers.lifetime_epsilon beside it, found none."),
        ("sellers.lifetime_delta",
            delta > 0.0 and sellers.lifetime_epsilon is not None and sellers.lifetime_delta is None,
            "missing; expected a number >= objective.delta, because sellers.lifetime_epsilon is set: over a "
            "lifetime epsilons and deltas add up, each by itself."),
        ("sellers.lifetime_delta", sellers.lifetime_delta is not None and sellers.lifetime_delta < delta,
            f"expected at least objective.delta = {delta!r}, got {sellers.lifetime_delta!r}."),
    ])  # fmt: skip


def _groups(rules: Rules) -> Found:
    """Find what has no meaning with groups, or without them, and names that make no sense."""
    groups, wanted, mechanism = rules.groups, rules.objective, rules.campaign.mechanism
    if not groups:
        if wanted.coverage is not None:
            yield "objective.coverage", "expected [groups] beside it, found none."
        return
    shares = [group.share for group in groups.values()]
    total = math.fsum(share or 0.0 for share in shares)
    has_quotas = all(group.quota for group in groups.values())
    are_names = all(name.isprintable() and name == name.strip() and 0 < len(name) <= 100 for name in groups)
    yield from _wrong([
        ("groups", len(groups) > MOST_GROUPS, f"expected at most {MOST_GROUPS} groups, got {len(groups)}."),
        ("groups", None in shares and (total > 0.0 or not has_quotas),
            "expected a share in each group, or a quota in each and no share."),
        ("groups", None not in shares and abs(total - 1.0) > 1e-9,
            f"expected shares that add up to 1, got {total:.9g}."),
        ("groups", not are_names,
            "expected names of 1 to 100 printable characters, without blanks around them."),
        ("sellers.expected", rules.sellers.expected is None,
            "missing; expected a whole number >= 1, because shares are of so many."),
        ("objective.budget", mechanism != "offline" and wanted.budget is None and not has_quotas,
            "missing; expected a budget, or a quota in each group: each has an escrow of its own."),
        ("objective.coverage", mechanism == "posted" and wanted.coverage not in (None, "hard"),
            "expected hard beside posted prices, which meet shares on average."),
        *((f"groups.{name}.quota", group.quota is not None and mechanism == "offline",
            "expected none offline, where everybody reports and shares decide.")
            for name, group in groups.items()),
    ])  # fmt: skip


def _network(rules: Rules) -> Found:
    """Find what a torch model lacks or excludes."""
    training, target = rules.training, rules.target
    named = training.model is not None
    for name in ("code", "parameters"):
        given = getattr(training, name) is not None
        if named != given:
            words = _missing(training, name) if named else "expected training.model beside it, found none."
            yield f"training.{name}", words
    if named:
        yield from _wrong([
            ("training.model", bool(rules.statistics), "expected none beside [statistics]."),
            ("objective.delta", rules.objective.delta is None,
                "missing; expected a number: guarantees of a torch model have a delta."),
            ("training.l2", training.l2 is not None,
                "expected none beside training.model, whose factory sets weight_decay."),
            ("training.intervals", training.intervals is not None,
                "expected none beside training.model: intervals are for linear models."),
            ("target.quantile", target is not None and target.quantile is not None,
                "expected none beside training.model, whose factory sets the loss."),
        ])  # fmt: skip


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
    """Find features without bounds, or whose declaration makes no sense."""
    for name, bounds in rules.features.items():
        path, declared = f"features.{name}", bounds.declared()
        if not {"categories", "first", "last", "boolean"} & declared.keys():
            missing = {"low", "high"} - declared.keys()
            yield from ((f"{path}.{end}", _missing(bounds, end)) for end in ("low", "high") if end in missing)
            if missing:
                continue
        try:
            bounds.column(path)
        except InvalidInput as error:
            yield path, str(error).removeprefix(f"column {path!r}: ")


def _columns(rules: Rules) -> Found:
    """Find columns with two uses, and an id column that predictions and quotes need themselves."""
    ids = rules.sellers.id_column
    uses = [("sellers.id_column", ids), ("sellers.cost_column", rules.sellers.cost_column)]
    if rules.groups:
        uses.append(("sellers.group_column", rules.sellers.group_column))
    asked = [(f"{name}.column", one.column) for name in ("label", "target") if (one := getattr(rules, name))]
    asked += [(f"features.{name}", name) for name in rules.features]
    first: dict[str, str] = {}
    for path, name in uses + asked:
        if first.setdefault(name, path) != path:
            yield path, f"expected another column than {first[name]}, got {name!r} in both."
    answered = {column for _, column in asked}
    for name, question in rules.statistics.items():  # two of them may ask about one column
        answered |= set(question.names)
        for column in first.keys() & set(question.names):
            words = f"expected another column than {first[column]}, got {column!r} in both."
            yield f"statistics.{name}", words
    for name in rules.questions:
        if name not in answered:
            yield f"questions.{name}", "expected a column that sellers are asked for; there is none."
    labels = rules.label.values if rules.label is not None else []
    reserved = [*RESERVED_COLUMNS, *(probability_columns(labels) if len(labels) > 2 else [])]
    if ids in reserved:
        yield "sellers.id_column", f"expected none of {', '.join(reserved)}, got {ids!r}."
