"""Turn an outcome and a trained model into a certificate, and a receipt for every seller.

A certificate is a JSON file of fixed layout. Its first line holds the *body*: public parameters, totals, the
model as grid integers, the root of all commitments, and what is not promised. The lines after it are the
commitments. The SHA-256 of the body's bytes is the certificate's *digest*; since the body holds the root, it
stands for the commitments, too. The digest is not in the file: every receipt has it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from array import array
from binascii import hexlify
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.certificates.commitments import VALUES, Lines, Tree, commit, fresh_salts
from dpmarket.certificates.purchase import Purchase, ReleasedModel
from dpmarket.errors import FileProblem, InvalidInput, NotCertifiable
from dpmarket.files import private_bytes, read_bytes, write_bytes
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import Outcome
from dpmarket.privacy import privacy_loss
from dpmarket.version import __version__

SCHEMA = "dpmarket.certificate/1"
RECEIPT = "dpmarket.receipt/1"
OPENINGS = "dpmarket.openings/1"
NOT_PROMISED = (
    "That anybody's cost is secret: promises and payments follow from reported costs.",
    "That the records were true, or collected lawfully.",
    "Anything about what can be learnt by watching the computation: time, memory, power, error messages.",
    "Anything beyond this one model: further releases from the same records add to what was spent.",
    "That the stated program ran: the computation itself is not proved, only its accounting.",
)


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
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5], seller_ids=["ann", "bob", "cem"])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model)
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
        digest = self.digest
        for k in range(len(self.lines)):
            yield self.lines.ids[k].item(), self._receipt(k, digest)

    def receipt(self, seller_id: object) -> bytes:
        """Return one seller's receipt: the line, its salt, its path to the root and the digest."""
        places = [k for k, name in enumerate(self.lines.ids.tolist()) if name == seller_id]
        if not places:
            raise InvalidInput("expected the id of a seller in this certificate, found no such seller.")
        return self._receipt(places[0], self.digest)

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
                "salt": [lines.salt(k) for k in range(len(lines))],
            }
        )

    def _receipt(self, k: int, digest: str) -> bytes:
        position = int(self.tree.positions[k])
        return _canonical(
            {
                "schema": RECEIPT,
                "certificate": digest,
                "line": self.lines.line(k),
                "salt": self.lines.salt(k),
                "position": position,
                "path": self.tree.path(position),
            }
        )


def certify(
    outcome: Outcome,
    model: PrivateLogisticRegression,
    *,
    minor_units: int | None = None,
    already_spent: Mapping[Any, float] | None = None,
) -> Certificate:
    """Return the certificate of a purchase and the model trained from it.

    Parameters
    ----------
    outcome
        What was promised and paid.
    model
        Fitted with these promises: either one record per seller in the outcome's order, or with ``people``
        named by seller ids. Sellers without a record have spent nothing.
    minor_units
        How many smallest units of the currency make one unit of money, if payments are certified as whole
        numbers of them (``outcome.in_minor_units``); None certifies the unrounded payments.
    already_spent
        What was spent of a seller's promise before this model, by id (a ledger); missing ids mean 0.

    Returns
    -------
    Certificate
        ``bytes`` of it are the public file; ``receipt`` is for one seller, ``openings`` for an auditor.

    Raises
    ------
    NotCertifiable
        If the noise was seeded, the classes were read from the data, the outcome is not one whose promises
        are independent of the records, the model was not trained with these promises, or a promise was
        exceeded, by this model alone or with what was spent before.

    Guarantees
    ----------
    * Everything that ``verify`` can check holds for the returned certificate.
    * The file contains no seller's id, line or cost, and nothing from which one could be tried out: every
      commitment has 256 bits of secret salt. Totals are public: where one seller alone was bought from, they
      are that seller's numbers.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 2.5], seller_ids=["ann", "bob", "cem"])
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1))
    >>> model = model.fit([[0.2], [0.4], [-0.5]], [0, 1, 1], epsilons=outcome.epsilons)
    >>> certificate = dpm.certify(outcome, model)
    >>> dpm.verify(certificate, openings=certificate.openings()).passed
    True
    """
    if not isinstance(outcome, Outcome):
        raise NotCertifiable(
            f"expected an Outcome, whose promises do not depend on records, got {type(outcome).__name__}: "
            "no privacy promise follows from it."
        )
    _refuse_uncertifiable(model)
    spent, weights = _by_seller(outcome, model)
    if minor_units is None:
        payments = outcome.payments
    else:
        payments = outcome.in_minor_units(minor_units).amounts.astype(np.float64)
    purchase = Purchase(
        mechanism=outcome.mechanism,
        parameters=outcome.parameters,
        seller_ids=outcome.seller_ids,
        promises=outcome.epsilons,
        payments=payments,
        minor_units=minor_units,
        spent=spent,
        weights=weights,
    )
    return certify_purchase(purchase, ReleasedModel.of(model), already_spent)


