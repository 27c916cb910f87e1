"""Certificates of the library's own results: an outcome of a mechanism, and a model or statistics from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.certificates.certificate import Certificate, make_certificate
from dpmarket.certificates.commitments import Sellers
from dpmarket.certificates.description import Asked, describe_market, describe_model, describe_statistics
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.mechanisms.cross_pricing import split as split_ids
from dpmarket.mechanisms.groups import check_membership
from dpmarket.mechanisms.outcome import Outcome, whole_units
from dpmarket.statistics import SeveralStatistics


def certify(
    outcome: Outcome, model: Any, market: Mapping[str, Any], *, seller_ids: Iterable[Any] | None = None,
    minor_units: int = 100, currency: str = "", encoder: Any = None, withdrawn: Iterable[Any] = (),
    groups: Any = None,
) -> Certificate:  # fmt: skip
    """Return the certificate of a purchase and of the model or the statistics made from it.

    Parameters
    ----------
    outcome, market
        What was bought and paid, and all that decided, as plain data: ``rules()`` of the mechanism.
    model
        A linear model, a statistic or several, fitted with these epsilons: either one record per seller in
        the outcome's order, or with ``people`` named by seller ids. Of sellers without a record nothing is
        used.
    seller_ids, groups
        In the outcome's order: ids, all different, certified as texts (None: 0, 1, 2, ...), and each seller's
        group as a position in the market's (None: there is one).
    minor_units, currency
        How many minor units make one unit of money, to which payments are rounded up, and its short name.
    encoder
        The :class:`~dpmarket.learning.PublicEncoder` of the model's rows, whose declarations are certified.
    withdrawn
        Ids of sellers who left before the release: their quotes are certified, and that nothing is owed.

    Returns
    -------
    Certificate
        The verifier accepts it. The file contains no seller's id, line or cost, and nothing from which one
        could be tried out: every commitment has 256 bits of secret salt. Totals are public.

    Raises
    ------
    NotCertifiable
        If the noise can be repeated, classes were read from the data, the model was not trained with these
        epsilons, an epsilon was exceeded, or a seller who withdrew was trained on.

    Examples
    --------
    The buyer publishes the file, and gives every seller a receipt, with which they check their own line.

    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(2, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> file, receipt = bytes(certificate), certificate.receipt("ann")
    >>> b'"ann"' in file, dpm.verify(file, receipt=receipt, cost=1.5).passed
    (False, True)
    """
    if not isinstance(outcome, Outcome):
        raise NotCertifiable(
            f"expected an Outcome, whose epsilons do not depend on records, got {type(outcome).__name__}."
        )
    release = release_of(model, encoder)
    names = list(range(outcome.epsilons.size)) if seller_ids is None else list(seller_ids)
    checks.same_length("seller_ids", names, "outcome.epsilons", outcome.epsilons)
    used, weights = by_seller(names, model)
    left = set(withdrawn)
    strangers = len(left - set(names))
    if strangers:
        raise InvalidInput(f"expected withdrawn to name sellers, found {strangers} ids of nobody.")
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
        withdrew=np.array([name in left for name in names]),
        parts=None if salt is None else split_ids(ids, salt),
        groups=check_membership(groups, len(ids), len(described["groups"])),
    )
    money = {"currency": currency, "minor_units": minor_units}
    return make_certificate(sellers, described, release, money)


def release_of(model: Any, encoder: Any = None) -> dict[str, Any]:
    """Return the release of a fitted model or of statistics; refuse what must not be certified."""
    if hasattr(model, "description_"):
        if getattr(model, "classes", ()) is None:
            raise NotCertifiable(
                "expected declared classes; these were read from the labels, which tells about them."
            )
        if not model.certifiable_:
            raise NotCertifiable("expected a model with secret noise; this one's can be repeated.")
        numbered = [f"x{k}" for k in range(int(model.n_features_in_))]
        names = getattr(model, "feature_names_in_", numbered)
        names = names if encoder is None else encoder.get_feature_names_out()
        labels = getattr(model, "classes_", None)
        return describe_model(
            model.description_,
            list(map(str, names)),
            None if labels is None else [np.asarray(label).item() for label in labels],
            float(getattr(model, "shrinkage_correction_", 1.0)),
            None if encoder is None else encoder.to_dict(),
        )
    statistics = _statistics(model)
    releases = [release for _, _, release in statistics.values()]
    if not all(release.certifiable for release in releases):
        raise NotCertifiable("expected statistics with secret noise; this noise can be repeated.")
    rows = {int(release.question["rows_per_person"]) for release in releases}
    if len(rows) > 1:
        raise NotCertifiable("expected the same rows_per_person of all statistics, found several.")
    return describe_statistics(statistics, rows.pop())


def _statistics(model: Any) -> dict[str, Asked]:
    if isinstance(model, SeveralStatistics) and hasattr(model, "releases_"):
        return {
            name: (one.question.get("names", (name,)), model.share(name), one)
            for name, one in model.releases_.items()
        }
    release = getattr(model, "release_", None)
    if release is None or not hasattr(release, "numerators"):
        raise NotCertifiable("expected a fitted linear model, or statistics that were released.")
    return {release.kind: (getattr(model, "names", ("value",)), 1.0, release)}


def by_seller(names: list[Any], model: Any) -> tuple[FloatArray, FloatArray]:
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
