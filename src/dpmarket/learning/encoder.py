"""Turn a table as it is (numbers, categories, dates, gaps) into rows for a private model, by declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_array, hstack
from sklearn.base import BaseEstimator, TransformerMixin, clone  # type: ignore[import-untyped]
from sklearn.pipeline import Pipeline, make_pipeline  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.errors import InvalidInput
from dpmarket.learning.columns import Coded, Column, column_from, features_of, row_scale
from dpmarket.learning.tables import columns_of, declared_from, names_of
from dpmarket.privacy.noise_norm import NoiseNorm

_SCHEMA = "dpmarket.encoder/1"


class PublicEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a table with public declarations, to rows of norm at most 1.

    Numbers are limited to their bounds and mapped to [-1, 1]; a category is one column of 0 and 1 for each
    level. Then every row is divided by the same public number.

    Parameters
    ----------
    columns
        A mapping from the name of a column to what is public about it:
        :class:`~dpmarket.learning.columns.Numbers`, :class:`~dpmarket.learning.columns.Categories`,
        :class:`~dpmarket.learning.columns.YesNo`, :class:`~dpmarket.learning.columns.Dates`, or the same as
        plain data, such as ``{"low": 0, "high": 99}`` or ``{"categories": ["a", "b"]}``. Columns of a table
        that are not named are left out.
    outside
        What happens to values outside of bounds and to unknown categories: "clip" limits numbers to their
        bounds and gives an unknown category no active level (or "other"), "refuse" refuses them.
    sparse_output
        Whether rows come as a CSR matrix or as an array.
    radius
        Public length of the numbers of a row, after mapping, beyond which they are shortened together, > 0.

    Notes
    -----
    Guaranteed:

    * A returned row is a function of that record and of the declarations alone; ``fit`` looks at names only.
    * Every row has norm at most 1 in :meth:`noise_norm`, and at most its Euclidean bound.
    * No message contains a value of a record.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"age": [30, None], "job": ["baker", "pilot"], "city": ["here", "there"]})
    >>> encoder = PublicEncoder(
    ...     {"age": {"low": 20, "high": 60, "missing": 40}, "job": {"categories": ["baker", "smith"]}}
    ... )
    >>> encoder.fit_transform(table).toarray().round(3).tolist()
    [[-0.25, 0.5, 0.0], [0.0, 0.0, 0.0]]
    >>> encoder.get_feature_names_out().tolist(), encoder.outside_counts(table)
    (['age', 'job=baker', 'job=smith'], {'job': 1})
    """

    def __init__(
        self, columns: Mapping[str, Any], *, outside: Literal["clip", "refuse"] = "clip",
        sparse_output: bool = True, radius: float = 1.0,
    ) -> None:  # fmt: skip
        self.columns = columns
        self.outside = outside
        self.sparse_output = sparse_output
        self.radius = radius

    @classmethod
    def from_public(cls, public: Any, *, most_categories: int = 50, **settings: Any) -> Self:
        """Return an encoder with declarations from public records, none of which is trained on privately.

        ``public`` is :class:`~dpmarket.datasets.public_data.PublicData` or a data frame. Numbers get bounds
        two standard deviations on either side of their mean, which also stands for gaps; texts get the
        commonest categories, and "other". ``settings`` are as for the class.
        """
        limit = checks.whole("most_categories", most_categories, minimum=1)
        return cls(declared_from(public, limit), **settings)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the declarations against the names of the columns. No value of ``X`` is used."""
        columns = self._declared()
        names_of(X, list(columns))
        self.feature_names_in_ = np.array(list(columns), dtype=object)
        self.n_features_in_ = len(columns)
        return self

    def transform(self, X: Any) -> Any:
        """Return encoded rows, shape (records, features), each of norm at most 1; refuse undeclared gaps."""
        check_is_fitted(self)
        columns = self._declared()
        coded = _all_coded(X, columns)
        for name, one in zip(columns, coded, strict=True):
            if one.gaps:
                raise InvalidInput(
                    f"expected no missing value in the column {name!r}, found {one.gaps}; declare missing or "
                    "missing_category."
                )
            if one.outside and self.outside == "refuse":
                raise InvalidInput(
                    f"expected every value of the column {name!r} as declared, found {one.outside} outside."
                )
        found = _assembled(coded, columns, row_scale(columns, self.radius)[1], self.radius)
        return found if self.sparse_output else found.toarray()

    def outside_counts(self, X: Any) -> dict[str, int]:
        """Return how many values of each column lie outside, where any do: for the data holder's eyes."""
        columns = self._declared()
        found = _all_coded(X, columns)
        return {name: one.outside for name, one in zip(columns, found, strict=True) if one.outside}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """Return the names of the encoded columns, such as ``age`` and ``job=baker``."""
        return np.array([name for name, _ in features_of(self._declared())], dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """Return the declarations as plain data, ready for JSON."""
        return {
            "schema": _SCHEMA,
            "columns": {name: column.to_dict() for name, column in self._declared().items()},
            "outside": self.outside,
            "radius": float(self.radius),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the encoder that :meth:`to_dict` described; refuse anything else."""
        if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
            raise InvalidInput(f"expected an encoder of the schema {_SCHEMA}.")
        if set(data) != {"schema", "columns", "outside", "radius"}:
            raise InvalidInput("expected an encoder with columns, outside and radius, and nothing else.")
        encoder = cls(data["columns"], outside=data["outside"], radius=data["radius"])
        encoder._declared()
        return encoder

    def noise_norm(self) -> NoiseNorm:
        """Return the norm in which rows are at most 1 long, to be declared to an estimator."""
        return row_scale(self._declared(), self.radius)[0]

    def _declared(self) -> dict[str, Column]:
        """Check all settings, and return the declarations."""
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise InvalidInput("expected columns to be a mapping from a column's name to its declaration.")
        if self.outside not in ("clip", "refuse"):
            raise InvalidInput("expected outside to be 'clip' or 'refuse'.")
        checks.positive("radius", self.radius)
        return {str(name): column_from(str(name), declared) for name, declared in self.columns.items()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags


def _all_coded(X: Any, columns: dict[str, Column]) -> list[Coded]:
    found = []
    for (name, column), values in zip(columns.items(), columns_of(X, list(columns)), strict=True):
        try:
            found.append(column.coded(values))
        except InvalidInput as error:
            problem = InvalidInput(f"column {name!r}: {error}")
        else:
            continue
        raise problem
    return found


def _assembled(coded: list[Coded], columns: Mapping[str, Column], factor: float, radius: float) -> csr_array:
    """Return the rows: numbers shortened to the radius, one for every active level, all times the factor."""
    records = len(coded[0].numbers if coded[0].numbers is not None else coded[0].levels)  # type: ignore[arg-type]
    numbers = [one.numbers for one in coded if one.numbers is not None]
    block = np.column_stack(numbers) if numbers else np.zeros((records, 0))
    lengths = np.sqrt((block * block).sum(axis=1))
    block *= (np.minimum(1.0, radius / np.maximum(lengths, 1e-300)) * factor)[:, None]
    blocks, number = [], 0
    for one, column in zip(coded, columns.values(), strict=True):
        if one.numbers is not None:
            blocks.append(csr_array(block[:, number : number + 1]))
            number += 1
        if one.levels is not None:
            (there,) = np.nonzero(one.levels >= 0)
            entries = np.full(there.size, factor), (there, one.levels[there])
            blocks.append(csr_array(entries, shape=(records, len(column.levels))))
    return hstack(blocks, format="csr")


def make_private_pipeline(encoder: Any, model: Any) -> Pipeline:
    """Return scikit-learn's pipeline of an encoder and a model that has the encoder's noise norm.

    Parameters
    ----------
    encoder
        A :class:`~dpmarket.learning.PublicEncoder`. Others do not know the norm of their rows, least of all a
        ``ColumnTransformer``: declare all columns in one encoder.
    model
        A private estimator without a ``noise_norm`` of its own. A copy is used.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Of the encoder and the model.

    Examples
    --------
    >>> import polars as pl
    >>> from dpmarket.learning import PrivateLogisticRegression
    >>> table = pl.DataFrame({"age": [30, 50] * 200, "job": ["baker", "smith"] * 200})
    >>> encoder = PublicEncoder({"age": {"low": 20, "high": 60}, "job": {"categories": ["baker", "smith"]}})
    >>> pipeline = make_private_pipeline(encoder, PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)))
    >>> pipeline.fit(table, [0, 1] * 200).predict(table[:2]).tolist()
    [0, 1]
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
