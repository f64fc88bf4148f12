"""What faults act on: the cluster, the client processes of one round, chance, and the record."""

import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

from tests.chaos.client import Spec
from tests.chaos.cluster import ChaosCluster
from tests.chaos.recording import Recorder
from zbk.cluster.child import Child
from zbk.errors import NoSuchLedgerError
from zbk.protocol.entry.words import LedgerState

WRITER_COUNT = 2
OTHER_ROLES = ("read", "tail", "own", "own", "read_log")
RECOVERER_PLACE_COUNT = 3
CLIENT_PLACE_COUNT = WRITER_COUNT + len(OTHER_ROLES) + RECOVERER_PLACE_COUNT

RECOVERER_PATIENCE_S = 20.0


class World:
    """One round's processes. One thread uses it."""

    def __init__(
        self, cluster: ChaosCluster, folder: Path, dice: random.Random, first_ledger_id: int
    ) -> None:
        self.cluster = cluster
        self.network = cluster.network
        self.dice = dice
        self.recorder = Recorder(folder / "nemesis.jsonl", "nemesis")
        self.log = f"log-{first_ledger_id}"
        self.owner_places: list[str] = []
        self.deaths: list[str] = []  # of clients, by themselves
        self.broken: list[str] = []  # promises, as faults have seen
        self._folder = folder
        self._first_ledger_id = first_ledger_id
        self._writers: dict[str, Child] = {}  # by place
        self._others: dict[str, Child] = {}
        self._recoverers: list[Child] = []
        self._count = 0

    # -------------------------------------------------------------- time and chance

    def wait(self, seconds: float) -> None:
        """Pass time."""
        threading.Event().wait(seconds)

    def some_time(self, low_s: float, high_s: float) -> None:
        """Pass some time."""
        self.wait(self.dice.uniform(low_s, high_s))

    def pick_bookie(self) -> int:
        """Return a bookie's number."""
        return self.dice.choice(self.cluster.indexes)

    def note(self, node: str, fault: str, text: str = "") -> None:
        """Record a fault as it is injected."""
        self.recorder.fault(node, fault, text)

    # -------------------------------------------------------------- clients

    @property
    def writer_places(self) -> list[str]:
        """Where writers are."""
        return list(self._writers)

    @property
    def client_places(self) -> list[str]:
        """Where writers, readers and owners of the log are."""
        return [*self._writers, *self._others]

    def start_clients(self) -> None:
        """Start writers, readers, and two owners of one log."""
        for number in range(WRITER_COUNT):
            self.start_writer(f"c{number}")
        for number, role in enumerate(OTHER_ROLES, WRITER_COUNT):
            place = f"c{number}"
            self._others[place] = self._start(role, place)
            if role == "own":
                self.owner_places.append(place)

    def start_writer(self, place: str) -> None:
        """Start a writer where there is none, or no more."""
        self._writers[place] = self._start("write", place)

    def start_owner(self, place: str) -> None:
        """Start an owner of the log where there is none, or no more."""
        self._others[place] = self._start("own", place)

    def client(self, place: str) -> Child:
        """Return the process at a place."""
        return {**self._writers, **self._others}[place]

    def start_recoverer(self, ledger_ids: list[int] | None = None) -> Child:
        """Start a process that recovers these ledgers, or whatever is open when it comes."""
        first = WRITER_COUNT + len(OTHER_ROLES)
        place = f"c{first + len(self._recoverers) % RECOVERER_PLACE_COUNT}"
        role = "take_over" if ledger_ids is None else "recover"
        child = self._start(role, place, ledger_ids)
        self._recoverers.append(child)
        return child

    def forget(self, child: Child) -> None:
        """Think no more of a process that was killed on purpose."""
        if child in self._recoverers:
            self._recoverers.remove(child)

    def open_ledgers(self) -> list[int]:
        """Return the ledgers of this round that are not closed."""
        found = []
        for ledger_id in self.ledgers():
            with suppress(NoSuchLedgerError):  # a client has deleted it meanwhile
                if self.cluster.ledgers.read(ledger_id)[0].state is not LedgerState.CLOSED:
                    found.append(ledger_id)
        return found

    def ledgers(self) -> list[int]:
        """Return all ledgers of this round."""
        return [n for n in self.cluster.ledgers.list() if n >= self._first_ledger_id]

    def end_clients(self) -> None:
        """Wait for the recoverers, stop everybody; note who ended otherwise."""
        for child in self._recoverers:
            self._wait_for(child)
        everybody = [*self._writers.values(), *self._others.values(), *self._recoverers]
        for child in everybody:
            child.ask_to_stop()
        for child in everybody:
            if child.wait_stopped() not in (0, -signal.SIGTERM):  # asked before it could listen
                self.deaths.append(str(child.death()))

    def kill_clients(self) -> None:
        """End every process of the round, whatever it does."""
        for child in [*self._writers.values(), *self._others.values(), *self._recoverers]:
            child.kill()

    def files(self) -> list[Path]:
        """Return the records of all processes."""
        return sorted(self._folder.glob("*.jsonl"))

    # -------------------------------------------------------------- private

    def _start(self, role: str, place: str, ledger_ids: list[int] | None = None) -> Child:
        self._count += 1
        name = f"{role}{self._count}"
        spec = Spec(
            role=role,
            name=name,
            uri="",
            history=str(self._folder / f"{name}.jsonl"),
            seed=self.dice.randrange(2**32),
            first_ledger_id=self._first_ledger_id,
            ledger_ids=tuple(ledger_ids or ()),
            log=self.log,
        )
        return self.cluster.start_client(place, spec)

    def _wait_for(self, child: Child) -> None:
        pause = threading.Event()
        for _ in range(int(RECOVERER_PATIENCE_S / 0.1)):
            if child.exit_code is not None:
                return
            pause.wait(0.1)
