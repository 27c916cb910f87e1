"""The ``dpmarket`` command. Thin: parse, call one function, render. Heavy libraries load late."""

import gc
import os

__all__ = ["main"]


def main() -> None:
    """Run the command."""
    # What is loaded stays: looking for garbage in it whenever it has grown takes a good part of a start.
    gc.set_threshold(10_000, 10, 20)
    # Nothing here has plugins, and looking for some reads the metadata of everything that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from dpmarket.cli.app import main as run

    run()
