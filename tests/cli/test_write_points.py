"""Killed after any single write, and with two processes at once: nothing is lost, nothing happens twice."""

import shutil
import signal
from pathlib import Path

import pytest

from dpmarket.campaign import read_model, read_quotes
from dpmarket.ledger import balance_of, check_everything, existing_ledger, outside, reading, rounds_of
from dpmarket.ledger.rounds import count_withdrawn
from support.campaigns import make_campaign, read_rows
from support.forking import Forks

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

QUOTE = ("quote", "reports.csv", "-o", "quotes.csv", "-q", "--force")
WITHDRAW = ("withdraw", "007", "seller 3", "--quotes", "quotes.csv", "-q")
TRAIN = ("train", "data.csv", "--quotes", "quotes.csv", "-o", "model.json", "-q", "--force")
PAY = ("payouts", "-o", "payouts.csv", "-q", "--force")
REPAIR = ("ledger", "repair", "market.ledger", "-q")
CONFIRM = ("payouts", "--confirmed", "payouts.csv", "-q")
BEFORE = {
    "quote": (QUOTE, ()),
    "withdraw": (WITHDRAW, (QUOTE,)),
    "train": (TRAIN, (QUOTE, WITHDRAW)),
    "pay out": (PAY, (QUOTE, WITHDRAW, TRAIN)),
    "confirm": (CONFIRM, (QUOTE, WITHDRAW, TRAIN, PAY)),
}
MOST = 200  # writes of a command


class Place:
    """A folder in which forks run commands, and a copy of it to begin from again."""

    def __init__(self, tmp_path, forks):
        self.folder, self.template, self.forks = forks.folder, tmp_path / "template", forks
        self.template.mkdir()
        make_campaign(self.template, 40)
        self.back()

    def back(self):
        """Put everything back, the log outside of the ledger included."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.template, self.folder, dirs_exist_ok=True)

    def keep(self):
        shutil.rmtree(self.template)
        shutil.copytree(self.folder, self.template)

    def run(self, command, **options):
        self.forks.start(*command, **options)
        return self.forks.wait()

    def logged(self):
        """Return how many have withdrawn by the log outside of the ledger."""
        return sum(
            one["leaving"] for line in outside.read_log() if line.kind == "withdrawn" for one in line.rounds
        )

    def withdrawn(self):
        with existing_ledger(self.folder / "market.ledger") as ledger, reading(ledger) as connection:
            return count_withdrawn(connection, 1)

    def looked(self):
        """Return the only round and its campaign's balance; everything must add up."""
        if not (self.folder / "market.ledger").exists():
            return None, None
        with existing_ledger(self.folder / "market.ledger") as ledger, reading(ledger) as connection:
            check_everything(connection, ledger)
            found = rounds_of(connection)
            assert len(found) <= 1
            return (found[0], balance_of(connection, found[0].campaign)) if found else (None, None)


@pytest.fixture(scope="module")
def first():
    opened = Forks()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def second():
    opened = Forks()
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = tmp_path / "here"
    made.mkdir()
    monkeypatch.setenv("DPMARKET_STATE", str(made / "state"))
    return made


@pytest.fixture
def place(tmp_path, folder, first):
    first.folder = folder
    return Place(tmp_path, first)


