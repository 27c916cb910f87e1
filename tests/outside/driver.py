"""Commands, routes and files, spelled as a user does: the one place that knows their names.

Commands run as processes of their own (`processes.py`). A service is such a process; callers reach it by HTTP
on loopback.
"""

import json
import os
import re
import secrets
import signal
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from outside.goods import read_table, write_rules, write_table
from outside.processes import Running, run, until

TESTS = str(Path(__file__).parent.parent)
API = "/api/v1"
ENDED = ("released", "failed", "cancelled")
ROLES = ("operator", "buyer", "paymaster", "auditor")


class FileCampaign:
    """A campaign in a folder: rules, reports and data, and every command that a buyer gives."""

    def __init__(self, folder, rules, reports, data):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_rules(self.folder / "rules.toml", rules)
        write_table(self.folder / "reports.csv", reports)
        write_table(self.folder / "data.csv", data)

    def __truediv__(self, name):
        return self.folder / name

    def run(self, *arguments, **options):
        return run(*arguments, cwd=self.folder, **options)

    def quote(self, *options, **more):
        return self.run("quote", "reports.csv", "-o", "quotes.csv", "--yes", *options, **more)

    def withdraw(self, *sellers, **more):
        return self.run("withdraw", *sellers, **more)

    def train(self, *options, output="model.json", **more):
        return self.run("train", "data.csv", "-o", output, *options, **more)

    def certify(self, *options, **more):
        names = ("-o", "certificate.json", "--openings", "openings.json")
        return self.run("certify", *names, *options, **more)

    def receipts(self, **more):
        return self.run(
            "receipts", "certificate.json", "openings.json", "-o", "receipts", "--page", "page.html", **more
        )

    def verify(self, *options, **more):
        return self.run("verify", "certificate.json", *options, "--json", **more)

    def payouts(self, *options, **more):
        return self.run("payouts", "-o", "payouts.csv", *options, **more)

    def report(self, *options, **more):
        return self.run("report", "--reports", "reports.csv", "-o", "report.html", *options, **more)

    def check_books(self, **more):
        return self.run("check", **more)

    def quotes(self):
        return {row["seller"]: row for row in read_table(self / "quotes.csv")}

    def released(self):
        return json.loads((self / "model.json").read_text(encoding="utf-8"))

    def receipt_of(self, seller):
        files = {row["seller"]: row["file"] for row in read_table(self / "receipts" / "index.csv")}
        return self / "receipts" / files[seller]


class Caller:
    """Somebody with a token. Acts that the service refuses return its answer; ``ok`` demands success."""

    def __init__(self, http, token):
        self.http, self.token = http, token

    def request(self, method, path, body=None, key=None, **headers):
        sent = {"Authorization": f"Bearer {self.token}", **headers} if self.token else headers
        if method == "POST":
            sent["Idempotency-Key"] = key or secrets.token_urlsafe(24)
        return self.http.request(method, API + path, json=body, headers=sent)

    def get(self, path):
        return ok(self.request("GET", path))

    def post(self, path, body=None, key=None):
        return ok(self.request("POST", path, body, key)).json()

    def consent(self):
        page = self.get("/me/consent").json()
        return self.act("consent", page=page["page"], language=page["language"])

    def act(self, name, key=None, **body):
        """Act as a seller: reserve, choose, report, accept, decline, undo, deliver, set_payee, withdraw."""
        return self.post(f"/me/{name}", body or None, key)

    def reserve(self):
        """Ask for a reservation; return it with the menu, empty for somebody who waits."""
        found = self.act("reserve")
        menu = self.get("/me/menu").json() if found["state"] == "reserved" else []
        return {**found, "menu": menu}

    def me(self):
        return self.get("/me").json()

    def quote(self):
        """Return epsilon and payment that were offered."""
        me = self.me()
        return {name: me[name] for name in ("epsilon", "payment")}

    def limits(self):
        return self.get("/me/limits").json()

    def sell(self, cost, record, mechanism="online"):
        """Do everything that sells a record as long as the campaign is open; offline, report the cost."""
        self.consent()
        if mechanism == "offline":
            return self.act("report", cost=cost)
        self.reserve()
        quoted = self.act("choose", cost=cost)
        if quoted["epsilon"]:
            self.deliver(record)
        return quoted

    def deliver(self, record):
        self.act("accept")
        self.act("deliver", values=record)


def ok(answer):
    assert answer.is_success, f"{answer.request.method} {answer.request.url.path}: {answer.text}"
    return answer


