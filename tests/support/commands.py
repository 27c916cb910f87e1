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

from dpmarket.cli import main

COMMAND = Path(sys.executable).with_name("dpmarket")


@dataclass(frozen=True)
class Done:
    """What a command left behind, named as in ``subprocess``."""

    returncode: int
    stdout: str
    stderr: str


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
