"""The commands' reference page: made of the commands, and no command without help, example and page."""

import shlex
from pathlib import Path

import pytest

from dpmarket.cli.reference import Command, Parameter, command_reference, commands

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
COMMANDS = [pytest.param(command, id=command.name) for command in commands()]
REFERENCE = command_reference()


def test_the_commands_page_is_what_the_commands_say():
    assert PAGE.read_text(encoding="utf-8") == REFERENCE, (
        "write it anew: python -m dpmarket.cli.reference > docs/reference/commands.md"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_an_example_and_a_section(command):
    assert command.summary.endswith(".")
    assert command.examples
    for parameter in command.parameters:
        assert parameter.meaning.endswith("."), parameter.names
    section = REFERENCE.partition(f"## `{command.name}`\n")[2].partition("\n## ")[0]
    assert command.examples[0] in section
    for parameter in command.parameters:
        assert all(f"`{name}`" in section for name in parameter.names)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_example_is_a_call_of_its_command_with_all_that_is_required(command):
    for example in command.examples:
        assert f"{example} ".startswith(f"{command.name} ")
        words = shlex.split(example.removeprefix(command.name))
        options = {name: p for p in command.parameters if p.is_option for name in p.names}
        given = [options[word] for word in words if word.startswith("-")]
        assert set(given) >= {p for p in command.parameters if p.is_option and p.is_required}
        values = sum(parameter.expected != "no value" for parameter in given)
        arguments = len(words) - len(given) - values
        assert arguments >= sum(p.is_required for p in command.parameters if not p.is_option)


def test_a_section_says_names_types_defaults_and_meaning(monkeypatch):
    parameters = (
        Parameter(
            ("FILE",), False, True, "a path", "required", "The seller's or sellers' file, as 'a|b' wrote it."
        ),
        Parameter(("--many", "-m"), True, True, "text", "required", "Not a 'c*d' * e with --few."),
    )
    made_up = Command("dpmarket try", "Try it.", "", ("dpmarket try x -m y",), parameters)
    monkeypatch.setattr("dpmarket.cli.reference.commands", lambda: [made_up])
    page = command_reference()
    assert "| [`dpmarket try`](#command-try) | Try it. |" in page
    assert "(command-try)=\n## `dpmarket try`\n\nTry it.\n\n```console\n$ dpmarket try x -m y\n```\n" in page
    assert "Usage: `dpmarket try FILE --many ...`\n" in page
    assert r"| `FILE` | a path | required | The seller's or sellers' file, as `a\|b` wrote it. |" in page
    assert r"| `--many`, `-m` | text | required | Not a `c*d` \* e with `--few`. |" in page


def test_types_and_defaults_are_told_in_words():
    (sweep,) = [command for command in commands() if command.name == "dpmarket sweep"]
    told = {p.names[0]: (p.expected, p.default) for p in sweep.parameters}
    assert told["--costs"] == ("text", "required")
    assert told["--sellers"] == ("a whole number", "left out")
    assert told["--data"] == ("`breast-cancer` or `diabetes` or `digits` or `wine`", "left out")
    assert told["--radius"] == ("a number", "`1.0`")
    assert told["--json"] == ("no value", "off")
    (withdraw,) = [command for command in commands() if command.name == "dpmarket withdraw"]
    assert withdraw.usage == "dpmarket withdraw [SELLERS...] --quotes ... [OPTIONS]"
