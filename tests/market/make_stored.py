"""Make a small desk as another version of the package writes it, for tests of upgrades.

From the folder of that version's source (``git archive COMMIT src tests``):

    python make_stored.py SOURCE data/REVISION.tar.gz

The people are invented, and so are the keys that lie beside the ledger.
"""

import gzip
import io
import os
import shutil
import sys
import tarfile
from pathlib import Path

FOLDER = Path("/tmp/dpmarket-stored")  # the log remembers it: the same for everybody who makes one


def main(source: Path, target: Path) -> None:
    """Fill a desk with one campaign that is over and one that goes on, and pack it."""
    sys.path[:0] = [str(source / "src"), str(source / "tests")]
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(mode=0o700)
    os.environ["DPMARKET_STATE"] = str(FOLDER / "state")
    from dpmarket import market
    from support.live import SOLD, Live

    with market.open_desk(FOLDER / "market.ledger", FOLDER / "keys") as desk:
        over = Live(desk, title="over", seats=3)
        for name in ("a", "b"):
            over.newcomer(name, *SOLD)
        going_on = Live(desk, title="going on", seats=3)
        for name, steps in (("a", SOLD), ("c", SOLD), ("d", SOLD[:3]), ("e", SOLD[:1])):
            going_on.newcomer(name, *steps)
        left = going_on.newcomer("f", *SOLD[:1])
        going_on.withdraw(left)
        over.close()
        over.train()
        market.certify_campaign(desk, over.campaign, over.now)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(FOLDER.rglob("*")):
            if path.is_file() and not path.name.endswith(("-wal", "-shm")):
                archive.add(path, str(path.relative_to(FOLDER)), filter=_plain)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    shutil.rmtree(FOLDER)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
