"""Ledgers that a bookie takes part in, and processes that make them whole without it."""

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import zbk
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.cluster.child import Child
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.election import read_auditor
from zbk.metadata.values import AuditorStatus, TaskProgress

KINDS: Final[tuple[Mapping[str, object], ...]] = (
    {},
    {"ensemble_size": 4, "write_quorum_size": 2, "ack_quorum_size": 2},
    {"ledger_type": "VD_JOURNAL"},
    {"digest_type": "MAC", "password": b"secret"},
    {"digest_type": "NONE"},
)
"""Of every kind one."""

ALL_ACKNOWLEDGE: Final[Mapping[str, object]] = {"ack_quorum_size": 3}
"""Each of the three replicas is whole when the ledger is closed: two may be lost."""

ENTRY_COUNT: Final = 2_000
BIG_COUNT: Final = 24_000
SLOW: Final[Mapping[str, object]] = {"replication_rate_size": "400KiB", "worker_count": 1}
"""So autorecovery takes some seconds for a ledger of ``BIG_COUNT`` entries."""

WHOLE_S: Final = 60.0


class Ledgers:
    """Closed ledgers that all have something on all ``bookie_ids``, and what is in them."""

    def __init__(
        self,
        client: zbk.Client,
        *bookie_ids: str,
        kinds: Sequence[Mapping[str, object]] = KINDS,
        entry_count: int = ENTRY_COUNT,
    ) -> None:
        self.client = client
        self.passwords: dict[int, bytes] = {}
        self.contents: dict[int, list[bytes]] = {}
        for kind in kinds:
            ledger = self._create(kind, bookie_ids)
            number = ledger.ledger_id
            payloads = [b"%d/%d" % (number, n) * (n % 9) for n in range(entry_count)]
            ledger.append_many(payloads).result(30)
            ledger.close()
            password = kind.get("password", b"")
            assert isinstance(password, bytes)
            self.passwords[ledger.ledger_id] = password
            self.contents[ledger.ledger_id] = payloads

    def _create(self, kind: Mapping[str, object], bookie_ids: Collection[str]) -> zbk.LedgerWriter:
        while True:
            ledger = self.client.create_ledger(**kind)  # type: ignore[arg-type] # a kind
            if set(bookie_ids) <= set(ledger.metadata.last_fragment.bookies):
                return ledger
            ledger.close()
            self.client.delete_ledger(ledger.ledger_id)

    def named(self) -> set[str]:
        """Return the bookies that the metadata of any of them name."""
        return {
            bookie_id
            for ledger_id in self.contents
            for fragment in self.client.get_ledger_metadata(ledger_id).fragments
            for bookie_id in fragment.bookies
        }

    def check_whole_without(self, *bookie_ids: str) -> None:
        """Read every replica that the metadata name: all entries are there, and none is there."""
        for ledger_id, payloads in self.contents.items():
            metadata = self.client.get_ledger_metadata(ledger_id)
            ensemble = metadata.last_fragment.bookies
            assert len(set(ensemble)) == len(ensemble) == metadata.quorum.ensemble_size
            named = {b for fragment in metadata.fragments for b in fragment.bookies}
            assert not named & set(bookie_ids)
            with self.client.open_ledger(ledger_id, self.passwords[ledger_id]) as reader:
                for replica in named:
                    found = [
                        (entry.entry_id, bytes(entry.payload))
                        for entry in reader.read(0, len(payloads) - 1, bookie_id=replica)
                    ]
                    slot = ensemble.index(replica)
                    due = metadata.quorum.entry_ids(slot, 0, len(payloads) - 1)
                    assert found == [(entry_id, payloads[entry_id]) for entry_id in due]


class Autorecoveries:
    """Processes of ``zbk autorecovery run``; they are stopped at the end."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._uri = uri
        self._folder = folder
        self._children: list[Child] = []

    def start(self, **options: object) -> Child:
        """Start one more; ``options`` are fields of ``AutorecoveryConfig``."""
        command = [sys.executable, "-m", "zbk", "autorecovery", "run", "--stop-with-parent"]
        defaults = {"metadata": self._uri, "session_timeout_ms": 2_000, "brake_hold_ms": 300}
        defaults["lost_bookie_delay_ms"] = 0
        for name, value in {**defaults, **options}.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        number = len(self._children)
        child = Child(f"autorecovery {number}", command, self._log_path(number))
        self._children.append(child)
        return child

    def log(self, number: int = 0) -> str:
        """Return all that one of them wrote."""
        return self._log_path(number).read_text("utf-8")

    def _log_path(self, number: int) -> Path:
        return self._folder / f"autorecovery{number}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.ask_to_stop()
        for child in self._children:
            child.wait_stopped()


class Watched:
    """What the auditor and the workers tell in the metadata store."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.tasks = connection.tasks
        self._store = connection.store
        self._notes = AuditorNotes(connection.store)

    @property
    def status(self) -> AuditorStatus:
        return self._notes.status() or AuditorStatus(candidate_id="", told_ms=0)

    @property
    def has_tasks(self) -> bool:
        """Whether any ledger is still to be repaired; reads no more tasks than one."""
        return next(iter(self.tasks.list()), None) is not None

    def auditor_pid(self) -> int:
        """Return the process that audits; 0: none."""
        vote = read_auditor(self._store)
        return 0 if vote is None else int(vote.candidate_id.rpartition("-")[2])

    def wait_ready(self) -> None:
        """Return when somebody audits, and has let go of the brake of his beginning."""
        wait_until(lambda: bool(self.status.told_ms) and not self.status.brake, what="an auditor")

    def wait_lost(self, *bookie_ids: str) -> None:
        """Return when the auditor has seen that just these are lost."""
        wait_until(lambda: set(self.status.lost) == set(bookie_ids), what="the loss to be seen")

    def wait_whole(self) -> None:
        """Return when every loss was looked at and no task is left."""

        def is_whole() -> bool:
            told = self.status
            return not (told.pending or told.brake or told.doing or self.has_tasks)

        wait_until(is_whole, WHOLE_S, "everything to be whole")

    def wait_halfway(self, ledger_id: int) -> None:
        """Return when a worker has begun to copy a ledger, and is not done."""

        def is_halfway() -> bool:
            found = self.tasks.progress().get(ledger_id, TaskProgress(owner="", updated_ms=0))
            return found.copied_count < found.to_copy_count

        wait_until(is_halfway, what="a copy to be under way")
