"""Requests to a service as it is installed, on loopback: against an empty route, in turns in one run.

Server and caller are two processes. The caller sends one request after the other, so that requests per second
are those of one caller; both processes share the machine's cores. The empty route is `/healthz`, which asks
nobody. A menu is a seat and 50 lines; quote and acceptance are committed with idempotency keys, and menu and
quote are counted against a limit in the database as well.
"""

import contextlib
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx

from _live_market import market_for
from _results import Table, at_most, measure, tell
from dpmarket import market
from dpmarket.campaign import check_market
from dpmarket.web.client import Client
from dpmarket.web.running import opened
from dpmarket.web.service import clock
from dpmarket.web.settings import read_settings
from dpmarket.web.setup import init_service, new_member

SELLERS = 300
REQUESTS = int(os.environ.get("REQUESTS", "100000"))
COMMAND = "from dpmarket.cli import main; main()"


def acts():
    with service() as (url, _, tokens):
        tell(f"{SELLERS} sellers")
        times = {name: [] for name in ("empty route", "me", "menu", "quote", "accept")}
        with httpx.Client(trust_env=False) as http:
            for token in tokens[:SELLERS]:
                one_seller(url, http, token, times)
        with httpx.Client(trust_env=False, timeout=60.0) as http, ThreadPoolExecutor(8) as pool:
            start = time.perf_counter()
            several = list(pool.map(lambda token: timed(Client(url, token, http).me), tokens[SELLERS:]))
            rate = len(several) / (time.perf_counter() - start)
    empty = statistics.median(times["empty route"])
    rows = []
    for name, found in [*times.items(), ("me, 8 callers at once", several)]:
        middle, late = statistics.median(found), statistics.quantiles(found, n=100)[98]
        each = rate if found is several else 1 / middle
        rows.append(
            [name, f"{1e3 * middle:.1f} ms", f"{each:.0f}", f"{middle / empty:.1f}", f"{late / middle:.1f}"]
        )
    yield Table(
        f"Requests of {SELLERS} sellers, one after the other",
        ["request", "median", "a second", "in empty requests", "p99 : p50"],
        rows,
        "Every `quote` and `accept` waits for the disk; `me` only reads.",
    )


def memory():
    with service() as (url, process, tokens):
        tell(f"memory over {REQUESTS:,} requests")
        sizes = []
        with httpx.Client(trust_env=False, timeout=60.0) as http, ThreadPoolExecutor(4) as pool:
            for tenth in range(10):
                work = ((url, http, tokens[k % len(tokens)], k) for k in range(REQUESTS // 10))
                codes = set(pool.map(lambda one: any_request(*one), work))
                assert codes == {200, 401, 404, 422}, codes
                sizes.append(resident(process.pid))
                tell(f"{tenth + 1} of 10: {sizes[-1] / 1024:.0f} MB")
    yield Table(
        f"Memory of the server over {REQUESTS:,} requests",
        ["after a tenth", "after all", "ratio"],
        [[f"{sizes[0] / 1024:.0f} MB", f"{sizes[-1] / 1024:.0f} MB", at_most(1.05, sizes[-1] / sizes[0])]],
        "A quarter each of the requests is answered, refused, finds nothing, and is not let in.",
    )


def one_seller(url, http, token, times):
    seller = Client(url, token, http)
    times["empty route"].append(timed(lambda: http.get(f"{url}/healthz")))
    times["me"].append(timed(seller.me))
    times["menu"].append(timed(seller.menu))
    times["quote"].append(timed(lambda: seller.quote(2.0)))
    times["accept"].append(timed(seller.accept))


def any_request(url, http, token, k):
    kind, headers = k % 4, {"Authorization": f"Bearer {token}"}
    if kind == 0:
        return http.get(f"{url}/api/v1/me", headers=headers).status_code
    if kind == 1:
        headers["Idempotency-Key"] = secrets.token_hex(16)
        return http.post(f"{url}/api/v1/me/quote", headers=headers, json={"cost": -1}).status_code
    if kind == 2:
        return http.get(f"{url}/api/v1/me/receipt", headers=headers).status_code
    return http.get(
        f"{url}/api/v1/me", headers={"Authorization": f"Bearer {secrets.token_hex(16)}"}
    ).status_code


def timed(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def resident(pid):
    """Return what a process holds in memory, in kB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise SystemExit("this system does not tell what a process holds")


@contextlib.contextmanager
def service():
    """Give a service's address, its process, and tokens of sellers who have consented."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "service"
        os.environ["DPMARKET_STATE"] = str(folder / "state")
        init_service(folder, "operator")
        tokens = sellers(folder)
        command = [sys.executable, "-c", COMMAND, "serve", str(folder), "--no-worker"]
        command += ["--port", "0", "--metrics-port", "0"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline()
            yield line.split()[2].rstrip(";"), process, tokens
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()


def sellers(folder):
    """Open a campaign in which everybody has consented; return their tokens."""
    settings, now, rules = read_settings(folder), clock(), market_for(2 * SELLERS)
    schedule = market.Schedule(now, now + timedelta(days=1), now + timedelta(days=1))
    planned = market.plan_opening(check_market(rules), "online")
    with opened(settings) as desk:
        buyer = new_member(desk, "buyer", "buyer", "").id
        with market.acting(desk) as connection:
            campaign = market.draft_campaign(
                connection, buyer, "load", rules, "online", schedule, consent_version=1, now=now
            ).campaign
            market.fund_campaign(connection, campaign, 10**9, now)
            market.open_campaign(connection, campaign, planned, market.new_key(desk.keys, campaign), now)
            page = market.consent_page(connection, campaign).digest
            invited = market.invite(
                connection, campaign, [f"panel {k}" for k in range(2 * SELLERS)], 5.0, now
            )
            for one in invited:
                market.give_consent(connection, one.participation, page, now)
    return [one.token for one in invited]


if __name__ == "__main__":
    measure(__file__, acts, memory)
