"""What client processes do. Each call is recorded before it is made and when it is answered.

Values are never written twice, so that a value tells where it comes from.
"""

from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice

import zbk
from tests.chaos.client import Stage
from tests.chaos.recording import Line, Recorder
from tests.support.history import hash_of
from zbk.errors import ZbkError
from zbk.protocol.entry.words import NO_ENTRY, LedgerType

WINDOW_COUNT = 8  # batches under way
BATCH_COUNT_MAX = 40
ENTRY_COUNTS = (200, 2_000, 10_000, 30_000)  # of a ledger, at most
TAKEOVER_COUNT = 3
READ_COUNT_MAX = 200
TAIL_COUNT = 50
TAIL_PATIENCE_S = 5.0  # for the next entry
PAUSE_S = 0.02
RETRY_S = 0.2

SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (4, 4, 3), (3, 3, 3))
"""Ensemble, write quorum, ack quorum of PD ledgers: each outlives one bookie."""


def write(stage: Stage) -> None:
    """Write one ledger after the other: batches, several under way, syncs, closes or none."""
    number = 0
    while not stage.is_over.is_set():
        number += 1
        ledger_type = stage.dice.choice((LedgerType.PD_JOURNAL, *LedgerType))
        is_pd = not ledger_type.is_volatile
        shape = stage.dice.choice(SHAPES) if is_pd else (3, 3, 2)
        begun = stage.recorder.begin("create")
        try:
            ledger = stage.client.create_ledger(
                ensemble_size=shape[0],
                write_quorum_size=shape[1],
                ack_quorum_size=shape[2],
                ledger_type=ledger_type,
            )
        except ZbkError as error:
            stage.recorder.error(begun, error)
            stage.is_over.wait(RETRY_S)
            continue
        stage.recorder.ok(begun, ledger_id=ledger.ledger_id)
        _Writing(stage, ledger, f"/{number}").run()


class _Writing:
    """One ledger, written by this process."""

    def __init__(self, stage: Stage, ledger: zbk.LedgerWriter, handle: str) -> None:
        self._stage = stage
        self._ledger = ledger
        self._handle = handle
        self._serial = 0
        self._futures: deque[Future[range]] = deque()

    def run(self) -> None:
        """Write until an append fails, enough is written, or the end."""
        stage, dice = self._stage, self._stage.dice
        entry_count = dice.randint(1, dice.choice(ENTRY_COUNTS))
        is_abandoned = dice.random() < 0.15
        with suppress(ZbkError):
            while self._serial < entry_count and not stage.is_over.is_set():
                self._append(dice.randint(1, BATCH_COUNT_MAX))
                while len(self._futures) >= WINDOW_COUNT:
                    self._futures.popleft().result()
                if dice.random() < 0.03:
                    self._sync()
                stage.is_over.wait(dice.random() * PAUSE_S)
            if not is_abandoned and dice.random() < 0.5:
                for future in self._futures:
                    future.result()
        if not is_abandoned:  # else it is for a recoverer
            self._close()

    def _append(self, count: int) -> None:
        name, dice = f"{self._stage.spec.name}{self._handle}", self._stage.dice
        numbers = range(self._serial, self._serial + count)
        payloads = [
            b"%s:%d:" % (name.encode(), n) + dice.randbytes(dice.randrange(300)) for n in numbers
        ]
        self._serial += count
        recorder = self._stage.recorder
        begun = recorder.begin(
            "add",
            handle=self._handle,
            ledger_id=self._ledger.ledger_id,
            values=map(hash_of, payloads),
        )
        try:
            future = self._ledger.append_many(payloads)
        except ZbkError as error:
            recorder.error(begun, error)
            raise
        future.add_done_callback(lambda done: _answered(recorder, begun, done))
        self._futures.append(future)

    def _sync(self) -> None:
        recorder = self._stage.recorder
        begun = recorder.begin("sync", handle=self._handle, ledger_id=self._ledger.ledger_id)
        try:
            recorder.ok(begun, result=self._ledger.sync())
        except ZbkError as error:
            recorder.error(begun, error)

    def _close(self) -> None:
        recorder = self._stage.recorder
        begun = recorder.begin("close", handle=self._handle, ledger_id=self._ledger.ledger_id)
        try:
            recorder.ok(begun, result=self._ledger.close())
        except ZbkError as error:
            recorder.error(begun, error)


def _answered(recorder: Recorder, begun: Line, done: "Future[range]") -> None:
    error = done.exception()
    if error is None:
        recorder.ok(begun, first=done.result().start)
    else:
        recorder.error(begun, error)


