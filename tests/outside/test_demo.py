"""What `make demo` leaves behind: a whole campaign in files that anybody can check."""

import csv
import io
import stat
from fractions import Fraction

import pytest

from outside.driver import read_table
from outside.processes import run

PUBLIC = ("rules.toml", "model.json", "certificate.json", "report.html", "summary.json", "plan.json")
CONFIDENTIAL = ("reports.csv", "data.csv", "quotes.csv", "openings.json", "rules.db")


class Demonstration:
    """A folder in which the demonstration ran twice, and what the second run said."""

    def __init__(self, place):
        self.place, self.folder = place, place / "out"
        self.first = self.run("demo", "out")
        self.before = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        (self.folder / "notes.txt").write_text("somebody's own")
        self.done = self.run("demo", "out", "--json")

    def run(self, *arguments, **options):
        return run(*arguments, cwd=self.place, **options)

    def text(self, name):
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    return Demonstration(tmp_path_factory.mktemp("demo"))


def test_the_demonstration_writes_a_campaign_with_its_report_and_names_the_report(demonstration):
    assert {*PUBLIC, *CONFIDENTIAL} <= set(demonstration.before)
    assert "report.html" in demonstration.first.out
    assert demonstration.done.json["report"] == "out/report.html"
    for name in CONFIDENTIAL:  # nobody but the owner may read these
        assert stat.S_IMODE((demonstration.folder / name).stat().st_mode) == 0o600, name


def test_a_second_run_replaces_the_first_with_other_noise_and_the_same_market(demonstration):
    now = {path.name: path.read_bytes() for path in demonstration.folder.iterdir()}
    assert set(now) == {*demonstration.before, "notes.txt"}
    for name in ("rules.toml", "reports.csv", "data.csv"):
        assert now[name] == demonstration.before[name], name
    for name in ("model.json", "certificate.json"):
        assert now[name] != demonstration.before[name], name
    demonstration.run("check", "-m", "out/rules.toml")


def test_the_certificate_of_the_demonstration_verifies(demonstration):
    files = ("--openings", "out/openings.json")
    assert demonstration.run("verify", "out/certificate.json", *files, "--json").json["passed"]
    stale = demonstration.place / "stale.json"  # of the first run: not the one that these openings open
    stale.write_bytes(demonstration.before["certificate.json"])
    demonstration.run("verify", "stale.json", "--openings", "out/openings.json", code=1)


def test_everybody_in_the_demonstration_is_paid_for_their_cost(demonstration):
    quotes = read_table(demonstration.folder / "quotes.csv")
    costs = {row["seller"]: float(row["cost"]) for row in read_table(demonstration.folder / "reports.csv")}
    for row in quotes:
        worth = Fraction(costs[row["seller"]]) * Fraction(float(row["epsilon"])) * 100
        assert int(row["payment_minor_units"]) >= worth
    # Of the first run: each run splits the sellers into other parts.
    first = csv.DictReader(io.StringIO(demonstration.before["quotes.csv"].decode()))
    paid = sum(int(row["payment_minor_units"]) for row in first)
    assert f"{paid / 100:,.2f} EUR" in demonstration.first.out


def test_no_cost_epsilon_or_id_is_printed_or_in_a_public_file(demonstration):
    reports, quotes = (read_table(demonstration.folder / name) for name in ("reports.csv", "quotes.csv"))
    private = {value for row in reports for value in (row["seller"], row["cost"])}
    private |= {row["epsilon"] for row in quotes} - {"0.0"}
    assert len(private) > 2 * len(reports)
    said = [demonstration.first.out, demonstration.first.err, demonstration.done.out, demonstration.done.err]
    for text in [*map(demonstration.text, PUBLIC), *said]:
        assert [value for value in private if value in text] == []


def test_a_folder_that_holds_other_files_is_left_alone(demonstration):
    folder = demonstration.place / "mine"
    folder.mkdir()
    (folder / "quotes.csv").write_text("mine")
    refused = demonstration.run("demo", "mine", code=1)
    assert refused.err.strip()
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("quotes.csv", "mine")]
