"""The pages in a real browser: phone and desktop, light and dark, with a script and without, and axe."""

import contextlib
import re
from datetime import timedelta

import pytest
from dpmarket.market import Caller, acting, add_member, issue_token, work
from support.live import ANSWERS, ASKED, MARKET, RECORD

from dpmarket.report import make_reports
from support.browser import opened_browser
from support.shop import SOLD, open_shop

pytestmark = pytest.mark.slow
LOOKS = [
    (390, "light", True),
    (1280, "dark", True),
    (390, "dark", False),
    (1280, "light", False),
]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as opened:
        yield opened


class Window:
    """A window of a browser in which everything that goes wrong is noted."""

    def __init__(self, browser, shop, width=1280, scheme="light", script=True):
        self.shop, self.width, self.script = shop, width, script
        self.browser, self.scheme = browser, scheme
        self.context = browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,
            java_script_enabled=script,
            locale="en-GB",
        )
        self.page = self.tab()

    def tab(self):
        page = self.context.new_page()
        self.said = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        return page

    def go(self, path):
        self.page.goto(self.shop.url + path)
        self.look()

    def press(self, name):
        self.page.get_by_role("button", name=name, exact=True).first.click()
        self.look()

    def follow(self, name):
        self.page.get_by_role("link", name=name, exact=True).first.click()
        self.look()

    def look(self):
        """Look for what no page may have: messages, a horizontal scroll, what axe finds."""
        from axe_playwright_python.sync_playwright import Axe

        self.page.wait_for_load_state()
        assert self.said == []
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= self.width, self.page.url
        shown = self.page if self.script else self._again_with_scripts()
        found = Axe().run(shown, options={"runOnly": RULES})
        assert found.violations_count == 0, found.generate_report()
        if shown is not self.page:
            shown.context.close()

    def _again_with_scripts(self):
        """Show what is on the page, without its script, where axe's own can run."""
        content = re.sub(r"<script[^>]*></script>", "", self.page.content())
        other = self.browser.new_context(
            viewport={"width": self.width, "height": 844}, color_scheme=self.scheme
        ).new_page()
        own = self.shop.url + "/shown"
        other.route(own, lambda route: route.fulfill(content_type="text/html; charset=utf-8", body=content))
        other.goto(own)
        return other

    @property
    def heading(self):
        return self.page.locator("h1").inner_text()


@contextlib.contextmanager
def window(browser, shop, *look):
    opened = Window(browser, shop, *look)
    try:
        yield opened
    finally:
        opened.context.close()


def login(shop, role):
    shop.clock.pass_(seconds=10)
    with acting(shop.desk) as connection:
        made = Caller(role, add_member(connection, f"A {role}", role, shop.clock()))
        return f"/login/{issue_token(connection, 'login', made, shop.clock(), timedelta(days=1))}"


def enter_as_seller(seen, shop, campaign):
    shop.clock.pass_(seconds=10)
    (token,) = shop.invite(campaign)
    seen.go(f"/i/{token}")
    seen.press("Read on")


def choose(seen):
    seen.follow("Read what it means")
    seen.press("I have read this and take part")
    seen.press("See what I can choose")


@pytest.mark.parametrize("look", LOOKS)
def test_a_seller_goes_all_the_way(browser, shop, look):
    with window(browser, shop, *look) as seen:
        enter_as_seller(seen, shop, shop.open())
        assert seen.heading == "You are invited"
        choose(seen)
        assert seen.heading == "How much may the published model say about you?"
        first = seen.page.locator("[data-payment]").inner_text()
        seen.page.locator("#line").fill("40")
        if not seen.script:
            seen.press("Show this choice")
        assert not seen.script or not seen.page.get_by_role("button", name="Show this choice").is_visible()
        chosen = seen.page.locator("[data-payment]").inner_text()
        guesses = seen.page.locator("[data-guess]").inner_text()
        assert chosen != first
        assert seen.page.locator("[data-dots] circle.more").count() == int(guesses) - 50
        for name in ("What is not promised", "All choices as a table"):
            seen.page.get_by_text(name, exact=True).click()
        seen.look()
        seen.press("Choose this offer")
        assert seen.heading == "Your offer"
        assert chosen in seen.page.locator("main").inner_text()
        seen.press("Yes, I accept")
        seen.page.get_by_label("age", exact=True).fill("40")
        seen.page.get_by_label("income", exact=True).fill("20000")
        seen.page.get_by_text("Seal and send").click()
        assert seen.page.url.endswith("/s/record")  # the browser itself asks for the label
        seen.page.get_by_label("yes", exact=True).check()
        seen.press("Seal and send")
        seen.page.get_by_label("Account").fill("an account")
        seen.press("Save")
        assert seen.heading == "Your answers are here, sealed"
        for link in ("What happened", "What taking part means", "Leave"):
            seen.page.locator("footer").get_by_role("link", name=link).click()
            seen.look()
        seen.press("Leave for good")
        assert seen.heading == "You have left"
        seen.press("Sign out")
        seen.page.goto(shop.url + "/s")
        assert seen.heading == "You are not signed in"


