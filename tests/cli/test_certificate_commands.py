"""certify, receipts, verify and signing-key on a real campaign."""

import hashlib
import json

import numpy as np
import pytest

from dpmarket.campaign import certify_quotes, ledger_path, quote_file, train_file
from dpmarket.campaign import decide_offline as offline
from dpmarket.certificates import receipt_page
from dpmarket.errors import NotCertifiable
from dpmarket.ledger import existing_ledger, releases, tables, writing
from support.campaigns import make_campaign, read_rows, seller_ids, write_rows
from support.commands import run


def campaign(folder, train=True):
    costs = make_campaign(folder)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", offline)
    if train:
        train_file(folder / "market.toml", folder / "quotes.csv", folder / "data.csv", folder / "model.json")
    return costs


def test_a_campaign_is_certified_and_everybody_can_check_it(tmp_path):
    costs = campaign(tmp_path)
    public = json.loads(run("signing-key", "key.pem", "--json", cwd=tmp_path).stdout)["public_key"]
    names = ("--quotes", "quotes.csv", "-o", "certificate.json", "--openings", "openings.json")
    said = json.loads(run("certify", *names, "--key", "key.pem", "--json", cwd=tmp_path).stdout)
    run("certify", *names, cwd=tmp_path, code=1)  # nothing is overwritten
    for needed in ("quotes.csv", "market.toml", "market.ledger"):
        wrong = ("--quotes", "quotes.csv", "-o", needed, "--openings", "other.json", "--force")
        assert "still needed" in run("certify", *wrong, cwd=tmp_path, code=1).stderr
    run("receipts", "certificate.json", "openings.json", "-o", "receipts", cwd=tmp_path)
    run(
        "receipts",
        "certificate.json",
        "openings.json",
        "-o",
        "receipts.csv",
        "--page",
        "p.html",
        cwd=tmp_path,
    )
    assert (tmp_path / "p.html").read_bytes() == receipt_page()
    run("receipts", "certificate.json", "openings.json", "-o", "receipts", cwd=tmp_path, code=1)
    for table in ("quotes.csv", "receipts.csv", "receipts/index.csv"):  # harmless in a spreadsheet
        assert "\n\"'=HYPERLINK(" in (tmp_path / table).read_text(encoding="utf-8")
    index = {row["seller"]: row["file"] for row in read_rows(tmp_path / "receipts" / "index.csv")}
    assert set(index) == set(seller_ids(60))
    by_seller = {row["seller"]: row["receipt"] for row in read_rows(tmp_path / "receipts.csv")}
    k = 2
    seller = seller_ids(60)[k]
    file = tmp_path / "receipts" / index[seller]
    assert file.read_text(encoding="utf-8") == by_seller[seller]
    checked = ("verify", "certificate.json", "--receipt", file)
    run(*checked, "--ask-cost", cwd=tmp_path, input=f"{float(costs[k])!r}\n")
    high = run(*checked, "--ask-cost", cwd=tmp_path, input="1e9\n", code=1).stdout
    assert "too small" in high
    everything = run(
        *("verify", "certificate.json", "--openings", "openings.json", "--reports", "reports.csv"),
        *("--payments", 2, "--digest", said["digest"], "--signature", "certificate.json.sig"),
        *("--public-key", public, "--json"),
        cwd=tmp_path,
    )
    verdicts = {check["name"]: check["verdict"] for check in json.loads(everything.stdout)["checks"]}
    assert verdicts["payments"] == verdicts["allocation"] == verdicts["signature"] == "holds"
    assert "FAILS" not in verdicts.values()
    certificate = (tmp_path / "certificate.json").read_text(encoding="utf-8")
    assert not any(name in certificate for name in seller_ids(60) if "seller" in name or "Z" in name)
    body = json.loads(certificate)["body"]
    assert body["release"]["coef_grid"] == json.loads((tmp_path / "model.json").read_text())["coef_grid"]
    assert body["money"] == {"currency": "", "minor_units": 100}
    (tmp_path / "certificate.json").write_text(certificate.replace("offline", "0ffline"), encoding="utf-8")
    run(*checked, cwd=tmp_path, code=1)


