"""Whole gradients of people for any torch module: clipped, exact, and placed where no record decides.

torch is trusted for one thing: that the gradient of one record is a function of that record and of the
weights **only**. So the module sees one record at a time (``torch.func.vmap``, under which a branch on data
and a random layer are refused), in evaluation mode, without batch normalisation, and every batch runs through
a copy of its own. A batched product may still round a row differently in another place, so every person has a
place that follows from the order of people alone, in tensors whose shapes do not depend on records: the k-th
records of some people are one batch, in which somebody without one has zeros, whose gradient is dropped.

Everything after a record's gradient is exact (:mod:`dpmarket.privacy.descent`). A gradient that is not a
number counts as 0, and so does that of a record for which the module or the loss raises an error: whether a
model is released depends on no record.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.descent import shortened

TorchLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From outputs of shape (1, ...) and labels of shape (1,) of one record to a number."""
_FAILED = "expected a module and a loss that work at all weights; one raised an error, not repeated here."
_ROWS = 4_096  # predicted at a time
_MOST_PEOPLE, _MOST_NUMBERS = 256, 1 << 22


class Network:
    """A module with its trained weights, those with ``requires_grad``, as one vector."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = _usable(module)
        own = [(name, value) for name, value in module.named_parameters() if value.requires_grad]
        if not own:
            raise InvalidInput("expected a module with weights to train, got one without any.")
        self._fixed = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        self.names = [name for name, _ in own]
        self._like = {name: value.detach() for name, value in own}
        self.dtype = own[0][1].dtype

    @property
    def weights(self) -> FloatArray:
        """The weights to train, one after the other."""
        return np.concatenate([value.double().numpy().ravel() for value in self._like.values()])

    def tensors(self, weights: FloatArray) -> dict[str, torch.Tensor]:
        """Return a vector of weights as the module's tensors, rounded to their type."""
        found, place = {}, 0
        for name, value in self._like.items():
            part = torch.from_numpy(np.array(weights[place : place + value.numel()]))
            found[name] = part.to(value.dtype).reshape(value.shape)
            place += value.numel()
        return found

    def loaded(self, weights: FloatArray) -> Network:
        """Put weights into the module, and return this; refuses another number of them."""
        if weights.size != self.weights.size:
            raise InvalidInput(f"expected a module with {weights.size} weights, got {self.weights.size}.")
        self.module.load_state_dict(self.tensors(weights), strict=False)
        return self

    def unused(self) -> torch.nn.Module:
        """Return a copy of the module that shares its tensors, and nothing else that running it changes."""
        return copy.deepcopy(self.module, {id(value): value for value in self._fixed.values()})

    def outputs(self, features: Any) -> FloatArray:
        """Return the module's outputs for records, shape (records, outputs)."""
        module = self.unused()
        with torch.no_grad():
            parts = [module(part) for part in self.inputs(features).split(_ROWS)]
        return np.asarray(torch.cat(parts).double().reshape(features.shape[0], -1).numpy())

    def inputs(self, features: Any) -> torch.Tensor:
        """Return features, dense or sparse, as the module takes them."""
        dense = features.toarray() if hasattr(features, "toarray") else np.array(features)
        return torch.as_tensor(dense).to(self.dtype)

    def call(self, module: torch.nn.Module, tensors: dict[str, torch.Tensor], features: torch.Tensor) -> Any:
        """Return the outputs of a copy of the module for features at these weights."""
        return functional_call(module, {**self._fixed, **tensors}, (features,))


