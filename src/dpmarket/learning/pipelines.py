"""Pipelines whose model makes its noise in the norm of the encoder's rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone  # type: ignore[import-untyped]
from sklearn.pipeline import Pipeline, make_pipeline  # type: ignore[import-untyped]

from dpmarket.errors import InvalidInput


def make_private_pipeline(encoder: Any, model: Any) -> Pipeline:
    """Return scikit-learn's pipeline of an encoder and a model that has the encoder's noise norm.

    Parameters
    ----------
    encoder
        A :class:`~dpmarket.learning.PublicEncoder`. Others do not know the norm of their rows, least of all a
        ``ColumnTransformer``, whose rows are those of several put together: declare all columns in one
        encoder.
    model
        A private estimator without a ``noise_norm`` of its own. A copy is used.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Of the encoder and the model.

    Notes
    -----
    If a setting of the encoder is changed later so that its norm is another one, ``fit`` finds rows that are
    too long, and refuses them.

    Examples
    --------
    >>> import polars as pl
    >>> from dpmarket.learning import PrivateLogisticRegression, PublicEncoder
    >>> table = pl.DataFrame({"age": [30, 50] * 200, "job": ["baker", "smith"] * 200})
    >>> encoder = PublicEncoder({"age": {"low": 20, "high": 60}, "job": {"categories": ["baker", "smith"]}})
    >>> pipeline = make_private_pipeline(encoder, PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)))
    >>> pipeline.fit(table, [0, 1] * 200).predict(table[:2]).tolist()
    [0, 1]
    >>> pipeline[-1].noise_norm == encoder.noise_norm()
    True
    """
    known = getattr(encoder, "noise_norm", None)
    if not callable(known):
        raise InvalidInput(
            "expected an encoder that knows the norm of its rows: declare all columns in one PublicEncoder, "
            f"in place of {type(encoder).__name__}."
        )
    norm = known()
    if model.get_params().get("noise_norm", norm) not in (None, norm):
        raise InvalidInput("expected a model without a noise_norm, or with the encoder's.")
    return make_pipeline(encoder, clone(model).set_params(noise_norm=norm))
