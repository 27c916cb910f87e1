"""From a panel's link to its completion page in a real browser: accepted, screened out, full, withdrawn."""

import hashlib
import hmac
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest

from outside.driver import running_service
from outside.goods import GOODS
from outside.test_browser import Person
from support.browser import opened_browser
from support.servers import served

pytestmark = pytest.mark.slow
WAYS = [(390, "light", True), (1280, "dark", False)]


class Back(BaseHTTPRequestHandler):
    """The panel's own site, another one than the service's."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><html lang=en><title>Panel</title><h1>Welcome back</h1>")

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    with served(Back) as address:
        yield address


def rules_for(site):
    return {
        **GOODS["two classes"].rules(mechanism="online"),
        "groups": {"city": {"quota": 1}, "country": {"quota": 20}},
        "screening": [
            {
                "question": "Where do you live?",
                "answers": ["in a city", "elsewhere"],
                "groups": {"in a city": "city", "elsewhere": "country"},
            },
            {"question": "Do you drive?", "answers": ["yes", "no"], "accept": ["yes"]},
        ],
        "panel": {
            one: f"{site}/back?id={{pid}}&cc={one}" for one in ("complete", "screened_out", "full", "left")
        },
    }


def came(browser, service, way, campaign, pid, *answers):
    """Come by a signed link and answer the screening questions."""
    secret = service.members["operator"].get(f"/campaigns/{campaign}/panel").json()["secret"]
    sig = hmac.new(secret.encode(), f"{campaign}:{pid}".encode(), hashlib.sha256).hexdigest()
    person = Person(browser, service, way)
    person.page.goto(f"{service.url}/join/{campaign}?pid={pid}&sig={sig}")
    person.look().press("Read on").press("Answer the questions")
    for place, answer in enumerate(answers):
        person.page.locator(f'[name=q{place}][value="{answer}"]').check()
    return person.press("Send")


def back(person, *, by_itself=False):
    """Go back to the panel; return the code and the id in its address."""
    if by_itself:
        person.page.wait_for_url("**/back?**", timeout=20_000)
    else:
        person.page.locator('a.button:has-text("Back to where I came from")').click()
    assert person.page.locator("h1").inner_text() == "Welcome back"
    found = parse_qs(urlsplit(person.page.url).query)
    return found["cc"][0], found["id"][0]


def test_people_from_a_panel_find_back_however_their_part_ended(tmp_path, site):
    with running_service(tmp_path) as service, opened_browser() as browser:
        for way in WAYS:
            campaign = service.open(rules_for(site), amount=200_000)
            people = []

            def person(pid, *answers, way=way, campaign=campaign, people=people):
                people.append(came(browser, service, way, campaign, pid, *answers))
                return people[-1]

            sold = person("p-1", 0, 0).press("I have read this").press("Show me my choices")
            sold.press("Take this choice").press("Yes, I accept")
            sold.fill(f0="40", f1="20000")
            sold.page.locator("[name=f2]").last.check()
            sold.press("Seal and send").reads("You have done your part")
            assert back(sold, by_itself=True) == ("complete", "p-1")

            assert back(person("p-2", 1, 1).reads("You cannot take part")) == ("screened_out", "p-2")
            assert back(person("p-3", 0, 0).reads("All places are taken")) == ("full", "p-3")

            left = person("p-4", 1, 0).press("I have read this").press("Show me my choices")
            left.go("/s/withdraw").press("Withdraw for good").reads("Your part has ended")
            assert back(left, by_itself=True) == ("left", "p-4")
            faults = [f"{way}: {fault}" for one in people for fault in one.faults]
            assert not faults, "\n".join(sorted(set(faults)))
            for one in people:
                one.page.context.close()