def kill_after(place, name, number):
    """Kill a command after one of its writes; return whether it came so far. Then run it again."""
    command, _ = BEFORE[name]
    place.back()
    code = place.run(command, kill_at=number)
    assert code in (0, -signal.SIGKILL)
    if name == "withdraw" and place.logged() > place.withdrawn():
        # Dead between the log's line and the ledger's: as with a backup that was put back.
        assert place.run(command) == 1
        assert place.run(REPAIR) == 0
        assert place.withdrawn() == place.logged() == 2
    entered, balance = place.looked()
    for path, read in (("quotes.csv", read_quotes), ("model.json", read_model)):
        if (place.folder / path).exists():
            read(place.folder / path)
    # Dead between its two marks, in the ledger and in the log: nobody knows, and so it is spent.
    marked = any(line.kind == "mark" for line in outside.read_log()) or (
        entered and entered.state == "marked"
    )
    if name == "train" and marked and not (place.folder / "model.json").exists():
        state = entered.state
        again = place.run(command)
        entered, balance = place.looked()
        # Released and not yet written: the same model. Else spent, paid, and said so.
        assert (again, entered.state) == ((0, "released") if state == "released" else (1, "lost"))
        assert balance.owed > 0
    else:
        # What is in the log outside is entered, also if the command died before the ledger had it.
        paid_out = name == "pay out" and any(line.kind == "payout" for line in outside.read_log())
        assert place.run(command) == (1 if paid_out else 0)
    entered, balance = place.looked()
    assert [line.kind for line in outside.read_log()].count("mark") <= 1
    if name in ("pay out", "confirm"):
        if not (place.folder / "payouts.csv").exists():  # killed between entry and file
            assert place.run((*PAY, "--repeat", "1")) == 0
        owed = sum(int(row["payment_minor_units"]) for row in read_rows(place.folder / "payouts.csv"))
        assert balance.on_its_way + balance.paid_out == owed
        assert balance.owed == 0
    return code != 0


def prepare(place, name):
    for command in BEFORE[name][1]:
        assert place.run(command) == 0
    place.keep()


@pytest.mark.parametrize("name", ["quote", "train"])
def test_killed_after_some_writes_a_command_can_be_run_again(place, name):
    prepare(place, name)
    reached = [kill_after(place, name, number) for number in (2, 9, 16, 23)]
    assert reached[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", BEFORE)
def test_killed_after_every_single_write_a_command_can_be_run_again(place, name):
    prepare(place, name)
    reached = 0
    while kill_after(place, name, reached + 1):
        reached += 1
        assert reached < MOST
    assert reached > 5


@pytest.mark.parametrize("name", ["quote", "train"])
def test_two_processes_at_once_do_it_once(place, second, name):
    prepare(place, name)
    command, _ = BEFORE[name]
    output = "quotes.csv" if name == "quote" else "model.json"
    aside = [f"other-{part}" if part == output else part for part in command]
    second.folder = place.folder
    for _ in range(3):
        place.back()
        place.forks.start(*command)
        second.start(*aside)
        codes = {place.forks.wait(), second.wait()}
        assert codes in ({0}, {0, 1})  # the second may find that a training is under way
        entered, _ = place.looked()
        assert entered.state == ("open" if name == "quote" else "released")
        assert [line.kind for line in outside.read_log()].count("mark") == (name == "train")


@pytest.mark.slow
def test_two_processes_that_quote_all_the_time_never_exceed_a_budget(folder, first, second):
    """Each quotes its own people online; the room of one budget is shared."""
    from support.desks import market_text

    text = market_text(
        sellers={"expected": 60}, objective={"budget": 20.0, "concentration": 1.0, "noise": 1.0}
    )
    make_campaign(folder, 3, text)
    first.folder = second.folder = folder
    for turn in range(8):
        for k, process in enumerate((first, second)):
            rows = "".join(f"{k} {turn} {i},1.1\n" for i in range(6))
            (folder / f"r{k}.csv").write_text("seller,cost\n" + rows)
            process.start("quote", f"r{k}.csv", "-o", f"q{k}-{turn}.csv", "--online", "-q")
        assert {process.wait() for process in (first, second)} <= {0, 1}
    with existing_ledger(folder / "market.ledger") as ledger, reading(ledger) as connection:
        check_everything(connection, ledger)
        found = rounds_of(connection)
        assert sum(entered.payments for entered in found) <= 2000
        assert len(found) > 2
        told = sum(len(read_rows(path)) for path in Path(folder).glob("q?-?.csv"))
        assert sum(entered.sellers for entered in found) == told
