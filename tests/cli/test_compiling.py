"""What a first start says while it compiles."""

import numba
import pytest

from dpmarket import numerics
from dpmarket.cli.render import Voice, busy, progress_bar
from dpmarket.progress import compiling, told_of_compiling


def test_compiling_a_function_is_told_once_and_calling_it_again_is_not():
    assert numerics.two_sum(1.0, 2.0) == (3.0, 0.0)
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


@pytest.mark.parametrize(
    "shown", [Voice(False, False).progress, lambda: busy("Planning"), lambda: progress_bar("Trying")]
)
def test_a_bar_says_that_it_is_compiling(shown, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with shown():
        compiling()
    assert "compiling, once" in capsys.readouterr().err
    with shown():
        pass
    assert "compiling" not in capsys.readouterr().err
