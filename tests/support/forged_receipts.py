"""Certificates with receipts, good and forged: every verifier must give the same verdicts on all."""

import functools
import json
import math
import random
from typing import NamedTuple

from dpmarket.certificates.verifier.receipts import is_covered

from dpmarket.certificates.verifier.layout import body_of
from support.forging import FILES, VALUES, Papers, canonical


class Case(NamedTuple):
    """What is given to a verifier, and whether nothing must fail; None where nobody knows."""

    name: str
    certificate: bytes
    receipt: bytes
    cost: float | None
    digest: str | None
    good: bool | None


@functools.cache
def cases():
    """Return all chosen cases: good ones of both versions, and what a forger would try."""
    return [
        *_good(), *_forged_lines(), *_forged_bodies(), *_forged_texts(), *_forged_offers(),
        *_forged_statistics(), *_forged_deltas(),
    ]  # fmt: skip


def random_cases(count, seed):
    """Return cases in which one or two bytes, or one or two values, were changed at random."""
    rng = random.Random(seed)
    pool = [Papers.read(*name) for name in _names()]
    pool += [Papers.read("other-kinds", name) for name in (*STATISTICS, *GAUSSIAN)]
    return [_random_case(rng, rng.choice(pool), k) for k in range(count)]


STATISTICS = ("mean", "histogram", "quantile", "vector", "several")
GAUSSIAN = ("gaussian", "gaussian-rows", "gaussian-softmax", "gaussian-encoded")


def _names():
    return sorted(
        (path.parent.name, path.name.removesuffix(".certificate.json"))
        for path in FILES.glob("version-*/*.certificate.json")
    )


def _largest(papers):
    return max(range(len(papers.lines)), key=lambda k: papers.lines[k]["promise"])


def _case(name, papers, k=None, cost=None, digest=None, good=False):
    k = _largest(papers) if k is None else k
    return Case(name, papers.first, papers.receipt(k), cost, digest, good)


def _good():
    for version, name in _names():
        papers = Papers.read(version, name)
        for k in range(0, len(papers.lines), 3):
            cost = papers.reports[papers.lines[k]["id"]]
            yield _case(f"{version} {name} {k}", papers, k, cost, papers.digest, good=True)
        named = papers.with_lines(lambda lines: lines[0].update(id='[{"\\' * 5_000))
        yield _case(f"{version} {name} and brackets in the id", named, 0, good=True)


def _forged_lines():
    for version, name in _names():
        papers = Papers.read(version, name)
        k = _largest(papers)
        for value in VALUES:
            for factor in (0.0, 0.5, 0.999, 1.0 - 2e-15):
                told = papers.lines[k][value] * factor
                lower = papers.with_lines(
                    lambda lines, k=k, value=value, told=told: lines[k].update({value: told})
                )
                # Less weight, and a promise that is still kept, are no lies that a receipt could show.
                yield _case(f"{version} {name} {value} * {factor}", lower, good=None)
            beyond = papers.with_lines(lambda lines, k=k, value=value: lines[k].update({value: 1e16}))
            yield _case(f"{version} {name} {value} beyond all bounds", beyond)
        spent = papers.lines[k]["spent"]
        for steps in range(1, 60):
            spent = math.nextafter(spent, 0.0)
            if steps % 4:
                continue
            low = papers.with_lines(lambda lines, k=k, spent=spent: lines[k].update(spent=spent))
            yield _case(f"{version} {name} spent {steps} floats below", low, good=None)
        unpaid = papers.with_lines(lambda lines, k=k: lines[k].update(payment=0.0))
        gone = None if papers.lines[k]["withdrew"] else False  # nothing is owed to who withdrew
        own = papers.reports[papers.lines[k]["id"]]
        yield _case(f"{version} {name} unpaid", unpaid, cost=own, good=gone)
        for cost in (-1.0, math.nan, math.inf, 1e300):
            yield _case(f"{version} {name} cost {cost}", papers, cost=cost, good=gone)
        yield _case(f"{version} {name} another digest", papers, digest="0" * 64)


