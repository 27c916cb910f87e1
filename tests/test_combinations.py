"""Whatever can be bought can be bought in every way and shown in every place; exceptions stand in one table.

A row of `BROKEN` names what is bought, how, and where it is shown (`*`: any), with the reason. Its tests are
strict expected failures: whoever mends one deletes the row. Rows of `SLOW` work and take long.
"""

import functools
import hashlib
import json
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket import statistics
from dpmarket.campaign.rules.questions import Question
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import Objective
from outside.driver import FileCampaign, run, running_service, until
from outside.goods import GOODS, sellers, tables
from outside.many import ManyFiles
from support import networks
from support.forging import canonical
from support.receipt_page import NODE, page_checks

PEOPLE, POSTED = 20, 120  # a posted price buys from few
EXPECTED = 100  # offline, markets of fewer are simulated before they open
WAYS = (
    *("file offline", "file online", "file posted price", "many files offline"),
    *("live offline", "live online", "live posted price", "library offline"),
)
PLACES = ("certificate", "verify", "receipt page", "removed menu", "report", "score", "account")
# What is bought, how, where it is shown, why it does not work.
BROKEN = [
    ("intervals", "many files *", "*", "refused: noisy Hessians are not added up over files"),
    ("delta, torch", "many files *", "*", "refused: networks are trained in one place"),
]
MANY_SLOW = ("[ghqsv]*", "cat*", "rows", "mean", "regression*", "delta*")
SLOW = [
    *((good, "many files *", "*") for good in MANY_SLOW),
    *((good, "live *", "*") for good in ("regression*", "quantile regression")),
    *((good, "* posted price", "*") for good in ("regression*", "quantile regression")),
    *((good, "file *", "report") for good in ("regression*",)),
    ("delta*", "*", "report"),
    ("delta*", "*", "score"),
    ("softmax, categories", "live *", "report"),
    *((good, "file *", "report") for good in ("gaps*", "rows", "softmax", "[hqsv]*", "mean")),
    *((good, "file o*", "score") for good in ("rows", "softmax")),
    *((good, "live offline", "*") for good in ("categories", "softmax", "several*")),
    *((good, way, "*") for good in ("rows", "gaps*", "delta, *") for way in ("live *", "* posted price")),
    *((good, way, "*") for good in ("share", "histogram", "quantile", "vector mean") for way in ("live o*",)),
    *((good, "* posted price", "*") for good in ("categories", "softmax*", "mean", "share", "histogram")),
    *((good, "* posted price", "*") for good in ("quantile", "vector mean")),
    *((good, "live online", "*") for good in ("categories", "softmax", "mean")),
    ("softmax, categories", "live offline", "*"),
    *((good, "file online", "*") for good in ("rows", "softmax", "mean", "share", "histogram")),
    *((good, "file online", "*") for good in ("vector mean", "quantile*", "regression, *", "delta, [rs]*")),
    *(("intervals", way, "*") for way in ("live o*", "* posted price", "file online")),
]


def rows():
    """Return every combination that makes sense, with its mark."""
    for good in GOODS:
        for way in WAYS:
            for place in PLACES:
                if place == "removed menu" and "offline" in way:
                    continue  # sellers who are asked for a cost see no menu
                if place == "score" and (not GOODS[good].is_model or "file" not in way):
                    continue
                if place == "report" and (way == "live posted price" or ("delta" in good and "live" in way)):
                    continue  # fewer than ten people are bought from here, and totals would tell about them
                if way.startswith("library") and place in ("report", "account"):
                    continue  # a library's caller has neither
                yield pytest.param(good, way, place, marks=_marks(good, way, place))


def _marks(*row):
    reasons = [why for *pattern, why in BROKEN if all(map(fnmatchcase, row, pattern))]
    broken = [pytest.mark.xfail(strict=True, reason=why) for why in reasons[:1]]
    slow = any(all(map(fnmatchcase, row, pattern)) for pattern in SLOW)
    page = row[2] in ("receipt page", "removed menu") and NODE is None
    return [*broken, *[pytest.mark.slow] * slow, *[pytest.mark.skip(reason="node is not there")] * page]


@pytest.mark.parametrize(("good", "way", "place"), list(rows()))
def test_everything_bought_in_every_way_is_shown_everywhere(good, way, place, service):
    SHOWN[place](purchase(good, way, service))


# --- where it is shown ---------------------------------------------------------------------------


def show_certificate(bought):
    body = json.loads(bought.certificate.splitlines()[0].removesuffix(b",") + b"}")["body"]
    assert 0 < body["totals"]["bought_from"] <= body["totals"]["sellers"] <= len(bought.ids)
    assert body["totals"]["total_payment"] > 0


def show_verify(bought):
    assert "FAILS" not in bought.verify().values()


def show_receipt_page(bought):
    honest = page_checks(bought.page, bought.certificate, bought.receipt, bought.cost)
    assert "FAILS" not in honest.values(), honest
    changed = json.loads(bought.receipt)
    changed["line"]["payment"] *= 2
    forged = page_checks(bought.page, bought.certificate, json.dumps(changed).encode(), bought.cost)
    assert "FAILS" in forged.values()