class Service:
    """A service on loopback with a clock that tests put ahead, a worker, and a member of every role."""

    def __init__(self, folder, **settings):
        self.folder, self.clock = Path(folder), Path(folder).parent / "clock"
        self.settings = {f"DPMARKET_{name.upper()}": str(value) for name, value in settings.items()}
        self.ahead(seconds=0)
        made = [self.run("init", "--service", self.folder, "--name", "operator", "--json")]
        made += [self.add_member(role, role) for role in ROLES[1:]]
        self.tokens = {role: done.json["token"] for role, done in zip(ROLES, made, strict=True)}

    def add_member(self, name, *roles):
        return self.run("member", "add", self.folder, name, *roles, "--json")

    def link_member(self, name):
        """Return a new API token and a new link of a member."""
        return self.run("member", "link", self.folder, name, "--json").json

    def environment(self):
        return {
            "DPMARKET_TESTING": "true",
            "DPMARKET_CLOCK_FILE": str(self.clock),
            "DPMARKET_STATE": str(self.folder / "state"),
            "PYTHONPATH": os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]),  # has a torch model
            **self.settings,
        }

    def launch(self, *arguments, **options):
        return Running(*arguments, cwd=self.folder.parent, environment=self.environment(), **options)

    def run(self, *arguments, code=0):
        """Run a command on the service's folder, with its own state folder and clock."""
        return self.launch(*arguments).wait(code)

    def ahead(self, **span):
        """Put the clock ahead by a span, such as ``days=8``; it never goes back."""
        seconds = float(self.clock.read_text()) if self.clock.exists() else 0.0
        aside = self.clock.with_suffix(".new")
        aside.write_text(str(seconds + timedelta(**span).total_seconds()))
        aside.replace(self.clock)

    def start(self):
        options = ("--port", 0, "--metrics-port", 0, "--no-worker")
        self._serving = self.launch("serve", self.folder, *options)
        self._worker = self.launch("worker", self.folder)
        self.url = until(lambda: re.search(r"Serving on (http\S+?);?\s", self._serving.out()))[1]
        self.http = httpx.Client(base_url=self.url, timeout=120.0, trust_env=False)
        self.members = {role: self.caller(token) for role, token in self.tokens.items()}
        self._running = [self._worker, self._serving]

    def stop(self, number=signal.SIGTERM):
        """End both processes, if they run, as a service manager does; return what they left behind."""
        self.http.close()
        ended, self._running = self._running, []
        for process in ended:
            process.signal(number)
        return [process.wait(None, 60) for process in ended]

    def kill(self):
        """End both processes at once: what the worker is at, such as a report, may take long."""
        self.stop(signal.SIGKILL)

    @contextmanager
    def running(self):
        """Run for a ``with`` block; within it processes may be ended and started again."""
        self.start()
        try:
            yield self
        finally:
            self.kill()

    def caller(self, token):
        return Caller(self.http, token)

    def draft(self, rules, mechanism="online", name=None, closes=7, deliver=9):
        """Draft a campaign that closes and takes records until so many days from now; return its id."""
        now = datetime.now(UTC) + timedelta(seconds=float(self.clock.read_text()))
        days = {"opens_at": 0, "closes_at": closes, "deliver_until": deliver}
        times = {name: (now + timedelta(days=number)).isoformat() for name, number in days.items()}
        called = {"campaign": {"name": name or secrets.token_hex(8), "mechanism": mechanism}}
        few = {"sellers": {**rules["sellers"], "minimum": 1}}
        return self.members["buyer"].post("/campaigns", {"rules": {**rules, **called, **few}, **times})

    def fund(self, campaign, amount, key=None):
        return self.members["paymaster"].request(
            "POST", f"/campaigns/{campaign}/fund", {"amount": amount}, key
        )

    def open(self, rules, mechanism="online", amount=50_000, **options):
        campaign = self.draft(rules, mechanism, **options)
        ok(self.fund(campaign, amount))
        ok(self.ask_to_open(campaign))
        return campaign

    def ask_to_open(self, campaign):
        """Open a campaign, also one that buys no more than noise."""
        return self.members["buyer"].request("POST", f"/campaigns/{campaign}/open", {"confirmed": True})

    def invite(self, campaign, *people):
        """Invite people; return a caller for each."""
        made = self.members["operator"].post(f"/campaigns/{campaign}/invite", {"ids": list(people)})
        return [self.caller(one["token"]) for one in made]

    def campaign(self, campaign):
        return self.members["buyer"].get(f"/campaigns/{campaign}").json()

    def state(self, campaign):
        return self.campaign(campaign)["state"]

    def certified(self, campaign, **span):
        """Let time pass until a campaign is released and certified; return its certificate."""
        self.ahead(**span)
        self.until_state(campaign, "released")
        until(lambda: self.members["buyer"].request("GET", f"/campaigns/{campaign}/certificate").is_success)
        return self.paper(campaign, "certificate")

    def refund(self, campaign, amount):
        return self.members["paymaster"].request("POST", f"/campaigns/{campaign}/refund", {"amount": amount})

    def paper(self, campaign, name, role="buyer"):
        """Return one of certificate, released, openings, report, sums, rules as bytes."""
        return self.members[role].get(f"/campaigns/{campaign}/{name}").content

    def money(self, campaign):
        """Return what is owed, on its way, and paid."""
        found = self.members["paymaster"].get(f"/campaigns/{campaign}/money").json()
        return found["owed"], found["sent"], found["confirmed"]

    def pay(self, campaign, key=None):
        """Make a payout; return it with its lines."""
        paymaster = self.members["paymaster"]
        made = paymaster.post(f"/campaigns/{campaign}/pay_out", None, key)
        return paymaster.get(f"/payouts/{made['id']}").json()

    def confirm(self, campaign, lines, act="confirm"):
        """Enter that payments arrived, or that they were `returned`; return how many are new."""
        body = {"references": [line["reference"] for line in lines]}
        return self.members["paymaster"].post(f"/campaigns/{campaign}/{act}", body)

    def until_state(self, campaign, *states):
        """Wait until a campaign is in one of these states; fail at once where it ended in another one."""

        def look():
            found = self.state(campaign)
            assert found in states or found not in ENDED, f"expected {states}, found {found}"
            return found in states and found

        return until(look)


def running_service(folder, **settings):
    """Run a service in a new folder for a ``with`` block."""
    return Service(Path(folder) / "service", **settings).running()
