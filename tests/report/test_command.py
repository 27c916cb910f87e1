"""``dpmarket report`` on a campaign in a folder."""

import contextlib
import json

import pytest
from typer.testing import CliRunner

from dpmarket.campaign import (
    certify_quotes,
    decide_offline,
    decide_online,
    predict_file,
    quote_file,
    train_file,
    withdraw_sellers,
)
from dpmarket.certificates import write_certificate
from dpmarket.cli.app import app
from dpmarket.errors import DpmarketError
from support.campaigns import MARKET, make_campaign, make_three, read_rows
from support.pages import Page
from support.statistics import SEVERAL, make_statistic_campaign


def run(*arguments, cwd, code=0):
    """Call the command in this process: starting another one takes longer than all of its work."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if code == 1:
        assert isinstance(done.exception, DpmarketError)  # which the entry point tells in one line
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A campaign that was quoted, trained and certified, with one withdrawal."""
    place = tmp_path_factory.mktemp("campaign")
    make_campaign(place, 120)
    market, quotes = place / "market.toml", place / "quotes.csv"
    quote_file(market, place / "reports.csv", quotes, decide_offline)
    withdraw_sellers(market, quotes, ["007"])
    train_file(market, quotes, place / "data.csv", place / "model.json")
    write_certificate(certify_quotes(market, quotes), place / "certificate.json", place / "openings.json")
    return place


@pytest.fixture
def without_plans(monkeypatch):
    """Leave out what takes longest, where it is not what is tested."""
    for name in ("budget_options", "crowd_options"):
        monkeypatch.setattr(f"dpmarket.report.from_campaign.{name}", lambda *arguments: ())


REPORT = ("report", "reports.csv", "--quotes", "quotes.csv")


def test_a_report_from_files_says_on_paper_and_in_json_the_same(folder):
    done = run(
        *REPORT, "--test", "data.csv", "--certificate", "certificate.json", "-o", "report.html", "--json",
        cwd=folder,
    )  # fmt: skip
    data = json.loads(done.stdout)
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    shown = {name: value for name, _, value, _ in page.numbers}
    assert shown["totals.bought"] == str(data["totals"]["bought"])
    assert data["totals"]["withdrawn"] == 1
    assert data["totals"]["sellers"] == 119
    assert [audit["passed"] for audit in data["audits"]] == [True] * 4
    assert data["score"]["records"] == 120


def test_the_error_is_told_group_by_group_of_the_public_test_cases(folder, tmp_path, without_plans):
    lines = (folder / "data.csv").read_text(encoding="utf-8").splitlines()
    regions = ["region", *("north" if k % 3 else "=south" for k in range(len(lines) - 1))]
    table = "\n".join(f"{line},{region}" for line, region in zip(lines, regions, strict=True))
    (tmp_path / "test.csv").write_text(table + "\n", encoding="utf-8")
    asked = (*REPORT, "--test", tmp_path / "test.csv", "--groups")
    data = json.loads(run(*asked, "region", "-o", tmp_path / "a.html", "--json", cwd=folder).stdout)
    score = data["score"]
    assert {group["name"]: group["records"] for group in score["groups"]} == {"=south": 40, "north": 80}
    assert sum(group["wrong"] for group in score["groups"]) == score["wrong"]
    assert all(group["low"] <= group["error"] <= group["high"] for group in score["groups"])
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert [value for name, _, value, _ in page.numbers if name == "score.groups.1.records"] == ["80"]
    many = run(*asked, "seller", "-o", tmp_path / "b.html", cwd=folder, code=1)
    assert "at most 20 different ones" in many
    assert "give --test" in run(*REPORT, "--groups", "region", "-o", tmp_path / "b.html", cwd=folder, code=1)
    assert not (tmp_path / "b.html").exists()


def test_a_report_is_overwritten_only_when_told_to(folder, tmp_path, without_plans):
    target = tmp_path / "report.html"
    target.write_text("mine")
    assert "--force" in run(*REPORT, "-o", target, cwd=folder, code=1)
    assert target.read_text() == "mine"
    done = run(*REPORT, "-o", target, "--force", "--quiet", "--title", "Ours", cwd=folder)
    assert done.output == ""
    assert "<h1>Ours</h1>" in target.read_text(encoding="utf-8")


def test_other_reports_markets_or_quotes_are_refused_and_nothing_is_written(folder, tmp_path, without_plans):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "report.html").unlink(missing_ok=True)
    rows = (folder / "reports.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    target = ("-o", "new.html")
    (tmp_path / "reports.csv").write_text("".join(rows[:-1]), encoding="utf-8")
    assert "not those that the quotes" in run(*REPORT, *target, cwd=tmp_path, code=1)
    name = rows[-1].rsplit(",", 1)[0]
    (tmp_path / "reports.csv").write_text("".join([*rows[:-1], f"{name},1.23456\n"]), encoding="utf-8")
    refusal = run(*REPORT, *target, cwd=tmp_path, code=1)
    assert "not those that the quotes" in refusal
    assert "1.23456" not in refusal
    (tmp_path / "reports.csv").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "market.toml").write_text(MARKET.replace("0.001", "0.002"), encoding="utf-8")
    assert "objective.payment_weight was 0.001" in run(*REPORT, *target, cwd=tmp_path, code=1)
    (tmp_path / "market.toml").write_text(MARKET, encoding="utf-8")
    wrong = ("--certificate", "model.json")
    assert "expected a certificate" in run(*REPORT, *wrong, *target, cwd=tmp_path, code=1)
    bad = ("--test", "reports.csv")
    assert "cannot find" in run(*REPORT, *bad, *target, cwd=tmp_path, code=1)
    assert run("report", "reports.csv", cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "new.html").exists()


