"""What ``deploy`` holds stays true: its commands, options, settings and folders are those of the package."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpmarket.web.settings import Settings
from support.commands import all_commands

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
KNOWN = {f"DPMARKET_{name.upper()}" for name in Settings.model_fields} | {"DPMARKET_STATE"}
COMMANDS = all_commands()


def lines_of(unit, name):
    """Return the values of one setting of a unit."""
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(f"{name}=")]


def check_call(words):
    """See that a call of the command names a command and options that exist; return the command's name."""
    name = next(
        candidate
        for candidate in (" ".join(["dpmarket", *words[:n]]) for n in (2, 1))
        if candidate in COMMANDS
    )
    rest = words[len(name.split()) - 1 :]
    parameters = COMMANDS[name].params
    options = {each: p for p in parameters if p.param_type_name == "option" for each in p.opts}
    given = [word for word in rest if word.startswith("-")]
    assert set(given) <= set(options), (name, given)
    values = sum(not options[word].is_flag for word in given)
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    assert len(rest) - len(given) - values <= len(arguments), words
    return name


@pytest.mark.parametrize("name", ["web@", "worker@", "backup"])
def test_a_unit_is_hardened_and_calls_a_command_that_exists(name):
    unit = DEPLOY / "systemd" / f"dpmarket-{name}.service"
    (started,) = lines_of(unit, "ExecStart")
    words = shlex.split(started)
    if words[0] == "/bin/sh":
        words = shlex.split(re.sub(r"\$\(.*\)", "TIME", words[2]).removeprefix("exec "))
    assert words[0] == "/opt/dpmarket/bin/dpmarket"
    wanted = {"web@": "dpmarket serve", "worker@": "dpmarket worker", "backup": "dpmarket backup"}
    assert check_call(words[1:]) == wanted[name]
    assert ("--no-worker" in words) == (name == "web@")
    needed = {
        "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
        "PrivateDevices": "yes", "PrivateUsers": "yes", "UMask": "0077", "CapabilityBoundingSet": "",
        "User": "dpmarket", "StateDirectoryMode": "0700",
    }  # fmt: skip
    assert {key: lines_of(unit, key)[0] for key in needed} == needed
    hidden = " ".join(lines_of(unit, "InaccessiblePaths"))
    assert ("/var/lib/dpmarket/keys" in hidden) == (name != "worker@")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    for path in (DEPLOY / "systemd").iterdir():
        # Only the program itself is not where the unit expects it.
        text = path.read_text().replace("/opt/dpmarket/bin/dpmarket", "/bin/true")
        (tmp_path / path.name).write_text(text)
    names = ["dpmarket-web@8000.service", "dpmarket-worker@1.service", "dpmarket-backup.timer"]
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in names)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_that_a_file_names_exists(path):
    text = path.read_text()
    assert set(re.findall(r"\bDPMARKET_[A-Z_]+", text)) <= KNOWN
    for name in re.findall(r"^#\s+([a-z_]+) = ", text, re.MULTILINE):
        assert name in Settings.model_fields
    assert not re.search(r"password *[:=] *[^\s./]|://\w+:\w", text.lower())


def test_the_image_runs_commands_that_exist_as_nobody_special_and_compiles_into_its_volume():
    text = (DEPLOY / "container" / "Containerfile").read_text()
    (entry,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', text, re.MULTILINE)
    assert entry == "dpmarket"
    (words,) = re.findall(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    assert check_call([word.strip().strip('"') for word in words.split(",")]) == "dpmarket serve"
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10001"]
    (volume,) = re.findall(r"^VOLUME (.*)$", text, re.MULTILINE)
    written = re.findall(r"(?:NUMBA_CACHE_DIR|MPLCONFIGDIR)=(\S+)", text)
    assert len(written) == 2
    assert all(place.startswith(f"{volume}/") for place in written)
    for copied in re.findall(r"/source/(\S+?)(?:\s|$)", text):
        assert (ROOT / copied).exists()


def test_only_workers_have_the_volume_of_keys():
    yaml = pytest.importorskip("yaml")
    composed = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    services = composed["services"]
    assert set(services) == {"proxy", "database", "web", "worker"}
    assert [name for name, one in services.items() if "ports" in one] == ["proxy"]
    assert {name for name, one in services.items() if "healthcheck" in one} == {"database", "web"}
    subnet = composed["networks"]["inside"]["ipam"]["config"][0]["subnet"]
    assert services["web"]["environment"]["DPMARKET_TRUSTED_PROXIES"] == subnet
    for name in ("web", "worker"):
        one = services[name]
        assert check_call(one["command"]) == {"web": "dpmarket serve", "worker": "dpmarket worker"}[name]
        assert one["read_only"] is True
        assert one["user"] == "10001"
        assert one["cap_drop"] == ["ALL"]
        mounted = {volume.partition(":")[0] for volume in one["volumes"]}
        assert ("keys" in mounted) == (name == "worker")
        assert mounted <= set(composed["volumes"])
    assert "--no-worker" in services["web"]["command"]


@pytest.mark.slow
def test_the_image_is_built_from_what_the_source_distribution_holds(tmp_path):
    """No container engine runs here: one that only looks stands in for it."""
    engine = tmp_path / "engine"
    engine.write_text(
        f'#!/bin/sh\nfor last; do :; done\nls -A "$last" > {tmp_path}/there\necho "$@" > {tmp_path}/called\n'
    )
    engine.chmod(0o700)
    (ROOT / "secret-beside-the-sources").write_text("canary")
    try:
        environment = {
            **os.environ,
            "ENGINE": str(engine),
            "PYTHON": sys.executable,
            "BUILD_OPTIONS": "--no-isolation",
        }
        script = [str(DEPLOY / "container" / "build.sh")]
        subprocess.run(script, check=True, capture_output=True, timeout=300, env=environment)
    finally:
        (ROOT / "secret-beside-the-sources").unlink()
    there = (tmp_path / "there").read_text().split()
    assert {"pyproject.toml", "src", "constraints.txt"} <= set(there)
    assert "secret-beside-the-sources" not in there
    assert (tmp_path / "called").read_text().startswith("build -f ")


def test_the_proxy_logs_no_path_and_passes_on_no_claim_of_the_caller():
    text = (DEPLOY / "nginx" / "dpmarket.conf").read_text()
    (logged,) = re.findall(r"log_format dpmarket (.*);", text)
    assert not {"$request", "$request_uri", "$uri", "$args", "$http_referer"} & set(
        re.findall(r"\$\w+", logged)
    )
    assert set(re.findall(r"access_log (\S+?)(?: (\w+))?;", text)) == {
        ("off", ""),
        ("/var/log/nginx/dpmarket.log", "dpmarket"),
    }
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in text
    limit = int(re.findall(r"client_max_body_size (\d+)k;", text)[0]) * 1024
    assert limit > Settings().max_body
