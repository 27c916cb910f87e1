"""Turn public records into a whole market, end to end: the first minute with this project.

The records are real and public (breast cancer), the people's costs are drawn with a fixed seed: every run has
the same market, quotes and payments. The noise in the model is secret and different every time.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.file_campaign import train_file
from dpmarket.campaign.file_quotes import quote_file
from dpmarket.campaign.log import forget_place
from dpmarket.campaign.people import person_digests
from dpmarket.campaign.place import place_of, state_folder
from dpmarket.campaign.rules.decision import largest_amount
from dpmarket.campaign.rules.pricing import online_schedules, plan_for
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.certificates import verify, write_certificate
from dpmarket.datasets import PublicData, breast_cancer
from dpmarket.errors import FileProblem
from dpmarket.files import read_json, write_bytes, write_json, write_table
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.plan import Plan
from dpmarket.progress import StageProgress, silent
from dpmarket.report.evidence import SEALED, Verified
from dpmarket.report.from_market import audits_of, planned, read_material
from dpmarket.report.page import render_page
from dpmarket.report.score import score_file
from dpmarket.report.summary import Summary, summarise

SCHEMA = "dpmarket.demo/1"
BUDGET = 1000.0
CURRENCY = "EUR"
MAX_MEAN_EPSILON = 1.0
COSTS = "uniform(1, 5)"
TITLE = "A market for privacy: 456 people and a model that tells benign from malignant tumours"
_SHARE = 0.8  # of the records that sellers hold; the others are public and for testing
_SEED = 0
_MARK = "demo.json"
_FILES = (
    "rules.toml", "reports.csv", "data.csv", "public-test.csv", "quotes.csv", "quotes-online.csv",
    "model.json", "certificate.json", "openings.json", "report.html", "summary.json", "plan.json",
    "rules.db",
)  # fmt: skip


@dataclass(frozen=True)
class Demo:
    """What a demonstration came to: its folder, the page in it, what it says, and what the budget buys.

    ``online_paid`` and ``online_bought`` say what quoting the same people one by one would have come to.
    """

    folder: Path
    report: Path
    summary: Summary
    plan: Plan
    online_paid: float
    online_bought: int


def run_demo(folder: str | os.PathLike[str], progress: StageProgress = silent) -> Demo:
    """Plan, quote, pay, train, certify, audit, and write the report; all files go into ``folder``.

    The folder is new, or that of an earlier demonstration, whose files are replaced; another is refused.
    """
    place = _prepare(Path(folder))
    rules = place / "rules.toml"
    data = breast_cancer()
    sellers, public = data.split(_SHARE, np.random.default_rng(_SEED))
    _write_files(place, sellers, public)
    progress("Planning the budget and quoting", 0.05)
    quote_file(rules, place / "reports.csv", place / "quotes.csv")
    progress("Training a model within everybody's epsilon", 0.35)
    train_file(rules, place / "data.csv", place / "model.json")
    with place_of(rules).campaign() as (market, found):
        digests = person_digests(market.key, _ids(len(sellers)))
        costs = dict(zip(digests, _costs(len(sellers)).tolist(), strict=True))
        material = read_material(market, found.id, costs)
        progress("Certifying", 0.4)
        certificate = certify_campaign(market, found.id)
    assert material.model is not None
    assert material.campaign is not None
    progress("Quoting the same people one by one", 0.4)
    (schedule,), _ = online_schedules(_online(material.campaign))
    epsilons, payments = schedule.quote(_costs(len(sellers)))
    units = material.minor_units
    amounts = whole_units(payments, units)
    # Escrow is the budget: a seller is quoted while the largest payment is left.
    before = np.cumsum(amounts) - amounts
    is_quoted = before + largest_amount([schedule], units) <= round(BUDGET * units)
    epsilons, amounts = np.where(is_quoted, epsilons, 0.0), np.where(is_quoted, amounts, 0)
    _write_quotes(place / "quotes-online.csv", epsilons, amounts, units)
    write_certificate(certificate, place / "certificate.json", place / "openings.json")
    verified = (SEALED, Verified(verify(certificate)))
    progress("Auditing", 0.5)
    audits = (*audits_of(material), verified)
    plan = plan_for(material.campaign, len(sellers), BUDGET)
    write_json(place / "plan.json", plan.to_dict())
    progress("Writing the report", 0.9)
    score = score_file(material.model, place / "public-test.csv")
    whole = replace(planned(material), title=TITLE, audits=audits, score=score, digest=certificate.digest)
    summary = summarise(whole)
    report = place / "report.html"
    write_json(place / "summary.json", summary.to_dict())
    write_bytes(report, render_page(summary).encode())
    progress("Done", 1.0)
    return Demo(
        folder=place,
        report=report,
        summary=summary,
        plan=plan,
        online_paid=int(amounts.sum()) / units,
        online_bought=int((epsilons > 0.0).sum()),
    )


def _online(rules: Rules) -> Rules:
    return rules.model_copy(update={"campaign": rules.campaign.model_copy(update={"mechanism": "online"})})


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


def _write_files(place: Path, sellers: PublicData, public: PublicData) -> None:
    """Write what a campaign starts from: the rules file, reports, the sellers' records, public records."""
    ids = _ids(len(sellers))
    write_bytes(place / "rules.toml", _rules_file(sellers).encode())
    write_table(place / "reports.csv", pl.DataFrame({"seller": ids, "cost": _costs(len(sellers))}))
    for name, part in (("data.csv", sellers), ("public-test.csv", public)):
        columns: dict[str, Any] = {"seller": ids} if part is sellers else {}
        columns |= {feature: part.features[:, k] for k, feature in enumerate(part.feature_names)}
        columns["diagnosis"] = [str(label) for label in part.labels]
        write_table(place / name, pl.DataFrame(columns))


def _ids(sellers: int) -> list[str]:
    return [f"person {k + 1:03d}" for k in range(sellers)]


def _costs(sellers: int) -> FloatArray:
    return np.random.default_rng(_SEED + 1).uniform(1.0, 5.0, sellers)


def _rules_file(sellers: PublicData) -> str:
    bounds = zip(sellers.feature_names, sellers.low.tolist(), sellers.high.tolist(), strict=True)
    features = [f"{json.dumps(name)} = {{ low = {low!r}, high = {high!r} }}" for name, low, high in bounds]
    return "\n".join(
        [
            "# The market of dpmarket's demonstration: everything here is public.",
            "[campaign]",
            'name = "demonstration"',
            "",
            "[sellers]",
            f"expected = {len(sellers)}",
            "",
            "[costs]",
            f"distribution = {json.dumps(COSTS)}",
            "",
            "[objective]",
            f"budget = {BUDGET!r}",
            "# Without it the money would buy a better model from fewer people, with far larger epsilons.",
            f"max_mean_epsilon = {MAX_MEAN_EPSILON!r}",
            "",
            "[money]",
            f"currency = {json.dumps(CURRENCY)}",
            "",
            "[label]",
            'column = "diagnosis"',
            f"values = {json.dumps(list(sellers.classes))}",
            "",
            "[features]",
            *features,
            "",
        ]
    )


def _write_quotes(target: Path, epsilons: FloatArray, amounts: IntArray, minor_units: int) -> None:
    columns = {
        "seller": _ids(epsilons.size),
        "epsilon": epsilons,
        "payment": amounts / minor_units,
        "payment_minor_units": amounts,
    }
    write_table(target, pl.DataFrame(columns))
