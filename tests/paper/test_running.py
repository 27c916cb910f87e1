"""Tables, manifests and runs that can be stopped."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpmarket import FileProblem, InvalidInput
from dpmarket.figures import new_figure
from dpmarket.paper.experiments.catalogue import experiment_named
from dpmarket.paper.experiments.running import Experiment, Work, plain, run_experiment
from dpmarket.paper.experiments.table import has_result, read_result, table_from_rows, write_result
from dpmarket.paper.figures.series import series

CALLS = []


class Stopped(BaseException):
    """As when a person interrupts a run."""


@dataclass(frozen=True)
class Config:
    values: tuple[float, ...] = (1.0, 2.0, 3.0)
    limit: int = 100


@dataclass(frozen=True)
class Task:
    value: float
    limit: int


def _rows(task):
    if len(CALLS) >= task.limit:
        raise Stopped
    CALLS.append(task.value)
    return [
        {"x": task.value, "half": None if task.value == 2.0 else task.value / 2.0, "name": f"{task.value:g}"}
    ]


def _compute(config, work):
    return work.table("halves", _rows, [Task(value, config.limit) for value in config.values], config)


def _draw(table):
    figure, (axes,) = new_figure()
    series(axes, table.number("x"), table.number("half"), None, 0, "half")
    return figure


EXPERIMENT = Experiment("halves", "Halves", Config(), Config(), _compute, _draw)


@pytest.fixture(autouse=True)
def _fresh():
    CALLS.clear()


def test_a_table_is_read_back_bit_by_bit_with_its_settings(tmp_path):
    table = table_from_rows(
        "t", [{"x": 0.1 + 0.2, "y": None, "who": "007"}, {"x": 1e-300, "y": 2, "who": "b"}], {"s": 1}
    )
    write_result(table, tmp_path)
    back = read_result(tmp_path, "t")
    assert back.number("x").tolist() == [0.1 + 0.2, 1e-300]
    assert np.isnan(back.number("y")[0])
    assert back.text("who") == ("007", "b")
    assert back.configuration == {"s": 1}
    assert set(back.versions) >= {"dpmarket", "python", "numpy"}
    assert has_result(tmp_path, "t", {"s": 1})
    assert not has_result(tmp_path, "t", {"s": 2})
    assert not back.number("x").flags.writeable


def test_a_table_that_is_not_its_manifests_is_refused(tmp_path):
    write_result(table_from_rows("t", [{"x": 1.0}], {}), tmp_path)
    (tmp_path / "t.csv").write_text("x\n2.0\n")
    with pytest.raises(FileProblem, match="manifest"):
        read_result(tmp_path, "t")


def test_columns_are_asked_for_by_name_and_kind():
    table = table_from_rows("t", [{"x": 1.0, "who": "a"}, {"x": 2.0, "who": "b"}], {})
    assert table.values_of("who") == ["a", "b"]
    assert len(table.where(x=2.0, who="b")) == 1
    assert len(table.where(x=2.0, who="a")) == 0
    with pytest.raises(InvalidInput, match="who"):
        table.number("who")
    with pytest.raises(InvalidInput, match="holds numbers"):
        table.text("x")
    with pytest.raises(InvalidInput, match="nosuch"):
        table.number("nosuch")


def test_a_stopped_run_goes_on_after_the_last_finished_row(tmp_path):
    stopped = Config(limit=2)
    with pytest.raises(Stopped):
        run_experiment(EXPERIMENT, stopped, tmp_path)
    assert CALLS == [1.0, 2.0]
    CALLS.clear()
    table = run_experiment(EXPERIMENT, stopped, tmp_path)
    assert CALLS == [3.0]
    assert table.number("x").tolist() == [1.0, 2.0, 3.0]
    assert [path.name for path in (tmp_path / "tables").iterdir() if path.name.startswith(".")] == []


def test_a_finished_table_is_not_computed_again_unless_settings_change(tmp_path):
    run_experiment(EXPERIMENT, Config(), tmp_path)
    run_experiment(EXPERIMENT, Config(), tmp_path)
    assert len(CALLS) == 3
    table = run_experiment(EXPERIMENT, replace(Config(), values=(5.0,)), tmp_path)
    assert CALLS[3:] == [5.0]
    assert len(table) == 1
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"halves.svg", "halves.png"}


def test_progress_tells_rows_done_and_all(tmp_path):
    told = []
    run_experiment(EXPERIMENT, Config(), tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_settings_survive_json():
    assert json.loads(json.dumps(plain(Config()))) == plain(Config())
    assert Work().table("halves", _rows, [Task(1.0, 9)], Config()).configuration == plain(Config())


@pytest.mark.slow
def test_the_table_does_not_depend_on_how_many_processes_made_it(tmp_path):
    experiment = experiment_named("budget")
    tables = [
        run_experiment(experiment, experiment.quick, tmp_path / str(processes), processes)
        for processes in (1, 2)
    ]
    for name in tables[0].columns:
        assert np.array_equal(tables[0].number(name), tables[1].number(name), equal_nan=True)
