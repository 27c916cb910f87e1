"""Tell a day's market: waves of campaigns, and once a backup that is put back, while everything is broken."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from _fault_kinds import IN_TRAINING, Breaker
from _fault_market import Campaign, Market, in_turn
from _fault_people import Act, Asker, Journal, Seller
from _fault_places import COMMAND, Failed
from _results import tell
from dpmarket.certificates import verify

CALLERS, CAMPAIGNS = 12, 4
RESTORE = "older backup put back"
_WAVE = timedelta(hours=3)
_HELD_BACK = 20  # sellers who accept and deliver after the backup was made
_REFUSAL = "does not know of"


@dataclass(frozen=True)
class Asked:
    """What a run is asked for: faults, acts, at most so many seconds, a seed, and sellers of a campaign."""

    faults: int
    acts: int
    seconds: float
    seed: int
    sellers: int


class Day:
    """The day, told by a thread of its own. What starts processes is an errand for the first thread.

    Parameters
    ----------
    asked, breaker, market, journal
        What is asked for, and what there is.
    folder, environment
        Where a backup can lie, and the environment of commands.
    asker_of
        Returns a caller with a token.
    """

    def __init__(
        self,
        asked: Asked,
        breaker: Breaker,
        market: Market,
        journal: Journal,
        *,
        folder: Path,
        environment: dict[str, str],
        asker_of: Callable[[str], Asker],
    ) -> None:
        self._asked, self._breaker, self._market, self._journal = asked, breaker, market, journal
        self._folder, self._environment, self._asker_of = folder, environment, asker_of
        self._errands: queue.Queue[tuple[Callable[[], None], threading.Event]] = queue.Queue()
        self._done, self._calm = threading.Event(), threading.Event()
        self._settled: list[Future[None]] = []
        self.campaigns: list[Campaign] = []
        self.forgotten: set[str] = set()

    def run(self) -> None:
        """Break things while the day is told; return when it has ended."""
        thread = threading.Thread(target=self._told, name="day", daemon=True)
        thread.start()
        next_at, last, said = 0.0, time.monotonic(), time.monotonic()
        while not self._done.is_set() or not self._errands.empty():
            self._breaker.tend()
            self._do_errand()
            waited, acts = time.monotonic() - last, len(self._journal.acts)
            # By acts, so that faults find something to break; and in between, once the last one is over.
            if not self._calm.is_set() and (
                (acts >= next_at and waited > 0.5) or (waited > 6.0 and self._breaker.is_well())
            ):
                self._breaker.break_something()
                last, next_at = (
                    time.monotonic(),
                    max(next_at, acts) + 0.75 * self._asked.acts / self._asked.faults,
                )
            if time.monotonic() - said > 15.0:
                said = time.monotonic()
                states = ", ".join(one.state for one in self.campaigns[-8:])
                tell(f"{self._breaker.count} faults, {acts:,} acts; campaigns ... {states}")
            time.sleep(0.02)
        thread.join()
        if self._journal.failed is not None:
            raise self._journal.failed

    def _do_errand(self) -> None:
        with contextlib.suppress(queue.Empty):
            errand, done = self._errands.get_nowait()
            try:
                errand()
            except Exception as problem:
                self._journal.failed = self._journal.failed or problem
            done.set()

    def _by_first_thread(self, errand: Callable[[], None]) -> None:
        done = threading.Event()
        self._errands.put((errand, done))
        while not done.wait(1.0):
            self._journal.refuse_end()
        self._journal.refuse_end()

    def _told(self) -> None:
        try:
            with ThreadPoolExecutor(CALLERS) as callers, ThreadPoolExecutor(CAMPAIGNS) as settling:
                self._waves(callers, settling)
        except BaseException as problem:
            self._journal.failed = self._journal.failed or problem
        finally:
            self._done.set()

    def _waves(self, callers: ThreadPoolExecutor, settling: ThreadPoolExecutor) -> None:
        was_restored = False
        while not was_restored or self._needs_more():
            is_time = not was_restored and len(self._journal.acts) >= 0.4 * self._asked.acts
            if is_time:
                self._calm.set()
                self._wait_for_settled()
                self._by_first_thread(self._breaker.heal)
            wave = [self._open(self._asked.sellers) for _ in range(CAMPAIGNS)]
            _all(callers, Seller.come, in_turn(wave))
            if is_time:
                wave.append(self._put_back(wave, callers))
                was_restored = True
                self._calm.clear()
            else:
                _all(callers, Seller.sell, in_turn(wave))
                self._pass(_WAVE)
                if not self._calm.is_set():  # now they train
                    self._by_first_thread(lambda: self._breaker.break_by(IN_TRAINING))
            self._settled += [settling.submit(self._settle, campaign) for campaign in wave]
        self._wait_for_settled()
        self._calm.set()
        self._by_first_thread(self._breaker.heal)

    def _needs_more(self) -> bool:
        return len(self._journal.acts) < self._asked.acts or self._breaker.count < self._asked.faults

    def _open(self, sellers: int, later: timedelta = timedelta()) -> Campaign:
        now = datetime.now(UTC) + timedelta(seconds=self._breaker.shift)
        made = self._market.open(sellers, now, self._asker_of, later)
        self.campaigns.append(made)
        return made

    def _pass(self, time_: timedelta) -> None:
        self._by_first_thread(lambda: self._breaker.move_clock(time_.total_seconds()))

    def _settle(self, campaign: Campaign) -> None:
        try:
            self._market.wait_for_end(campaign)
            self._market.collect(campaign)
            self._market.pay(campaign)
        except BaseException as problem:
            self._journal.failed = self._journal.failed or problem
            raise

    def _wait_for_settled(self) -> None:
        """Wait until all campaigns are paid; time passes, so that dead workers are noticed."""
        while not all(one.done() for one in self._settled):
            self._journal.refuse_end()
            self._pass(timedelta(minutes=11))
            time.sleep(2.0)
        for one in self._settled:
            one.result()

    def _put_back(self, wave: Sequence[Campaign], callers: ThreadPoolExecutor) -> Campaign:
        """Make a backup, go on, train, and put the backup back: what was spent since stays spent.

        Returns a further campaign that went on meanwhile and whose acts are asked for again.
        """
        going_on = self._open(_HELD_BACK, later=timedelta(hours=6))
        sellers = list(in_turn(wave))
        able = [one for one in sellers if one.told == "quoted" and one.habit.startswith("se")]
        held = able[-_HELD_BACK:]
        _all(callers, Seller.sell, [seller for seller in sellers if seller not in held])
        backup = self._folder / "backup"
        self._by_first_thread(lambda: self._breaker.database.dump(backup))
        before = len(self._journal.acts)
        _all(callers, Seller.sell, held)
        _all(callers, Seller.come, going_on.sellers)
        _all(callers, Seller.sell, going_on.sellers)
        self._pass(_WAVE)
        for campaign in wave:
            self._market.wait_for_end(campaign)
            self._market.collect(campaign)
            self._verify(campaign)
        since = self._journal.acts[before:]
        self.forgotten |= {act.key for act in since}
        self._by_first_thread(lambda: self._restore(backup))
        for campaign in wave:
            campaign.state, campaign.certificate, campaign.must_be_lost = "open", None, True
        _all(callers, Seller.name_payee, held)
        self._repeat(callers, going_on, since)
        return going_on

    def _verify(self, campaign: Campaign) -> None:
        """Check the receipts of a model that is about to be forgotten."""
        for seller in campaign.sold:
            if not verify(campaign.certificate, receipt=seller.receipt, cost=seller.cost).passed:
                self._journal.note_wrong("a receipt does not verify")
            seller.receipt = None

    def _restore(self, backup: Path) -> None:
        """Put a backup back; the service must refuse it until it is repaired."""
        breaker, database = self._breaker, self._breaker.database
        for process in breaker.processes:
            process.kill()
        database.restore(backup)
        for process in (breaker.webs[0], breaker.workers[0]):
            process.begin()
            process.wait(90)
            if process.code != 1 or _REFUSAL not in process.said():
                raise Failed("a database that has forgotten trainings was not refused")
        command = [*COMMAND, "ledger", "repair", database.address()]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"the repair failed: {done.stderr}")
        breaker.done[RESTORE] += 1
        breaker.heal()

    def _repeat(self, callers: ThreadPoolExecutor, campaign: Campaign, since: Sequence[Act]) -> None:
        """Let a campaign's sellers ask again for all that the backup has forgotten."""
        # Who left has left: the log outside knows it, and nothing of theirs can be asked for again.
        for seller in campaign.sellers:
            seller.is_forgotten = seller.told == "withdrawn"
        staying = [seller for seller in campaign.sellers if not seller.is_forgotten]
        by_seller = {seller.asker.name: (seller, []) for seller in staying}
        for act in since:
            if act.who in by_seller:
                by_seller[act.who][1].append(act)
                self.forgotten.discard(act.key)

        def again(one: tuple[Seller, list[Act]]) -> None:
            for act in one[1]:
                one[0].asker.repeat(act)

        _all(callers, again, by_seller.values())


def _all(callers: ThreadPoolExecutor, act: Callable, each: object) -> None:
    for _ in callers.map(act, list(each)):
        pass
