"""Rounds: entered once, known by their identity, spent once, withdrawn from before that; chains that tell."""

import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import (
    accounts,
    charges,
    check_ledger,
    digests,
    pages,
    reading,
    releases,
    rounds,
    statement,
    tables,
    writing,
)
from dpmarket.ledger.engine import new_id
from support.ledgers import campaign_in, enter, quotes


def spend(connection, *numbers):
    attempt = new_id()
    releases.debit(connection, attempt, numbers)
    return attempt


def released(connection, number, spent):
    attempt = spend(connection, number)
    releases.mark(connection, attempt)
    releases.release(connection, attempt, "{}", {number: (np.array(spent), np.array(spent))})
    return attempt


def test_a_round_is_found_by_its_identity_and_cannot_be_entered_twice(ledger):
    with writing(ledger) as connection:
        entered = enter(connection, quotes([0.5, 0.25]), digest="abc")
        assert rounds.round_with_identity(connection, "abc-0") == entered
        assert rounds.round_with_identity(connection, "abc-1") is None
    with pytest.raises(LedgerRefusal), writing(ledger) as connection:
        enter(connection, quotes([0.5, 0.25]), digest="abc")
    with writing(ledger) as connection:
        enter(connection, quotes([0.5, 0.25]), digest="abc", repetition=1)
        assert [found.repetition for found in rounds.rounds_with_digest(connection, "abc")] == [0, 1]
        check_ledger(connection)


def test_a_round_is_debited_once(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([0.5])).number
        spend(connection, number)
        with pytest.raises(LedgerRefusal, match="spent already"):
            spend(connection, number)
    # Not only the program's care, but the database, makes it impossible.
    with writing(ledger) as connection:
        values = {"id": "x", "kind": "model", "state": "debited", "debited_at": ""}
        connection.execute(tables.release.insert().values(values))
    rule = r"one_debit_per_round|debit\.round"
    with pytest.raises(LedgerRefusal, match=rule), writing(ledger) as connection:
        connection.execute(tables.debit.insert().values(release="x", round=number, counts=1))


def test_a_debit_with_a_mark_is_never_given_back(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([0.5])).number
        attempt = spend(connection, number)
        releases.mark(connection, attempt)
        assert not releases.give_back(connection, attempt)
        assert rounds.round_of(connection, number).state == "marked"
        releases.lose(connection, attempt)
        assert rounds.round_of(connection, number).state == "lost"
        check_ledger(connection)


def test_who_was_declared_dead_can_neither_mark_nor_release(ledger):
    with writing(ledger) as connection:
        number = enter(connection, quotes([0.5])).number
        attempt = spend(connection, number)
        assert releases.give_back(connection, attempt)
        with pytest.raises(LedgerRefusal, match="given up by another process"):
            releases.mark(connection, attempt)
        assert rounds.round_of(connection, number).state == "open"
        other = spend(connection, number)
        releases.mark(connection, other)
        check_ledger(connection)
    with pytest.raises(LedgerRefusal, match="ended already"), writing(ledger) as connection:
        releases.release(connection, attempt, "{}", {number: (np.array([0.5]), np.ones(1))})


def test_spending_is_nothing_then_the_promise_then_what_was_spent(ledger):
    with writing(ledger) as connection:
        entered = enter(connection, quotes([0.5, 0.25, 0.0]))
        rounds.withdraw(connection, entered.number, ["søren 1"])
        assert rounds.spent_of(connection, entered).tolist() == [0.0, 0.0, 0.0]
        attempt = spend(connection, entered.number)
        now = rounds.round_of(connection, entered.number)
        assert rounds.spent_of(connection, now).tolist() == [0.5, 0.0, 0.0]
        check_ledger(connection)
        releases.mark(connection, attempt)
        spent = np.array([0.49, 0.0, 0.0])
        releases.release(connection, attempt, "{}", {entered.number: (spent, np.array([1.0, 0.0, 0.0]))})
        now = rounds.round_of(connection, entered.number)
        assert rounds.spent_of(connection, now).tolist() == [0.49, 0.0, 0.0]
        assert releases.released_model(connection, entered.number) == "{}"
        check_ledger(connection)


