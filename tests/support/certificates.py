"""Honest certificates of every release and every mechanism, and what a verification found."""

import functools
import hashlib

import numpy as np
import polars

import dpmarket as dpm
from dpmarket.campaign.rules.decision import bound_salt, sellers_digest
from dpmarket.certificates import certify
from dpmarket.certificates.certificate import make_certificate
from dpmarket.certificates.commitments import Sellers
from dpmarket.certificates.description import announce_rules, describe_market, rules_digest
from dpmarket.certificates.purchase import by_seller, release_of
from dpmarket.costs import Mixture
from dpmarket.learning import PrivateBinomialRegression, PrivateLinearSVC, PrivateQuantileRegressor
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism, split
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import Objective, PaperObjective
from dpmarket.mechanisms.outcome import Outcome, whole_units
from dpmarket.mechanisms.price_schedule import population_schedule, posted_price
from dpmarket.privacy import NoiseNorm
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    PrivateVectorMean,
    SeveralStatistics,
)
from support.forging import Papers

M = 21  # no power of two: some nodes of the tree have no sibling
RNG = np.random.default_rng(0)
COSTS = RNG.uniform(1.0, 5.0, M)
IDS = [f"sëller {k}" for k in range(M)]
X, Y = RNG.uniform(-0.5, 0.5, (M, 2)), np.arange(M) % 2
THREE = np.array(["a", "b", "c"])[np.arange(M) % 3]
JOBS = polars.DataFrame({"age": RNG.integers(18, 90, M), "job": RNG.choice(list("abcdef"), M)})
UNIFORM, OBJECTIVE = dpm.Uniform(1, 5), Objective.for_model(3, payment_weight=1e-2)
DELTA, NONCE = 1e-4, bytes(range(32))
MONEY = {"currency": "EUR", "minor_units": 100}
LINEAR, QUADRATIC = (EpsilonCost.identity(1.0, shape) for shape in ("linear", "quadratic"))
GAUSSIAN = EpsilonCost.of_delta(DELTA, 1.0)


def exact(objective=OBJECTIVE, table=LINEAR, **more):
    mechanism = OfflineMechanism(UNIFORM, objective, epsilon_cost=table)
    return mechanism.run(COSTS), mechanism.rules() | more


def in_groups():
    tables = [dpm.VirtualCost.of(UNIFORM), dpm.VirtualCost.of(dpm.Uniform(0.5, 6))]
    groups = [Group("town", 0.7, tables[0]), Group("country", 0.3, tables[1])]
    mechanism = OfflineMechanism(None, OBJECTIVE, epsilon_cost=LINEAR, groups=groups)
    return mechanism.run(COSTS, np.arange(M) % 2), mechanism.rules()


def by(schedule, table=LINEAR, mechanism="online", **more):
    epsilons, payments = schedule.quote(COSTS)
    terms = {"mechanism": mechanism, "epsilon_cost": table.to_dict()}
    rules = terms | {"schedules": [schedule.to_dict()]} | more
    return Outcome(epsilons, payments, epsilons / epsilons.sum(), float(epsilons.sum()), 0.1, 0.1), rules


@functools.cache
def market(name):
    """Return what a mechanism decided about everybody, and its rules."""
    descent = Objective.for_descent(3, 1e-2)
    return {
        "offline": exact,
        "quadratic": lambda: exact(table=QUADRATIC),
        "caps": lambda: exact(Objective.for_model(3, 1e-2, weight_cap=1.5, max_mean_epsilon=0.5)),
        "paper": lambda: exact(PaperObjective(1.0, 1.0, 2e-2), EpsilonCost.identity()),
        "groups": in_groups,
        "irregular": lambda: by(population_schedule(
            Mixture([dpm.Uniform(1, 2), dpm.Uniform(3, 5)], [0.5, 0.5]), OBJECTIVE, M, epsilon_cost=LINEAR)),
        "online": lambda: by(population_schedule(UNIFORM, OBJECTIVE, M, epsilon_cost=LINEAR)),
        "quadratic online": lambda: by(
            population_schedule(UNIFORM, OBJECTIVE, M, epsilon_cost=QUADRATIC), QUADRATIC),
        "posted": lambda: by(posted_price(3.33, 0.77, LINEAR), mechanism="posted price"),
        "delta": lambda: exact(descent, GAUSSIAN, delta=DELTA),
        "delta online": lambda: by(
            population_schedule(UNIFORM, descent, M, epsilon_cost=GAUSSIAN), GAUSSIAN, delta=DELTA),
    }[name]()  # fmt: skip


