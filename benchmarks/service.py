"""Requests to a service as it is installed, on loopback, against its empty route in turns in one run.

Service, worker and callers are processes on the same cores. The empty route is `/healthz`, which looks
nothing up. A seller's way is consent, menu, quote, acceptance and record; all of them are committed.
"""

import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from _results import Table, at_most, measure, tell

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from outside.driver import running_service
from outside.goods import GOODS, sellers

SELLERS = int(os.environ.get("SELLERS", "100"))
REQUESTS = int(os.environ.get("REQUESTS", "20000"))
CALLERS = (1, 4, 16)
ACTS = ("empty route", "me", "consent", "menu", "quote", "acceptance", "record")
GOOD = GOODS["two classes"]


def opened(service, number):
    """Open a campaign and return a caller for each of its sellers, with their costs and records."""
    campaign = service.open(GOOD.rules(number), amount=5_000_000)
    people = [f"{campaign} {k}" for k in range(number)]
    callers = [one for k in range(0, number, 50) for one in service.invite(campaign, *people[k : k + 50])]
    _, costs, people = sellers(GOOD, number)
    return list(zip(callers, costs, [rows[0] for rows in people], strict=True))


def timed(act, *arguments, **options):
    start = time.perf_counter()
    answer = act(*arguments, **options)
    return time.perf_counter() - start, answer


def acts():
    with tempfile.TemporaryDirectory() as folder, running_service(folder) as service:
        times = {name: [] for name in ACTS}
        for caller, cost, record in opened(service, SELLERS):
            times["empty route"].append(timed(service.http.get, "/healthz")[0])
            times["consent"].append(timed(caller.consent)[0])
            times["me"].append(timed(caller.get, "/me")[0])
            times["menu"].append(timed(caller.reserve)[0])
            seconds, quoted = timed(caller.act, "choose", cost=cost)
            times["quote"].append(seconds)
            if quoted["epsilon"]:
                times["acceptance"].append(timed(caller.act, "accept")[0])
                times["record"].append(timed(caller.act, "deliver", values=record)[0])
    empty = statistics.median(times["empty route"])
    rows = []
    for name, found in times.items():
        middle, late = statistics.median(found), float(np.quantile(found, 0.99))
        rows.append([name, f"{1e3 * middle:.1f} ms", f"{middle / empty:.1f}", f"{late / middle:.1f}"])
    yield Table(
        f"Requests of {SELLERS} sellers, one after the other",
        ["request", "median", "in empty requests", "p99 : p50"],
        rows,
    )


def callers_at_once():
    rows = []
    with tempfile.TemporaryDirectory() as folder, running_service(folder) as service:
        for number in CALLERS:
            tell(f"{number} callers")
            people = opened(service, SELLERS)

            def whole_way(one):
                return timed(one[0].sell, one[1], one[2])[0]

            start = time.perf_counter()
            with ThreadPoolExecutor(number) as pool:
                found = list(pool.map(whole_way, people))
            rate = SELLERS / (time.perf_counter() - start)
            rows.append([str(number), f"{rate:.1f}", f"{statistics.median(found):.2f} s"])
    title = "Sellers who go the whole way, by callers at once"
    yield Table(title, ["callers", "sellers a second", "median"], rows)


def memory():
    with tempfile.TemporaryDirectory() as folder, running_service(folder) as service:
        ((caller, _, _),) = opened(service, 1)
        sizes = []
        for k in range(REQUESTS):
            caller.get("/me")
            if k in (REQUESTS // 10, REQUESTS - 1):
                sizes.append(resident(service._serving.pid))
    yield Table(
        f"Memory of the web process over {REQUESTS:,} requests",
        ["after a tenth of them", "after all", "ratio"],
        [[f"{sizes[0]:.0f} MB", f"{sizes[1]:.0f} MB", at_most(1.05, sizes[1] / sizes[0])]],
    )


def resident(pid):
    """Return a process's resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    measure(__file__, acts, callers_at_once, memory)