def _forged_bodies():
    changes = {
        "rows_per_person": (0, 10**60, 1.0), "l2": (0.0, 1e-300, -1.0, 1e-6), "noise_rate": (1e-60, 1e13),
        "row_bound": (0.5, 1e200), "gradient_bound": (1e-3, 0.0), "numerical_epsilon": (1e-12, 1e2),
        "grid": (0.3, 2.0**-40, 0.0), "stretch": (0.0,),
        "classes": (["a", "a"], [1, True], [0, -0.0], ["a"], [[], "a"]),
        "coef_grid": ([1], [1, 2, 3, True], [2**70, 1, 2, 3], []), "weight_total": (1e-10, 2e3),
        "intercept_scaling": (1e7, "1"), "clip": (1,), "delta": (1e-6, -0.0),
        "kind": ("binary model", "shaped binary model", "softmax model", 3),
    }  # fmt: skip
    for version, name in _names():
        papers = Papers.read(version, name)
        for key, values in changes.items():
            for value in values:
                forged = papers.copy()
                forged.body["release"][key] = value
                same = value == -0.0 or forged.body == papers.body
                yield _case(f"{version} {name} {key} = {value!r}", forged, good=None if same else False)
        for path, value in (
            (("schema",), "dpmarket.certificate/1"),
            (("schema",), "dpmarket.certificate/3"),
            (("more",), 1),
            (("root",), "0" * 64),
            (("totals", "sellers"), 10**12),
            (("totals", "sellers"), 21),
            (("totals", "bought_from"), 99),
            (("totals", "withdrawn"), -1),
            (("money", "minor_units"), 0),
            (("money", "minor_units"), 2**60),
            (("money", "minor_units"), 100.0),
            (("mechanism",), 5),
        ):
            forged = papers.changed(*path, to=value)
            receipt = json.loads(papers.receipt(0)) | {"certificate": forged.digest}
            what = f"{version} {name} {path} = {value!r}"
            yield Case(what, forged.first, canonical(receipt) + b"\n", None, None, False)
        yield from _forged_words(name, papers)
    yield from _forged_shapes()
    yield from _forged_classes()


def _forged_shapes():
    papers = Papers.read("version-2", "shaped")
    bound = papers.body["release"]["euclidean_bound"]
    for key, values in {
        "euclidean_bound": (bound / 2, bound * (1.0 - 2e-8), bound * (1.0 - 1e-9), 0.01, 2.0, 1, math.inf),
        "joint_columns": (0, 2, 39, 40, -1, 10**30, 1.0),
        "row_bound": (1.0, 1.0624999, 2.0),
        "fit_intercept": (False,),
        "intercept_scaling": (0.0, 0.07, 0.5),
    }.items():
        for value in values:
            if value != math.inf:
                forged = papers.changed("release", key, to=value)
                yield _case(f"shaped {key} = {value!r}", forged, good=None)
    encoder = papers.body["release"]["encoder"]
    columns = encoder["columns"]
    for name, other in {
        "none": None,
        "empty": {},
        "no columns": {"radius": 1.0},
        "no radius": {"columns": columns},
        "columns as a list": encoder | {"columns": list(columns)},
        "radius as text": encoder | {"radius": "1.0"},
        "radius 0": encoder | {"radius": 0.0},
        "radius 1": encoder | {"radius": 1},
        "a smaller radius": encoder | {"radius": 0.5},
        "a larger radius": encoder | {"radius": 50.0},
        "a column less": encoder | {"columns": {"age": columns["age"]}},
        "an odd column": encoder | {"columns": columns | {"age": {"sort": 1}}},
        "a column that is a list": encoder | {"columns": columns | {"age": ["low", "high"]}},
        "categories as text": encoder | {"columns": columns | {"answer 1": {"categories": "abcdefgh"}}},
        "a category that is none": encoder | {"columns": columns | {"answer 1": {"categories": [None]}}},
        "other = 1": encoder | {"columns": columns | {"answer 1": columns["answer 1"] | {"other": 1}}},
        "a number for a choice": encoder | {"columns": columns | {"own": {"low": 0.0, "high": 1.0}}},
    }.items():
        yield _case(f"shaped encoder {name}", papers.changed("release", "encoder", to=other), good=None)
    levels = papers.copy()
    levels.body["release"]["encoder"]["columns"]["answer 1"]["categories"][:4] = [1, 2.0, True, 1e22]
    names = levels.body["release"]["features"]["name"]
    start = names.index("answer 1=a")
    names[start : start + 4] = ["answer 1=1", "answer 1=2.0", "answer 1=True", "answer 1=1e+22"]
    yield _case("shaped categories of other types", levels, good=True)
    names[start] = "answer 1=1.0"
    yield _case("shaped categories of other types, other names", levels.copy())


