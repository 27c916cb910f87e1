"""The pages of the service in a browser without scripts: sellers, members, receipts, two languages."""

import csv
import io
import json
import re
from urllib.parse import urlsplit

import pytest

from outside.driver import run, running_service, until
from outside.goods import GOODS
from support.html_pages import Page
from support.readers import Reader

GOOD = GOODS["two classes"]
TITLE = 'Sleep <script>alert("x")</script> & work'
ANSWERS = ["41", "25000", "yes"]
PAYEE = "=1+1 an account"


class Browser(Reader):
    """Fills in forms of a service that runs in processes of its own."""

    def __init__(self, service, language="en"):
        super().__init__(service.http, language)
        self.service = service

    def press(self, page, having=None, about="", files=None, **values):
        form = page.form(having, about)
        unknown = set(values) - {*form.values, *form.fields, "act"}
        assert not unknown, unknown
        assert set(files or {}) <= set(form.files)
        return Page(self.send("POST", form.action, data={**form.values, **values}, files=files))

    def enter(self, link):
        """Open a link that signs in, and press its button."""
        self.service.ahead(minutes=1)  # signing in is limited
        return self.press(self.see(urlsplit(link).path))


def member_of(service, role):
    """Sign a member in by a new link; return their browser, and the page that they come to."""
    browser = Browser(service)
    return browser, browser.enter(service.link_member(role)["link"])


def seller_of(service, campaign, person, language="en"):
    """Invite somebody; return their browser, signed in, the page, and a caller."""
    (caller,) = service.invite(campaign, person)
    browser = Browser(service, language)
    return browser, browser.enter(f"/i/{caller.token}"), caller


def choosing(browser, page):
    """Go from the first page of somebody who was invited to the menu."""
    page = browser.see(page.buttons[0])
    page = browser.press(page, "language")
    return browser.press(page)


def selling(browser, page):
    """Sell by pages; return every page on the way."""
    seen = [page, browser.see(page.buttons[0])]
    seen.append(browser.press(seen[-1], "language"))
    seen.append(browser.press(seen[-1]))
    seen.append(browser.press(seen[-1], "line"))
    seen.append(browser.press(seen[-1]))
    seen.append(browser.press(seen[-1], **dict(zip(seen[-1].form().fields, ANSWERS, strict=True))))
    seen.append(browser.press(seen[-1], "payee", payee=PAYEE))
    return seen


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("pages")) as service:
        yield service


@pytest.fixture(scope="module")
def sold(service):
    """A campaign in which one person sold by pages in English, one in German, and ten by the API."""
    campaign = service.open(GOOD.rules(60), name=TITLE, closes=0.1, deliver=0.2)
    way, callers = {}, {}
    for language in ("en", "de"):
        browser, page, callers[language] = seller_of(service, campaign, f"reader of {language}", language)
        way[language] = selling(browser, page)
    for k, caller in enumerate(service.invite(campaign, *(f"other {k}" for k in range(10)))):
        caller.sell(1.0 + 0.3 * k, {"age": 30 + k, "income": 1_000 * k, "bought": "no"})
        caller.act("set_payee", payee=f"account {k}")
    service.ahead(hours=5)  # links of members are made by the machine's clock and last for a week
    service.until_state(campaign, "released")
    buyer = service.members["buyer"]
    until(lambda: buyer.request("GET", f"/campaigns/{campaign}/report").is_success)
    return campaign, way, callers


def payment_in(text):
    return re.search(r"€\s?(\d+[.,]\d\d)|(\d+[.,]\d\d)\s?€", text)[0]


# --- sellers -------------------------------------------------------------------------------------


