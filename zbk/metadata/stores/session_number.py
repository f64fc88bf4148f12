"""A number for the present session with the metadata store.

Within one session no answer is older than the one before; across two sessions it may be. The number
changes with every event of the session, even if the session came back as it was. So a comparison of
numbers errs on the safe side.

Any thread may ask; the store's callback thread reports the events.
"""

import threading

from zbk.metadata.stores.store import MetadataStore, SessionState


class SessionNumber:
    """Counts the sessions of a store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._number = 1
        self._watch = store.on_session(self._note)

    def now(self) -> int | None:
        """Return the number of the present session; ``None`` if the session is in doubt."""
        with self._lock:
            number = self._number
        return number if self._store.session_state() is SessionState.CONNECTED else None

    def since(self, number: int | None) -> int | None:
        """Return ``number`` if the session with that number has lasted until now, else ``None``."""
        return number if number is not None and self.now() == number else None

    def close(self) -> None:
        """Stop counting."""
        self._watch.cancel()

    def _note(self, state: SessionState) -> None:
        del state
        with self._lock:
            self._number += 1
