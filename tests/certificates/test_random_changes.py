"""Changes at random: tampered files are refused, and what passes is true by other arithmetic."""

import json
import random

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmarket.certificates import read_certificate, read_rules, verify
from dpmarket.certificates.verifier.layout import body_of, lines_of, receipt_of
from dpmarket.certificates.verifier.reading import MOST_BODY, leaves_of, parsed
from dpmarket.certificates.verifier.verdicts import Broken
from dpmarket.errors import FileProblem
from support.forged_receipts import changed_somewhere
from support.forging import FILES, Papers, canonical
from support.second_arithmetic import lies

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

NAMES = [(path.parent.name, path.name.split(".")[0]) for path in sorted(FILES.glob("*/*.certificate.json"))]
PAPERS = [Papers.read(*name) for name in NAMES]
KINDS = {
    kind: [papers for papers in PAPERS if papers.constants["kind"] == kind]
    for kind in (
        "binary model",
        "shaped binary model",
        "softmax model",
        "gaussian binary model",
        "gaussian softmax model",
        "gaussian encoded model",
        "statistic",
    )
}
MANY = 10_000


# --- whoever changes a file and nothing else ---


def tampered(seed):
    """Return a certificate, a receipt and openings with one or two changes, in one of them or in two."""
    rng = random.Random(seed)
    papers = rng.choice(PAPERS)
    files = [papers.certificate, papers.receipt(rng.randrange(20)), papers.openings]
    honest = list(files)
    for _ in range(rng.choice((1, 2))):
        _tamper(files, rng)
    while files == honest:  # the second change undid the first
        _tamper(files, rng)
    return files


def _tamper(files, rng):
    k = rng.randrange(3)
    if k:
        files[k] = changed_somewhere(files[k], rng)
        return
    first, rest = files[0].split(b"\n", 1)
    if rng.random() < 0.7:
        first = changed_somewhere(first + b"\n", rng)[:-1]
    else:
        rest = changed_byte(rest, rng)
    files[0] = first + b"\n" + rest


def changed_byte(data, rng):
    place = rng.randrange(len(data))
    new = rng.choice([byte for byte in b'0123456789abcdefABCDEF,\n"]} ' if byte != data[place]])
    return data[:place] + bytes([new]) + data[place + 1 :]


def accepted(seeds):
    """Return the seeds of the changes that nothing finds."""
    found = []
    for seed in seeds:
        certificate, receipt, openings = tampered(seed)
        if verify(certificate, receipt=receipt, openings=openings).passed:
            found.append(seed)
    return found


def test_what_was_changed_at_random_is_refused():
    assert accepted(range(300)) == []


@pytest.mark.slow
def test_ten_thousand_random_changes_are_refused():
    assert accepted(range(300, 300 + MANY)) == []


# --- whoever changes a value, and all that follows from it ---


def forged(seed, kind):
    """Return papers with one or two values of lines or constants changed; root, totals and digests follow."""
    rng = random.Random(f"{kind} {seed}")
    papers = rng.choice(KINDS[kind]).copy()
    for _ in range(rng.choice((1, 2))):
        part = rng.choice(list(places(papers, rng)))
        name = rng.choice(sorted(part))
        part[name] = near(part[name], rng)
    try:
        return papers.settled() if rng.random() < 0.8 else papers
    except (OverflowError, TypeError, ValueError):
        return papers  # a value that no line can have


def places(papers, rng):
    """Yield the parts of papers in which something can be changed."""
    yield from (rng.choice(papers.lines), papers.constants, papers.body["totals"], papers.body["money"])
    for asked in papers.constants.get("statistics", ()):
        yield from (asked, asked["question"], rng.choice(papers.lines))
    if papers.constants.get("encoder"):
        encoder = papers.constants["encoder"]
        yield from (encoder, rng.choice(list(encoder["columns"].values())))


