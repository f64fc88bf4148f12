"""The bookies in the metadata store: their cookies and their registrations.

A cookie in the store holds the bookie's history beside its identity: the highest incarnation that
was admitted, and whether its directories show that it has served. Before a bookie serves, it raises
the incarnation by compare-and-swap, so two processes cannot both raise it to the same one. After a
lost reply the node is read back: an own write token in it shows that this process wrote it.

Any thread may call; calls block.

Source: BookKeeper's ``ZKRegistrationManager`` and ``ZKRegistrationClient``.
"""

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from zbk.errors import (
    BadVersionError,
    CookieMismatchError,
    CorruptRecordError,
    InvalidOptionError,
    MetadataAccessError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    UnsupportedVersionError,
    ZbkError,
)
from zbk.metadata.paths import (
    AVAILABLE,
    COOKIES,
    READONLY,
    READONLY_NAME,
    cookie_path,
    registration_path,
)
from zbk.metadata.records.bookies_watch import BookiesCallback, BookiesWatch
from zbk.metadata.records.compare_and_swap import CompareAndSwap, find_children, find_node, wait_s
from zbk.metadata.records.instance import not_initialised
from zbk.metadata.records.registration import Registration, RegistrationState
from zbk.metadata.stores.store import MetadataStore, Watch
from zbk.metadata.values import BookieRegistration, Cookie, StoredCookie, decode, encode
from zbk.system.clock import monotonic_s
from zbk.system.event_log import EventLog

CHANGE_TIMEOUT_S: Final = 30.0
"""The time limit of a cookie's change while the store does not answer or others change it."""

UNREGISTERED_RETRY_S: Final = 0.1

LOG = EventLog("zbk.metadata")


