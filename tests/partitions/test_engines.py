"""Engines: one function on many items, results in their order."""

from __future__ import annotations

import operator
import threading

import pytest

from dpmarket.errors import InvalidInput
from dpmarket.partitions import EngineLost, Processes, Threads, as_engine, engine_named


def test_results_come_in_the_order_of_the_items_whoever_is_first():
    first = threading.Event()

    def slow_first(item):
        if item == 0:
            assert first.wait(10)
        else:
            first.set()
        return item

    told = []
    assert Threads(2).map(slow_first, [0, 1], lambda: told.append(1)) == [0, 1]
    assert len(told) == 2


def test_processes_give_the_same_results():
    assert Processes(1).map(operator.neg, [3, 1, 2]) == [-3, -1, -2]


def test_a_tasks_refusal_is_the_engines():
    with pytest.raises(ZeroDivisionError):
        Threads(2).map(lambda item: 1 // item, [1, 0, 2])


@pytest.mark.parametrize("name", ["", "thread", "dask://", "dask://host", "dask://host:0", "dask://a/b:1"])
def test_an_unknown_engine_is_refused_by_name(name):
    with pytest.raises(InvalidInput, match="expected threads, processes or dask"), engine_named(name):
        pass


def test_something_without_map_is_no_engine():
    with pytest.raises(InvalidInput, match=r"map\(function, items\)"):
        as_engine(3)


def test_no_scheduler_at_an_address_is_said(monkeypatch):
    distributed = pytest.importorskip("distributed")

    def refuse(*_, **__):
        raise OSError

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(EngineLost, match=r"cannot reach a Dask scheduler at 127\.0\.0\.1:1"):
        engine_named("dask://127.0.0.1:1").__enter__()


def test_fewer_than_one_worker_is_refused():
    with pytest.raises(InvalidInput, match="workers"):
        Threads(0)