def show_removed_menu(bought):
    """A certificate that leaves out the prices that sellers chose from is no certificate."""
    first, *rest = bought.certificate.splitlines(keepends=True)
    body = json.loads(first.rstrip().removesuffix(b",") + b"}")["body"]
    body["market"]["prices"] = []
    text = canonical(body)
    receipt = json.loads(bought.receipt) | {"certificate": hashlib.sha256(text).hexdigest()}
    forged = b"".join([b'{"body":' + text + b",\n", *rest])
    found = page_checks(bought.page, forged, canonical(receipt) + b"\n", bought.cost)
    assert found["layout"] == "holds", found
    assert "FAILS" in found.values(), found


def show_report(bought):
    page = bought.report()
    assert "<html" in page
    assert "src=" not in page.replace('src="data:', "")


def show_score(bought):
    bought.report("--test", "data.csv")


def show_account(bought):
    promised, spent = bought.account()
    assert 0 < spent <= promised + 2**-30  # accounts round up to whole units


SHOWN = {
    "certificate": show_certificate,
    "verify": show_verify,
    "receipt page": show_receipt_page,
    "removed menu": show_removed_menu,
    "report": show_report,
    "score": show_score,
    "account": show_account,
}


# --- how it is bought ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that starts when it is first asked for."""
    started = []

    @functools.cache
    def start():
        context = running_service(
            tmp_path_factory.mktemp("live"), torch_factories=networks.NAME, lifetime_epsilon=20.0
        )
        started.append(context)
        return context.__enter__()

    yield start
    for context in started:
        context.__exit__(None, None, None)


@functools.cache
def purchase(good, way, service):
    """Return a purchase; nothing is done before something of it is shown."""
    place, _, mechanism = way.rpartition(" ") if "posted" not in way else way.partition(" ")
    goods = GOODS[good]
    if place == "library":
        return LibraryPurchase(goods)
    if place == "live":
        return LivePurchase(goods, mechanism, service)
    return FilePurchase(goods, mechanism, ManyFiles if place == "many files" else FileCampaign)


def objective_of(mechanism):
    """Return what rules say about a mechanism: its name there, and a budget for a posted price."""
    named = {"mechanism": "posted" if mechanism == "posted price" else mechanism}
    return named | ({"budget": 90.0} if mechanism == "posted price" else {})


@functools.cache
def receipt_page():
    """Return the page that everybody can have without a campaign."""
    with tempfile.TemporaryDirectory() as folder:
        run("receipts", "--page", "page.html", cwd=folder)
        return (Path(folder) / "page.html").read_text(encoding="utf-8")


class FilePurchase:
    """A campaign from one file of reports and one of records, or from many."""

    def __init__(self, good, mechanism, kind):
        number = POSTED if mechanism == "posted price" else PEOPLE
        self.ids, costs, people = sellers(good, number)
        self._who = int(np.argmin(costs))
        self.cost, self._mechanism = costs[self._who], mechanism
        expected = EXPECTED if mechanism == "offline" else number
        rules = good.rules(expected, **objective_of(mechanism))
        self._campaign = kind(tempfile.mkdtemp(), rules, *tables(self.ids, costs, people))

    @functools.cached_property
    def _released(self):
        self._campaign.quote()
        self._campaign.train()
        return self._campaign

    @functools.cached_property
    def _certified(self):
        self._released.certify()
        self._campaign.receipts()
        return self._campaign

    @property
    def certificate(self):
        return (self._certified / "certificate.json").read_bytes()

    @property
    def receipt(self):
        return self._certified.receipt_of(self.ids[self._who]).read_bytes()

    @property
    def page(self):
        return (self._certified / "page.html").read_text(encoding="utf-8")

    def verify(self):
        files = ("--openings", "openings.json")
        receipt = self._certified.receipt_of(self.ids[self._who])
        found = self._campaign.verify(*files, "--receipt", receipt).json
        return {check["name"]: check["verdict"] for check in found["checks"]}

    def report(self, *options):
        self._released.report("--force", *options)
        return (self._campaign / "report.html").read_text(encoding="utf-8")

    def account(self):
        (line,) = self._released.run("statement", self.ids[self._who], "--json").json["campaigns"]
        return line["epsilon"], line["spent"]


