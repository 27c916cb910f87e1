"""Certificates of a campaign: honest ones verify; command and verifier alone find forged ones.

The forger here has read the format: after a change it computes commitments, root and totals again, so that
only the check that is made for the change can find it. ``certificates/test_forgeries.py`` has forgeries of
every release and mechanism.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpmarket as dpm
from outside.driver import FileCampaign
from outside.goods import GOODS, sellers, tables
from outside.processes import run
from support.forging import Papers, canonical

VERIFIER = Path(dpm.__file__).parent / "certificates" / "verifier"  # the folder that anybody may copy away
START = """import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("verifier", None, "__main__")"""


class CampaignPapers(Papers):
    """The forger's papers of a campaign, with its other files."""

    def __init__(self, folder):
        self.files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}
        super().__init__(self.files["certificate.json"], self.files["openings.json"])

    def write(self, folder, leaves=None):
        self.files["certificate.json"] = self.certificate(leaves)
        self.files["openings.json"] = self.openings()
        for name, content in self.files.items():
            (Path(folder) / name).write_bytes(content)

    def rewrite(self, name, change):
        data = json.loads(self.files[name])
        change(data)
        self.files[name] = canonical(data) + b"\n"

    def change_line(self, **values):
        """Change the line of the seller with the largest weight, and commit to it anew."""
        self.best.update(values)
        self.settle()

    def change_cell(self):
        self.release["cells"][0][0] = str(int(self.release["cells"][0][0]) + 1)

    @property
    def withdrawn(self):
        return next(line for line in self.lines if line["withdrew"])


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """A signed campaign with published rules; one seller withdrew."""
    good = GOODS["two classes"]
    ids, costs, people = [f"seller {k}" for k in range(40)], *sellers(good, 40)[1:]
    rules = good.rules(100, budget=40, mechanism="online")
    made = FileCampaign(tmp_path_factory.mktemp("papers"), rules, *tables(ids, costs, people))
    made.run("commit", "-o", "commitment.json")
    made.quote()
    cheap = sorted(zip(costs, ids, strict=True))
    made.withdraw(cheap[3][1])
    made.train()
    made.public_key = made.run("signing-key", "key.pem", "--json").json["public_key"]
    made.certify("--key", "key.pem")
    made.receipts()
    shutil.copy(made.receipt_of(cheap[0][1]), made / "receipt.json")
    made.digest = CampaignPapers(made.folder).digest
    return made


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    """Return a folder with a copy of the verifier, which needs Python alone."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(VERIFIER, elsewhere / "verifier", ignore=shutil.ignore_patterns("__pycache__"))
    return str(elsewhere)


def alone(verifier, folder, *arguments):
    """Run a copied verifier with plain Python: no site packages, no environment, no working folder."""
    command = [sys.executable, "-I", "-S", "-c", START, verifier, "certificate.json", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done


OPTIONS = {
    "nothing": lambda made: (),
    "receipt": lambda made: ("--receipt", "receipt.json"),
    "openings": lambda made: ("--openings", "openings.json"),
    "rules": lambda made: ("--commitment", "commitment.json"),
    "digest": lambda made: ("--digest", made.digest),
    "signature": lambda made: ("--signature", "certificate.json.sig", "--public-key", made.public_key),
}


@pytest.mark.parametrize("shown", OPTIONS)
def test_an_honest_campaign_verifies_whatever_is_shown(campaign, verifier, shown):
    done = campaign.verify(*OPTIONS[shown](campaign)).json
    assert done["passed"] is True
    assert all(check["verdict"] != "FAILS" for check in done["checks"])
    if shown == "signature":
        return  # the verifier alone checks no signatures
    done = alone(verifier, campaign.folder, *OPTIONS[shown](campaign))
    assert (done.returncode, "FAILS" in done.stdout) == (0, False), done.stdout


def test_the_forgers_papers_are_the_honest_ones_if_nothing_is_changed(campaign):
    """Else every forgery below would be found for the wrong reason."""
    papers = CampaignPapers(campaign.folder)
    papers.settle()
    assert papers.certificate() == papers.files["certificate.json"]
    assert dpm.verify(papers.certificate(), receipt=papers.receipt()).passed


def flip(data, name):
    data[name] = data[name][:10] + ("0" if data[name][10] != "0" else "1") + data[name][11:]


# What is changed, and what the verifier is shown that tells.
FORGERIES = {
    "half of the epsilon used": ("openings", lambda p: p.change_line(used=0.5 * p.best["used"])),
    "an epsilon used without the cost of rounding": (
        "openings", lambda p: p.change_line(used=p.best["used"] - 0.9 * p.release["numerical_epsilon"])),
    "a seller who withdrew and was used": (
        "openings", lambda p: (p.withdrawn.update(used=0.01, weight=0.01), p.settle())),
    "a seller who withdrew secretly": (
        "openings", lambda p: (p.withdrawn.update(withdrew=False), p.commit())),
    "a finer grid": ("nothing", lambda p: p.release.update(grid=p.release["grid"] * 2.0**-20)),
    "another coefficient, against the digest": ("digest", CampaignPapers.change_cell),
    "another coefficient, against the signature": ("signature", CampaignPapers.change_cell),
    "another coefficient, against a receipt": ("receipt", CampaignPapers.change_cell),
    "another currency, against the rules": ("nothing", lambda p: p.body["money"].update(currency="USD")),
    "rules published after the quotes": (
        "rules", lambda p: p.body["rules"].update(quoted_at="2001-01-01T00:00:00+00:00")),
    "another salt": ("openings", lambda p: flip(p.lines[3], "salt")),
    "a receipt's payment": ("receipt", lambda p: p.rewrite(
        "receipt.json", lambda r: r["line"].update(payment=r["line"]["payment"] + 100.0))),
    "a receipt's path": ("receipt", lambda p: p.rewrite(
        "receipt.json", lambda r: r.update(path=r["path"][:-1]))),
    "another signature": ("signature", lambda p: p.rewrite(
        "certificate.json.sig", lambda s: flip(s, "signature"))),
}  # fmt: skip
KEEP_LEAVES = {"another salt"}  # the commitments stay those of the true salts


@pytest.mark.parametrize("name", FORGERIES)
def test_every_forgery_is_found_by_the_command_and_by_the_verifier_copied_away(
    campaign, verifier, name, tmp_path
):
    shown, change = FORGERIES[name]
    papers = CampaignPapers(campaign.folder)
    leaves = papers.leaves() if name in KEEP_LEAVES else None
    change(papers)
    papers.write(tmp_path, leaves)
    options = OPTIONS[shown](campaign)
    told = run("verify", "certificate.json", *options, "--json", cwd=tmp_path, code=1).json
    assert told["passed"] is False
    failed = [check["name"] for check in told["checks"] if check["verdict"] == "FAILS"]
    if shown == "signature":
        return  # the verifier alone checks none
    done = alone(verifier, tmp_path, *options)
    assert done.returncode == 1
    assert done.stdout.count("FAILS") == len(failed) > 0
    assert all(name in done.stdout for name in failed)


def test_a_signature_of_another_key_and_a_payment_below_the_sellers_own_cost_are_found(campaign):
    other = campaign.run("signing-key", "other.pem", "--json").json["public_key"]
    campaign.verify("--signature", "certificate.json.sig", "--public-key", other, code=1)
    receipt = ("--receipt", "receipt.json", "--ask-cost")
    assert campaign.verify(*receipt, text="1.0\n").json["passed"] is True
    assert campaign.verify(*receipt, text="400.0\n", code=1).json["passed"] is False


def test_one_receipt_does_not_open_another_sellers_line(campaign):
    first, second = (campaign.receipt_of(f"seller {k}").read_bytes() for k in (1, 2))
    file = (campaign / "certificate.json").read_bytes()
    mixed = json.loads(first) | {"line": json.loads(second)["line"]}
    assert dpm.verify(file, receipt=first).passed
    assert not dpm.verify(file, receipt=canonical(mixed) + b"\n").passed
