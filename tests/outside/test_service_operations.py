"""Running a service: start, stop, kill, check, back up, restore, and what its files and logs give away."""

import copy
import json
import secrets
import shutil
import signal
import stat
from contextlib import contextmanager

import pytest

from outside.driver import Service, run, until
from outside.goods import GOODS
from support.canaries import forms_of, found_in

GOOD = GOODS["mean"]
COSTS, AGES = [1.2345678901, 2.3456789012, 3.4567890123], [41.98765432101, 52.12345678901, 63.23456789012]
PAYEE = "account 4711 of somebody"
PERSON = "a person of the panel"
LATER = {"days": 9.1, "minutes": 12}  # records are due, and a worker without a sign of life is dead


class Operated(Service):
    """A service whose processes can be started, killed and read one by one."""

    def command(self, name, *arguments, code=0):
        return self.run(name, *arguments, "-m", self.folder, code=code)

    def findings(self):
        """Return what `service check` finds, but for the clock: it looks at the machine's, not at ours."""
        told = self.command("check", "--json", code=None)
        found = told.json["findings"]
        assert told.code == (1 if found else 0)
        assert all(one["found"] and one["todo"] for one in found)
        return [one for one in found if one["kind"] != "clock"]

    def start(self):
        super().start()
        self.is_up = True

    def stop(self):
        self.is_up = False
        return super().stop()

    @contextmanager
    def running(self):
        """Run for a ``with`` block; within it processes may be ended and started again."""
        self.start()
        try:
            yield self
        finally:
            if self.is_up:
                self.stop()

    def kill(self):
        """End both processes at once, as a power cut does."""
        self.is_up = False
        super().kill()

    def end(self):
        """End both processes by SIGTERM; return what they left behind."""
        self.is_up = False
        self.http.close()
        for process in (self._worker, self._serving):
            process.signal(signal.SIGTERM)
        return [process.wait(None, 60) for process in (self._worker, self._serving)]

    def twin(self):
        """Return another service on the same folder."""
        return copy.copy(self)

    def moved(self, folder):
        """Return the same service in a copy of its folder."""
        shutil.copytree(self.folder.parent, folder)
        other = self.twin()
        other.folder, other.clock = folder / self.folder.name, folder / self.clock.name
        return other

    def selling(self, title=None):
        """Open a campaign that three people have sold to; return its id and the sellers."""
        campaign = self.open(GOOD.rules(60), name=title)
        people = self.invite(campaign, *(f"{PERSON} {k}" for k in range(3)))
        for caller, cost, age in zip(people, COSTS, AGES, strict=True):
            caller.sell(cost, {"age": age})
            caller.act("set_payee", payee=PAYEE)
        return campaign, people

    def certified(self, campaign):
        assert self.until_state(campaign, "released", "failed") == "released"
        until(lambda: self.members["buyer"].request("GET", f"/campaigns/{campaign}/certificate").is_success)

    def key_files(self):
        return sorted(path.name for path in (self.folder / "keys").iterdir())

    def lose_database(self):
        for path in (self.folder / "data").iterdir():
            path.unlink()

    def let_in_again(self, campaign, number):
        """Give everybody new tokens after a restore, which ended all of them; return the sellers."""
        for role in ("operator", "buyer", "paymaster"):
            self.members[role] = self.caller(self.link_member(role)["token"])
        asked = {"ids": [f"{PERSON} {k}" for k in range(number)]}
        made = self.members["operator"].post(f"/campaigns/{campaign}/reissue_links", asked)
        tokens = {one["id"]: one["token"] for one in made}
        return [self.caller(tokens[name]) for name in asked["ids"]]

    def again(self, people):
        """Return callers with the tokens of others, for a service that was started again."""
        return [self.caller(one.token) for one in people]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Operated(tmp_path_factory.mktemp("operated") / "service").running() as made:
        yield made


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A stopped service with a campaign that three people have sold to, to be copied."""
    with Operated(tmp_path_factory.mktemp("base") / "service").running() as made:
        campaign, people = made.selling("base")
        payments = [one.quote()["payment"] for one in people]
    return made, campaign, people, sum(payments)


# --- start and stop ------------------------------------------------------------------------------


def test_a_running_service_answers_says_that_it_is_ready_and_is_well(service):
    assert service.http.get("/healthz").is_success
    assert service.http.get("/readyz").is_success
    assert service.findings() == []


WRONG = {
    'lifetime_epsilonn = "canary"': "lifetime_epsilonn",
    'batch = "canary"': "batch",
    "port = 70000": "port",
    'quote_hours = "canary"': "quote_hours",
    "this is no TOML canary": "settings",
    'clock_file = "canary"': "clock_file",
}


def test_a_wrong_setting_is_refused_in_a_sentence_that_names_it_and_no_value(base, tmp_path):
    made = base[0].moved(tmp_path / "copy")
    path = made.folder / "settings.toml"
    before = path.read_text(encoding="utf-8").splitlines()
    for line, word in WRONG.items():
        others = [one for one in before if not one.startswith(line.split(" = ")[0])]
        path.write_text("\n".join([*others, line, ""]), encoding="utf-8")
        done = run("serve", made.folder, "--metrics-port", 0, cwd=tmp_path, code=None)
        assert done.code not in (0, None), line
        assert word in done.err, line
        assert "canary" not in done.err, line
        assert len(done.err.strip().splitlines()) <= 2, line


def test_a_folder_without_a_service_or_with_one_already_is_refused_in_a_sentence(base, tmp_path):
    for arguments in (("serve", tmp_path), ("worker", tmp_path / "nothing")):
        done = run(*arguments, cwd=tmp_path, code=None)
        assert done.code != 0
        assert len(done.err.strip().splitlines()) <= 2
    before = (base[0].folder / "settings.toml").read_bytes()
    assert run("init", "--service", base[0].folder, cwd=tmp_path, code=None).code != 0
    assert (base[0].folder / "settings.toml").read_bytes() == before


def test_a_service_whose_database_is_gone_does_not_start_as_a_new_one(base, tmp_path):
    made = base[0].moved(tmp_path / "copy")
    shutil.rmtree(made.folder / "data")
    done = made.launch("serve", made.folder, "--port", 0, "--metrics-port", 0, "--no-worker").wait(None, 60)
    assert done.code != 0
    assert "restore" in done.err
    assert not list(made.folder.glob("data/*"))


def test_a_taken_port_is_refused_in_a_sentence(service):
    port = service.url.rsplit(":", 1)[1]
    done = service.launch("serve", service.folder, "--port", port, "--metrics-port", 0, "--no-worker").wait(
        None
    )
    assert done.code != 0
    assert port in done.err


# --- check ---------------------------------------------------------------------------------------


def test_everything_in_the_folder_is_for_its_owner_only(service):
    campaign, _ = service.selling()
    paths = [service.folder, *service.folder.rglob("*")]
    assert len(paths) > 6
    assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    assert service.state(campaign) == "open"


def test_check_finds_keys_that_others_can_read_and_keys_that_are_gone(base, tmp_path):
    made = base[0].moved(tmp_path / "copy")
    assert made.findings() == []
    for path in (made.folder / "keys").iterdir():
        path.chmod(0o644)
    assert "keys" in json.dumps(made.findings())
    for path in (made.folder / "keys").iterdir():
        path.unlink()
    assert made.findings()


def test_check_finds_an_older_copy_of_the_database(base, tmp_path):
    """A ledger that was put back by hand would let promises be spent twice."""
    made = base[0].moved(tmp_path / "copy")
    old = made.moved(tmp_path / "old")
    with made.running():
        made.ahead(**LATER)
        made.certified(base[1])
    made.lose_database()
    for path in (old.folder / "data").iterdir():
        shutil.copy2(path, made.folder / "data")
    assert made.findings()


# --- backup and restore --------------------------------------------------------------------------


def test_after_a_restore_nothing_is_spent_twice_and_everybody_is_paid(base, tmp_path):
    first, campaign, people, due = base
    made = first.moved(tmp_path / "copy")
    with made.running():
        made.command("backup", tmp_path / "monday.backup")
        made.command("backup", tmp_path / "monday.backup", code=1)  # never over another
        gone = made.again(people)[2]
        gone.act("withdraw")
        left = due - gone.quote()["payment"]
        made.ahead(**LATER)
        made.certified(campaign)
        assert made.money(campaign) == (left, 0, 0)
        made.pay(campaign)
        assert made.money(campaign) == (0, left, 0)
        made.stop()
        made.lose_database()
        entered = made.command("restore", tmp_path / "monday.backup", "--json").json["entered"]
        assert (entered["spend"], entered["withdrawn"], entered["payout"]) == (1, 1, 1)
        made.command("restore", tmp_path / "monday.backup", code=1)  # never over another
        made.start()
        assert made.members["buyer"].request("GET", "/campaigns").status_code == 401
        people = made.let_in_again(campaign, len(people))
        assert made.until_state(campaign, "released", "failed") == "failed"
        assert [one.me()["state"] == "spent" for one in people] == [True, True, False]
        limits = [one.limits() for one in people]
        assert [one["spent"] > 0 for one in limits] == [True, True, False]
        assert [one["held"] for one in limits] == [0, 0, 0]
        assert sum(made.money(campaign)) == left
        assert made.money(campaign)[0] == 0  # the payout that was made is not made again
        assert made.members["buyer"].request("GET", f"/campaigns/{campaign}/released").status_code == 404
        assert made.findings() == []


def test_somebody_who_left_after_the_backup_has_left_after_the_restore(base, tmp_path):
    first, campaign, people, _ = base
    made = first.moved(tmp_path / "copy")
    with made.running():
        made.command("backup", tmp_path / "monday.backup")
        made.again(people)[2].act("withdraw")
        made.stop()
        made.lose_database()
        made.command("restore", tmp_path / "monday.backup")
        made.start()
        people = made.let_in_again(campaign, len(people))
        assert people[2].me()["state"] == "withdrawn"
        made.ahead(**LATER)
        until(lambda: people[0].me()["campaign_state"] == "released")
        states = [one.me()["state"] for one in people]
        assert states == ["spent", "spent", "withdrawn"]


def test_a_file_that_is_no_backup_is_not_restored(base, tmp_path):
    made = base[0].moved(tmp_path / "copy")
    made.lose_database()
    (tmp_path / "wrong.backup").write_bytes(secrets.token_bytes(5_000))
    assert made.command("restore", tmp_path / "wrong.backup", code=1).err
    assert not list(made.folder.glob("data/*.db"))


# --- kills ---------------------------------------------------------------------------------------


def test_after_a_kill_of_both_processes_everything_that_was_answered_is_there(base, tmp_path):
    first, campaign, _, due = base
    made = first.moved(tmp_path / "copy")
    with made.running():
        (late,) = made.invite(campaign, "a late person")
        late.consent()
        late.reserve()
        quote = late.act("choose", cost=2.0)
        made.kill()
        made.start()
        (late,) = made.again([late])
        assert late.quote()["payment"] == quote["payment"]
        late.deliver({"age": 30})
        made.kill()
        made.start()
        assert made.again([late])[0].me()["state"] == "delivered"
        made.ahead(**LATER)
        made.certified(campaign)
        assert made.money(campaign) == (due + quote["payment"], 0, 0)
        assert json.loads(made.paper(campaign, "sums"))["counts"] == {"spent": 4}
        assert made.findings() == []


def killed_worker(first, folder, writes):
    """Let a worker train and kill itself after so many writes; return the service that is left."""
    made = first.moved(folder)
    made.ahead(days=9.1)
    process = made.launch("worker", made.folder, kill_after=writes)
    process.wait(-signal.SIGKILL, 60)
    return made


def test_training_killed_in_the_middle_ends_as_released_or_as_failed_and_paid(base, tmp_path):
    first, campaign, people, due = base
    kept = len(first.key_files())
    # The campaign's key is destroyed just after the point from which no other worker can train again.
    low, high = 1, 240
    while high - low > 1:
        writes = (low + high) // 2
        made = killed_worker(first, tmp_path / f"look {writes}", writes)
        low, high = (writes, high) if len(made.key_files()) == kept else (low, writes)
    ends = {}
    for writes in (high // 2, high, high + 12):
        made = killed_worker(first, tmp_path / f"end {writes}", writes)
        made.ahead(**LATER)
        with made.running():
            ends[writes] = made.until_state(campaign, "released", "failed")
            model = made.members["buyer"].request("GET", f"/campaigns/{campaign}/released")
            assert model.is_success == (ends[writes] == "released")
            assert made.money(campaign) == (due, 0, 0)
            for one in made.again(people):
                limits = one.limits()
                assert (one.me()["state"], limits["held"]) == ("spent", 0)
                assert 0 < limits["spent"] <= one.quote()["epsilon"] + 1e-8
            assert len(made.key_files()) == kept - 1
            assert made.findings() == []
    assert ends[high // 2] == "released"
    assert "failed" in ends.values()


def test_a_second_service_and_a_second_worker_on_the_same_folder_do_no_harm(base, tmp_path):
    first, campaign, people, due = base
    made = first.moved(tmp_path / "copy")
    with made.running(), made.twin().running() as other:
        assert other.url != made.url
        for k, one in enumerate((made, other)):
            (caller,) = one.invite(campaign, f"by service {k}")
            caller.sell(1.0, {"age": 30})
            caller.act("set_payee", payee=PAYEE)
        made.ahead(**LATER)
        made.certified(campaign)
        assert made.paper(campaign, "certificate") == other.paper(campaign, "certificate")
        key, path = "the same payment at both", f"/campaigns/{campaign}/pay_out"
        paid = [one.members["paymaster"].post(path, None, key) for one in (made, other)]
        assert paid[0] == paid[1]
        assert made.money(campaign) == other.money(campaign)
        assert made.money(campaign)[1] > due
        counts = json.loads(made.paper(campaign, "sums"))["counts"]
        assert counts == {"spent": 5}
        assert other.stop() == [0, 0]
        assert made.again(people)[0].me()["state"] == "spent"
        assert made.findings() == []
        assert made.stop() == [0, 0]


# --- secrets -------------------------------------------------------------------------------------


def content(folder):
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_records_costs_payees_names_and_tokens_are_in_no_file_backup_or_log(tmp_path):
    made = Operated(tmp_path / "service")
    with made.running():
        campaign, people = made.selling()
        hidden = made.open(GOOD.rules(12), "offline")
        (reporter,) = made.invite(hidden, f"{PERSON} who reports")
        cost = 1.9876543210123
        reporter.sell(cost, None, "offline")
        made.http.post(f"/i/{people[0].token}")
        people[0].request("POST", "/me/deliver", {"values": {"age": f"{AGES[0]}"}})
        private = forms_of(*COSTS, *AGES, cost, PAYEE, PERSON)
        private += forms_of(*made.tokens.values(), *(one.token for one in (*people, reporter)))
        kept = {"sealed": content(made.folder)}
        made.command("backup", made.folder / "a.backup")
        made.ahead(days=7.1)
        assert made.until_state(hidden, "offered")
        kept["cleared"] = content(made.folder)
        made.ahead(**LATER)
        made.certified(campaign)
        made.pay(campaign)
        kept["released"] = content(made.folder)
        ended = made.end()
        kept["stopped"] = content(made.folder)
        kept["logs"] = "".join(done.err + done.out for done in ended).encode()
        assert b"/api/v1/me/deliver" in kept["logs"]
        assert len(kept["stopped"]) > 100_000
        found = {place: found_in(data, private) for place, data in kept.items()}
        assert found == {place: [] for place in kept}


def test_sigterm_ends_with_exit_code_0_and_logs_are_json_with_templates_for_paths(tmp_path):
    made = Operated(tmp_path / "service")
    with made.running():
        made.http.get("/i/" + "x" * 43)
        made.http.get("/api/v1/campaigns/" + "q" * 13)
        made.http.get("/a-path-with-a-secret?token=abc")
        ended = made.end()
        assert [done.code for done in ended] == [0, 0]
        logs = "".join(done.err for done in ended)
        lines = [json.loads(line) for line in logs.splitlines()]
        assert {"/i/{token}"} <= {line.get("route") for line in lines}
        assert all(text not in logs for text in ("x" * 43, "q" * 13, "secret", "abc"))


def test_the_key_of_a_campaign_is_destroyed_by_its_training(base, tmp_path):
    first, campaign, _, _ = base
    made = first.moved(tmp_path / "copy")
    before = {path.name: path.read_bytes() for path in (made.folder / "keys").iterdir()}
    (name,) = (name for name in before if not name.startswith("operator"))
    with made.running():
        made.ahead(**LATER)
        made.certified(campaign)
    assert name not in made.key_files()
    assert before[name] not in content(tmp_path / "copy")


def test_with_a_master_key_private_keys_are_wrapped_and_nothing_works_without_it(base, tmp_path):
    first, campaign, _, _ = base
    made = first.moved(tmp_path / "copy")
    clear = [path.read_bytes() for path in (made.folder / "keys").iterdir()]
    assert clear
    master = tmp_path / "master-key"
    master.write_text(secrets.token_hex(32), encoding="ascii")
    master.chmod(0o600)
    made.settings = {**made.settings, "DPMARKET_MASTER_KEY_FILE": str(master)}
    with made.running():
        made.ahead(**LATER)
        made.certified(campaign)
    assert all(key not in content(made.folder) for key in clear)
    master.chmod(0o644)
    assert made.launch("worker", made.folder).wait(None, 60).code != 0
    master.unlink()
    assert made.launch("worker", made.folder).wait(None, 60).code != 0