def test_rules_are_published_certified_and_verified(tmp_path):
    make_campaign(tmp_path)
    said = json.loads(run("commit", "market.toml", "-o", "rules.json", "--json", cwd=tmp_path).stdout)
    assert hashlib.sha256((tmp_path / "rules.json").read_bytes()).hexdigest() == said["digest"]
    run("commit", "market.toml", "-o", "rules.json", cwd=tmp_path, code=1)  # nothing is overwritten
    assert "still needed" in run("commit", "-o", "market.toml", cwd=tmp_path, code=1).stderr
    quote_file(tmp_path / "market.toml", tmp_path / "reports.csv", tmp_path / "quotes.csv", offline)
    names = ("market.toml", "quotes.csv", "data.csv", "model.json")
    train_file(*(tmp_path / name for name in names))
    files = ("-o", "c.json", "--openings", "o.json", "--commitment", "rules.json")
    run("certify", "--quotes", "quotes.csv", *files, cwd=tmp_path)
    checked = run("verify", "c.json", "--commitment", "rules.json", cwd=tmp_path).stdout
    assert f"holds     rules fixed beforehand: these, of {said['committed_at']}" in " ".join(
        checked.split("\n")
    )
    assert "holds     prices fixed beforehand" in checked


def test_what_was_not_trained_on_gets_no_certificate(tmp_path):
    campaign(tmp_path, train=False)
    with pytest.raises(NotCertifiable, match="have not been used"):
        certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    with existing_ledger(ledger_path(tmp_path / "market.toml")) as ledger, writing(ledger) as connection:
        releases.debit(connection, "x", [1])  # as a training that was killed leaves it
        releases.mark(connection, "x")
    with pytest.raises(NotCertifiable, match="spent at"):
        certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")


