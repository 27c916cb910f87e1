"""Any torch model with a privacy budget for every person: a classifier and a regression.

Training is the noisy descent of :mod:`dpmarket.privacy.descent`, all records in every step. torch is trusted
for one thing only, see :mod:`dpmarket.learning.torch_gradients`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.descent import Pace, noisy_descent
from dpmarket.learning.estimator import MANY_ROWS, Classifier, PrivateEstimator, Probabilities
from dpmarket.learning.torch_gradients import Network, PersonGradients, TorchLoss, refuse_unusable
from dpmarket.learning.validation import numbers_of, read_classes, validated
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.noise import Bits, NoiseSource, checked_source
from dpmarket.progress import Progress

_FEWEST_STEPS = 40


@dataclass(kw_only=True, eq=False, repr=False)
class _PrivateTorchModel(PrivateEstimator):
    """Parameters and the fit that both estimators share.

    Parameters
    ----------
    loss
        From outputs and labels of one record, as tensors with a first axis of length 1, to a number.
    epsilon, delta, noise_source
        As for :class:`~dpmarket.learning.PrivateLogisticRegression`; a delta is needed.
    steps
        Steps of the descent. None means 40 to 200, more where budgets leave less noise.
    clip
        Length to which each person's mean gradient is shortened, before it is weighted.
    learning_rate, momentum, weight_decay
        How far a step goes, how much of the last one is kept, and how much of each weight is taken back.

    Attributes
    ----------
    module_
        The trained module: a copy with the released weights, in evaluation mode. Public.
    descent_
        The :class:`~dpmarket.privacy.descent.Descent`: steps, noise and delta.
    epsilons_, delta_, loss_weights_, effective_people_, people_, description_, certifiable_
        As for :class:`~dpmarket.learning.PrivateLogisticRegression`.

    Notes
    -----
    Guaranteed, as far as a record's gradient in torch is a function of that record and the weights:

    * Replacing everything that one person contributed, any number of records, changes the probability of no
      set of released weights by more than the factor ``exp(epsilon)`` of that person, and ``delta_``.
    * Records of people whose budget is 0 have no influence at all.
    * A record for which the module or the loss raises an error, or has no finite gradient, counts as nothing.

    The module, its starting weights, the loss and all settings must be public, chosen without these records:
    starting weights trained on public data are welcome. Not guaranteed: what a score on private records
    reveals, and how long ``fit`` takes.
    """

    loss: TorchLoss | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    steps: int | None = None
    clip: float = 0.5
    learning_rate: float = 1.0
    momentum: float = 0.9
    weight_decay: float = 1e-3
    noise_source: NoiseSource | None = None

    module: Any

    def _read_labels(self, y: Any) -> tuple[torch.Tensor, int]:
        """Return labels as the loss takes them, and how many outputs the module must have."""
        raise NotImplementedError

    def _loss(self) -> TorchLoss:
        raise NotImplementedError

    def _described(self) -> dict[str, Any]:
        """Return what is public about the loss."""
        return {"kind": "torch", "classes": None, "model": None, "code": None}

    def _fit(
        self, X: Any, y: Any, epsilons: Any, people: Any, account: PrivacyAccount | None,
        intervals: float | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        if intervals is not None:
            raise InvalidInput("expected no intervals= with a torch model, which has none.")
        pace = self._pace()
        records, budgets = self._read(X, y, epsilons, people, account, MANY_ROWS, 0.0, allow_nd=True)
        labels, outputs = self._read_labels(records.labels)
        x, holding = records.features, records.holding
        network, loss = Network(copy.deepcopy(self.module)), self._loss()
        refuse_unusable(network, loss, x.shape[1:], labels[0] * 0, outputs)
        start = network.weights
        descent, whole = Descent.for_epsilons(
            budgets, self.delta, start.size, self.steps, fewest_steps=_FEWEST_STEPS
        )
        gradients = PersonGradients(
            network, loss, network.inputs(x), labels, records.owners(), whole, pace.clip
        )

        def run(bits: Bits) -> FloatArray:
            total = int(whole.sum())
            return noisy_descent(gradients, start, total, pace, descent, stream=bits, progress=progress)[None]

        charge = self._charging(account, holding)
        weights = self._descend(descent, whole, self._described(), charge, run)
        self.module_ = network.loaded(weights[0]).module
        self._finish(holding, account)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the released weights as torch saves and loads them."""
        check_is_fitted(self)
        return dict(self.module_.state_dict())

    def _pace(self) -> Pace:
        """Check the constructor's arguments; return how the descent moves."""
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        clip, rate = checks.positive("clip", self.clip), checks.positive("learning_rate", self.learning_rate)
        momentum = checks.non_negative("momentum", self.momentum)
        if not momentum < 1.0:
            raise InvalidInput(f"expected momentum below 1, got {momentum!r}.")
        decay = checks.non_negative("weight_decay", self.weight_decay)
        checked_source(self.noise_source)
        return Pace(clip, rate, decay, momentum)

    def _outputs(self, X: Any) -> FloatArray:
        """Return the module's outputs, shape (records, outputs)."""
        check_is_fitted(self)
        x = validated(self, X, allow_nd=True, accept_sparse="csr", reset=False)
        return Network(self.module_).outputs(x)


