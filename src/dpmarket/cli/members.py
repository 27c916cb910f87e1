"""``dpmarket member add``, ``list``, ``link``, ``end``: who works with a service, as what."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmarket.cli.arguments import Shown, command
from dpmarket.cli.serve import Folder, service, tell_member

Who = Annotated[str, typer.Argument(help="The member's id, or a name that only one member has.")]


@command
def add(given: Shown, folder: Folder, name: str, roles: list[str]) -> None:
    """Enter a member with roles in all campaigns; token and link are shown once.

    :param name: The name that sellers are shown.
    :param roles: buyer, paymaster, auditor or operator; several.
    """
    with service(folder) as (market, settings):
        from dpmarket.web.folder import new_member

        tell_member(given.voice(), new_member(market, name, roles, settings.public_url))


@command
def list_(given: Shown, folder: Folder) -> None:
    """List members with their roles, and how many tokens, links and sessions are good."""
    with service(folder) as (market, _):
        from dpmarket.web.folder import members_of

        found = members_of(market)
    lines = [
        f"{one.id:>5}  {', '.join(one.roles):<20} {one.tokens:>3} tokens  {one.name}"
        + ("" if one.ended_at is None else f", ended {one.ended_at}")
        for one in found
    ]
    given.voice().list("Members", lines, [vars(one) for one in found])


@command
def link(given: Shown, folder: Folder, member: Who) -> None:
    """Make a new API token, and a link that signs a member in once, within a week; older ones stay good."""
    with service(folder) as (market, settings):
        from dpmarket.web.folder import member_named, new_links

        token, made = new_links(market, member_named(market, member), settings.public_url)
    lines = [f"API token  {token}", f"sign in    {made}"]
    given.voice().list("shown once:", lines, {"token": token, "link": made})


@command
def end(given: Shown, folder: Folder, member: Who) -> None:
    """End a membership with all its tokens, links and sessions, at once."""
    from dpmarket.campaign.access import end_member
    from dpmarket.campaign.acts import OWNER

    with service(folder) as (market, _):
        from dpmarket.web.folder import member_named

        market.run(end_member, OWNER, member_named(market, member))
    given.voice().list("The membership has ended.", [], {"ended": member})
