"""The logs' lists of ledgers in the store: create, compare-and-swap, delete, listing, watching.

A log has two nodes. ``/logs/<name>`` is its head and names a *log id*; below it, under that id, is
the list. A deleted log's nodes go, and a new log of the same name gets another id: so a client that
still holds a version of the old list can never write it over the new one, though versions of both
count from 0.

``write`` is the owner's compare-and-swap, made once, for its core judges what became of it
(``zbk.protocol.log.owner``). ``update`` is a loop, for changes that anybody may make. Lost replies
are met as in ``records.ledgers``: a fresh write token in the value tells our own attempt.

Any thread; every method blocks.

Source: "The BookKeeper protocol", section Ledgers to logs.
"""

import logging
from collections.abc import Callable
from uuid import uuid4

from zbk.errors import (
    BadVersionError,
    CorruptRecordError,
    MetadataUnavailableError,
    NoNodeError,
    NoSuchLogError,
    NotEmptyError,
    ZbkError,
)
from zbk.metadata.paths import LOGS, log_list_path, log_path
from zbk.metadata.records.compare_and_swap import (
    ATTEMPT_COUNT_MAX,
    CompareAndSwap,
    find_node,
    wait_s,
)
from zbk.metadata.stores.store import Create, Delete, MetadataStore, Node, SetValue, Watch
from zbk.metadata.values import LogHead, decode, encode
from zbk.protocol.log.metadata import LogMetadata

LOG = logging.getLogger("zbk.metadata")


class LogStore:
    """The logs of the cluster whose metadata is in ``store``."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        self._store = store
        self._swap = CompareAndSwap(store, pause)

    def create(self, name: str, created_ms: int) -> None:
        """Make an empty log, if there is none of this name.

        Raises:
            InvalidOptionError: no log can have this name.
            MetadataUnavailableError: it may or may not have been made.
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
            NoSuchLogError: the store says that there is none.
            CorruptRecordError: what is there is damaged.
        """
        path = log_path(name)
        for _ in range(ATTEMPT_COUNT_MAX):
            try:
                head = decode(LogHead, self._store.get(path).value, path)
            except NoNodeError as error:
                raise NoSuchLogError(name) from error
            try:
                node = self._store.get(log_list_path(name, head.log_id))
            except NoNodeError:
                continue  # deleted between the two; maybe there is a new one by now
            return _decoded(name, head.log_id, node), node.version
        raise NoSuchLogError(name)

    def write(self, log: LogMetadata, version: int) -> int:
        """Write a list over the one that has this version; return the new version.

        Raises:
            BadVersionError: it has another version: this attempt wrote nothing.
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
        """Change a list; return it as it was and as it is now.

        ``change`` is called again with what is there then whenever somebody else was quicker.

        Raises:
            NoSuchLogError: there is none.
            MetadataConflictError: others changed it ``ATTEMPT_COUNT_MAX`` times in a row.
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
        """Remove a log; return its last list. Its ledgers are still there.

        Raises:
            NoSuchLogError: there is none.
            MetadataUnavailableError: it may or may not have been removed.
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
            except MetadataUnavailableError:
                return None if find_node(self._store, path) else log
            return log

        return self._swap.until_done(log_path(name), attempt)

    def list(self) -> list[str]:
        """Return the names of all logs, sorted."""
        try:
            return sorted(self._store.children(LOGS))
        except NoNodeError:  # made with the first log
            return []

    def watch(
        self, log: LogMetadata, callback: Callable[[tuple[LogMetadata, int] | None], None]
    ) -> Watch:
        """Call back with list and version: now, and after each change; None: it was deleted.

        Runs in the store's callback thread and must not block or call the store. What is damaged
        is logged and left out.
        """

        def on_node(node: Node | None) -> None:
            if node is None:
                callback(None)
                return
            try:
                found = _decoded(log.name, log.log_id, node)
            except ZbkError as error:
                LOG.error("watching log %s: %s", log.name, error)  # noqa: TRY400 - the text says all
            else:
                callback((found, node.version))

        return self._store.watch_node(log_list_path(log.name, log.log_id), on_node)


def _decoded(name: str, log_id: str, node: Node) -> LogMetadata:
    path = log_list_path(name, log_id)
    log = decode(LogMetadata, node.value, path)
    if (log.name, log.log_id) != (name, log_id):
        raise CorruptRecordError(path, 0, f"holds the list of log {log.name} ({log.log_id})")
    return log
