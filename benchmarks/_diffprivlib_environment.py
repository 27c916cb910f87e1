"""Other libraries need older packages: environments of their own, each made once, under ``out/``."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

OUT = Path(__file__).parent.parent / "out"
DIFFPRIVLIB = "diffprivlib"
FOLDER = OUT / f"{DIFFPRIVLIB}-env"


def python_of_environment(name: str = DIFFPRIVLIB) -> Path:
    """Return where the environment's Python is, whether it is there or not."""
    return OUT / f"{name}-env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def environment(name: str = DIFFPRIVLIB) -> Path:
    """Return the Python of an environment with ``NAME-requirements.txt``, made if it is not there."""
    python, ready = python_of_environment(name), OUT / f"{name}-env" / "ready"
    if not ready.exists():
        print(f"Installing what {name} needs into an environment of its own (once) ...", flush=True)
        OUT.mkdir(exist_ok=True)
        venv.create(OUT / f"{name}-env", with_pip=True, clear=True)
        requirements = Path(__file__).with_name(f"{name}-requirements.txt")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--requirement", str(requirements)], check=True)
        ready.touch()
    return python