def _forged_classes():
    for name in ("softmax", "softmax-many-rows"):
        papers = Papers.read("version-2", name)
        cells = papers.body["release"]["coef_grid"]
        for key, values in {
            "coef_grid": (
                cells[:-1], [cells[0][:-1], *cells[1:]], [*cells[:-1], cells[-1][:-1]], [[], [], [], []],
                ["abcd", *cells[1:]], [7, *cells[1:]], [{}, *cells[1:]], [[0.5, *cells[0][1:]], *cells[1:]],
            ),
            "classes": (["a", "b"], ["a", "b", "a", "c"], ["a", 1, True, "c"], ["a", 1, "1", None], []),
            "rows_per_person": (1, 4, 5, 6, 100),
            "l2": (0.1, 0.2499999999, 0.25000001, 1.0),
            "noise_rate": (1.0, 30.0, 1000.0),
        }.items():  # fmt: skip
            for value in values:
                forged = papers.changed("release", key, to=value)
                yield _case(f"{name} {key} = {value!r}", forged, good=None)


def strange_cases():
    """Return certificates of releases that the page does not know: it must say neither yes nor no."""
    for kind in ("statistics", "gaussian model", "", "__proto__", "toString"):
        for more in ({}, {"mean": 1.0}):
            papers = Papers.read("version-2", "offline")
            papers.body["release"] |= {"kind": kind} | more
            yield _case(f"kind {kind!r} with {more}", papers)


def _forged_statistics():
    """Certificates of statistics, with what a forger would try on their numbers and lines."""
    for name in STATISTICS:
        papers = Papers.read("other-kinds", name)
        for k in range(0, len(papers.lines), 4):
            cost = papers.reports[str(papers.lines[k]["id"])]
            yield _case(f"{name} {k}", papers, k, cost, papers.digest, good=True)
        k = _largest(papers)
        for value in VALUES:
            for factor in (0.0, 0.5, 1.0 - 2e-15, 1.0 + 2e-15):
                told = papers.lines[k][value] * factor
                other = papers.with_lines(
                    lambda lines, k=k, value=value, told=told: lines[k].update({value: told})
                )
                yield _case(f"{name} {value} * {factor}", other, good=None)
        for key, values in {
            "delta": (1e-6, -0.0), "rows_per_person": (2, 0, 10**7, 1.0), "weight_total": (0.0, 1e3),
            "statistics": ([], {}, [7], papers.body["release"]["statistics"] * 2),
        }.items():  # fmt: skip
            for value in values:
                forged = papers.changed("release", key, to=value)
                yield _case(f"{name} {key} = {value!r:.40}", forged, good=None if value == 0.0 else False)
        yield from _forged_numbers(name, papers)


