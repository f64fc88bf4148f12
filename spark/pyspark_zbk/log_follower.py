"""The current end of a log, and the entries of its ledgers, for planners of batches.

Spark asks for the end of a stream every 10 ms while nothing comes. So an answer is kept for
``ASK_INTERVAL_S``, and each request goes only to the last ledger: the list of ledgers is read again
only when that ledger is closed.

The *head* is the position after the last confirmed entry: durable on an ack quorum, and still there
after a crash or a recovery. The follower leaves a ledger for the next one only when it is closed,
because then its end is known. Entries before the head never change.

Used by one thread, in the process that plans the query.
"""

import time
from typing import Final

import zbk
from pyspark_zbk.log_options import BEFORE_ALL
from pyspark_zbk.log_rows import truncated

ASK_INTERVAL_S: Final = 0.1
"""Time for which an answer is valid."""

OUTAGE_S: Final = 60.0
"""Time that a stream waits for a cluster that does not answer before its query fails."""

CLOSED_COUNT_MAX: Final = 20_000
"""Closed ledgers whose ends are kept: more than a log can have."""


class LogFollower:
    """One log, in the state visible to readers."""

    def __init__(self, client: zbk.Client, name: str, password: bytes) -> None:
        self._client = client
        self._name = name
        self._password = password
        self._log = client.get_log_metadata(name)
        self._last: zbk.LedgerReader | None = None  # of the ledger that the head is in
        self._head = BEFORE_ALL
        self._asked_s = -ASK_INTERVAL_S
        self._out_since_s: float | None = None
        self._ends: dict[int, tuple[int, int]] = {}  # of closed ledgers: last entry and length
        self._lengths: dict[tuple[int, int], int] = {}

    # ------------------------------------------------------------------ the end

    def head(self, *, is_fresh: bool = False) -> zbk.LogPosition:
        """Return the head, now or a moment ago.

        Raises:
            NoSuchLogError: the log was deleted.
            UnavailableError: the cluster does not answer.
        """
        now_s = time.monotonic()
        if not is_fresh and now_s - self._asked_s < ASK_INTERVAL_S:
            return self._head
        self._asked_s = now_s
        self._head = max(self._head, self._ask())
        self._out_since_s = None
        return self._head

    def may_wait(self) -> bool:
        """Record that the cluster did not answer; return whether to wait longer."""
        now_s = time.monotonic()
        if self._out_since_s is None:
            self._out_since_s = now_s
        return now_s - self._out_since_s <= OUTAGE_S

    def begin(self, *, is_fresh: bool = False) -> zbk.LogPosition:
        """Return the first position that was not truncated."""
        if is_fresh:
            self._log = self._client.get_log_metadata(self._name)
        return self._log.begin or BEFORE_ALL

    @property
    def ledger_ids(self) -> tuple[int, ...]:
        """The ledgers, from the last read of the list."""
        return self._log.ledger_ids

    def clamped(self, start: zbk.LogPosition, *, fails_on_loss: bool) -> zbk.LogPosition:
        """Return ``start``, or the first position if it was truncated. Reads the list again.

        Raises:
            LogTruncatedError: it was, and ``fails_on_loss``.
            InvalidOptionError: the log never had such a ledger.
        """
        begin = self.begin(is_fresh=True)
        if start == BEFORE_ALL and not self._log.first_index:
            return begin
        if start < begin:
            if fails_on_loss:
                raise truncated(self._name, str(start), self._client)
            return begin
        self._log.place_of(start)
        return start

    def check_listed(self, position: zbk.LogPosition) -> None:
        """Refuse a position outside of the log's ledgers.

        Raises:
            InvalidOptionError: the position is outside.
        """
        self._log.place_of(position)

    def check(self, option: str, position: zbk.LogPosition, head: zbk.LogPosition) -> None:
        """Refuse a position outside of the log, or after the end of a ledger before ``head``.

        Raises:
            InvalidOptionError: the position is outside.
            LogTruncatedError: the log had it.
        """
        self._log.place_of(position)
        if position.ledger_id < head.ledger_id:
            end = self.last_of(position.ledger_id) + 1
            if position.entry_id > end:
                raise zbk.InvalidOptionError(
                    option, str(position), f"ledger {position.ledger_id} has only {end} entries"
                )

    def close(self) -> None:
        """Forget the ledger that is followed. The client is not changed."""
        if self._last is not None:
            self._last.close()
            self._last = None

    # ------------------------------------------------------------------ ledgers

    def last_of(self, ledger_id: int) -> int:
        """Return the last entry of a closed ledger; -1: it is empty."""
        return self._end(ledger_id)[0]

    def length_at(self, ledger_id: int, entry_id: int) -> int:
        """Return the bytes of payload up to and including an entry; 0 for -1."""
        if entry_id < 0:
            return 0
        if self._ends.get(ledger_id, (-1, 0))[0] == entry_id:
            return self._ends[ledger_id][1]
        key = (ledger_id, entry_id)
        if key not in self._lengths:
            if len(self._lengths) >= CLOSED_COUNT_MAX:
                self._lengths.clear()
            self._lengths[key] = self._read_length(ledger_id, entry_id)
        return self._lengths[key]

    # ------------------------------------------------------------------ private

    def _ask(self) -> zbk.LogPosition:
        try:
            return self._follow()
        except zbk.NoSuchLedgerError:  # truncated while it was not looked at; or the log is gone
            self.close()
            self.begin(is_fresh=True)
            return self._follow()

    def _follow(self) -> zbk.LogPosition:
        if self._last is None:
            self._last = self._open_last()
            if self._last is None:
                return BEFORE_ALL
        else:
            self._last.read_last_add_confirmed()
        while self._last.is_closed_ledger:
            following = self._following(self._last.ledger_id)
            if following is None:
                break
            self._last = self._client.open_ledger(following, self._password)
        return zbk.LogPosition(self._last.ledger_id, self._last.last_add_confirmed + 1)

    def _open_last(self) -> "zbk.LedgerReader | None":
        """Open the last ledger but one, if there is one: all earlier ones are closed."""
        if not self.ledger_ids:
            self.begin(is_fresh=True)
        if not self.ledger_ids:
            return None
        return self._client.open_ledger(self.ledger_ids[-2:][0], self._password)

    def _following(self, ledger_id: int) -> int | None:
        """Return the ledger after a closed one."""
        if self.ledger_ids[-1] <= ledger_id:
            self.begin(is_fresh=True)
        return next((one for one in self.ledger_ids if one > ledger_id), None)

    def _end(self, ledger_id: int) -> tuple[int, int]:
        if ledger_id not in self._ends:
            with self._client.open_ledger(ledger_id, self._password) as reader:
                metadata = reader.metadata  # read again, and surely new, unless it is CLOSED
            if metadata.last_entry_id is None or metadata.length is None:
                raise zbk.IllegalTransitionError(
                    f"ledger {ledger_id} of log {self._name}", "is open, and a later one was read"
                )
            if len(self._ends) >= CLOSED_COUNT_MAX:
                self._ends.clear()
            self._ends[ledger_id] = metadata.last_entry_id, metadata.length
        return self._ends[ledger_id]

    def _read_length(self, ledger_id: int, entry_id: int) -> int:
        if self._last is not None and self._last.ledger_id == ledger_id:
            return self._length(self._last, entry_id)
        with self._client.open_ledger(ledger_id, self._password) as reader:
            return self._length(reader, entry_id)

    def _length(self, reader: zbk.LedgerReader, entry_id: int) -> int:
        reader.learn(reader.metadata, entry_id)  # it is before the head
        return next(iter(reader.read(entry_id, entry_id))).length
