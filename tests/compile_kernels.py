"""Compile the largest loops, for the types that most tests use: ``make test`` does it while it installs.

Whatever is not compiled here, or is compiled already, tests compile or load by themselves.
"""

import numpy as np

from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import SeededNoise


def compile_kernels():
    """Train models, each on something tiny."""
    rows = np.linspace(-0.6, 0.6, 24).reshape(12, 2)
    for classes in ((0, 1), (0, 1, 2)):
        labels = np.arange(12) % len(classes)
        for delta in (None, 1e-5):
            model = PrivateLogisticRegression(
                epsilon=50.0, classes=classes, delta=delta, noise_source=SeededNoise(0)
            )
            model.fit(rows, labels)


if __name__ == "__main__":
    compile_kernels()
