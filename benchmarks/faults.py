"""A day's market against the service on PostgreSQL while it is killed, cut off, filled up and set wrong.

Three web processes, two workers and a PostgreSQL on a small disk, all on loopback; sellers, buyer and
paymaster are threads that ask again with the same key until they are answered, as the client in
`dpmarket.web.client` does. Once, a backup from before four trainings is put back. At the end the database and
the log are read with nothing of the service and held against what the callers were told: exit code 1 if
anything is lost or there twice, a receipt does not verify, or money or epsilon do not add up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from _fault_check import problems_in_books, problems_in_keys, problems_in_log, problems_in_receipts
from _fault_day import RESTORE, Asked, Day
from _fault_kinds import KINDS, Breaker
from _fault_market import Market
from _fault_people import Asker, Journal
from _fault_places import COMMAND, ONE_THREAD, Database, Failed, Process, free_port, small_disk
from _fault_proxy import Wires
from _markdown import write_tables
from _results import FOLDER, Table, at_least, at_most, measure, tell
from dpmarket.errors import DpmarketError
from dpmarket.files import read_json, write_json
from dpmarket.ledger import check_everything, reading
from dpmarket.market import check_market, open_desk

WEBS, WORKERS = 3, 2
MEGABYTES = 400  # of the small disk
ROLES = ("buyer", "paymaster", "operator")
RUNS = FOLDER / "fault_runs"
ENOUGH_FAULTS, ENOUGH_ACTS, MINUTES = 200, 20_000, 30.0


@dataclass
class Run:
    """What a run came to; ``problems`` is empty if all is well."""

    seed: int
    faults: dict[str, int]
    acts: int
    again: dict[str, int]
    campaigns: dict[str, int]
    attempts: dict[str, int]
    sellers: int
    sold: int
    receipts: int
    paid: int
    disk: str
    problems: list[str]
    seconds: float
    processor_seconds: float


def run(asked: Asked) -> Run:
    """Run a day; everything that was started has ended afterwards."""
    begun, computed = time.monotonic(), _computed()
    with tempfile.TemporaryDirectory(prefix="dpmarket-faults-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        disk = folder / "disk"
        is_small = stack.enter_context(small_disk(disk, MEGABYTES))
        wires = stack.enter_context(Wires())
        http = stack.enter_context(
            httpx.Client(timeout=30.0, trust_env=False, limits=httpx.Limits(max_connections=200))
        )
        journal = Journal()
        journal.ends_at = begun + asked.seconds
        database = Database(disk / "postgres", folder / "postgres.log")
        stack.callback(database.kill)
        database.wait()
        with database.connect("postgres") as connection:
            connection.execute("CREATE DATABASE market")
        wire = wires.lay(database.port)
        environment = _environment(folder, disk, database.address(wire.port))
        tokens = _set_up(folder, environment)
        webs = [_process(folder, environment, f"web-{k}", free_port()) for k in range(WEBS)]
        workers = [_process(folder, environment, f"worker-{k}", None) for k in range(WORKERS)]
        for process in (*webs, *workers):
            stack.callback(process.kill)
        calls = [wires.lay(web.port) for web in webs]
        breaker = Breaker(
            database,
            webs,
            workers,
            calls=calls,
            connections=wire,
            disk=disk if is_small else None,
            state=disk / "state",
            seed=asked.seed,
        )
        breaker.heal()
        urls = [f"http://127.0.0.1:{one.port}" for one in calls]

        def asker_of(token: str) -> Asker:
            return Asker(journal, urls, http, token, token)

        members = {role: asker_of(token) for role, token in tokens.items()}
        people = max(round(asked.acts / 5.5 / 1.8), 4 * asked.sellers)  # nearly two campaigns each
        market = Market(journal, members, people, asked.seed)
        day = Day(asked, breaker, market, journal, folder=folder, environment=environment, asker_of=asker_of)
        try:
            day.run()
        except Exception as problem:
            _tell_logs(folder)
            if not isinstance(problem, Failed):
                raise
            journal.note_wrong(str(problem))
        else:
            for process in (*webs, *workers):
                process.stop()
        tell("the books")
        attempts, problems = _checked(day, database, disk, journal, environment)
        if problems:
            _tell_logs(folder)
    campaigns = day.campaigns
    return Run(
        seed=asked.seed,
        faults={kind: breaker.done[kind] for kind in (*KINDS, RESTORE)},
        acts=len(journal.acts),
        again=dict(journal.again),
        campaigns=dict(Counter(one.state for one in campaigns)),
        attempts=attempts,
        sellers=sum(len(one.sellers) for one in campaigns),
        sold=sum(len(one.sold) for one in campaigns),
        receipts=sum(seller.receipt is not None for one in campaigns for seller in one.sellers),
        paid=sum(line[2] for one in campaigns for line in one.lines if line[3] == "confirmed"),
        disk=f"a tmpfs of {MEGABYTES} MB" if is_small else "a limit on the size of files",
        problems=problems,
        seconds=time.monotonic() - begun,
        processor_seconds=_computed() - computed,
    )


def _computed() -> float:
    """Return how long this process and all that it started and that have ended computed, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _environment(folder: Path, disk: Path, address: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DPMARKET_")}
    return kept | ONE_THREAD | {
        "DPMARKET_DATABASE_URL": address,
        "DPMARKET_STATE": str(disk / "state"),
        "DPMARKET_KEYS_FOLDER": str(disk / "keys"),
        "DPMARKET_TESTING": "true",
    }  # fmt: skip


def _set_up(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Set a service up as an operator does; return its members' tokens."""
    service = str(folder / "service")
    commands = {"operator": ["init", service]}
    commands |= {role: ["invite-member", service, f"a {role}", role] for role in ROLES[:2]}
    tokens = {}
    for role, arguments in commands.items():
        done = subprocess.run(
            [*COMMAND, "service", *arguments, "--json"], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise Failed(f"service {arguments[0]}: {done.stderr}")
        tokens[role] = json.loads(done.stdout)["token"]
    return {role: tokens[role] for role in ROLES}


def _process(folder: Path, environment: dict[str, str], name: str, port: int | None) -> Process:
    clock = folder / f"{name}.clock"
    clock.write_text("0.0", encoding="ascii")
    arguments = ["worker", str(folder / "service")]
    if port is not None:
        arguments = [
            "serve",
            str(folder / "service"),
            "--no-worker",
            "--port",
            str(port),
            "--metrics-port",
            "0",
        ]
    return Process(
        arguments, folder / f"{name}.log", environment | {"DPMARKET_CLOCK_FILE": str(clock)}, port, clock
    )


def _checked(
    day: Day, database: Database, disk: Path, journal: Journal, environment: dict[str, str]
) -> tuple[dict[str, int], list[str]]:
    """Return how attempts to train ended, and everything that is wrong."""
    problems = [*journal.wrong]
    with database.connect() as connection:
        attempts = dict(connection.execute("SELECT state, count(*) FROM release GROUP BY state").fetchall())
        problems += problems_in_books(connection, journal.acts, day.campaigns, day.forgotten)
        problems += problems_in_log(connection, disk / "state", day.campaigns)
    problems += problems_in_receipts(day.campaigns)
    problems += problems_in_keys(disk / "keys")
    os.environ["DPMARKET_STATE"] = environment["DPMARKET_STATE"]
    try:  # last, because it tidies up
        with open_desk(database.address(), disk / "keys") as desk, reading(desk.ledger) as connection:
            check_everything(connection, desk.ledger)
            check_market(connection)
    except DpmarketError as problem:
        problems.append(f"the service's own check: {problem}")
    return attempts, problems


def _tell_logs(folder: Path) -> None:
    """Tell the last words of every process, which hold no values."""
    for log in sorted(folder.glob("*.log")):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]:
            tell(f"{log.stem}: {line[:240]}")


def tables() -> Iterator[Table]:
    """Give tables of all runs that were kept, oldest first."""
    runs = [Run(**read_json(path)) for path in sorted(RUNS.glob("*.json"))]
    names = [f"run {k} (seed {one.seed})" for k, one in enumerate(runs, 1)]
    yield Table(
        "Runs in a row, and what must not be",
        ["", *names],
        [
            ["faults", *[at_least(ENOUGH_FAULTS, sum(one.faults.values()), ".0f") for one in runs]],
            ["acts that were answered", *[at_least(ENOUGH_ACTS, one.acts, ",.0f") for one in runs]],
            ["minutes", *[at_most(MINUTES, one.seconds / 60, ".1f") for one in runs]],
            ["processor minutes of it all", *[f"{one.processor_seconds / 60:.1f}" for one in runs]],
            ["wrong, lost, twice", *[at_most(0, len(one.problems), ".0f") for one in runs]],
        ],
        "A fault is one act of breaking; an act is a POST that was answered, however often it was asked for.",
    )
    yield Table(
        "What was broken",
        ["fault", *names],
        [[kind, *[str(one.faults.get(kind, 0)) for one in runs]] for kind in (*KINDS, RESTORE)],
        f"Disk full: {runs[-1].disk}, with database, keys and log on it, was filled for seconds."
        if runs
        else "",
    )
    shown = [
        ("sellers invited", lambda one: f"{one.sellers:,}"),
        ("of them sold", lambda one: f"{one.sold:,}"),
        ("receipts that verify", lambda one: f"{one.receipts:,}"),
        ("paid, in euros", lambda one: f"{one.paid / 100:,.2f}"),
        *[(f"campaigns {state}", lambda one, state=state: str(one.campaigns.get(state, 0)))
          for state in ("released", "lost")],
        *[(f"trainings {state}", lambda one, state=state: str(one.attempts.get(state, 0)))
          for state in ("released", "lost", "returned")],
        *[(f"asked again: {why}", lambda one, why=why: f"{one.again.get(why, 0):,}")
          for why in ("unavailable", "seat lost", "early", "too often")],
    ]  # fmt: skip
    yield Table(
        "What it came to", ["", *names], [[name, *[tell_it(one) for one in runs]] for name, tell_it in shown]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=ENOUGH_FAULTS)
    parser.add_argument("--acts", type=int, default=ENOUGH_ACTS)
    parser.add_argument("--seconds", type=float, default=60 * MINUTES)
    parser.add_argument("--seed", type=int, default=None, help="Of faults and people; else a new one.")
    parser.add_argument("--sellers", type=int, default=100, help="Of a campaign.")
    parser.add_argument("--runs", type=int, default=3, help="One after the other.")
    parser.add_argument("--keep", action="store_true", help="Keep the runs, and write docs/tables/faults.md.")
    parser.add_argument("--tables", action="store_true", help="Write it from runs that were kept (--runs 0).")
    given = parser.parse_args()
    if given.keep:
        RUNS.mkdir(parents=True, exist_ok=True)
        for old in RUNS.glob("*.json"):
            old.unlink()
    for number in range(given.runs):
        seed = int.from_bytes(os.urandom(4)) if given.seed is None else given.seed + number
        tell(f"run {number + 1} of {given.runs}, seed {seed}")
        done = run(Asked(given.faults, given.acts, given.seconds, seed, given.sellers))
        print(json.dumps(asdict(done)), flush=True)
        if given.keep:
            write_json(RUNS / f"{number + 1}.json", asdict(done))
        if done.problems:
            for line in done.problems[:40]:
                print(f"WRONG: {line}")
            return 1
    if given.keep or given.tables:
        write_tables(__file__, measure(__file__, tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
