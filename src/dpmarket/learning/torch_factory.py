"""Factories of torch models that rules and released models can name: ``torch:package.module:factory``.

A buyer announces the name and the SHA-256 of the module's file; all who train or predict have that file.
Only functions that are marked as factories are called, and only files that mention the mark are imported,
with the packages that they are in: rules and models are untrusted. The digest is that of the one file, not of
what it imports, and not of torch.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, TypeVar

from dpmarket.errors import FileProblem

F = TypeVar("F", bound=Callable[..., Any])
_NAME = re.compile(r"torch:([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_LARGEST = 16 << 20


def torch_factory(function: F) -> F:
    """Mark a function as a factory of models, so that rules may name it.

    Parameters
    ----------
    function
        From the numbers of features and of outputs (classes, or 1 for a regression) to a
        ``torch.nn.Module``, or to a dictionary with one as ``module`` and further parameters of the
        estimator: ``loss``, ``steps``, ``clip``, ``learning_rate``, ``momentum``, ``weight_decay``. It must
        make the same weights that are not trained each time.

    Returns
    -------
    function
        The same one.

    Examples
    --------
    >>> import torch
    >>> @torch_factory
    ... def two_layers(features, outputs):
    ...     return torch.nn.Sequential(
    ...         torch.nn.Linear(features, 16), torch.nn.Tanh(), torch.nn.Linear(16, outputs)
    ...     )
    """
    function.__dict__["torch_factory"] = True
    return function


def made_by(name: str, code: str, features: int, outputs: int) -> dict[str, Any]:
    """Return what a factory makes, parameters of an estimator, if its module's file has this SHA-256."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise FileProblem(f"expected torch:package.module:factory, got {name!r}.")
    module, function = found.groups()
    text = _source(module)
    own = hashlib.sha256(text).hexdigest()
    if own != code:
        raise FileProblem(f"expected the file of {module} with the SHA-256 {code}, found one with {own}.")
    if b"torch_factory" not in text:
        raise FileProblem(f"expected a function of {module} that is marked with @torch_factory.")
    try:
        factory = getattr(importlib.import_module(module), function, None)
    except ImportError as problem:
        raise FileProblem(f"cannot import {module}: {problem}.") from None
    if not getattr(factory, "torch_factory", False):
        raise FileProblem(f"expected {function} in {module}, marked with @torch_factory; found none.")
    assert callable(factory)
    made = factory(features, outputs)
    return dict(made) if isinstance(made, dict) else {"module": made}


def _source(module: str) -> bytes:
    spec = _spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise FileProblem(
            f"cannot find the module {module}: install its package here, or put its folder on PYTHONPATH."
        )
    with Path(spec.origin).open("rb") as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise FileProblem(f"expected the file of {module} to have at most {_LARGEST:,} bytes.")
    return text


def _spec(module: str) -> ModuleSpec | None:
    """Return where a module is. importlib's own function imports the packages around it to find that out."""
    spec, places, names = None, None, module.split(".")
    for count in range(1, len(names) + 1):
        if count > 1 and places is None:  # no package
            return None
        name = ".".join(names[:count])
        found = (finder.find_spec(name, places) for finder in sys.meta_path)
        spec = next((one for one in found if one is not None), None)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    return spec
