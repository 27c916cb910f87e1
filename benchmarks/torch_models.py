"""A torch network with a budget for every person, against one epsilon for all; writes its table.

Budgets 1, 2 and 3 at delta 1e-5, in the shares of the published study of individual budgets. Every split
trains the same network (32 hidden units, other settings by default) with everybody's own budget; with the
smallest budget for all; and with 2 for those who allow it, without the others. A threshold of 3 leaves less
than two thirds of the total mu of the better of both, and is not run. The better of both is chosen by the
test records, in its favour. Beside them the softmax model with everybody's budget, and the network without
privacy. Needs the extra ``torch``. Parts can be run alone and go on where they stopped:
``python benchmarks/torch_models.py digits``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch.nn import Linear, Sequential, Tanh

from _markdown import write_tables
from _results import FOLDER, Table, print_table, tell
from dpmarket.files import read_json, write_json
from dpmarket.learning import PrivateLogisticRegression, PrivateTorchClassifier

HIDDEN, DELTA, PEOPLE = 32, 1e-5, 2_000
SPLITS = {"digits": 8, "breast cancer": 30, "product and circle": 4}
SHARES = {"54/37/9": (0.54, 0.37, 0.09), "34/43/23": (0.34, 0.43, 0.23)}
OWN, SMALLEST, THRESHOLD = "own budgets", "smallest for all", "2 or nothing"
SOFTMAX, OPEN = "softmax, own budgets", "network without privacy"
STORED = FOLDER / "torch_models"
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def product_and_circle(number: int) -> Parts:
    """Four classes by the sign of a product and by a circle: no line tells them apart."""
    rng = np.random.default_rng([23, number])
    x = rng.uniform(-1.0, 1.0, (2 * PEOPLE, 2))
    y = 2 * (x[:, 0] * x[:, 1] > 0.0) + (x[:, 0] ** 2 + x[:, 1] ** 2 > 0.64)
    return x[:PEOPLE], y[:PEOPLE], x[PEOPLE:], y[PEOPLE:]


def digits(number: int) -> Parts:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng([23, number]).permutation(len(y))
    train, test = order[:1_437], order[1_437:]
    return x[train] / 16.0, y[train], x[test] / 16.0, y[test]


def scaled(features: np.ndarray, labels: np.ndarray, number: int) -> Parts:
    """Return a split: a public tenth gives bounds, two deviations on either side of each mean."""
    order = np.random.default_rng([23, number]).permutation(len(labels))
    first = len(labels) // 10
    public = features[order[:first]]
    x = np.clip((features - public.mean(axis=0)) / (2.0 * public.std(axis=0)), -1.0, 1.0)
    last = min(len(labels) * 8 // 10, first + PEOPLE)
    train, test = order[first:last], order[last:]
    return x[train], labels[train], x[test], labels[test]


def breast_cancer(number: int) -> Parts:
    return scaled(*load_breast_cancer(return_X_y=True), number)


SETS: dict[str, Callable[[int], Parts]] = {
    "digits": digits,
    "breast cancer": breast_cancer,
    "product and circle": product_and_circle,
}


def network(features: int, classes: int, number: int) -> torch.nn.Module:
    torch.manual_seed(number)
    return Sequential(Linear(features, HIDDEN), Tanh(), Linear(HIDDEN, classes))


def without_privacy(parts: Parts, number: int) -> float:
    x, y, test, labels = parts
    net = network(x.shape[1], int(y.max()) + 1, number)
    inputs, targets = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(500):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), targets).backward()
        optimiser.step()
    with torch.no_grad():
        found = net(torch.tensor(test, dtype=torch.float32)).argmax(dim=1).numpy()
    return float((found == labels).mean())


def accuracies(name: str, number: int) -> dict[str, float]:
    """Return the accuracy of every learner on one split, ``learner, shares``."""
    parts = x, y, test, labels = SETS[name](number)
    classes = tuple(range(int(y.max()) + 1))

    def private(epsilons: np.ndarray) -> float:
        net = network(x.shape[1], len(classes), number)
        model = PrivateTorchClassifier(net, classes=classes, delta=DELTA)
        return float(model.fit(x, y, epsilons=epsilons).score(test, labels))

    found = {OPEN: without_privacy(parts, number), SMALLEST: private(np.ones(len(y)))}
    for title, shares in SHARES.items():
        epsilons = np.random.default_rng([29, number]).choice([1.0, 2.0, 3.0], len(y), p=shares)
        found[f"{OWN}, {title}"] = private(epsilons)
        found[f"{THRESHOLD}, {title}"] = private(np.where(epsilons >= 2.0, 2.0, 0.0))
        softmax = PrivateLogisticRegression(classes=classes, delta=DELTA)
        softmax.fit(x, y, epsilons=epsilons)
        found[f"{SOFTMAX}, {title}"] = float(softmax.score(test, labels))
    return found


def splits(name: str) -> list[dict[str, float]]:
    """Return every split's accuracies; those that are stored are not made again."""
    target = STORED / f"{name.replace(' ', '-')}.json"
    found = read_json(target) if target.is_file() else []
    for number in range(len(found), SPLITS[name]):
        tell(f"{name}, split {number + 1} of {SPLITS[name]}")
        found.append(accuracies(name, number))
        target.parent.mkdir(parents=True, exist_ok=True)
        write_json(target, found, overwrite=True)
    return found[: SPLITS[name]]


def mean_of(values: np.ndarray, form: str = ".3f") -> str:
    return f"{values.mean():{form}} ({values.std(ddof=1) / np.sqrt(values.size):.3f})"


def tables(names: list[str]) -> Iterator[Table]:
    rows, beyond = [], 0
    for name in names:
        found = splits(name)
        for title in SHARES:
            learners = (f"{OWN}, {title}", SMALLEST, f"{THRESHOLD}, {title}", f"{SOFTMAX}, {title}", OPEN)
            columns = [np.array([split[learner] for split in found]) for learner in learners]
            gain = columns[0] - max(columns[1:3], key=np.mean)
            better = gain.mean() > 2.0 * gain.std(ddof=1) / np.sqrt(gain.size)
            beyond += better
            cells = [*map(mean_of, columns[:3]), mean_of(gain, "+.3f"), "yes" if better else "no"]
            rows.append([f"{name}, {title}", str(gain.size), *cells, *map(mean_of, columns[3:])])
    head = ["set, shares", "splits", OWN, SMALLEST, THRESHOLD, "gain over the better", "beyond two errors"]
    yield Table(
        "Accuracy (standard error over splits), epsilons 1, 2 and 3 at delta 1e-5",
        [*head, SOFTMAX, OPEN],
        rows,
        f"The gain is paired by split. Own budgets are better beyond two standard errors in "
        f"{beyond} of {len(rows)} rows.",
    )  # fmt: skip


def main() -> None:
    names = [name for name in SETS if name in sys.argv[1:]] or list(SETS)
    found = list(tables(names))
    for table in found:
        print_table(table)
    if len(names) == len(SETS):
        write_tables(__file__, found)


if __name__ == "__main__":
    main()
