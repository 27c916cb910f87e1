"""Plant faults in copies of the source, one in each, and say which test of ``make test`` finds it.

A fault is a line or two of ``faults.toml``. Tests that are likely to find it run first, then, if none of them
does, all of them. Exit code 1 if a fault survives. The working tree is never touched::

    python tests/faults/plant.py                          # all faults; make faults
    python tests/faults/plant.py --only "slack dropped"   # one of them; may be repeated
    python tests/faults/plant.py --outside                # by the tests that know nothing of the inside alone

With ``--outside`` only the tests of ``lasting.txt`` count, which do not change when modules are replaced; a
table at the head of ``faults.toml`` says which of them come first for each package.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("faults.toml")
LASTING = Path(__file__).with_name("lasting.txt")
NOT_COPIED = (
    *(".git", ".venv", ".hypothesis", ".*_cache", "out", "site", "dist", "build", "dpmarket-demo"),
    "*.egg-info",
)
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py.*?)(?: - .*)?$", re.MULTILINE)
LONGEST = 3600.0  # seconds; a fault may make a test endless


@dataclass(frozen=True)
class Fault:
    """What to change where, as (file of the package, old text, new text), and the tests to run first."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


class CannotPlant(Exception):
    """The source is not what the fault was written for."""


def read_faults(table: Path = TABLE) -> list[Fault]:
    """Return all faults of the table."""
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["fault"]
    return [
        Fault(
            row["name"],
            tuple(map(tuple, row.get("edits") or [(row["file"], row["old"], row["new"])])),
            tuple(row["tests"]),
        )
        for row in rows
    ]


def pointed_outside(faults: list[Fault], table: Path = TABLE) -> list[Fault]:
    """Return the faults with the lasting tests that are likely to find them in place of their own."""
    first = tomllib.loads(table.read_text(encoding="utf-8"))["outside"]
    lasting = lasting_tests()

    def likely(fault: Fault) -> tuple[str, ...]:
        own = [name for name in fault.tests if name in lasting]
        return tuple(dict.fromkeys([*own, *first[fault.edits[0][0].split("/")[0]]]))

    return [replace(fault, tests=likely(fault)) for fault in faults]


def lasting_tests() -> list[str]:
    """Return the files of tests that outlast a replacement of what is inside."""
    lines = LASTING.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def planted(fault: Fault, package: Path) -> dict[Path, str]:
    """Return the changed text of every file that the fault changes.

    Raises
    ------
    CannotPlant : a file is missing, or the old text does not stand in it exactly once.
    """
    texts: dict[Path, str] = {}
    for name, old, new in fault.edits:
        path = package / name
        if path not in texts:
            if not path.is_file():
                raise CannotPlant(f"{fault.name!r}: there is no {name}; write the fault anew.")
            texts[path] = path.read_text(encoding="utf-8")
        count = texts[path].count(old)
        if count != 1:
            raise CannotPlant(
                f"{fault.name!r}: expected its text once in {name}, found it {count} times; write the fault "
                f"anew:\n{old}"
            )
        texts[path] = texts[path].replace(old, new)
    return texts


