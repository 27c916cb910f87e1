"""How much one small machine holds: requests of 1, 4 and 16 callers at once, and room for people.

Server and callers are processes on the same cores, as installed, on loopback. A caller sends one request
after the other over one connection. The empty route is `/healthz`, which asks nobody. An *act* is one of the
six POSTs of a seller's way: consent, menu, quote, acceptance, record, payee. Seconds say little about another
machine; ratios to the empty route, and the share of a core that the web processes had, say what limits: near
100% for each of them it is their processor time, far below it the database, or that others have the cores.
"""

import contextlib
import http.client
import json
import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from _live_market import market_for
from _results import Table, measure, tell
from dpmarket import market
from dpmarket.campaign import check_market
from dpmarket.ledger import reading
from dpmarket.web.running import opened
from dpmarket.web.service import clock
from dpmarket.web.settings import read_settings
from dpmarket.web.setup import init_service, new_member

CALLERS = (1, 4, 16)
REQUESTS = 800  # of each kind, by all callers together
SELLERS = 96  # who go the whole way, for each number of callers
PEOPLE, CAMPAIGNS = (200, 1_000), (5, 55)
COMMAND = "from dpmarket.cli import main; main()"
RECORD = {"age": 41.0, "income": 2.5e4, "bought": "yes"}
TICKS = os.sysconf("SC_CLK_TCK")


def callers_on_a_file():
    yield from requests("SQLite, one web process", None, 1)


def callers_on_a_server():
    with postgres() as address:
        yield from requests("PostgreSQL, one web process", address(), 1)
        yield from requests("PostgreSQL, two web processes", address(), 2)


