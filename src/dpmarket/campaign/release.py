"""The release of a campaign: records and epsilons in, a document with noise out.

What can be refused is refused before any noise is drawn; in the moment before, the caller's ``before_noise``
is called, which passes the commit point.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.rules import released
from dpmarket.campaign.rules.columns import OUTCOME, Records, encoder_of, loss_of, norm_of, stated_loss
from dpmarket.campaign.rules.questions import several_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import Release, Result
from dpmarket.errors import FileProblem, Infeasible, InvalidInput
from dpmarket.numerics import exact_sum
from dpmarket.privacy.noise import Bits, NoiseSource, SecureNoise, entropy
from dpmarket.version import __version__


@dataclass(frozen=True)
class LastMoment(SecureNoise):
    """Secure noise that calls ``before_noise`` once entropy is there, before any is drawn; it may raise."""

    before_noise: Callable[[], None]

    def bits(self) -> Bits:
        """Call ``before_noise``, then return a stream of fresh random bits."""
        entropy(32)
        self.before_noise()
        return super().bits()


class FarRecords(Protocol):
    """Records on other machines, of sellers in the order of their epsilons."""

    columns: Mapping[str, Any]

    def train(self, estimator: Any, encoder: Any, epsilons: FloatArray) -> None:
        """Fit an estimator on the encoded records."""


AnyRecords: TypeAlias = Records | FarRecords
Made: TypeAlias = tuple[released.Released, FloatArray, FloatArray]
"""A release, what it spent on each seller, and with which weight."""


def release_for(rules: Rules) -> Release:
    """Return what draws the noise of a campaign of these rules, once, and what it spent on each seller.

    Guaranteed: nobody spends more than the epsilon that was quoted; ``InvalidInput``, ``Infeasible`` and
    ``NotConverged`` are raised before ``before_noise`` is called.
    """

    def release(records: AnyRecords, epsilons: FloatArray, before_noise: Callable[[], None]) -> Result:
        found, spent, weights = released_by(rules, records, epsilons, LastMoment(before_noise))
        return Result(found.to_json().encode(), spent, weights)

    return release


def released_by(rules: Rules, records: AnyRecords, epsilons: FloatArray, noise: NoiseSource) -> Made:
    """Return a release by these rules, what it spent on each seller, and with which weight."""
    return (_statistics if rules.statistics else _model)(rules, records, epsilons, noise)


def _model(rules: Rules, records: AnyRecords, epsilons: FloatArray, noise: NoiseSource) -> Made:
    encoder, predicts = encoder_of(rules), rules.target or rules.label
    assert predicts is not None
    if rules.training.model is not None:
        settings = network_of(rules)
    else:
        settings = {
            "l2": penalty_for(rules, epsilons),
            "noise_norm": encoder.noise_norm(),
            "numerical_epsilon": rules.training.numerical_epsilon,
            "rows_per_person": rules.sellers.rows_per_person,
        }
    settings |= {"delta": rules.objective.delta, "noise_source": noise}
    try:
        estimator = released.estimator_for(predicts, **settings)
    except TypeError as problem:
        raise InvalidInput(f"cannot use what the factory of training.model made: {problem}.") from None
    if isinstance(records, Records):
        features = {name: records.columns[name] for name in rules.features}
        rows, outcome = encoder.fit_transform(features), records.columns[OUTCOME]
        share = rules.training.intervals
        more = {} if share is None else {"intervals": share}
        estimator.fit(rows, outcome, **more, **_owned(rules, epsilons, records.owners))
    else:
        records.train(estimator, encoder, epsilons)
    found = released.ModelFile(
        schema=released.MODEL,
        dpmarket=__version__,
        id_column=rules.sellers.id_column,
        predicts=predicts,
        encoder=encoder.to_dict(),
        outside_bounds=rules.training.outside_bounds,
        records=epsilons.size,  # people, not rows: how many somebody has is private
        effective_people=estimator.effective_people_,
        description=estimator.description_ | ({"loss": stated_loss(rules)} if estimator.delta_ else {}),
        intercept_scaling=getattr(estimator, "intercept_scaling_", 1.0),
        shrinkage_correction=1.0 if estimator.delta_ else estimator.shrinkage_correction_,
        secure_noise=estimator.certifiable_,
    )
    return found, estimator.epsilons_, estimator.loss_weights_


def network_of(rules: Rules) -> dict[str, Any]:
    """Return what the factory of the rules' torch model makes: parameters of an estimator, with ``module``.

    Nothing else imports the buyer's code. Prices follow from the announced number of weights: refused are
    code that is not here or has another digest, and a module with another number of weights.
    """
    from dpmarket.learning.torch_factory import made_by
    from dpmarket.learning.torch_gradients import Network  # takes torch along

    training, features = rules.training, norm_of(rules).n_coefficients - 1  # without the constant
    assert training.model is not None
    assert training.code is not None
    outputs = 1 if rules.label is None else len(rules.label.values)
    made = made_by(training.model, training.code, features, outputs)
    try:
        found = Network(made.get("module")).weights.size
    except InvalidInput as problem:
        raise FileProblem(f"cannot use training.model: {problem}") from None
    if found != training.parameters:
        raise FileProblem(
            f"training.parameters: expected {found}, as the model of {training.model} has, got "
            f"{training.parameters}."
        )
    return made


def _owned(rules: Rules, epsilons: FloatArray, owners: IntArray) -> dict[str, Any]:
    """Return epsilons and owners as ``fit`` takes them: sellers are numbered from 0."""
    if rules.sellers.rows_per_person == 1 and np.array_equal(owners, np.arange(epsilons.size)):
        return {"epsilons": epsilons}
    return {"epsilons": dict(enumerate(epsilons.tolist())), "people": owners}


def penalty_for(rules: Rules, epsilons: FloatArray) -> float | None:
    """Return the rules' penalty, or the least one that keeps these epsilons where the rules' cannot.

    None: it is suggested, or there is none, with a delta. A function of epsilons and public constants.
    """
    from dpmarket.privacy import Release as LossRelease

    l2, reserve = rules.training.l2, rules.training.numerical_epsilon
    if l2 is None or rules.objective.delta is not None:
        return l2
    release = LossRelease(loss_of(rules), norm_of(rules), l2, rules.sellers.rows_per_person)
    try:
        release.weights(epsilons, reserve)
    except Infeasible:
        return release.least_l2(exact_sum(np.maximum(epsilons - reserve, 0.0)))
    return l2


def _statistics(rules: Rules, records: AnyRecords, epsilons: FloatArray, noise: NoiseSource) -> Made:
    """Release statistics; what they spend on a seller is exactly the seller's weight in them."""
    rows = rules.sellers.rows_per_person
    several = several_of(rules.statistics, rows)
    for statistic in several.statistics.values():
        statistic.noise_source = noise
    columns = {name: records.columns[name] for name in several.statistics}
    owned: dict[str, Any] = {"epsilons": epsilons}
    if isinstance(records, Records):
        owned = _owned(rules, epsilons, records.owners)
    several.fit(columns, **owned)
    spent = np.minimum(sum(several.spent_by_.values(), np.zeros(epsilons.size)), epsilons)
    found = released.StatisticsFile(
        schema=released.STATISTICS,
        dpmarket=__version__,
        records=epsilons.size,
        rows_per_person=rows,
        outside_bounds=rules.training.outside_bounds,
        secure_noise=all(release.certifiable for release in several.releases_.values()),
        statistics={
            name: released.AskedStatistic(
                columns=rules.statistics[name].names, share=several.share(name), release=made.to_dict()
            )
            for name, made in several.releases_.items()
        },
    )
    return found, spent, spent
