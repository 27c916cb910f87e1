"""Every public name says what it promises, shows how it is used, and stands in the reference."""

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Hashable
from pathlib import Path

import dpmarket

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
LIBRARY = "costs privacy learning statistics mechanisms audit certificates datasets distributed"
# Made by other functions, whose examples show them; alike; or they need files, which the how-to pages have.
SHOWN_ELSEWHERE = """
Loss Learner Misreport CrossPrices NoiseDraw NoiseSource ReleasePlan Interval Audit PrivacyFindings
CoefficientSummary PostStratified ReleasedStatistic StatisticError PrivacyAudit Check Statistic
PrivacyAccount Plan TruthfulnessAudit
ParticipationAudit Forecast Prediction NotConverged EntropyUnavailable NotCertifiable Infeasible FileProblem
MarketRefusal InvalidInput Certificate verify PaperObjective diabetes odd_digits wine logistic
fit quote receipt_page budget_for_error posted_price paper_schedule Group"""


def public_names():
    """Every class and function of the top level and of the rooms that are a library, by name."""
    found = {}
    for room in ("", *LIBRARY.split()):
        module = importlib.import_module(f"dpmarket.{room}".rstrip("."))
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert found.setdefault(name, value) is value, f"two things are called {name}"
    return found


PUBLIC = public_names()
DIRECTIVE = re.compile(r"^\.\. (auto\w+|currentmodule):: *(\S+)\n((?: +\S.*\n)*)", re.MULTILINE)


def own_docstring(value):
    """What was written about ``value`` itself: nothing inherited, nothing that Python made up."""
    text = inspect.cleandoc(value.__doc__ or "")
    return "" if inspect.isclass(value) and text.startswith(f"{value.__name__}(") else text


def section(text, title):
    """The lines of a section of a numpy docstring, up to the next section."""
    lines = text.splitlines()
    starts = [k for k, line in enumerate(lines[:-1]) if line == title and set(lines[k + 1]) == {"-"}]
    if not starts:
        return []
    body = lines[starts[0] + 2 :]
    ends = (k for k, line in enumerate(body[1:]) if line and set(line) == {"-"})
    return body[: next(ends, len(body))]


def named_in(text, *titles):
    """The names that these sections describe: ``low, high : numbers`` describes two."""
    heads = [line.split(" : ")[0] for title in titles for line in section(text, title) if line[:1].strip()]
    return {name.strip("*` ") for head in heads for name in head.split(",")}


def parameters(value):
    """The names of all arguments that a caller can pass."""
    return [name for name in inspect.signature(value).parameters if name[0] != "_" and name != "self"]


def nobody(offenders):
    """Fail with every offender on a line of its own, however many there are."""
    lines = [f"{name}: {', '.join(map(str, what))}" for name, what in offenders.items() if what]
    assert not lines, "\n" + "\n".join(lines)


def test_every_public_name_has_an_example():
    examples = {name: "\n".join(section(own_docstring(value), "Examples")) for name, value in PUBLIC.items()}
    without = {name for name, text in examples.items() if ">>> " not in text}
    assert without == set(SHOWN_ELSEWHERE.split())


def test_every_public_name_describes_what_it_takes_and_returns():
    silent = {}
    for name, value in PUBLIC.items():
        text = own_docstring(value)
        if inspect.isfunction(value):
            silent[name] = [each for each in parameters(value) if each not in named_in(text, "Parameters")]
            # Without parameters the first line is enough: "Return ...".
            told = section(text, "Returns") or (not parameters(value) and text.startswith("Return "))
            if inspect.signature(value).return_annotation != "None" and not told:
                silent[name].append("what it returns")
        elif not issubclass(value, Exception) and not getattr(value, "_is_protocol", False):
            known = named_in(text, "Parameters", "Attributes")
            silent[name] = [each for each in parameters(value) if each not in known]
    nobody(silent)


def documented():
    """Every object that the pages of the reference describe, once for every time that they do."""
    for page in sorted(REFERENCE.glob("*.md")):
        room = ""
        for kind, target, options in DIRECTIVE.findall(page.read_text()):
            if kind == "currentmodule":
                room = target
            elif kind == "automodule":
                yield from members_of(target, options)
            else:
                module, _, name = (target if "." in target else f"{room}.{target}").rpartition(".")
                yield getattr(importlib.import_module(module), name)


def members_of(target, options):
    """The objects that ``automodule`` describes: those listed, or all of the module's own."""
    if (found := re.search(r":members:([^:]*)", options)) is None:
        return []
    module = importlib.import_module(target)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == target]
    names = found[1].replace(",", " ").split() or getattr(module, "__all__", own)
    return [getattr(module, name) for name in names]


def test_every_public_name_stands_in_the_reference_once():
    times = Counter(value for value in documented() if isinstance(value, Hashable))
    nobody({name: [f"{times[value]} times"] for name, value in PUBLIC.items() if times[value] != 1})


NUMPYDOC = {
    *("Parameters", "Attributes", "Methods", "Returns", "Yields", "Raises", "Warns", "Other Parameters"),
    *("See Also", "Notes", "References", "Examples"),
}
ENTRY = re.compile(r"\*{0,2}[\w.]+(, \*{0,2}[\w.]+)*( : [^.;]+)?")


def spoken_otherwise(text):
    """What in a docstring is not numpydoc: unknown sections, entries that carry their meaning."""
    lines = text.splitlines()
    titles = [k for k, line in enumerate(lines[1:]) if re.fullmatch("-{3,}", line)]
    found = [lines[k] for k in titles if lines[k] not in NUMPYDOC]
    for title in ("Parameters", "Attributes", "Raises"):
        found += [
            line for line in section(text, title) if line and line[0] != " " and not ENTRY.fullmatch(line)
        ]
    heads = [line for line in section(text, "Returns") if line and line[0] != " "]
    return found + [
        line for line in heads if line.endswith(".") or (len(heads) > 1 and not ENTRY.fullmatch(line))
    ]


def test_all_docstrings_are_numpydoc():
    told = {}
    for path in sorted(Path(dpmarket.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                wrong = spoken_otherwise(ast.get_docstring(node) or "")
                if wrong:
                    told[f"{path.name} {getattr(node, 'name', '')}"] = wrong
    assert told == {}
    assert spoken_otherwise("A.\n\nParameters\n----------\nx : what it means.")
    assert spoken_otherwise("A.\n\nGuarantees\n----------\nMuch.")
    assert spoken_otherwise("A.\n\nReturns\n-------\nA sentence.")