def test_quotes_that_were_not_trained_on_and_online_ones_have_a_report_too(tmp_path, without_plans):
    make_campaign(tmp_path, 80, MARKET + "\n[sellers]\nexpected = 80\n")
    quote_file(tmp_path / "market.toml", tmp_path / "reports.csv", tmp_path / "quotes.csv", decide_online)
    done = run(*REPORT, "-o", "-", cwd=tmp_path)
    page = Page(done.stdout)
    assert "Nothing has been released" in page.prose
    assert "one by one, by a curve" in page.prose
    assert "A report on the campaign" in done.stderr
    refusal = run(*REPORT, "--test", "data.csv", "-o", "x.html", cwd=tmp_path, code=1)
    assert "not trained on" in refusal


@pytest.mark.parametrize("needed", ["quotes.csv", "reports.csv", "market.toml", "certificate.json"])
def test_a_file_that_is_still_needed_is_not_overwritten(folder, without_plans, needed):
    before = (folder / needed).read_bytes()
    said = run(
        *("report", "reports.csv", "--quotes", "quotes.csv", "--certificate", "certificate.json"),
        *("-o", needed, "--force"),
        cwd=folder,
        code=1,
    )
    assert "still needed" in said
    assert (folder / needed).read_bytes() == before


def test_a_report_on_three_labels_shows_who_is_taken_for_whom(tmp_path, without_plans):
    make_three(tmp_path, sellers=120)
    market, quotes = tmp_path / "market.toml", tmp_path / "quotes.csv"
    quote_file(market, tmp_path / "reports.csv", quotes, decide_offline)
    model = train_file(market, quotes, tmp_path / "data.csv", tmp_path / "model.json").model
    write_certificate(certify_quotes(market, quotes), tmp_path / "certificate.json", tmp_path / "open.json")
    done = run(
        *REPORT, "--test", "data.csv", "--certificate", "certificate.json", "-o", "report.html", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    score = json.loads(done.stdout)["score"]
    assert score["labels"] == ["bus", "car", "train"]
    predict_file(model, tmp_path / "data.csv", tmp_path / "out.csv")
    truth = {row["seller"]: row["has bought"] for row in read_rows(tmp_path / "data.csv")}
    pairs = [(truth[row["seller"]], row["prediction"]) for row in read_rows(tmp_path / "out.csv")]
    counted = [[pairs.count((true, told)) for told in score["labels"]] for true in score["labels"]]
    assert score["confusion"] == counted
    assert score["wrong"] == 120 - sum(counted[k][k] for k in range(3))
    assert score["guessing"] == pytest.approx(1.0 - max(map(sum, counted)) / 120)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    shown = {name: value for name, _, value, _ in page.numbers}
    assert [shown[f"score.confusion.{i}.{j}"] for i in range(3) for j in range(3)] == [
        str(count) for row in counted for count in row
    ]
    assert {shown[f"features.{k}.label"] for k in range(6)} == {"bus", "car", "train"}


def test_a_report_on_statistics_shows_them_with_their_intervals_and_caution(tmp_path, without_plans):
    make_statistic_campaign(tmp_path, market=SEVERAL, sellers=120)
    market, quotes = tmp_path / "market.toml", tmp_path / "quotes.csv"
    quote_file(market, tmp_path / "reports.csv", quotes, decide_offline)
    found = train_file(market, quotes, tmp_path / "data.csv", tmp_path / "out.json").model
    write_certificate(certify_quotes(market, quotes), tmp_path / "certificate.json", tmp_path / "open.json")
    shown = ("--certificate", "certificate.json", "-o", "report.html", "--json")
    data = json.loads(run(*REPORT, *shown, cwd=tmp_path).stdout)
    assert [audit["passed"] for audit in data["audits"]] == [True] * 4
    releases = found.releases()
    rows = {(row["name"], row["label"]): row for row in data["numbers"]["rows"]}
    assert rows["age", "mean"]["value"] == releases["age"].values[0]
    assert rows["way", "car"]["high"] == releases["way"].highs[1]
    assert rows["place", "east"]["low"] is None
    assert data["numbers"]["radius"] == releases["place"].radius
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = {name: value for name, _, value, _ in Page(text).numbers}
    assert page["numbers.rows.0.value"] == repr(float(releases["age"].values[0]))
    told = {name: text for name, _, _, text in Page(text).numbers}
    for k, row in enumerate(data["numbers"]["rows"]):
        parts = [told[f"numbers.rows.{k}.{part}"] for part in ("value", "low", "high")]
        assert row["low"] is None or len({len(part.partition(".")[2]) for part in parts}) == 1, parts
    assert "fewer features" not in text
    assert "biased towards those who sell cheaply" in text
    assert "The model" not in text


def test_a_certificate_of_other_statistics_is_refused(tmp_path, without_plans):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        make_statistic_campaign(tmp_path / name, sellers=120)
        market, quotes = tmp_path / name / "market.toml", tmp_path / name / "quotes.csv"
        quote_file(market, tmp_path / name / "reports.csv", quotes, decide_offline)
        train_file(market, quotes, tmp_path / name / "data.csv", tmp_path / name / "out.json")
        certificate = certify_quotes(market, quotes)
        write_certificate(certificate, tmp_path / name / "certificate.json", tmp_path / name / "open.json")
    other = tmp_path / "two" / "certificate.json"
    said = run(*REPORT, "--certificate", other, "-o", "report.html", cwd=tmp_path / "one", code=1)
    assert "another release" in said
