"""Run the command: in this process, which has everything loaded, or as it is installed."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from typer.main import get_command

from dpmarket.cli import main
from dpmarket.cli.app import app

COMMAND = Path(sys.executable).with_name("dpmarket")


@dataclass(frozen=True)
class Done:
    """What a command left behind, named as in ``subprocess``."""

    returncode: int
    stdout: str
    stderr: str


def all_commands():
    """Return every command as typer made it, by its whole name, those of a group after the others."""

    def below(command, name):
        for word, one in getattr(command, "commands", {}).items():
            yield from below(one, f"{name} {word}")
        if not hasattr(command, "commands"):
            yield name, command

    return dict(sorted(below(get_command(app), "dpmarket"), key=lambda found: found[0].count(" ")))


def examples_of(command):
    """Return the calls that a command's help shows."""
    return [line.removeprefix("Example: ") for line in (command.epilog or "").splitlines()]


def call(*arguments, cwd=None, input=None):
    """Call the command as its entry point does, with streams and a folder of its own; an error is raised."""
    stdin, stdout, stderr = (_stream(data) for data in ((input or "").encode(), b"", b""))
    handler = signal.getsignal(signal.SIGTERM)
    with contextlib.ExitStack() as here:
        here.enter_context(contextlib.chdir(cwd or os.curdir))
        here.enter_context(mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr))
        here.enter_context(mock.patch.object(sys, "argv", ["dpmarket", *map(str, arguments)]))
        here.callback(signal.signal, signal.SIGTERM, handler)
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return Done(code, _text(stdout), _text(stderr))


def run(*arguments, code=0, **options):
    """Call the command here; its exit code must be ``code``."""
    done = call(*arguments, **options)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def run_installed(*arguments, code=0, **options):
    """Run the command in a process of its own, through the installed entry point."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def _stream(data):
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", write_through=True)


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()
