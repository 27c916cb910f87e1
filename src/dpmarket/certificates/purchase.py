"""Certificates of the library's own results: an outcome of a mechanism, and a model or statistics from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.certificates.certificate import Certificate, Money, make_certificate
from dpmarket.certificates.commitments import Sellers
from dpmarket.certificates.description import (
    CertifiedStatistic,
    describe_market,
    describe_model,
    describe_statistics,
)
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.mechanisms.cross_pricing import split as split_ids
from dpmarket.mechanisms.groups import check_membership
from dpmarket.mechanisms.outcome import Outcome, whole_units
from dpmarket.statistics import SeveralStatistics


def certify(
    outcome: Outcome,
    model: Any,
    market: Mapping[str, Any],
    *,
    seller_ids: Iterable[Any] | None = None,
    minor_units: int = 100,
    currency: str = "",
    already_spent: Mapping[Any, float] | None = None,
    features: Mapping[str, tuple[float, float]] | None = None,
    encoder: Any = None,
    withdrawn: Iterable[Any] = (),
    groups: Any = None,
) -> Certificate:
    """Return the certificate of a purchase and of the model or the statistics made from it.

    Parameters
    ----------
    outcome
        What was bought and paid.
    model
        A linear model, a statistic or several, fitted with these epsilons: either one record per seller in
        the outcome's order, or with ``people`` named by seller ids. Of sellers without a record nothing is
        used.
    market
        All that decided, as plain data: ``rules()`` of the mechanism.
    seller_ids, groups
        In the outcome's order: ids, all different, certified as texts (None: 0, 1, 2, ...), and each seller's
        group as a position in the market's (None: there is one).
    minor_units, currency
        How many minor units make one unit of money, to which payments are rounded up, and its short name.
    already_spent
        Epsilon that was spent of sellers before this release, by id; missing ids mean 0.
    features
        Public bounds of each feature by its name, in the order of the columns, as they were before rows were
        scaled. None: the model's own names, or x0, x1, ..., with the bounds -1 and 1 that every row obeys.
    encoder
        The :class:`~dpmarket.learning.PublicEncoder` of the model's rows, whose declarations are certified.
    withdrawn
        Ids of sellers who left before the release: their quotes are certified, and that nothing is owed.

    Returns
    -------
    Certificate
        ``bytes`` of it are the public file; ``receipt`` is for one seller, ``openings`` for an auditor.

    Raises
    ------
    NotCertifiable
        If the noise can be repeated, classes were read from the data, the model was not trained with these
        epsilons, an epsilon was exceeded, alone or with what was spent before, or a seller who withdrew was
        trained on.
    InvalidInput
        If an id is nobody's, a seller's group is missing or none of the market's, or there are not as many
        features as the model has.

    Notes
    -----
    The verifier accepts the returned certificate. The file contains no seller's id, line or cost, and nothing
    from which one could be tried out: every commitment has 256 bits of secret salt. Totals are public.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(2, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> dpm.verify(certificate, openings=certificate.openings()).passed
    True
    """
    if not isinstance(outcome, Outcome):
        raise NotCertifiable(
            f"expected an Outcome, whose epsilons do not depend on records, got {type(outcome).__name__}."
        )
    release = _release(model, features, encoder)
    names = list(range(outcome.epsilons.size)) if seller_ids is None else list(seller_ids)
    checks.same_length("seller_ids", names, "outcome.epsilons", outcome.epsilons)
    used, weights = _by_seller(names, model)
    before = _named("already_spent", names, already_spent or {})
    if bool((used + before > outcome.epsilons).any()):
        raise NotCertifiable("expected nobody's epsilon exceeded; with what was spent before, some were.")
    if bool((before > 0.0).any()) and market.get("delta"):
        raise NotCertifiable("expected nothing already spent with a delta: deltas add up.")
    ids = list(map(str, names))
    # A table of a delta does not say which: the release's, unless the rules name one.
    described = describe_market({"delta": getattr(model, "delta_", 0.0), **market})
    salt = None if described["split"] is None else bytes.fromhex(described["split"]["salt"])
    sellers = Sellers(
        ids=ids,
        epsilons=outcome.epsilons,
        payments=whole_units(outcome.payments, minor_units),
        used=used,
        weights=weights,
        withdrew=_named("withdrawn", names, dict.fromkeys(withdrawn, 1.0)) > 0.0,
        parts=None if salt is None else split_ids(ids, salt),
        groups=check_membership(groups, len(ids), len(described["groups"])),
    )
    return make_certificate(sellers, described, release, Money(minor_units, currency))


def _release(
    model: Any, features: Mapping[str, tuple[float, float]] | None = None, encoder: Any = None
) -> dict[str, Any]:
    """Return the release of a fitted model or of statistics; refuse what must not be certified."""
    if hasattr(model, "description_"):
        if getattr(model, "classes", ()) is None:
            raise NotCertifiable(
                "expected declared classes; these were read from the labels, which tells about them."
            )
        if not model.certifiable_:
            raise NotCertifiable("expected a model with secret noise; this one's can be repeated.")
        labels = getattr(model, "classes_", None)
        return describe_model(
            model.description_,
            features=_features(model, features, encoder),
            classes=None if labels is None else [np.asarray(label).item() for label in labels],
            factor=float(getattr(model, "shrinkage_correction_", 1.0)),
            encoder=None if encoder is None else encoder.to_dict(),
        )
    statistics = _statistics(model)
    if not all(one.release.certifiable for one in statistics.values()):
        raise NotCertifiable("expected statistics with secret noise; this noise can be repeated.")
    rows = {int(one.release.question["rows_per_person"]) for one in statistics.values()}
    if len(rows) > 1:
        raise NotCertifiable("expected the same rows_per_person of all statistics, found several.")
    return describe_statistics(statistics, rows.pop())


def _statistics(model: Any) -> dict[str, CertifiedStatistic]:
    if isinstance(model, SeveralStatistics) and hasattr(model, "releases_"):
        return {
            name: CertifiedStatistic(tuple(one.question.get("names", (name,))), model.share(name), one)
            for name, one in model.releases_.items()
        }
    release = getattr(model, "release_", None)
    if release is None or not hasattr(release, "numerators"):
        raise NotCertifiable("expected a fitted linear model, or statistics that were released.")
    return {release.kind: CertifiedStatistic(tuple(getattr(model, "names", ("value",))), 1.0, release)}


def _features(
    model: Any, bounds: Mapping[str, tuple[float, float]] | None, encoder: Any
) -> tuple[tuple[str, float, float], ...]:
    count = int(model.n_features_in_)
    if bounds is None:
        names = getattr(model, "feature_names_in_", [f"x{k}" for k in range(count)])
        names = names if encoder is None else encoder.get_feature_names_out()
        return tuple((str(name), -1.0, 1.0) for name in names)
    found = tuple(
        (str(name), checks.finite("low", low), checks.finite("high", high))
        for name, (low, high) in bounds.items()
    )
    if len(found) != count or not all(low < high for _, low, high in found):
        raise InvalidInput(f"expected bounds low < high of {count} features, got {len(found)}.")
    return found


def _by_seller(names: list[Any], model: Any) -> tuple[FloatArray, FloatArray]:
    """Return the epsilon used of each seller and the weight, in the order of their ids."""
    own = _weights(model)
    if model.people_ is None:
        if model.epsilons_.size != len(names):
            raise NotCertifiable(
                f"expected a model trained with the epsilons of {len(names)} sellers, got one of "
                f"{model.epsilons_.size}; name the sellers with people= if some have no record."
            )
        return np.array(model.epsilons_), own
    place = {name: k for k, name in enumerate(names)}
    known: list[Any] = [place.get(name) for name in model.people_]
    if None in known:
        raise NotCertifiable(
            "expected every person in the model to be a seller of the outcome; some are not."
        )
    used, weights = np.zeros(len(names)), np.zeros(len(names))
    used[known], weights[known] = model.epsilons_, own
    return used, weights


def _weights(model: Any) -> FloatArray:
    if hasattr(model, "description_"):
        own = model.whole_weights_ if model.delta_ else model.loss_weights_
        return np.asarray(own, dtype=np.float64)
    if not isinstance(model, SeveralStatistics):
        return np.array(model.epsilons_)
    columns = [spent.tolist() for spent in model.spent_by_.values()]
    exact = [sum(map(Fraction, person), Fraction(0)) for person in zip(*columns, strict=True)]
    weights = np.array([float(number) for number in exact])
    if any(Fraction(weight) != number for weight, number in zip(weights.tolist(), exact, strict=True)):
        raise NotCertifiable("expected shares no further apart than a thousand times; these are.")
    return weights


def _named(what: str, names: list[Any], numbers: Mapping[Any, float]) -> FloatArray:
    """Return a number for each seller from those that are named; 0 for the others."""
    if not numbers:
        return np.zeros(len(names))
    strangers = len(numbers.keys() - set(names))
    if strangers:
        raise InvalidInput(f"expected {what} to name sellers, found {strangers} ids of nobody.")
    return checks.non_negative_vector(what, [numbers.get(name, 0.0) for name in names])
