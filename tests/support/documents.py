"""Run a page of the documentation as a reader would: its code and its commands, top to bottom."""

import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from support.commands import call

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTINUES = re.compile(r"^% continues: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, the line where it begins, its lines."""

    language: str
    start: int
    lines: tuple[str, ...]


def blocks(path):
    """Return the fenced blocks of a page, those of the page that it continues first."""
    text = path.read_text(encoding="utf-8")
    found = []
    for name in CONTINUES.findall(text):
        found += blocks(path.parent / name)
    language, lines, fence = None, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = re.match(r"(`{3,})(\S*)", line)
        if language is None and opening:
            fence, language, lines, start = opening[1], opening[2], [], number
        elif language is not None and line.strip() == fence:
            found.append(Block(language, start, tuple(lines)))
            language = None
        elif language is not None:
            lines.append(line)
    assert language is None, f"{path.name}: the block of line {start} does not end"
    return found


def pages_to_run():
    """Return the pages with something to run: one that another page continues is run with that one."""
    continued = {
        (path.parent / name).resolve()
        for path in PAGES
        for name in CONTINUES.findall(path.read_text(encoding="utf-8"))
    }
    pages = [path for path in PAGES if path.resolve() not in continued]
    return [path for path in pages if any(block.language in ("python", "console") for block in blocks(path))]


def run_page(path, folder):
    """Run all blocks in one folder and one namespace. Output that the page shows must come out so.

    In a console block, lines after a command are its output; a block of text right after Python code is what
    the code prints; ``...`` stands for any text. Commands of make
    are not run: that their target exists is checked. ``serve`` and ``worker`` are not run either.
    """
    namespace, printed = {"__name__": "__main__"}, None
    for block in blocks(path):
        if block.language == "text" and printed is not None:
            _compare("\n".join(block.lines), printed, f"{path.name}, line {block.start}")
        printed = None
        if block.language == "python":
            code = "\n" * block.start + "\n".join(block.lines)
            with redirect_stdout(StringIO()) as output:
                exec(compile(code, str(path), "exec"), namespace)
            printed = output.getvalue()
        elif block.language == "console":
            for command, shown in commands(block):
                _run(command, shown, folder, f"{path.name}: {command}")


def commands(block):
    """Return the commands of a console block, each with the output that is shown."""
    found = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"the block of line {block.start} begins with output"
            found[-1][1].append(line)
    return [(command, "\n".join(shown).strip()) for command, shown in found]


def _run(command, shown, folder, where):
    program, *arguments = shlex.split(command, comments=True)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets), where
        return
    if program == "source":
        return  # the environment that runs the tests
    if program == "dpmarket":
        if arguments[0] in ("serve", "worker"):
            return  # until somebody stops them: tests of the service do
        if "CAMPAIGN" in arguments:
            return  # one with an id of its own: tests of the service do
        if arguments[0] == "restore":  # after the database was lost
            (Path(folder) / "rules.db").unlink()
        done = call(*arguments, cwd=folder)
    else:
        assert program == "python", where
        done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{where}\n{done.stderr}"
    if shown:
        _compare(shown, done.stdout, where)


def _compare(shown, text, where):
    pattern = re.escape(_plain(shown)).replace(re.escape("..."), ".*?")
    assert re.fullmatch(pattern, _plain(text)), f"{where}\n{text}"


def _plain(text):
    """Compare words, not how they are set: white space and the lines of tables do not count."""
    return " ".join(re.sub("[─-╿]+", " ", text).split())
