"""A running bookie's registration: an ephemeral node that this process keeps in the store.

States, as ``on_change`` receives them:

    REGISTERED   this process's node is there
    IN_DOUBT     the store does not answer, so the node may be gone: do not rely on it
    LOST         the node is gone; it is being created again
    FAILED       another process holds the node for longer than a dead one could; no more attempts

Events of a session may be late: LOST may be reported once more after the node was created again in
the next session. REGISTERED follows it.

The registration's own thread takes the steps that ``node_claim`` chooses (``node_keeper``). Doubt
and loss are reported at once from the store's callback thread, because the own thread may be
waiting for a store that does not answer.

Between read-write and read-only the new node is created first, and the old one is removed after
that, so the bookie is never unregistered in between.

Source: BookKeeper's ``ZKRegistrationManager`` and ``BookieStateManager``.
"""

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
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    UnsupportedVersionError,
    ZbkError,
)
from zbk.metadata.paths import registration_path
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.records.instance import not_initialised
from zbk.metadata.records.node_claim import Holder, RegistrationPlan, Step
from zbk.metadata.records.node_keeper import NodeKeeper
from zbk.metadata.stores.store import MetadataStore, Node, SessionState, Watch
from zbk.metadata.values import BookieRegistration, decode, encode
from zbk.system.clock import monotonic_ms, monotonic_s
from zbk.system.event_log import EventLog

RETRY_S: Final = 0.25
CLOSE_TIMEOUT_S: Final = 5.0

LOG = EventLog("zbk.metadata")


class RegistrationState(StrEnum):
    """The state of a bookie's registration, as its process knows it."""

    REGISTERED = "REGISTERED"
    IN_DOUBT = "IN_DOUBT"
    LOST = "LOST"
    FAILED = "FAILED"


