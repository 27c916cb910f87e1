"""The torch model that rules name: a factory, the digest of its code, and how many weights are trained.

Prices follow from the rules alone: the number of weights is announced, and compared with the factory's model
when the campaign opens and before noise is drawn. Nothing else imports the buyer's code.
"""

from __future__ import annotations

from typing import Any

from dpmarket.campaign.rules.columns import loss_of, norm_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import FileProblem, InvalidInput


def stated_loss(rules: Rules) -> dict[str, Any]:
    """Return what is public about the loss, as a release states it."""
    if rules.training.model is None:
        return loss_of(rules).to_dict()
    return {
        "kind": "torch",
        "classes": None if rules.label is None else len(rules.label.values),
        "model": rules.training.model,
        "code": rules.training.code,
    }


def network_of(rules: Rules) -> dict[str, Any]:
    """Return what the factory makes: parameters of an estimator, ``module`` among them.

    Refuses code that is not here or has another digest, and a module without the announced weights.
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
