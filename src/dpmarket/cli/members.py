"""``dpmarket service members``, ``new-link``, ``revoke-member``: who is let in, and who is not any more."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmarket.cli.arguments import JsonFlag
from dpmarket.cli.serve import Folder, need_extra
from dpmarket.files import to_json

Who = Annotated[str, typer.Argument(help="The member's id, or a name that only one member has.")]


def members(folder: Folder, as_json: JsonFlag = False) -> None:
    """List who works with the service, and how many tokens, links and sessions let them in."""
    need_extra()
    from dpmarket.web.setup import list_service_members

    found = list_service_members(folder)
    if as_json:
        typer.echo(to_json([vars(one) for one in found]), nl=False)
        return
    for one in found:
        typer.echo(f"{one.id}  {one.role:<10} {one.tokens:>3} tokens  {one.name}")


def new_link(
    folder: Folder,
    member: Who,
    token: Annotated[bool, typer.Option("--token", help="Make a token for the API as well.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a new link that signs a member in once, within a week; what they have stays good."""
    need_extra()
    from dpmarket.web import setup

    made = setup.new_token(folder, member) if token else None
    link = setup.new_link(folder, member)
    if as_json:
        typer.echo(to_json({"link": link} | ({} if made is None else {"token": made})), nl=False)
        return
    typer.echo("told once, keep it:")
    if made is not None:
        typer.echo(f"  API token  {made}")
    typer.echo(f"  sign in    {link}")


def revoke_member(folder: Folder, member: Who, as_json: JsonFlag = False) -> None:
    """End all tokens, links and sessions of a member at once: they are let in no more."""
    need_extra()
    from dpmarket.web import setup

    ended = setup.revoke_member(folder, member)
    typer.echo(to_json({"revoked": ended}) if as_json else f"{ended} tokens, links and sessions ended.")
