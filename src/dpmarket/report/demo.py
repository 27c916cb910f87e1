"""Turn real public records into a whole market, end to end, with costs from a fixed seed and secret noise."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.file_campaign import train_file
from dpmarket.campaign.file_quotes import quote_file
from dpmarket.campaign.log import forget_place
from dpmarket.campaign.people import person_digests
from dpmarket.campaign.place import place_of, state_folder
from dpmarket.campaign.rules.pricing import plan_for
from dpmarket.campaign.rules.rules_file import read_rules
from dpmarket.campaign.rules.template import rules_template
from dpmarket.certificates.files import write_certificate
from dpmarket.datasets import PublicData, breast_cancer
from dpmarket.errors import FileProblem
from dpmarket.files import read_json, write_bytes, write_json, write_table
from dpmarket.mechanisms.plan import Plan
from dpmarket.progress import StageProgress, silent
from dpmarket.report.from_market import summarise_campaign
from dpmarket.report.page import render_page
from dpmarket.report.summary import Summary

SCHEMA = "dpmarket.demo/1"
BUDGET = 1000.0
TITLE = "A market for privacy: 456 people and a model that tells benign from malignant tumours"
_SHARE = 0.8  # of the records that sellers hold; the others are public and for testing
_SEED = 0
_MARK = "demo.json"
_FILES = (
    "rules.toml", "reports.csv", "data.csv", "public-test.csv", "quotes.csv", "model.json",
    "certificate.json", "openings.json", "report.html", "summary.json", "plan.json", "rules.db",
)  # fmt: skip


@dataclass(frozen=True)
class Demo:
    """What a demonstration came to: its folder, the page in it, what it says, and what the budget buys."""

    folder: Path
    report: Path
    summary: Summary
    plan: Plan


def run_demo(folder: str | os.PathLike[str], progress: StageProgress = silent) -> Demo:
    """Plan, quote, pay, train, certify, audit and report in a folder: new, or of an earlier demonstration."""
    place = _prepare(Path(folder))
    rules_path, report = place / "rules.toml", place / "report.html"
    sellers, public = breast_cancer().split(_SHARE, np.random.default_rng(_SEED))
    costs = np.random.default_rng(_SEED + 1).uniform(1.0, 5.0, len(sellers))
    ids = [f"person {k + 1:03d}" for k in range(len(sellers))]
    write_bytes(rules_path, _rules_file(sellers).encode())
    write_table(place / "reports.csv", pl.DataFrame({"seller": ids, "cost": costs}))
    write_table(place / "data.csv", pl.DataFrame({"seller": ids, **_columns(sellers)}))
    write_table(place / "public-test.csv", pl.DataFrame(_columns(public)))
    progress("Planning the budget and quoting", 0.05)
    quote_file(rules_path, place / "reports.csv", place / "quotes.csv")
    progress("Training a model within everybody's epsilon", 0.35)
    train_file(rules_path, place / "data.csv", place / "model.json")
    with place_of(rules_path).campaign() as (market, found):
        progress("Certifying", 0.4)
        certificate = certify_campaign(market, found.id)
        write_certificate(certificate, place / "certificate.json", place / "openings.json")
        summary = summarise_campaign(
            market,
            found.id,
            title=TITLE,
            costs=dict(zip(person_digests(market.key, ids), costs.tolist(), strict=True)),
            test=place / "public-test.csv",
            certificate=bytes(certificate),
            progress=lambda what, share: progress(what, 0.4 + 0.5 * share),
        )
    write_json(place / "summary.json", summary.to_dict())
    write_bytes(report, render_page(summary).encode())
    plan = plan_for(read_rules(rules_path), len(sellers), BUDGET)
    write_json(place / "plan.json", plan.to_dict())
    progress("Done", 1.0)
    return Demo(place, report, summary, plan)


def _prepare(place: Path) -> Path:
    """Make the folder, or empty that of an earlier demonstration of its own files."""
    mark = place / _MARK
    if place.exists() and not place.is_dir():
        raise FileProblem(f"expected {place} to be a folder; name another one.")
    if place.is_dir() and any(place.iterdir()):
        data = read_json(mark) if mark.is_file() else None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise FileProblem(
                f"{place} holds files that are not a demonstration's; name another folder, or a new one."
            )
        for name in _FILES:
            for ending in ("", "-wal", "-shm"):
                (place / (name + ending)).unlink(missing_ok=True)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(f"cannot make the folder {place}: {problem.strerror or problem}.") from None
    forget_place(state_folder(), str((place / "rules.db").absolute()))  # its records are public
    write_json(mark, {"schema": SCHEMA, "files": list(_FILES)})
    return place


def _columns(records: PublicData) -> dict[str, Any]:
    columns = dict(zip(records.feature_names, records.features.T, strict=True))
    return columns | {"diagnosis": list(map(str, records.labels))}


def _rules_file(sellers: PublicData) -> str:
    """Return the rules: everything here is public."""
    values: dict[str, Any] = {"campaign.name": "demonstration", "sellers.expected": len(sellers)}
    for end, bounds in (("low", sellers.low), ("high", sellers.high)):
        names = (f"features.{name}.{end}" for name in sellers.feature_names)
        values |= dict(zip(names, bounds.tolist(), strict=True))
    values |= {"objective.budget": BUDGET, "money.currency": "EUR"}
    # Without it the money would buy a better model from fewer people, with far larger epsilons.
    values["objective.max_mean_epsilon"] = 1.0
    label = {"label.column": "diagnosis", "label.values": list(sellers.classes)}
    return rules_template(values | label)
