"""The bookies in the metadata store: their cookies, and those that are there now.

Any thread may call; calls block. A watch reads in a thread of its own, because the store's
callbacks may not call the store, and calls back from there.

Source: BookKeeper's ``ZKRegistrationManager`` and ``ZKRegistrationClient``.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from zbk.errors import (
    ClientClosedError,
    CorruptRecordError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    UnsupportedVersionError,
    ZbkError,
)
from zbk.metadata.instance import not_initialised
from zbk.metadata.paths import (
    AVAILABLE,
    COOKIES,
    READONLY,
    READONLY_NAME,
    cookie_path,
    registration_path,
)
from zbk.metadata.registration import Registration, RegistrationState
from zbk.metadata.store import MetadataStore, Watch
from zbk.metadata.values import BookieRegistration, Cookie, decode, encode

RETRY_S: Final = 0.25
"""How long a watch waits after the store did not answer."""

_CANCEL_TIMEOUT_S = 1.0

LOG = logging.getLogger("zbk.metadata")

BookiesCallback = Callable[[Mapping[str, BookieRegistration]], None]


class BookieRegistry:
    """The bookies of the cluster whose metadata is in ``store``.

    ``session_timeout_ms`` is the one that bookies open their stores with: how long a dead bookie's
    registration may stay.
    """

    def __init__(self, store: MetadataStore, *, session_timeout_ms: int = 10_000) -> None:
        self._store = store
        self._session_timeout_ms = session_timeout_ms

    # ------------------------------------------------------------------ cookies

    def create_cookie(self, cookie: Cookie) -> None:
        """Keep a new bookie's cookie.

        Raises:
            NodeExistsError: the bookie has one already.
            InvalidOptionError: the store holds no cluster, or the id can not be a name.
        """
        path = cookie_path(cookie.bookie_id)
        value = encode(cookie)
        try:
            self._store.create(path, value)
        except NoNodeError as error:
            raise not_initialised(self._store) from error
        except NodeExistsError:
            raise NodeExistsError(path, f"bookie {cookie.bookie_id} has a cookie already") from None
        except MetadataUnavailableError:
            try:
                found = self._store.get(path)
            except NoNodeError:  # it was not made: safe to try again
                self._store.create(path, value)
                return
            if found.value != value:
                raise NodeExistsError(
                    path, f"bookie {cookie.bookie_id} has a cookie already"
                ) from None

    def read_cookie(self, bookie_id: str) -> Cookie | None:
        """Return a bookie's cookie, or ``None`` if the store says that there is none."""
        path = cookie_path(bookie_id)
        try:
            return decode(Cookie, self._store.get(path).value, path)
        except NoNodeError:
            return None

    def delete_cookie(self, bookie_id: str) -> None:
        """Forget a bookie that was taken out of service, for good.

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
        """Register a running bookie and keep it registered; return when it is.

        A registration of an earlier process of the same bookie gets one and a half session
        timeouts to vanish. ``on_change`` is told of everything that happens, in order.

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

    def available(self) -> dict[str, BookieRegistration]:
        """Return the bookies that take new entries, by id. What can not be read is left out."""
        return self._read_all(AVAILABLE)

    def readonly(self) -> dict[str, BookieRegistration]:
        """Return the bookies that only serve what they have, by id."""
        return self._read_all(READONLY)

    def resolve(self, bookie_id: str) -> BookieRegistration | None:
        """Return a bookie's registration, or ``None`` if it has none.

        Raises:
            CorruptRecordError: it has one that can not be read.
        """
        # a bookie that becomes writable between the first two looks is found by the third
        for is_readonly in (False, True, False):
            path = registration_path(bookie_id, is_readonly=is_readonly)
            try:
                return decode(BookieRegistration, self._store.get(path).value, path)
            except NoNodeError:
                continue
        return None

    def watch_available(self, callback: BookiesCallback) -> Watch:
        """Call back with ``available()``: now, and after each change."""
        return _BookiesWatch(self._store, AVAILABLE, self.available, callback)

    def watch_readonly(self, callback: BookiesCallback) -> Watch:
        """Call back with ``readonly()``: now, and after each change."""
        return _BookiesWatch(self._store, READONLY, self.readonly, callback)

    def _read_all(self, parent: str) -> dict[str, BookieRegistration]:
        try:
            names = self._store.children(parent)
        except NoNodeError:  # no cluster yet, so no bookies
            return {}
        found = {}
        for name in names:
            if name == READONLY_NAME:
                continue
            path = f"{parent}/{name}"
            try:
                found[name] = decode(BookieRegistration, self._store.get(path).value, path)
            except NoNodeError:  # gone since we read its name
                continue
            except (CorruptRecordError, UnsupportedVersionError) as error:
                LOG.warning("leaving out a bookie whose registration can not be read: %s", error)
        return found


class _BookiesWatch:
    """Reads the registrations whenever their names change, and tells the callback."""

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
        """Stop it. A callback that is under way may still come."""
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
                LOG.exception("the callback of a watch on bookies failed")