def test_one_release_spends_several_rounds_each_once(ledger):
    with writing(ledger) as connection:
        first, second = enter(connection, quotes([0.5])), enter(connection, quotes([0.25]))
        attempt = spend(connection, first.number, second.number)
        with pytest.raises(LedgerRefusal):
            spend(connection, second.number)
        releases.mark(connection, attempt)
        parts = {found.number: (np.array([0.1]), np.ones(1)) for found in (first, second)}
        releases.release(connection, attempt, "{}", parts)
        assert [found.state for found in rounds.rounds_of(connection)] == ["released", "released"]
        assert {found.release for found in rounds.rounds_of(connection)} == {attempt}
        check_ledger(connection)


def test_accounts_add_up_over_rounds_for_the_same_seller(ledger):
    with writing(ledger) as connection:
        first = enter(connection, quotes([0.5, 0.25], ["a", "b"]))
        second = enter(connection, quotes([1.0, 0.125], ["b", "c"]))
        rounds.withdraw(connection, second.number, ["c"])
        spend(connection, first.number)
        released(connection, second.number, [0.75, 0.0])
        rows = {row[0]: row[1:] for row in accounts(connection).rows()}
        assert rows == {"a": (0.5, 0.5, 150), "b": (1.25, 1.0, 375), "c": (0.0, 0.0, 0)}
        check_ledger(connection)


def test_a_lifetime_counts_the_ceiling_while_open_and_what_was_spent_after(ledger):
    with writing(ledger) as connection:
        one = enter(connection, quotes([0.5, 0.25], ["a", "b"]), ceiling=2.0)
        enter(connection, quotes([0.5], ["c"]), name="without a ceiling")
        asked = pl.DataFrame({"seller": ["b", "a", "nobody", "c"]})
        assert charges(connection, asked).tolist() == [2.0, 2.0, 0.0, np.inf]
        rounds.withdraw(connection, one.number, ["b"])
        assert charges(connection, asked).tolist() == [0.0, 2.0, 0.0, np.inf]
        released(connection, one.number, [0.375, 0.0])
        assert charges(connection, asked).tolist() == [0.0, 0.375, 0.0, np.inf]
        (line,) = statement(connection, "a")
        assert (line.campaign, line.promised, line.spent, line.held) == ("spring", 0.5, 0.375, 0.0)
        assert (line.payment, line.currency, line.state) == (150, "EUR", "released")
        assert statement(connection, "b")[0].state == "withdrawn"
        assert statement(connection, "nobody") == []


def test_withdrawing_changes_nobody_else_and_ends_with_the_debit(ledger):
    table = quotes([0.5, 0.25, 0.125])
    with writing(ledger) as connection:
        number = enter(connection, table).number
        assert rounds.withdraw(connection, number, ["søren 1", "søren 1"]) == ["søren 1"]
        assert rounds.withdraw(connection, number, ["søren 1"]) == []
        assert rounds.quotes_of(connection, number).equals(table)
        assert rounds.withdrawn_of(connection, number, table).tolist() == [False, True, False]
        with pytest.raises(LedgerRefusal, match="1 of 2 sellers have no quote"):
            rounds.withdraw(connection, number, ["søren 0", "nobody"])
        spend(connection, number)
        with pytest.raises(LedgerRefusal, match="cannot be taken back"):
            rounds.withdraw(connection, number, ["søren 0"])
        check_ledger(connection)


