"""An audit of another library, in an environment of its own: its claim fails where rows are long."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_the_claim_fails_for_long_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("audit_diffprivlib", BENCHMARKS / "audit_diffprivlib.py")
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "audit_diffprivlib", script)
    spec.loader.exec_module(script)
    place = importlib.import_module("_diffprivlib_environment")
    if not (place.FOLDER / "ready").exists():
        pytest.skip("diffprivlib's environment is not there: run benchmarks/audit_diffprivlib.py once")
    # False alarm at rate 1e-3.
    findings = script.audit(place.python_of_environment(), 1000.0, 8_000)
    assert findings.found[0] > 1.0
    assert not findings.passed
