"""Read files that another installed package ships, without importing that package.

Its own code does not run: some packages write into the home folder when imported, others take seconds.
"""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import read_bytes


def packaged_file(package: str, path: str, extra: str) -> bytes:
    """Return the bytes of a file inside an installed package, which dpmarket's ``extra`` installs."""
    return read_bytes(_folder(package, extra) / path)


def packaged_member(package: str, archive: str, member: str, extra: str) -> bytes:
    """Return the bytes of a member of a tar archive inside an installed package; nothing is unpacked."""
    path = _folder(package, extra) / archive
    try:
        with tarfile.open(path) as bundle:
            found = bundle.extractfile(member)
            if found is None:
                raise KeyError
            return found.read()
    except KeyError:
        raise FileProblem(f"cannot find {member} in {path}; another version of {package} may.") from None
    except (OSError, tarfile.TarError):
        raise FileProblem(f"cannot read {path} as a tar archive.") from None


def _folder(package: str, extra: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise FileProblem(
            f"cannot find the package {package}, which ships these data; install dpmarket with its extra "
            f"{extra!r} (pip install 'dpmarket[{extra}]')."
        )
    return Path(found.submodule_search_locations[0])
