"""A fit to partitions: the same floats as in memory, in few passes, with rigorous proofs."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpmarket.errors import FileProblem, Infeasible, InvalidInput
from dpmarket.learning import PrivateLogisticRegression, Rows, kernels, minimise
from dpmarket.learning.by_passes import RemoteProblem, Sizes
from dpmarket.numerics import exact_parts, exact_sum
from dpmarket.partitions import Processes, fit_partitions, looking, repartition
from dpmarket.partitions.looking import folder_beside
from dpmarket.privacy import SeededNoise

FEATURES = ["a", "b", "c"]


def table_of(rng, rows=600, people=400):
    x = rng.normal(size=(rows, 3))
    x /= np.linalg.norm(x, axis=1)[:, None] * (1.0 + 1e-9)
    owners = rng.integers(0, people, rows)
    return pl.DataFrame(
        {
            "id": [f"p{owner}" for owner in owners],
            "label": np.where(x[:, 0] + 0.3 * rng.normal(size=rows) > 0, "yes", "no"),
            "epsilon": rng.uniform(0.0, 2.0, people)[owners],
            **{name: x[:, k] for k, name in enumerate(FEATURES)},
        }
    )


def estimator(table, **options):
    most = int(table.get_column("id").value_counts().get_column("count").max())
    return PrivateLogisticRegression(
        classes=("no", "yes"), rows_per_person=most, noise_source=SeededNoise(3), **options
    )


def divided(folder, table, partitions):
    folder.mkdir(exist_ok=True)
    table.write_parquet(folder / "all.parquet")
    repartition(str(folder / "all.parquet"), folder / f"in-{partitions}", partitions)
    return f"{folder / f'in-{partitions}'}/*.parquet"


def in_memory(table, model):
    promises = dict(zip(table["id"], table["epsilon"], strict=True))
    x = table.select(FEATURES).to_numpy()
    return model.fit(x, table["label"].to_numpy(), epsilons=promises, people=table["id"].to_list())


def public_part(model):
    names = ("grid_", "release_plan_", "l2_", "noise_rate_", "stretch_", "row_bound_", "numerical_epsilon_")
    return [model.coef_grid_.tolist(), model.coef_.tolist(), *(getattr(model, name) for name in names)]


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"l2": 0.5}, {"numerical_epsilon": 1e-15}])
def test_every_partitioning_and_order_gives_the_model_of_memory(tmp_path, options):
    table = table_of(np.random.default_rng(1))
    expected = public_part(in_memory(table, estimator(table, **options)))
    for partitions in (1, 3, 40):
        order = np.random.default_rng(partitions).permutation(table.height)
        pattern = divided(tmp_path / str(partitions), table[order], partitions)
        model = estimator(table, **options)
        done = fit_partitions(model, pattern, tmp_path / "work", features=FEATURES)
        assert public_part(model) == expected
        assert done.passes <= 8
        assert not (tmp_path / "work").exists()
        assert not list(tmp_path.glob(".work*"))
        assert not hasattr(model, "loss_weights_")


def test_processes_give_the_same_and_longer_rows_are_clipped_as_in_memory(tmp_path):
    table = table_of(np.random.default_rng(2)).with_columns(a=pl.col("a") * 1.5)
    pattern = divided(tmp_path, table, 3)
    model = estimator(table, clip=True)
    fit_partitions(model, pattern, tmp_path / "work", features=FEATURES, engine=Processes(2))
    assert public_part(model) == public_part(in_memory(table, estimator(table, clip=True)))
    with pytest.raises(FileProblem) as refused:
        fit_partitions(estimator(table), pattern, tmp_path / "work", features=FEATURES)
    assert all("norm at most 1" in detail for detail in refused.value.details)


def test_problems_name_file_row_and_column_and_no_value(tmp_path):
    table = table_of(np.random.default_rng(3))
    pattern = divided(tmp_path, table, 2)
    first, second = sorted((tmp_path / "in-2").iterdir())
    one = pl.read_parquet(first)
    one[0, "b"] = math.nan
    one[1, "epsilon"] = -7.5
    one.write_parquet(first)
    other = pl.read_parquet(second)
    person = other["id"].value_counts().filter(pl.col("count") > 1)["id"][0]
    row = int(np.flatnonzero((other["id"] == person).to_numpy())[1])
    other[row, "epsilon"] = 0.123
    other[row, "label"] = "perhaps"
    other.write_parquet(second)
    with pytest.raises(FileProblem) as refused:
        fit_partitions(estimator(table), pattern, tmp_path / "work", features=FEATURES)
    said = "\n".join(refused.value.details)
    assert "cannot use 2 of 2 partitions" in str(refused.value)
    assert "part-00000-of-00002.parquet: column 'b'" in said
    assert "column 'epsilon': an epsilon below 0 in 1 row: row 2" in said
    assert f"another epsilon than an earlier row of the same person in 1 row: row {row + 1}" in said
    assert "neither of the two labels" in said
    for value in ("7.5", "0.123", "perhaps", person):
        assert value not in said


def test_what_is_not_computed_by_passes_is_refused_before_a_file_is_read(tmp_path):
    asked = (["nowhere.parquet"], tmp_path / "work")
    for options, words in (
        ({"classes": ("a", "b", "c")}, "two declared classes"),
        ({}, "two declared classes"),
        ({"classes": (0, 1), "delta": 1e-9}, "delta"),
    ):
        with pytest.raises(InvalidInput, match=words):
            fit_partitions(PrivateLogisticRegression(**options), *asked, features=FEATURES)


def test_a_penalty_with_slack_is_refused_with_the_least_that_works(tmp_path):
    table = table_of(np.random.default_rng(4))
    pattern = divided(tmp_path, table, 2)
    with pytest.raises(Infeasible, match=r"expected l2 >= 0\.\d+ .* train in memory") as refused:
        fit_partitions(estimator(table, l2=1e-4), pattern, tmp_path / "work", features=FEATURES)
    least = float(str(refused.value).split(">= ")[1].split(" ")[0])
    model = estimator(table, l2=least * 1.0001)
    fit_partitions(model, pattern, tmp_path / "work", features=FEATURES)


KILLED = """
import os, signal, sys
from pathlib import Path
from dpmarket.partitions.looking import folder_beside
with folder_beside(Path(sys.argv[1])) as work:
    (work / "rows-0").write_text("somebody's record")
    print(work, flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_rows_that_a_killed_run_left_are_removed_by_the_next_and_those_of_a_running_one_are_not(tmp_path):
    target = tmp_path / "model.json"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        left = Path(run.stdout.readline().strip())
        with folder_beside(target) as own, folder_beside(tmp_path / "other.json"):
            assert (left / "rows-0").read_text() == "somebody's record"
            assert own != left
        run.stdin.close()
        assert run.wait(60) == -signal.SIGKILL
    with folder_beside(tmp_path / "other.json"):
        assert (left / "rows-0").exists()  # it may belong to somebody else's work
    others = [tmp_path / name for name in (".model.json.notes.tmp", ".model.json.v.0123456789ab.tmp")]
    for other in others:
        other.mkdir()
    link = tmp_path / ".model.json.0123456789ab.tmp"
    link.symlink_to(others[0])
    with folder_beside(target) as own:
        assert not left.exists()
        assert sorted(path for path in tmp_path.iterdir()) == sorted([own, link, *others])
    assert sorted(tmp_path.iterdir()) == sorted([link, *others])


def test_a_folder_that_another_run_took_for_a_dead_ones_is_made_again(tmp_path, monkeypatch):
    answers = iter([False, True])
    monkeypatch.setattr(looking, "_taken", lambda descriptor: next(answers))
    with folder_beside(tmp_path / "model.json") as own:
        assert len(list(tmp_path.glob(".model.json.*.tmp"))) == 2  # the other one is being removed
        assert own.is_dir()


def test_what_cannot_be_written_leaves_neither_a_folder_nor_a_descriptor(tmp_path, monkeypatch):
    def full(self, *arguments, **options):
        if self.name == "hashes":
            raise OSError(28, "No space left on device")
        return mkdir(self, *arguments, **options)

    mkdir = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", full)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileProblem, match="No space left"), folder_beside(tmp_path / "model.json"):
        pass
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_exact_sum_is_that_of_fractions_in_every_order():
    from fractions import Fraction

    rng = np.random.default_rng(5)
    values = rng.normal(size=3000) * 2.0 ** rng.integers(-200, 200, 3000)
    exact = float(sum(Fraction(value) for value in values.tolist()))
    assert exact_sum(values) == exact
    assert exact_sum(values[rng.permutation(3000)]) == exact
    assert math.fsum([*exact_parts(values[:1000]), *exact_parts(values[1000:])]) == exact
    assert exact_sum(np.zeros(0)) == 0.0
    assert exact_sum(np.full(200_000, 0.1)) == float(200_000 * Fraction(0.1))


class Whole:
    """Looks at rows that are here."""

    def __init__(self, rows):
        self.block = next(rows.blocks())
        self.count = 0

    def gradient_and_hessian(self, w):
        self.count += 1
        x, signs, weights, scales = self.block
        return kernels.gradient_and_hessian(x, w, signs, weights, scales, 0, len(signs))

    def accurate_gradient(self, w, rest):
        self.count += 1
        x, signs, weights, scales = self.block
        return kernels.accurate_gradient(x, w, rest, signs, weights, scales, 0, len(signs))


def some_rows(rng, count=500):
    x = rng.normal(size=(count, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return Rows(x, np.where(rng.random(count) < 0.5, 1.0, -1.0), np.full(count, 1.0 / count))


def test_gradient_and_hessian_of_one_look_are_those_of_two():
    rows = some_rows(np.random.default_rng(6), 333)
    x, signs, weights, _ = next(rows.blocks())
    scales = np.linspace(0.5, 1.0, 333)
    w = np.array([0.3, -0.2, 0.1, 0.7])
    for factors in (np.zeros(0), scales):
        gradient, hessian = kernels.gradient_and_hessian(x, w, signs, weights, factors, 0, 333)
        np.testing.assert_array_equal(gradient, kernels.gradient(x, w, signs, weights, factors, 0, 333))
        lower = np.tril_indices(4)
        expected = kernels.hessian(x, w, signs, weights, factors, 0, 333)
        np.testing.assert_allclose(hessian[lower], expected[lower], rtol=1e-14)


@pytest.mark.parametrize("bound", [1e-6, 1e-13, 1e-24])
@pytest.mark.parametrize("start", [0.0, 30.0])
def test_the_proved_point_is_the_minimum_from_every_start(bound, start):
    rows = some_rows(np.random.default_rng(7))
    noise = np.array([0.02, -0.01, 0.03, 0.005])
    expected = minimise(rows, 0.01, noise, np.zeros(4), math.sqrt(2.0), 1e-25)
    sizes = Sizes(4, 500 + 64, 1.0 + 1e-9)
    problem = RemoteProblem(sizes, 0.01, noise, np.zeros(4), math.sqrt(2.0), bound)
    found = problem.minimise(Whole(rows), np.full(4, start))
    assert found.gradient_bound <= bound
    distance = (found.high - expected.high) + (found.low - expected.low)
    assert np.linalg.norm(distance) <= (bound + 1e-25) / 0.01


def test_from_a_near_start_few_looks_are_enough():
    rows = some_rows(np.random.default_rng(8))
    near = minimise(rows, 0.05, np.zeros(4), np.zeros(4), math.sqrt(2.0), 1e-12).high + 1e-3
    looks = Whole(rows)
    problem = RemoteProblem(Sizes(4, 564, 1.0), 0.05, np.zeros(4), np.zeros(4), math.sqrt(2.0), 1e-12)
    problem.minimise(looks, near)
    assert looks.count <= 3
