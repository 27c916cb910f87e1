"""Every exception of the project: what was expected, what was found, what to do.

All of them derive from :class:`DpmarketError`, so that one ``except`` clause at an edge (a command, a
service) catches everything the project refuses on purpose, and nothing else. Messages never contain
private values: no record, and no reported cost.
"""

from __future__ import annotations

from collections.abc import Sequence


class DpmarketError(Exception):
    """Base class of everything that dpmarket refuses on purpose.

    Its text says what was expected, what was found and, where there is one, the way out.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> try:
    ...     dpm.Uniform(5, 1)
    ... except dpm.DpmarketError as refusal:
    ...     print(refusal)
    expected low < high, got low=5.0, high=1.0.
    """


class InvalidInput(DpmarketError, ValueError):
    """An argument is not what the function's contract asks for.

    Public parameters are quoted in the message; elements of arrays never are, only how many offend and where.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> dpm.Objective(sampling_error=0.2, noise_error=40.0, payment_weight=-0.5)
    Traceback (most recent call last):
        ...
    dpmarket.errors.InvalidInput: expected payment_weight to be finite and > 0, got -0.5.
    >>> issubclass(dpm.InvalidInput, ValueError)
    True
    """


class Infeasible(DpmarketError, ValueError):
    """The arguments are valid one by one, but no solution meets all of them together.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> dpm.privacy.Account(0.5).charge(["ann"], [0.6])
    Traceback (most recent call last):
        ...
    dpmarket.errors.Infeasible: ...
    """


class NotConverged(DpmarketError, ArithmeticError):
    """A computation could not reach the accuracy that its contract promises.

    It returns nothing then: a result that is not accurate is never handed out.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> issubclass(dpm.NotConverged, ArithmeticError)
    True
    """


class EntropyUnavailable(DpmarketError, RuntimeError):
    """The operating system gave no random bits, so that no private model can be made.

    Examples
    --------
    >>> from unittest.mock import patch
    >>> import dpmarket as dpm
    >>> with patch("os.urandom", side_effect=NotImplementedError):
    ...     dpm.PrivateLogisticRegression(epsilon=1.0).fit([[0.5], [-0.5]], [0, 1])
    Traceback (most recent call last):
        ...
    dpmarket.errors.EntropyUnavailable: the operating system gave no entropy; no noise was drawn.
    """


class NotCertifiable(DpmarketError, ValueError):
    """What was done cannot be certified: a promise does not follow from it.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> market = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(3, 0.1))
    >>> outcome = market.run([1.5, 2.0, 2.5])
    >>> rows, labels = [[0.2, 0.1], [0.4, -0.3], [-0.5, 0.2]], [0, 1, 1]
    >>> model = dpm.PrivateLogisticRegression(classes=(0, 1), noise_source=dpm.privacy.SeededNoise(0))
    >>> model = model.fit(rows, labels, epsilons=outcome.epsilons)
    >>> dpm.certify(outcome, model, market.rules())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    dpmarket.errors.NotCertifiable: expected a model with secret noise; ...
    """


class FileProblem(DpmarketError, OSError):
    """A file cannot be read, written or understood; ``details`` holds one sentence per thing found in it.

    Parameters
    ----------
    message
        What could not be done, and with which file.
    details
        Further sentences, one for everything found in the file; none holds a private value.

    Examples
    --------
    >>> import dpmarket as dpm
    >>> dpm.files.read_json("nowhere.json")
    Traceback (most recent call last):
        ...
    dpmarket.errors.FileProblem: cannot read nowhere.json: there is no such file.
    """

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.details = tuple(details)

    def __str__(self) -> str:
        return " ".join((super().__str__(), *self.details))


class MarketRefusal(DpmarketError):
    """The market refuses one act, and everything is as before; ``kind`` says why in a word for programs.

    Parameters
    ----------
    kind
        ``unknown`` (no such thing, or not yours), ``state`` (not possible any more, or not yet), ``expired``
        (too late), ``early`` (too soon), ``invalid`` (not what was asked for), ``funds`` (too little money is
        set aside), ``few`` (people), ``limit`` (of a lifetime), ``confirm`` (a yes is needed) or
        ``reused`` (an idempotency key that belongs to another request).
    message
        What was expected and, where there is one, the way out.

    Examples
    --------
    >>> refusal = MarketRefusal("expired", "this quote could be accepted until yesterday.")
    >>> refusal.kind, str(refusal)
    ('expired', 'this quote could be accepted until yesterday.')
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
