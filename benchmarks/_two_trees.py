"""Run a script with one source tree or another: each run is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def source_tree(text: str) -> Path:
    """Return a folder that holds the package, given as itself or as the checkout around it."""
    given = Path(text).resolve()
    for folder in (given, given / "src"):
        if (folder / "dpmarket" / "__init__.py").exists():
            return folder
    raise SystemExit(f"expected a source tree with dpmarket in it, got {text}.")


def run_with(tree: Path, arguments: Sequence[str], **options: str) -> str:
    """Run Python with ``tree`` as the package's source; return what it printed, or end with its error."""
    environment = os.environ | {"PYTHONPATH": str(tree)} | options
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed with the sources in {tree}.")
    return done.stdout
