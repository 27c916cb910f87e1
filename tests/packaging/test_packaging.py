"""What is built and installed: complete, with its types, and nothing besides."""

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
