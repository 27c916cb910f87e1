"""Take the screenshots of the tutorial about a live campaign: python docs/make_service_screenshots.py.

Runs a service on loopback with a clock of its own and simulated sellers, goes through its pages with
chromium, and leaves pictures in docs/_static/service. Needs the extras dev and service.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
from dpmarket.market import Caller, acting, do_errands, issue_token, open_desk, work
from dpmarket.web.setup import new_member, prepare
from playwright.sync_api import Browser, Page, sync_playwright

from dpmarket.web.client import Client
from dpmarket.web.running import serving
from dpmarket.web.settings import Settings

FOLDER = Path(__file__).parent / "_static" / "service"
ROLES = ("buyer", "paymaster", "operator")
NAMES = ("chromium", "chromium-browser", "google-chrome")
FILLED = {
    "title": "Sleep study",
    "objective.budget": "50",
    "feature0.name": "age",
    "feature0.low": "18",
    "feature0.high": "90",
    "feature1.name": "income",
    "feature1.low": "0",
    "feature1.high": "100000",
    "label.column": "sleeps well",
    "label.values": "no, yes",
}


class Clock:
    """Tells a time that the script moves."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


class Story:
    """The tutorial, picture by picture."""

    def __init__(self, desk: object, url: str, clock: Clock, browser: Browser) -> None:
        self.desk, self.url, self.clock, self.browser = desk, url, clock, browser
        names = {"buyer": "A hospital", "paymaster": "A bank's desk", "operator": "A panel"}
        self.members = {role: new_member(desk, names[role], role, url) for role in ROLES}

    def run(self) -> None:
        """Take all pictures."""
        buyer = self.enter("buyer")
        buyer.goto(f"{self.url}/b/new")
        for name, value in FILLED.items():
            buyer.locator(f"[id='{name}']").fill(value)
        buyer.get_by_role("button", name="Plan").click()
        shoot(buyer, "plan", height=1000)
        buyer.get_by_role("button", name="Save as a draft").click()
        campaign = buyer.url.rsplit("/", 1)[1]
        do_errands(self.desk, self.clock())  # a worker makes the key pair of a draft
        with httpx.Client(trust_env=False, timeout=60.0) as http:
            clients = {role: Client(self.url, made.token, http) for role, made in self.members.items()}
            clients["paymaster"].fund(campaign, 6_000)
            buyer.get_by_role("button", name="Open it").click()
            invited = clients["operator"].invite(campaign, [f"panel {k}" for k in range(60)])
            self.seller(invited[0]["link"])
            rng = np.random.default_rng(29)
            for one in invited[1:]:
                sell(Client(self.url, one["token"], http), rng)
        buyer.reload()
        shoot(buyer, "dashboard")
        self.clock.now += timedelta(days=9)
        work(self.desk, self.clock())
        self.receipt(invited[0]["link"])

    def seller(self, link: str) -> None:
        """Go the way of one seller."""
        page = self.window(390)
        page.goto(link)
        shoot(page, "invitation")
        page.get_by_role("button", name="Read on").click()
        page.get_by_role("link", name="Read what it means").click()
        shoot(page, "consent", height=844)
        page.get_by_role("button", name="I have read this and take part").click()
        page.get_by_role("button", name="See what I can choose").click()
        page.locator("#line").fill("30")
        shoot(page, "choose")
        page.get_by_role("button", name="Choose this offer").click()
        shoot(page, "offer")
        page.get_by_role("button", name="Yes, I accept").click()
        page.locator("#f0").fill("41")
        page.locator("#f1").fill("25000")
        page.get_by_label("yes", exact=True).check()
        shoot(page, "record")
        page.get_by_role("button", name="Seal and send").click()

    def receipt(self, link: str) -> None:
        """Show the receipt of the same seller."""
        page = self.window(390)
        page.goto(link)
        page.get_by_role("button", name="Read on").click()
        page.get_by_role("link", name="See my receipt").click()
        shoot(page, "receipt")

    def enter(self, role: str) -> Page:
        """Sign a member in; the clock is this script's, and so the link is made by it."""
        page = self.window(1280)
        with acting(self.desk) as connection:
            made = Caller(role, self.members[role].id)
            token = issue_token(connection, "login", made, self.clock(), timedelta(days=1))
        page.goto(f"{self.url}/login/{token}")
        page.get_by_role("button", name="Sign in").click()
        return page

    def window(self, width: int) -> Page:
        """Open a window of a width."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 844}, locale="en-GB", timezone_id="UTC", color_scheme="light"
        )
        return context.new_page()


def sell(client: Client, rng: np.random.Generator) -> None:
    """Take part as a simulated seller, if there is room."""
    client.consent()
    if client.menu()["state"] == "waiting" or client.quote(rng.uniform(1, 5))["payment"] == 0:
        return
    age, income = rng.uniform(18, 90), rng.uniform(0, 1e5)
    label = "yes" if age / 90 + income / 1e5 > 1.0 else "no"
    client.accept()
    client.deliver({"age": age, "income": income, "sleeps well": label})


def shoot(page: Page, name: str, height: int | None = None) -> None:
    """Keep a picture of a page: all of it, or its first part."""
    page.wait_for_load_state()
    clip = None
    if height is not None:
        clip = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height}
    page.screenshot(path=FOLDER / f"{name}.png", full_page=True, clip=clip)
    print(f"Written: {name}.png")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open chromium."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def main() -> None:
    """Run the service and take the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder, clock = Path(name), Clock()
        os.environ["DPMARKET_STATE"] = str(folder / "state")
        settings = Settings(folder=folder)
        with (
            open_desk(folder / "market.ledger", folder / "keys", settings.terms) as desk,
            serving(desk, settings, clock) as (url, _),
            chromium() as browser,
        ):
            prepare(desk)
            Story(desk, url, clock, browser).run()


if __name__ == "__main__":
    main()
