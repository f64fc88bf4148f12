"""The thread that keeps one ephemeral node as its owner wants it: a registration, or a vote.

Only this thread calls the store. Callbacks of the store wake it, and it compares the node with the
wanted one (``node_claim``), so lost callbacks and lost replies do no harm.
"""

import threading
from abc import ABC, abstractmethod

from zbk.errors import (
    ClientClosedError,
    MetadataAccessError,
    MetadataUnavailableError,
    ZbkError,
)
from zbk.metadata.stores.store import MetadataStore, Node, SessionState


class NodeKeeper(ABC):
    """A thread that calls ``_reconcile`` after each event, until the keeper is closed.

    A subclass sets its own fields before it calls this constructor, which starts the thread.
    ``retry_s`` is the pause while something remains to be done, ``recheck_s`` the longest pause
    otherwise (``None``: no limit).
    """

    def __init__(
        self, store: MetadataStore, thread_name: str, retry_s: float, recheck_s: float | None = None
    ) -> None:
        self._store = store
        self._retry_s = retry_s
        self._recheck_s = recheck_s
        self._changed = threading.Condition()
        self._reporting = threading.RLock()  # held while a callback runs; taken before the other
        self._session_number = 0  # grows with each event of the session
        self._is_due = True
        self._is_closing = False
        self._error: ZbkError | None = None  # of the last step
        self._session_watch = store.on_session(self._note_session)
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self._thread.start()

    @abstractmethod
    def _reconcile(self) -> bool:
        """Run one step; return true if nothing remains to be done until the next event."""

    @abstractmethod
    def _on_session(self, state: SessionState) -> None:
        """Handle an event of the session, in the store's callback thread."""

    @abstractmethod
    def _on_store_closed(self) -> None:
        """Handle that the store was closed first, and the node removed with it."""

    @abstractmethod
    def _may_retry(self, error: ZbkError) -> bool:
        """Return whether to continue after an error of ``_reconcile``."""

    @abstractmethod
    def _on_refused(self, error: MetadataAccessError) -> None:
        """Handle that the store refuses a step; it is repeated, because rights may come."""

    def _wake(self) -> None:
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    def _note_session(self, state: SessionState) -> None:
        with self._changed:
            self._session_number += 1
            self._wake()
        self._on_session(state)

    def _note_node(self, _node: Node | None) -> None:
        self._wake()

    def _run(self) -> None:
        pause_s = self._recheck_s
        while True:
            with self._changed:
                if not self._is_due and not self._is_closing:
                    self._changed.wait(pause_s)
                if self._is_closing:
                    return
                self._is_due = False
            try:
                pause_s = self._recheck_s if self._reconcile() else self._retry_s
            except MetadataUnavailableError as error:
                if isinstance(error, MetadataAccessError):
                    self._on_refused(error)
                self._error = error
                pause_s = self._retry_s
            except ClientClosedError:
                self._on_store_closed()
                return
            except ZbkError as error:
                self._error = error
                if not self._may_retry(error):
                    return
                pause_s = self._retry_s
