"""Turn plain data into the mechanism that it describes: one list of all mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.gaussian_offline import GaussianMechanism
from dpmarket.mechanisms.gaussian_online import OnlineGaussianMechanism
from dpmarket.mechanisms.offline import OfflineMechanism
from dpmarket.mechanisms.online import SCHEMA as ONLINE
from dpmarket.mechanisms.online import OnlineMechanism
from dpmarket.mechanisms.outcome import Outcome
from dpmarket.mechanisms.simple import CheapestK, PostedPrice, SameForAll

AnyMechanism = (
    OfflineMechanism
    | OnlineMechanism
    | PostedPrice
    | CheapestK
    | SameForAll
    | GaussianMechanism
    | OnlineGaussianMechanism
)

_BY_NAME: dict[str, Callable[[Mapping[str, Any]], AnyMechanism]] = {
    OfflineMechanism.name: OfflineMechanism.from_dict,
    OnlineMechanism.name: OnlineMechanism.from_settings,
    PostedPrice.name: PostedPrice.from_dict,
    CheapestK.name: CheapestK.from_dict,
    SameForAll.name: SameForAll.from_dict,
    GaussianMechanism.name: GaussianMechanism.from_dict,
    OnlineGaussianMechanism.name: OnlineGaussianMechanism.from_dict,
}


def mechanism_from_dict(data: Mapping[str, Any]) -> AnyMechanism:
    """Make the mechanism that plain data describes.

    Parameters
    ----------
    data
        What ``to_dict()`` of any mechanism gave, or ``settings()`` of a market: by the settings a market is
        made to which nobody has come yet, by ``to_dict()`` it goes on where it was.

    Returns
    -------
    AnyMechanism
        The mechanism, which answers every report as the one that gave the data.

    Raises
    ------
    InvalidInput
        Data of no mechanism, or with parts that are missing or wrong.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> buyer = PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0)
    >>> mechanism_from_dict(buyer.to_dict()) == buyer
    True
    """
    if isinstance(data, Mapping) and data.get("mechanism") in _BY_NAME:
        return _BY_NAME[data["mechanism"]](data)
    if isinstance(data, Mapping) and data.get("schema") == ONLINE:
        return OnlineMechanism.from_dict(data)
    raise InvalidInput(f"expected the plain data of a mechanism: {', '.join(_BY_NAME)}.")


def mechanism_of(outcome: Outcome) -> AnyMechanism:
    """Return the mechanism that decided an outcome, from the outcome's public parameters.

    Parameters
    ----------
    outcome
        Of any mechanism of this package.

    Returns
    -------
    AnyMechanism
        The mechanism with the same settings; a market to which nobody has come yet.

    Raises
    ------
    InvalidInput
        The outcome of something else, or one without all settings of its mechanism.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> mechanism_of(PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0).run([1.5, 4.0]))
    PostedPrice(dist=Uniform(low=1.0, high=5.0), epsilon=0.5, price=3.0)
    """
    return mechanism_from_dict({"mechanism": outcome.mechanism, **outcome.parameters})
