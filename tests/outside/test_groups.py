"""Campaigns with groups: shares are bought as the rules say, quotas hold, and papers show it."""

import numpy as np
import pytest

from outside.driver import FileCampaign, read_table, write_table
from outside.goods import GOODS, sellers, tables

GOOD = GOODS["two classes"]
SHARES = {"town": 0.6, "country": 0.4}
COSTS = {"town": (1.0, 2.0), "country": (2.5, 5.0)}


def campaign_in(folder, number, mechanism="offline", **objective):
    """Return a campaign of two groups whose costs lie apart, and the group of each seller, by turns."""
    ids, _, people = sellers(GOOD, number)
    members, rng = [list(SHARES)[k % 2] for k in range(number)], np.random.default_rng(0)
    reports, data = tables(ids, [float(rng.uniform(*COSTS[group])) for group in members], people)
    groups = {
        name: {"share": share, "distribution": "uniform({}, {})".format(*COSTS[name])}
        for name, share in SHARES.items()
    }
    rules = {**GOOD.rules(max(number, 100), mechanism, **objective), "groups": groups}
    return FileCampaign(folder, rules, {**reports, "group": members}, data), members


@pytest.mark.parametrize(
    "rules", [{}, {"coverage": 0.02}, {"budget": 90, "mechanism": "online"}], ids=["exact", "soft", "online"]
)
def test_a_campaign_from_files_buys_its_shares_and_proves_them(tmp_path, rules):
    number = 120 if "budget" in rules else 20
    campaign, groups = campaign_in(tmp_path, number, **rules)
    campaign.quote()
    bought = np.array([float(row["epsilon"]) for row in campaign.quotes().values()])
    members = np.array(groups)[: bought.size]
    if bought.size == number and "coverage" not in rules:
        share = bought[members == "town"].sum() / bought.sum()
        assert share == pytest.approx(0.6, abs=1e-9 if not rules else 0.15)
    rows = [row for row in read_table(campaign / "data.csv") if row["seller"] in campaign.quotes()]
    write_table(campaign / "data.csv", {name: [row[name] for row in rows] for name in rows[0]})
    campaign.train(), campaign.certify()
    checks = campaign.verify("--openings", "openings.json").json["checks"]
    verdicts = {check["name"]: check["verdict"] for check in checks}
    assert "FAILS" not in verdicts.values()
    if "budget" not in rules:
        assert verdicts["caps and quotas"] == "holds"
        assert verdicts["announced rules"] == "holds"
    if not rules:
        campaign.report()
        page = (campaign / "report.html").read_text(encoding="utf-8")
        assert "town" in page
        assert "country" in page
