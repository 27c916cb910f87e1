"""Take the screenshots of the tutorial about a live campaign: python docs/make_service_screenshots.py.

Runs a service on loopback with a clock of its own and simulated sellers, goes through its pages with
chromium, and leaves pictures in docs/_static/service. Needs the extras dev and service.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from dpmarket.web.client import Client
from dpmarket.web.folder import new_member, opened, prepare
from dpmarket.web.running import serving
from dpmarket.web.settings import Settings
from dpmarket.web.worker import working

FOLDER = Path(__file__).parent / "_static" / "service"
ROLES = ("buyer", "paymaster", "operator")
NAMES = ("chromium", "chromium-browser", "google-chrome")
FILLED = {
    "campaign.name": "Sleep study",
    "sellers.expected": "200",
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


RULES = {
    "campaign": {"name": "Sleep study", "mechanism": "online"},
    "sellers": {"expected": 60},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 0.0005, "max_epsilon": 1.0},
    "money": {"currency": "EUR"},
    "features": {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 1e5}},
    "label": {"column": "sleeps well", "values": ["no", "yes"]},
}


class Clock:
    """Tells a time that the script moves."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC) + self.ahead


class Story:
    """The tutorial, picture by picture."""

    def __init__(self, market: Any, url: str, clock: Clock, browser: Browser) -> None:
        self.url, self.clock, self.browser = url, clock, browser
        names = {"buyer": "A hospital", "paymaster": "A bank's clerk", "operator": "A panel"}
        self.members = {role: new_member(market, names[role], [role], url) for role in ROLES}
        self.clients = {role: Client(url, made.token) for role, made in self.members.items()}

    def run(self) -> None:
        """Take all pictures."""
        page = self.window(1280)
        page.goto(self.members["buyer"].link)
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{self.url}/m/new")
        for name, value in FILLED.items():
            page.locator(f"[id='{name}']").fill(value)
        page.get_by_role("button", name="Plan").click()
        shoot(page, "plan", height=1000)
        campaign, invited = self.campaign()
        link = f"{self.url}/i/{invited[0]['token']}"
        self.seller(link)
        rng = np.random.default_rng(29)
        for one in invited[1:]:
            sell(Client(self.url, one["token"]), rng)
        page.goto(f"{self.url}/m/campaigns/{campaign}")
        shoot(page, "dashboard")
        self.clock.ahead = timedelta(days=9, minutes=1)
        while self.clients["buyer"].campaign(campaign)["state"] != "released":
            time.sleep(0.2)
        self.receipt(link)

    def campaign(self) -> tuple[str, list[dict[str, str]]]:
        """Open a campaign and invite sellers; return it and their invitations."""
        buyer, paymaster, operator = (self.clients[role] for role in ROLES)
        times = [(self.clock() + timedelta(days=days)).isoformat() for days in (0, 7, 9)]
        campaign = buyer.draft(RULES, *times)
        paymaster.act("fund", campaign, amount=20_000)
        buyer.act("open", campaign, confirmed=True)  # so few sellers buy little more than noise
        return campaign, operator.invite(campaign, [f"panel {k}" for k in range(60)])

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

    def window(self, width: int) -> Page:
        """Open a window of a width."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 844}, locale="en-GB", timezone_id="UTC", color_scheme="light"
        )
        return context.new_page()


def sell(client: Client, rng: np.random.Generator) -> None:
    """Sell as a simulated seller, if there is money for another one."""
    client.consent()
    if client.act("reserve")["state"] == "waiting":
        return
    if client.act("choose", cost=rng.uniform(1, 5))["payment"] == 0:
        return
    age, income = rng.uniform(18, 90), rng.uniform(0, 1e5)
    label = "yes" if age / 90 + income / 1e5 > 1.0 else "no"
    client.act("accept")
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
        settings, clock = Settings(folder=Path(name) / "study"), Clock()
        with opened(settings, make=True) as market:
            market.clock = clock
            prepare(market, settings)
            with serving(market, settings) as (url, _), working(market, settings), chromium() as browser:
                Story(market, url, clock, browser).run()


if __name__ == "__main__":
    main()
