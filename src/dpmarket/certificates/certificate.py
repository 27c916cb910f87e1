"""Turn an outcome and a trained model into a certificate, and a receipt for every seller.

A certificate is a JSON file of fixed layout. Its first line holds the *body*: public parameters, totals, the
release as grid integers, the root of all commitments, and what is not promised. The lines after it are the
commitments. The SHA-256 of the body's bytes is the certificate's *digest*; since the body holds the root, it
stands for the commitments, too. The digest is not in the file: every receipt has it.
"""

from __future__ import annotations

import hashlib
import json
from binascii import hexlify
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.certificates.body import body_of
from dpmarket.certificates.commitments import VALUES, Lines, Tree, commit, fresh_salts
from dpmarket.certificates.purchase import Purchase, ReleasedModel
from dpmarket.certificates.rules import RulesReference
from dpmarket.certificates.statistic import (
    ReleasedStatistics,
    refuse_other_spending,
    weights_of_several,
)
from dpmarket.certificates.verifier.constants import priced_delta
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms.outcome import Outcome, whole_units
from dpmarket.statistics import SeveralStatistics, Statistic

RECEIPT, OPENINGS = "dpmarket.receipt/2", "dpmarket.openings/2"


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A certificate with what its owner needs to hand out receipts. ``bytes(certificate)`` is the file.

    Attributes
    ----------
    body
        The body as canonical JSON.
    lines
        Every seller's line and salt. Confidential; not part of the file.
    tree
        Commitments to the lines.

    Examples
    --------
    The buyer publishes the file, and gives every seller a receipt.

    >>> import dpmarket as dpm
    >>> from dpmarket.mechanisms.exact import OfflineMechanism
    >>> from dpmarket.mechanisms.objective import PaperObjective
    >>> mechanism = OfflineMechanism(dpm.Uniform(1, 5), PaperObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> file, receipt = bytes(certificate), certificate.receipt("ann")
    >>> b"ann" in file, b"ann" in receipt, len(certificate.digest)
    (False, True, 64)
    """

    body: bytes
    lines: Lines
    tree: Tree

    @property
    def digest(self) -> str:
        """SHA-256 of the body, in hexadecimal digits."""
        return hashlib.sha256(self.body).hexdigest()

    def __bytes__(self) -> bytes:
        rows = np.empty(len(self.lines), dtype=[("opening", "V1"), ("digits", "V64"), ("closing", "V3")])
        rows["opening"], rows["closing"] = b'"', b'",\n'
        rows["digits"] = np.frombuffer(hexlify(self.tree.leaves), dtype="V64")
        commitments = rows.view(np.uint8)[: -len(b",\n")].data
        return b"".join([b'{"body":', self.body, b',\n"commitments":[\n', commitments, b"]}\n"])

    def receipts(self) -> Iterator[tuple[Any, bytes]]:
        """Yield every seller's id and receipt, in the order of the lines."""
        public = self._public()
        for k in range(len(self.lines)):
            yield self.lines.ids[k].item(), self._receipt(k, public)

    def receipt(self, seller_id: object) -> bytes:
        """Return one seller's receipt: the line, its salt, its path to the root and the digest.

        It also says in what money it speaks, and what is not promised.
        """
        places = [k for k, name in enumerate(self.lines.ids.tolist()) if name == seller_id]
        if not places:
            raise InvalidInput("expected the id of a seller in this certificate, found no such seller.")
        return self._receipt(places[0], self._public())

    def openings(self) -> bytes:
        """Return all lines with their salts, for the buyer's safe and for an auditor. Confidential."""
        lines = self.lines
        columns = {name: lines.values[:, k].tolist() for k, name in enumerate(VALUES)}
        return _canonical(
            {
                "schema": OPENINGS,
                "certificate": self.digest,
                "id": lines.ids.tolist(),
                **columns,
                "withdrew": lines.withdrew.tolist(),
                "quotes": lines.quotes.tolist(),
                "salt": [lines.salt(k) for k in range(len(lines))],
            }
        )

    def _public(self) -> dict[str, Any]:
        """Return what every receipt repeats of the certificate."""
        body = json.loads(self.body)
        return {
            "schema": RECEIPT,
            "certificate": self.digest,
            "money": body["money"],
            "not_promised": body["not_promised"],
        }

    def _receipt(self, k: int, public: Mapping[str, Any]) -> bytes:
        position = int(self.tree.positions[k])
        return _canonical(
            {
                **public,
                "line": self.lines.line(k),
                "salt": self.lines.salt(k),
                "position": position,
                "path": self.tree.path(position),
            }
        )


def certify(
    outcome: Outcome,
    model: PrivateLogisticRegression | Statistic | SeveralStatistics,
    market: Mapping[str, Any],
    *,
    seller_ids: Iterable[Any] | None = None,
    minor_units: int | None = None,
    currency: str = "",
    already_spent: Mapping[Any, float] | None = None,
    features: Mapping[str, tuple[float, float]] | None = None,
    withdrawn: Iterable[Any] = (),
) -> Certificate:
    """Return the certificate of a purchase and the model trained from it.

    Parameters
    ----------
    outcome
        What was promised and paid.
    model
        A model, a statistic or several, fitted with these promises: either one record per seller in the
        outcome's order, or with ``people`` named by seller ids. Sellers without a record have spent nothing.
    market
        All that decided, as plain data with the mechanism's name: ``rules()`` of the mechanism.
    seller_ids
        Texts or whole numbers, all different, in the outcome's order; None: 0, 1, 2, ...
    minor_units
        How many smallest units of the currency make one unit of money, if payments are certified as whole
        numbers of them, rounded up; None certifies the unrounded payments.
    currency
        Its short name, such as EUR, which stands beside every amount; empty: none.
    already_spent
        What was spent of a seller's promise before this model, by id (a ledger); missing ids mean 0. Not with
        a delta: what was spent of that is not known.
    features
        Public bounds of each feature by its name, in the order of the columns, as they were before rows were
        scaled. None: the model's own names, or x0, x1, ..., with the bounds -1 and 1 that every row obeys.
    withdrawn
        Ids of sellers who left before training: what they were quoted is certified, and that nothing is owed.

    Returns
    -------
    Certificate
        ``bytes`` of it are the public file; ``receipt`` is for one seller, ``openings`` for an auditor.

    Raises
    ------
    NotCertifiable
        If the noise was seeded, the classes were read from the data, the outcome is not one whose promises
        are independent of the records, the model was not trained with these promises, or a promise was
        exceeded, by this model alone or with what was spent before; if somebody withdrew and was trained on.
    InvalidInput
        If ``already_spent`` or ``withdrawn`` names somebody who is no seller of the outcome, or ``features``
        are not as many as the model's, or ``currency`` is no short name.

    Notes
    -----
    Guaranteed:

    * Everything that ``verify`` can check holds for the returned certificate.
    * The file contains no seller's id, line or cost, and nothing from which one could be tried out: every
      commitment has 256 bits of secret salt. Totals are public: where one seller alone was bought from, they
      are that seller's numbers.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> from dpmarket.mechanisms.exact import OfflineMechanism
    >>> from dpmarket.mechanisms.objective import PaperObjective
    >>> mechanism = OfflineMechanism(dpm.Uniform(1, 5), PaperObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model, mechanism.rules(), seller_ids=["ann", "bob", "cem"])
    >>> dpm.verify(certificate, openings=certificate.openings()).passed
    True
    """
    if not isinstance(outcome, Outcome):
        raise NotCertifiable(
            f"expected an Outcome, whose promises do not depend on records, got {type(outcome).__name__}: "
            "no privacy promise follows from it."
        )
    statistic = _released_statistics(model)
    if statistic is None:
        _refuse_uncertifiable(model)
    elif not all(one.release.certifiable for one in statistic.statistics):
        raise NotCertifiable("expected a statistic with secret noise; this one's can be repeated.")
    names = np.arange(outcome.epsilons.size) if seller_ids is None else np.array(list(seller_ids))
    checks.same_length("seller_ids", names, "outcome.epsilons", outcome.epsilons)
    spent, weights = _by_seller(names, model)
    payments = outcome.payments
    if minor_units is not None:
        payments = whole_units(payments, minor_units).astype(np.float64)
    purchase = Purchase(
        mechanism=str(market["mechanism"]),
        parameters=market,
        seller_ids=names,
        promises=outcome.epsilons,
        payments=payments,
        minor_units=minor_units,
        spent=spent,
        weights=weights,
        withdrew=_named(names, withdrawn),
        quotes=np.ones(outcome.epsilons.size, dtype=np.int64),
        currency=currency,
    )
    if statistic is not None:
        return certify_purchase(purchase, statistic, already_spent)
    return certify_purchase(purchase, ReleasedModel.of(model, features), already_spent)  # type: ignore[arg-type]


def _released_statistics(model: object) -> ReleasedStatistics | None:
    """Return the public part of one statistic or several, None of a model."""
    if isinstance(model, SeveralStatistics):
        return ReleasedStatistics.of_several(model)
    if isinstance(model, PrivateLogisticRegression):
        return None
    return ReleasedStatistics.of(model) if hasattr(model, "release_") else None


def certify_purchase(
    purchase: Purchase,
    model: ReleasedModel | ReleasedStatistics,
    already_spent: Mapping[Any, float] | None = None,
    rules: RulesReference | None = None,
) -> Certificate:
    """Return the certificate of a purchase and a released model, or statistics, as :func:`certify` does.

    That the noise was secret and the classes were declared is the caller's word here.

    Parameters
    ----------
    purchase
        What was promised to, paid to and spent by every seller.
    model
        The public constants of the model, or of the statistics.
    already_spent
        As for :func:`certify`.
    rules
        Which published rules the quotes followed, if any were published.

    Returns
    -------
    Certificate

    Raises
    ------
    NotCertifiable
        If a promise was exceeded, by this model alone or with what was spent before, the spent epsilons
        do not follow from the weights, something was spent on who withdrew, or a public constant is not
        within what a verifier accepts.
    InvalidInput
        If ``already_spent`` names somebody who is no seller.
    """
    before = _spent_before(purchase, already_spent)
    exceeded = int(np.count_nonzero(purchase.spent + before > purchase.promises))
    if exceeded:
        raise NotCertifiable(f"expected nobody's promise exceeded, found {exceeded} sellers whose was.")
    _check_accounting(purchase, model)
    _check_delta(purchase, model, before)
    if bool(((purchase.spent + purchase.weights)[purchase.withdrew] > 0.0).any()):
        raise NotCertifiable("expected nothing spent on who withdrew; somebody's record was used.")
    values = np.column_stack([purchase.promises, purchase.payments, purchase.spent, purchase.weights])
    states = purchase.withdrew.copy(), purchase.quotes.copy()
    lines = Lines(np.array(purchase.seller_ids), values, fresh_salts(len(values)), *states)
    tree = commit(lines)
    body = body_of(purchase, model, lines, tree.root, rules)
    return Certificate(_canonical(body).rstrip(b"\n"), lines, tree)


def _refuse_uncertifiable(model: object) -> None:
    if not isinstance(model, PrivateLogisticRegression) or not hasattr(model, "description_"):
        raise NotCertifiable("expected a fitted PrivateLogisticRegression.")
    if model.classes is None:
        raise NotCertifiable(
            "expected a model with declared classes; these were read from the labels, which tells about them."
        )
    if not model.certifiable_:
        raise NotCertifiable("expected a model with secret noise; this one's can be repeated by its seed.")


def _by_seller(names: npt.NDArray[Any], model: Any) -> tuple[FloatArray, FloatArray]:
    """Return what was spent on each seller and the seller's weight, in the order of their ids.

    The weight in a statistic is told as what it spends.
    """
    sellers = names.size
    if isinstance(model, SeveralStatistics):
        own = weights_of_several(model)
    else:
        own = model.loss_weights_ if hasattr(model, "description_") else model.epsilons_
    if model.people_ is None:
        if model.epsilons_.size != sellers:
            raise NotCertifiable(
                f"expected a model trained with the promises of {sellers} sellers, got one of "
                f"{model.epsilons_.size}; name the sellers with people= if some have no record."
            )
        return np.array(model.epsilons_), np.array(own)
    place = {name: k for k, name in enumerate(names.tolist())}
    known = [place.get(name) for name in model.people_]
    if None in known:
        raise NotCertifiable(
            "expected every person in the model to be a seller of the outcome; some are not."
        )
    where = np.array(known, dtype=np.int64)
    spent, weights = np.zeros(sellers), np.zeros(sellers)
    spent[where], weights[where] = model.epsilons_, own
    return spent, weights


def _spent_before(purchase: Purchase, already_spent: Mapping[Any, float] | None) -> FloatArray:
    if not already_spent:
        return np.zeros(purchase.promises.size)
    names = purchase.seller_ids.tolist()
    strangers = len(already_spent.keys() - set(names))
    if strangers:
        raise InvalidInput(
            f"expected already_spent to name sellers of this purchase, found {strangers} ids of nobody."
        )
    return checks.non_negative_vector("already_spent", [already_spent.get(name, 0.0) for name in names])


def _named(names: npt.NDArray[Any], withdrawn: Iterable[Any]) -> BoolArray:
    """Return which sellers are named as withdrawn."""
    wanted = set(withdrawn)
    if not wanted:
        return np.zeros(names.size, dtype=bool)
    place = {name: k for k, name in enumerate(names.tolist())}
    strangers = len(wanted - place.keys())
    if strangers:
        raise InvalidInput(
            f"expected withdrawn to name sellers of the outcome, found {strangers} ids of nobody."
        )
    found = np.zeros(len(place), dtype=bool)
    found[[place[name] for name in wanted]] = True
    return found


def _check_accounting(purchase: Purchase, model: ReleasedModel | ReleasedStatistics) -> None:
    """Refuse to certify numbers that do not follow from one another."""
    if isinstance(model, ReleasedStatistics):
        refuse_other_spending(model, purchase.spent, purchase.weights)
        return
    charged = model.charged(purchase.weights)
    if not bool((purchase.spent >= charged * (1.0 - 2e-16)).all()):
        raise NotCertifiable("expected spent epsilons that follow from the model's weights; they do not.")


def _check_delta(purchase: Purchase, model: ReleasedModel | ReleasedStatistics, before: FloatArray) -> None:
    """Refuse a delta above the one at which epsilons were priced, or one that is not all of it."""
    delta = 0.0 if isinstance(model, ReleasedStatistics) else model.delta
    if delta == 0.0:
        return
    stated = priced_delta(dict(purchase.parameters))
    if stated is not None and delta > stated:
        raise NotCertifiable(
            f"expected a delta of at most {stated!r}, at which epsilons were priced, got {delta!r}."
        )
    if bool((before > 0.0).any()):
        raise NotCertifiable(
            "expected nothing already spent with a delta: deltas add up, and how much of it was spent before "
            "is not known."
        )


def _canonical(data: object) -> bytes:
    """Return the one JSON text of this data: keys sorted, no spaces, floats in their shortest form."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"
