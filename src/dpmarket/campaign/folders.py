"""Find the round of a folder of quotes without reading its partitions."""

from __future__ import annotations

import os
from pathlib import Path

from dpmarket.campaign.quotes import partitions_in, round_in_file
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Connection, Round, rounds
from dpmarket.ledger.manifests import Manifest


def is_folder(quotes: str | os.PathLike[str]) -> bool:
    """Whether quotes lie in a folder of partitions."""
    return Path(quotes).is_dir()


def round_in_folder(connection: Connection, folder: str | os.PathLike[str]) -> tuple[Round, Manifest]:
    """Return the round whose quotes are the partitions in a folder, and where the ledger says they are.

    A partition is checked by its digest when it is read.

    Raises
    ------
    FileProblem
        There are no partitions of quotes in the folder.
    LedgerRefusal
        The ledger has no such round, or its quotes lie in another folder.
    """
    identity = round_in_file(partitions_in(folder)[0])
    found = None if identity is None else rounds.round_with_identity(connection, identity)
    manifest = None if found is None else rounds.manifest_of(connection, found.number)
    if found is None or manifest is None:
        raise LedgerRefusal(
            "no such quotes were given: the ledger has no round whose quotes are the partitions in "
            f"{folder}. Use the folder that 'dpmarket quote --engine' wrote, and its market file."
        )
    if Path(manifest.folder).resolve() != Path(folder).resolve():
        raise LedgerRefusal(
            f"the quotes of this round lie in {manifest.folder}: a copy elsewhere is not used. Move it back."
        )
    return found, manifest
