"""Whatever can be bought can be bought in every way and shown in every place; exceptions stand in one table.

A row of `BROKEN` names what is bought, how, and where it is shown (`*`: any), with the reason. Its tests are
strict expected failures: a mended one deletes the row. `certificates/test_honest.py` has the library alone.
"""

import functools
import json
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from outside.driver import FileCampaign, run, running_service, until
from outside.goods import GOODS, sellers, tables
from outside.many import ManyFiles
from support import networks
from support.receipt_page import NODE, page_checks

PEOPLE, POSTED = 20, 120  # a posted price buys from few
BUDGET = {"posted": {"budget": 90.0}}
EXPECTED = 100  # offline, markets of fewer are simulated before they open
WAYS = (
    *("file offline", "file online", "file posted", "many files offline"),
    *("live offline", "live online", "live posted"),
)
PLACES = ("certificate", "verify", "receipt page", "report", "score", "account")
# What is bought, how, where it is shown, why it does not work.
BROKEN = [
    ("intervals", "many files *", "*", "refused: noisy Hessians are not added up over files"),
    ("delta, torch", "many files *", "*", "refused: networks are trained in one place"),
]
# What `make test` buys in another way than offline from a file; the rest is slow.
QUICK = {
    "two classes": WAYS,
    "categories": ("file online",),
    "gaps, dates, yes/no": ("file online", "live online"),
    "rows": ("live online",),
    "softmax, categories": ("live online",),
    "delta": ("file online", "file posted", "live offline"),
    "delta, torch": ("file online",),
    "intervals": ("many files offline",),
    "several statistics": ("live online", "live posted"),
}
SCORED = ("two classes", "categories", "intervals")  # reports and scores of others are slow


def rows():
    """Return every combination that makes sense, with its mark."""
    for good in GOODS:
        for way in WAYS:
            for place in PLACES:
                if place == "score" and (not GOODS[good].is_model or "file" not in way):
                    continue
                if place == "report" and (way == "live posted" or ("delta" in good and "live" in way)):
                    continue  # fewer than ten people are bought from here, and totals would tell about them
                yield pytest.param(good, way, place, marks=_marks(good, way, place))


def _marks(*row):
    reasons = [why for *pattern, why in BROKEN if all(map(fnmatchcase, row, pattern))]
    broken = [pytest.mark.xfail(strict=True, reason=why) for why in reasons[:1]]
    good, way, place = row
    slow = way not in ("file offline", *QUICK.get(good, ()))
    slow |= place in ("report", "score") and good not in SCORED
    page = place == "receipt page" and NODE is None
    return [*broken, *[pytest.mark.slow] * slow, *[pytest.mark.skip(reason="node is not there")] * page]


@pytest.mark.parametrize(("good", "way", "place"), list(rows()))
def test_everything_bought_in_every_way_is_shown_everywhere(good, way, place, request):
    service = request.getfixturevalue("service") if "live" in way else None
    SHOWN[place](purchase(good, way, service))


# --- where it is shown ---------------------------------------------------------------------------


def show_certificate(bought):
    body = json.loads(bought.certificate.splitlines()[0].removesuffix(b",") + b"}")["body"]
    assert 0 < body["totals"]["bought_from"] <= body["totals"]["sellers"] <= len(bought.ids)
    assert body["totals"]["total_payment"] > 0


def show_verify(bought):
    assert "FAILS" not in bought.verify().values()


def show_receipt_page(bought):
    honest = page_checks(receipt_page(), bought.certificate, bought.receipt, bought.cost)
    assert "FAILS" not in honest.values(), honest
    changed = json.loads(bought.receipt)
    changed["line"]["payment"] *= 2
    forged = page_checks(receipt_page(), bought.certificate, json.dumps(changed).encode(), bought.cost)
    assert "FAILS" in forged.values()


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
    "report": show_report,
    "score": show_score,
    "account": show_account,
}


# --- how it is bought ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    settings = {"torch_factories": networks.NAME, "lifetime_epsilon": 20.0}
    with running_service(tmp_path_factory.mktemp("live"), **settings) as made:
        yield made


@functools.cache
def purchase(good, way, service):
    """Return a purchase; nothing is done before something of it is shown."""
    place, mechanism = way.rsplit(" ", 1)
    if place == "live":
        return LivePurchase(GOODS[good], mechanism, service)
    return FilePurchase(GOODS[good], mechanism, ManyFiles if place == "many files" else FileCampaign)


@functools.cache
def receipt_page():
    """Return the page that everybody can have without a campaign."""
    with tempfile.TemporaryDirectory() as folder:
        run("receipts", "--page", "page.html", cwd=folder)
        return (Path(folder) / "page.html").read_text(encoding="utf-8")


class FilePurchase:
    """A campaign from one file of reports and one of records, or from many."""

    def __init__(self, good, mechanism, kind):
        number = POSTED if mechanism == "posted" else PEOPLE
        self.ids, costs, people = sellers(good, number)
        self._who = int(np.argmin(costs))
        self.cost = costs[self._who]
        expected = EXPECTED if mechanism == "offline" else number
        rules = good.rules(expected, mechanism=mechanism, **BUDGET.get(mechanism, {}))
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

    def __init__(self, good, mechanism, service):
        # With a delta a report takes half a minute, in which the worker does nothing else.
        number = 36 if mechanism == "posted" else 12
        self.ids, self._costs, people = sellers(good, number if good.delta is None else 6)
        self._who = int(np.argmin(self._costs))
        self.cost, self._good = self._costs[self._who], good
        self._mechanism, self._service = mechanism, service
        self._records = [person if good.rows > 1 else person[0] for person in people]

    @functools.cached_property
    def _released(self):
        service, mechanism = self._service, self._mechanism
        expected = POSTED if mechanism == "posted" else len(self.ids)
        rules = self._good.rules(expected, **BUDGET.get(mechanism, {}))
        campaign = service.open(rules, mechanism)
        names = [f"{name} of {campaign}" for name in self.ids]
        people = service.invite(campaign, *names)
        for person, cost, record in zip(people, self._costs, self._records, strict=True):
            person.sell(cost, record, mechanism)
        if mechanism == "offline":
            service.ahead(days=7.5)
            service.until_state(campaign, "offered")
            for person, record in zip(people, self._records, strict=True):
                if person.quote()["epsilon"]:
                    person.deliver(record)
        service.ahead(days=2 if mechanism == "offline" else 9.5)
        service.until_state(campaign, "released")
        return service, campaign, people[self._who]

    @functools.cached_property
    def certificate(self):
        service, campaign, _ = self._released
        return service.certified(campaign)

    @property
    def receipt(self):
        assert self.certificate  # receipts come with it
        return self._released[2].get("/me/receipt").content

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
