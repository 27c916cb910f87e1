"""Turn tables into pages: a summary of what holds, and one page for each part of the paper with the evidence.

Every page is a function of the stored tables alone, so that it is the same on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpmarket.files import write_bytes
from dpmarket.paper.claims import CLAIMS
from dpmarket.paper.experiments.catalogue import EXPERIMENTS, PAPER_FIGURES, experiment_named
from dpmarket.paper.experiments.running import FIGURES, TABLES, Experiment, plain
from dpmarket.paper.experiments.table import read_result
from dpmarket.paper.experiments.verdicts import (
    REPRODUCED,
    Claim,
    Judgement,
    Sheet,
    Tables,
    counted,
)

SUMMARY = "results.md"
Judged = list[tuple[Claim, Judgement]]


@dataclass(frozen=True)
class Part:
    """A page of evidence: its file, its title, and the experiments whose claims it tells of."""

    file: str
    title: str
    experiments: tuple[str, ...]


PARTS = (
    Part(
        "results-market.md",
        "The market: Fig. 1, Fig. 2 and budgets",
        ("interaction", "market", "market-variants", "budget-lie", "budget"),
    ),
    Part(
        "results-online.md",
        "Online and for many sellers: Fig. 3 and the rates",
        ("online", "rate", "arrivals", "asymptotic", "schedule"),
    ),
    Part(
        "results-learning.md",
        "Hyper-parameters and the error bound: Fig. 4 and theorem `gen loss`",
        ("noise-rate", "concentration", "error-bound"),
    ),
    Part(
        "results-mechanism.md",
        "Payments and privacy",
        ("payments", "reports", "independence", "cap", "privacy", "joint-privacy"),
    ),
    Part(
        "results-solving.md",
        "Solving the appendix problem",
        ("convexity", "descent", "variables", "printed"),
    ),
)

_HEAD = """# The paper, claim by claim

Made by `dpmarket reproduce --all` from the tables beside it; not written by hand. The paper prints neither
tables nor most of its settings, and its figures are not part of its source, so what is checked are its
statements. For each there is, on the pages linked, the paper's sentence, our setting, the evidence, the same
question at other settings, and the verdict:

- *holds*: seen at every setting tried;
- *consistent with*: a statement for sizes that no computer reaches; nothing measured contradicts it;
- *holds under a condition*: the condition is named;
- *does not hold*: what was measured instead is told.

{count} statements: {counts}.

Short proofs of what is easily repaired are on the page [Errata](errata.md), written for the authors.
[Departures from the paper](deviations.md) says what dpmarket does instead, [the map](map.md) which function
is which formula, and [Future work](future-work.md) what has become of the paper's outlook. Bands in figures
are two standard errors. Every table is a CSV file with a manifest (settings, seeds, versions) that is enough
to redraw its figure.
"""
_GROUPS = (
    ("What reproduces", "At every setting tried, or as far as it can be computed."),
    (
        "Slips that are easily repaired",
        "A few words or symbols to change; then the statement holds. Proofs are in the [errata](errata.md).",
    ),
    (
        "Findings: where a statement needs a condition",
        "What a reader who builds on the paper should know. The conditions are those under which it holds.",
    ),
)
_TAIL = """## What was not measured

- That the approach is the first to trade payments against accuracy, so that there is nothing to compare
  with: a statement about the literature. Buyers to compare with are in `dpmarket.mechanisms`.
- The paper's own numbers: it prints neither its hyper-parameters nor its number of sellers, and no table.
- Which Wisconsin breast cancer set is meant: the source cites a reference that is not part of it. The
  diagnostic set (569 records, 30 features) is used; the older one (699 records, nine grades) ships with no
  library used here.
- Single payments of the appendix algorithm in Fig. 2: overall errors use payments in expectation, the sum of
  ψε, for every buyer. What the offline mechanism really pays is in the table beside it.
