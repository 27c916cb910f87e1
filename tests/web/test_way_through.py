"""The whole way of a campaign over HTTP, and what each role sees of it."""

import pytest

import dpmarket as dpm
from dpmarket.market import work
from dpmarket.web.client import Refused
from support.live import MARKET
from support.shop import RECORD, SOLD, open_shop


def test_a_campaign_goes_all_the_way_from_a_draft_to_payments(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open(amount=20_000)
        sold = [shop.seller(campaign, *SOLD, cost=1.0 + 0.2 * k) for k in range(8)]
        for k, seller in enumerate(sold):
            seller.set_payee(f"account {k}")
        gone = shop.seller(campaign, *SOLD)
        lapsed = shop.seller(campaign, "consent", "menu", "quote", "accept")
        assert gone.withdraw() == {"state": "withdrawn"}
        shop.check()
        shop.clock.pass_(days=9)
        assert [job.kind for job in work(shop.desk, shop.clock())] == ["close", "train", "certify"]
        assert shop.buyer.campaign(campaign)["state"] == "released"
        assert lapsed.me()["state"] == "lapsed"
        certificate = shop.buyer.certificate(campaign)
        for k, seller in enumerate(sold):
            assert dpm.verify(certificate, receipt=seller.receipt(), cost=1.0 + 0.2 * k).passed
            assert seller.events()[-1] == "trained"
            assert seller.certificate(campaign) == certificate
            assert seller.me()["spent"] > 0.0
        with pytest.raises(Refused) as refusal:
            gone.receipt()
        assert refusal.value.status == 404
        assert shop.buyer.model(campaign) == sold[0].model(campaign)
        report = shop.buyer.get(f"/campaigns/{campaign}/figures")
        assert {one["verdict"] for one in report["certificate"]} <= {"holds", "not made"}
        assert report["totals"]["counts"] == {"spent": 8, "withdrawn": 1, "lapsed": 1}
        assert 0.5 < report["even_guess_becomes"] < 1.0
        paid = shop.paymaster.pay_out(campaign)
        assert sorted(line["payee"] for line in paid["lines"]) == [f"account {k}" for k in range(8)]
        references = [line["reference"] for line in paid["lines"]]
        assert shop.paymaster.confirm(paid["payout"]["id"], references) == 8
        assert shop.paymaster.confirm(paid["payout"]["id"], references) == 0
        (one,) = shop.paymaster.get("/payouts")["campaigns"]
        assert (one["owed"], one["on_its_way"]) == (0, 0)
        assert one["paid_out"] == sum(line["amount"] for line in paid["lines"])
        rest = 20_000 - one["paid_out"]
        shop.paymaster.post(f"/campaigns/{campaign}/refund", {"amount": rest})
        openings = shop.members["auditor"].read(f"/campaigns/{campaign}/openings")
        assert dpm.verify(certificate, openings=openings).passed
        shop.check()


def test_an_offline_campaign_is_reported_to_cleared_and_trained(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open("offline", amount=100_000)
        sellers = []
        for k in range(6):
            seller = shop.seller(campaign, "consent")
            assert seller.post("/me/report", {"cost": 1.0 + 0.3 * k}) == {"state": "reported"}
            sellers.append(seller)
        shop.clock.pass_(days=7)
        assert [job.kind for job in work(shop.desk, shop.clock())] == ["clear"]
        for seller in sellers:
            assert seller.get("/me/quote")["payment"] > 0
            seller.accept()
            seller.deliver(RECORD)
        shop.clock.pass_(days=2)
        assert [job.kind for job in work(shop.desk, shop.clock())] == ["close", "train", "certify"]
        auditor, certificate = shop.members["auditor"], shop.buyer.certificate(campaign)
        told = auditor.get(f"/campaigns/{campaign}/costs")["costs"]
        assert sorted(one["cost"] for one in told) == pytest.approx([1.0 + 0.3 * k for k in range(6)])
        for caller in (shop.buyer, shop.operator, shop.paymaster, sellers[0]):
            with pytest.raises(Refused) as refusal:
                caller.get(f"/campaigns/{campaign}/costs")
            assert refusal.value.status == 404
        for k, seller in enumerate(sellers):
            assert dpm.verify(certificate, receipt=seller.receipt(), cost=1.0 + 0.3 * k).passed
        shop.check()


def test_categories_and_several_rows_are_delivered_and_refused_by_place(shop):
    market = {
        **MARKET,
        "sellers": {"expected": 30, "rows_per_person": 2},
        "features": {"age": {"low": 18, "high": 90}, "job": {"categories": ["baker", "smith"]}},
        "training": {"outside_bounds": "refuse"},
    }
    campaign = shop.open(market=market, amount=50_000)
    row = {"age": 41, "job": "baker", "bought": "yes"}
    several = [shop.seller(campaign, *SOLD[:-1]) for _ in range(2)]
    assert several[0].deliver(row) == {"state": "delivered"}
    for wrong in ([], [row] * 3, [{**row, "job": "canary"}], [row, 3], {**row, "age": True}):
        answer = shop.request("POST", "/api/v1/me/record", several[1].token, json={"values": wrong})
        assert answer.status_code == 422
        assert "canary" not in answer.text
    assert several[1].deliver([row, {**row, "job": "smith"}]) == {"state": "delivered"}


def test_private_keys_are_wrapped_where_the_settings_name_a_master_key(tmp_path, monkeypatch):
    from dpmarket.web.running import opened
    from dpmarket.web.settings import read_settings
    from dpmarket.web.setup import init_service

    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DPMARKET_MASTER_KEY_FILE", "")  # put back by the test's end
    monkeypatch.delenv("DPMARKET_MASTER_KEY_FILE")
    init_service(tmp_path / "service", "An operator")
    master = tmp_path / "master"
    master.write_text("ab" * 32)
    master.chmod(0o600)
    path = tmp_path / "service" / "settings.toml"
    path.write_text(path.read_text() + f'master_key_file = "{master}"\n')
    with opened(read_settings(tmp_path / "service")) as desk:
        (key,) = desk.keys.iterdir()
        assert key.read_bytes().startswith(b"dpmarket wrapped key")
