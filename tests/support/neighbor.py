"""A well-behaved client beside an attack: whether it has errors, and how long it waits."""

import threading
from types import TracebackType
from typing import Self

import zbk
from tests.support.cluster import lone_ledger
from tests.support.machine import patient_s
from zbk.system.clock import monotonic_ms

P99_MS = patient_s(1.0) * 1_000
PAUSE_S = 0.02


class Neighbor:
    """Appends to a ledger of its own and reads it, in a thread, until it is stopped."""

    def __init__(self, client: zbk.Client) -> None:
        self._client = client
        self.ledger = lone_ledger(client)
        self.took_ms: list[int] = []
        self.errors: list[Exception] = []
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_stopped.wait(PAUSE_S):
                began_ms = monotonic_ms()
                entry_id = self.ledger.append(b"beside them")
                with self._client.open_ledger(self.ledger.ledger_id) as reader:
                    (entry,) = reader.read_unconfirmed(entry_id, entry_id)
                assert entry.payload == b"beside them"
                self.took_ms.append(monotonic_ms() - began_ms)
        except Exception as error:  # noqa: BLE001 - ``check`` fails with it
            self.errors.append(error)

    def stop(self) -> None:
        """Do no more."""
        self._is_stopped.set()
        self._thread.join(30)

    def check(self) -> None:
        """Stop, and check that nothing failed and nothing took long."""
        self.stop()
        assert self.errors == []
        assert self.took_ms
        assert sorted(self.took_ms)[len(self.took_ms) * 99 // 100] < P99_MS

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