def model(outcome, x=X, y=Y, kind=dpm.PrivateLogisticRegression, people=None, **settings):
    settings = {"classes": (0, 1), **settings} if kind is dpm.PrivateLogisticRegression else settings
    budgets = outcome.epsilons if people is None else dict(zip(IDS, outcome.epsilons, strict=True))
    return kind(**settings).fit(x, y, epsilons=budgets, people=people)


ENCODER = dpm.PublicEncoder({"age": {"low": 18, "high": 90}, "job": {"categories": list("abcdef")}}).fit(JOBS)


def encoded(outcome, **settings):
    settings = settings if "delta" in settings else {"noise_norm": ENCODER.noise_norm(), **settings}
    return model(outcome, ENCODER.transform(JOBS), **settings)


def several(outcome):
    parts = {"age": PrivateMean(0.0, 10.0), "own": PrivateShare()}
    return SeveralStatistics(parts).fit({"age": np.arange(M) / 3, "own": Y == 1}, epsilons=outcome.epsilons)


UNITS = {"center": 0.0, "scale": 1.0}
MEDIAN = {"kind": PrivateQuantileRegressor, "quantile": 0.5, **UNITS}


def with_intervals(outcome, **settings):
    model = dpm.PrivateLogisticRegression((0, 1), fit_intercept=False, **settings)
    return model.fit(X[:, :1], Y, epsilons=outcome.epsilons, intervals=0.5)


def norm_of_two():
    return NoiseNorm([False, True], 0.9)


# By name: the market, and the release from its epsilons.
HONEST = {
    "two-classes": ("offline", model),
    "two-classes-online": ("online", model),
    "two-classes-posted": ("posted", model),
    "two-classes-quadratic": ("quadratic", model),
    "two-classes-quadratic-online": ("quadratic online", model),
    "two-classes-irregular": ("irregular", model),
    "two-classes-caps": ("caps", model),
    "two-classes-groups": ("groups", model),
    "two-classes-paper": ("paper", lambda o: model(o, l2=0.75)),
    "rows": ("offline", lambda o: model(
        o, np.tile(X, (5, 1)), np.tile(Y, 5), people=np.tile(IDS, 5), rows_per_person=5, l2=0.18)),
    "categories": ("offline", encoded),
    "mixed-norm": ("online", lambda o: model(o, noise_norm=norm_of_two(), x=X / 2)),
    "labels": ("offline", lambda o: model(o, private="labels")),
    "intervals": ("offline", lambda o: with_intervals(o)),
    "delta-intervals": ("delta", lambda o: with_intervals(o, delta=DELTA)),
    "regression": ("offline", lambda o: model(o, y=X[:, 0], kind=dpm.PrivateLinearRegression, **UNITS)),
    "shares": ("offline", lambda o: model(o, y=np.abs(X[:, 0]), kind=PrivateBinomialRegression)),
    "hinge": ("online", lambda o: model(o, kind=PrivateLinearSVC, classes=(0, 1))),
    "quantiles": ("online", lambda o: model(o, y=X[:, 0], **MEDIAN)),
    "softmax": ("offline", lambda o: model(o, y=THREE, classes=("a", "b", "c"), l2=0.3)),
    "softmax-categories": ("online", lambda o: encoded(o, y=THREE, classes=("a", "b", "c"))),
    "delta": ("delta", lambda o: model(o, delta=DELTA)),
    "delta-online": ("delta online", lambda o: model(o, delta=DELTA)),
    "delta-softmax": ("delta online", lambda o: model(o, y=THREE, classes=("a", "b", "c"), delta=DELTA)),
    "delta-categories": ("delta", lambda o: encoded(o, delta=DELTA)),
    "mean": ("offline", lambda o: PrivateMean(0.0, 10.0).fit(np.arange(M) / 3.0, epsilons=o.epsilons)),
    "share": ("online", lambda o: PrivateShare().fit(Y == 1, epsilons=o.epsilons)),
    "histogram": (
        "offline", lambda o: PrivateHistogram(("a", "b", "c")).fit(THREE.tolist(), epsilons=o.epsilons)),
    "quantile": ("online", lambda o: PrivateQuantile(0.5, candidates=range(0, 21, 2)).fit(
        np.arange(M), epsilons=o.epsilons)),
    "vector-mean": (
        "offline", lambda o: PrivateVectorMean(("east", "north"), bound=1.0).fit(X, epsilons=o.epsilons)),
    "several": ("online", several),
}  # fmt: skip


