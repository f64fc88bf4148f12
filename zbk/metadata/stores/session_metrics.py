"""The metrics of a process's session with its metadata store."""

from zbk.metadata.stores.store import MetadataStore, SessionState
from zbk.metrics.samples import Samples


class SessionMetrics:
    """Watches one session. ``read`` may be called by any thread, and never waits."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._interruption_count = 0  # written by the store's callback thread
        self._watch = store.on_session(self._note)

    def read(self, samples: Samples) -> None:
        """Put the values into samples."""
        samples.set("zbk_metadata_connected", self.state is SessionState.CONNECTED)
        samples.set("zbk_metadata_interruptions_total", self._interruption_count)

    @property
    def state(self) -> SessionState:
        """The session's present state."""
        return self._store.session_state()

    def close(self) -> None:
        """Cancel the watch."""
        self._watch.cancel()

    def _note(self, state: SessionState) -> None:
        if state is not SessionState.CONNECTED:
            self._interruption_count += 1