def test_a_seller_goes_from_the_invitation_to_a_verified_receipt_by_links_and_forms_alone(
    service, sold, tmp_path
):
    _, way, callers = sold
    assert [page.status for page in way["en"]] == [200] * 8
    offered = payment_in(way["en"][4].text)
    assert offered in way["en"][7].text
    browser = Browser(service)
    home = browser.enter(f"/i/{callers['en'].token}")
    receipt = browser.see(home.buttons[0])
    assert offered in receipt.text
    files = {}
    for path in receipt.links:
        if path.endswith(".json"):
            answer = browser.send("GET", path)
            assert answer.headers["content-disposition"].startswith("attachment")
            files[path.rsplit("/", 1)[1]] = answer.content
    assert set(files) == {"receipt.json", "certificate.json", "released.json"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    done = run("verify", "certificate.json", "--receipt", "receipt.json", "--json", cwd=tmp_path)
    assert done.json["passed"]
    line = json.loads(files["receipt.json"])["line"]
    assert f"{line['payment'] / 100:.2f}" in offered


def test_the_sliders_first_position_shares_nothing_and_its_last_one_earns_most(service):
    browser, page, caller = seller_of(service, service.open(GOOD.rules(60)), "slider")
    declined = browser.press(choosing(browser, page), "line", line="0")
    assert caller.me()["state"] == "declined"
    undone = browser.press(declined)
    assert caller.me()["state"] == "consented"
    first = browser.press(undone)
    most = re.search(r'max="(\d+)"', first.html)[1]
    assert int(most) <= 11
    last = browser.see(f"/s/choose?how=line&key=unused&line={most}")  # as the button that shows a position
    amounts = [float(re.sub(r"[^\d.]", "", payment_in(one.text))) for one in (first, last)]
    assert amounts[0] < amounts[1]
    offer = browser.press(first, "line", line=most)
    assert payment_in(offer.text) == payment_in(last.text)


def test_naming_a_cost_in_place_of_a_line_gives_an_offer_and_nonsense_is_asked_for_again(service):
    campaign = service.open(GOOD.rules(60))
    browser, page, _ = seller_of(service, campaign, "with an amount")
    menu = choosing(browser, page)
    again = browser.press(menu, "amount", amount="much")
    assert again.status == 422
    asked = browser.press(again, "amount", amount="0.80")
    assert "0.80" in asked.text  # shown back, because it is final
    offer = browser.press(asked)
    assert offer.status == 200
    assert payment_in(offer.text)


def test_a_button_pressed_twice_does_its_act_once_and_leaving_is_always_near(service):
    campaign = service.open(GOOD.rules(60))
    browser, page, caller = seller_of(service, campaign, "who doubles")
    menu = choosing(browser, page)
    offers = [browser.press(menu, "line") for _ in range(2)]
    assert [payment_in(one.text) for one in offers] == [payment_in(offers[0].text)] * 2
    for _ in range(2):
        assert browser.press(offers[0]).status == 200
    kinds = [event["kind"] for event in caller.get("/me/events").json()]
    assert len(kinds) == len(set(kinds))
    home = browser.see(urlsplit(offers[0].path).path)
    leaving = browser.see(home.buttons[-1])
    assert browser.press(leaving).status == 200
    assert caller.me()["state"] == "withdrawn"


def test_the_pages_of_a_seller_say_the_same_in_english_and_german(sold):
    _, way, _ = sold
    for english, german in zip(way["en"], way["de"], strict=True):
        assert (english.language, german.language) == ("en", "de")
        assert english.heading != german.heading
        assert english.path == german.path or "/i/" in english.path
        assert [form.fields for form in english.forms] == [form.fields for form in german.forms]
    amounts = [payment_in(way[language][4].text) for language in ("en", "de")]
    assert re.sub(r"\D", "", amounts[0]) == re.sub(r"\D", "", amounts[1])
    assert "." in amounts[0]
    assert "," in amounts[1]


# --- members -------------------------------------------------------------------------------------


def test_members_see_dashboards_of_their_roles_and_refusals_as_pages(service, sold):
    campaign, _, _ = sold
    pages = {role: member_of(service, role) for role in ("buyer", "operator", "auditor", "paymaster")}
    for role, (_browser, home) in pages.items():
        assert (home.status, home.language) == (200, "en"), role
        assert TITLE in home.text, role
    for role in ("buyer", "operator", "auditor"):
        browser, home = pages[role]
        (path,) = (link for link in home.links if campaign in link)
        dashboard = browser.see(path)
        assert dashboard.status == 200
        downloads = {link.rsplit("/", 1)[1] for link in dashboard.links if link.endswith(".json")}
        assert ("openings.json" in downloads) == (role == "auditor")
        assert ("released.json" in downloads) == (role != "operator")
        for link in dashboard.links:
            if link.startswith(path):
                assert browser.send("GET", link).status_code == 200, link
    stranger = Browser(service).see(path)
    assert stranger.status == 401
    assert TITLE not in stranger.text


def test_an_operator_invites_by_a_list_and_gets_a_link_for_each_person_once(service):
    campaign = service.open(GOOD.rules(60))
    browser, home = member_of(service, "operator")
    (path,) = (link for link in home.links if campaign in link)
    page = browser.see(path)
    files = {"file": ("people.csv", b"id,town\nperson 1,A\nperson 2,B\n", "text/csv")}
    told = browser.press(page, "people", files=files)
    links = re.findall(r"http://\S+/i/[\w-]+", told.html)
    assert len(set(links)) == 2
    assert not re.findall(r"/i/[\w-]{20,}", browser.see(path).html)
    assert Browser(service).enter(links[0]).status == 200


def test_a_paymaster_pays_out_by_pages_and_no_cell_of_the_file_is_a_formula(service, sold):
    browser, home = member_of(service, "paymaster")
    page = browser.press(home, about=sold[0])
    (path,) = (link for link in page.links if re.search(r"/payouts/[^/]+\.csv$", link))
    rows = list(csv.DictReader(io.StringIO(browser.send("GET", path).text)))
    assert len(rows) == 12
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())
    assert sum(row["payee"].endswith(PAYEE) for row in rows) == 2
    done = browser.press(page, "references")
    assert done.status == 200
    assert service.money(sold[0]) == (0, 0, sum(round(100 * float(row["amount"])) for row in rows))


