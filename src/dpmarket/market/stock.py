"""Keep key pairs in stock, so that a process which opens campaigns needs no campaign's private key.

A worker makes pairs: private halves go to the folder of campaigns' keys, public halves to the operator's. Who
opens a campaign takes a public half away; nobody else can take the same one.
"""

from __future__ import annotations

import os
from pathlib import Path

from dpmarket.errors import FileProblem
from dpmarket.market.desk import Desk
from dpmarket.market.keys import SPARE, new_key
from dpmarket.market.wrapping import flush_folder, write_private

STOCK = 4
"""How many public keys wait for campaigns that are opened."""

_ENDING = ".public"


def key_for(desk: Desk, campaign: str) -> bytes:
    """Return the public key of a campaign that is about to be opened.

    Where campaigns' keys have a folder of their own, it is one from stock; else a new pair is made.

    Raises
    ------
    FileProblem
        There is none in stock, or none can be made.
    """
    if desk.keys == desk.operator_keys:
        return new_key(desk.keys, campaign)
    for path in spare_keys(desk):
        try:
            public = path.read_bytes()
            path.unlink()  # only one of two who try succeeds
        except FileNotFoundError:
            continue
        except OSError as problem:
            raise FileProblem(f"cannot take a key from stock: {problem.strerror or problem}.") from None
        return public
    raise FileProblem("no key for a campaign is in stock: is a worker running?")


def stock_keys(desk: Desk) -> int:
    """Make pairs until enough are in stock, where the folders of keys are two; return how many were made."""
    if desk.keys == desk.operator_keys:
        return 0
    missing = STOCK - len(spare_keys(desk))
    for _ in range(missing):
        public = new_key(desk.keys, SPARE)  # first: a public half without its private one would lose records
        try:
            # Written whole under another name first: who takes a key must not find half of one.
            path = desk.operator_keys / f"{SPARE}-{public.hex()}{_ENDING}"
            temporary = path.with_name(f".{path.name}.tmp")
            write_private(temporary, public)
            os.replace(temporary, path)
            flush_folder(desk.operator_keys)
        except OSError as problem:
            raise FileProblem(f"cannot put a key in stock: {problem.strerror or problem}.") from None
    return max(missing, 0)


def spare_keys(desk: Desk) -> list[Path]:
    """Return the files of the public keys that are in stock."""
    return sorted(desk.operator_keys.glob(f"{SPARE}-*{_ENDING}"))
