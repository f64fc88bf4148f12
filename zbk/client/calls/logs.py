"""The calls of a client that concern logs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Unpack

from zbk.client import arguments
from zbk.client.calls.ledger_reading import LedgerReadCalls
from zbk.client.calls.ledger_writing import LedgerWriteCalls
from zbk.client.write.ledger_creation import LedgerOptions, plan_ledger
from zbk.config.units import MIB
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.position import LogEntry, LogPosition
from zbk.system.clock import wall_ms

if TYPE_CHECKING:
    from zbk.client.log.log import Log
    from zbk.client.log.reader import LogReading
    from zbk.client.log.tail import LogTail

ROLL_SIZE: Final = 256 * MIB
LOG_KEY: Final = "zbk.log"
"""The key in the custom metadata of a log's ledgers that holds the log's name."""


class LogCalls(LedgerWriteCalls, LedgerReadCalls):
    """The part of a client that concerns logs. The first use loads their code."""

    def open_log(
        self,
        name: str,
        *,
        create: bool = True,
        roll_size: int = ROLL_SIZE,
        roll_ms: int = 0,
        **options: Unpack[LedgerOptions],
    ) -> "Log":
        """Become the owner of a log, and return it. Its former owner cannot append any more.

        A log is a list of ledgers, written by one owner at a time; this call takes over from an
        owner that died. No acknowledged entry is lost. ``options`` are those of ``create_ledger``,
        for each new ledger of the log; the password must be the one that the log was created with.
        With ``create`` a log that does not exist is created.

        The log continues in a new ledger after ``roll_size`` bytes of payload and, if ``roll_ms``
        is not 0, at the first append ``roll_ms`` after a ledger's first entry.

        Raises:
            NoSuchLogError: there is no such log, and ``create`` is false.
            UnauthorizedError: the password is another one.
            LedgerRecoveryError, NotEnoughBookiesError: too few bookies are available.
            MetadataConflictError: other clients take it over at the same time, again and again.

        Examples:
            >>> import zbk
            >>> with zbk.connect() as client, client.open_log("orders") as log:  # doctest: +SKIP
            ...     position = log.append(b"one more")
            ...     for entry in log.read(position):
            ...         print(entry.position, entry.payload)
        """
        from zbk.client.log.log import Log, LogSetup

        name = arguments.log_name(name)
        create = arguments.flag("create", create)
        roll_size = arguments.integer("roll_size", roll_size, 1, arguments.NUMBER_MAX)
        roll_ms = arguments.integer("roll_ms", roll_ms, 0, arguments.NUMBER_MAX)
        plan = plan_ledger(options)
        self.check_usable()
        if create:
            self._logs.create(name, wall_ms())
        options["custom_metadata"] = {**plan.custom_metadata, LOG_KEY: name.encode()}
        options["password"] = plan.password
        return Log(
            LogSetup(
                name=name,
                client=self,
                store=self._logs,
                options=options,
                roll_size=roll_size,
                roll_ms=roll_ms,
                default_timeout_s=self._timeout_s(None),
            )
        )

    def read_log(
        self, name: str, start: LogPosition | None = None, *, password: bytes = b""
    ) -> Iterator[LogEntry]:
        """Yield a log's entries from ``start`` (default: the first) up to the present LAC.

        It never fences, and does not disturb the owner.

        Raises:
            NoSuchLogError: there is no such log.
            LogTruncatedError: ``start``, or the next entry to read, was truncated.
        """
        start = arguments.optional_position("start", start)
        return self._reading(name, password).entries(start)

    def read_log_batches(
        self, name: str, start: LogPosition | None = None, *, password: bytes = b""
    ) -> Iterator[ReadBatch]:
        """As ``read_log``, in batches, each of one ledger."""
        start = arguments.optional_position("start", start)
        return self._reading(name, password).batches(start)

    def tail_log(
        self,
        name: str,
        start: LogPosition | None = None,
        *,
        password: bytes = b"",
        timeout: float | None = None,
    ) -> "LogTail":
        """Return an iterator over a log's entries from ``start`` on, including those to come.

        It follows the log from ledger to ledger and from owner to owner, and never ends by itself.
        ``timeout``, in seconds, limits the wait for one entry, and this call.

        Raises:
            NoSuchLogError: there is no such log.
            LogTruncatedError: ``start`` was truncated.
        """
        start = arguments.optional_position("start", start)
        timeout_s = arguments.optional_seconds(timeout)
        return self._reading(name, password).tail(start, timeout=timeout_s)

    def truncate_log(self, name: str, position: LogPosition) -> int:
        """Delete the ledgers that lie entirely before ``position``; return their number.

        Raises:
            NoSuchLogError: there is no such log.
            InvalidOptionError: the log has no such ledger.
        """
        name = arguments.log_name(name)
        position = arguments.position("position", position)
        self.check_usable()
        from zbk.client.log import truncation as log_truncation

        return log_truncation.truncate(self, self._logs, name, position)

    def delete_log(self, name: str) -> int:
        """Delete a log and its ledgers; return their number.

        It does not fence: take the log over first if a client may still be writing it.

        Raises:
            NoSuchLogError: there is no such log.
        """
        name = arguments.log_name(name)
        self.check_usable()
        from zbk.client.log import truncation as log_truncation

        return log_truncation.delete(self, self._logs, name)

    def list_logs(self) -> list[str]:
        """Return the names of all logs, sorted."""
        self.check_usable()
        return self._logs.list()

    def get_log_metadata(self, name: str) -> LogMetadata:
        """Return a log's list of ledgers.

        Raises:
            NoSuchLogError: there is no such log.
        """
        name = arguments.log_name(name)
        self.check_usable()
        return self._logs.read(name)[0]

    def _reading(self, name: str, password: bytes) -> "LogReading":
        from zbk.client.log.reader import LogReading

        name = arguments.log_name(name)
        password = arguments.password(password)
        self.check_usable()
        return LogReading(name, self, self._logs, password)
