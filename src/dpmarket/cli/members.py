"""``dpmarket member add``, ``list``, ``link``, ``end``: who works with a service, as what."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmarket.cli.arguments import JsonFlag
from dpmarket.cli.serve import Folder, need_extra, tell_member
from dpmarket.files import to_json

app = typer.Typer(help="Who works with a service, as what.")
Who = Annotated[str, typer.Argument(help="The member's id, or a name that only one member has.")]


@app.command(epilog="Example: dpmarket member add hospital 'A clinic' buyer")
def add(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The name that sellers are shown.")],
    roles: Annotated[list[str], typer.Argument(help="buyer, paymaster, auditor or operator; several.")],
    as_json: JsonFlag = False,
) -> None:
    """Enter a member with roles in all campaigns; token and link are shown once."""
    need_extra()
    from dpmarket.web.folder import new_member, opened_folder

    with opened_folder(folder) as (market, settings):
        tell_member(new_member(market, name, roles, settings.public_url), as_json)


@app.command("list", epilog="Example: dpmarket member list hospital")
def list_(folder: Folder, as_json: JsonFlag = False) -> None:
    """List members with their roles, and how many tokens, links and sessions are good."""
    need_extra()
    from dpmarket.web.folder import members_of, opened_folder

    with opened_folder(folder) as (market, _):
        found = members_of(market)
    if as_json:
        typer.echo(to_json([vars(one) for one in found]), nl=False)
        return
    for one in found:
        ended = "" if one.ended_at is None else f", ended {one.ended_at}"
        typer.echo(f"{one.id:>5}  {', '.join(one.roles):<20} {one.tokens:>3} tokens  {one.name}{ended}")


@app.command(epilog="Example: dpmarket member link hospital 'A clinic'")
def link(folder: Folder, member: Who, as_json: JsonFlag = False) -> None:
    """Make a new API token, and a link that signs a member in once, within a week; older ones stay good."""
    need_extra()
    from dpmarket.web.folder import member_named, new_links, opened_folder

    with opened_folder(folder) as (market, settings):
        token, made = new_links(market, member_named(market, member), settings.public_url)
    if as_json:
        typer.echo(to_json({"token": token, "link": made}), nl=False)
        return
    typer.echo("shown once:")
    typer.echo(f"  API token  {token}")
    typer.echo(f"  sign in    {made}")


@app.command(epilog="Example: dpmarket member end hospital 'A clinic'")
def end(folder: Folder, member: Who, as_json: JsonFlag = False) -> None:
    """End a membership with all its tokens, links and sessions, at once."""
    need_extra()
    from dpmarket.campaign.access import end_member
    from dpmarket.campaign.acts import OWNER
    from dpmarket.web.folder import member_named, opened_folder

    with opened_folder(folder) as (market, _):
        market.run(end_member, OWNER, member_named(market, member))
    typer.echo(to_json({"ended": member}) if as_json else "The membership has ended.", nl=not as_json)
