"""Scripts of the paper import each other by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "paper"))
