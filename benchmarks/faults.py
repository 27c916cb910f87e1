"""A day's market while processes are killed and frozen: nothing acknowledged may be lost, wrong or repeated.

Runs the service as it is installed, in processes of its own, and callers who repeat a request with the same
idempotency key until it is answered. Everything is looked at from outside: answers, `service check`, payouts,
certificates. Any finding makes the exit code 1. ``--minutes`` and ``--sellers`` say how long and how many,
``--keep`` writes the table of the documentation.
"""

import argparse
import random
import re
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from _markdown import write_tables
from _results import Table, at_most, tell

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from outside.driver import API, ENDED, Caller, Service, until
from outside.goods import GOODS, sellers
from outside.processes import run

GOOD = GOODS["two classes"]
KINDS = ("web process killed", "worker killed", "web process frozen", "worker frozen", "clock put ahead")
CALLERS = 6
AMOUNT = 400_000


class BrokenService(Service):
    """A service whose web process and worker can be started, killed and frozen one by one."""

    def start(self):
        """Start both processes."""
        self.lock, self.broken = threading.Lock(), Counter()
        self.start_web()
        self.start_worker()
        self.http = httpx.Client(timeout=30.0, trust_env=False)
        self.members = {role: self.caller(token) for role, token in self.tokens.items()}

    def start_web(self):
        """Start the web process; its address changes."""
        options = ("--port", 0, "--metrics-port", 0, "--no-worker")
        self._serving = self.launch("serve", self.folder, *options)
        self.url = until(lambda: re.search(r"Serving on (http\S+?);?\s", self._serving.out()), 120.0)[1]

    def start_worker(self):
        """Start the worker."""
        self._worker = self.launch("worker", self.folder)

    def stop(self, number=signal.SIGTERM):
        """End both processes."""
        self._running = [self._worker, self._serving]
        return super().stop(number)

    def caller(self, token):
        """Return a caller who does not give up."""
        return Stubborn(self, token)

    def break_something(self, rng, kinds=KINDS):
        """Do one thing that goes wrong in a data centre."""
        kind = rng.choice(kinds)
        with self.lock:
            self.broken[kind] += 1
            process = self._worker if "worker" in kind else self._serving
            if "clock" in kind:
                self.ahead(hours=0.2)
            elif "frozen" in kind:
                process.signal(signal.SIGSTOP)
                time.sleep(rng.uniform(0.5, 3.0))
                process.signal(signal.SIGCONT)
            else:
                process.signal(signal.SIGKILL)
                process.wait(None, 60)
                self.start_worker() if "worker" in kind else self.start_web()


class Stubborn(Caller):
    """A caller who repeats each request with the same key until it is answered, and remembers the answers."""

    def __init__(self, service, token):
        super().__init__(service.http, token)
        self.service, self.answers = service, {}

    def request(self, method, path, body=None, key=None):
        """Return the first answer that is no failure of the service."""
        key, said = key or secrets.token_urlsafe(24), ""
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        for _ in range(600):
            try:
                answer = self.http.request(method, self.service.url + API + path, json=body, headers=headers)
            except httpx.HTTPError as problem:
                said = type(problem).__name__
                time.sleep(0.2)
                continue
            if answer.status_code not in (429, 500, 502, 503, 504):
                if method == "POST" and answer.is_success:
                    self.answers[path, key] = (body, answer.json())
                return answer
            said = f"{answer.status_code} {answer.text[:200]}"
            time.sleep(0.5)
        raise SystemExit(f"{method} {path} was not answered: {said}")


