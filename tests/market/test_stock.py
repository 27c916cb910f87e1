"""Who answers requests needs no campaign's private key: they are made before, by a worker, elsewhere."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from dpmarket.errors import FileProblem
from dpmarket.market import key_for, new_key, open_desk, work
from dpmarket.market.keys import has_key
from dpmarket.market.stock import STOCK, spare_keys, stock_keys
from support.live import DELIVER, SOLD, Live


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "operator", tmp_path / "campaigns", tmp_path / "cannot be read"


def test_a_campaign_is_sold_by_a_desk_that_has_no_campaign_key_and_trained_by_one_that_has(place, folders):
    operator, campaigns, nothing = folders
    with (
        open_desk(place, campaigns, operator_keys=operator) as worker,
        open_desk(place, nothing, operator_keys=operator) as web,
    ):
        work(worker, DELIVER)  # puts keys in stock
        taken = []

        def take(folder, campaign):
            assert folder == web.keys
            taken.append(key_for(web, campaign))
            return taken[0]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dpmarket.market.new_key", take)
            live = Live(web)  # which opens a campaign
        for k in range(4):
            live.newcomer(f"person {k}", *SOLD)
        assert list(nothing.iterdir()) == []
        assert has_key(campaigns, live.campaign, taken[0])
        assert not has_key(operator, live.campaign, taken[0])
        assert [job.kind for job in work(worker, DELIVER)] == ["close", "train", "certify"]
        assert live.state() == "released"
        assert not has_key(campaigns, live.campaign, taken[0])  # destroyed in the moment before noise
        assert list(nothing.iterdir()) == []
        assert len(spare_keys(worker)) == STOCK


def test_a_key_in_stock_is_taken_once_and_none_in_stock_is_a_refusal(tmp_path, folders):
    operator, campaigns, nothing = folders
    with (
        open_desk(tmp_path / "market.ledger", campaigns, operator_keys=operator) as worker,
        open_desk(tmp_path / "market.ledger", nothing, operator_keys=operator) as web,
    ):
        with pytest.raises(FileProblem, match="is a worker running"):
            key_for(web, "a" * 32)
        assert stock_keys(worker) == STOCK
        assert stock_keys(worker) == 0
        assert all(path.stat().st_mode & 0o077 == 0 for path in [*operator.iterdir(), *campaigns.iterdir()])

        def take(_):
            try:
                return key_for(web, "a" * 32)
            except FileProblem:
                return None

        with ThreadPoolExecutor(8) as pool:
            taken = [key for key in pool.map(take, range(20)) if key is not None]
        assert len(taken) == len(set(taken)) == STOCK
        assert stock_keys(worker) == STOCK
        for public in taken:  # all of them belong to private halves that are there
            assert has_key(campaigns, "a" * 32, public)


def test_with_one_folder_nothing_is_kept_in_stock(tmp_path):
    with open_desk(tmp_path / "market.ledger", tmp_path / "keys") as desk:
        assert stock_keys(desk) == 0
        assert has_key(desk.keys, "b" * 32, key_for(desk, "b" * 32))
        assert not has_key(desk.keys, "b" * 32, new_key(desk.keys, "c" * 32))
        assert spare_keys(desk) == []
