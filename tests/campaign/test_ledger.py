"""The ledger: promises are entered once, spent once, and add up."""

import sqlite3
import threading

import numpy as np
import polars as pl
import pytest

from dpmarket import FileProblem
from dpmarket.campaign import accounts, check_ledger, existing_ledger, ledger_path, open_ledger, rounds_of
from dpmarket.campaign import ledger as books
from dpmarket.errors import LedgerRefusal
from dpmarket.files import parquet_bytes


def quotes(epsilons, ids=None):
    epsilons = np.asarray(epsilons, dtype=float)
    ids = [f"søren {k}" for k in range(epsilons.size)] if ids is None else ids
    payments = np.ceil(300 * epsilons).astype(np.int64)
    return pl.DataFrame({"seller": ids, "epsilon": epsilons, "payment_minor_units": payments})


def enter(ledger, table):
    return books.enter_round(ledger, table, "offline", 100, {})[0]


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "market.ledger") as opened:
        yield opened


def test_the_ledger_lies_beside_the_market_file_and_only_its_owner_reads_it(tmp_path):
    path = ledger_path(tmp_path / "market.toml")
    assert path == tmp_path / "market.ledger"
    with open_ledger(path):
        assert path.stat().st_mode & 0o077 == 0


def test_a_link_to_a_market_file_has_that_markets_ledger(tmp_path):
    (tmp_path / "market.toml").touch()
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "other.toml"
    link.symlink_to(tmp_path / "market.toml")
    assert ledger_path(link) == (tmp_path / "market.ledger").resolve()


def test_the_same_promises_entered_by_two_at_once_are_entered_once(tmp_path, monkeypatch):
    """The second comes as soon as the first has looked, which is the worst moment."""
    path, table = tmp_path / "market.ledger", quotes([0.5, 0.25])
    look, results, threads = books.matching_rounds, [], []

    def attempt():
        with open_ledger(path) as mine:
            results.append(books.enter_round(mine, table, "offline", 100, {}))

    def look_and_let_another_in(*arguments):
        found = look(*arguments)
        if not threads:
            threads.append(threading.Thread(target=attempt))
            threads[0].start()
            threads[0].join(0.3)
        return found

    with open_ledger(path):
        pass
    monkeypatch.setattr(books, "matching_rounds", look_and_let_another_in)
    attempt()
    threads[0].join()
    assert sorted((found.number, is_new) for found, is_new in results) == [(1, False), (1, True)]
    with open_ledger(path) as ledger:
        assert len(rounds_of(ledger)) == 1


def test_quotes_are_known_by_every_id_epsilon_and_payment(ledger):
    table = quotes([0.1, 0.2, 0.0])
    entered = enter(ledger, table)
    assert books.matching_rounds(ledger, table) == [entered]
    for changed in (
        quotes([0.1, np.nextafter(0.2, 1), 0.0]),
        quotes([0.1, 0.2, 0.0], ["søren 1", "søren 0", "søren 2"]),
        quotes([0.1, 0.2, 0.0], ["søren 0", "søren 1", "søren  2"]),
        quotes([0.1, 0.2]),
        table.with_columns(payment_minor_units=table.get_column("payment_minor_units").reverse()),
    ):
        assert books.matching_rounds(ledger, changed) == []


def test_a_round_is_debited_once(ledger):
    number = enter(ledger, quotes([0.5])).number
    books.debit(ledger, number)
    with pytest.raises(LedgerRefusal, match=r"spent at .*quote --again"):
        books.debit(ledger, number)
    # Not only the program's care, but the database, makes it impossible.
    with pytest.raises(sqlite3.IntegrityError):
        ledger.execute("INSERT INTO training (round, state, debited_at) VALUES (?, 'debited', '')", (number,))


def test_of_many_debits_at_once_one_wins(tmp_path):
    path = tmp_path / "market.ledger"
    with open_ledger(path) as ledger:
        number = enter(ledger, quotes([0.5])).number
    results = []

    def attempt():
        with open_ledger(path) as mine:
            try:
                books.debit(mine, number)
                results.append("won")
            except LedgerRefusal:
                results.append("refused")

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["refused"] * 7 + ["won"]