class LivePurchase:
    """A campaign of a service."""

    number = 0

    def __init__(self, good, mechanism, service):
        # With a delta a report takes half a minute, in which the worker does nothing else.
        self.ids, self._costs, people = sellers(good, 12 if good.delta is None else 6)
        self._who = int(np.argmin(self._costs))
        self.cost, self._good = self._costs[self._who], good
        self._mechanism, self._service = mechanism, service
        self._records = [person if good.rows > 1 else person[0] for person in people]

    @functools.cached_property
    def _released(self):
        service, mechanism = self._service(), self._mechanism.removesuffix(" price")
        expected = POSTED if mechanism == "posted" else len(self.ids)
        rules = self._good.rules(expected, **({"budget": 90.0} if mechanism == "posted" else {}))
        LivePurchase.number += 1
        day = 20 * LivePurchase.number
        service.ahead(days=day)
        campaign = service.open(rules, mechanism)
        names = [f"{name} of campaign {day}" for name in self.ids]
        people = service.invite(campaign, *names)
        for person, cost, record in zip(people, self._costs, self._records, strict=True):
            person.sell(cost, record, mechanism)
        if mechanism == "offline":
            service.ahead(days=day + 7.5)
            service.until_state(campaign, "offered")
            for person, record in zip(people, self._records, strict=True):
                if person.quote()["epsilon"]:
                    person.deliver(record)
        service.ahead(days=day + 9.5)
        service.until_state(campaign, "released")
        return service, campaign, people[self._who]

    @functools.cached_property
    def _certified(self):
        until(lambda: self._released[2].request("GET", "/me/receipt").is_success)
        return self._released

    @property
    def certificate(self):
        service, campaign, _ = self._certified
        return service.paper(campaign, "certificate")

    @property
    def receipt(self):
        return self._certified[2].get("/me/receipt").content

    @property
    def page(self):
        return receipt_page()

    def verify(self):
        folder = tempfile.mkdtemp(prefix="outside-")
        for name, content in (("certificate.json", self.certificate), ("receipt.json", self.receipt)):
            (Path(folder) / name).write_bytes(content)
        found = run("verify", "certificate.json", "--receipt", "receipt.json", "--json", cwd=folder).json
        return {check["name"]: check["verdict"] for check in found["checks"]}

    def report(self):
        service, campaign, _ = self._released
        until(lambda: service.members["buyer"].request("GET", f"/campaigns/{campaign}/report").is_success)
        return service.paper(campaign, "report").decode()

    def account(self):
        seller = self._released[2]
        return seller.quote()["epsilon"], seller.limits()["spent"]


class LibraryPurchase:
    """A purchase by the library alone: a mechanism, an estimator or a statistic, a certificate."""

    def __init__(self, good):
        self.ids, self._costs, self._people = sellers(good, PEOPLE)
        self._who = int(np.argmin(self._costs))
        self.cost, self._good = self._costs[self._who], good

    @functools.cached_property
    def _certificate(self):
        objective = Objective.for_model(3, payment_weight=0.001)
        table = EpsilonCost.identity(max_epsilon=self._good.aims.get("max_epsilon", 1.0))
        mechanism = OfflineMechanism(dpm.Uniform(1, 5), objective, epsilon_cost=table)
        outcome = mechanism.run(np.array(self._costs))
        budgets = dict(zip(self.ids, outcome.epsilons.tolist(), strict=True))
        return dpm.certify(
            outcome, self._fitted(budgets), mechanism.rules(),
            seller_ids=self.ids, minor_units=100, currency="EUR",
        )  # fmt: skip

    def _fitted(self, budgets):
        rows = [row for person in self._people for row in person]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        people = [who for who, person in zip(self.ids, self._people, strict=True) for _ in person]
        if self._good.is_model:
            encoder = dpm.PublicEncoder(self._good.tables["features"])
            x = encoder.fit_transform(columns)
            model = self._estimator(encoder.noise_norm())
            more = {name: share for name, share in self._training.items() if name == "intervals"}
            return model.fit(x, columns[self._good.outcome], epsilons=budgets, people=people, **more)
        asked = self._good.questions()
        parts = {name: statistic_of(*question) for name, question in asked.items()}
        records = {
            name: np.column_stack([columns[c] for c in named]).squeeze() for name, (_, named) in asked.items()
        }
        (name,) = list(asked)[:1]
        if len(asked) == 1:
            return parts[name].fit(records[name], epsilons=budgets, people=people)
        return statistics.SeveralStatistics(parts).fit(records, epsilons=budgets, people=people)

    @property
    def _training(self):
        return self._good.tables.get("training", {})

    def _estimator(self, norm):
        if "model" in self._training:
            classes = tuple(self._good.tables["label"]["values"])
            return dpm.PrivateTorchClassifier(classes=classes, delta=self._good.delta, **networks.small(2, 2))
        common = {
            "rows_per_person": self._good.rows, "delta": self._good.delta, "noise_norm": norm,
        }  # fmt: skip
        target = self._good.tables.get("target")
        if target is None:
            classes = tuple(self._good.tables["label"]["values"])
            return dpm.PrivateLogisticRegression(classes=classes, **common)
        if "quantile" in target:
            return dpm.PrivateQuantileRegressor(target["quantile"], 40.0, 20.0, **common)
        return dpm.PrivateLinearRegression(40.0, 20.0, **common)

    @property
    def certificate(self):
        return bytes(self._certificate)

    @property
    def receipt(self):
        return self._certificate.receipt(self.ids[self._who])

    @property
    def page(self):
        return receipt_page()

    def verify(self):
        opened = {"openings": self._certificate.openings(), "receipt": self.receipt}
        return {check.name: check.verdict for check in dpm.verify(self._certificate, **opened).checks}


def statistic_of(question, columns):
    """Return the library's statistic for a question of a rules file."""
    named = {"columns": columns} if question["kind"] == "vector_mean" else {"column": columns[0]}
    return Question(**question, **named).statistic()