def day(folder, minutes, number, seed):
    """Run one day; return counts and findings."""
    rng, service, findings = random.Random(seed), BrokenService(Path(folder) / "service"), []
    service.start()
    stop = threading.Event()

    def breaking():
        while not stop.wait(rng.uniform(0.5, 2.5)):
            service.break_something(rng)

    breaker = threading.Thread(target=breaking)
    breaker.start()
    try:
        end, sold, campaigns = time.monotonic() + 60.0 * minutes, [], []
        while time.monotonic() < end:
            campaigns.append(service.open(GOOD.rules(number), amount=AMOUNT))
            people = [f"{campaigns[-1]} {k}" for k in range(number)]
            callers = service.invite(campaigns[-1], *people)
            _, costs, records = sellers(GOOD, number, seed=len(campaigns))
            with ThreadPoolExecutor(CALLERS) as pool:
                quotes = list(pool.map(sell, callers, costs, records, people))
            sold += zip([campaigns[-1]] * number, callers, quotes, people, strict=True)
            tell(f"{len(sold)} sellers, {sum(service.broken.values())} faults")
        stop.set()
        breaker.join()
        service.ahead(days=10)
        for campaign in campaigns:
            findings += released(service, campaign, rng)
        findings += kept_answers(sold) + paid_once(service, campaigns, sold)
        done = service.launch("check", "-m", service.folder, "--json").wait(None)
        found = [one for one in done.json["findings"] if one["kind"] != "clock"]
        findings += [f"check: {found}"] if found else []
    finally:
        stop.set()
        breaker.join()
        service.stop()
    acts = sum(len(caller.answers) for _, caller, _, _ in sold)
    return service.broken, acts, findings


def sell(caller, cost, rows, account):
    """Go a seller's whole way."""
    quoted = caller.sell(cost, rows[0])
    if quoted["epsilon"]:
        caller.act("set_payee", payee=account)
    return quoted


def released(service, campaign, rng):
    """Wait for the release while the worker is killed, and verify its certificate."""
    for _ in range(3):
        service.break_something(rng, ("worker killed", "worker frozen"))
        time.sleep(rng.uniform(0.2, 1.5))
    state = until(lambda: (found := service.state(campaign)) in ENDED and found, 180.0)
    if state != "released":
        return [f"campaign {campaign} ended {state}"]
    path = service.folder.parent / "certificate.json"
    buyer, address = service.members["buyer"], f"/campaigns/{campaign}/certificate"
    answer = until(lambda: (found := buyer.request("GET", address)).is_success and found)
    path.write_bytes(answer.content)
    done = run("verify", path.name, "--json", cwd=path.parent, code=None)
    return [] if done.code == 0 else [f"certificate of {campaign}: {done.out[:300]}"]


def kept_answers(sold):
    """Repeat every tenth acknowledged act with its key: the answer must be the one that was given."""
    findings = []
    for _, caller, _, _ in sold[::10]:
        for (path, key), (body, answer) in list(caller.answers.items()):
            again = caller.request("POST", path, body, key)
            if not again.is_success or again.json() != answer:
                findings.append(f"{path} was answered differently: {again.status_code}")
    return findings


def paid_once(service, campaigns, sold):
    """Make payouts; every seller who delivered must be paid the quoted amount, once."""
    findings, paid = [], Counter()
    for campaign in campaigns:
        for line in service.pay(campaign)["lines"]:
            paid[line["payee"]] += line["amount"]
    for _, _, quoted, person in sold:
        owed = quoted["payment"] if quoted["epsilon"] else 0
        if paid.pop(person, 0) != owed:
            findings.append("a seller's payout is not the quoted payment")
    return findings + ["somebody was paid without a quote"] * len(paid)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--sellers", type=int, default=40)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--keep", action="store_true", help="write docs/tables/faults.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broken, acts, findings = day(folder, chosen.minutes, chosen.sellers, chosen.seed)
    rows = [[kind, str(broken[kind])] for kind in KINDS]
    rows += [["acknowledged acts", f"{acts:,}"], ["lost, wrong or twice", at_most(0, len(findings), ".0f")]]
    table = Table(f"A day of {chosen.minutes:g} minutes, seed {chosen.seed}", ["", "count"], rows)
    print(*findings, sep="\n")
    if chosen.keep:
        write_tables(__file__, [table])
    print(*(f"{name}: {count if isinstance(count, str) else count.text}" for name, count in rows), sep="\n")
    raise SystemExit(1 if findings else 0)


if __name__ == "__main__":
    main()