def near(value, rng):
    """Return a value of the same type, near to this one or not."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        small = value * (1.0 + rng.choice((-1, 1)) * 10.0 ** rng.uniform(-15.5, 0.0))
        return rng.choice((small, small, 0.0, value * 10.0 ** rng.uniform(-3, 3)))
    if isinstance(value, int):
        return max(value + rng.choice((-1, 1, 10)), 0)
    if isinstance(value, list) and value and all(type(part) in (float, str) for part in value):
        k = rng.randrange(len(value))
        return rng.choice((value[::-1], [*value[:k], near(value[k], rng), *value[k + 1 :]]))
    if isinstance(value, list):
        return value[::-1]
    if isinstance(value, str) and value.removeprefix("-").isdigit():
        return str(int(value) + rng.choice((-1, 1, int(value) // 1000, int(value))))
    return value


def believed_lies(seeds, kind):
    """Return the seeds of forged papers that pass with openings although something in them is not true."""
    found, passed = [], 0
    for seed in seeds:
        papers = forged(seed, kind)
        try:
            certificate, openings = papers.certificate, papers.openings
        except (OverflowError, TypeError, ValueError):
            continue  # cannot even be written
        if verify(certificate, openings=openings).passed:
            passed += 1
            with mpmath.workdps(60):
                told = lies(papers)
            found += [(seed, told)] if told else []
    return found, passed


@pytest.mark.parametrize("kind", KINDS)
def test_what_passes_is_true_whatever_follows_from_the_change(kind):
    found, passed = believed_lies(range(25), kind)
    assert found == []
    assert passed >= 2  # or nothing would have been tested


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_consistent_changes_are_refused_or_true(kind):
    found, passed = believed_lies(range(25, 25 + MANY // 25), kind)
    assert found == []
    assert passed > 20


@pytest.mark.parametrize("papers", PAPERS, ids=["-".join(name) for name in NAMES])
def test_the_second_arithmetic_finds_nothing_in_good_papers_and_every_lie_in_others(papers):
    """A test of the test: each kind of lie is one."""
    k = max(range(20), key=lambda k: papers.lines[k]["weight"])
    with mpmath.workdps(60):
        assert lies(papers) == []
        for name, factor in (("spent", 0.999), ("promise", 0.4), ("weight", 1.5)):
            value = papers.lines[k][name] * factor
            other = papers.with_lines(lambda lines, name=name, value=value: lines[k].update({name: value}))
            told = set(lies(other)) & {"spent", "promise"}
            assert told == {"promise"} if name == "promise" else "spent" in told
        assert lies(papers.changed("totals", "total_payment", to=1e-3)) == ["total_payment"]
        if "numerical_epsilon" in papers.constants:
            assert lies(papers.changed("release", "numerical_epsilon", to=1e-12)) == ["charged"]
            # With a delta, encoded rows may be shorter than 1, but not shorter than the encoder makes them.
            bound = 0.9 * min(papers.constants["row_bound"], 1.0)
            assert {"row_bound", "encoder"} & set(lies(papers.changed("release", "row_bound", to=bound)))
            assert "grid" in lies(papers.changed("release", "gradient_bound", to=1.0))
        else:
            other = papers.copy()
            other.constants["statistics"][0]["noise_scale"] /= 2.0
            other.constants["statistics"][0]["values"][0] += 0.5
            assert lies(other) == ["noise", "values"]


# --- whoever sends nonsense ---

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
SOME = Papers.read("version-2", "online")
SHORT = Papers.read("version-2", "offline")  # no menu, which takes most of the time wherever nonsense stands


@given(st.binary(max_size=300) | JSON.map(canonical))
@settings(max_examples=300)
def test_nonsense_is_refused_in_every_place_and_raises_nothing(data):
    line = data.replace(b"\n", b"") + b"\n"
    for certificate in (data, b'{"body":' + data + b",\n", SHORT.first + data):
        assert not verify(certificate).passed
    assert not verify(SHORT.certificate, receipt=line).passed
    assert not verify(SHORT.certificate, openings=line).passed
    assert not verify(SHORT.certificate, commitment=line).passed
    assert not verify(SHORT.certificate, signature=data[:64], public_key=data[:32].ljust(32, b"\0")).passed


@st.composite
def grafted(draw, data):
    """Replace some part of good data by any JSON value."""
    other = json.loads(canonical(data))
    part, key = other, draw(st.sampled_from(sorted(other)))
    while isinstance(part[key], dict | list) and part[key] and draw(st.booleans()):
        part = part[key]
        key = draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
    part[key] = draw(JSON)
    return other


@given(st.data())
@settings(max_examples=300)
def test_good_files_with_any_value_in_any_place_raise_nothing(data):
    kind = data.draw(st.sampled_from(["body", "receipt", "openings"]))
    good = {"body": SOME.body, "receipt": json.loads(SOME.receipt(3)), "openings": json.loads(SOME.openings)}[
        kind
    ]
    other = data.draw(grafted(good))
    text = canonical(other)
    if kind == "body":
        first = b'{"body":' + text + b",\n"
        result = verify(first + SOME.certificate[len(SOME.first) :], receipt=SOME.receipt(3))
    else:
        result = verify(SOME.certificate, **{kind: text + b"\n"})
    same = text == canonical(good)
    assert result.passed == same or result.passed is False


@given(st.binary(max_size=200) | JSON.map(canonical))
@settings(max_examples=300)
def test_the_parsers_refuse_or_return_and_do_nothing_else(data):
    for parse in (
        lambda: leaves_of(data),
        lambda: body_of(parsed(data, "it", MOST_BODY)),
        lambda: receipt_of(parsed(data, "it", MOST_BODY)),
        lambda: lines_of(parsed(data, "it", MOST_BODY)),
    ):
        with pytest.raises(Broken):
            parse()


@given(st.binary(max_size=200) | JSON.map(canonical))
@settings(max_examples=50)
def test_files_of_nonsense_are_refused_in_one_line(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("nonsense")
    (folder / "a").write_bytes(data)
    (folder / "b").write_bytes(SOME.openings)
    (folder / "c").write_bytes(SOME.certificate)
    for call in (
        lambda: read_rules(folder / "a"),
        lambda: read_certificate(folder / "a", folder / "b"),
        lambda: read_certificate(folder / "c", folder / "a"),
    ):
        with pytest.raises(FileProblem) as refusal:
            call()
        assert "\n" not in str(refusal.value)
