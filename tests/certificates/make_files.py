"""Write the stored certificates: `python tests/certificates/make_files.py` from the repository's root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.certificates import HONEST, cross_priced, honest, reports_file
from support.forging import FILES

if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    for name in HONEST:
        made = honest(name)
        (FILES / f"{name}.json").write_bytes(bytes(made))
        (FILES / f"{name}.openings.json").write_bytes(made.openings())
    made, costs, rules = cross_priced()
    (FILES / "cross-priced.json").write_bytes(bytes(made))
    (FILES / "cross-priced.openings.json").write_bytes(made.openings())
    (FILES / "cross-priced.reports.csv").write_bytes(reports_file(costs))
    (FILES / "cross-priced.rules.json").write_bytes(rules.encode() + b"\n")
