"""Running a service: start, stop, kill, check, back up, restore, and what its files and logs give away."""

import copy
import json
import secrets
import shutil
import stat
import struct

import pytest

from outside.driver import Service, run
from outside.goods import GOODS

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
def base(tmp_path_factory):
    """A stopped service with a campaign that three people have sold to, to be copied."""
    with Operated(tmp_path_factory.mktemp("base") / "service").running() as made:
        campaign, people = made.selling("base")
        payments = [one.quote()["payment"] for one in people]
        assert all(made.http.get(path).is_success for path in ("/healthz", "/readyz"))
        assert made.findings() == []
        assert [done.code for done in made.stop()] == [0, 0]
    return made, campaign, people, sum(payments)


# --- start and stop ------------------------------------------------------------------------------

WRONG = {
    'lifetime_epsilonn = "canary"': "lifetime_epsilonn",
    "batch = 0": "batch",
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
        done = run("serve", made.folder, "--port", 0, "--metrics-port", 0, cwd=tmp_path, code=None)
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


# --- check ---------------------------------------------------------------------------------------


def test_everything_in_the_folder_is_for_its_owner_only(base):
    folder = base[0].folder
    paths = [folder, *folder.rglob("*")]
    assert len(paths) > 6
    assert [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_check_finds_keys_that_others_can_read_and_keys_that_are_gone(base, tmp_path):
    made = base[0].moved(tmp_path / "copy")
    assert made.findings() == []
    for path in (made.folder / "keys").iterdir():
        path.chmod(0o644)
    assert "keys" in json.dumps(made.findings())
    for path in (made.folder / "keys").iterdir():
        path.unlink()
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
        made.certified(campaign, **LATER)
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
        made.certified(campaign, **LATER)
        assert made.money(campaign) == (due + quote["payment"], 0, 0)
        assert json.loads(made.paper(campaign, "sums"))["counts"] == {"spent": 4}
        assert made.findings() == []


def test_a_second_service_and_a_second_worker_on_the_same_folder_do_no_harm(base, tmp_path):
    first, campaign, people, due = base
    made = first.moved(tmp_path / "copy")
    with made.running(), made.twin().running() as other:
        assert other.url != made.url
        for k, one in enumerate((made, other)):
            (caller,) = one.invite(campaign, f"by service {k}")
            caller.sell(1.0, {"age": 30})
            caller.act("set_payee", payee=PAYEE)
        made.certified(campaign, **LATER)
        assert made.paper(campaign, "certificate") == other.paper(campaign, "certificate")
        key, path = "the same payment at both", f"/campaigns/{campaign}/pay_out"
        paid = [one.members["paymaster"].post(path, None, key) for one in (made, other)]
        assert paid[0] == paid[1]
        assert made.money(campaign) == other.money(campaign)
        assert made.money(campaign)[1] > due
        counts = json.loads(made.paper(campaign, "sums"))["counts"]
        assert counts == {"spent": 5}
        assert [done.code for done in other.stop()] == [0, 0]
        assert made.again(people)[0].me()["state"] == "spent"
        assert made.findings() == []
        assert [done.code for done in made.stop()] == [0, 0]


# --- secrets -------------------------------------------------------------------------------------


def forms_of(*values):
    """Return every form in which a value could stand in a file: numbers as text and in both byte orders."""
    numbers = [value for value in values if isinstance(value, float)]
    packed = [struct.pack(order + "d", value) for value in numbers for order in "<>"]
    return [*map(str, values), *packed]


def found_in(content, canaries):
    return [one for one in canaries if (one if isinstance(one, bytes) else one.encode()) in content]


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
        private += ["x" * 43, "q" * 13, "a-canary"]
        private += forms_of(*made.tokens.values(), *(one.token for one in (*people, reporter)))
        kept = {"sealed": content(made.folder)}
        made.command("backup", made.folder / "a.backup")
        made.ahead(days=7.1)
        assert made.until_state(hidden, "offered")
        kept["cleared"] = content(made.folder)
        made.certified(campaign, days=2, minutes=12)
        made.pay(campaign)
        kept["released"] = content(made.folder)
        for path in ("/i/" + "x" * 43, "/api/v1/campaigns/" + "q" * 13, "/a-path?token=a-canary"):
            made.http.get(path)
        ended = made.stop()
        assert [done.code for done in ended] == [0, 0]
        kept["stopped"] = content(made.folder)
        kept["logs"] = "".join(done.err + done.out for done in ended).encode()
        lines = [json.loads(line) for done in ended for line in done.err.splitlines()]
        assert "/i/{token}" in {line.get("route") for line in lines}
        assert b"/api/v1/me/deliver" in kept["logs"]
        assert len(kept["stopped"]) > 100_000
        found = {place: found_in(data, private) for place, data in kept.items()}
        assert found == {place: [] for place in kept}


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
        made.certified(campaign, **LATER)
    assert all(key not in content(made.folder) for key in clear)
    master.chmod(0o644)
    assert made.launch("worker", made.folder).wait(None, 60).code != 0
    master.unlink()
    assert made.launch("worker", made.folder).wait(None, 60).code != 0