def _forged_deltas():
    """Certificates of models with a delta: what was spent, float by float, and what its cost follows from."""
    for name in GAUSSIAN:
        papers = Papers.read("other-kinds", name)
        for k in range(0, len(papers.lines), 4):
            cost = papers.reports[papers.lines[k]["id"]]
            yield _case(f"{name} {k}", papers, k, cost, papers.digest, good=True)
        k = _largest(papers)
        told = papers.lines[k]
        lines = [
            {value: told[value] * factor} for value in VALUES for factor in (0.0, 0.5, 0.999, 1.001, 1e3)
        ]
        lines += [{"spent": told["spent"] * (1.0 - 2.0**-power)} for power in range(20, 54, 2)]
        lines += [{"weight": weight} for weight in (5e-324, 1e-30, 1e-12, 1.0, 1e3, 1e15)]
        large = {"spent": 1e6, "promise": 1e6}
        lines += [large, large | {"spent": 1e15, "promise": 1e15}]
        for spent in (700.0, 1900.0, 9e3, 3e4):
            lines += [large | {"spent": spent, "weight": weight} for weight in (told["weight"], 0.5, 3.0)]
        for line in lines:
            other = papers.with_lines(lambda all_lines, k=k, line=line: all_lines[k].update(line))
            yield _case(f"{name} {line}", other, k, good=None)
        yield from _just_covered(name, papers, k)
        release, people = papers.body["release"], papers.body["totals"]["bought_from"]
        for key, values in {
            "delta": (
                0.0, -0.0, 5e-7, release["delta"] * (1.0 - 1e-15), 1e-5, 2.0**-60, 2.0**-59,
                1.0 / (10 * people), math.nextafter(1.0 / (10 * people), 1.0),
                1.0 / 200.0, 0.5, -1e-6, 1, None,
            ),
            "kind": ("binary model", "softmax model", "shaped binary model", "statistic", *KINDS_WITH_DELTA),
            "noise_rate": (release["noise_rate"] * 1.01, release["noise_rate"] / 2.0, 1e-60, 1e12),
            "l2": (release["l2"] * 0.9, release["l2"] * 2.0, 1e-15, 1e9, 0.0),
            "row_bound": (release["row_bound"] * 1.01, release["row_bound"] * 0.99, 0.5, 1e-3, 1e-4, 1e6),
            "rows_per_person": (1, 2, 3, 7, 10**6, 0, 1.0),
            "gradient_bound": (release["gradient_bound"] * 1.1, 1e-100, 1.0, 0.0),
            "grid": (2.0**-300, 2.0**100, release["grid"] * 2.0, 0.3),
            "numerical_epsilon": (1e-12, 10.0, 11.0),
            "weight_total": (1e3, 1e-9),
            "classes": (["a", "b"], ["a", "b", "c"], ["a", "a"], ["a", "b", "c", "d", "e"], []),
            "coef_grid": ([], [1], [[1, 2, 3, 4]] * 3, [[1], 2, 3, 4], release["coef_grid"][:-1]),
            "joint_columns": (0, 1, 2, -1, len(release["coef_grid"]), 99, 1.0),
            "encoder": (None, {}, {"radius": 1.0}, release.get("encoder")),
            "intercept_scaling": (0.0, 0.5, 1e6),
            "fit_intercept": (False,),
        }.items():  # fmt: skip
            for value in values:
                forged = papers.changed("release", key, to=value)
                yield _case(f"{name} {key} = {value!r:.40}", forged, good=None)
        nobody = papers.changed("totals", "bought_from", to=0).changed("release", "delta", to=0.2)
        yield _case(f"{name} delta of nobody", nobody, good=False)
        for path, value in (
            (("totals", "bought_from"), 0),
            (("totals", "bought_from"), 10**30),
            (("totals", "sellers"), 10**9),
            (("market", "objective"), {"delta": 1e-7}),
            (("market", "objective"), {"delta": 1e-6}),
            (("market", "objective"), {"delta": "1e-6"}),
            (("market", "objective"), {"delta": 1}),
            (("market", "objective"), []),
        ):
            yield _case(f"{name} {path} = {value!r}", papers.changed(*path, to=value), good=None)


def _just_covered(name, papers, k):
    """The least that may have been spent at a delta, or a little less: every part of the sum counts."""
    l2 = papers.body["release"]["l2"]
    for delta, penalty in ((1e-6, l2), (2.0**-59, l2), (0.1, l2), (0.1, 100.0 * l2)):
        for weight in (papers.lines[k]["weight"], 0.3):
            stated = papers.changed("release", "delta", to=delta).changed("totals", "bought_from", to=1)
            stated.body["release"]["l2"] = penalty
            body = body_of(stated.body)
            low, high = 0.0, 1e3
            for _ in range(45):
                middle = 0.5 * (low + high)
                low, high = (low, middle) if is_covered(weight, middle, body) else (middle, high)
            for factor in (1.0 - 1e-8, 1.0, 1.0 + 1e-9):
                line = {"weight": weight, "spent": high * factor, "promise": 1e3}
                other = stated.with_lines(lambda lines, line=line: lines[k].update(line))
                other.body["totals"]["bought_from"] = 1
                yield _case(f"{name} delta {delta} l2 {penalty} just covered {line}", other, k, good=None)


KINDS_WITH_DELTA = ("gaussian binary model", "gaussian softmax model", "gaussian encoded model")


