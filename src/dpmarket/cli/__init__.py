"""The ``dpmarket`` command. Thin: parse, call one function, render. Heavy libraries load late."""

from __future__ import annotations

import sys

from dpmarket.version import __version__

__all__ = ["main"]


def main() -> None:
    """Run the command; the version is told before anything is loaded."""
    if sys.argv[1:] == ["--version"]:
        print(f"dpmarket {__version__}")
        return
    from dpmarket.cli.app import main as run

    run()