@dataclass(frozen=True, eq=False)
class PersonGradients:
    """Everybody's whole gradients as a function of the weights."""

    network: Network
    loss: TorchLoss
    features: torch.Tensor  # of all records
    labels: torch.Tensor
    owners: IntArray  # position of each record's owner among all people
    whole: IntArray  # whole weight of each person
    clip: float  # length to which a person's mean gradient is shortened

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return ``sum_i A_i q_i``, exactly: whole numbers in float64, shape (weights,)."""
        tensors = self.network.tensors(weights)
        total = np.zeros(weights.size)
        # People without a record also have a place: nobody's coming or going moves another.
        members = np.flatnonzero(self.whole > 0)
        counts = np.bincount(self.owners, minlength=self.whole.size)
        first, order = np.cumsum(counts) - counts, np.argsort(self.owners, kind="stable")
        size = max(1, min(_MOST_PEOPLE, _MOST_NUMBERS // weights.size))
        for begin in range(0, members.size, size):
            some = members[begin : begin + size]
            sums = np.zeros((some.size, weights.size))
            for k in range(int(counts[some].max(initial=0))):
                there = counts[some] > k
                rows = np.zeros(some.size, dtype=np.int64)
                rows[there] = order[first[some[there]] + k]
                x, y = self.features[rows], self.labels[rows]
                x[~there], y[~there] = 0, 0
                sums[there] += self._batch(tensors, x, y)[there]
            total += self.whole[some].astype(np.float64) @ self._cells(sums, counts[some])
        return total

    def _batch(self, tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> FloatArray:
        """Return the gradients of a batch; a record for which the module or the loss fails has zeros."""
        with contextlib.suppress(Exception):
            return self._rows(tensors, x, y)
        try:
            found = np.zeros_like(self._rows(tensors, torch.zeros_like(x), torch.zeros_like(y)))
        except Exception:  # not because of a record; and its words may quote one
            raise InvalidInput(_FAILED) from None
        for k in range(len(x)):
            alone_x, alone_y = torch.zeros_like(x), torch.zeros_like(y)
            alone_x[k], alone_y[k] = x[k], y[k]
            with contextlib.suppress(Exception):  # in its place, so that no other record's gradient changes
                found[k] = self._rows(tensors, alone_x, alone_y)[k]
        return found

    def _rows(self, tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> FloatArray:
        found = self.each_record()(tensors, x, y)
        parts = [found[name].reshape(len(x), -1) for name in self.network.names]
        return np.asarray(torch.cat(parts, dim=1).double().numpy())

    def _cells(self, sums: FloatArray, counts: IntArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            means = sums / np.maximum(counts, 1)[:, None]
        means = np.where(np.isfinite(means), means, 0.0)
        return shortened(means, (means * means).sum(axis=1), self.clip)

    def each_record(self) -> Callable[..., dict[str, torch.Tensor]]:
        """Return the gradients of some records, each by itself: a function to be called once."""
        module, loss = self.network.unused(), copy.deepcopy(self.loss)

        def one(tensors: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return loss(self.network.call(module, tensors, x[None]), y[None])

        gradients: Callable[..., dict[str, torch.Tensor]] = vmap(grad(one), in_dims=(None, 0, 0))
        return gradients


def refuse_unusable(
    network: Network, loss: TorchLoss, shape: tuple[int, ...], label: Any, outputs: int
) -> None:
    """Refuse a module or a loss that fails on two records of zeros, in torch's words: none is private."""
    zeros, labels = torch.zeros((2, *shape), dtype=network.dtype), torch.as_tensor([label, label])
    try:
        with torch.no_grad():
            made = network.unused()(zeros[:1])
    except Exception as problem:  # whatever somebody's module raises
        raise InvalidInput(f"expected a module that takes rows of shape {shape}; {_said(problem)}") from None
    if not isinstance(made, torch.Tensor) or made.numel() != outputs or made.shape[:1] != (1,):
        got = tuple(made.shape) if isinstance(made, torch.Tensor) else type(made).__name__
        raise InvalidInput(f"expected a module with {outputs} outputs for one row, got {got}.")
    people = PersonGradients(network, loss, zeros, labels, np.arange(2), np.ones(2, dtype=np.int64), 1.0)
    try:
        people.each_record()(network.tensors(network.weights), zeros, labels)
    except Exception as problem:  # of somebody's loss as well
        words = "expected a module and a loss with gradients record by record (torch.func.vmap)"
        raise InvalidInput(f"{words}; {_said(problem)}") from None


def _said(problem: Exception) -> str:
    return f"torch says: {str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__}"


def _usable(module: Any) -> torch.nn.Module:
    """Return a module in evaluation mode, or refuse it."""
    if not isinstance(module, torch.nn.Module):
        raise InvalidInput(f"expected a torch.nn.Module, got {type(module).__name__}.")
    if any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in module.modules()):
        raise InvalidInput(
            "expected no batch normalisation, which mixes the records of different people: take GroupNorm or "
            "LayerNorm."
        )
    for name, value in module.named_parameters():
        if isinstance(value, torch.nn.parameter.UninitializedParameter):
            raise InvalidInput(f"expected weights that are there; {name} waits for a first batch.")
        if value.device.type != "cpu" or not value.dtype.is_floating_point:
            raise InvalidInput(f"expected weights in floats on the CPU; {name} is something else.")
    return module.eval()
