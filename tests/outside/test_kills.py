"""Commands that are killed after one of their writes, and databases put back from a backup.

Nothing happens twice, and sellers do not lose. Tests do not know how many writes a command has: they bisect
kill points to those around which the outcome changes. `campaign/test_kills.py` and `test_rollback.py` have
every act.
"""

import shutil
import signal

import pytest

from outside.driver import FileCampaign, read_table
from outside.goods import GOODS, sellers, tables

GOOD, NUMBER = GOODS["two classes"], 30
LEFT = ("007", "seller 3")
MOST = 96  # more writes than a command of so few sellers has
DONE = "done"


class Place:
    """A campaign in a folder of its own that can be put back to where it stood, its log included."""

    def __init__(self, folder):
        self.campaign = FileCampaign(folder / "here", GOOD.rules(100), *tables(*sellers(GOOD, NUMBER)))
        self.folder, self.kept = self.campaign.folder, folder / "kept"

    def keep(self):
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.folder, self.kept)

    def back(self):
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)

    def outcomes(self, command, outcome):
        """Kill a command at points that close in on every change of the outcome; return it by point."""
        found = {}

        def at(number):
            if number not in found:
                self.back()
                code = command(code=None, kill_after=number).code
                assert code in (0, -signal.SIGKILL)
                found[number] = outcome(killed=code != 0)
            return found[number]

        def close_in(low, high):
            if high - low > 1 and at(low) != at(high):
                middle = (low + high) // 2
                close_in(low, middle)
                close_in(middle, high)

        close_in(1, MOST)
        assert found[MOST] == DONE
        return dict(sorted(found.items()))

    def show(self):
        """Return the round's state, epsilons promised and spent, and money; nothing before a quote."""
        shown = self.campaign.run("show", "rules.db", "--json", code=None)
        if shown.code or not shown.json["campaigns"]:
            return {}
        (found,) = shown.json["campaigns"]
        if not found["sellers"]:
            return {}
        spent = shown.json["epsilon_spent"]
        return {"state": found["state"], "spent": spent, **found["balance_minor_units"]}

    def read(self, name):
        path = self.campaign / name
        return path.read_bytes() if path.exists() else None

    def paid(self, name="payouts.csv"):
        return {row["seller"]: int(row["payment_minor_units"]) for row in read_table(self.campaign / name)}

    def lose_database(self):
        for path in self.folder.glob("rules.db*"):
            path.unlink()

    def promised(self):
        """Return the payments of sellers who have not withdrawn."""
        rows = self.campaign.quotes().values()
        return {row["seller"]: int(row["payment_minor_units"]) for row in rows if row["seller"] not in LEFT}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.fixture
def quoted(place):
    place.campaign.quote()
    place.campaign.withdraw(*LEFT)
    place.keep()
    return place


@pytest.fixture
def trained(quoted):
    quoted.campaign.train()
    quoted.keep()
    return quoted


def in_order(outcomes, *stages):
    """Say whether every stage was seen, and no later one before an earlier one."""
    seen = list(outcomes.values())
    return set(seen) == set(stages) and seen == sorted(seen, key=stages.index)


# --- kills --------------------------------------------------------------------------------------


def test_a_training_that_is_killed_is_undone_spent_and_paid_or_released_once(quoted):
    campaign, owed = quoted.campaign, quoted.promised()
    promised = sum(float(row["epsilon"]) for who, row in campaign.quotes().items() if who not in LEFT)

    def outcome(killed):
        written = quoted.read("model.json")
        again = campaign.train("--json", output="again.json", code=None)
        now = quoted.show()
        campaign.check_books()
        # However it ended, the promises to sellers who stayed are spent now, and owed, once.
        assert now["owed"] == sum(owed.values())
        assert now["held"] == now["on_its_way"] == now["paid_out"] == 0
        assert 0.999 * promised <= now["spent"] <= promised + 1e-6
        if again.code:  # noise may have been drawn: there will be no second one
            assert again.code == 1
            assert again.err
            assert written is quoted.read("again.json") is None
            assert now["state"] != "released"
            return "spent"
        assert now["state"] == "released"
        assert written in (None, quoted.read("again.json"))
        if not killed:
            return DONE
        return "undone" if again.json["is_new"] else "released"

    found = quoted.outcomes(campaign.train, outcome)
    assert in_order(found, "undone", "spent", "released", DONE), found
    # What was lost is paid, and not sold once more: a further purchase is another campaign.
    quoted.back()
    campaign.train(code=None, kill_after=next(number for number in found if found[number] == "spent"))
    campaign.train(code=1)
    campaign.payouts()
    rows = read_table(campaign / "payouts.csv")
    assert sum(int(row["payment_minor_units"]) for row in rows) == sum(owed.values())
    campaign.check_books()


def test_a_quote_that_is_killed_is_asked_again_and_promises_the_same_once(place):
    campaign = place.campaign
    place.keep()
    campaign.quote()
    expected = {who: (row["epsilon"], row["payment"]) for who, row in campaign.quotes().items()}
    total = sum(int(row["payment_minor_units"]) for row in campaign.quotes().values())

    def outcome(killed):
        whole = place.read("quotes.csv") is not None  # a file that is there is there to its end
        entered = place.show()
        assert entered or not whole  # nothing is told before it is entered
        assert not whole or len(campaign.quotes()) == NUMBER
        campaign.quote("--force")
        assert {who: (row["epsilon"], row["payment"]) for who, row in campaign.quotes().items()} == expected
        assert place.show()["held"] == total
        campaign.check_books()
        return DONE if not killed else "told" if whole else "entered" if entered else "nothing"

    found = place.outcomes(campaign.quote, outcome)
    assert in_order(found, "nothing", "entered", "told", DONE), found


# --- backups ------------------------------------------------------------------------------------


def test_a_backup_from_before_a_release_is_refused_until_it_is_repaired(quoted):
    campaign, owed = quoted.campaign, quoted.promised()
    campaign.run("backup", "copy.db")
    campaign.train()
    model = quoted.read("model.json")
    quoted.lose_database()
    shutil.copy(campaign / "copy.db", campaign / "rules.db")
    for refused in (
        campaign.train(output="second.json", code=1),
        campaign.quote("--force", code=1),
        campaign.withdraw("seller 7", code=1),
        campaign.payouts(code=1),
    ):
        assert "repair" in refused.err
    campaign.check_books(code=1)
    assert not campaign.run("show", "rules.db", "--json").json["agrees_with_log"]
    campaign.run("repair")
    campaign.check_books()
    campaign.train(output="second.json", code=1)  # what the first drew is not drawn again
    assert quoted.read("second.json") is None
    assert quoted.read("model.json") == model
    campaign.payouts()
    assert quoted.paid() == owed
    (line,) = campaign.run("statement", "seller 7", "--json").json["campaigns"]
    assert line["epsilon"] > 0
    assert line["spent"] == pytest.approx(line["epsilon"], abs=1e-8)


def test_a_database_that_is_gone_is_not_begun_anew_and_can_be_made_again(trained):
    campaign, owed = trained.campaign, trained.promised()
    trained.lose_database()
    campaign.quote("--force", code=1)
    campaign.train(output="second.json", code=1)
    assert list(campaign.folder.glob("rules.db*")) == []
    campaign.run("repair")
    campaign.train(output="second.json", code=1)
    campaign.payouts()
    assert trained.paid() == owed
    campaign.check_books()
