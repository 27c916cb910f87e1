"""Screening questions that lead to groups, and the panel that people come from, in the rules file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator

from dpmarket.campaign.rules.keys import NamedTable, Table, key

if TYPE_CHECKING:
    from dpmarket.campaign.rules.rules_file import Rules

MOST_GROUPS = 100
_MOST_ANSWERS = 50
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _answers(values: list[str]) -> list[str]:
    if not 2 <= len(values) <= _MOST_ANSWERS or len(set(values)) < len(values) or not all(values):
        raise ValueError("different texts, at least two")
    return values


def _return_url(value: str) -> str:
    parts = urlsplit(value)
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    rest = f"{parts.path}?{parts.query}#{parts.fragment}".replace("{pid}", "")
    if not safe or not parts.hostname or "{" in parts.netloc + rest or not value.isascii():
        raise ValueError("an address that begins with https://")
    if not value.isprintable() or any(letter in value for letter in " \"'<>\\;") or len(value) > 1000:
        raise ValueError("an address without blanks, quotes and semicolons")
    return value


Answers = Annotated[list[str], AfterValidator(_answers)]
ReturnUrl = Annotated[str, AfterValidator(_return_url)]
_URL = "an address that begins with https://, with {pid} for the panel's id"


class ScreeningTranslation(Table):
    """A screening question in another language."""

    question: str = key(..., min_length=1, max_length=500)
    """The question."""
    answers: Answers = key(..., "as many texts as the question has answers")
    """The answers, in their order."""


class Screening(NamedTable):
    """A question before consent. All of them are asked before anybody is screened out."""

    expected: ClassVar[str] = '{ question = "...", answers = [...], accept = [...] or groups = {...} }'
    question: str = key(..., min_length=1, max_length=500)
    """The question in English."""
    answers: Answers = key(..., "2 to 50 different texts, in brackets")
    """The answers to choose from."""
    accept: list[str] | None = key(None, "some of the answers, in brackets")
    """The answers with which people can take part. Left out: all, or those with a group."""
    groups: dict[str, str] | None = key(
        None, 'groups by answer, such as { "in a city" = "city", "elsewhere" = "country" }', min_length=1
    )
    """Which group an answer leads to; other answers screen out. With several such questions, a group is
    called by all parts with slashes between them, such as city/young."""
    translations: dict[str, ScreeningTranslation] | None = key(
        None, 'tables by language, such as de = { question = "...", answers = [...] }'
    )
    """The same in other languages, by their codes."""

    def asked(self, language: str) -> tuple[str, list[str]]:
        """Return the question and its answers in a language, or in English."""
        said = (self.translations or {}).get(language, self)
        return said.question, said.answers

    def part(self, answer: int) -> str | None:
        """Return the part of a group's name that an answer gives, empty for none; None: screened out."""
        text = self.answers[answer]
        if self.groups is not None:
            return self.groups.get(text)
        return "" if self.accept is None or text in self.accept else None


class Panel(Table):
    """The panel that people come from by links, and where they go back to."""

    name: str = key("panel", "1 to 30 small letters, digits and hyphens", pattern="^[a-z0-9-]{1,30}$")
    """What its ids belong to: campaigns with the same name share each person's lifetime limits. An operator
    names such a person NAME:PID."""
    unsigned: bool = key(default=False)
    """Whether links without a signature are taken. Anybody can then invent ids and fill places."""
    payee: Literal["pid", "ask"] = key("pid")
    """Whether payments go to the panel's id, as the panel pays it out, or sellers are asked where to."""
    complete: ReturnUrl = key(..., _URL)
    """Where sellers return who have done their part."""
    screened_out: ReturnUrl | None = key(None, _URL, example="https://")
    """Where people return who cannot take part. Left out: a page says so."""
    full: ReturnUrl | None = key(None, _URL, example="https://")
    """Where people return whose group is full. Left out: a page says so."""
    left: ReturnUrl | None = key(None, _URL, example="https://")
    """Where people return who said no, withdrew or got no offer. Left out: a page says so."""


def group_of(screening: Sequence[Screening], answers: Sequence[int]) -> str | None:
    """Return the group that answers lead to, by their numbers; empty: none; None: screened out."""
    parts = [one.part(answer) for one, answer in zip(screening, answers, strict=True)]
    if any(part is None for part in parts):
        return None
    return "/".join(part for part in parts if part)


def screening_problems(rules: Rules) -> Iterator[tuple[str, str]]:
    """Find answers that do not exist, groups without a quota, and groups that nobody can get into."""
    for number, one in enumerate(rules.screening):
        path = f"screening.{number}"
        if one.accept is not None and one.groups is not None:
            yield f"{path}.accept", "expected none beside groups, which say the same."
        for name, named in (("accept", one.accept or []), ("groups", list(one.groups or {}))):
            if set(named) - set(one.answers):
                yield f"{path}.{name}", "expected some of the question's answers."
        for language, said in (one.translations or {}).items():
            if len(said.answers) != len(one.answers):
                where = f"{path}.translations.{language}.answers"
                yield where, f"expected {len(one.answers)} answers, as in English."
    parts = [sorted(set(one.groups.values())) for one in rules.screening if one.groups is not None]
    if math.prod(map(len, parts)) > MOST_GROUPS:
        yield "screening", f"expected answers that lead to at most {MOST_GROUPS} groups."
        return
    reached = {"/".join(each) for each in itertools.product(*parts)} if parts else set()
    for name in sorted(reached - set(rules.groups)):
        yield f"groups.{name}", "missing; expected a group that screening leads to."
    if rules.panel is not None and rules.groups and not parts:
        yield "screening", "missing; expected a question with groups, for people who come from the panel."