EDITS = {
    "round": (tables.round_.update().values(payments=tables.round_.c.payments + 1), "round 1"),
    "promise": (tables.round_.update().values(promised=tables.round_.c.promised * 2), "round 1"),
    "page": (tables.page.update().values(content=b"\0"), "a page is not"),
    "transfer": (tables.transfer.update().values(amount=tables.transfer.c.amount + 1), "do not add up"),
    "lost withdrawal": (tables.withdrawal.delete(), "round 1: its money held"),
    "account": (tables.account.update().values(debits=tables.account.c.debits + 1), "debits do not add up"),
    "added transfer": (
        tables.transfer.insert().from_select(
            ["id", "kind", "debit_account", "credit_account", "amount", "state", "made_at"],
            sa.select(
                sa.literal("new"), sa.literal("fund"), tables.transfer.c.debit_account,
                tables.transfer.c.credit_account, sa.literal(1), sa.literal("pending"), sa.literal(""),
            ).limit(1),
        ),
        "its pending do not add up",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_that_was_edited_does_not_add_up(ledger, edit):
    statement_, words = EDITS[edit]
    with writing(ledger) as connection:
        for epsilons in ([0.5, 0.25], [5.0, 0.25]):
            number = enter(connection, quotes(epsilons)).number
            rounds.withdraw(connection, number, ["søren 1"])
            released(connection, number, [epsilons[0], 0.0])
        check_ledger(connection)
    with writing(ledger) as connection:
        connection.execute(statement_)
    with pytest.raises(FileProblem) as refusal, reading(ledger) as connection:
        check_ledger(connection)
    assert any(words in line for line in refusal.value.details), refusal.value.details


def test_many_sellers_take_several_pages_and_read_back_the_same(ledger, monkeypatch):
    monkeypatch.setattr(pages, "PAGE", 50_000)
    table = quotes(np.random.default_rng(0).random(10_000))
    with writing(ledger) as connection:
        number = enter(connection, table).number
        sizes = [len(row) for row in connection.execute(sa.select(tables.page.c.content)).scalars()]
        assert len(sizes) > 2
        assert rounds.quotes_of(connection, number).equals(table)
        check_ledger(connection)


def test_a_digest_does_not_depend_on_the_order_and_on_nothing_else():
    key, ids = b"k" * 32, ["ann", "bob", "annb", "ob", ""]
    costs = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    own = digests.reports_digest(key, pl.DataFrame({"who": ids}), "who", costs)
    order = [3, 0, 4, 1, 2]
    shuffled = pl.DataFrame({"who": [ids[k] for k in order]})
    assert digests.reports_digest(key, shuffled, "who", costs[order]) == own
    for other_key, other_ids, other_costs in (
        (b"l" * 32, ids, costs),
        (key, ["ann", "bob", "annc", "ob", ""], costs),
        (key, ids, np.array([1.0, 2.0, 3.0, 4.0, np.nextafter(5.0, 6.0)])),
        (key, ["bob", "ann", "annb", "ob", ""], costs),
        (key, ids[:4], costs[:4]),
    ):
        other = digests.reports_digest(other_key, pl.DataFrame({"who": other_ids}), "who", other_costs)
        assert other != own


def test_a_digest_is_the_same_however_many_threads_share_the_rows(monkeypatch):
    random = np.random.default_rng(0)
    table, costs = pl.DataFrame({"who": [f"seller {k}" for k in range(1000)]}), random.random(1000)
    found = []
    for rows_each, cores in ((1 << 18, 2), (100, 1), (100, 2), (100, 7), (1, 5), (600, 64)):
        monkeypatch.setattr(digests, "_ROWS_FOR_A_THREAD", rows_each)
        monkeypatch.setattr(digests.os, "cpu_count", lambda cores=cores: cores)
        found.append(digests.reports_digest(b"k" * 32, table, "who", costs))
    assert len(set(found)) == 1
    costs[-1] += 1.0
    assert digests.reports_digest(b"k" * 32, table, "who", costs) != found[0]


def test_the_hash_of_rows_is_siphash_2_4():
    """The reference vector of the algorithm's authors: bytes 0 to 14 under the key 0 to 15."""
    from dpmarket.ledger.kernels import siphash

    data = np.arange(7, dtype=np.uint8)
    number = np.frombuffer(bytes(range(7, 15)), dtype="<u8")[0]
    key = np.frombuffer(bytes(range(16)), dtype="<u8")
    assert int(siphash(data, 0, 7, number, key[0], key[1])) == 0xA129CA6149BE45E5


def plain_siphash(key, message):
    """Return SipHash-2-4 of bytes, step by step in whole numbers of any size."""
    full = (1 << 64) - 1
    low, high = (int.from_bytes(key[k : k + 8], "little") for k in (0, 8))
    begin = (b"somepseudorandomlygeneratedbytes"[k : k + 8] for k in range(0, 32, 8))
    v = [int.from_bytes(part, "big") ^ own for part, own in zip(begin, (low, high, low, high), strict=True)]

    def turned(value, bits):
        return (value << bits | value >> (64 - bits)) & full

    def steps(many):
        for _ in range(many):
            for a, b, left, whole in (
                (0, 1, 13, True),
                (2, 3, 16, False),
                (0, 3, 21, False),
                (2, 1, 17, True),
            ):
                v[a] = (v[a] + v[b]) & full
                v[b] = turned(v[b], left) ^ v[a]
                v[a] = turned(v[a], 32) if whole else v[a]

    message += bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for k in range(0, len(message), 8):
        word = int.from_bytes(message[k : k + 8], "little")
        v[3] ^= word
        steps(2)
        v[0] ^= word
    v[2] ^= 255
    steps(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_texts_of_every_length_are_hashed_as_step_by_step_wherever_they_stand():
    from dpmarket.ledger import kernels

    random, key = np.random.default_rng(0), bytes(range(16))
    halves = np.frombuffer(key, dtype="<u8")
    for shuffled in range(3):
        lengths = random.permutation(20) if shuffled else np.arange(20)
        texts = [random.bytes(int(length)) for length in lengths]
        numbers, out = random.integers(0, 2**63, 20).astype(np.uint64), np.zeros(20, dtype=np.uint64)
        data = np.frombuffer(b"".join(texts), dtype=np.uint8)
        kernels.hashes(data, np.cumsum(lengths), numbers, halves[0], halves[1], out)
        expected = [
            plain_siphash(key, text + int(number).to_bytes(8, "little"))
            for text, number in zip(texts, numbers, strict=True)
        ]
        assert out.tolist() == expected
        sums = np.array([1, 2], dtype=np.uint64)
        kernels.add_hashes(data, np.cumsum(lengths), numbers, np.array([*halves, 7], dtype=np.uint64), sums)
        assert int(sums[0]) == (1 + sum(expected)) % 2**64


def test_references_are_the_same_whenever_asked_for_and_differ_by_all_they_are_for():
    key, table = b"k" * 32, pl.DataFrame({"who": ["ann", "bob"]})
    own = digests.references(key, "payout", table, "who", np.array([1, 1]))
    assert own == digests.references(key, "payout", table, "who", np.array([1, 1]))
    assert len(set(own)) == 2
    assert not set(own) & set(digests.references(key, "payout", table, "who", np.array([2, 2])))
    assert not set(own) & set(digests.references(key, "other", table, "who", np.array([1, 1])))
    assert not set(own) & set(digests.references(b"l" * 32, "payout", table, "who", np.array([1, 1])))


def test_campaigns_of_one_ledger_have_their_own_rounds_and_accounts(ledger):
    with writing(ledger) as connection:
        enter(connection, quotes([0.5]), name="spring")
        enter(connection, quotes([0.25]), name="autumn")
        spring, autumn = campaign_in(connection, "spring"), campaign_in(connection, "autumn")
        assert [found.promised for found in rounds.rounds_of(connection, autumn)] == [0.25]
        assert [found.campaign for found in rounds.rounds_of(connection)] == [spring, autumn]
        check_ledger(connection)
