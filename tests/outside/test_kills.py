"""Commands that are killed after one of their writes, and databases put back from a backup.

Nothing happens twice, and sellers do not lose. Tests do not know how many writes a command has: they bisect
kill points to those around which the outcome changes.
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

    def promised(self):
        """Return the payments of sellers who have not withdrawn."""
        rows = self.campaign.quotes().values()
        return {row["seller"]: int(row["payment_minor_units"]) for row in rows if row["seller"] not in LEFT}

    def back_up(self, backup):
        copy_database(self.campaign / "rules.db", backup)

    def restore(self, backup):
        copy_database(backup, self.campaign / "rules.db")


def copy_database(source, target):
    """Copy a database with the files that SQLite has beside it."""
    for ending in ("", "-wal", "-shm"):
        old, new = (path.with_name(path.name + ending) for path in (source, target))
        new.unlink(missing_ok=True)
        if old.exists():
            shutil.copy(old, new)


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


def test_a_withdrawal_that_is_killed_is_whole_or_none(place):
    campaign = place.campaign
    campaign.quote()
    place.keep()
    held = {who: int(row["payment_minor_units"]) for who, row in campaign.quotes().items()}
    left = sum(held.values()) - sum(held[who] for who in LEFT)

    def leave(**options):
        return campaign.withdraw(*LEFT, "--json", **options)

    def outcome(killed):
        again = leave(code=None)
        if again.code:  # the log knows of it and the database does not: as with a backup that was put back
            campaign.train(code=1)
            campaign.run("repair")
            again = leave()
            assert again.json["withdrawn"] == 0
        assert again.json["withdrawn"] in (0, len(LEFT))
        assert place.show()["held"] == left
        campaign.check_books()
        return DONE if not killed else "still in" if again.json["withdrawn"] else "left"

    found = place.outcomes(leave, outcome)
    assert in_order(found, "still in", "left", DONE), found


def test_a_payout_that_is_killed_pays_everybody_once(trained):
    campaign, owed = trained.campaign, trained.promised()

    def outcome(killed):
        written = trained.read("payouts.csv") is not None
        again = campaign.run("payouts", "-o", "again.csv", code=None)
        if again.code:  # it is entered, and can be written once more
            campaign.run("payouts", "--repeat", 1, "-o", "again.csv")
            assert not written or trained.read("payouts.csv") == trained.read("again.csv")
        else:
            assert not written
        assert trained.paid("again.csv") == owed
        now = trained.show()
        assert (now["owed"], now["on_its_way"]) == (0, sum(owed.values()))
        campaign.check_books()
        return DONE if not killed else "entered" if again.code else "undone"

    found = trained.outcomes(campaign.payouts, outcome)
    assert in_order(found, "undone", "entered", DONE), found
    campaign.run("payouts", "--confirmed", "again.csv")
    assert trained.show()["paid_out"] == sum(owed.values())


# --- backups ------------------------------------------------------------------------------------


def test_a_backup_from_before_a_release_is_refused_until_it_is_repaired(quoted, tmp_path):
    campaign, owed, backup = quoted.campaign, quoted.promised(), tmp_path / "backup"
    quoted.back_up(backup)
    campaign.train()
    model = quoted.read("model.json")
    quoted.restore(backup)
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


def test_a_backup_from_before_a_release_takes_the_released_file_back(quoted, tmp_path):
    campaign, owed, backup = quoted.campaign, quoted.promised(), tmp_path / "backup"
    quoted.back_up(backup)
    campaign.train()
    model = quoted.read("model.json")
    quoted.restore(backup)
    campaign.run("repair", "--released", "model.json")
    assert quoted.show()["state"] == "released"
    campaign.train(output="second.json")
    assert quoted.read("second.json") == model
    campaign.payouts()
    assert quoted.paid() == owed
    campaign.check_books()


def test_a_backup_that_is_restored_is_repaired_and_spends_nothing_twice(quoted):
    campaign, owed = quoted.campaign, quoted.promised()
    campaign.run("backup", "copy.db")
    campaign.train()
    for path in campaign.folder.glob("rules.db*"):
        path.unlink()
    campaign.run("restore", "copy.db")
    assert quoted.show()["state"] == "failed"
    campaign.train(output="second.json", code=1)
    campaign.payouts()
    assert quoted.paid() == owed
    campaign.check_books()


def test_a_backup_from_before_a_withdrawal_does_not_bring_the_seller_back(place, tmp_path):
    campaign, backup = place.campaign, tmp_path / "backup"
    campaign.quote()
    place.back_up(backup)
    campaign.withdraw(*LEFT)
    place.restore(backup)
    campaign.train(code=1)
    campaign.run("repair")
    campaign.train()
    assert campaign.released()["records"] == NUMBER - len(LEFT)
    campaign.payouts()
    assert not set(LEFT) & set(place.paid())
    campaign.check_books()


def test_a_backup_from_before_a_payout_pays_nobody_twice(trained, tmp_path):
    campaign, owed, backup = trained.campaign, trained.promised(), tmp_path / "backup"
    trained.back_up(backup)
    campaign.payouts()
    first = trained.read("payouts.csv")
    campaign.run("payouts", "--confirmed", "payouts.csv")
    trained.restore(backup)
    campaign.run("payouts", "-o", "second.csv", code=1)
    campaign.run("repair")
    campaign.run("payouts", "-o", "second.csv", code=1)
    assert trained.read("second.csv") is None
    campaign.run("payouts", "--repeat", 1, "-o", "again.csv")
    assert trained.read("again.csv") == first
    # Confirmations since the backup are lost: the bank's statement is the truth, and says them once more.
    assert trained.show()["on_its_way"] == sum(owed.values())
    campaign.run("payouts", "--confirmed", "again.csv")
    assert trained.show()["paid_out"] == sum(owed.values())
    campaign.check_books()


def test_a_database_that_is_gone_is_not_begun_anew_and_can_be_made_again(trained):
    campaign, owed = trained.campaign, trained.promised()
    for path in campaign.folder.glob("rules.db*"):
        path.unlink()
    campaign.quote("--force", code=1)
    campaign.train(output="second.json", code=1)
    assert list(campaign.folder.glob("rules.db*")) == []
    campaign.run("repair")
    campaign.train(output="second.json", code=1)
    campaign.payouts()
    assert trained.paid() == owed
    campaign.check_books()


def test_a_database_without_its_log_counts_open_promises_as_spent_and_paid(quoted):
    campaign, owed = quoted.campaign, quoted.promised()
    shutil.rmtree(campaign / "state")
    refused = campaign.train(code=1)
    assert refused.err
    assert quoted.read("model.json") is None
    campaign.run("repair", "--log-lost")
    campaign.train(code=1)  # somebody might have trained with a newer copy
    campaign.payouts()
    assert quoted.paid() == owed
    campaign.check_books()
