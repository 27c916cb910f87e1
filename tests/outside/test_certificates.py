"""Certificates of a campaign: honest ones verify, forged ones are found by the command that users give.

The forger here has read the format: after a change it computes commitments, root and totals again, so that
only the check that is made for the change can find it. ``certificates/test_forgeries.py`` has forgeries of
every release and mechanism.
"""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpmarket as dpm
from outside.driver import FileCampaign
from outside.goods import GOODS, sellers, tables
from support.forging import Papers, canonical

VERIFIER = Path(dpm.__file__).parent / "certificates" / "verifier"  # the folder that anybody may copy away


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


@pytest.fixture(scope="module", params=["offline", "online"])
def campaign(request, tmp_path_factory):
    """A signed campaign with published rules; one seller withdrew."""
    good = GOODS["two classes"]
    ids, costs, people = sellers(good, 40)
    ids = [f"seller {k}" for k in range(40)]
    objective = {"budget": 40, "mechanism": "online"} if request.param == "online" else {}
    rules = good.rules(100, **objective)
    made = FileCampaign(tmp_path_factory.mktemp("papers"), rules, *tables(ids, costs, people))
    made.run("commit", "-o", "commitment.json")
    made.quote()
    cheap = sorted(zip(costs, ids, strict=True))
    made.withdraw(cheap[3][1])
    made.train()
    made.public_key = made.run("signing-key", "key.pem", "--json").json["public_key"]
    made.certify("--key", "key.pem")
    made.receipts()
    made.seller = cheap[0][1]
    shutil.copy(made.receipt_of(made.seller), made / "receipt.json")
    made.digest = Papers(*((made / f"{x}.json").read_bytes() for x in ("certificate", "openings"))).digest
    made.kind = request.param
    return made


OPTIONS = {
    "nothing": lambda made: (),
    "receipt": lambda made: ("--receipt", "receipt.json"),
    "openings": lambda made: ("--openings", "openings.json"),
    "rules": lambda made: ("--commitment", "commitment.json"),
    "digest": lambda made: ("--digest", made.digest),
    "signature": lambda made: ("--signature", "certificate.json.sig", "--public-key", made.public_key),
}


@pytest.mark.parametrize("shown", OPTIONS)
def test_an_honest_campaign_verifies_whatever_is_shown(campaign, shown):
    done = campaign.verify(*OPTIONS[shown](campaign)).json
    assert done["passed"] is True
    assert all(check["verdict"] != "FAILS" for check in done["checks"])


def test_the_forgers_papers_are_the_honest_ones_if_nothing_is_changed(campaign, tmp_path):
    """Else every forgery below would be found for the wrong reason."""
    papers = CampaignPapers(campaign.folder)
    papers.settle()
    assert papers.certificate() == papers.files["certificate.json"]
    assert dpm.verify(papers.certificate(), receipt=papers.receipt()).passed


def change_line(papers, **values):
    papers.best.update(values)
    papers.settle()


def withdrawn(papers):
    return next(line for line in papers.lines if line["withdrew"])


def rewrite(papers, name, change):
    data = json.loads(papers.files[name])
    change(data)
    papers.files[name] = canonical(data) + b"\n"


def change_receipt(papers, change):
    rewrite(papers, "receipt.json", change)


def renew_receipt(papers, **values):
    """Change the best line, recommit, and write its receipt anew."""
    line = papers.best
    line.update(values)
    papers.settle()
    papers.files["receipt.json"] = papers.receipt(line)


def flip(text, k=10):
    return text[:k] + ("0" if text[k] != "0" else "1") + text[k + 1 :]


def other_cell(papers):
    papers.release["cells"][0][0] = str(int(papers.release["cells"][0][0]) + 1)


