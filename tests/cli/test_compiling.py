"""What a first start says while it compiles."""

import numba

import dpmarket.compiling  # noqa: F401 - it hears of every function that numba compiles
from dpmarket.cli.render import Voice
from dpmarket.progress import compiling, told_of_compiling


def test_compiling_a_function_is_told_once_and_calling_it_again_is_not():
    heard = []
    with told_of_compiling(lambda: heard.append("it")):
        doubled = numba.njit(lambda x: x + x)
        assert doubled(2.0) == 4.0
        first = len(heard)
        assert doubled(3.0) == 6.0
    assert first >= 1
    assert len(heard) == first
    assert numba.njit(lambda x: x * x)(3.0) == 9.0
    assert len(heard) == first


def test_a_bar_says_that_it_is_compiling(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for work, is_told in ((compiling, True), (int, False)):
        with Voice(False, False).progress():
            work()
        assert ("compiling, once" in capsys.readouterr().err) == is_told
