"""What a buyer might hide: a delta above the priced one, rows that nobody is charged for, rules that hang."""

import hashlib
import json
import time

import numpy as np
import pytest

import dpmarket as dpm
from dpmarket.campaign import certify_quotes, commit_market, decide_offline, quote_file, train_file
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, NotCertifiable
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import Objective
from support.certificates import RULES as OFFLINE
from support.certificates import bought, failing
from support.forging import FILES, Papers, canonical
from support.statistics import BASE, SEVERAL, make_statistic_campaign

WAITS = pytest.mark.xfail(strict=True, reason="waits for certificates from descriptions")

SELLERS = 20
RULES = json.loads((FILES / "version-2" / "online.rules.json").read_bytes())


def published(papers, rules):
    """Return the certificate naming these rules, and the rules as a file."""
    text = canonical(rules) + b"\n"
    told = {"committed_at": rules["committed_at"], "quoted_at": "2027-02-01T00:00:00+00:00"}
    return papers.changed("commitment", to=told | {"digest": hashlib.sha256(text).hexdigest()}), text


def at_delta(priced):
    """Return an outcome whose epsilons were priced at a delta, and the market's rules."""
    table = EpsilonCost.of_delta(priced, 1.0)
    mechanism = OfflineMechanism(dpm.Uniform(1, 5), Objective.for_descent(3, 1e-2), epsilon_cost=table)
    costs = np.random.default_rng(0).uniform(1.0, 5.0, SELLERS)
    return mechanism.run(costs), mechanism.rules() | {"delta": priced, "distribution": {"kind": "uniform"}}


def fitted(outcome, delta):
    rng = np.random.default_rng(1)
    count = outcome.epsilons.size
    model = dpm.PrivateLogisticRegression(classes=(0, 1), delta=delta)
    return model.fit(rng.uniform(-0.6, 0.6, (count, 2)), np.arange(count) % 2, epsilons=outcome.epsilons)


@pytest.fixture(scope="module")
def with_delta():
    outcome, rules = at_delta(1e-4)
    certificate = dpm.certify(outcome, fitted(outcome, 1e-4), rules)
    return Papers.of(certificate, certificate.openings())


@WAITS
def test_a_larger_delta_than_the_priced_one_gets_no_certificate_and_is_not_believed(with_delta):
    outcome, rules = at_delta(1e-8)
    model = fitted(outcome, 4e-3)
    with pytest.raises(NotCertifiable, match="at which epsilons were priced"):
        dpm.certify(outcome, model, rules)
    assert verify(with_delta.certificate, openings=with_delta.openings).passed
    for stated in (1e-8, "1e-4", None):
        forged = with_delta.changed("market", "delta", to=stated)
        assert failing(verify(forged.certificate)) == {"public numbers"}


@WAITS
def test_whoever_checks_is_told_the_delta(with_delta):
    found = verify(with_delta.certificate, receipt=with_delta.receipt(0))
    details = {check.name: check.detail for check in found.checks}
    for name in ("public numbers", "receipt's promise"):
        assert "delta of 0.0001" in details[name]
    pure = Papers.read("version-2", "offline")
    assert not any("delta" in check.detail for check in verify(pure.certificate).checks)


@WAITS
def test_a_delta_of_just_a_tenth_of_a_person_is_not_refused_by_rounding():
    costs = np.linspace(1.0, 1.5, 5)
    outcome = bought(costs, 0.01)
    certificate = dpm.certify(outcome, fitted(outcome, 1.0 / 50.0), OFFLINE)
    assert verify(certificate).passed
    papers = Papers.of(certificate, certificate.openings())
    beyond = papers.changed("release", "delta", to=float(np.nextafter(1.0 / 50.0, 1.0)))
    assert failing(verify(beyond.certificate)) == {"public numbers"}


@WAITS
def test_with_a_delta_nothing_may_have_been_spent_before():
    outcome, _ = at_delta(1e-4)
    half = dpm.PrivateLogisticRegression(classes=(0, 1), delta=1e-4).fit(
        np.random.default_rng(1).uniform(-0.6, 0.6, (SELLERS, 2)),
        np.arange(SELLERS) % 2,
        epsilons=outcome.epsilons / 2.0,
    )
    assert dpm.certify(outcome, half, OFFLINE, already_spent={}).digest
    with pytest.raises(NotCertifiable, match="deltas add up"):
        dpm.certify(outcome, half, OFFLINE, already_spent={0: float(outcome.epsilons[0]) / 4.0})


