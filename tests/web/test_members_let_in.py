"""Commands about members: who there is, a new link, and the end of all that lets somebody in."""

import json

import pytest
from typer.testing import CliRunner

from dpmarket.cli.app import app
from dpmarket.ledger import reading
from dpmarket.market import caller_with, list_members
from dpmarket.web.running import opened_without_keys
from dpmarket.web.service import clock
from dpmarket.web.settings import read_settings
from dpmarket.web.setup import init_service, invite_member, new_link, revoke_member


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    folder = tmp_path / "service"
    init_service(folder, "An operator")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["service", *map(str, arguments)])


def lets_in(folder, token, kind):
    with opened_without_keys(read_settings(folder)) as desk, reading(desk.ledger) as connection:
        try:
            return caller_with(connection, token, [kind], clock()).role
        except Exception:
            return None


def test_members_are_listed_with_what_lets_them_in(service):
    invite_member(service, "A clinic", "buyer")
    told = json.loads(run("members", service, "--json").stdout)
    assert [(one["role"], one["name"], one["tokens"]) for one in told] == [
        ("buyer", "A clinic", 2),
        ("operator", "An operator", 2),
    ]
    assert "A clinic" in run("members", service).stdout
    with opened_without_keys(read_settings(service)) as desk, reading(desk.ledger) as connection:
        assert len(list_members(connection, clock())) == 2


def test_a_new_link_signs_in_once_and_leaves_the_rest_as_it_was(service):
    made = invite_member(service, "A clinic", "buyer")
    told = json.loads(run("new-link", service, "A clinic", "--token", "--json").stdout)
    link = told["link"].rsplit("/", 1)[1]
    assert told["link"].startswith("http://127.0.0.1:8000/login/")
    assert lets_in(service, link, "login") == "buyer"
    assert lets_in(service, told["token"], "api") == "buyer"
    assert lets_in(service, made.token, "api") == "buyer"
    assert link in new_link(service, made.id) or lets_in(service, link, "login") == "buyer"


def test_who_is_revoked_is_let_in_no_more_and_others_are(service):
    made, other = (invite_member(service, f"A clinic {k}", "buyer") for k in range(2))
    assert revoke_member(service, made.id) == 2
    assert lets_in(service, made.token, "api") is None
    assert lets_in(service, made.link.rsplit("/", 1)[1], "login") is None
    assert lets_in(service, other.token, "api") == "buyer"
    assert "0 tokens" in run("revoke-member", service, made.id).stdout
    assert lets_in(service, new_link(service, made.id).rsplit("/", 1)[1], "login") == "buyer"


def test_nobody_of_that_name_and_a_name_of_two_are_refused_in_one_line(service):
    for _ in range(2):
        invite_member(service, "A clinic", "buyer")
    for command in ("new-link", "revoke-member"):
        found = run(command, service, "nobody")
        assert found.exit_code == 1
        assert "no such member" in str(found.exception) + found.output
        found = run(command, service, "A clinic")
        assert "expected the id" in str(found.exception) + found.output
