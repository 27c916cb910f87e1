"""Requests to a service as it is installed, on loopback, against its empty route in turns in one run.

Service, worker and callers are processes on the same cores. The empty route is `/healthz`, which looks
nothing up. A seller's way is consent, menu, quote, acceptance and record; all of them are committed.
Start, processor time of a page and memory are those of `dpmarket serve` and `dpmarket worker`, started as
commands that find no compiled file of Python or numba, before and after a campaign with its report.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from _results import Table, at_most, measure, tell

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from outside.driver import Service, running_service, until
from outside.goods import GOODS, sellers
from outside.processes import Done

SELLERS = int(os.environ.get("SELLERS", "100"))
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


class Command:
    """A command that loads everything anew, in place of a fork of a process that has loaded it."""

    def __init__(self, *arguments, cwd, environment):
        self._out = Path(tempfile.mkstemp(dir=cwd)[1])
        program = str(Path(sys.executable).with_name("dpmarket"))
        with self._out.open("w") as out:
            self._process = subprocess.Popen(
                [program, *map(str, arguments)],
                cwd=cwd,
                env={**os.environ, **environment},
                stdout=out,
                stderr=subprocess.DEVNULL,
            )
        self.pid, self.signal = self._process.pid, self._process.send_signal

    def out(self):
        """Return what it has written so far."""
        return self._out.read_text()

    def wait(self, code=0, seconds=300):
        """Return what it left behind."""
        found = self._process.wait(seconds)
        assert code is None or found == code, self.out()
        return Done(found, self.out(), "")


class Installed(Service):
    """A service of commands, each with empty caches of compiled files, and without pandas.

    The extra ``service`` does not install pandas, which scikit-learn loads wherever it is there.
    """

    def launch(self, *arguments, **options):
        """Start a command."""
        empty = tempfile.mkdtemp(dir=self.folder.parent)
        caches = {"PYTHONPYCACHEPREFIX": empty, "NUMBA_CACHE_DIR": empty, "PYTHONDONTWRITEBYTECODE": ""}
        environment = {**self.environment(), **caches}
        (Path(empty) / "pandas.py").write_text("raise ImportError")
        environment["PYTHONPATH"] = os.pathsep.join([empty, environment["PYTHONPATH"]])
        return Command(*arguments, cwd=self.folder.parent, environment=environment, **options)


def start_and_memory(people=12):
    with tempfile.TemporaryDirectory() as folder:
        service = Installed(Path(folder) / "service")
        start = time.perf_counter()
        service.start()
        assert service.http.get("/login").is_success
        seconds = time.perf_counter() - start
        try:
            web, worker = service._serving.pid, service._worker.pid
            started, sizes = processor_seconds(web), [("started", resident(web), resident(worker))]
            callers = opened(service, people)
            page = quote_page(service, callers[0][0])
            for caller, cost, record in callers[1:]:
                caller.sell(cost, record)
            sizes.append(("records sold", resident(web), resident(worker)))
            (campaign,) = (one["id"] for one in service.members["buyer"].get("/campaigns").json())
            service.ahead(days=10)
            service.until_state(campaign, "released")
            until(lambda: service.members["buyer"].request("GET", f"/campaigns/{campaign}/report").is_success)
            sizes.append(("report made", resident(web), resident(worker)))
            helpers = [resident(one) for one in children(worker)]
        finally:
            service.kill()
    yield Table(
        "Start to the first page, and the page of quotes",
        ["what", "seconds"],
        [
            ["first page after the command", at_most(5.0, seconds)],
            ["processor time until then", f"{started:.2f}"],
            ["processor time of a page of quotes", at_most(0.025, page, ".4f")],
        ],
    )
    yield Table(
        "Memory of both processes in MB",
        ["when", "web", "worker"],
        [[name, at_most(250, web, ".0f"), at_most(250, worker, ".0f")] for name, web, worker in sizes],
        f"The process that makes reports ends after them; with it {max(helpers, default=0.0):.0f} MB more.",
    )


def quote_page(service, caller, pages=200):
    """Return the processor time of the web process for a page on which a seller chooses a quote."""
    caller.consent()
    caller.reserve()
    cookie = service.http.post(f"/i/{caller.token}").headers["set-cookie"].split(";")[0]
    before = processor_seconds(service._serving.pid)
    for _ in range(pages):
        assert "data-slider" in service.http.get("/s/choose", headers={"Cookie": cookie}).text
    return (processor_seconds(service._serving.pid) - before) / pages


def processor_seconds(pid):
    """Return a process's processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def children(pid):
    """Return the processes that a process has started."""
    found = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(one) for one in re.findall(r"\d+", " ".join(found))]


def resident(pid):
    """Return a process's resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    measure(__file__, start_and_memory, acts, callers_at_once)
