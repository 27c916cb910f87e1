"""Turn the commands, as they are declared, into their reference page.

``docs/reference/commands.md`` is what :func:`command_reference` returns. To write it anew::

    python -m dpmarket.cli.reference > docs/reference/commands.md
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import typer
from typer.main import get_command

from dpmarket.cli.app import app
from dpmarket.cli.arguments import DISTRIBUTION_HELP

INTRODUCTION = """\
# Commands

This page is generated from the commands themselves (`dpmarket.cli.reference`); `dpmarket COMMAND --help`
says the same on a terminal, and `dpmarket --version` which version it is. [](../how-to/campaign.md) walks
through a campaign; [](market-file.md) has every key of the market file.

**Exit codes.** 0: done. 1: the data, the market or the ledger says no, or a check failed; one line says why,
and one more follows for each problem found in a file. 2: wrong usage of the command line.

**Files.** Tables are CSV or Parquet by their ending; `-` is standard input or output. If the result goes to
standard output, what is said about it goes to standard error. Where there is `--force`, nothing is
overwritten without it.

**Waiting.** On a terminal, work that may take long shows a bar with the time left.
"""
_COSTS = "cost-distributions"
# Text in quotes, which are not apostrophes, and options.
_CODE = re.compile(r"((?<!\w)'[^']+'(?!\w)|(?<![\w-])--[a-z][a-z-]*)")
_WORDS = {bool: "no value", float: "a number", int: "a whole number", str: "text", Path: "a path"}


@dataclass(frozen=True)
class Parameter:
    """An argument or an option, as a user sees it."""

    names: tuple[str, ...]
    is_option: bool
    is_required: bool
    expected: str
    default: str
    meaning: str

    @property
    def usage(self) -> str:
        """How it stands in a command line: options that may be left out are not named there."""
        if self.is_option:
            return f"{self.names[0]} ..." if self.is_required else ""
        return self.names[0] if self.is_required else f"[{self.names[0]}]"


@dataclass(frozen=True)
class Command:
    """A command with its whole name, what it does, its examples and its parameters, arguments first."""

    name: str
    summary: str
    details: str
    examples: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def usage(self) -> str:
        """Return the command line with its arguments and with the options that are needed."""
        needed = [parameter.usage for parameter in self.parameters if parameter.usage]
        optional = any(p.is_option and not p.is_required for p in self.parameters)
        return " ".join([self.name, *needed, *(["[OPTIONS]"] if optional else [])])


def commands() -> list[Command]:
    """Return every command, those of a group after the others."""
    return list(_below(get_command(app), "dpmarket"))


def _below(group: Any, path: str) -> Iterator[Command]:
    groups = [name for name, command in group.commands.items() if hasattr(command, "commands")]
    for name, command in group.commands.items():
        if name not in groups:
            yield _described(command, f"{path} {name}")
    for name in groups:
        yield from _below(group.commands[name], f"{path} {name}")


def _described(command: Any, name: str) -> Command:
    summary, _, details = inspect.cleandoc(command.help or "").partition("\n\n")
    types = get_type_hints(inspect.unwrap(command.callback))
    parameters = [_parameter(p, types[p.name]) for p in command.params if p.name != "help"]
    return Command(
        name=name,
        summary=" ".join(summary.split()),
        details=details,
        examples=tuple(line.removeprefix("Example: ") for line in (command.epilog or "").splitlines()),
        parameters=tuple(sorted(parameters, key=lambda parameter: parameter.is_option)),
    )


def command_reference() -> str:
    """Return the reference page of all commands, as Markdown."""
    found = commands()
    overview = ["| command | what it does |", "|---|---|"]
    overview += [f"| [`{c.name}`](#{_target(c)}) | {_markdown(c.summary)} |" for c in found]
    costs = f"({_COSTS})=\n**Cost distributions.** {_markdown(DISTRIBUTION_HELP)}\n"
    return "\n".join([INTRODUCTION, costs, *overview, "", *(_section(command) for command in found)])


def _section(command: Command) -> str:
    lines = [f"({_target(command)})=", f"## `{command.name}`", "", _markdown(command.summary), ""]
    if command.details:
        lines += [_markdown(command.details), ""]
    lines += ["```console", *(f"$ {example}" for example in command.examples), "```", ""]
    lines += [f"Usage: `{command.usage}`", ""]
    lines += ["| argument or option | expected | default | meaning |", "|---|---|---|---|"]
    for parameter in command.parameters:
        names = ", ".join(f"`{name}`" for name in parameter.names)
        lines.append(f"| {names} | {parameter.expected} | {parameter.default} | {_meaning(parameter)} |")
    return "\n".join(lines) + "\n"


def _meaning(parameter: Parameter) -> str:
    """Return what a parameter means; what a cost distribution is stands on the page once."""
    before, distribution, after = parameter.meaning.partition(DISTRIBUTION_HELP)
    link = f"A [cost distribution](#{_COSTS})." if distribution else ""
    return _markdown(before) + link + _markdown(after)


def _markdown(text: str) -> str:
    """Return help as Markdown: quoted text and options as code, all else as it is, in a cell too."""
    parts = _CODE.split(text)
    parts[::2] = [re.sub(r"([\\`*_\[\]<>$])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part.strip(chr(39))}`" for part in parts[1::2]]
    return "".join(parts).replace("|", r"\|")


def _parameter(declared: Any, annotation: Any) -> Parameter:
    is_option = declared.param_type_name == "option"
    several = "..." if get_origin(_given(annotation)) is list else ""
    return Parameter(
        names=(*declared.opts, *declared.secondary_opts) if is_option else (declared.name.upper() + several,),
        is_option=is_option,
        is_required=declared.required,
        expected=_expected(_given(annotation)),
        default="required" if declared.required else _default(declared.default),
        meaning=declared.help or "",
    )


def _given(annotation: Any) -> Any:
    """Return the type of a value that is given: without the None of one that may be left out."""
    kinds = get_args(annotation)
    return next(kind for kind in kinds if kind is not NoneType) if NoneType in kinds else annotation


def _expected(kind: Any) -> str:
    if get_origin(kind) is list:
        return f"{_expected(get_args(kind)[0])}, one or more"
    if issubclass(kind, Enum):
        return " or ".join(f"`{choice.value}`" for choice in kind)
    return _WORDS[kind]


def _default(value: object) -> str:
    if value is None or value == "":
        return "left out"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _target(command: Command) -> str:
    return "command-" + command.name.removeprefix("dpmarket ").replace(" ", "-")


if __name__ == "__main__":
    typer.echo(command_reference(), nl=False)