def _forged_numbers(name, papers):
    for place, stated in enumerate(papers.body["release"]["statistics"]):
        numerators, values = stated["numerators"], stated["values"]
        changes = {
            "noise_scale": (stated["noise_scale"] / 2.0, 0.0, 1),
            "numerators": ([], numerators * 2, ["01"], ["-0"], [7], ["9" * 101], ["1" + numerators[0]]),
            "values": ([], values * 2, [value + 1.0 for value in values], [1] * len(values)),
            "total_weight": ("0", "-1", str(int(stated["total_weight"]) - 1), "1" * 30, 7),
            "unit_exponent": (stated["unit_exponent"] + 1, -761, 41, -30.0),
            "share": (0.0, 1.5, stated["share"] / 2.0, 1),
            "columns": ([7], ["another"]),
            "name": (7, "x", "\u202e'\"x"),
            "question": ({}, {"kind": "mode"}, {"kind": 7}, []),
        }
        for key, others in changes.items():
            for other in others:
                forged = papers.copy()
                forged.body["release"]["statistics"][place][key] = other
                yield _case(f"{name} {place} {key} = {other!r:.40}", forged, good=None)
        for key, told in stated["question"].items():
            more = (told * 2.0, -told, told / 2.0) if isinstance(told, float) else ()
            lists = (told[:1], told[:-1], told[::-1], [*told, told[0]]) if isinstance(told, list) else ()
            for other in (None, "1", True, 0, 0.5, [], *more, *lists):
                forged = papers.copy()
                forged.body["release"]["statistics"][place]["question"][key] = other
                yield _case(f"{name} {place} question {key} = {other!r:.40}", forged, good=None)
        for key, other in (("edges", None), ("edges", [0.0, 1.0, 2.0, 3.0]), ("more", 1)):
            forged = papers.copy()
            forged.body["release"]["statistics"][place]["question"][key] = other
            yield _case(f"{name} {place} question has {key} {other}", forged, good=None)


def _forged_words(name, papers):
    for currency in ("000 EUR", "E.", "E\n", "\u202eEUR", "EURO" * 4, 7, "\N{EURO SIGN}1"):
        forged = papers.changed("money", "currency", to=currency)
        yield _case(f"{name} currency {currency!r}", forged)
    for sentences in ([], papers.body["not_promised"][1:], [*papers.body["not_promised"], 3]):
        yield _case(f"{name} limits {len(sentences)}", papers.changed("not_promised", to=sentences))
    good = json.loads(papers.receipt(0))
    for key, value in (
        ("money", {"currency": "USD", "minor_units": good["money"]["minor_units"]}),
        ("money", {"currency": good["money"]["currency"], "minor_units": 1000}),
        ("not_promised", []),
        ("position", good["position"] + 1),
        ("position", -1),
        ("path", []),
        ("path", [[], *good["path"]]),
        ("path", [*good["path"], []]),
        ("path", good["path"][::-1]),
        ("salt", good["salt"].upper()),
        ("salt", good["salt"] + "\n"),
        ("certificate", "0" * 64),
        ("schema", "dpmarket.receipt/1"),
        ("line", good["line"] | {"quotes": 0}),
        ("line", good["line"] | {"quotes": 2}),
        ("line", good["line"] | {"withdrew": not good["line"]["withdrew"]}),
        ("line", good["line"] | {"id": 7}),
        ("line", good["line"] | {"id": good["line"]["id"] + " "}),
    ):
        receipt = canonical(good | {key: value}) + b"\n"
        yield Case(f"{name} receipt's {key} = {value!r}", papers.first, receipt, None, None, False)


def _forged_texts():
    papers = Papers.read("version-2", "online")
    receipt = papers.receipt(3)
    texts = {
        "a space": lambda text: text.replace(b":", b": ", 1),
        "a zero first": lambda text: text.replace(b'"position":', b'"position":0'),
        "escaped letters": lambda text: text.replace("ë".encode(), b"\\u00eb"),
        "no end": lambda text: text[:-1],
        "an empty line more": lambda text: text + b"\n",
        "a part twice": lambda text: text.replace(b'{"certificate"', b'{"certificate":"","certificate"'),
        "a mark of byte order": lambda text: b"\xef\xbb\xbf" + text,
        "another encoding": lambda text: text.decode().encode("utf-16"),
        "broken letters": lambda text: text.replace("ë".encode(), b"\xff"),
        "half a pair": lambda text: text.replace("ë".encode(), b"\\ud800"),
        "not a number": lambda text: text.replace(b'"position":', b'"position":NaN,"p":'),
        "a trailing comma": lambda text: text.replace(b"}\n", b",}\n"),
        "a float as 1E5": lambda text: text.replace(b'"weight":', b'"weight":1E5,"w":'),
        "minus nothing": lambda text: text.replace(b'"position":', b'"position":-0,"p":'),
        "deep": lambda text: b"[" * 9_000 + b"]" * 9_000 + b"\n",
        "as many lists as fit": lambda text: b"[" + b"[]," * 11_000 + b"1]\n",
        "lists after a text that does not end": lambda text: b'["' + b"[" * 11_000 + b"\n",
        "lists after a text that ends": lambda text: b'["\\\\",' + b"[" * 11_000 + b"\n",
        "many digits": lambda text: text.replace(b'"position":', b'"position":' + b"9" * 5_000),
        "nothing": lambda text: b"",
        "the certificate": lambda text: papers.first,
    }
    for name, change in texts.items():
        yield Case(f"receipt with {name}", papers.first, change(receipt), None, None, False)
        if name not in ("no end", "an empty line more", "nothing"):
            body = change(papers.first[len(b'{"body":') : -2] + b"\n")[:-1]
            changed = b'{"body":' + body + b",\n"
            good = None if changed == papers.first else False
            yield Case(f"certificate with {name}", changed, receipt, None, None, good)
    yield Case("certificate that is a receipt", receipt, receipt, None, None, False)
    yield Case("no certificate", b"", receipt, None, None, False)


