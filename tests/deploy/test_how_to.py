"""The page that begins with an empty machine: its commands are run, in an environment made for it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from dpmarket.version import __version__
from support.documents import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "keep-a-service.md"


def script():
    return "\n".join(line for block in blocks(PAGE) if block.language == "sh" for line in block.lines)


@pytest.mark.slow
def test_every_command_of_the_page_runs_from_an_empty_machine(tmp_path):
    """From a wheel that is built here; what it needs comes from the registry."""
    wheels, home = tmp_path / "wheels", tmp_path / "home"
    home.mkdir()
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(wheels), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    only = tmp_path / "only.txt"
    only.write_text((ROOT / "constraints.txt").read_text() + f"\ndpmarket=={__version__}\n")
    ports = []
    for _ in range(2):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            ports.append(str(taken.getsockname()[1]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DPMARKET_", "PYTHON"))}
    environment = kept | {
        "HOME": str(home),
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONSTRAINT": str(only),
        "DPMARKET_PORT": ports[0],
        "DPMARKET_METRICS_PORT": ports[1],
        "DPMARKET_PUBLIC_URL": f"http://127.0.0.1:{ports[0]}",
    }
    text = "set -e\n" + script().replace("127.0.0.1:8000", f"127.0.0.1:{ports[0]}")
    work = tmp_path / "machine"
    work.mkdir()
    process = subprocess.Popen(
        ["bash", "-c", text],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=1800)
    finally:
        # Whatever is left of the group that was started here.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    log = (work / "serve.log").read_text() if (work / "serve.log").exists() else ""
    assert process.returncode == 0, told + log
    assert f"dpmarket {__version__}" in told
    assert told.count("nothing is wrong") == 3
    assert "the campaign is released\n5 receipts hold\n5 people are paid\n" in told
    assert "put back" in told
