"""A campaign from an operator's first link to paid receipts, by pages alone, in a real browser."""

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from outside.driver import running_service
from support.browser import opened_browser

pytestmark = pytest.mark.slow
WAYS = [(390, "light", True), (1280, "dark", True), (390, "dark", False), (1280, "light", False)]
PEOPLE = 3


class Person:
    """Somebody with a browser of their own. Every page that they see is looked over."""

    def __init__(self, browser, service, way, language="en-GB"):
        width, scheme, script = way
        size = {"width": width, "height": 800}
        options = {"viewport": size, "color_scheme": scheme, "java_script_enabled": script}
        self.service, self.script, self.faults = service, script, []
        self.page = browser.new_context(locale=language, **options).new_page()

    def go(self, path):
        self.page.goto(self.service.url + urlsplit(path).path)
        return self.look()

    def look(self):
        """Look a page over: nothing stands beside the window, and axe finds nothing."""
        from axe_playwright_python.sync_playwright import Axe

        self.page.wait_for_load_state()
        if not self.script:  # axe is a script itself
            return self
        place = self.page.url.removeprefix(self.service.url)[:40]
        if self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            self.faults.append(f"{place}: wider than the window")
        found = Axe().run(self.page).response["violations"]
        self.faults += [f"{place}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
        return self

    def fill(self, **values):
        for name, value in values.items():
            self.page.locator(f'[name="{name.replace("__", ".")}"]:visible').first.fill(value)
        return self

    def press(self, text, within=None):
        found = self.page if within is None else self.page.locator(within)
        found.locator(f'button:has-text("{text}"):visible, a.button:has-text("{text}"):visible').first.click()
        return self.look()

    def unfold(self, text):
        self.page.locator(f'details:not([open]) > summary:has-text("{text}"):visible').first.click()
        return self

    def reads(self, text):
        assert text in self.page.locator("main").inner_text(), self.page.locator("main").inner_text()
        return self

    def enter(self, link):
        return self.go(link).press("Sign in" if "/login/" in link else "Read on")


def written(days, ahead):
    return (datetime.now(UTC) + ahead + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M")


def members_by(operator, number):
    """Enter a buyer, a paymaster and an auditor; return their links."""
    links = {}
    for role in ("buyer", "paymaster", "auditor"):
        name = f"The {role} {number}"
        operator.go("/m/people").fill(name=name)
        operator.page.locator("select[name=role]:visible").last.select_option(role)
        operator.press("Add a member").unfold(name)
        operator.press("New sign-in link", "details[open]")
        links[role] = operator.page.locator("[role=status] code").inner_text()
    return links


def drafted(buyer, name, ahead):
    """Draft a campaign by the form, and look at it as a seller will."""
    buyer.go("/m/new").fill(campaign__name=name, sellers__expected="30", objective__budget="40")
    buyer.fill(feature0__name="age", feature0__low="18", feature0__high="90", label__values="no, yes")
    buyer.page.locator('[id="label.column"]').fill("bought")
    buyer.page.locator('[id="opens_at"]').fill(written(0, ahead))
    buyer.page.locator('[id="closes_at"]').fill(written(1, ahead))
    buyer.page.locator('[id="deliver_until"]').fill(written(2, ahead))
    buyer.unfold("How sellers are asked").fill(feature0__wording="How old are you?")
    buyer.page.locator("form#new > details:not([open]) > summary:visible").first.click()
    buyer.fill(sellers__minimum="1").press("Plan").reads("What this buys")
    buyer.press("Draft").reads("Deposit needed")
    place = buyer.page.url
    buyer.press("See the questions").reads("How old are you?")
    buyer.go(place).press("Change it").fill(objective__budget="50").press("Save the draft")
    return place


def sold(seller, age):
    """Go from the invitation to sealed answers and a payee."""
    seller.press("Read what taking part means").press("I have read this").press("Show me my choices")
    slider = seller.page.locator("[name=line]")
    slider.focus()
    seller.page.keyboard.press("End")
    seller.press("Take this choice").press("Yes, I accept")
    seller.fill(f0=str(age))
    seller.page.locator("[name=f1]").last.check()
    seller.press("Seal and send").fill(payee=f"account {age}").press("Save").reads(
        "You can withdraw until then"
    )


def test_a_campaign_runs_from_the_first_link_to_paid_receipts_by_pages_alone(tmp_path):
    with running_service(tmp_path, sign_ins_per_minute=1000) as service, opened_browser() as browser:
        ahead, faults = timedelta(), []
        for number, way in enumerate(WAYS):
            operator = Person(browser, service, way)
            operator.enter(service.link_member("operator")["link"])
            links = members_by(operator, number)
            buyer, paymaster, auditor = (Person(browser, service, way) for _ in range(3))
            place = drafted(buyer.enter(links["buyer"]), f"Sleep and work {number}", ahead)
            paymaster.enter(links["paymaster"]).unfold("Enter that money has arrived").fill(amount="60")
            paymaster.press("Enter").reads("60").press("Yes, it has arrived").unfold("Entries of money")
            buyer.go(place).press("Open it")
            if buyer.page.locator("[role=alert]").count():
                buyer.press("Open it all the same")
            operator.go(place).fill(people="\n".join(f"{number} person {k}" for k in range(PEOPLE)))
            operator.press("Make links")
            lines = operator.page.locator("textarea").input_value().split()
            invited = [line.split(",")[-1] for line in lines if "http" in line]
            assert len(invited) == PEOPLE
            sellers = [Person(browser, service, way) for _ in invited]
            for k, (seller, link) in enumerate(zip(sellers, invited, strict=True)):
                sold(seller.enter(link), 30 + k)
            ahead += timedelta(days=3)
            service.ahead(days=3)
            buyer.enter(service.link_member(f"The buyer {number}")["link"])
            for _ in range(120):
                if "released" in buyer.go(place).page.locator("main .lead").inner_text():
                    break
                buyer.page.wait_for_timeout(500)
            buyer.reads("Certificate")
            for seller, link in zip(sellers, invited, strict=True):
                seller.enter(link).press("See my receipt")
                for _ in range(60):
                    if "every check holds" in seller.page.locator("main").inner_text():
                        break
                    seller.page.wait_for_timeout(500)
                    seller.go("/s/receipt")
                seller.reads("every check holds")
            paymaster.enter(service.link_member(f"The paymaster {number}")["link"]).press("Make a payout")
            paymaster.unfold("What became of it").press("Payments were made")
            sellers[0].go("/s").reads("You have been paid")
            auditor.enter(links["auditor"]).go(place).reads("All accounts of this service add up")
            for person in (operator, buyer, paymaster, auditor, *sellers):
                faults += [f"{way}: {fault}" for fault in person.faults]
                person.page.context.close()
        assert not faults, "\n".join(sorted(set(faults)))