def test_the_certificate_tells_the_market_and_the_model_as_they_are_in_their_files(tmp_path):
    campaign(tmp_path)
    body = json.loads(certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv").body)
    model = json.loads((tmp_path / "model.json").read_text())
    assert body["mechanism"] == "offline"
    assert body["market"]["distribution"]["kind"] == "uniform"
    assert body["market"]["objective"]["payment_weight"] == 0.001
    assert body["release"]["classes"] == model["labels"] == ["no", "yes"]
    assert body["release"]["clip"] is False  # rows are bounded by the features' public bounds
    assert body["release"]["fit_intercept"] is True
    for name in (
        *("coef_grid", "grid", "stretch", "intercept_scaling", "l2", "noise_rate", "row_bound"),
        *("rows_per_person", "gradient_bound", "noise_accuracy", "numerical_epsilon"),
    ):
        assert body["release"][name] == model[name], name
    told = body["release"]["features"]
    assert list(zip(told["name"], told["low"], told["high"], strict=True)) == [
        (feature["name"], feature["low"], feature["high"]) for feature in model["features"]
    ]


def test_a_model_whose_noise_was_not_secret_gets_no_certificate(tmp_path):
    campaign(tmp_path)
    with existing_ledger(ledger_path(tmp_path / "market.toml")) as ledger, writing(ledger) as connection:
        model = json.loads(connection.execute(tables.release.select()).one().model)
        changed = json.dumps(model | {"secure_noise": False})
        connection.execute(tables.release.update().values(model=changed))
    with pytest.raises(NotCertifiable, match="secret noise"):
        certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")


def test_things_that_need_one_another_are_asked_for(tmp_path):
    campaign(tmp_path)
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    (tmp_path / "c.json").write_bytes(bytes(certificate))
    for options, words in (
        (["--ask-cost"], "receipt"),
        (["--signature", "s"], "public key"),
        (["--reports", "reports.csv"], "openings"),
    ):
        done = run("verify", "c.json", *options, cwd=tmp_path, input="1.0\n", code=1)
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 2  # the question, and one line
    assert "no such file" in run("verify", "missing.json", cwd=tmp_path, code=1).stderr


def test_a_withdrawn_seller_is_certified_with_nothing_spent(tmp_path):
    from dpmarket.campaign import withdraw_sellers

    make_campaign(tmp_path)
    market, quotes = tmp_path / "market.toml", tmp_path / "quotes.csv"
    quote_file(market, tmp_path / "reports.csv", quotes, offline)
    withdraw_sellers(market, quotes, ["007"])
    train_file(market, quotes, tmp_path / "data.csv", tmp_path / "model.json")
    certificate = certify_quotes(market, quotes)
    line = json.loads(certificate.receipt("007"))["line"]
    books = {row["seller"]: row for row in read_rows(quotes)}
    assert line["withdrew"] is True
    assert line["promise"] == float(books["007"]["epsilon"]) > 0.0
    assert line["payment"] == float(books["007"]["payment_minor_units"])
    assert line["spent"] == line["weight"] == 0.0
    assert np.count_nonzero(certificate.lines.values[:, 2]) > 0
    body = json.loads(certificate.body)
    assert body["totals"]["withdrawn"] == 1
    paid = sum(int(row["payment_minor_units"]) for name, row in books.items() if name != "007")
    assert paid <= body["totals"]["total_payment"] <= 1.01 * paid
    (tmp_path / "c.json").write_bytes(bytes(certificate))
    (tmp_path / "o.json").write_bytes(certificate.openings())
    checked = run("verify", "c.json", "--openings", "o.json", "--reports", "reports.csv", cwd=tmp_path)
    assert "holds     payments" in checked.stdout  # after withdrawals, too


def test_the_round_that_was_trained_on_is_certified_even_if_promised_again(tmp_path):
    campaign(tmp_path)
    market, quotes = tmp_path / "market.toml", tmp_path / "quotes.csv"
    quote_file(market, tmp_path / "reports.csv", quotes, offline, again=True, overwrite=True)
    model = json.loads((tmp_path / "model.json").read_text())
    body = json.loads(certify_quotes(market, quotes).body)
    assert body["release"]["coef_grid"] == model["coef_grid"]


def test_openings_from_a_stream_are_read_once(tmp_path):
    """Wrong reports are found whether the openings come from a file or from standard input."""
    costs = campaign(tmp_path)
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    (tmp_path / "c.json").write_bytes(bytes(certificate))
    rows = zip(seller_ids(60), (1.01 * costs).tolist(), strict=True)
    write_rows(tmp_path / "wrong.csv", ["seller", "cost"], rows)
    arguments = ("verify", "c.json", "--openings", "-", "--reports", "wrong.csv", "--payments", 1)
    said = run(*arguments, cwd=tmp_path, code=1, input=certificate.openings().decode())
    assert "FAILS" in said.stdout
    refused = run(*arguments[:-1], 0, cwd=tmp_path, code=1, input=certificate.openings().decode())
    assert "at least one payment" in refused.stderr


def test_the_page_for_sellers_is_the_same_for_everybody_and_overwrites_nothing(tmp_path):
    said = json.loads(run("receipts", "--page", "check.html", "--json", cwd=tmp_path).stdout)
    page = (tmp_path / "check.html").read_bytes()
    assert said["digest"] == hashlib.sha256(page).hexdigest()
    assert page == receipt_page()
    (tmp_path / "kept.html").write_text("something else", encoding="utf-8")
    assert "exists" in run("receipts", "--page", "kept.html", cwd=tmp_path, code=1).stderr
    assert (tmp_path / "kept.html").read_text(encoding="utf-8") == "something else"
    for some in ((), ("c.json",), ("c.json", "o.json", "--page", "new.html"), ("-o", "receipts")):
        assert "--page alone" in run("receipts", *some, cwd=tmp_path, code=1).stderr
    assert not (tmp_path / "new.html").exists()