@WAITS
def test_published_rules_without_a_delta_are_not_those_of_a_release_with_one(with_delta):
    rules = json.loads(json.dumps(RULES))
    told = with_delta.body["release"]["features"]
    ends = zip(told["name"], told["low"], told["high"], strict=True)
    rules["market"]["features"] = {name: {"low": low, "high": high} for name, low, high in ends}
    rules["market"]["label"]["values"] = with_delta.body["release"]["classes"]
    rules["market"]["money"] = with_delta.body["money"]
    rules["distribution"] = with_delta.body["market"]["distribution"]
    rules["mechanisms"] = {with_delta.body["mechanism"]: with_delta.body["market"]}
    papers, text = published(with_delta, rules)
    assert verify(papers.certificate, commitment=text).passed
    rules["mechanisms"] = {}
    papers, text = published(with_delta, rules)
    assert "rules fixed beforehand" in failing(verify(papers.certificate, commitment=text))


def test_rows_that_the_rules_allow_are_charged_for():
    honest, text = published(Papers.read("version-2", "online"), RULES)
    assert verify(honest.certificate, commitment=text).passed
    for rows in (2, 10, "1", None):
        rules = json.loads(json.dumps(RULES))
        rules["market"]["sellers"] = {"rows_per_person": rows}
        papers, text = published(honest, rules)
        assert failing(verify(papers.certificate, commitment=text)) == {"rules fixed beforehand"}
    # More rows than coefficients cost two classes no more than so many.
    most = len(honest.body["release"]["coef_grid"])
    papers, text = published(honest.changed("release", "rows_per_person", to=most), rules_of_rows(1_000))
    assert failing(verify(papers.certificate, commitment=text)) == set()


def rules_of_rows(rows):
    rules = json.loads(json.dumps(RULES))
    rules["market"]["sellers"] = {"rows_per_person": rows}
    return rules


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Return the papers of a campaign of several statistics, and its rules."""
    folder = tmp_path_factory.mktemp("campaign")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))
        make_statistic_campaign(folder, market=SEVERAL, sellers=12)
        rules = json.loads(commit_market(folder / "market.toml").data)
        quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide_offline)
        files = [folder / "quotes.csv"]
        train_file(folder / "market.toml", files, folder / "data.csv", folder / "out.json")
        certificate = certify_quotes(folder / "market.toml", folder / "quotes.csv")
    return Papers.of(certificate, certificate.openings()), rules


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 10**12),
        ("steps", 20.7),
        ("steps", 0),
        ("share", "1e300000000"),
        ("share", "2"),
        ("low", "1e300000000"),
        ("high", True),
    ],
)
def test_numbers_of_strange_rules_are_refused_soon(asked, name, value):
    papers, rules = asked
    papers, text = published(papers, rules)
    assert verify(papers.certificate, commitment=text).passed
    rules = json.loads(json.dumps(rules))
    rules["market"]["statistics"]["median"][name] = value
    papers, text = published(papers, rules)
    started = time.monotonic()
    assert failing(verify(papers.certificate, commitment=text)) == {"rules fixed beforehand"}
    assert time.monotonic() - started < 1.0


def test_a_statistics_settings_have_their_own_types(asked):
    papers = asked[0]
    kinds = [part["question"]["kind"] for part in papers.body["release"]["statistics"]]
    place = kinds.index("vector mean")
    for name, value in (("rows_per_person", True), ("names", ["east", "east"]), ("names", [1, 2])):
        forged = papers.copy()
        forged.body["release"]["statistics"][place]["question"][name] = value
        assert "public numbers" in failing(verify(forged.certificate))


def test_no_share_is_so_small_among_all_that_what_is_spent_is_no_float(tmp_path):
    """Thirty shares and one of a thousandth of the largest: sums of 56 bits, refused after the release."""
    table = '[statistics.{}]\nkind = "share"\ncolumn = "member"\nshare = {}\n'
    tables = [table.format(f"s{k}", 1 + k / 7) for k in range(30)]
    make_statistic_campaign(tmp_path, market="\n".join([BASE, *tables, table.format("least", 0.0055)]))
    with pytest.raises(FileProblem) as refused:
        commit_market(tmp_path / "market.toml")
    assert "statistics.least.share: expected at least a thousandth of all shares" in str(refused.value)
