"""Read forms with files in them, in memory: nothing that is uploaded touches a disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.forms import Form

_FILES, _FIELDS = 3, 20
_MEMORY = 2**31  # the guard's limit of a request is far below


@dataclass(frozen=True)
class Upload:
    """What a form with files sent. Private: it may hold a receipt, or names of people.

    Attributes
    ----------
    form
        Its fields.
    files
        By field, the files that were chosen.
    """

    form: Form
    files: dict[str, bytes]

    def __repr__(self) -> str:
        return f"Upload({len(self.files)} files)"


async def uploaded(request: Request) -> Upload:
    """Return the form with files that a request sends.

    Raises
    ------
    MarketRefusal
        It is no such form, or has too many parts.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise MarketRefusal("invalid", "expected a form with files.")
    parser = MultiPartParser(
        request.headers, request.stream(), max_files=_FILES, max_fields=_FIELDS, max_part_size=_MEMORY
    )
    parser.spool_max_size = _MEMORY
    fields: dict[str, str] = {}
    files: dict[str, bytes] = {}
    try:
        parts = await parser.parse()
    except (MultiPartException, KeyError, UnicodeDecodeError):
        raise MarketRefusal("invalid", "expected a form with files.") from None
    for name, value in parts.multi_items():
        if isinstance(value, UploadFile):
            content = await value.read()
            await value.close()
            if content:
                files[name] = content
        elif "\0" not in value:
            fields[name] = value
    return Upload(Form(fields), files)


Uploaded = Annotated[Upload, Depends(uploaded)]
