"""The switches of autorecovery in the metadata store, which operators set.

    /underreplication/disable           while it exists, no audit runs and no task is taken
    /underreplication/trigger           a counter; the auditor audits when it grows
    /underreplication/lostbookiedelay   overrides the auditor's own configuration

Any thread; every method blocks. A watch's callback runs in the store's callback thread and must
neither block nor call the store.

Source: BookKeeper's ``ZkLedgerUnderreplicationManager``. There, writing the same delay again
triggers an audit; here the trigger has a node of its own.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from zbk.errors import (
    CorruptRecordError,
    InvalidOptionError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    ZbkError,
)
from zbk.metadata.paths import AUDIT_TRIGGER, LOST_BOOKIE_DELAY, UNDERREPLICATION_DISABLED
from zbk.metadata.records.compare_and_swap import CompareAndSwap, find_node, wait_s
from zbk.metadata.stores.store import MetadataStore, Node, Watch
from zbk.metadata.values import AuditCounter, LostBookieDelay, decode, encode
from zbk.system.event_log import EventLog

LOST_BOOKIE_DELAY_MAX_MS: Final = 7 * 86_400_000
SET_ATTEMPT_COUNT_MAX: Final = 8

LOG = EventLog("zbk.metadata")


class AutorecoverySwitches:
    """The switches of the cluster whose metadata is in ``store``."""

    def __init__(self, store: MetadataStore, *, pause: Callable[[float], None] = wait_s) -> None:
        self._store = store
        self._swap = CompareAndSwap(store, pause)

    # ------------------------------------------------------------------ on and off

    def is_enabled(self) -> bool:
        """Return whether autorecovery may audit and repair."""
        return self._find(UNDERREPLICATION_DISABLED) is None

    def enable(self) -> None:
        """Enable autorecovery. Enabling twice is allowed.

        Raises:
            MetadataUnavailableError: it may still be disabled.
        """
        with suppress(NoNodeError):
            self._store.delete(UNDERREPLICATION_DISABLED)

    def disable(self) -> None:
        """Disable autorecovery in the whole cluster. Disabling twice is allowed.

        Workers finish their present fragment. Reports are still recorded.

        Raises:
            MetadataUnavailableError: it may still be enabled.
        """
        with suppress(NodeExistsError):
            self._store.create(UNDERREPLICATION_DISABLED, make_parents=True)

    def watch_enabled(self, callback: Callable[[bool], None]) -> Watch:
        """Call back with ``is_enabled()``: now, and after each change."""
        return self._store.watch_node(
            UNDERREPLICATION_DISABLED, lambda node: callback(node is None)
        )

    # ------------------------------------------------------------------ the trigger

    def trigger_audit(self) -> None:
        """Make the auditor audit now, whatever its intervals.

        Raises:
            MetadataUnavailableError: it may not be notified.
        """
        self._count_up(AUDIT_TRIGGER)

    def watch_trigger(self, callback: Callable[[int], None]) -> Watch:
        """Call back with a number that grows with each trigger: now, and after each."""
        return self._store.watch_node(
            AUDIT_TRIGGER, lambda node: callback(-1 if node is None else node.version)
        )

    # ------------------------------------------------------------------ the delay

    def lost_bookie_delay_ms(self) -> int | None:
        """Return the time that one lost bookie has to come back; ``None`` if it is not set.

        Raises:
            CorruptRecordError: the record is damaged.
        """
        return _delay_ms(self._find(LOST_BOOKIE_DELAY))

    def set_lost_bookie_delay_ms(self, delay_ms: int | None) -> None:
        """Set the time that one lost bookie has to come back; ``None``: as configured.

        Raises:
            InvalidOptionError: below 0, or over ``LOST_BOOKIE_DELAY_MAX_MS``.
            MetadataUnavailableError: it may or may not be set; setting it again is safe.
        """
        if delay_ms is None:
            with suppress(NoNodeError):
                self._store.delete(LOST_BOOKIE_DELAY)
            return
        if not 0 <= delay_ms <= LOST_BOOKIE_DELAY_MAX_MS:
            raise InvalidOptionError(
                "lost bookie delay", delay_ms, f"must be 0 to {LOST_BOOKIE_DELAY_MAX_MS} ms"
            )
        value = encode(LostBookieDelay(delay_ms=delay_ms))

        path = LOST_BOOKIE_DELAY
        self._swap.until_done(
            path,
            lambda: self._swap.write(path, value, self._find(path)) or None,
            SET_ATTEMPT_COUNT_MAX,
        )

    def watch_lost_bookie_delay(self, callback: Callable[[int | None], None]) -> Watch:
        """Call back with ``lost_bookie_delay_ms()``: now, and after each change.

        A damaged record is logged and not reported.
        """

        def on_node(node: Node | None) -> None:
            try:
                delay_ms = _delay_ms(node)
            except ZbkError as error:
                LOG.error(
                    "metadata.record_unreadable",
                    "watching %(record)s: %(error)s",
                    record="the delay of lost bookies",
                    error=error,
                )
            else:
                callback(delay_ms)

        return self._store.watch_node(LOST_BOOKIE_DELAY, on_node)

    # ------------------------------------------------------------------ inside

    def _find(self, path: str) -> Node | None:
        return find_node(self._store, path)

    def _count_up(self, path: str) -> None:
        """Increment the counter. A conflict is success: another session has incremented it.

        Watchers see the version of its node, so a damaged counter begins anew.
        """
        node = self._find(path)
        count = 0
        if node is not None:
            with suppress(CorruptRecordError):
                count = decode(AuditCounter, node.value, path).count
        self._swap.write(path, encode(AuditCounter(count=count + 1)), node)

    def _count_up_if_possible(self, path: str) -> None:
        """Increment the counter if the store answers; its watchers also look by themselves."""
        with suppress(MetadataUnavailableError):
            self._count_up(path)


def _delay_ms(node: Node | None) -> int | None:
    if node is None:
        return None
    return decode(LostBookieDelay, node.value, LOST_BOOKIE_DELAY).delay_ms