def _forged_offers():
    for name in ("online", "posted"):
        papers = Papers.read("version-2", name)
        k = _largest(papers)
        for change in (
            {"payment": papers.lines[k]["payment"] - 1.0},
            {"payment": papers.lines[k]["payment"] + 1.0},
            {"payment": papers.lines[k]["payment"] + 5.0},
            {"payment": papers.lines[k]["payment"] + 0.5},
            {"quotes": 2},
            {"quotes": 3, "payment": papers.lines[k]["payment"] + 2.0},
            {"promise": 2.0 * papers.lines[k]["promise"]},
            {
                "promise": 2.0 * papers.lines[k]["promise"],
                "payment": 2.0 * papers.lines[k]["payment"],
                "quotes": 2,
            },
            {"promise": 1.0000001 * papers.lines[k]["promise"]},
        ):
            forged = papers.with_lines(lambda lines, k=k, change=change: lines[k].update(change))
            yield _case(f"{name} offer {change}", forged, good=None)
        for column in ("cost", "epsilon", "payment"):
            for place in (0, 1, -1):
                for value in (0.0, 1e-3, 7.0, 3, None, -1.0):
                    forged = papers.copy()
                    forged.body["menu"][column][place] = value
                    yield _case(f"{name} menu {column} {place} {value}", forged, good=None)
        yield _case(f"{name} without a menu", papers.changed("menu", to=None))
    offline = Papers.read("version-2", "offline")
    yield _case("a menu out of place", offline.changed("menu", to=papers.body["menu"]))


def _random_case(rng, papers, number):
    k = rng.randrange(len(papers.lines))
    first, receipt = papers.first, papers.receipt(k)
    for _ in range(rng.choice((1, 2))):
        if rng.random() < 0.5:
            first = changed_somewhere(first, rng)
        else:
            receipt = changed_somewhere(receipt, rng)
    good = (first, receipt) == (papers.first, papers.receipt(k)) or None
    return Case(f"random {number}", first, receipt, rng.choice((None, 2.0)), None, good)


def changed_somewhere(text, rng):
    """Return bytes with one byte or one JSON value changed at random: never the same bytes."""
    while True:
        other = _with_other_byte(text, rng) if rng.random() < 0.5 else _with_other_value(text, rng)
        if other != text:
            return other


def _with_other_byte(text, rng):
    place = rng.randrange(len(text))
    new = bytes([rng.choice((rng.randrange(256), *b'0123456789"{}[],:.-e '))])
    kind = rng.choice(("replace", "insert", "delete"))
    return text[:place] + (b"" if kind == "delete" else new) + text[place + (kind != "insert") :]


def _with_other_value(text, rng):
    """Change one value of the JSON text, written in the one canonical way again; a byte if it is none."""
    framed = text.startswith(b'{"body":')
    try:
        data = json.loads(text[len(b'{"body":') : -2] if framed else text)
        part, key = rng.choice(list(_places(data)))
        part[key] = _other(part[key], rng)
        written = canonical(data)
    except (IndexError, TypeError, ValueError):
        return _with_other_byte(text, rng)
    return b'{"body":' + written + b",\n" if framed else written + text[len(text.rstrip(b"\n")) :]


def _places(data):
    for key in data if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from _places(data[key])


def _other(value, rng):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, float(value), 0, 10**30, str(value)))
    if isinstance(value, float):
        near = math.nextafter(value, rng.choice((-math.inf, math.inf)))
        return rng.choice((near, value * 1.001, value / 2.0, 2.0 * value, -value, 0.0, int(value), 1e300))
    if isinstance(value, str):
        return rng.choice((value + " ", value[:-1], value.upper(), value[::-1], "", "0" * 64, 3))
    if isinstance(value, list):
        return rng.choice((value[:-1], value[::-1], [*value, value[0] if value else 0], [], {}))
    return rng.choice((None, {}, [], {"more": 1}))
