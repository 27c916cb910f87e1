"""What is built and installed: complete, typed for those who use it, and nothing besides."""

import os
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import dpmarket
from dpmarket.version import __version__

ROOT = Path(__file__).parents[2]
INSTALLS = runpy.run_path(str(Path(__file__).with_name("check_installs.py")))
USER = """\
import numpy as np
import dpmarket as dpm

mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(10, 0.01))
outcome = mechanism.run([1.5, 2.0])
total: float = outcome.total_payment
model = dpm.PrivateLogisticRegression(classes=(0, 1)).fit(np.zeros((2, 1)), [0, 1], epsilons=outcome.epsilons)
passed: bool = dpm.verify(dpm.certify(outcome, model, mechanism.rules())).passed
reveal_type(dpm.plan)
"""
WRONG = "import dpmarket as dpm\ndpm.Uniform('one', 5)\npayment: str = dpm.OfflineMechanism\n"


def test_the_version_is_the_same_wherever_it_is_told():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_every_extra_of_the_project_is_tried_by_the_installs():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {*stated, ""} == set(INSTALLS["USES"])


def test_the_program_that_the_installs_run_works():
    exec(INSTALLS["MARKET"], {})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


@pytest.mark.slow
def test_wheel_and_sdist_hold_all_sources_and_no_junk(built):
    sources = Path(dpmarket.__file__).parent
    kept = {
        path.relative_to(sources.parent).as_posix()
        for path in sources.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        inside = set(file.namelist())
    assert {name for name in inside if not name.startswith(f"dpmarket-{__version__}.dist-info/")} == kept
    assert "dpmarket/py.typed" in inside
    with tarfile.open(sdist) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {f"src/{name}" for name in kept} <= names
    tops = {name.partition("/")[0] for name in names}
    assert tops == {
        "src", "tests", "benchmarks", "deploy", "docs", "examples", "paper", "Makefile", "constraints.txt",
        "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "PKG-INFO", "pyproject.toml",
        "README.md", ".gitignore",
    }  # fmt: skip
    junk = ("__pycache__", ".nbi", ".nbc", ".pyc", ".ledger-", ".log")
    assert [name for name in names if any(part in name for part in junk)] == []


@pytest.mark.slow
def test_a_user_of_the_installed_wheel_has_its_types(built, tmp_path):
    """mypy looks into an environment whose own packages are the wheel's files, away from the sources."""
    (wheel,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    site = Path(site_of(python))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    # What the wheel depends on is taken from here; a .pth in another folder than one's own is not followed.
    (site / "others.pth").write_text(site_of(sys.executable))
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n")

    def found(code):
        (tmp_path / "user.py").write_text(code)
        command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache"]
        command += ["--python-executable", str(python), "user.py"]
        environment = {
            name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")
        }
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout

    told = found(USER)
    assert "error" not in told, told
    assert "Plan" in told.partition("Revealed type is")[2]
    wrong = found(WRONG)
    assert "user.py:2: error" in wrong
    assert "user.py:3: error" in wrong
    (site / "dpmarket" / "py.typed").unlink()
    assert "py.typed" in found(USER)


def site_of(python):
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