def certify_purchase(
    purchase: Purchase, model: ReleasedModel, already_spent: Mapping[Any, float] | None = None
) -> Certificate:
    """Return the certificate of a purchase and a released model, as :func:`certify` does.

    That the noise was secret and the classes were declared is the caller's word here.

    Parameters
    ----------
    purchase
        What was promised to, paid to and spent by every seller.
    model
        The public constants of the model.
    already_spent
        As for :func:`certify`.

    Returns
    -------
    Certificate

    Raises
    ------
    NotCertifiable
        If a promise was exceeded, by this model alone or with what was spent before, or the spent epsilons
        do not follow from the weights.
    """
    before = _spent_before(purchase, already_spent)
    exceeded = int(np.count_nonzero(purchase.spent + before > purchase.promises))
    if exceeded:
        raise NotCertifiable(f"expected nobody's promise exceeded, found {exceeded} sellers whose was.")
    _check_accounting(purchase, model)
    values = np.column_stack([purchase.promises, purchase.payments, purchase.spent, purchase.weights])
    lines = Lines(np.array(purchase.seller_ids), values, fresh_salts(len(values)))
    tree = commit(lines)
    body = {
        "schema": SCHEMA,
        "mechanism": purchase.mechanism,
        "market": dict(purchase.parameters),
        "training": _training(model, float(purchase.weights.sum())),
        "model": {"coef_grid": list(model.coef_grid), "grid": model.grid, "stretch": model.stretch},
        "money": {"minor_units": purchase.minor_units},
        "totals": {**_totals(lines), "withdrawn": purchase.withdrawn},
        "root": tree.root.hex(),
        "versions": {
            "dpmarket": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "scipy": scipy.__version__,
        },
        "not_promised": list(NOT_PROMISED),
    }
    return Certificate(_canonical(body).rstrip(b"\n"), lines, tree)


def write_certificate(
    certificate: Certificate,
    target: str | os.PathLike[str],
    openings: str | os.PathLike[str],
    overwrite: bool = False,
) -> None:
    """Write the certificate and, to a new file that only its owner can read, the confidential openings.

    The openings come first and are never overwritten: without its own openings no receipt of a certificate
    can be made.

    Parameters
    ----------
    certificate
        What :func:`certify` gave.
    target, openings
        Two different files, no streams.
    overwrite
        Whether an existing ``target`` is replaced; without it, it is refused.

    Raises
    ------
    InvalidInput
        If both are the same file, or one is a stream.
    FileProblem
        If a file exists that must not, or cannot be written.
    """
    for path in (target, openings):
        if os.fspath(path) == "-":
            raise InvalidInput("expected files for certificate and openings, got a stream.")
    if os.path.realpath(target) == os.path.realpath(openings):
        raise InvalidInput("expected two files: the certificate is public, the openings are not.")
    private_bytes(openings, certificate.openings())
    write_bytes(target, bytes(certificate), overwrite)


def read_certificate(source: str | os.PathLike[str], openings: str | os.PathLike[str]) -> Certificate:
    """Read a certificate and its openings back, for making receipts.

    Parameters
    ----------
    source, openings
        The two files that :func:`write_certificate` made.

    Returns
    -------
    Certificate
        The same, byte by byte.

    Raises
    ------
    FileProblem
        If a file cannot be read, or the two do not belong together.
    """
    data = read_bytes(source)
    try:
        opened = json.loads(read_bytes(openings))
        if opened["schema"] != OPENINGS:
            raise ValueError
        values = np.array([opened[name] for name in VALUES], dtype=np.float64).T
        lines = Lines(np.array(opened["id"]), values.copy(), bytes.fromhex("".join(opened["salt"])))
        body = data[len(b'{"body":') : data.index(b',\n"commitments"')]
    except (KeyError, TypeError, ValueError):
        raise FileProblem(f"expected a certificate in {source} and its openings in {openings}.") from None
    certificate = Certificate(body, lines, commit(lines))
    if bytes(certificate) != data or certificate.digest != opened["certificate"]:
        raise FileProblem(f"the openings in {openings} do not belong to the certificate in {source}.")
    return certificate


