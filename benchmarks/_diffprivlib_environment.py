"""diffprivlib needs an older scikit-learn: an environment of its own, made once, under ``out/``."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "out" / "diffprivlib-env"


def python_of_environment() -> Path:
    """Return where the environment's Python is, whether it is there or not."""
    return FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def environment() -> Path:
    """Return the Python of diffprivlib's own environment, made if it is not there."""
    python, ready = python_of_environment(), FOLDER / "ready"
    if not ready.exists():
        print("Installing diffprivlib into an environment of its own (once) ...", flush=True)
        FOLDER.parent.mkdir(exist_ok=True)
        venv.create(FOLDER, with_pip=True, clear=True)
        requirements = Path(__file__).with_name("diffprivlib-requirements.txt")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--requirement", str(requirements)], check=True)
        ready.touch()
    return python
