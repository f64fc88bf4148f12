"""A running bookie's registration: an ephemeral node, kept there.

States, as ``on_change`` is told them:

    REGISTERED   our node is there
    IN_DOUBT     the store does not answer: our node may be gone; act on nothing it guarantees
    LOST         our node is gone; it is being made again
    FAILED       another process holds the node for longer than a dead one could; we have given up

News of a session may be late: LOST may be told, once more, after the node was made again under the
next one. REGISTERED follows it.

Only this object's own thread calls the store. News from the store wakes it; it then compares what
is there with what should be there and takes the next step, so that it does not matter which news
was lost, and which reply. Doubt and loss are told at once, from the store's callback thread: our
own thread may at that moment be waiting for a store that does not answer.

Each attempt to make the node writes a fresh token: a node with the token of our last attempt is
ours. A node with another one is of an earlier process of this bookie, whose session has not ended
yet, or of a second one that runs now: it gets ``wait_ms`` to vanish.

Between read-write and read-only the new node is made first and the old one removed then: the bookie
is never unregistered in between.

Source: BookKeeper's ``ZKRegistrationManager`` and ``BookieStateManager``.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final
from uuid import uuid4

import msgspec

from zbk.errors import (
    ClientClosedError,
    CorruptRecordError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    UnsupportedVersionError,
    ZbkError,
)
from zbk.metadata.paths import registration_path
from zbk.metadata.records.instance import not_initialised
from zbk.metadata.stores.store import MetadataStore, Node, SessionState, Watch
from zbk.metadata.values import BookieRegistration, decode, encode
from zbk.system.clock import monotonic_ms, monotonic_s

RETRY_S: Final = 0.25
CLOSE_TIMEOUT_S: Final = 5.0

LOG = logging.getLogger("zbk.metadata")


class RegistrationState(StrEnum):
    """What is known of a bookie's registration."""

    REGISTERED = "REGISTERED"
    IN_DOUBT = "IN_DOUBT"
    LOST = "LOST"
    FAILED = "FAILED"