def read(stage: Stage) -> None:
    """Read what the round has written so far, here and there, up to the LAC."""
    readers: dict[int, Reading] = {}
    while not stage.is_over.is_set():
        with suppress(ZbkError):
            ids = [n for n in _ledger_ids(stage) if n >= stage.spec.first_ledger_id]
            if ids:
                ledger_id = stage.dice.choice(ids[-6:])
                if ledger_id not in readers or stage.dice.random() < 0.2:
                    handle = f"/L{ledger_id}.{stage.dice.randrange(10**6)}"
                    readers[ledger_id] = Reading(stage.client, stage.recorder, ledger_id, handle)
                reading = readers[ledger_id]
                lac = reading.read_lac()
                if lac > NO_ENTRY:
                    first = stage.dice.randint(0, lac)
                    reading.read(first, min(lac, first + READ_COUNT_MAX - 1))
        stage.is_over.wait(stage.dice.random() * 0.1)


class Reading:
    """One reader handle, recorded."""

    def __init__(self, client: zbk.Client, recorder: Recorder, ledger_id: int, handle: str) -> None:
        self._recorder = recorder
        self._ledger_id = ledger_id
        self._handle = handle
        begun = recorder.begin("open", handle=handle, ledger_id=ledger_id)
        try:
            self._reader = client.open_ledger(ledger_id)
        except ZbkError as error:
            recorder.error(begun, error)
            raise
        recorder.ok(begun, result=self._reader.last_add_confirmed)

    def read_lac(self) -> int:
        """Ask for the LAC."""
        recorder = self._recorder
        begun = recorder.begin("read_lac", handle=self._handle, ledger_id=self._ledger_id)
        try:
            lac = self._reader.read_last_add_confirmed()
        except ZbkError as error:
            recorder.error(begun, error)
            raise
        recorder.ok(begun, result=lac)
        return lac

    def read(self, first: int, last: int) -> list[str]:
        """Read a range; return the hashes of what came."""
        recorder = self._recorder
        begun = recorder.begin(
            "read",
            handle=self._handle,
            ledger_id=self._ledger_id,
            first=first,
            count=last - first + 1,
        )
        found: list[str] = []
        try:
            for entry in self._reader.read(first, last):
                found.append(hash_of(bytes(entry.payload)))  # noqa: PERF401 - kept where it raises
        except ZbkError as error:
            if found:
                recorder.ok(begun, values=found)
            recorder.error(begun, error, done_count=len(found))
            raise
        if found:
            recorder.ok(begun, values=found)
        return found


def tail(stage: Stage) -> None:
    """Follow one ledger after the other while it is written, to its end if that comes."""
    while not stage.is_over.is_set():
        ids = [n for n in _ledger_ids(stage) if n >= stage.spec.first_ledger_id]
        if ids:
            with suppress(ZbkError):
                _follow(stage, ids[-1])
        stage.is_over.wait(stage.dice.random() * 0.3)


def _ledger_ids(stage: Stage) -> list[int]:
    try:
        return list(stage.client.list_ledgers())
    except ZbkError:
        return []


def _follow(stage: Stage, ledger_id: int) -> None:
    recorder, handle = stage.recorder, f"/L{ledger_id}.{stage.dice.randrange(10**6)}"
    first = 0
    with (
        stage.client.open_ledger(ledger_id) as reader,
        reader.tail(timeout=TAIL_PATIENCE_S) as entries,
    ):
        while not stage.is_over.is_set():
            begun = recorder.begin(
                "read", handle=handle, ledger_id=ledger_id, first=first, count=TAIL_COUNT
            )
            found: list[str] = []
            try:
                for entry in islice(entries, TAIL_COUNT):
                    assert entry.entry_id == first + len(found), "a tail leaves nothing out"
                    found.append(hash_of(bytes(entry.payload)))
            finally:
                if found:
                    recorder.ok(begun, values=found)
            first += len(found)
            if len(found) < TAIL_COUNT:
                assert reader.metadata.last_entry_id == first - 1, "a tail ends with its ledger"
                return


def recover(stage: Stage) -> None:
    """Take ledgers over, one after the other, until each is closed or the end comes."""
    waiting = deque(stage.spec.ledger_ids)
    while waiting and not stage.is_over.is_set():
        ledger_id = waiting.popleft()
        try:
            recover_one(stage.client, stage.recorder, ledger_id)
        except ZbkError:
            waiting.append(ledger_id)
            stage.is_over.wait(RETRY_S)


def take_over(stage: Stage) -> None:
    """Take over whatever is being written at this moment, a few times."""
    for _ in range(TAKEOVER_COUNT):
        for ledger_id in reversed(_ledger_ids(stage)[-2 * WINDOW_COUNT :]):
            if ledger_id < stage.spec.first_ledger_id or stage.is_over.is_set():
                break
            with suppress(ZbkError):
                if not stage.client.get_ledger_metadata(ledger_id).is_closed:
                    recover_one(stage.client, stage.recorder, ledger_id)
        stage.is_over.wait(stage.dice.random() * RETRY_S)


def recover_one(client: zbk.Client, recorder: Recorder, ledger_id: int) -> int:
    """Recover a ledger, recorded; return its last entry id."""
    begun = recorder.begin("recover", ledger_id=ledger_id)
    try:
        with client.recover_ledger(ledger_id) as reader:
            last = reader.last_add_confirmed
    except ZbkError as error:
        recorder.error(begun, error)
        raise
    recorder.ok(begun, result=last)
    return last