def honest(name):
    """Return a fresh certificate, by the name of a row above or "cross-priced"."""
    if name == "cross-priced":
        return cross_priced()[0]
    way, release = HONEST[name]
    outcome, rules = market(way)
    groups = np.arange(M) % 2 if way == "groups" else None
    encoder = ENCODER if "categories" in name else None
    return certify(
        outcome, release(outcome), rules, seller_ids=IDS, currency="EUR", groups=groups, encoder=encoder
    )


def cross_priced(sellers=64):
    """Return a certificate of a cross-priced market with announced rules, its costs by id, and the rules."""
    ids = [f"s{k}" for k in range(sellers)]
    costs = np.random.default_rng(3).uniform(1.0, 5.0, sellers)
    mechanism = CrossPricedMechanism(UNIFORM, OBJECTIVE, 40.0, epsilon_cost=LINEAR, minor_unit=0.01)
    by_parts = {"mechanism": "cross-priced", "budget": 40.0, "split": {
        "nonce": hashlib.sha256(NONCE).hexdigest(), "parts": 16}}  # fmt: skip
    exact = {"mechanism": "offline", "budget": None, "split": None}
    announced = {name: {"by_sellers": [[0, exact[name]], [50, by_parts[name]]]} for name in exact}
    announced["epsilon_cost"] = LINEAR.to_dict()
    rules = announce_rules(
        announced,
        {"family": "norm", "terms": {"private": "records", "rows_per_person": 1}},
        MONEY,
        committed_at="2026-01-01T00:00:00+00:00",
    )
    digest = sellers_digest(NONCE, ids)
    salt = bound_salt(rules_digest(rules), digest)
    outcome, prices = mechanism.run(ids, costs, salt=salt)
    rng = np.random.default_rng(4)
    fitted = model(outcome, rng.uniform(-0.5, 0.5, (sellers, 2)), np.arange(sellers) % 2)
    used, weights = by_seller(ids, fitted)
    decided = mechanism.rules(prices) | {"sellers": digest, "nonce": hashlib.sha256(NONCE).hexdigest()}
    made = make_certificate(
        Sellers(
            ids, outcome.epsilons, whole_units(outcome.payments, 100), used, weights, parts=split(ids, salt)),
        describe_market(decided), release_of(fitted), MONEY,
        rules=rules, quoted_at="2026-01-02T00:00:00+00:00", nonce=NONCE,
    )  # fmt: skip
    return made, dict(zip(ids, costs.tolist(), strict=True)), rules


def papers_of(certificate):
    """Return a certificate's papers, for a forger."""
    return Papers(bytes(certificate), certificate.openings())


def reports_file(costs):
    """Return reports as a CSV file."""
    return ("id,cost\n" + "".join(f"{name},{cost!r}\n" for name, cost in costs.items())).encode()


def failing(result):
    """Return the names of the checks that failed."""
    return {check.name for check in result.checks if check.verdict == "FAILS"}
