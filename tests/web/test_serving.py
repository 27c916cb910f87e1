"""``dpmarket serve`` and what belongs to it, as processes: they start, work, stop on signals, and say no."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outside.driver import until
from support.commands import run

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

ENTRY = [sys.executable, "-c", "from dpmarket.cli import main; main()"]


def start(folder, *arguments, **environment):
    """Start a service; return the process and its address."""
    with (folder.parent / "log").open("ab") as log:
        process = subprocess.Popen(
            [*ENTRY, "serve", str(folder), "--port", "0", "--metrics-port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "DPMARKET_STATE": str(folder / "state"), **environment},
        )
    for line in process.stdout:
        if line.startswith("Serving on "):
            return process, line.split()[2].rstrip(";")
    raise AssertionError((folder.parent / "log").read_text())


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        found = [int(one) for one in file.read().split()]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += [int(one) for one in file.read().split()]
    return sorted(set(found))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a service that is set up."""
    folder = tmp_path / "hospital"
    monkeypatch.setenv("DPMARKET_STATE", str(folder / "state"))
    run("init", "--service", folder, "--name", "An operator", "--json")
    return folder


def test_a_worker_that_dies_is_followed_by_another_and_none_outlives_its_service(folder):
    process, _ = start(folder)
    try:
        (first,) = until(lambda: children_of(process.pid))
        os.kill(first, signal.SIGKILL)
        (second,) = until(lambda: [pid for pid in children_of(process.pid) if pid != first])
        process.kill()  # without a chance to tell its worker
        process.wait(30)
        process.stdout.close()
        until(lambda: not os.path.exists(f"/proc/{second}"))
    finally:
        process.kill()


def test_without_the_extra_one_line_says_which_is_needed():
    code = (
        "import sys, importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'fastapi' else found(name, *rest)\n"
        "from dpmarket.cli import main\n"
        "sys.argv = ['dpmarket', *sys.argv[1:]]\nmain()\n"
    )
    for arguments in (["init", "--service", "x"], ["serve"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 1
        assert done.stderr == "dpmarket: this needs the extra 'service': pip install 'dpmarket[service]'.\n"


def test_the_code_has_no_finding_of_medium_or_high_severity():
    done = subprocess.run(
        [sys.executable, "-m", "bandit", "-q", "-ll", "-r", "src", "-f", "json"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    report = json.loads(done.stdout)
    assert report["errors"] == []
    assert len(report["metrics"]) > 15
    assert [(one["filename"], one["line_number"], one["test_id"]) for one in report["results"]] == []


def test_only_a_test_on_loopback_can_shift_the_clock(tmp_path):
    from dpmarket.errors import FileProblem
    from dpmarket.web.folder import clock_of
    from dpmarket.web.settings import Settings

    file = tmp_path / "clock"
    file.write_text("3600")
    for wrong in (
        {},
        {"testing": True, "host": "0.0.0.0"},
        {"testing": True, "public_url": "https://x.test"},
    ):
        with pytest.raises(FileProblem, match="tests on loopback only"):
            clock_of(Settings(clock_file=file, **wrong))
    tells_time = clock_of(Settings(clock_file=file, testing=True))
    assert timedelta(minutes=59) < tells_time() - datetime.now(UTC) <= timedelta(hours=1)
    file.write_text("-60")
    assert tells_time() < datetime.now(UTC)
    file.write_text("soon")
    with pytest.raises(FileProblem, match="expected a number of seconds"):
        clock_of(Settings(clock_file=file, testing=True))