# What is changed, and what the verifier is shown that tells.
FORGERIES = {
    "half of the epsilon used": ("openings", lambda p: change_line(p, used=0.5 * p.best["used"])),
    "an epsilon used without the cost of rounding": (
        "openings", lambda p: change_line(p, used=p.best["used"] - 0.9 * p.release["numerical_epsilon"])),
    "a seller who withdrew and was used": (
        "openings", lambda p: (withdrawn(p).update(used=0.01, weight=0.01), p.settle())),
    "a seller who withdrew secretly": (
        "openings", lambda p: (withdrawn(p).update(withdrew=False), p.commit())),
    "a smaller penalty": (
        "openings", lambda p: p.release["terms"].update(l2=p.release["terms"]["l2"] / 1000.0)),
    "a finer grid": ("nothing", lambda p: p.release.update(grid=p.release["grid"] * 2.0**-20)),
    "a delta that was not announced": ("nothing", lambda p: p.market.update(delta=1e-6)),
    "another penalty row, against the rules": (
        "nothing", lambda p: p.release["terms"].update(rows_per_person=2)),
    "another coefficient, against the digest": ("digest", other_cell),
    "another coefficient, against the signature": ("signature", other_cell),
    "another coefficient, against a receipt": ("receipt", other_cell),
    "another currency, against the rules": ("nothing", lambda p: p.body["money"].update(currency="USD")),
    "other rules in the certificate": (
        "receipt", lambda p: (p.body["rules"].update(text="{}"), renew_receipt(p))),
    "rules published after the quotes": (
        "rules", lambda p: p.body["rules"].update(quoted_at="2001-01-01T00:00:00+00:00")),
    "other rules": ("rules", lambda p: rewrite(
        p, "commitment.json", lambda data: data.update(committed_at="2001-01-01T00:00:00+00:00"))),
    "another salt": ("openings", lambda p: p.lines[3].update(salt=flip(p.lines[3]["salt"]))),
    "a receipt's payment": ("receipt", lambda p: change_receipt(
        p, lambda r: r["line"].update(payment=r["line"]["payment"] + 100.0))),
    "a receipt's epsilon": ("receipt", lambda p: change_receipt(
        p, lambda r: r["line"].update(used=0.5 * r["line"]["used"]))),
    "a receipt's salt": ("receipt", lambda p: change_receipt(p, lambda r: r.update(salt=flip(r["salt"])))),
    "an epsilon used that does not cover the weight, with a receipt made anew": (
        "receipt", lambda p: renew_receipt(p, used=0.5 * p.best["used"])),
    "a receipt's index": ("receipt", lambda p: change_receipt(p, lambda r: r.update(index=r["index"] + 1))),
    "a receipt's path": ("receipt", lambda p: change_receipt(p, lambda r: r.update(path=r["path"][:-1]))),
    "a receipt's digest": ("receipt", lambda p: change_receipt(
        p, lambda r: r.update(certificate=flip(r["certificate"])))),
    "another signature": ("signature", lambda p: rewrite(
        p, "certificate.json.sig", lambda s: s.update(signature=flip(s["signature"])))),
}  # fmt: skip
KEEP_LEAVES = {"another salt"}  # the commitments stay those of the true salts


def forged(campaign, name, folder):
    """Write the forged papers to a folder; return the campaign there and what verify is shown."""
    made = copy.copy(campaign)
    made.folder = folder
    shown, change = FORGERIES[name]
    papers = CampaignPapers(campaign.folder)
    leaves = papers.leaves() if name in KEEP_LEAVES else None
    change(papers)
    papers.write(folder, leaves)
    return made, OPTIONS[shown](made)


@pytest.mark.parametrize("name", FORGERIES)
def test_every_forgery_is_found(campaign, name, tmp_path):
    made, shown = forged(campaign, name, tmp_path)
    done = made.verify(*shown, code=1).json
    assert done["passed"] is False
    assert any(check["verdict"] == "FAILS" for check in done["checks"])


def test_a_signature_of_another_key_is_found(campaign):
    other = campaign.run("signing-key", "other.pem", "--json").json["public_key"]
    campaign.verify("--signature", "certificate.json.sig", "--public-key", other, code=1)


def test_a_payment_below_the_sellers_own_cost_is_found(campaign):
    receipt = ("--receipt", "receipt.json", "--ask-cost")
    assert campaign.verify(*receipt, text="1.0\n").json["passed"] is True
    assert campaign.verify(*receipt, text="400.0\n", code=1).json["passed"] is False


def test_one_receipt_does_not_open_another_sellers_line(campaign):
    first, second = (campaign.receipt_of(f"seller {k}").read_bytes() for k in (1, 2))
    file = (campaign / "certificate.json").read_bytes()
    mixed = json.loads(first)
    mixed["line"] = json.loads(second)["line"]
    assert dpm.verify(file, receipt=first).passed
    assert not dpm.verify(file, receipt=canonical(mixed) + b"\n").passed


# --- the verifier on its own ---


START = """import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("verifier", None, "__main__")"""


def alone(verifier, folder, *arguments):
    """Run a copied verifier with plain Python: no site packages, no environment, no working folder."""
    command = [sys.executable, "-I", "-S", "-c", START, verifier, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    """Return a folder with a copy of the verifier, which needs Python alone."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(VERIFIER, elsewhere / "verifier", ignore=shutil.ignore_patterns("__pycache__"))
    return str(elsewhere)


def test_the_verifier_copied_away_accepts_the_honest_campaign(campaign, verifier):
    shown = ("--receipt", "receipt.json", "--openings", "openings.json")
    done = alone(verifier, campaign.folder, "certificate.json", *shown, "--digest", campaign.digest)
    assert done.returncode == 0, done.stdout
    assert "FAILS" not in done.stdout


@pytest.mark.parametrize(
    "name",
    ["half of the epsilon used", "a smaller penalty", "a finer grid",
     "another coefficient, against the digest", "a receipt's payment", "another salt"],
)  # fmt: skip
def test_the_verifier_copied_away_finds_the_forgeries_that_the_command_finds(
    campaign, verifier, name, tmp_path
):
    made, shown = forged(campaign, name, tmp_path)
    told = {check["name"]: check["verdict"] for check in made.verify(*shown, code=1).json["checks"]}
    done = alone(verifier, tmp_path, "certificate.json", *shown)
    assert done.returncode == 1
    assert all(name in done.stdout for name, verdict in told.items() if verdict == "FAILS")
    assert done.stdout.count("FAILS") == list(told.values()).count("FAILS")