@pytest.mark.parametrize("look", LOOKS)
def test_a_buyer_plans_drafts_and_watches(browser, shop, look):
    with window(browser, shop, *look) as seen:
        seen.go(login(shop, "buyer"))
        seen.press("Sign in")
        seen.follow("New campaign")
        values = {
            "title": f"Spring study {look}",
            "objective.budget": "50",
            "feature0.name": "age",
            "feature0.low": "18",
            "label.values": "no, yes",
        }
        for name, value in values.items():
            seen.page.locator(f"[id='{name}']").fill(value)
        seen.page.get_by_role("button", name="Plan").click()
        seen.page.wait_for_load_state()
        assert "features.age.high: missing" in seen.page.locator("[role=alert]").inner_text()
        seen.said.clear()  # a browser notes that the answer was 422
        seen.look()
        seen.page.locator("[id='feature0.high']").fill("90")
        seen.press("Plan")
        assert "this budget" in seen.page.locator("main").inner_text()
        seen.press("Save as a draft")
        assert seen.heading.startswith("Spring study")
        campaign = seen.page.url.rsplit("/", 1)[1]
        shop.paymaster.fund(campaign, 10_000)
        seen.press("Open it")
        assert "open" in seen.page.locator("main").inner_text()


def test_results_payments_and_receipts_in_the_browser(browser, tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        tokens = shop.invite(campaign, 6)
        for k, token in enumerate(tokens):
            shop.with_token(token, *SOLD, cost=1.0 + 0.2 * k)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        with window(browser, shop, 390, "dark", True) as seen:
            seen.go(f"/i/{tokens[0]}")
            seen.press("Read on")
            assert seen.heading == "The model is released"
            seen.follow("See my receipt")
            assert "nothing is wrong" in seen.page.locator("main").inner_text()
            files = {}
            for name in ("receipt", "certificate"):
                files[name] = tmp_path / f"{name}.json"
                with seen.page.expect_download() as download:
                    seen.page.locator(f"a[href='/s/{name}.json']").click()
                download.value.save_as(files[name])
            seen.page.get_by_role("link", name="Open the page that checks receipts").click()
            seen.page.locator("#certificate").set_input_files(files["certificate"])
            seen.page.locator("#receipt").set_input_files(files["receipt"])
            seen.page.locator("#check").click()
            seen.page.locator("#result").wait_for()
            assert seen.page.locator("#verdict").inner_text() == "No check failed."
            assert seen.said == []
            seen.go("/verify")
            seen.page.locator("#certificate").set_input_files(files["certificate"])
            seen.page.locator("#receipt").set_input_files(files["receipt"])
            seen.press("Check")
            assert "No check failed." in seen.page.locator("main").inner_text()
        with window(browser, shop, 390, "light", True) as seen:
            seen.go(login(shop, "auditor"))
            seen.press("Sign in")
            seen.page.locator(f"a[href='/b/{campaign}']").click()
            seen.look()
            seen.follow("Report")
        with window(browser, shop, 1280, "light", True) as seen:
            seen.go(login(shop, "paymaster"))
            seen.press("Sign in")
            seen.press("Make a payout of all that is owed")
            assert seen.page.get_by_role("link", name="File for the bank").count() == 1
            seen.page.get_by_text("What became of it").first.click()
            seen.press("Enter")
            assert "€0.00" in seen.page.locator("main").inner_text()


WITH_DELTA = {**MARKET, "objective": {"payment_weight": 0.01, "max_epsilon": 1.0, "delta": 6e-4}}
NUMBERS = {
    "title": "Ways to work",
    "objective.budget": "20",
    "sellers.expected": "30",
    "statistic0.column": "east, north",
    "statistic0.bound": "2",
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_buyer_asks_for_numbers_by_the_form(browser, shop, look):
    with window(browser, shop, *look) as seen:
        seen.go(login(shop, "buyer"))
        seen.press("Sign in")
        seen.follow("New campaign")
        seen.page.locator("#purpose-numbers").check()
        assert seen.page.locator("[id='statistic0.low']").is_visible()
        seen.page.locator("[id='statistic0.kind']").select_option("vector_mean")
        assert seen.page.locator("[id='statistic0.low']").is_visible() == (not seen.script)
        for name, value in {**NUMBERS, "title": f"Ways to work {look}"}.items():
            seen.page.locator(f"[id='{name}']").fill(value)
        seen.press("Plan")
        assert "€20.00" in seen.page.locator("main").inner_text()
        seen.press("Save as a draft")
        assert "the mean of east, north together" in seen.page.locator("main").inner_text()


@pytest.mark.parametrize("look", [LOOKS[0], LOOKS[-1]])
@pytest.mark.parametrize("rules", [WITH_DELTA, ASKED], ids=["delta", "statistics"])
def test_the_pages_of_a_delta_and_of_statistics_with_report_statement_and_refund(
    browser, tmp_path, look, rules
):
    answers = ANSWERS if rules is ASKED else RECORD
    with open_shop(tmp_path) as shop:
        campaign = shop.open(market=rules, amount=200_000)
        for k in range(11):
            shop.seller(campaign, *SOLD[:-1], cost=1.0 + 0.1 * k).deliver(answers)
        (token,) = shop.invite(campaign)
        sure = "is an epsilon and a delta" if rules is WITH_DELTA else ""
        with window(browser, shop, *look) as seen:
            seen.go(f"/i/{token}")
            seen.press("Read on")
            seen.follow("Read what it means")
            assert sure in seen.page.locator("main").inner_text()
            seen.press("I have read this and take part")
            seen.press("See what I can choose")
            assert sure in seen.page.locator("main").inner_text()
            seen.press("Choose this offer")
            seen.press("Yes, I accept")
            seen.go("/s/statement")
        shop.with_token(token).deliver(answers)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        make_reports(shop.desk, shop.clock())
        with window(browser, shop, *look) as seen:
            seen.go(f"/i/{token}")
            seen.press("Read on")
            seen.follow("See my receipt")
            told = seen.page.locator("main").inner_text()
            assert sure in told
            assert ("Effective sample size" in told) == (rules is ASKED)
        with window(browser, shop, *look) as seen:
            seen.go(login(shop, "auditor"))
            seen.press("Sign in")
            seen.go(f"/b/{campaign}")
            seen.go(f"/b/{campaign}/report")
            assert sure in seen.page.locator("main").inner_text()
        with window(browser, shop, *look) as seen:
            seen.go(login(shop, "paymaster"))
            seen.press("Sign in")
            seen.page.get_by_text("Enter that money went back").first.click()
            seen.look()
            seen.press("It went back")
            assert "€0.00" in seen.page.locator("main").inner_text()


def test_going_back_pressing_twice_and_two_tabs_do_nothing_twice(browser, shop):
    with window(browser, shop) as seen:
        enter_as_seller(seen, shop, shop.open())
        choose(seen)
        other = seen.context.new_page()
        other.goto(shop.url + "/s/choose")
        seen.page.get_by_role("button", name="Choose this offer").dblclick()
        seen.page.wait_for_url("**/s")
        assert seen.heading == "Your offer"
        seen.page.go_back()  # no page is kept: the menu is behind them
        seen.page.wait_for_load_state()
        assert seen.heading == "Your offer"
        other.get_by_role("button", name="No, thank you").click()
        assert other.locator("h1").inner_text() == "You said no"
        seen.page.get_by_role("button", name="Yes, I accept").click()
        assert seen.heading == "This is not possible now"
        seen.page.get_by_role("link", name="See where you stand").click()
        assert seen.heading == "You said no"
        seen.page.goto(shop.url + "/s/history")
        told = seen.page.locator("main").inner_text()
        assert told.count("You chose, and got your offer.") == 1


def test_a_link_that_has_ended_says_so_and_a_slow_network_sends_once(browser, shop):
    with window(browser, shop) as seen:
        path = login(shop, "auditor")
        seen.go(path)
        seen.press("Sign in")
        seen.page.goto(shop.url + path)
        seen.page.get_by_role("button", name="Sign in").click()
        assert seen.heading == "There is nothing here"
    with window(browser, shop) as seen:
        enter_as_seller(seen, shop, shop.open())
        choose(seen)
        slow = seen.context.new_cdp_session(seen.page)
        slow.send("Network.enable")
        slow.send(
            "Network.emulateNetworkConditions",
            {"offline": False, "latency": 800, "downloadThroughput": 50_000, "uploadThroughput": 50_000},
        )
        button = seen.page.get_by_role("button", name="Choose this offer")
        sent = []
        seen.page.on("request", lambda request: sent.append(request.method))
        button.click(no_wait_after=True)
        with contextlib.suppress(Exception):
            button.click(no_wait_after=True, timeout=500)
        seen.page.wait_for_url("**/s")
        assert sent.count("POST") == 1
        assert seen.heading == "Your offer"


def test_no_other_site_can_frame_a_page_or_send_its_forms(browser, shop):
    with window(browser, shop) as seen:
        enter_as_seller(seen, shop, shop.open())
        form = (
            f"<form method=post action='{shop.url}/s/withdraw'><input name=key value='{'k' * 20}'><button>go"
        )
        frame = f"<iframe src='{shop.url}/s' id=f></iframe>"
        seen.page.route(
            "http://elsewhere.test/",
            lambda route: route.fulfill(content_type="text/html", body=form + "</button></form>" + frame),
        )
        seen.page.goto("http://elsewhere.test/")
        inside = seen.page.frames[-1]
        assert "Where you stand" not in (inside.content() if inside != seen.page.main_frame else "")
        seen.page.get_by_role("button", name="go").click()
        seen.page.wait_for_load_state()
        assert "another site" in seen.page.content()
        seen.page.goto(shop.url + "/s")
        assert seen.heading == "You are invited"
