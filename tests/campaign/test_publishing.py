"""Rules that were published before the reports: certificates refer to them, and a changed one is found."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dpmarket.campaign import (
    certify_quotes,
    check_published,
    commit_market,
    decide_offline,
    decide_online,
    quote_file,
    train_file,
)
from dpmarket.certificates import publishable_rules, verify
from dpmarket.certificates.verifier.__main__ import main
from dpmarket.errors import FileProblem, NotCertifiable
from support.campaigns import MARKET, make_campaign
from support.certificates import failing, verdicts
from support.forging import Papers

RULES, PRICES = "rules fixed beforehand", "prices fixed beforehand"
BUDGET = MARKET.replace("payment_weight = 0.001", "budget = 50.0") + "[sellers]\nexpected = 60\n"


def certified(folder, market, decide):
    """Run a campaign whose rules were published first; return the certificate with its files written."""
    make_campaign(folder, market=market)
    (folder / "rules.json").write_bytes(commit_market(folder / "market.toml").data)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide)
    names = ("market.toml", "quotes.csv", "data.csv", "model.json")
    train_file(*(folder / name for name in names))
    certificate = certify_quotes(folder / "market.toml", folder / "quotes.csv", rules=folder / "rules.json")
    (folder / "c.json").write_bytes(bytes(certificate))
    return certificate


@pytest.fixture(scope="module", params=["offline", "budget", "online"])
def campaign(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    market = MARKET + "[sellers]\nexpected = 60\n" if request.param == "online" else MARKET
    market = BUDGET if request.param == "budget" else market
    certificate = certified(folder, market, decide_online if request.param == "online" else decide_offline)
    return folder, certificate


def test_a_certificate_names_the_rules_that_were_published_and_follows_from_them(campaign):
    folder, certificate = campaign
    result = check_published(folder / "c.json", folder / "rules.json")
    assert result.passed
    assert verdicts(result)[RULES] == verdicts(result)[PRICES] == "holds"
    named = json.loads(certificate.body)["commitment"]
    assert named["committed_at"] <= named["quoted_at"]
    without = verdicts(check_published(folder / "c.json"))
    assert without[RULES] == "not made"
    assert PRICES not in without


def forged_rules(folder, certificate, change):
    """Change the published rules after the fact, and let the certificate name the changed file."""
    rules = json.loads((folder / "rules.json").read_bytes())
    change(rules)
    parts = (rules[name] for name in ("distribution", "market", "mechanisms"))
    other = publishable_rules(*parts, datetime.fromisoformat(rules["committed_at"]))
    papers = Papers.of(bytes(certificate), certificate.openings())
    (folder / "forged.json").write_bytes(other.data)
    (folder / "f.json").write_bytes(papers.changed("commitment", "digest", to=other.digest).certificate)
    return folder / "f.json", folder / "forged.json"


def bound(rules):
    rules["market"]["features"]["age"]["high"] = 95.0


def labels(rules):
    rules["market"]["label"]["values"] = ["yes", "no"]


def units(rules):
    rules["market"]["money"]["minor_units"] = 1000


def costs(rules):
    rules["distribution"]["high"] = 6.0


@pytest.mark.parametrize("change", [bound, labels, units, costs])
def test_rules_that_are_not_the_certificates_are_found_even_if_it_names_them(campaign, change):
    assert RULES in failing(check_published(*forged_rules(*campaign, change)))


def test_prices_that_do_not_follow_from_the_published_rules_are_found(campaign):
    """A payment weight that was chosen after the reports: everything else is as published."""
    folder, certificate = campaign
    papers = Papers.of(bytes(certificate), certificate.openings())
    other = papers.changed("market", "objective", "payment_weight", to=0.0011)
    (folder / "f.json").write_bytes(other.certificate)
    assert failing(check_published(folder / "f.json", folder / "rules.json")) == {PRICES}


def test_other_rules_and_rules_after_the_quotes_are_found(campaign):
    folder, certificate = campaign
    papers = Papers.of(bytes(certificate), certificate.openings())
    rules = (folder / "rules.json").read_bytes()
    late = papers.changed("commitment", "quoted_at", to="2020-01-01T00:00:00+00:00")
    for forged in (
        late,
        papers.changed("commitment", "digest", to="0" * 64),
        papers.changed("commitment", to=None),
    ):
        assert failing(verify(forged.certificate, commitment=rules)) == {RULES}
    for wrong in ("yesterday", "2020-01-01T00:00:00"):
        forged = papers.changed("commitment", "quoted_at", to=wrong)
        assert failing(verify(forged.certificate, commitment=rules)) == {RULES}
    for broken in (b"", b"{}\n", rules[:-1], rules.replace(b"/1", b"/9"), rules + b"\n"):
        assert "layout" in failing(verify(papers.certificate, commitment=broken))


def test_the_verifier_alone_compares_the_published_tables(campaign, capsys, monkeypatch):
    folder, _ = campaign
    monkeypatch.chdir(folder)
    assert main(["c.json", "--commitment", "rules.json"]) == 0
    said = capsys.readouterr().out
    assert f"{'holds':9} {PRICES}" in said


def test_quotes_by_other_rules_or_before_them_are_not_certified_with_them(tmp_path):
    certified(tmp_path, MARKET, decide_offline)
    market, quotes, rules = (tmp_path / name for name in ("market.toml", "quotes.csv", "rules.json"))
    published = json.loads(rules.read_bytes())
    parts = [published[name] for name in ("distribution", "market", "mechanisms")]
    later = publishable_rules(*parts, datetime.now(UTC) + timedelta(days=1))
    rules.write_bytes(later.data)
    with pytest.raises(NotCertifiable, match="published before"):
        certify_quotes(market, quotes, rules=rules)
    parts[1]["objective"]["payment_weight"] = 0.002
    rules.write_bytes(publishable_rules(*parts, datetime(2020, 1, 1, tzinfo=UTC)).data)
    with pytest.raises(NotCertifiable, match=r"objective\.payment_weight"):
        certify_quotes(market, quotes, rules=rules)
    for nonsense in (b"", b"[]", b'{"schema": "dpmarket.commitment/1"}', b"\xff"):
        rules.write_bytes(nonsense)
        with pytest.raises(FileProblem, match="dpmarket commit"):
            certify_quotes(market, quotes, rules=rules)
