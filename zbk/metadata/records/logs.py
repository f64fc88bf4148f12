"""The logs' lists of ledgers in the store: creation, changes, deletion, listing, watching.

A log has two nodes. ``/logs/<name>`` is its head and holds a *log id*; the list is below it, under
that id. A new log with the name of a deleted one gets another id. So a client with a version of the
old list can never overwrite the new one, although versions of both count from 0.

``write`` is one compare-and-swap of the owner, which decides itself how to go on after an error
(``zbk.protocol.log.owner``). ``update`` is a loop for changes that every client can make, with
read-back after a lost reply (``compare_and_swap``).

Any thread; every method blocks.

Source: "The BookKeeper protocol", section Ledgers to logs.
"""

import builtins
from collections.abc import Callable
from uuid import uuid4

from zbk.errors import (
    BadVersionError,
    CorruptRecordError,
    MetadataAccessError,
    MetadataUnavailableError,
    NoNodeError,
    NoSuchLogError,
    NotEmptyError,
)
from zbk.metadata.paths import LOGS, log_list_path, log_path
from zbk.metadata.records.compare_and_swap import (
    CompareAndSwap,
    find_children,
    find_named,
    find_node,
    wait_s,
)
from zbk.metadata.records.record_watch import watch_record
from zbk.metadata.stores.store import Create, Delete, MetadataStore, Node, SetValue, Watch
from zbk.metadata.values import LogHead, decode, encode
from zbk.protocol.log.metadata import LogMetadata


class LogStore:
    """The logs of the cluster in ``store``."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        self._store = store
        self._swap = CompareAndSwap(store, pause)

    def create(self, name: str, created_ms: int) -> None:
        """Create an empty log if there is none with this name.

        Raises:
            InvalidOptionError: no log can have this name.
            MetadataUnavailableError: it may or may not exist.
        """
        path = log_path(name)
        log_id = uuid4().hex
        log = LogMetadata(name=name, log_id=log_id, created_ms=created_ms)
        make = [
            Create(path, encode(LogHead(log_id=log_id))),
            Create(log_list_path(name, log_id), encode(log)),
        ]
        self._swap.create(path, make)

    def read(self, name: str) -> tuple[LogMetadata, int]:
        """Return a log's list and its version.

        Raises:
            NoSuchLogError: the store answered that there is none.
            CorruptRecordError: the list is damaged.
        """
        path = log_path(name)

        def read_list(log_id: str) -> tuple[LogMetadata, int]:
            node = self._store.get(log_list_path(name, log_id))
            return _decoded(name, log_id, node), node.version

        found = find_named(
            lambda: decode(LogHead, self._store.get(path).value, path).log_id, read_list
        )
        if found is None:
            raise NoSuchLogError(name)
        return found

    def write(self, log: LogMetadata, version: int) -> int:
        """Replace the list that has this version; return the new version.

        Raises:
            BadVersionError: the list has another version: this attempt wrote nothing.
            NoSuchLogError: the log was deleted.
            MetadataUnavailableError: it may or may not have been written.
        """
        path = log_list_path(log.name, log.log_id)
        try:
            return self._store.set(path, encode(log), version)
        except NoNodeError as error:
            raise NoSuchLogError(log.name) from error

    def update(
        self, name: str, change: Callable[[LogMetadata], LogMetadata]
    ) -> tuple[LogMetadata, LogMetadata]:
        """Change a list; return it before and after the change.

        ``change`` is called again with the present list if another client was faster.

        Raises:
            NoSuchLogError: there is no such log.
            MetadataConflictError: other clients changed it ``ATTEMPT_COUNT_MAX`` times in a row.
            MetadataUnavailableError: the change may or may not have been made.
        """

        def attempt() -> tuple[LogMetadata, LogMetadata] | None:
            before, version = self.read(name)
            wanted = change(before)
            if wanted == before:
                return before, before
            path = log_list_path(name, before.log_id)
            value = encode(wanted, write_token=uuid4().hex)
            is_made = self._swap.put(path, value, [SetValue(path, value, version)])
            return (before, wanted) if is_made else None

        return self._swap.until_done(log_path(name), attempt)

    def delete(self, name: str) -> LogMetadata:
        """Delete a log; return its last list. Its ledgers stay.

        Raises:
            NoSuchLogError: there is no such log.
            MetadataUnavailableError: it may or may not be deleted.
        """
        log_id = ""

        def attempt() -> LogMetadata | None:
            nonlocal log_id
            log, version = self.read(name)
            if log_id not in ("", log.log_id):  # another client deleted it and made a new one
                raise NoSuchLogError(name)
            log_id = log.log_id
            path = log_list_path(name, log_id)
            try:
                self._store.multi([Delete(path, version), Delete(log_path(name))])
            except (BadVersionError, NoNodeError, NotEmptyError):
                return None
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                return None if find_node(self._store, path) else log
            return log

        return self._swap.until_done(log_path(name), attempt)

    def list(self) -> builtins.list[str]:
        """Return the names of all logs, sorted."""
        return find_children(self._store, LOGS)

    def watch(
        self, log: LogMetadata, callback: Callable[[tuple[LogMetadata, int] | None], None]
    ) -> Watch:
        """Call back with list and version, now and after each change; ``None`` once deleted.

        The callback runs in the store's callback thread, and must not block or call the store. A
        damaged list is logged and not reported.
        """
        return watch_record(
            self._store,
            log_list_path(log.name, log.log_id),
            f"log {log.name}",
            lambda node: _decoded(log.name, log.log_id, node),
            callback,
        )


def _decoded(name: str, log_id: str, node: Node) -> LogMetadata:
    path = log_list_path(name, log_id)
    log = decode(LogMetadata, node.value, path)
    if (log.name, log.log_id) != (name, log_id):
        raise CorruptRecordError(path, 0, f"holds the list of log {log.name} ({log.log_id})")
    return log
