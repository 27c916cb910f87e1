"""A cost, answers, an address, an account, every token: in no log, metric or file, on no other's page."""

import contextlib
import email
import re
import socket
import tempfile

import pytest
from aiosmtpd.controller import Controller
from prometheus_client import generate_latest

from dpmarket.market import work
from dpmarket.report import make_reports
from dpmarket.web.mailing import send_due
from dpmarket.web.pages.meaning import cost_of
from dpmarket.web.settings import Settings
from support.canaries import files_under, forms_of, found_in, logging_to_text
from support.live import ANSWERS, ASKED, MARKET, RECORD
from support.readers import Reader, again, member_of
from support.shop import SOLD, open_shop

OTHERS = 11  # with one more there are enough for a report
ADDRESS = "canary-address@example.org"
PAYEE = "canary account 4711"
AMOUNT = "1.0987654321"  # what they say their privacy is worth
AGE, INCOME, EAST = 41.98765432101, 27_182.8182, 0.71828182845
WITH_DELTA = {**MARKET, "objective": {"payment_weight": 0.01, "max_epsilon": 1.0, "delta": 6e-4}}
CASES = {
    "a delta": (WITH_DELTA, RECORD, {"f0": AGE, "f1": INCOME, "label": "yes"}),
    "statistics": (ASKED, ANSWERS, {"f0": AGE, "f1": "car", "f2": "yes", "f3": EAST, "f4": "-1"}),
}


class Box:
    """A mail server that keeps what it gets."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(email.message_from_bytes(envelope.content))
        return "250 OK"


@contextlib.contextmanager
def mail_server(box):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.mark.parametrize("case", [pytest.param("a delta", marks=pytest.mark.slow), "statistics"])
def test_what_is_private_is_on_nobody_elses_page_and_in_no_log_metric_or_file(tmp_path, monkeypatch, case):
    rules, answers, typed = CASES[case]
    folder, temporary = tmp_path / "shop", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    box = Box()
    with logging_to_text() as logged, mail_server(box) as port:
        mailing = {"smtp_url": f"smtp+plain://127.0.0.1:{port}", "mail_from": "market@example.org"}
        with open_shop(folder, **mailing) as shop:
            campaign = shop.open(market=rules, amount=200_000)
            operator = member_of(shop, "operator")
            page = operator.see(f"/b/{campaign}")
            form = page.form(f"/b/{campaign}/invitations")
            told = operator.send(
                "POST",
                form["action"],
                data={**form["values"], "people": ADDRESS},
                files={"file": ("people.csv", b"")},
            )
            kept = {"after inviting": read_all(folder, temporary)}
            assert send_due(shop.desk, Settings(public_url=shop.url, **mailing), shop.clock()) == 1
            token = re.search(r"/i/([\w-]+)", box.mails[0].get_payload(decode=True).decode())[1]
            seller = Reader(shop)
            seller.enter(f"/i/{token}")
            refused = sell(seller, typed)
            for k in range(OTHERS):
                other = shop.seller(campaign, *SOLD[:-1], cost=1.0 + 0.1 * k)
                other.deliver(answers)
            kept["sealed"] = read_all(folder, temporary)
            shop.clock.pass_(days=9)
            work(shop.desk, shop.clock())
            assert make_reports(shop.desk, shop.clock()) == 1
            own = [again(seller).see(f"/s{path}") for path in ("", "/receipt", "/statement", "/history")]
            assert [one.status for one in own] == [200] * 4
            own += [refused]
            seen = [told.text, *others_pages(shop, campaign), *(one.html for one in own)]
            kept["released"] = read_all(folder, temporary)
            metrics = generate_latest(shop.metrics.registry)
            cookies = [
                seller.headers["Cookie"].partition("=")[2],
                operator.headers["Cookie"].partition("=")[2],
            ]
        numbers = [value for value in typed.values() if isinstance(value, float)]
        private = forms_of(AMOUNT, cost_of(float(AMOUNT)), *numbers, PAYEE)
        tokens = [token, *shop.tokens.values(), *cookies]
        for place, content in [*kept.items(), ("log", logged.getvalue()), ("metrics", metrics)]:
            assert found_in(content, [*private, *tokens, ADDRESS]) == [], place
        for page in seen[:-1]:
            assert found_in(page, [*private, *tokens]) == []
        # What was refused is shown again to who typed it, and to nobody else.
        assert str(AGE) in seen[-1]
        assert found_in(seen[-1], [AMOUNT, *tokens]) == []
        assert all(ADDRESS not in page for page in seen[1:])
        assert any(ADDRESS in mail["To"] for mail in box.mails)


def sell(seller, typed):
    """Sell by the pages, with a wrong answer first; return the page that refuses it."""
    page = seller.press(seller.press(seller.see("/s/consent"), "/s/consent"), "/s/seat")
    page = seller.press(page, "/s/quote", place=1, amount=AMOUNT)
    assert page.heading == "Your offer"
    page = seller.press(page, "/s/accept")
    answers = {name: str(value) for name, value in typed.items()}
    refused = seller.press(page, "/s/record", **{**answers, "f1": "nothing of this"})
    assert refused.status == 422
    page = seller.press(page, "/s/record", **answers)
    assert seller.press(page, "/s/payee", payee=PAYEE).heading == "Your answers are here, sealed"
    return refused


def others_pages(shop, campaign):
    """Return all pages about a released campaign that members see, with a payout and a refund in between."""
    auditor, paymaster = member_of(shop, "auditor"), member_of(shop, "paymaster")
    paths = ("", "/report", "/report.html", "/certificate.json", "/model.json", "/market.json")
    found = [auditor.send("GET", f"/b/{campaign}{path}") for path in paths]
    found.append(member_of(shop, "operator").send("GET", f"/b/{campaign}"))
    page = paymaster.press(paymaster.see("/p"), f"/p/{campaign}/payout")
    refused = paymaster.press(page, f"/p/{campaign}/refund", amount="1,000")
    assert refused.status == 422
    page = paymaster.press(page, f"/p/{campaign}/refund")
    assert page.status == 200
    assert [answer.url.path for answer in found if answer.status_code != 200] == []
    return [*(answer.text for answer in found), page.html, refused.html]


def read_all(*folders):
    """Return the content of all files: the database, its log, keys, what is temporary."""
    paths = files_under(*folders)
    assert any(path.name.endswith("-wal") for path in paths)
    return b"\n".join(path.read_bytes() for path in paths)