"""


def judge(tables: Tables, claims: Sequence[Claim] = CLAIMS) -> Judged:
    """Return a judgement for every claim whose tables are all there."""
    return [(claim, claim.judge(tables)) for claim in claims if set(claim.experiments) <= set(tables)]


def read_tables(folder: str | os.PathLike[str]) -> Tables:
    """Return all tables that a folder holds, by name."""
    place = Path(folder) / TABLES
    return {
        experiment.name: read_result(place, experiment.name)
        for experiment in EXPERIMENTS
        if (place / f"{experiment.name}.json").is_file()
    }


def result_pages(tables: Tables) -> dict[str, str]:
    """Return all pages, in Markdown, by file name, for tables of all experiments.

    Parameters
    ----------
    tables
        By the names of :data:`~dpmarket.paper.experiments.catalogue.EXPERIMENTS`, all of them.

    Returns
    -------
    dict
        The summary first, then a page for each of :data:`PARTS`.
    """
    judged = judge(tables)
    pages = {SUMMARY: _summary(tables, judged)}
    for part in PARTS:
        pages[part.file] = _page(part, tables, judged)
    return pages


def write_pages(folder: str | os.PathLike[str]) -> Path:
    """Write the pages beside the tables and figures of a folder, and return the path of the summary."""
    for name, text in result_pages(read_tables(folder)).items():
        write_bytes(Path(folder) / name, text.encode())
    return Path(folder) / SUMMARY


def anchor(heading: str) -> str:
    """Return the name of a heading's place on its page, as readers of Markdown make it.

    Examples
    --------
    >>> anchor("As m increases, the loss falls (Fig. 3).")
    'as-m-increases-the-loss-falls-fig-3'
    """
    return re.sub(r"[^\w\-]", "", heading.lower().replace(" ", "-"))


def page_of(claim: Claim) -> Part:
    """Return the page that tells of a claim: that of its first experiment."""
    return next(part for part in PARTS if claim.experiments[0] in part.experiments)


def _group(claim: Claim, judgement: Judgement) -> int:
    """Return which group of the summary a claim belongs to: reproduced, slip or finding."""
    if judgement.verdict in REPRODUCED:
        return 0
    return 1 if claim.repair else 2


def _summary(tables: Tables, judged: Judged) -> str:
    counts = counted([judgement for _, judgement in judged])
    told = ", ".join(f"{count} *{verdict}*" for verdict, count in counts.items())
    lines = [_HEAD.format(count=len(judged), counts=told)]
    quick = [e.name for e in EXPERIMENTS if dict(tables[e.name].configuration) != plain(e.full)]
    if quick:
        lines += [f"**Not the published settings** (a quick run, for tests): {', '.join(quick)}.\n"]
    for number, (title, remark) in enumerate(_GROUPS):
        mine = [(claim, judgement) for claim, judgement in judged if _group(claim, judgement) == number]
        last = "repair" if number == 1 else "verdict"
        lines += [f"## {title}\n", f"{remark}\n", f"| statement | where | {last} |", "|---|---|---|"]
        for claim, judgement in mine:
            link = f"[{_cell(claim.statement)}]({page_of(claim).file}#{anchor(claim.statement)})"
            lines.append(f"| {link} | {claim.where} | {_last(number, claim, judgement)} |")
        lines.append("")
    lines += ["## The pages\n", "| page | figures and tables |", "|---|---|"]
    for part in PARTS:
        names = ", ".join(f"`{name}`" for name in part.experiments)
        lines.append(f"| [{part.title}]({part.file}) | {names} |")
    return "\n".join([*lines, "", _TAIL])


def _last(number: int, claim: Claim, judgement: Judgement) -> str:
    return _cell(claim.repair) if number == 1 else judgement.verdict


def _page(part: Part, tables: Tables, judged: Judged) -> str:
    lines = [
        f"# {part.title}\n",
        f"Made by `dpmarket reproduce --all`; a part of [the paper, claim by claim]({SUMMARY}).",
    ]
    for name in part.experiments:
        experiment = experiment_named(name)
        mine = [(claim, judgement) for claim, judgement in judged if claim.experiments[0] == name]
        others = [claim for claim, _ in judged if name in claim.experiments[1:]]
        lines += _section(experiment, tables, mine, others)
    return "\n".join([*lines, ""])


def _section(experiment: Experiment, tables: Tables, judged: Judged, others: list[Claim]) -> list[str]:
    """Return the claims that an experiment decides, and those to whose verdict it adds."""
    name = experiment.name
    lines = [
        f"\n## {experiment.title}\n",
        f"![{experiment.title}]({FIGURES}/{name}.svg)\n",
        f"Table: `{TABLES}/{name}.csv`. Redraw: `dpmarket reproduce {_known_as(experiment)}`.",
    ]
    if others:
        links = "; ".join(
            f"[{other.statement}]({page_of(other).file}#{anchor(other.statement)})" for other in others
        )
        lines.append(f"\nAdds to the evidence for: {links}")
    for claim, judgement in judged:
        lines += [
            f"\n### {claim.statement}\n",
            f"> {claim.sentence} ({claim.where})\n",
            f"**{judgement.verdict.capitalize()}.** {judgement.measured}\n",
            f"*Setting.* {claim.setting(tables)}\n",
            *([f"*Repair.* {claim.repair} See the [errata](errata.md).\n"] if claim.repair else []),
            f"*Other settings.* {_drawn(claim.robustness(tables))}",
        ]
    return lines


def _known_as(experiment: Experiment) -> str:
    """Return the number of the paper's figure that an experiment alone makes, or its own name."""
    return next((key for key, made in PAPER_FIGURES.items() if made == (experiment,)), experiment.name)


def _drawn(sheet: Sheet) -> str:
    rows = [sheet.columns, ("---",) * len(sheet.columns), *sheet.rows]
    return "\n".join(
        [f"{sheet.caption}\n", *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows)]
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