class Registration(NodeKeeper):
    """One bookie's registration. ``BookieRegistry.register`` makes it.

    ``on_change`` receives each change of the state, one at a time and in order, from the store's
    callback thread or from this object's own. It must not block and must not call the store.
    """

    def __init__(
        self,
        store: MetadataStore,
        registration: BookieRegistration,
        *,
        wait_ms: int,
        on_change: Callable[[RegistrationState], None],
    ) -> None:
        self._on_change = on_change
        self._wanted = registration
        self._wanted_number = 1  # grows with each change of ``_wanted``
        self._reached_number = 0
        self._state = RegistrationState.LOST
        self._plan = RegistrationPlan(wait_ms)
        self._node_watch: Watch | None = None  # on the wanted node
        self._watched_path = ""
        super().__init__(store, f"zbk-registration-{registration.bookie_id}", RETRY_S)

    @property
    def state(self) -> RegistrationState:
        """The state that ``on_change`` received last."""
        return self._state

    @property
    def wanted(self) -> BookieRegistration:
        """The registration that this process keeps, or is about to."""
        return self._wanted

    @property
    def is_registered(self) -> bool:
        """True while the node is there, as far as this process can know."""
        return (
            self._state is RegistrationState.REGISTERED
            and self._store.session_state() is SessionState.CONNECTED
        )

    @property
    def error(self) -> ZbkError | None:
        """The error of the last attempt, or ``None``."""
        return self._error

    def set_readonly(self, *, is_readonly: bool, timeout_s: float = 30.0) -> None:
        """Move between the bookies that accept new entries and those that only serve reads.

        Raises:
            MetadataUnavailableError: not done yet; the move ends when the store answers again.
        """
        self.want_readonly(is_readonly=is_readonly)
        self.wait_registered(timeout_s)

    def want_readonly(self, *, is_readonly: bool) -> None:
        """Start the move of ``set_readonly`` and do not wait."""
        with self._changed:
            if self._wanted.is_readonly is is_readonly:
                return
            self._wanted = msgspec.structs.replace(self._wanted, is_readonly=is_readonly)
            self._wanted_number += 1
            self._wake()

    def wait_registered(self, timeout_s: float) -> None:
        """Wait until the node that is wanted now is there.

        Raises:
            NodeExistsError: another process holds it.
            MetadataUnavailableError: the store did not answer in time; attempts go on.
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
        """Remove the node and stop. Closing twice is allowed."""
        if self._is_closing:
            return
        self._end()
        self._session_watch.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._node_watch is not None:
            self._node_watch.cancel()
        if self._store.session_state() is SessionState.CONNECTED:
            with suppress(ZbkError):  # the node goes with the session
                for path in self._plan.open_paths():
                    self._remove_ours(path)

    # ------------------------------------------------------------------ steps and events

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._report(RegistrationState.IN_DOUBT)
        elif state is SessionState.LOST:
            self._report(RegistrationState.LOST)
        # CONNECTED: the own thread reads the node

    def _on_store_closed(self) -> None:
        self._end()

    def _may_retry(self, _error: ZbkError) -> bool:
        self._report(RegistrationState.FAILED)
        return False

    def _on_refused(self, _error: MetadataAccessError) -> None:
        """Go on: ``error`` shows it."""

    def _end(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def _reconcile(self) -> bool:
        with self._changed:
            wanted, number = self._wanted, self._wanted_number
            session_number = self._session_number
        if self._store.session_state() is not SessionState.CONNECTED:
            self._plan.disconnected()
            return False
        path = registration_path(wanted.bookie_id, is_readonly=wanted.is_readonly)
        node = find_node(self._store, path)
        was_blocked = self._plan.is_blocked
        step = self._plan.step(path, None if node is None else node.value, monotonic_ms())
        if node is None:
            if self._state is RegistrationState.REGISTERED and number == self._reached_number:
                self._report(RegistrationState.LOST)
            # a new watch reports every later state; the old one would not report a node that was
            # created and removed before it read
            self._watched_path = ""
            if not self._create(path, wanted):
                return False
            step = Step.REGISTER
        self._watch(path)
        if step is Step.REGISTER:
            other = registration_path(wanted.bookie_id, is_readonly=not wanted.is_readonly)
            if self._plan.claim(other).is_open:
                self._remove_ours(other)
            return self._report_registered(number, session_number)
        assert node is not None, "the other steps are about a node"
        if step is Step.REMOVE_FORMER:
            self._remove(path, node)
        elif step is Step.GIVE_UP:
            raise NodeExistsError(
                path,
                f"held by {_describe(path, node)} for over {self._plan.wait_ms} ms: does this "
                "bookie run twice?",
            )
        elif not was_blocked:
            LOG.info(
                "bookie.path_held",
                "%(path)s is held by %(holder)s; waiting for it to go",
                path=path,
                holder=_describe(path, node),
            )
        return False

    def _watch(self, path: str) -> None:
        if path == self._watched_path:
            return
        if self._node_watch is not None:
            self._node_watch.cancel()
        self._node_watch = self._store.watch_node(path, self._note_node)
        self._watched_path = path

    def _create(self, path: str, wanted: BookieRegistration) -> bool:
        value = encode(wanted, write_token=uuid4().hex)
        self._plan.claim(path).begin(value)
        try:
            self._store.create(path, value, is_ephemeral=True)
        except NodeExistsError:
            return False
        except NoNodeError as error:
            raise not_initialised(self._store) from error
        except MetadataAccessError:
            self._plan.claim(path).refused()
            raise
        self._plan.created()
        return True

    def _remove_ours(self, path: str) -> None:
        node = find_node(self._store, path)
        claim = self._plan.claim(path)
        if node is not None and claim.holder(node.value) is Holder.OURS:
            self._remove(path, node)
        claim.withdraw()

    def _remove(self, path: str, node: Node) -> None:
        with suppress(MetadataConflictError):
            self._store.delete(path, node.version)

    def _report_registered(self, number: int, session_number: int) -> bool:
        with self._reporting:
            with self._changed:
                if session_number != self._session_number:
                    return False  # the node may be gone by now: read it again
                self._reached_number = number
                self._error = None
            self._report(RegistrationState.REGISTERED)
            return True

    def _report(self, state: RegistrationState) -> None:
        with self._reporting:
            with self._changed:
                if self._is_closing or self._state in (state, RegistrationState.FAILED):
                    self._changed.notify_all()
                    return
                self._state = state
                self._changed.notify_all()
            try:
                self._on_change(state)
            except Exception:
                LOG.exception(
                    "metadata.callback_failed",
                    "the callback of %(source)s failed",
                    source="a registration",
                )


def _describe(path: str, node: Node) -> str:
    try:
        found = decode(BookieRegistration, node.value, path)
    except (CorruptRecordError, UnsupportedVersionError) as error:
        return f"a node that cannot be read ({error})"
    return f"{found.address}, incarnation {found.incarnation}"