FILLED = {
    "campaign.name": "A study by a form",
    "objective.budget": "20",
    "sellers.expected": "30",
    "feature0.name": "age",
    "feature0.low": "18",
    "feature0.high": "90",
    "label.column": "bought",
    "label.values": "no, yes",
}


def test_a_buyer_plans_and_drafts_a_campaign_by_a_form_and_mistakes_are_shown(service):
    browser, home = member_of(service, "buyer")
    form = browser.see(home.buttons[0])
    wrong = browser.press(form, "campaign.name", act="draft", **{**FILLED, "feature0.low": "99"})
    assert wrong.status == 422
    assert wrong.form("campaign.name").values["feature0.low"] == "99"
    plan = browser.press(form, "campaign.name", act="plan", **FILLED)
    assert plan.status == 200
    assert "20.00" in plan.text
    before = service.members["buyer"].get("/campaigns").json()
    drafted = browser.press(plan, "campaign.name", act="draft")
    assert drafted.status == 200
    after = service.members["buyer"].get("/campaigns").json()
    assert len(after) == len(before) + 1
    assert {one["name"]: one["state"] for one in after}["A study by a form"] == "draft"


# --- what every page keeps to --------------------------------------------------------------------


def test_no_page_loads_anything_from_elsewhere_or_runs_a_script_of_its_own(service, sold):
    campaign, way, callers = sold
    pages = [*way["en"], *(Browser(service).see(path) for path in ("/", "/verify", "/nothing-here"))]
    seller = Browser(service)
    pages += [home := seller.enter(f"/i/{callers['en'].token}"), seller.see(home.buttons[0])]
    for role in ("buyer", "auditor", "paymaster"):
        browser, home = member_of(service, role)
        pages += [home, *(browser.see(link) for link in home.links if campaign in link)]
    assert len(pages) > 15
    for page in pages:
        assert page.inline == [], page.path
        outside = [url for url in page.loads if not re.match(r"/[^/]", url)]
        assert outside == [], page.path
        assert all(form.action.startswith("/") for form in page.forms), page.path
        assert "<script>alert" not in page.html, page.path
        policy = page.answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "form-action 'self'" in policy
        assert "unsafe" not in policy
        cookies = page.answer.headers.get_list("set-cookie")
        assert all("HttpOnly" in one and "Secure" in one for one in cookies)
    for url in pages[0].loads:
        answer = seller.send("GET", url)
        assert answer.status_code == 200
        assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", answer.text)
    policy = seller.send("GET", "/check-receipt").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


# --- receipts ------------------------------------------------------------------------------------


def test_anybody_can_have_a_certificate_and_a_receipt_verified_by_a_page(service, sold):
    campaign, _, callers = sold
    certificate, receipt = service.paper(campaign, "certificate"), callers["en"].get("/me/receipt").content
    told = json.loads(receipt)
    told["line"]["payment"] = 1
    changed = json.dumps(told, separators=(",", ":"), sort_keys=True).encode()
    browser = Browser(service)

    def verdict(receipt):
        form = browser.see("/verify")
        page = browser.press(
            form, files={"certificate": ("c.json", certificate), "receipt": ("r.json", receipt)}
        )
        assert page.status == 200
        (notice,) = page.notices
        return notice

    good, wrong = verdict(receipt), verdict(changed)
    assert (good, wrong) == ("good", "problem")
