"""Certificates of statistics, and a verifier with its own idea of what whole weights and noise cost."""

import copy
import json
from fractions import Fraction

import numpy as np
import pytest
from dpmarket.certificates.verifier.numbers_released import statistic_release, wrong_parts
from dpmarket.certificates.verifier.receipts import is_covered

import dpmarket as dpm
from dpmarket.campaign import (
    certify_quotes,
    check_published,
    commit_market,
    decide_offline,
    decide_online,
    quote_file,
    train_file,
)
from dpmarket.certificates import write_certificate
from dpmarket.certificates.verifier.layout import body_of as parts_of
from dpmarket.errors import InvalidInput, NotCertifiable
from dpmarket.privacy import SeededNoise
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    PrivateVectorMean,
    SeveralStatistics,
)
from support.campaigns import read_rows, write_rows
from support.certificates import RULES, bought, canonical, failing
from support.statistics import MEAN, SEVERAL, make_statistic_campaign

RECORDS = np.random.default_rng(4).uniform(0.0, 10.0, 12)
KINDS = {
    "mean": (PrivateMean(0, 10), RECORDS),
    "share": (PrivateShare(), RECORDS > 5),
    "histogram": (PrivateHistogram(("a", "b", "c")), [*"abcabcabcabc"]),
    "two": (PrivateHistogram(("a", "b")), [*"abababababab"]),
    "bins": (PrivateHistogram.from_edges([0, 3, 6, 10]), RECORDS),
    "quantile": (PrivateQuantile(0.5, candidates=range(0, 11)), RECORDS),
    "bare quantile": (PrivateQuantile(0.5, candidates=range(0, 11), interval_share=0.0), RECORDS),
    "vector mean": (PrivateVectorMean(("x", "y"), 20.0), np.column_stack([RECORDS, RECORDS[::-1]])),
}


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(scope="module")
def outcome():
    costs = np.random.default_rng(0).uniform(1.0, 5.0, 12)
    return bought(costs, 0.01)


def certified(outcome, kind):
    statistic, records = KINDS[kind]
    fitted = copy.copy(statistic).fit(records, epsilons=outcome.epsilons)
    return fitted, dpm.certify(outcome, fitted, RULES)


def body_of(certificate):
    return json.loads(certificate.body)