def copy_tree(source: Path, target: Path) -> None:
    """Copy a source tree with its times, so that what was compiled for it stays valid."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)


def run_tests(tree: Path, arguments: list[str]) -> tuple[int, str]:
    """Run quick tests of a tree with its own source; return the exit code and what was printed."""
    threads = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")]
    settings = dict.fromkeys([*threads, "POLARS_MAX_THREADS"], "1")
    settings |= {"PYTHONPATH": str(tree / "src"), "HYPOTHESIS_PROFILE": "first"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=tree, env=os.environ | settings, capture_output=True, text=True, timeout=LONGEST
    )
    return done.returncode, done.stdout + done.stderr


def find(fault: Fault, pristine: Path, folder: Path, every: list[str]) -> tuple[Fault, str | None, float]:
    """Plant a fault in a fresh copy, and run its own tests, then ``every``, until one finds it.

    Return the fault, the test that found it, None if none did, and the seconds that it took.
    """
    start = time.perf_counter()
    tree = Path(tempfile.mkdtemp(dir=folder)) / "tree"
    copy_tree(pristine, tree)
    try:
        for path, text in planted(fault, tree / "src" / "dpmarket").items():
            path.write_text(text, encoding="utf-8")
            forget_compiled(tree / "src", path)
        likely = [f"tests/{name}" for name in fault.tests]
        found = found_by(tree, ["-x", "-n", "0", *likely])
        found = found or (found_by(tree, ["-x", *every]) if every else None)
    finally:
        shutil.rmtree(tree.parent, ignore_errors=True)
    return fault, found, time.perf_counter() - start


def forget_compiled(source: Path, path: Path) -> None:
    """Remove what was compiled from a file; of a kernel's, all kernels, which contain one another."""
    for old in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        old.unlink()
    if "numba" in path.read_text(encoding="utf-8"):
        for pattern in ("*.nbi", "*.nbc"):
            for old in source.rglob(pattern):
                old.unlink()


def found_by(tree: Path, arguments: list[str]) -> str | None:
    """Return the first test that fails, None if all pass."""
    try:
        code, text = run_tests(tree, arguments)
    except subprocess.TimeoutExpired:
        return f"does not end within {LONGEST:.0f} s"
    if code == 0:
        return None
    failed = FAILED.search(text)
    if failed is None or "SyntaxError" in failed[0]:  # else a file of tests that cannot even be loaded
        raise CannotPlant(f"the tests could not be run:\n{text[-3000:]}")
    return failed[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="plant this fault alone")
    parser.add_argument("--workers", type=int, default=2, help="how many faults are tried at a time")
    parser.add_argument("--outside", action="store_true", help="count the tests of lasting.txt alone")
    parser.add_argument("--first", action="store_true", help="run the likely tests alone, not all")
    options = parser.parse_args()
    faults = pointed_outside(read_faults()) if options.outside else read_faults()
    # Tests of these faults themselves would notice any.
    every = ["-n", str(options.workers), "--ignore", "tests/faults"]
    if options.outside:
        every = ["-n", "0", *(f"tests/{name}" for name in lasting_tests())]
    if options.first:
        every = []
    if options.only:
        unknown = set(options.only) - {fault.name for fault in faults}
        if unknown:
            parser.error(f"no such fault: {', '.join(sorted(unknown))}")
        faults = [fault for fault in faults if fault.name in options.only]
    with tempfile.TemporaryDirectory(prefix="faults-") as place:
        pristine = Path(place) / "pristine"
        copy_tree(ROOT, pristine)
        for fault in faults:  # all, before the first is tried
            planted(fault, pristine / "src" / "dpmarket")
        tests = sorted({f"tests/{name}" for fault in faults for name in fault.tests})
        code, text = run_tests(pristine, ["-n", str(options.workers), *tests])
        if code:
            print(text[-3000:])
            print("Without any fault these tests fail already: nothing can be said.")
            return 1
        print("Without a fault:", text.strip().splitlines()[-1], flush=True)
        survivors = []
        with ThreadPoolExecutor(options.workers) as pool:
            running = [pool.submit(find, fault, pristine, Path(place), every) for fault in faults]
            try:
                for number, future in enumerate(as_completed(running), 1):
                    fault, found, seconds = future.result()
                    survivors += [fault.name] * (found is None)
                    found = found or "NOTHING: it survives"
                    print(f"[{number}/{len(faults)}] {fault.name}: {found} ({seconds:.0f} s)", flush=True)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    print(f"\n{len(faults) - len(survivors)} of {len(faults)} faults are found.", *survivors, sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotPlant as problem:
        sys.exit(f"Cannot plant {problem}")
