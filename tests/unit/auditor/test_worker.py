"""What a replication worker does when its session with the metadata store is in doubt."""

from collections.abc import Iterator
from typing import NoReturn, cast

import msgspec
import pytest

from tests.support.audit_ledgers import ledger
from tests.support.waiting import wait_until
from zbk.auditor.ground import RepairGround
from zbk.auditor.worker import ReplicationWorker
from zbk.client.requests import ReplyBox
from zbk.config import AutorecoveryConfig, ClientConfig
from zbk.errors import RequestTimeoutError
from zbk.metadata.ledgers import LedgerStore, initialise
from zbk.metadata.memory import MemoryStore, MemoryTree
from zbk.metadata.underreplication import MissingReason, UnderreplicationStore
from zbk.system.clock import monotonic_ms
from zbk.wire.messages import Message, Read

LEDGER_ID = 0
HOLD_MS = 500


class SilentBookies:
    """Get requests and do not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Message]] = []

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: ReplyBox,
        key: object,
    ) -> None:
        """Take a request in."""
        del frames, box, key
        self.asked.append((bookie_id, request))

    def ask(self, *_request: object, **_options: object) -> NoReturn:
        """Take a request in for which somebody waits."""
        raise RequestTimeoutError("a request", 0.1)

    def read_count(self) -> int:
        return sum(isinstance(request, Read) for _bookie_id, request in self.asked)


class OnePlace:
    """There is one bookie that may take a place."""

    def replacements(
        self, ensemble: tuple[str, ...], slots: list[int], *, exclude: object
    ) -> dict[int, str]:
        del ensemble, exclude
        return dict.fromkeys(slots, "d")

    def note_failed(self, bookie_ids: list[str]) -> None:
        del bookie_ids


class Ground:
    """As ``RepairGround``: a session, and bookies b, c and d; a is lost."""

    def __init__(self, store: MemoryStore) -> None:
        self.config = ClientConfig()
        self.store = store
        self.ledgers = LedgerStore(store)
        self.tasks = UnderreplicationStore(store)
        self.requests = SilentBookies()
        self.placer = OnePlace()
        self.there = frozenset("bcd")

    def registered(self) -> frozenset[str]:
        return self.there

    def check_usable(self) -> None:
        """It always is."""


@pytest.fixture
def tree() -> MemoryTree:
    return MemoryTree("worker")


@pytest.fixture
def ground(tree: MemoryTree) -> Iterator[Ground]:
    made = Ground(tree.open_session())
    initialise(made.store)
    model = ledger(LEDGER_ID, ("a", "b", "c"))
    made.ledgers.create(lambda _number: msgspec.structs.replace(model, ledger_key=bytes(16)))
    yield made
    made.store.close()


@pytest.fixture
def worker(ground: Ground) -> Iterator[ReplicationWorker]:
    config = AutorecoveryConfig(worker_count=1, brake_hold_ms=HOLD_MS, repair_retry_ms_max=16)
    failures: list[BaseException] = []
    made = ReplicationWorker(cast("RepairGround", ground), "worker", config, failures.append)
    yield made
    made.stop()
    assert not failures


def test_a_worker_drops_its_ledger_while_its_session_is_in_doubt(
    tree: MemoryTree, ground: Ground, worker: ReplicationWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """F19: another one takes the lock and the work; it is taken again when it is free."""
    caplog.set_level("INFO", "zbk.auditor")
    before = ground.ledgers.read(LEDGER_ID)
    ground.tasks.report(LEDGER_ID, ["a"], MissingReason.LOST)
    worker.start()
    wait_until(lambda: ground.requests.read_count() > 0, what="the copy to begin")
    assert ground.tasks.holds(LEDGER_ID)

    ground.store.suspend()
    ground.store.expire_session()  # it hears of it when it is heard again
    ground.store.settle()
    assert "1 repairs are dropped" in caplog.text
    read_count = ground.requests.read_count()
    session = tree.open_session()
    others = UnderreplicationStore(session)
    assert others.lock(LEDGER_ID, "another one")
    resumed_ms = monotonic_ms()
    ground.store.resume()
    wait_until(lambda: ground.tasks.locked() == {LEDGER_ID: "another one"})
    assert ground.requests.read_count() == read_count
    others.unlock(LEDGER_ID)

    wait_until(lambda: ground.requests.read_count() > read_count, what="another attempt")
    assert monotonic_ms() >= resumed_ms + HOLD_MS, "bookies are given time to come back"
    assert ground.tasks.holds(LEDGER_ID)
    assert ground.ledgers.read(LEDGER_ID) == before
    session.close()


def test_a_ledger_is_not_put_aside_when_its_bookie_comes_back_just_then(
    ground: Ground, worker: ReplicationWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The auditor has handed out again what was put aside, and this was not yet."""
    alone = msgspec.structs.replace(ledger(1, ("a",)), ledger_key=bytes(16))
    ledger_id = ground.ledgers.create(lambda _number: alone)[0].ledger_id
    put_aside = ground.tasks.mark_unrepairable

    def comes_back(ledger_id: int, version: int, why: str) -> bool:
        is_done = put_aside(ledger_id, version, why)
        ground.there |= {"a"}
        return is_done

    monkeypatch.setattr(ground.tasks, "mark_unrepairable", comes_back)
    ground.tasks.report(ledger_id, ["a"], MissingReason.LOST)
    worker.start()

    wait_until(lambda: "a" in ground.there, what="the third attempt")
    wait_until(lambda: not list(ground.tasks.list_unrepairable()), what="another attempt")
    assert list(ground.tasks.list()) == [ledger_id]