def changed(certificate, change):
    """Return the certificate with its release changed, and all else as it was."""
    body = body_of(certificate)
    change(body["release"])
    return bytes(certificate).replace(certificate.body, canonical(body).rstrip(b"\n"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_statistic_is_certified_and_every_line_checked(outcome, kind):
    fitted, certificate = certified(outcome, kind)
    result = dpm.verify(certificate, openings=certificate.openings(), receipt=certificate.receipt(0))
    assert result.passed, [check for check in result.checks if check.verdict == "FAILS"]
    verdicts = {check.name: check.verdict for check in result.checks}
    assert verdicts["whole weights"] == verdicts["spent epsilons"] == verdicts["public numbers"] == "holds"
    body = body_of(certificate)
    assert body["release"]["kind"] == "statistic"
    stated = body["release"]["statistics"][0]
    assert stated["values"] == list(fitted.release_.values)
    lines = json.loads(certificate.openings())
    assert lines["spent"] == lines["weight"] == fitted.epsilons_.tolist()


def test_noise_that_can_be_repeated_gets_no_certificate(outcome):
    seeded = PrivateMean(0, 10, noise_source=SeededNoise(1)).fit(RECORDS, epsilons=outcome.epsilons)
    with pytest.raises(NotCertifiable, match="secret noise"):
        dpm.certify(outcome, seeded, RULES)


def test_promises_that_were_exceeded_get_no_certificate(outcome):
    more = PrivateMean(0, 10).fit(RECORDS, epsilons=outcome.epsilons * 1.001)
    with pytest.raises(NotCertifiable, match="promise exceeded"):
        dpm.certify(outcome, more, RULES)


def several(**more):
    asked = {"age": PrivateMean(0, 10), "way": PrivateHistogram(("a", "b", "c")), "yes": PrivateShare(),
             "median": PrivateQuantile(0.5, candidates=range(0, 11)),
             "place": PrivateVectorMean(("x", "y"), 20.0)}  # fmt: skip
    return SeveralStatistics({**asked, **more}, {**dict.fromkeys([*asked, *more], 1.0), "age": 3.0})


ANSWERS = {
    "age": RECORDS,
    "way": [*"abcabcabcabc"],
    "yes": RECORDS > 5,
    "median": RECORDS,
    "place": np.column_stack([RECORDS, RECORDS[::-1]]),
}


def test_several_statistics_of_the_library_are_certified_together(outcome):
    fitted = several().fit(ANSWERS, epsilons=outcome.epsilons)
    certificate = dpm.certify(outcome, fitted, RULES, minor_units=100)
    for k in (0, 5):
        result = dpm.verify(certificate, openings=certificate.openings(), receipt=certificate.receipt(k))
        assert result.passed, [check for check in result.checks if check.verdict == "FAILS"]
    lines = json.loads(certificate.openings())
    for k, weight in enumerate(lines["weight"]):
        assert Fraction(weight) == sum(Fraction(spent[k]) for spent in fitted.spent_by_.values())
        assert weight <= lines["spent"][k] <= outcome.epsilons[k]
    stated = {part["name"]: part for part in body_of(certificate)["release"]["statistics"]}
    assert stated["place"]["columns"] == ["x", "y"]
    assert stated["age"]["share"] == 3 / 7 or stated["age"]["share"] < 3 / 7


def test_several_statistics_of_named_people_are_certified_in_the_outcomes_order():
    names = ["ann", "bob", "cem"]
    outcome = bought([1.5, 2.0, 2.5], 0.01)
    asked = SeveralStatistics(
        {"a": PrivateMean(0, 1, rows_per_person=2), "b": PrivateShare(rows_per_person=2)}
    )
    promises = dict(zip(names[::-1], outcome.epsilons.tolist()[::-1], strict=True))
    people = ["cem", "ann", "bob", "ann"]
    asked.fit({"a": [0.5] * 4, "b": [True] * 4}, epsilons=promises, people=people)
    certificate = dpm.certify(outcome, asked, RULES, seller_ids=names)
    assert dpm.verify(certificate, openings=certificate.openings()).passed
    lines = json.loads(certificate.openings())
    for name, spent in zip(lines["id"], lines["spent"], strict=True):
        assert spent == pytest.approx(promises[name], rel=1e-9)


def test_several_statistics_with_noise_that_can_be_repeated_get_no_certificate(outcome):
    seeded = several(other=PrivateMean(0, 10, noise_source=SeededNoise(1)))
    seeded.fit({**ANSWERS, "other": RECORDS}, epsilons=outcome.epsilons)
    with pytest.raises(NotCertifiable, match="secret noise"):
        dpm.certify(outcome, seeded, RULES)


def test_statistics_with_other_bounds_on_rows_or_shares_too_far_apart_get_no_certificate(outcome):
    uneven = SeveralStatistics({"a": PrivateShare(), "b": PrivateShare(rows_per_person=2)})
    uneven.fit({"a": RECORDS > 5, "b": RECORDS > 5}, epsilons=outcome.epsilons)
    with pytest.raises(NotCertifiable, match="rows_per_person"):
        dpm.certify(outcome, uneven, RULES)
    far = SeveralStatistics({"a": PrivateShare(), "b": PrivateShare()}, {"a": 1.0, "b": 1e-9})
    far.fit({"a": RECORDS > 5, "b": RECORDS > 5}, epsilons=outcome.epsilons)
    with pytest.raises(NotCertifiable, match="further apart"):
        dpm.certify(outcome, far, RULES)
    with pytest.raises(InvalidInput, match="released"):
        dpm.certify(outcome, SeveralStatistics({"a": PrivateShare()}), RULES)


@pytest.mark.parametrize(
    ("kind", "change", "check"),
    [
        ("mean", lambda part: part.update(noise_scale=part["noise_scale"] / 2), "public numbers"),
        ("histogram", lambda part: part.update(noise_scale=part["noise_scale"] / 2), "public numbers"),
        ("mean", lambda part: part["values"].__setitem__(0, part["values"][0] + 1e-6), "public numbers"),
        ("histogram", lambda part: part["values"].reverse(), "public numbers"),
        ("mean", lambda part: part.update(numerators=["1", "2"]), "public numbers"),
        ("mean", lambda part: part.update(numerators=["01"]), "public numbers"),
        ("quantile", lambda part: part.update(numerators=["11", "0", "3"]), "public numbers"),
        ("quantile", lambda part: part.update(numerators=part["numerators"][:1]), "public numbers"),
        ("mean", lambda part: part.update(total_weight=str(int(part["total_weight"]) + 1)), "public numbers"),
        ("mean", lambda part: part.update(unit_exponent=part["unit_exponent"] - 1), "public numbers"),
        ("mean", lambda part: part.update(share=1.5), "public numbers"),
        ("mean", lambda part: part["question"].update(low=11.0), "public numbers"),
        ("mean", lambda part: part["question"].update(kind="mode"), "public numbers"),
        ("mean", lambda part: part["question"].update(colour="red"), "public numbers"),
        ("mean", lambda part: part.update(more=1), "layout"),
        ("mean", lambda part: part.update(share=1), "layout"),
    ],
)
def test_a_statistic_that_was_changed_is_found(outcome, kind, change, check):
    _, certificate = certified(outcome, kind)
    forged = changed(certificate, lambda release: change(release["statistics"][0]))
    assert check in failing(dpm.verify(forged))


def test_half_of_the_noise_is_found_even_where_all_numbers_were_made_to_fit(outcome):
    """A forger who doubles the unit has to halve the weights, which the lines then contradict."""
    _, certificate = certified(outcome, "mean")

    def forge(release):
        part = release["statistics"][0]
        part["unit_exponent"] += 1
        part["noise_scale"] /= 2
        part["total_weight"] = str(int(part["total_weight"]) // 2)
        part["numerators"] = [str(int(part["numerators"][0]) // 2)]
        release["weight_total"] = float(int(part["total_weight"]) * Fraction(2) ** part["unit_exponent"])

    found = dpm.verify(changed(certificate, forge), openings=certificate.openings())
    assert {"whole weights", "spent epsilons"} & set(failing(found))


def test_more_than_a_share_of_the_promises_is_found(outcome):
    _, certificate = certified(outcome, "mean")
    release = statistic_release(body_of(certificate)["release"])
    total = body_of(certificate)["totals"]["total_promise"]
    assert wrong_parts(release, total) == []
    assert wrong_parts(release, total / 2) == ["a statistic that spends more than its share"]


def test_a_spent_epsilon_covers_whole_weights_and_no_others(outcome):
    _, certificate = certified(outcome, "mean")
    body = parts_of(body_of(certificate))
    weight = 5.0 * float(body.release.unit)
    assert is_covered(0.0, 0.0, body)
    assert is_covered(weight, weight, body)
    assert not is_covered(weight, np.nextafter(weight, 0.0), body)
    assert not is_covered(1.1 * weight, 1.1 * weight, body)
    assert is_covered(1.1 * weight, 1.2 * weight, body)


def campaign(folder, market, decide=decide_offline):
    make_statistic_campaign(folder, market=market)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide)
    train_file(folder / "market.toml", folder / "quotes.csv", folder / "data.csv", folder / "out.json")


@pytest.mark.parametrize("market", [MEAN, SEVERAL])
def test_a_campaign_of_statistics_is_certified_by_its_published_rules(tmp_path, market):
    make_statistic_campaign(tmp_path, market=market)
    (tmp_path / "rules.json").write_bytes(commit_market(tmp_path / "market.toml").data)
    campaign(tmp_path, market)
    certificate = certify_quotes(
        tmp_path / "market.toml", tmp_path / "quotes.csv", rules=tmp_path / "rules.json"
    )
    write_certificate(certificate, tmp_path / "certificate.json", tmp_path / "openings.json")
    found = check_published(
        tmp_path / "certificate.json",
        tmp_path / "rules.json",
        openings=tmp_path / "openings.json",
    )
    assert found.passed, [check for check in found.checks if check.verdict == "FAILS"]
    verdicts = {check.name: check.verdict for check in found.checks}
    assert verdicts["rules fixed beforehand"] == verdicts["whole weights"] == "holds"
    names = [part["name"] for part in body_of(certificate)["release"]["statistics"]]
    assert names == (["mean"] if market is MEAN else ["age", "way", "member of the club", "median", "place"])


@pytest.mark.parametrize(
    "change",
    [
        ("high = 90", "high = 91"),
        ("share = 3", "share = 4"),
        ("steps = 20", "steps = 25"),
        ("bound = 2.0", "bound = 3.0"),
        ('["bus", "car", "train"]', '["car", "bus", "train"]'),
    ],
)
def test_other_questions_than_the_published_ones_are_found(tmp_path, change):
    campaign(tmp_path, SEVERAL)
    certificate = certify_quotes(tmp_path / "market.toml", tmp_path / "quotes.csv")
    (tmp_path / "other").mkdir()
    make_statistic_campaign(tmp_path / "other", market=SEVERAL.replace(*change))
    from dpmarket.certificates.verifier.numbers_released import asked_alike

    release = statistic_release(body_of(certificate)["release"])
    own = json.loads(commit_market(tmp_path / "market.toml").data)["market"]
    other = json.loads(commit_market(tmp_path / "other" / "market.toml").data)["market"]
    assert asked_alike(own, release)
    assert not asked_alike(other, release)


def test_quotes_of_many_days_are_certified_together(tmp_path):
    market = MEAN + "\n[sellers]\nexpected = 60\n"
    make_statistic_campaign(tmp_path, market=market)
    rows = [list(row.values()) for row in read_rows(tmp_path / "reports.csv")]
    files = []
    for day, part in enumerate((rows[:40], rows[40:])):
        write_rows(tmp_path / f"reports{day}.csv", ["seller", "cost"], part)
        files.append(tmp_path / f"quotes{day}.csv")
        reports = tmp_path / f"reports{day}.csv"
        quote_file(tmp_path / "market.toml", reports, files[-1], decide_online)
    train_file(tmp_path / "market.toml", files, tmp_path / "data.csv", tmp_path / "out.json")
    certificate = certify_quotes(tmp_path / "market.toml", files[0])
    result = dpm.verify(certificate, openings=certificate.openings())
    assert result.passed, [check for check in result.checks if check.verdict == "FAILS"]