class Registration:
    """One bookie's registration. ``BookieRegistry.register`` makes it.

    ``on_change`` is told each change of the state, one at a time and in order, from the store's
    callback thread or from one of this object's: it must not block, and not call the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        registration: BookieRegistration,
        *,
        wait_ms: int,
        on_change: Callable[[RegistrationState], None],
    ) -> None:
        self._store = store
        self._wait_ms = wait_ms
        self._on_change = on_change
        self._changed = threading.Condition()
        self._telling = threading.RLock()  # held while ``on_change`` runs; taken before the other
        self._wanted = registration
        self._wanted_number = 1  # grows with each change of what is wanted
        self._reached_number = 0
        self._is_due = True
        self._is_closing = False
        self._session_number = 0  # grows with all news of the session
        self._state = RegistrationState.LOST
        self._error: ZbkError | None = None
        self._tried: dict[str, bytes] = {}  # by path: what we last tried to put there
        self._former: set[bytes] = set()  # and before: the store may apply it later than that
        self._blocked_since_ms: int | None = None
        self._session_watch = store.on_session(self._note_session)
        self._node_watch: Watch | None = None  # on the node that is wanted
        self._watched_path = ""
        self._thread = threading.Thread(
            target=self._run, name=f"zbk-registration-{registration.bookie_id}", daemon=True
        )
        self._thread.start()

    @property
    def state(self) -> RegistrationState:
        """What ``on_change`` was told last."""
        return self._state

    @property
    def is_registered(self) -> bool:
        """True while our node is there, as far as anybody can know now."""
        return (
            self._state is RegistrationState.REGISTERED
            and self._store.session_state() is SessionState.CONNECTED
        )

    @property
    def error(self) -> ZbkError | None:
        """Why it failed, or why it has not succeeded yet."""
        return self._error

    def set_readonly(self, *, is_readonly: bool, timeout_s: float = 30.0) -> None:
        """Move between the bookies that take new entries and those that only serve.

        Raises:
            MetadataUnavailableError: not done yet; it will be when the store answers again.
        """
        self.want_readonly(is_readonly=is_readonly)
        self.wait_registered(timeout_s)

    def want_readonly(self, *, is_readonly: bool) -> None:
        """Begin to move, as ``set_readonly``, and do not wait."""
        with self._changed:
            if self._wanted.is_readonly is is_readonly:
                return
            self._wanted = msgspec.structs.replace(self._wanted, is_readonly=is_readonly)
            self._wanted_number += 1
            self._is_due = True
            self._changed.notify_all()

    def wait_registered(self, timeout_s: float) -> None:
        """Wait until the node that is wanted now is there.

        Raises:
            NodeExistsError: another process holds it.
            MetadataUnavailableError: the store did not answer in time; it is tried on.
        """
        deadline_s = monotonic_s() + timeout_s
        with self._changed:
            number = self._wanted_number
            while self._reached_number < number:
                left_s = deadline_s - monotonic_s()
                if self._state is RegistrationState.FAILED:
                    assert self._error is not None, "a failure has a reason"
                    raise self._error
                if self._is_closing:
                    raise ClientClosedError
                if left_s <= 0:
                    raise self._error or MetadataUnavailableError(
                        self._store.address, f"not registered within {timeout_s:g} s"
                    )
                self._changed.wait(left_s)

    def close(self) -> None:
        """Remove the node and end. Twice is fine."""
        if self._is_closing:
            return
        self._end()
        self._session_watch.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._node_watch is not None:
            self._node_watch.cancel()
        if self._store.session_state() is SessionState.CONNECTED:
            with suppress(ZbkError):  # else it goes with the session
                for path in list(self._tried):
                    self._remove_ours(path)

    # ------------------------------------------------------------------ news, in the store's thread

    def _note_session(self, state: SessionState) -> None:
        with self._changed:
            self._session_number += 1
            self._is_due = True
            self._changed.notify_all()
        if state is SessionState.SUSPENDED:
            self._report(RegistrationState.IN_DOUBT)
        elif state is SessionState.LOST:
            self._report(RegistrationState.LOST)
        # CONNECTED: what is there now shows when our thread looks

    def _note_node(self, _node: Node | None) -> None:
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    # ------------------------------------------------------------------ the registration's thread

    def _run(self) -> None:
        retry_s: float | None = None
        while True:
            with self._changed:
                if not self._is_due and not self._is_closing:
                    self._changed.wait(retry_s)
                if self._is_closing:
                    return
                self._is_due = False
            try:
                retry_s = None if self._reconcile() else RETRY_S
            except MetadataUnavailableError as error:
                self._error = error
                retry_s = RETRY_S
            except ClientClosedError:  # the store was closed first: our node went with it
                self._end()
                return
            except ZbkError as error:
                self._error = error
                self._report(RegistrationState.FAILED)
                return

    def _end(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def _reconcile(self) -> bool:
        """Run one step towards what is wanted; true if nothing remains to be done."""
        with self._changed:
            wanted, number = self._wanted, self._wanted_number
            session_number = self._session_number
        if self._store.session_state() is not SessionState.CONNECTED:
            self._blocked_since_ms = None  # time in which nobody's session could end
            return False
        bookie_id = wanted.bookie_id
        path = registration_path(bookie_id, is_readonly=wanted.is_readonly)
        node = self._look(path)
        if node is None:
            if self._state is RegistrationState.REGISTERED and number == self._reached_number:
                self._report(RegistrationState.LOST)
            # a new watch tells what is there from now on; an old one would not tell of a node that
            # was made and removed before it looked
            self._watched_path = ""
            if not self._create(path, wanted):
                return False
        self._watch(path)
        if node is not None and node.value != self._tried.get(path):
            if node.value in self._former:
                self._remove(path, node)
            else:
                self._wait_for_other(path, node)
            return False
        self._blocked_since_ms = None
        other = registration_path(bookie_id, is_readonly=not wanted.is_readonly)
        if other in self._tried:
            self._remove_ours(other)
        return self._report_registered(number, session_number)

    def _look(self, path: str) -> Node | None:
        try:
            return self._store.get(path)
        except NoNodeError:
            return None

    def _watch(self, path: str) -> None:
        if path == self._watched_path:
            return
        if self._node_watch is not None:
            self._node_watch.cancel()
        self._node_watch = self._store.watch_node(path, self._note_node)
        self._watched_path = path

    def _create(self, path: str, wanted: BookieRegistration) -> bool:
        value = encode(wanted, write_token=uuid4().hex)
        self._former.add(self._tried.get(path, b""))
        self._tried[path] = value  # before the attempt: its reply may be lost
        try:
            self._store.create(path, value, is_ephemeral=True)
        except NodeExistsError:
            return False
        except NoNodeError as error:
            raise not_initialised(self._store) from error
        return True

    def _wait_for_other(self, path: str, node: Node) -> None:
        now_ms = monotonic_ms()
        if self._blocked_since_ms is None:
            self._blocked_since_ms = now_ms
            LOG.info("%s is held by %s; waiting for it to go", path, _describe(path, node))
        if now_ms - self._blocked_since_ms > self._wait_ms:
            raise NodeExistsError(
                path,
                f"held by {_describe(path, node)} for over {self._wait_ms} ms: does this bookie "
                "run twice?",
            )

    def _remove_ours(self, path: str) -> None:
        node = self._look(path)
        if node is not None and node.value == self._tried.get(path):
            self._remove(path, node)
        self._former.add(self._tried.pop(path, b""))

    def _remove(self, path: str, node: Node) -> None:
        with suppress(MetadataConflictError):
            self._store.delete(path, node.version)

    def _report_registered(self, number: int, session_number: int) -> bool:
        with self._telling:
            with self._changed:
                if session_number != self._session_number:
                    return False  # what we have seen may be gone by now: look again
                self._reached_number = number
                self._error = None
            self._report(RegistrationState.REGISTERED)
            return True

    def _report(self, state: RegistrationState) -> None:
        with self._telling:
            with self._changed:
                if self._is_closing or self._state in (state, RegistrationState.FAILED):
                    self._changed.notify_all()
                    return
                self._state = state
                self._changed.notify_all()
            try:
                self._on_change(state)
            except Exception:
                LOG.exception("the callback of a registration failed")


def _describe(path: str, node: Node) -> str:
    try:
        found = decode(BookieRegistration, node.value, path)
    except (CorruptRecordError, UnsupportedVersionError) as error:
        return f"something else ({error})"
    return f"{found.address}, incarnation {found.incarnation}"
