"""A live market on this machine, to click through: ``make serve``, or python examples/live_market.py.

Runs the service on loopback, in a temporary folder, with one open campaign. Most of the sellers are simulated
and sell through the API; a link for each role lets you act yourself. Enter moves the service's clock past the
end of the campaign: the model is trained, receipts are verified, sellers are paid. Ctrl-C stops everything.
Needs the extra ``service``.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from dpmarket.certificates import verify
from dpmarket.web import Client, Refused, Settings
from dpmarket.web.folder import new_member, opened, prepare
from dpmarket.web.running import serving
from dpmarket.web.worker import working

SIMULATED, YOURS = 25, 3
ROLES = ("buyer", "paymaster", "operator", "auditor")
RULES = {
    "campaign": {"name": "Who buys?", "mechanism": "online"},
    "sellers": {"expected": SIMULATED + YOURS},
    "costs": {"distribution": "uniform(1, 5)"},
    "objective": {"payment_weight": 0.0005, "max_epsilon": 1.0},
    "money": {"currency": "EUR"},
    "features": {"age": {"low": 18.0, "high": 90.0}, "income": {"low": 0.0, "high": 1e5}},
    "label": {"column": "bought", "values": ["no", "yes"]},
}


class Clock:
    """The time of the service: ``ahead`` of the machine's."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC) + self.ahead


def open_campaign(buyer: Client, paymaster: Client, now: datetime) -> str:
    """Draft a campaign of one hour, enter the buyer's money, open it; return its id."""
    times = [(now + timedelta(minutes=minutes)).isoformat() for minutes in (0, 50, 60)]
    campaign = buyer.draft(RULES, *times)
    paymaster.act("fund", campaign, amount=20_000)
    buyer.act("open", campaign, confirmed=True)  # so few people buy a model of little use
    return campaign


def sell(seller: Client, cost: float, record: dict[str, Any]) -> None:
    """Take part as a seller who reports the true cost, and accepts whatever is offered."""
    seller.consent()
    seller.act("reserve")
    if seller.act("choose", cost=cost)["payment"] > 0:
        seller.act("accept")
        seller.deliver(record)
        seller.act("set_payee", payee="an account")


def simulated_sellers() -> list[tuple[float, dict[str, Any]]]:
    """Return costs per unit of epsilon and records, the same in every run."""
    rng = np.random.default_rng(29)
    costs, ages, incomes = (rng.uniform(*ends, SIMULATED) for ends in ((1, 5), (18, 90), (0, 1e5)))
    return [
        (cost, {"age": age, "income": income, "bought": "yes" if age / 90 + income / 1e5 > 1.0 else "no"})
        for cost, age, income in zip(costs.tolist(), ages.tolist(), incomes.tolist(), strict=True)
    ]


def when_there(read: Callable[[], Any]) -> Any:
    """Ask again and again until the service has an answer."""
    while True:
        with contextlib.suppress(Refused):
            return read()
        time.sleep(0.2)


def pay_everyone(campaign: str, paymaster: Client) -> int:
    """Pay out all that is owed, and confirm it; return the number of payments."""
    lines = paymaster.pay_out(campaign)["lines"]
    return int(paymaster.act("confirm", campaign, references=[line["reference"] for line in lines]))


def run(folder: Path) -> None:
    """Run the service, print the links, and end the campaign when Enter is pressed."""
    clock, settings = Clock(), Settings(folder=folder)
    with opened(settings, make=True) as market, contextlib.ExitStack() as stack:
        market.clock = clock
        prepare(market, settings)
        url, _ = stack.enter_context(serving(market, settings))
        stack.enter_context(working(market, settings))
        http = stack.enter_context(httpx.Client(timeout=60.0, trust_env=False))
        members = {role: new_member(market, f"The {role}", [role], url) for role in ROLES}
        clients = {role: Client(url, member.token, http) for role, member in members.items()}
        campaign = open_campaign(clients["buyer"], clients["paymaster"], clock())
        names = [f"panel {k}" for k in range(SIMULATED + YOURS)]
        invited = clients["operator"].invite(campaign, names)
        people = simulated_sellers()
        sellers = [Client(url, one["token"], http) for one in invited[:SIMULATED]]
        for seller, (cost, record) in zip(sellers, people, strict=True):
            sell(seller, cost, record)

        print(f"Serving on {url}. {SIMULATED} simulated sellers have sold. Open in a browser:")
        for one in invited[SIMULATED:]:
            print(f"  seller: {url}/i/{one['token']}")
        for role, member in members.items():
            print(f"  {role}: {member.link} (once)")
        print(f"The API is described at {url}/api/v1/openapi.json; tokens for it:")
        for role, member in members.items():
            print(f"  {role}: {member.token}")
        print("Enter ends the campaign: the model is trained. Ctrl-C stops everything.", flush=True)
        # Not readline alone, which Ctrl-C does not interrupt: polars has signals restart it.
        if select.select([sys.stdin], [], []) and sys.stdin.readline():
            clock.ahead += timedelta(hours=1)
            certificate = when_there(lambda: clients["buyer"].document(campaign, "certificate"))
            sold = [k for k, seller in enumerate(sellers) if seller.me()["state"] == "spent"]
            valid = [
                verify(certificate, receipt=sellers[k].receipt(), cost=people[k][0]).passed for k in sold
            ]
            print(f"The model is trained. Valid receipts: {sum(valid)} of {len(valid)}.")
            print(f"Payments made: {pay_everyone(campaign, clients['paymaster'])}.")
            print("Look at the pages again; Ctrl-C stops everything.", flush=True)
        while True:
            time.sleep(60.0)


def main() -> None:
    """Run the market in a temporary folder, whatever service the environment names."""
    for name in [name for name in os.environ if name.startswith("DPMARKET_")]:
        del os.environ[name]
    print("Starting a live market.", flush=True)
    with tempfile.TemporaryDirectory(prefix="dpmarket-") as folder, contextlib.suppress(KeyboardInterrupt):
        run(Path(folder))


if __name__ == "__main__":
    main()
