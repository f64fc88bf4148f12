"""A watch on the registrations of bookies.

It reads in a thread of its own, because the store's callbacks may not call the store, and calls
back from there.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from zbk.errors import ClientClosedError, MetadataUnavailableError
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import BookieRegistration
from zbk.system.event_log import EventLog

RETRY_S: Final = 0.25
"""The pause of a watch after the store did not answer."""

_CANCEL_TIMEOUT_S = 1.0

LOG = EventLog("zbk.metadata")

BookiesCallback = Callable[[Mapping[str, BookieRegistration]], None]


class BookiesWatch:
    """Reads the registrations whenever their names change, and calls back with them."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        read: Callable[[], Mapping[str, BookieRegistration]],
        callback: BookiesCallback,
    ) -> None:
        self._read = read
        self._callback = callback
        self._changed = threading.Condition()
        self._is_stale = False
        self._is_cancelled = False
        self._watch = store.watch_children(path, self._note)
        self._thread = threading.Thread(target=self._run, name="zbk-bookies-watch", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Stop the watch. A callback that is under way may still come."""
        with self._changed:
            self._is_cancelled = True
            self._changed.notify()
        self._watch.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CANCEL_TIMEOUT_S)

    def _note(self, _names: list[str]) -> None:
        with self._changed:
            self._is_stale = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._is_stale and not self._is_cancelled:
                    self._changed.wait()
                if self._is_cancelled:
                    return
                self._is_stale = False
            try:
                self._callback(self._read())
            except MetadataUnavailableError:
                with self._changed:
                    self._is_stale = True
                    if not self._is_cancelled:
                        self._changed.wait(RETRY_S)
            except ClientClosedError:
                return
            except Exception:
                LOG.exception(
                    "metadata.callback_failed",
                    "the callback of %(source)s failed",
                    source="a watch on bookies",
                )
