from collections.abc import Callable

from zbk.metadata.stores.session_metrics import SessionMetrics
from zbk.metadata.stores.store import SessionState, Watch
from zbk.metrics.samples import Samples


class FakeStore:
    """A store of which only the session matters."""

    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        self.callbacks: list[Callable[[SessionState], None]] = []

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        self.callbacks.append(callback)
        return self

    def cancel(self) -> None:
        self.callbacks.clear()

    def session_state(self) -> SessionState:
        return self.state

    def change(self, state: SessionState) -> None:
        self.state = state
        for callback in self.callbacks:
            callback(state)


def values(metrics: SessionMetrics) -> tuple[float, float]:
    samples = Samples()
    metrics.read(samples)
    connected = samples.values["zbk_metadata_connected"][()]
    return connected, samples.values["zbk_metadata_interruptions_total"][()]


def test_interruptions_count_and_the_gauge_rises_again() -> None:
    store = FakeStore()
    metrics = SessionMetrics(store)  # type: ignore[arg-type]
    assert values(metrics) == (1, 0)
    store.change(SessionState.SUSPENDED)
    assert values(metrics) == (0, 1)
    store.change(SessionState.LOST)
    store.change(SessionState.CONNECTED)
    assert values(metrics) == (1, 2)
    metrics.close()
    assert not store.callbacks
