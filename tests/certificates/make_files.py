"""Write stored certificates: `python tests/certificates/make_files.py NAME ...` from the repository's root.

Without a name all of them.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.certificates import HONEST, cross_priced, honest, reports_file
from support.forging import FILES

if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*HONEST, "cross-priced"]:
        if name == "cross-priced":
            made, costs, rules = cross_priced()
            (FILES / f"{name}.reports.csv").write_bytes(reports_file(costs))
            (FILES / f"{name}.rules.json").write_bytes(rules.encode() + b"\n")
        else:
            made = honest(name)
        (FILES / f"{name}.json").write_bytes(bytes(made))
        (FILES / f"{name}.openings.json").write_bytes(made.openings())