def requests(title, address, webs):
    with service(address, webs, len(CALLERS) * SELLERS) as (ports, processes, tokens, page):
        rows = []
        for place, number in enumerate(CALLERS):
            tell(f"{title}, {number} callers")
            own = tokens[place * SELLERS : (place + 1) * SELLERS]
            found = {}
            for name, work in (
                ("empty", [[("GET", "/healthz", "", None)] * REQUESTS]),
                ("me", [[("GET", "/api/v1/me", token, None)] * (REQUESTS // SELLERS) for token in own]),
                ("acts", [way(token, page) for token in own]),
            ):
                found[name] = timed(ports, processes, number, work)
            rows.append(
                [
                    str(number),
                    f"{found['empty'].rate:,.0f}",
                    f"{found['me'].rate:,.0f}",
                    f"{found['acts'].rate:,.0f}",
                    f"{found['empty'].rate / found['acts'].rate:.1f}",
                    f"{1e3 * found['acts'].late:,.0f} ms",
                    f"{100 * found['acts'].share:.0f}%",
                    f"{1e3 * found['acts'].each:.1f} ms",
                ]
            )
    yield Table(
        title,
        [
            "callers",
            "empty a second",
            "`me` a second",
            "acts a second",
            "empty : acts",
            "p99 of acts",
            "web's share",
            "web's CPU an act",
        ],
        rows,
        "The share is processor time of the web processes over the time that passed: of 100% for each of "
        "them that has a core. No web process does more acts a second than one second over its CPU an act.",
    )


class Timed:
    """What callers found: requests a second, the 99th percentile of times, the web's share of a core."""

    def __init__(self, seconds, times, used):
        times = sorted(times)
        self.rate, self.late = len(times) / seconds, times[int(0.99 * (len(times) - 1))]
        self.share, self.each = used / seconds, used / len(times)


def timed(ports, processes, number, work):
    """Let callers do lists of requests, each list in order; they begin together."""
    lists = [one for part in work for one in ([part] if len(work) > 1 else _parts(part, number))]
    shares = [[request for one in lists[k::number] for request in one] for k in range(number)]
    barrier = multiprocessing.Barrier(number + 1)
    ends = multiprocessing.SimpleQueue()
    asking = [
        multiprocessing.Process(
            target=ask, args=(ports[k % len(ports)], shares[k], barrier, ends), daemon=True
        )
        for k in range(number)
    ]
    for one in asking:
        one.start()
    barrier.wait()
    used, start = sum(map(processor_time, processes)), time.perf_counter()
    times = [value for _ in asking for value in ends.get()]
    seconds = time.perf_counter() - start
    used = sum(map(processor_time, processes)) - used
    for one in asking:
        one.join()
    return Timed(seconds, times, used)


def _parts(whole, number):
    return [whole[k::number] for k in range(number)]


def ask(port, requests, barrier, ends):
    """Be a caller: one request after the other over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.connect()
    times = []
    barrier.wait()
    for method, path, token, body in requests:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        content = None
        if method == "POST":
            headers |= {"Idempotency-Key": secrets.token_urlsafe(24), "Content-Type": "application/json"}
            content = None if body is None else json.dumps(body)
        start = time.perf_counter()
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        answer.read()
        times.append(time.perf_counter() - start)
        assert answer.status < 300, (path, answer.status)
    ends.put(times)


def way(token, page):
    """Return a seller's acts."""
    bodies = {
        "consent": {"digest": page},
        "menu": None,
        "quote": {"cost": 2.0},
        "acceptance": None,
        "record": {"values": RECORD},
        "payee": {"payee": "an account"},
    }
    return [("POST", f"/api/v1/me/{name}", token, body) for name, body in bodies.items()]


def room():
    with postgres() as address:
        rows = []
        for name, place in (("SQLite", None), ("PostgreSQL", address())):
            tell(f"people, {name}")
            rows.append([name, *people_in(place)])
        yield Table(
            "Room for people",
            ["database", "bytes a seller", "sellers in 10 GB", "CPU of a seller's way"],
            rows,
            f"Growth of the database from {PEOPLE[0]:,} to {PEOPLE[1]:,} sellers who went the whole way, "
            "with idempotency keys, events, sealed record and payee, before the training deletes records.",
        )
        rows = []
        for name, place in (("SQLite", None), ("PostgreSQL", address())):
            tell(f"campaigns, {name}")
            rows.append([name, *campaigns_in(place)])
        yield Table(
            "Room for campaigns",
            [
                "database",
                f"worker's round, {CAMPAIGNS[0]} open",
                f"{CAMPAIGNS[1]} open",
                "CPU a campaign",
                "open at once",
                "memory",
            ],
            rows,
            "A worker looks at every open campaign each second. Open at once: how many it looks at with half "
            "of a core. Memory: of the process with desk, kernels and all campaigns.",
        )


def people_in(place):
    """Return bytes a seller, how many fit into 10 GB, and the processor time of one's way."""
    sizes, used = [], 0.0
    with desk_of(place) as desk:
        campaign, page = open_one(desk, PEOPLE[1])
        begun = 0
        for number in PEOPLE:
            start = time.process_time()
            go_the_way(desk, campaign, page, range(begun, number))
            used += time.process_time() - start
            begun = number
            sizes.append(size_of(desk))
    each = (sizes[1] - sizes[0]) / (PEOPLE[1] - PEOPLE[0])
    return f"{each:,.0f}", f"{10 * 2**30 / each / 1e6:.1f} million", f"{1e3 * used / PEOPLE[1]:.1f} ms"


def go_the_way(desk, campaign, page, numbers):
    """Take people the whole way, with a key for each act, as requests do."""
    now = clock()
    operator = market.operator_key(desk.keys)
    for number in numbers:
        with market.acting(desk) as connection:
            (who,) = market.invite(connection, campaign, [f"panel {campaign} {number}"], 5.0, now)
        who = who.participation
        acts = (
            lambda connection, who=who: market.give_consent(connection, who, page, now),
            lambda connection, who=who: market.take_seat(connection, who, now),
            lambda connection, who=who: market.choose(connection, who, 2.0, now),
            lambda connection, who=who: market.accept(connection, who, now),
            lambda connection, who=who: market.deliver(connection, who, RECORD, now),
            lambda connection, who=who: market.set_payee(connection, who, "an account", operator, now),
        )
        for act in acts:
            with market.acting(desk) as connection:
                key = secrets.token_urlsafe(24)
                market.once(
                    connection,
                    who,
                    key,
                    {},
                    lambda act=act, connection=connection: {"x": bool(act(connection))},
                    now,
                )


def campaigns_in(place):
    """Return what a worker's round takes with few and many open campaigns."""
    with desk_of(place) as desk:
        costs = []
        begun = 0
        for number in CAMPAIGNS:
            for _ in range(begun, number):
                campaign, page = open_one(desk, 20)
                go_the_way(desk, campaign, page, range(2))
            begun = number
            market.work(desk, clock())
            rounds = 5
            start = time.process_time(), time.perf_counter()
            for _ in range(rounds):
                market.work(desk, clock())
            costs.append(
                ((time.process_time() - start[0]) / rounds, (time.perf_counter() - start[1]) / rounds)
            )
    each = (costs[1][0] - costs[0][0]) / (CAMPAIGNS[1] - CAMPAIGNS[0])
    return (
        *(f"{1e3 * wall:,.0f} ms" for _, wall in costs),
        f"{1e3 * each:.2f} ms",
        f"{0.5 / each:,.0f}",
        f"{resident(os.getpid()) / 1024:,.0f} MB",
    )


@contextlib.contextmanager
def desk_of(place):
    with tempfile.TemporaryDirectory() as name:
        os.environ["DPMARKET_STATE"] = str(Path(name) / "state")
        with market.open_desk(place or Path(name) / "market.ledger", Path(name) / "keys") as desk:
            with market.acting(desk) as connection:
                market.add_consent(connection, "en", market.ENGLISH, clock())
            yield desk


def open_one(desk, people):
    """Open a campaign with money for everybody; return its id and the consent page's digest."""
    now, rules = clock(), market_for(people)
    schedule = market.Schedule(now, now + timedelta(days=1), now + timedelta(days=1))
    planned = market.plan_opening(check_market(rules), "online")
    with market.acting(desk) as connection:
        buyer = market.add_member(connection, "buyer", "buyer", now)
        campaign = market.draft_campaign(
            connection, buyer, secrets.token_hex(8), rules, "online", schedule, consent_version=1, now=now
        ).campaign
        market.fund_campaign(connection, campaign, 10**9, now)
        market.open_campaign(connection, campaign, planned, market.new_key(desk.keys, campaign), now)
        return campaign, market.consent_page(connection, campaign).digest


def size_of(desk):
    """Return the bytes that a database takes."""
    with reading(desk.ledger) as connection:
        if desk.ledger.path is None:
            return connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar()
        pages, size = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("page_count", "page_size")
        )
        return pages * size


@contextlib.contextmanager
def postgres():
    """Run a PostgreSQL; give a function that makes an empty database and returns its address."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "runtime").mkdir(mode=0o700)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(Path(name) / "runtime"))
        import pgserver
        import psycopg

        server = pgserver.get_server(Path(name) / "data", cleanup_mode="stop")

        def make():
            database = f"market_{secrets.token_hex(4)}"
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {database}")
            return server.get_uri(database=database)

        try:
            yield make
        finally:
            server.cleanup()


@contextlib.contextmanager
def service(address, webs, sellers):
    """Give ports and processes of a service, tokens of invited people, and the consent page's digest."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name) / "service"
        os.environ["DPMARKET_STATE"] = str(folder / "state")
        environment = dict(os.environ)
        if address is not None:
            environment["DPMARKET_DATABASE_URL"] = os.environ["DPMARKET_DATABASE_URL"] = address
            stack.callback(os.environ.pop, "DPMARKET_DATABASE_URL")
        init_service(folder, "operator")
        with opened(read_settings(folder)) as desk:
            new_member(desk, "buyer", "buyer", "")
            campaign, page = open_one(desk, sellers)
            with market.acting(desk) as connection:
                names = [f"panel {k}" for k in range(sellers)]
                tokens = [one.token for one in market.invite(connection, campaign, names, 5.0, clock())]
        ports, pids = [], []
        for _ in range(webs):
            command = [sys.executable, "-c", COMMAND, "serve", str(folder), "--no-worker"]
            command += ["--port", "0", "--metrics-port", "0"]
            log = stack.enter_context((folder / "log").open("ab"))
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
            stack.callback(process.stdout.close)
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            ports.append(int(process.stdout.readline().split()[2].rstrip(";").rsplit(":", 1)[1]))
            pids.append(process.pid)
        yield ports, pids, tokens, page


def processor_time(pid):
    """Return how long a process has computed, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid):
    """Return what a process holds in memory, in kB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise SystemExit("this system does not tell what a process holds")


if __name__ == "__main__":
    measure(__file__, callers_on_a_file, callers_on_a_server, room)
