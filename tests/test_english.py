"""The English of documents, pages, messages, docstrings and comments: habits that a pattern can find."""

import ast
import io
import json
import re
import tokenize
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dpmarket"
BEGINS = r"(?:^|(?<=[.:;!?]\s)|(?<=[-*|]\s))\W{0,3}"  # of a sentence, an item of a list, a cell
HABITS = {
    "a sentence with 'who' as its subject": BEGINS + r"(?:Who|Whoever)\b(?![^.|]*\?)[^.|,]*\.(?:\s|$)",
    "'who' without people": r"\b(?:for|of|to|by|from|at) who (?:is|are|was|were|ha[sd])\b|\b[Ww]hoever\b",
    "'told' of a thing": r"\btold\b(?! (?:at|that|whether|why|what|how|when|where|so)\b)",
    "a trailing 'too'": r",\s+too(?=[.,;:)]|$)",
    "'not made', 'not told yet'": r"\bnot (?:told yet|made(?= *[.,;:)|]| *$))",
    "'the own', which is 'their own'": r"\b(?:an?|the) own\b",
    "a metaphor": r"\b(?:strangers?|crowds?|noise rooms?|errands?)\b",
    "'dearest', which is 'highest-cost'": r"\b[Dd]earest\b",
    "'lying', which is 'misreporting'": r"\b(?:lying|lies) pays?\b|\btruth and lie\b",
}  # fmt: skip
WHAT = {
    "a sentence with 'what' as its subject": BEGINS + r"What\b(?![^.|]*\?)[^.|]*\.(?:\s|$)"
}  # on pages only


def prose_of_page(path):
    """Return the text of a page without code, links' addresses and headings, paragraph by paragraph."""
    text = re.sub(r"^(`{3,})[^`]*?^\1$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"^(#|% ).*$|^    .*$", "", text, flags=re.M)
    text = re.sub(r"`[^`]*`", "`code`", re.sub(r"\]\([^)]*\)", "]", text))
    return [(f"{path.name}", part) for part in re.split(r"\n\s*\n|\n(?=[-*|] )", text)]


def prose_of_notebook(path):
    """Return the texts of a notebook, cell by cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return [(path.name, part) for text in texts for part in text.split("\n\n") if not part.startswith("#")]


def prose_of_module(path):
    """Return the texts and the comments of a module, each with its line."""
    source = path.read_text(encoding="utf-8")
    texts = [
        (f"{path.name}:{node.lineno}", part)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        for part in node.value.split("\n\n")
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [(f"{path.name}:{t.start[0]}", t.string[1:]) for t in tokens if t.type == tokenize.COMMENT]
    return texts + comments


def prose_of_texts(path):
    """Return every text of a catalogue, plural forms one by one."""
    with path.open("rb") as file:
        messages = [message for message in read_po(file) if message.id]
    return [
        (f"{path.name}:{message.context}", form)
        for message in messages
        for form in ((message.id,) if isinstance(message.id, str) else message.id)
    ]


def prose_of_template(path):
    """Return the words of a template, without tags and without what is computed."""
    text = re.sub(
        r"<(script|style)\b.*?</\1>|\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", "", path.read_text(), flags=re.S
    )
    return [(path.name, part.strip()) for part in re.split(r"<[^>]*>", text) if part.strip()]


PAGES = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "tables"]
KINDS = {
    "pages": (prose_of_page, [*PAGES, *ROOT.glob("[A-Z]*.md")]),
    "notebooks": (prose_of_notebook, ROOT.glob("examples/*.ipynb")),
    "modules": (prose_of_module, SOURCE.rglob("*.py")),
    "scripts": (prose_of_module, [*ROOT.glob("paper/*.py"), *ROOT.glob("benchmarks/*.py")]),
    "texts": (prose_of_texts, (SOURCE / "web" / "texts").glob("*.pot")),
    "templates": (prose_of_template, SOURCE.rglob("*.html*")),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_english_has_none_of_the_listed_habits(kind):
    read, paths = KINDS[kind][0], sorted(KINDS[kind][1])
    assert paths
    found = [
        f"{place}: {habit}: {' '.join(match[0].split())[:80]}"
        for path in paths
        for place, text in read(path)
        for habit, pattern in (HABITS | (WHAT if kind in ("pages", "notebooks") else {})).items()
        for match in re.finditer(pattern, text)
    ]
    assert not found, "\n".join(["", *found])


def test_a_habit_is_found_and_good_english_is_left_alone():
    habits = [
        "Who sells is paid.", "It ends. Whoever comes is paid.", "- What is public is printed.",
        "Nobody was told.", "Records, too.", "2 payments not made", "Files from strangers",
        "offers for who is seated", "the own report", "it makes lying pay",
    ]  # fmt: skip
    good = [
        "Who sells?", "Sellers who withdrew are not paid.", "too many rows", "What does my budget buy?",
        "It was not made by hand", "People are told at once that it is full.", "The sum says what is spent.",
    ]  # fmt: skip
    for sentence in [*habits, *good]:
        found = any(re.search(pattern, sentence) for pattern in (HABITS | WHAT).values())
        assert found == (sentence in habits), sentence
