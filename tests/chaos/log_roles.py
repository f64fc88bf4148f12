"""What client processes do with logs: duel for one, and read it. As in ``client_roles``."""

from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby

import zbk
from tests.chaos.client import Stage
from tests.chaos.recording import Line, Recorder
from tests.support.history import hash_of
from zbk.errors import ZbkError
from zbk.protocol.log.position import LogRange

ROLL_SIZE = 60_000  # bytes of payload: a few hundred entries
APPEND_COUNT_MAX = 400  # batches of one owner, if nobody is quicker
BATCH_COUNT_MAX = 10
WINDOW_COUNT = 6
READ_COUNT = 100  # entries in one recorded read


def own(stage: Stage) -> None:
    """Take the log over, append until somebody else does, and take it back a little later."""
    number = 0
    while not stage.is_over.is_set():
        number += 1
        with suppress(ZbkError):
            log = open_log(stage.client, stage.recorder, stage.spec.log, f"/{number}")
            _Owning(stage, log, f"/{number}").run()
        stage.is_over.wait(stage.dice.random() * 1.5)


def open_log(client: zbk.Client, recorder: Recorder, name: str, handle: str = "") -> zbk.Log:
    """Become a log's owner, recorded."""
    begun = recorder.begin("log_own", handle=handle, log=name)
    try:
        log = client.open_log(name, roll_size=ROLL_SIZE)
    except ZbkError as error:
        recorder.error(begun, error)
        raise
    recorder.ok(begun, ledger_id=log.ledger_id)
    return log


class _Owning:
    """One time of owning the log."""

    def __init__(self, stage: Stage, log: zbk.Log, handle: str) -> None:
        self._stage = stage
        self._log = log
        self._handle = handle
        self._serial = 0
        self._futures: deque[Future[LogRange]] = deque()

    def run(self) -> None:
        """Append, roll now and then, and close or leave it."""
        dice, is_over = self._stage.dice, self._stage.is_over
        with suppress(ZbkError):
            for _ in range(dice.randint(1, APPEND_COUNT_MAX)):
                if is_over.is_set():
                    break
                self._append(dice.randint(1, BATCH_COUNT_MAX))
                while len(self._futures) >= WINDOW_COUNT:
                    self._futures.popleft().result()
                if dice.random() < 0.01:
                    self._log.roll()
                is_over.wait(dice.random() * 0.02)
        if dice.random() < 0.7:
            with suppress(ZbkError):
                self._log.close()

    def _append(self, count: int) -> None:
        stage = self._stage
        prefix = f"{stage.spec.name}{self._handle}".encode()
        payloads = [
            b"%s:%d:" % (prefix, number) + stage.dice.randbytes(stage.dice.randrange(300))
            for number in range(self._serial, self._serial + count)
        ]
        self._serial += count
        begun = stage.recorder.begin(
            "log_append",
            handle=self._handle,
            values=map(hash_of, payloads),
            log=self._log.name,
        )
        try:
            future = self._log.append_many(payloads)
        except ZbkError as error:
            stage.recorder.error(begun, error)
            raise
        future.add_done_callback(lambda done: _answered(stage.recorder, begun, done))
        self._futures.append(future)


def _answered(recorder: Recorder, begun: Line, done: "Future[LogRange]") -> None:
    error = done.exception()
    if error is None:
        where = done.result()
        recorder.ok(begun, ledger_id=where.ledger_id, first=where.entry_ids.start)
    else:
        recorder.error(begun, error)


def read_log(stage: Stage) -> None:
    """Read the log from its first entry to where it is confirmed, again and again."""
    number = 0
    while not stage.is_over.is_set():
        number += 1
        with suppress(ZbkError):
            read_whole_log(stage.client, stage.recorder, stage.spec.log, f"/{number}")
        stage.is_over.wait(stage.dice.random() * 1.0)


def read_whole_log(client: zbk.Client, recorder: Recorder, name: str, handle: str) -> int:
    """Read a log once, recorded; return the number of entries."""
    count = 0
    for batch in client.read_log_batches(name):
        pairs = zip(batch.entry_ids, batch, strict=True)
        for _, group in groupby(enumerate(pairs), lambda item: item[0] // READ_COUNT):
            part = [pair for _, pair in group]
            begun = recorder.begin(
                "log_read", handle=handle, ledger_id=batch.ledger_id, first=part[0][0],
                count=len(part), log=name,
            )  # fmt: skip
            recorder.ok(begun, values=[hash_of(bytes(payload)) for _, payload in part])
            count += len(part)
    return count