class BookieRegistry:
    """The bookies of the cluster in ``store``.

    ``session_timeout_ms`` is that of the bookies' stores: the registration of a dead bookie may
    stay so long.
    """

    def __init__(
        self,
        store: MetadataStore,
        *,
        session_timeout_ms: int = 10_000,
        pause: Callable[[float], None] = wait_s,
    ) -> None:
        self._store = store
        self._session_timeout_ms = session_timeout_ms
        self._pause = pause
        self._swap = CompareAndSwap(store, pause)

    # ------------------------------------------------------------------ cookies

    def create_cookie(self, cookie: Cookie) -> None:
        """Store a new bookie's cookie.

        Raises:
            NodeExistsError: the bookie has one already.
            InvalidOptionError: the store holds no cluster, or the id cannot be a name.
        """
        path = cookie_path(cookie.bookie_id)
        value = encode(cookie)
        try:
            try:
                self._store.create(path, value)
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                found = find_node(self._store, path)
                if found is None:  # it was not made: safe to try again
                    self._store.create(path, value)
                elif found.value != value:
                    raise NodeExistsError(path, "") from None
        except NoNodeError as error:
            raise not_initialised(self._store) from error
        except NodeExistsError:
            raise NodeExistsError(path, f"bookie {cookie.bookie_id} has a cookie already") from None

    def read_cookie(self, bookie_id: str, *, is_fresh: bool = False) -> Cookie | None:
        """Return a bookie's cookie, or ``None`` if the store says that there is none.

        ``is_fresh`` as in ``MetadataStore.get``.
        """
        path = cookie_path(bookie_id)
        node = find_node(self._store, path, is_fresh=is_fresh)
        return None if node is None else decode(Cookie, node.value, path)

    def read_stored_cookie(self, bookie_id: str) -> StoredCookie | None:
        """Return a bookie's present cookie with its history, or ``None``. As ``read_cookie``."""
        path = cookie_path(bookie_id)
        node = find_node(self._store, path, is_fresh=True)
        return None if node is None else decode(StoredCookie, node.value, path)

    def raise_incarnation(self, bookie_id: str, incarnation: int, *, has_served: bool) -> bool:
        """Record that a bookie is admitted; return false, and change nothing, if it is not.

        It is not admitted if the store has this incarnation or a higher one: another process of the
        bookie has raised it. A true ``has_served`` stays true.

        Raises:
            NoNodeError: the bookie has no cookie.
            MetadataUnavailableError: it may or may not have been recorded.
            BadVersionError: other clients change it all the time.
        """

        def raised(now: StoredCookie) -> StoredCookie | None:
            if now.incarnation >= incarnation:
                return None
            return msgspec.structs.replace(
                now, incarnation=incarnation, has_served=now.has_served or has_served
            )

        return self._change_cookie(bookie_id, raised)

    def expand_cookie(self, before: Cookie, after: Cookie) -> None:
        """Replace the directories of a bookie by more, of which the first are the old ones.

        Raises:
            CookieMismatchError: the cookie has other directories.
            NoNodeError, MetadataUnavailableError: as ``raise_incarnation``.
        """
        path = cookie_path(before.bookie_id)

        def expanded(now: StoredCookie) -> StoredCookie | None:
            own = (now.journal_dirs, now.ledger_dirs)
            if own == (after.journal_dirs, after.ledger_dirs):
                return None
            if own != (before.journal_dirs, before.ledger_dirs):
                raise CookieMismatchError(f"{path} has other directories: another command ran")
            return msgspec.structs.replace(
                now, journal_dirs=after.journal_dirs, ledger_dirs=after.ledger_dirs
            )

        self._change_cookie(before.bookie_id, expanded)

    def forget_served(self, bookie_id: str) -> None:
        """Record that a bookie's directories were wiped, so they do not show that it has served.

        Raises:
            NoNodeError, MetadataUnavailableError, BadVersionError: as ``raise_incarnation``.
        """

        def forgotten(now: StoredCookie) -> StoredCookie | None:
            return msgspec.structs.replace(now, has_served=False) if now.has_served else None

        self._change_cookie(bookie_id, forgotten)

    def switch_readonly(self, bookie_id: str, *, is_readonly: bool) -> None:
        """Set the manual read-only switch of a bookie.

        Raises:
            InvalidOptionError: there is no such bookie; others as ``raise_incarnation``.
        """
        wanted = True if is_readonly else msgspec.UNSET

        def switched(now: StoredCookie) -> StoredCookie | None:
            changed = msgspec.structs.replace(now, is_readonly=wanted)
            return None if changed == now else changed

        try:
            self._change_cookie(bookie_id, switched)
        except NoNodeError as error:
            raise _no_bookie(bookie_id) from error

    def record_key(self, bookie_id: str, public_key: str) -> bool:
        """Record the public key with which a bookie starts, "" for none; return if it is new.

        Raises:
            NoNodeError, MetadataUnavailableError, BadVersionError: as ``raise_incarnation``.
        """

        def recorded(now: StoredCookie) -> StoredCookie | None:
            changed = msgspec.structs.replace(now, public_key=public_key or msgspec.UNSET)
            return None if changed == now else changed

        return self._change_cookie(bookie_id, recorded)

    def is_switched_readonly(self, bookie_id: str) -> bool:
        """Return the manual read-only switch of a bookie.

        Raises:
            InvalidOptionError: there is no such bookie.
        """
        found = self.read_stored_cookie(bookie_id)
        if found is None:
            raise _no_bookie(bookie_id)
        return found.is_readonly is True

    def _change_cookie(
        self, bookie_id: str, change: Callable[[StoredCookie], StoredCookie | None]
    ) -> bool:
        """Change a cookie; return false if ``change`` returns ``None`` for the present one."""
        path = cookie_path(bookie_id)
        tried: set[bytes] = set()  # the store may apply an attempt without a reply later
        deadline_s = monotonic_s() + CHANGE_TIMEOUT_S
        attempt = 0
        while True:
            try:
                node = self._store.get(path, is_fresh=True)
                if node.value in tried:
                    return True
                wanted = change(decode(StoredCookie, node.value, path))
                if wanted is None:
                    return False
                value = encode(wanted, write_token=uuid4().hex)
                tried.add(value)
                self._store.set(path, value, node.version)
            except MetadataAccessError:
                raise
            except (BadVersionError, MetadataUnavailableError):
                if monotonic_s() > deadline_s:
                    raise
                self._swap.wait(min(attempt, 10))
                attempt += 1
            else:
                return True

    def delete_cookie(self, bookie_id: str) -> None:
        """Delete the cookie of a bookie that was decommissioned.

        Raises:
            NoNodeError: it has no cookie.
        """
        self._store.delete(cookie_path(bookie_id))

    def cookies(self) -> dict[str, Cookie]:
        """Return all cookies by bookie id: every bookie that belongs to the cluster."""
        try:
            names = self._store.children(COOKIES)
        except NoNodeError as error:
            raise not_initialised(self._store) from error
        found = {name: self.read_cookie(name) for name in names}
        return {name: cookie for name, cookie in found.items() if cookie is not None}

    # ------------------------------------------------------------------ registrations

    def register(
        self,
        registration: BookieRegistration,
        on_change: Callable[[RegistrationState], None] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Registration:
        """Register a running bookie and keep it registered; return once it is.

        A registration of an earlier process of the same bookie has one and a half session timeouts
        to vanish. ``on_change`` receives each change of the state, in order.

        Raises:
            NodeExistsError: another process of this bookie is registered, and alive.
            MetadataUnavailableError: not registered within ``timeout_s``.
            InvalidOptionError: the store holds no cluster.
        """
        wait_ms = self._session_timeout_ms * 3 // 2
        made = Registration(
            self._store, registration, wait_ms=wait_ms, on_change=on_change or (lambda _state: None)
        )
        try:
            made.wait_registered(wait_ms / 1000 + 30 if timeout_s is None else timeout_s)
        except ZbkError:
            made.close()
            raise
        return made

    def wait_unregistered(self, bookie_id: str) -> None:
        """Return once no process is registered as a bookie that is about to start.

        The registration of an earlier process has one and a half session timeouts to vanish; up to
        ``CHANGE_TIMEOUT_S`` in which the store does not answer do not count.

        Raises:
            NodeExistsError: another process of this bookie is registered, and alive.
            MetadataUnavailableError: the store did not answer.
        """
        wait_s = self._session_timeout_ms * 3 / 2000
        deadline_s = monotonic_s() + wait_s + CHANGE_TIMEOUT_S
        blocked_since_s: float | None = None
        while True:
            try:
                held = self._registered_as(bookie_id)
            except MetadataAccessError:
                raise
            except MetadataUnavailableError:
                if monotonic_s() > deadline_s:
                    raise
                blocked_since_s = None
            else:
                if not held:
                    return
                if blocked_since_s is None:
                    blocked_since_s = monotonic_s()
                    LOG.info(
                        "bookie.registration_held", "%(held)s; waiting for it to go", held=held
                    )
                if monotonic_s() - blocked_since_s > wait_s:
                    path = registration_path(bookie_id, is_readonly=False)
                    told = f"{held}, for over {wait_s:g} s: does this bookie run twice?"
                    raise NodeExistsError(path, told)
            self._pause(UNREGISTERED_RETRY_S)

    def _registered_as(self, bookie_id: str) -> str:
        """Return a description of a bookie's registration; "" if there is none."""
        try:
            found = self.resolve(bookie_id)
        except (CorruptRecordError, UnsupportedVersionError) as error:
            return f"bookie {bookie_id} is registered, as something else ({error})"
        if found is None:
            return ""
        return f"bookie {bookie_id} is registered at {found.address}"

    def available(self) -> dict[str, BookieRegistration]:
        """Return the bookies that accept new entries, by id. Unreadable ones are left out."""
        return self._read_all(AVAILABLE)

    def readonly(self) -> dict[str, BookieRegistration]:
        """Return the bookies that are read-only, by id. As ``available``."""
        return self._read_all(READONLY)

    def resolve(self, bookie_id: str) -> BookieRegistration | None:
        """Return a bookie's registration, or ``None`` if it has none.

        Raises:
            CorruptRecordError: it has one that cannot be read.
        """
        # a bookie that becomes writable between the first two looks is found by the third
        for is_readonly in (False, True, False):
            path = registration_path(bookie_id, is_readonly=is_readonly)
            node = find_node(self._store, path)
            if node is not None:
                return decode(BookieRegistration, node.value, path)
        return None

    def watch_available(self, callback: BookiesCallback) -> Watch:
        """Call back with ``available()``: now, and after each change."""
        return BookiesWatch(self._store, AVAILABLE, self.available, callback)

    def watch_readonly(self, callback: BookiesCallback) -> Watch:
        """Call back with ``readonly()``: now, and after each change."""
        return BookiesWatch(self._store, READONLY, self.readonly, callback)

    def _read_all(self, parent: str) -> dict[str, BookieRegistration]:
        found = {}
        for name in find_children(self._store, parent):
            if name == READONLY_NAME:
                continue
            path = f"{parent}/{name}"
            node = find_node(self._store, path)
            if node is None:  # gone since its name was read
                continue
            try:
                found[name] = decode(BookieRegistration, node.value, path)
            except (CorruptRecordError, UnsupportedVersionError) as error:
                LOG.warning(
                    "metadata.registration_unreadable",
                    "leaving out a bookie whose registration cannot be read: %(error)s",
                    error=error,
                )
        return found


def _no_bookie(bookie_id: str) -> InvalidOptionError:
    return InvalidOptionError("bookie id", bookie_id, "no bookie of the cluster has it")
