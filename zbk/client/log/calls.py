"""The calls of a client that concern logs. ``zbk.client.api.Client`` has them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol, Unpack

from zbk.client import arguments
from zbk.client.write.ledger_creation import LedgerOptions, plan_ledger
from zbk.config import ClientConfig
from zbk.config.units import MIB
from zbk.metadata.records.logs import LogStore
from zbk.protocol.entry.read_batch import ReadBatch
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.position import LogEntry, LogPosition
from zbk.system.clock import wall_ms

if TYPE_CHECKING:
    from zbk.client.log.driver import LedgerClient
    from zbk.client.log.log import Log
    from zbk.client.log.reader import LogReading
    from zbk.client.log.tail import LogTail

    class LogClient(LedgerClient, Protocol):
        """A client, as the calls here see it."""

        _config: ClientConfig
        _logs: LogStore


ROLL_SIZE: Final = 256 * MIB
LOG_KEY: Final = "zbk.log"
"""In the custom metadata of a log's ledgers: the log's name."""


class LogCalls:
    """The part of a client that knows logs. The rest of it is loaded when it is used."""

    def open_log(
        self: "LogClient",
        name: str,
        *,
        create: bool = True,
        roll_size: int = ROLL_SIZE,
        roll_ms: int = 0,
        **options: Unpack[LedgerOptions],
    ) -> "Log":
        """Become the owner of a log, and return it. Whoever owned it cannot append any more.

        A log is a list of ledgers, written by one owner at a time; an owner that dies is followed
        by the next one who calls this. Nothing that was acknowledged is lost. ``options`` are those
        of ``create_ledger``, for each new ledger of the log; the password must be the one that the
        log was made with. With ``create`` a log that does not exist is made.

        The log goes on in a new ledger after ``roll_size`` bytes of payload, and, unless it is 0,
        at the first append ``roll_ms`` after a ledger's first entry.

        Raises:
            NoSuchLogError: there is none, and ``create`` is false.
            UnauthorizedError: the password is another one.
            LedgerRecoveryError, NotEnoughBookiesError: too few bookies are there.
            MetadataConflictError: others take it over at this very moment, again and again.

        Example:
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
                default_timeout_s=self._config.default_timeout_ms / 1000,
            )
        )

    def read_log(
        self: "LogClient", name: str, start: LogPosition | None = None, *, password: bytes = b""
    ) -> Iterator[LogEntry]:
        """Yield a log's entries from ``start`` (default: the first) up to what is confirmed now.

        It only looks: it never fences, and hurts no owner.

        Raises:
            NoSuchLogError: there is no such log.
            LogTruncatedError: ``start``, or what comes next, was cut off.
        """
        name = arguments.log_name(name)
        start = arguments.optional_position("start", start)
        password = arguments.password(password)
        self.check_usable()
        return _reading(name, self, self._logs, password).entries(start)

    def read_log_batches(
        self: "LogClient", name: str, start: LogPosition | None = None, *, password: bytes = b""
    ) -> Iterator[ReadBatch]:
        """As ``read_log``, in batches, each of one ledger."""
        name = arguments.log_name(name)
        start = arguments.optional_position("start", start)
        password = arguments.password(password)
        self.check_usable()
        return _reading(name, self, self._logs, password).batches(start)

    def tail_log(
        self: "LogClient",
        name: str,
        start: LogPosition | None = None,
        *,
        password: bytes = b"",
        timeout: float | None = None,
    ) -> "LogTail":
        """Return an iterator over a log's entries from ``start`` on, those to come too.

        It follows the log from ledger to ledger and from owner to owner, and never ends by itself.
        ``timeout``, in seconds, is for the wait for one entry, and for this call.

        Raises:
            NoSuchLogError: there is no such log.
            LogTruncatedError: ``start`` was cut off.
        """
        name = arguments.log_name(name)
        start = arguments.optional_position("start", start)
        password = arguments.password(password)
        timeout_s = None if timeout is None else arguments.seconds(timeout)
        self.check_usable()
        return _reading(name, self, self._logs, password).tail(start, timeout=timeout_s)

    def truncate_log(self: "LogClient", name: str, position: LogPosition) -> int:
        """Delete the ledgers that lie before ``position`` as a whole; return how many they were.

        Raises:
            NoSuchLogError: there is no such log.
            InvalidOptionError: the log has no such ledger.
        """
        name = arguments.log_name(name)
        position = arguments.position("position", position)
        self.check_usable()
        from zbk.client.log import truncation as log_truncation

        return log_truncation.truncate(self, self._logs, name, position)

    def delete_log(self: "LogClient", name: str) -> int:
        """Delete a log and its ledgers; return how many they were.

        It does not fence: take the log over first if somebody may still be writing it.

        Raises:
            NoSuchLogError: there is no such log.
        """
        name = arguments.log_name(name)
        self.check_usable()
        from zbk.client.log import truncation as log_truncation

        return log_truncation.delete(self, self._logs, name)

    def list_logs(self: "LogClient") -> list[str]:
        """Return the names of all logs, sorted."""
        self.check_usable()
        return self._logs.list()

    def get_log_metadata(self: "LogClient", name: str) -> LogMetadata:
        """Return a log's list of ledgers.

        Raises:
            NoSuchLogError: there is no such log.
        """
        name = arguments.log_name(name)
        self.check_usable()
        return self._logs.read(name)[0]


def _reading(name: str, client: "LogClient", store: LogStore, password: bytes) -> "LogReading":
    from zbk.client.log.reader import LogReading

    return LogReading(name, client, store, password)
