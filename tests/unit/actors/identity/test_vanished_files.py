"""Whole bookies in this process whose files vanish, all but the cookies: nothing is cut off."""

import logging
from collections.abc import Iterator

import pytest

from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.identity import init_identity
from zbk.actors.process.bookie import Bookie
from zbk.client.api import Client, connect
from zbk.config import BookieConfig
from zbk.errors import LostHistoryError, NotEnoughBookiesError, UnavailableError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.protocol.entry.words import LedgerState
from zbk.storage.directory.identity import COOKIE_NAME

CONFIG = BookieConfig(
    metadata="memory://test-vanished-files",
    journal_dir="/j",
    ledger_dir="/l",
    listen="tcp://127.0.0.1:0",
    journal_segment_size=1 << 20,
    disk_reserve_size=2 << 20,
    disk_warn_free="0",
    disk_readonly_free="0",
    sync_interval_ms=0,
    boot_id="boot-1",
)


class Member:
    """A bookie of a small cluster: its disk, and its process while it runs."""

    def __init__(self, store: MetadataStore) -> None:
        self.disk = SimulatedDisk()
        self.bookie_id = init_identity(self.disk, store, CONFIG)
        self._running: Bookie | None = None

    def start(self, *, is_wiped_on_purpose: bool = False) -> None:
        bookie = Bookie(CONFIG, self.disk, is_wiped_on_purpose=is_wiped_on_purpose)
        bookie.start()
        self._running = bookie

    def stop(self) -> None:
        bookie, self._running = self._running, None
        if bookie is not None:
            bookie.request_stop()
            assert bookie.run_until_ended() == 0

    def lose_files(self) -> None:
        """Delete all that is not a cookie, while the bookie is stopped."""
        self.stop()
        for path in self.disk.paths():
            if not path.endswith(f"/{COOKIE_NAME}"):
                self.disk.remove_at_rest(path)


@pytest.fixture
def store() -> Iterator[MetadataStore]:
    opened = open_store(CONFIG.metadata)
    yield opened
    opened.close()


@pytest.fixture
def members(store: MetadataStore) -> Iterator[list[Member]]:
    """Three bookies that are made, and not started."""
    made = [Member(store) for _ in range(3)]
    yield made
    for one in made:
        one.stop()


@pytest.fixture
def client() -> Iterator[Client]:
    with connect(CONFIG.metadata) as opened:
        yield opened


@pytest.fixture
def hasty() -> Iterator[Client]:
    """A client for what is tried in vain."""
    with connect(CONFIG.metadata, request_timeout_ms=500, quorum_grace_ms=200) as opened:
        yield opened


def assert_not_closed(client: Client, ledger_id: int) -> None:
    """Recover in vain, for longer than it would take with bookies that answer."""
    with pytest.raises(UnavailableError):
        client.recover_ledger(ledger_id, timeout=1.0)
    assert client.get_ledger_metadata(ledger_id).state is not LedgerState.CLOSED


def test_a_ledger_whose_only_bookie_lost_its_files_is_not_closed_as_empty(
    store: MetadataStore,
    members: list[Member],
    client: Client,
    hasty: Client,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B6: neither before the bookie is let in, nor after."""
    (alone, *_) = members
    alone.start()
    ledger = client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
    ledger.append_many([b"acknowledged"] * 1_000).result(30)
    alone.lose_files()
    before = BookieRegistry(store).read_stored_cookie(alone.bookie_id)

    caplog.clear()
    with pytest.raises(LostHistoryError, match="/l has no incarnation and no last log mark"):
        alone.start()

    (told,) = [one for one in caplog.records if one.levelno >= logging.CRITICAL]
    assert "the cluster knows its incarnation 1 and that it has served" in told.getMessage()
    assert "zbk bookie run --wiped-on-purpose" in told.getMessage()
    assert BookieRegistry(store).read_stored_cookie(alone.bookie_id) == before
    assert BookieRegistry(store).resolve(alone.bookie_id) is None

    alone.start(is_wiped_on_purpose=True)
    assert_not_closed(hasty, ledger.ledger_id)
    with pytest.raises(NotEnoughBookiesError, match="says neither yes nor no"):
        client.open_ledger(ledger.ledger_id)


def test_a_recovery_beside_a_bookie_that_lost_its_files_closes_at_what_was_acknowledged(
    members: list[Member], client: Client, hasty: Client
) -> None:
    """B6: A and B have 0..99, C has none; B loses its files, and A is away for a moment."""
    for one in members:
        one.start()
    ledger = client.create_ledger(ensemble_size=3, write_quorum_size=3, ack_quorum_size=2)
    by_id = {one.bookie_id: one for one in members}
    ensemble = client.get_ledger_metadata(ledger.ledger_id).fragments[0].bookies
    first, second, third = (by_id[bookie_id] for bookie_id in ensemble)
    third.stop()
    ledger.append_many([b"acknowledged"] * 100).result(30)

    second.lose_files()
    first.stop()
    third.start()
    with pytest.raises(LostHistoryError):
        second.start()
    second.start(is_wiped_on_purpose=True)
    assert_not_closed(hasty, ledger.ledger_id)

    first.start()
    reader = client.recover_ledger(ledger.ledger_id)

    assert reader.last_add_confirmed == 99
    assert [one.payload for one in reader.read(0, 99)] == [b"acknowledged"] * 100


def test_a_cookie_copied_to_an_empty_disk_is_not_the_bookie(
    store: MetadataStore, members: list[Member], client: Client
) -> None:
    (real, *_) = members
    real.start()
    with client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1) as ledger:
        ledger.append(b"acknowledged")
    real.stop()
    before = BookieRegistry(store).read_stored_cookie(real.bookie_id)
    copied = SimulatedDisk()
    for directory in ("/j", "/l"):
        copied.make_dirs(directory)
        copied.open(f"{directory}/{COOKIE_NAME}", create=True).close()
        content = real.disk.content(f"{directory}/{COOKIE_NAME}")
        copied.set_content(f"{directory}/{COOKIE_NAME}", content)

    with pytest.raises(LostHistoryError, match="only the cookie was copied"):
        Bookie(CONFIG, copied).start()

    assert BookieRegistry(store).read_stored_cookie(real.bookie_id) == before
    real.start()
    with connect(CONFIG.metadata) as another:  # without a connection to its earlier life
        (entry,) = another.open_ledger(ledger.ledger_id).read(0, 0)
    assert entry.payload == b"acknowledged"


def test_a_healthy_bookie_starts_again_and_again_without_a_warning(
    store: MetadataStore, members: list[Member], caplog: pytest.LogCaptureFixture
) -> None:
    (healthy, *_) = members
    for _ in range(3):
        healthy.start()
        healthy.stop()

    known = BookieRegistry(store).read_stored_cookie(healthy.bookie_id)
    assert known is not None
    assert (known.incarnation, known.has_served) == (3, True)
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