def _refuse_uncertifiable(model: PrivateLogisticRegression) -> None:
    if not isinstance(model, PrivateLogisticRegression) or not hasattr(model, "coef_grid_"):
        raise NotCertifiable("expected a fitted PrivateLogisticRegression.")
    if model.classes is None:
        raise NotCertifiable(
            "expected a model with declared classes; these were read from the labels, which tells about them."
        )
    if not model.certifiable_:
        raise NotCertifiable("expected a model with secret noise; this one's can be repeated by its seed.")


def _by_seller(outcome: Outcome, model: PrivateLogisticRegression) -> tuple[FloatArray, FloatArray]:
    """Return what was spent on each seller and the seller's weight, in the outcome's order."""
    sellers = outcome.epsilons.size
    if model.people_ is None:
        if model.epsilons_.size != sellers:
            raise NotCertifiable(
                f"expected a model trained with the promises of {sellers} sellers, got one of "
                f"{model.epsilons_.size}; name the sellers with people= if some have no record."
            )
        return np.array(model.epsilons_), np.array(model.loss_weights_)
    place = {name: k for k, name in enumerate(outcome.seller_ids.tolist())}
    known = [place.get(name) for name in model.people_]
    if None in known:
        raise NotCertifiable(
            "expected every person in the model to be a seller of the outcome; some are not."
        )
    where = np.array(known, dtype=np.int64)
    spent, weights = np.zeros(sellers), np.zeros(sellers)
    spent[where], weights[where] = model.epsilons_, model.loss_weights_
    return spent, weights


def _spent_before(purchase: Purchase, already_spent: Mapping[Any, float] | None) -> FloatArray:
    if not already_spent:
        return np.zeros(purchase.promises.size)
    names = purchase.seller_ids.tolist()
    return checks.non_negative_vector("already_spent", [already_spent.get(name, 0.0) for name in names])


def _training(model: ReleasedModel, weight_total: float) -> dict[str, Any]:
    return {
        "l2": model.l2,
        "total_epsilon": model.noise_rate,
        "row_bound": model.row_bound,
        "rows_per_person": model.rows_per_person,
        "weight_total": weight_total * (1.0 + 1e-9),
        "n_coefficients": len(model.coef_grid),
        "fit_intercept": model.fit_intercept,
        "intercept_scaling": model.intercept_scaling,
        "clip": model.clip,
        "classes": list(model.classes),
        "gradient_bound": model.gradient_bound,
        "noise_accuracy": model.noise_accuracy,
        "numerical_epsilon": model.numerical_epsilon,
    }


def _check_accounting(purchase: Purchase, model: ReleasedModel) -> None:
    """Refuse to certify numbers that do not follow from one another."""
    weights = purchase.weights
    charged = privacy_loss(weights, model.noise_rate, model.l2, model.row_bound, model.rows_per_person)
    charged = np.where(weights > 0.0, charged + model.numerical_epsilon, 0.0)
    if not bool((purchase.spent >= charged * (1.0 - 1e-12)).all()):
        raise NotCertifiable("expected spent epsilons that follow from the model's weights; they do not.")


def _totals(lines: Lines) -> dict[str, Any]:
    # Summing an array's own numbers spares a million objects.
    promised, paid, spent = (math.fsum(array("d", lines.values[:, k].tobytes())) for k in range(3))
    return {
        "sellers": len(lines),
        "bought_from": int(np.count_nonzero(lines.values[:, 0])),
        "promised": promised,
        "paid": paid,
        "spent": spent,
    }


def _canonical(data: object) -> bytes:
    """Return the one JSON text of this data: keys sorted, no spaces, floats in their shortest form."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"
