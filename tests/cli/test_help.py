"""No command without help and an example, and no example that is not a call of its command."""

import shlex

import pytest

from support.commands import all_commands, examples_of

COMMANDS = [pytest.param(*found, id=found[0]) for found in all_commands().items()]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_command_and_parameter_has_help(name, command):
    assert command.help.split("\n\n")[0].endswith(".")
    assert all(one.help.endswith(".") for one in command.params if one.name != "help"), name


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_an_example_is_a_call_of_its_command_with_all_that_is_required(name, command):
    assert examples_of(command)
    options = {word: one for one in command.params for word in one.opts if one.param_type_name == "option"}
    needed = {one.name for one in options.values() if one.required}
    for example in examples_of(command):
        assert f"{example} ".startswith(f"{name} ")
        words = shlex.split(example.removeprefix(name))
        given = [options[word] for word in words if word.startswith("-")]
        assert {one.name for one in given} >= needed
        arguments = len(words) - len(given) - sum(not one.is_flag for one in given)
        assert arguments >= sum(one.required for one in command.params if one.param_type_name == "argument")