def test_spending_is_nothing_then_the_promise_then_what_was_spent(ledger):
    entered = enter(ledger, quotes([0.5, 0.25, 0.0]))
    books.withdraw(ledger, entered.number, ["søren 1"])
    assert books.spent_of(ledger, entered).tolist() == [0.0, 0.0, 0.0]
    training = books.debit(ledger, entered.number)
    assert books.spent_of(ledger, books.round_of(ledger, entered.number)).tolist() == [0.5, 0.0, 0.0]
    check_ledger(ledger)
    books.release(ledger, training, "{}", np.array([0.49, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    assert books.spent_of(ledger, books.round_of(ledger, entered.number)).tolist() == [0.49, 0.0, 0.0]
    assert books.released_model(ledger, entered.number) == "{}"
    check_ledger(ledger)


def test_a_debit_that_is_given_back_can_be_made_again(ledger):
    number = enter(ledger, quotes([0.5])).number
    books.give_back(ledger, books.debit(ledger, number))
    assert books.round_of(ledger, number).state == "open"
    books.debit(ledger, number)
    assert books.round_of(ledger, number).state == "debited"


def test_a_released_debit_cannot_be_given_back(ledger):
    number = enter(ledger, quotes([0.5])).number
    training = books.debit(ledger, number)
    books.release(ledger, training, "{}", np.array([0.5]), np.ones(1))
    books.give_back(ledger, training)
    assert books.round_of(ledger, number).state == "released"


def test_accounts_add_up_over_rounds_for_the_same_seller(ledger):
    first = enter(ledger, quotes([0.5, 0.25], ["a", "b"]))
    second = enter(ledger, quotes([1.0, 0.125], ["b", "c"]))
    books.withdraw(ledger, second.number, ["c"])
    books.debit(ledger, first.number)
    training = books.debit(ledger, second.number)
    books.release(ledger, training, "{}", np.array([0.75, 0.0]), np.array([1.0, 0.0]))
    rows = {row[0]: row[1:] for row in accounts(ledger).rows()}
    assert rows == {"a": (0.5, 0.5, 150), "b": (1.25, 1.0, 375), "c": (0.0, 0.0, 0)}
    check_ledger(ledger)


def test_withdrawing_changes_nobody_else_and_ends_with_the_debit(ledger):
    table = quotes([0.5, 0.25, 0.125])
    number = enter(ledger, table).number
    assert books.withdraw(ledger, number, ["søren 1", "søren 1"]) == 1
    assert books.withdraw(ledger, number, ["søren 1"]) == 0
    assert books.quotes_of(ledger, number).equals(table)
    assert books.withdrawn_of(ledger, number, table).tolist() == [False, True, False]
    with pytest.raises(LedgerRefusal, match="1 of 2 sellers have no quote"):
        books.withdraw(ledger, number, ["søren 0", "nobody"])
    books.debit(ledger, number)
    with pytest.raises(LedgerRefusal, match="cannot be taken back"):
        books.withdraw(ledger, number, ["søren 0"])
    assert books.withdrawn_of(ledger, number, table).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE round SET payments = payments + 1", "payments"),
        ("UPDATE round SET promised = promised * 2", "promises"),
        ("UPDATE round SET sellers = 3", "sellers"),
        ("DELETE FROM page WHERE kind = 'spent'", "damaged"),
        ("UPDATE page SET content = x'00' WHERE kind = 'quoted'", "damaged"),
        ("UPDATE page SET content = (SELECT p.content FROM page p WHERE p.round = 2 AND p.kind = 'spent') "
         "WHERE round = 1 AND kind = 'spent'", "amounts spent"),
    ],
)  # fmt: skip
def test_a_ledger_that_was_tampered_with_does_not_add_up(ledger, damage, words):
    for epsilons in ([0.5, 0.25], [5.0, 0.25]):
        number = enter(ledger, quotes(epsilons)).number
        spent = np.array(epsilons)
        books.release(ledger, books.debit(ledger, number), "{}", spent, spent)
    check_ledger(ledger)
    ledger.execute(damage)
    with pytest.raises(FileProblem, match=words):
        check_ledger(ledger)


def test_a_ledger_of_something_else_or_of_another_version_is_refused(tmp_path):
    path = tmp_path / "market.ledger"
    with pytest.raises(FileProblem, match="cannot find the ledger"), existing_ledger(path):
        pass
    path.write_text("this is no database, but text that is long enough" * 100)
    with pytest.raises(FileProblem, match="not a database"), existing_ledger(path):
        pass
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(FileProblem, match="something else"), existing_ledger(path):
        pass
    path.unlink()
    with open_ledger(path) as ledger:
        ledger.execute("PRAGMA user_version = 99")
    with pytest.raises(FileProblem, match="expected version 2 of its schema, found 99"), open_ledger(path):
        pass


def test_an_unfinished_transaction_leaves_nothing(ledger, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(books, "_keep", fail)
    with pytest.raises(KeyboardInterrupt):
        enter(ledger, quotes([0.5]))
    assert rounds_of(ledger) == []


def test_many_sellers_take_several_pages_and_read_back_the_same(ledger, monkeypatch):
    monkeypatch.setattr(books, "_PAGE", 50_000)
    epsilons = np.random.default_rng(0).random(10_000)
    table = quotes(epsilons)
    number = enter(ledger, table).number
    sizes = [row[0] for row in ledger.execute("SELECT length(content) FROM page ORDER BY number")]
    assert len(sizes) > 2
    assert set(sizes[:-1]) == {50_000}
    assert books.quotes_of(ledger, number).equals(table)
    check_ledger(ledger)


def test_quotes_that_are_a_parquet_file_are_kept_as_it_is_and_known_by_the_ledgers_names(ledger):
    table = quotes([0.5, 0.25])
    file = pl.DataFrame({"wer": table.get_column("seller"), "more": [1, 2], **table.drop("seller").to_dict()})
    content = parquet_bytes(file)
    entered, _ = books.enter_round(ledger, file, "offline", 100, {}, parquet=content)
    assert ledger.execute("SELECT content FROM page").fetchall() == [(content,)]
    assert books.quotes_of(ledger, entered.number).equals(table)
    assert books.enter_round(ledger, table, "offline", 100, {}) == (entered, False)  # the same promises
    check_ledger(ledger)
