"""Rules that were announced before the reports: certificates state them, and a changed one is found."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dpmarket.campaign import (
    certify_quotes,
    commit_market,
    decide_offline,
    decide_online,
    quote_file,
    train_file,
)
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, NotCertifiable
from support.campaigns import MARKET, make_campaign
from support.certificates import failing
from support.forging import Papers, canonical


def certified(folder, market, decide):
    """Run a campaign whose rules were published first; return the certificate."""
    make_campaign(folder, market=market)
    rules = commit_market(folder / "market.toml", online=decide is decide_online)
    (folder / "rules.json").write_text(rules.text + "\n", encoding="utf-8")
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide)
    names = ("market.toml", "quotes.csv", "data.csv", "model.json")
    train_file(*(folder / name for name in names))
    return certify_quotes(folder / "market.toml", folder / "quotes.csv", rules=folder / "rules.json")


@pytest.fixture(scope="module", params=["offline", "online"])
def campaign(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    market = MARKET + "[sellers]\nexpected = 60\n" if request.param == "online" else MARKET
    return folder, certified(folder, market, decide_online if request.param == "online" else decide_offline)


def test_a_certificate_states_the_rules_that_were_published_and_follows_them(campaign):
    folder, certificate = campaign
    found = verify(
        certificate, openings=certificate.openings(), commitment=(folder / "rules.json").read_bytes()
    )
    assert failing(found) == set()
    verdicts = {check.name: check.verdict for check in found.checks}
    assert (
        verdicts["announced rules"]
        == verdicts["published rules"]
        == verdicts["every agreed rules"]
        == "holds"
    )


@pytest.mark.parametrize(
    "path",
    [("market", "delta"), ("market", "epsilon_cost", "epsilons"), ("release", "terms", "rows_per_person"),
     ("release", "terms", "norm", "constant"), ("release", "model", "classes"), ("money", "minor_units")],
)  # fmt: skip
def test_a_part_other_than_announced_is_found(campaign, path):
    _, certificate = campaign
    papers = Papers(bytes(certificate), certificate.openings())
    rules = json.loads(papers.body["rules"]["text"])
    part = rules["announced"]
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = 7
    papers.body["rules"]["text"] = canonical(rules).decode()
    assert "announced rules" in failing(verify(papers.first, receipt=papers.receipt()))


def test_quotes_by_other_rules_or_before_them_are_not_certified_with_them(tmp_path):
    certified(tmp_path, MARKET, decide_offline)
    market, quotes, rules = (tmp_path / name for name in ("market.toml", "quotes.csv", "rules.json"))
    published = json.loads(rules.read_bytes())
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    rules.write_bytes(canonical(published | {"committed_at": later}) + b"\n")
    with pytest.raises(NotCertifiable, match="published before"):
        certify_quotes(market, quotes, rules=rules)
    published["rules"]["objective"]["payment_weight"] = 0.002
    rules.write_bytes(canonical(published) + b"\n")
    with pytest.raises(NotCertifiable, match=r"objective\.payment_weight"):
        certify_quotes(market, quotes, rules=rules)
    for nonsense in (b"", b"[]", b'{"schema": "dpmarket.rules/3"}', b"\xff"):
        rules.write_bytes(nonsense)
        with pytest.raises(FileProblem, match="dpmarket commit"):
            certify_quotes(market, quotes, rules=rules)