@dataclass(eq=False, repr=False)
class PrivateTorchClassifier(Probabilities, Classifier, _PrivateTorchModel):
    """A torch classifier with a privacy budget for every person.

    Parameters
    ----------
    module
        A ``torch.nn.Module`` that maps records to one output (logit) per class. ``fit`` trains a copy of it
        from the weights that it has. Without batch normalisation; dropout is off.
    classes
        The labels, in the order of the outputs. None reads them from ``y``, sorted, and so treats the set of
        labels as public; a certificate needs them declared.
    loss, epsilon, delta, steps, clip, learning_rate, momentum, weight_decay, noise_source
        See the module's common parameters; the loss is cross entropy, if None.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, size=(600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0.0, "same", "other")
    >>> layers = torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    >>> model = PrivateTorchClassifier(torch.nn.Sequential(*layers), classes=("other", "same"), steps=20)
    >>> epsilons = np.where(np.arange(600) < 300, 1.0, 3.0)
    >>> model = model.fit(X, y, epsilons=epsilons)
    >>> bool((model.epsilons_ <= epsilons).all()), model.certifiable_, list(model.state_dict())[:2]
    (True, True, ['0.weight', '0.bias'])
    """

    module: Any
    classes: Sequence[Any] | None = None

    def _read_labels(self, y: Any) -> tuple[torch.Tensor, int]:
        self.classes_ = read_classes(self.classes, y)
        return torch.from_numpy(numbers_of(self.classes_, y).astype(np.int64)), len(self.classes_)

    def _loss(self) -> TorchLoss:
        return torch.nn.functional.cross_entropy if self.loss is None else self.loss

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"classes": len(self.classes_)}

    def _outputs(self, X: Any) -> FloatArray:
        """Return scores: of two classes one, that of the second less that of the first."""
        scores = super()._outputs(X)
        return np.asarray(scores[:, 1:] - scores[:, :1]) if scores.shape[1] == 2 else scores


@dataclass(eq=False, repr=False)
class PrivateTorchRegressor(RegressorMixin, _PrivateTorchModel):  # type: ignore[misc]
    """A torch regression with a privacy budget for every person.

    Parameters
    ----------
    module
        A ``torch.nn.Module`` that maps records to one output, in units of ``scale`` around ``center``.
        Without batch normalisation; dropout is off.
    center, scale
        A public guess of the labels' mean and standard deviation, in their units.
    loss, epsilon, delta, steps, clip, learning_rate, momentum, weight_decay, noise_source
        See the module's common parameters; the loss is squared for errors below 0.3 scales and absolute
        beyond (Huber), if None.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, size=(2000, 1))
    >>> y = 100.0 + 20.0 * np.abs(X[:, 0])
    >>> layers = torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    >>> model = PrivateTorchRegressor(torch.nn.Sequential(*layers), 110.0, 6.0, epsilon=3.0)
    >>> bool(model.fit(X, y).score(X, y) > 0.3)
    True
    """

    module: Any
    center: float
    scale: float

    def _read_labels(self, y: Any) -> tuple[torch.Tensor, int]:
        center, scale = checks.finite("center", self.center), checks.positive("scale", self.scale)
        return torch.from_numpy((np.asarray(y, dtype=np.float64) - center) / scale).float(), 1

    def _loss(self) -> TorchLoss:
        smooth = partial(torch.nn.functional.smooth_l1_loss, beta=0.3)
        chosen: Callable[..., torch.Tensor] = smooth if self.loss is None else self.loss
        return partial(_one_output, chosen)

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted label of each record, shape (records,)."""
        return self._outputs(X)[:, 0] * float(self.scale) + float(self.center)


def _one_output(
    loss: Callable[..., torch.Tensor], outputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    return loss(outputs.reshape(labels.shape), labels)
