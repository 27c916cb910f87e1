"""Make the good files anew: ``python tests/certificates/make_files.py NAMES``, all or the named.

They are kept because salts and noise are new at every run, and because files that were good once must stay
good.
"""

import csv
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np

import dpmarket as dpm
from dpmarket.campaign import certify_quotes, decide_offline, quote_file, train_file
from dpmarket.certificates import Purchase, ReleasedModel, certify, certify_purchase, publishable_rules
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import PaperObjective
from dpmarket.mechanisms.outcome import Outcome, whole_units
from dpmarket.mechanisms.price_schedule import population_schedule, posted_price
from dpmarket.statistics import PrivateHistogram, PrivateMean, PrivateQuantile, PrivateVectorMean

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.statistics import SEVERAL, make_statistic_campaign

FOLDER = Path(__file__).parent / "files" / "version-2"
OTHERS = FOLDER.parent / "other-kinds"
SELLERS = 20
IDS = [f"sëller {k}" for k in range(SELLERS)]
DIST = dpm.Uniform(1.0, 5.0)
FEATURES = {"age": (18.0, 90.0), "yearly income": (0.0, 1e5), "ward's size": (0.5, 2.5)}


def costs():
    return DIST.sample(SELLERS, np.random.default_rng(4))


def fitted(epsilons, rows_per_person=1, **settings):
    """Return a model of random records, each of whose owners has so many."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-0.5, 0.5, size=(SELLERS * rows_per_person, 3))
    y = np.where(x[:, 0] > 0.0, "yes", "no")
    model = dpm.PrivateLogisticRegression(classes=("no", "yes"), rows_per_person=rows_per_person, **settings)
    promises = dict(zip(IDS, np.asarray(epsilons).tolist(), strict=True))
    return model.fit(x, y, epsilons=promises, people=IDS * rows_per_person)


def offline(payment_weight=2e-2):
    """Return what the exact mechanism decides, and its rules."""
    mechanism = OfflineMechanism(DIST, PaperObjective(1.0, 1.0, payment_weight))
    return mechanism.run(costs()), mechanism.rules()


def quoted(schedule, mechanism):
    """Return what a schedule offers, and its rules."""
    epsilons, payments = schedule.quote(costs())
    total = float(epsilons.sum())
    rules = {
        "mechanism": mechanism,
        "distribution": DIST.to_dict(),
        "epsilon_cost": EpsilonCost.identity().to_dict(),
        "schedule": schedule.to_dict(),
    }
    return Outcome(epsilons, payments, epsilons / total, total, 0.1, 0.1), rules


def withdrawn():
    """Certify a market in which two have left: one who was bought from, and one who was not."""
    outcome, rules = offline()
    left = [int(np.flatnonzero(outcome.epsilons > 0.0)[1]), int(np.flatnonzero(outcome.epsilons == 0.0)[0])]
    withdrew = np.isin(np.arange(SELLERS), left)
    model = fitted(np.where(withdrew, 0.0, outcome.epsilons))
    return certify(
        outcome, model, rules, seller_ids=IDS, minor_units=100, currency="EUR", features=FEATURES,
        withdrawn=[IDS[k] for k in left],
    )  # fmt: skip


def purchase_of(outcome, rules, model, minor_units):
    payments = outcome.payments if minor_units is None else whole_units(outcome.payments, minor_units)
    return Purchase(
        mechanism=rules["mechanism"],
        parameters=rules,
        seller_ids=np.array(IDS),
        promises=outcome.epsilons,
        payments=np.array(payments, dtype=np.float64),
        minor_units=minor_units,
        spent=np.array(model.epsilons_),
        weights=np.array(model.loss_weights_),
        withdrew=np.zeros(SELLERS, dtype=bool),
        quotes=np.ones(SELLERS, dtype=np.int64),
        currency="EUR",
    )


def online():
    """Certify sellers who came one by one, by rules that were published."""
    schedule = population_schedule(DIST, PaperObjective(1.0, 1.0, 1e-2), SELLERS)
    outcome, decided = quoted(schedule, "online")
    market = {
        "features": {name: {"low": low, "high": high} for name, (low, high) in FEATURES.items()},
        "label": {"column": "label", "values": ["no", "yes"]},
        "money": {"currency": "EUR", "minor_units": 100},
    }
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rules = publishable_rules(DIST.to_dict(), market, {"online": decided}, at)
    model = fitted(outcome.epsilons)
    purchase = purchase_of(outcome, decided, model, minor_units=100)
    reference = rules.reference("2026-02-01T00:00:00+00:00")
    (FOLDER / "online.rules.json").write_bytes(rules.data)
    return certify_purchase(purchase, ReleasedModel.of(model, FEATURES), rules=reference)


def curved():
    """Certify a model with a small penalty and several rows for each, whose losses are no straight line."""
    outcome, rules = offline(payment_weight=1e-3)
    model = fitted(outcome.epsilons, rows_per_person=3, l2=0.02, fit_intercept=False)
    return certify(outcome, model, rules, seller_ids=IDS, features=FEATURES)


def posted():
    outcome, rules = quoted(posted_price(3.0, 0.5), "posted price")
    model = fitted(outcome.epsilons)
    return named(outcome, model, rules, features=FEATURES)


def named(outcome, model, rules, **options):
    return certify(outcome, model, rules, seller_ids=IDS, minor_units=100, currency="EUR", **options)


def shaped(**settings):
    """Certify a model of a table with categories; without a delta its noise has the shape of its rows."""
    rng = np.random.default_rng(6)
    letters = list("abcdefgh")
    encoder = dpm.PublicEncoder(
        {
            "age": dpm.learning.Numbers(18.0, 90.0, missing=40.0),
            "own": dpm.learning.YesNo(missing_category=True),
        }
        | {f"answer {k}": dpm.learning.Categories(tuple(letters), other=True) for k in range(4)}
    )
    table = {
        "age": rng.uniform(18.0, 90.0, SELLERS).tolist(),
        "own": (rng.uniform(size=SELLERS) < 0.5).tolist(),
    }
    table |= {f"answer {k}": rng.choice(letters, SELLERS).tolist() for k in range(4)}
    outcome, rules = offline(payment_weight=1e-3)
    model = dpm.PrivateLogisticRegression(classes=("no", "yes"), **settings)
    y = np.where(rng.uniform(size=SELLERS) < 0.5, "no", "yes")
    model.fit(encoder.fit_transform(table), y, epsilons=outcome.epsilons)
    names = encoder.get_feature_names_out().tolist()
    purchase = purchase_of(outcome, rules, model, minor_units=None)
    released = ReleasedModel.of(model, dict.fromkeys(names, (-1.0, 1.0)))
    return certify_purchase(purchase, replace(released, encoder=encoder.to_dict()))


def softmax(rows_per_person):
    """Certify a model of four classes; with more rows than columns the other bound on losses decides."""
    outcome, rules = offline(payment_weight=1e-3)
    rng = np.random.default_rng(7)
    x = rng.uniform(-0.5, 0.5, size=(SELLERS, 3))
    y = np.array(["bus", "car", "ship", "train"])[rng.integers(0, 4, SELLERS)]
    model = dpm.PrivateLogisticRegression(
        classes=("bus", "car", "ship", "train"), rows_per_person=rows_per_person, l2=0.25
    ).fit(x, y, epsilons=outcome.epsilons)
    return named(outcome, model, rules, features=FEATURES)


def gaussian(classes, rows_per_person=1):
    """Certify a model with a delta."""
    outcome, rules = offline(payment_weight=1e-3)
    rng = np.random.default_rng(8)
    x = rng.uniform(-0.5, 0.5, size=(SELLERS * rows_per_person, 3))
    y = np.array(classes)[rng.integers(0, len(classes), len(x))]
    model = dpm.PrivateLogisticRegression(classes=classes, rows_per_person=rows_per_person, delta=1e-6)
    promises = dict(zip(IDS, outcome.epsilons.tolist(), strict=True))
    model.fit(x, y, epsilons=promises, people=IDS * rows_per_person)
    return named(outcome, model, rules, features=FEATURES)


def statistic(asked, records):
    """Certify one statistic."""
    outcome, rules = offline(payment_weight=1e-3)
    return named(outcome, asked.fit(records, epsilons=outcome.epsilons), rules)


def several_statistics():
    """Certify a campaign that asked for five."""
    with tempfile.TemporaryDirectory() as name, patch.dict("os.environ", DPMARKET_STATE=name):
        folder = Path(name)
        make_statistic_campaign(folder, market=SEVERAL, sellers=SELLERS)
        market, quotes = folder / "market.toml", folder / "quotes.csv"
        quote_file(market, folder / "reports.csv", quotes, decide_offline)
        train_file(market, quotes, folder / "data.csv", folder / "out.json")
        shutil.copy(folder / "reports.csv", OTHERS / "several.reports.csv")
        return certify_quotes(market, quotes)


def offline_certificate():
    outcome, rules = offline()
    return named(outcome, fitted(outcome.epsilons), rules, features=FEATURES)


def main(names):
    FOLDER.mkdir(exist_ok=True)
    makers = {
        "offline": offline_certificate,
        "withdrawn": withdrawn,
        "online": online,
        "curved": curved,
        "posted": posted,
        "shaped": lambda: shaped(l2=0.01),
        "softmax": lambda: softmax(rows_per_person=1),
        "softmax-many-rows": lambda: softmax(rows_per_person=9),
    }
    records = np.random.default_rng(9).uniform(0.0, 10.0, SELLERS)
    others = {
        "gaussian": lambda: gaussian(("no", "yes")),
        "gaussian-rows": lambda: gaussian(("no", "yes"), rows_per_person=3),
        "gaussian-encoded": lambda: shaped(delta=1e-6),
        "gaussian-softmax": lambda: gaussian(("bus", "car", "ship", "train")),
        "mean": lambda: statistic(PrivateMean(0, 10), records),
        "histogram": lambda: statistic(PrivateHistogram(("a", "b", "c")), [*"abca"] * 5),
        "quantile": lambda: statistic(PrivateQuantile(0.5, candidates=range(0, 11)), records),
        "vector": lambda: statistic(
            PrivateVectorMean(("x", "y"), 20.0), np.column_stack([records, records[::-1]])
        ),
        "several": several_statistics,
    }
    OTHERS.mkdir(exist_ok=True)
    for name in names or (makers | others):
        certificate = (makers | others)[name]()
        folder = OTHERS if name in others else FOLDER
        (folder / f"{name}.certificate.json").write_bytes(bytes(certificate))
        (folder / f"{name}.openings.json").write_bytes(certificate.openings())
        if name == "several":
            continue
        with open(folder / f"{name}.reports.csv", "w", newline="", encoding="utf-8") as file:
            rows = zip(IDS, map(repr, costs().tolist()), strict=True)
            csv.writer(file, lineterminator="\n").writerows([("seller", "cost"), *rows])


if __name__ == "__main__":
    main(sys.argv[1:])
