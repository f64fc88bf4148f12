"""Bookies are cut off for a moment: every copy is there in the end, or is known to be missing.

One story for all tests of this module. While a pair of bookies is written one of them hangs, and so
does the one that takes its place. Then a bookie hangs while several ledgers are written, and is
killed before it has read what was sent to it; it comes back, and they are closed, or recovered.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import pause
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.ledger_checks import LedgerChecker
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.cluster.local import LocalCluster
from zbk.metadata.records.underreplication import MissingReason, UnderreplicatedLedger
from zbk.system.clock import monotonic_s

SILENCE_MS = int(patient_s(0.4) * 1_000)
LASTING = {"session_timeout_ms": 5 * SILENCE_MS}
"""A bookie that hangs remains registered for long enough to take the place of another."""

WHOLE_S = 60.0
NO_SPARE = LedgerOptions(
    ensemble_size=4, write_quorum_size=4, ack_quorum_size=3, ledger_type="VD_JOURNAL"
)
"""On all bookies there are: one that is away is not replaced."""


class Story:
    """What was written while one bookie was cut off."""

    def __init__(
        self, cluster: LocalCluster, connection: ClusterConnection, client: zbk.Client
    ) -> None:
        self.cluster = cluster
        self.connection = connection
        with zbk.connect(cluster.metadata_uri, request_timeout_ms=SILENCE_MS) as first:
            self.pair = first.create_ledger(ensemble_size=2, write_quorum_size=2, ack_quorum_size=1)
            self.victim, self.other = self.pair.metadata.last_fragment.bookies
            self._write_pair()  # afterwards this client avoids bookies that have failed
        with zbk.connect(cluster.metadata_uri, request_timeout_ms=SILENCE_MS) as doomed:
            self.persistent = self._with_victim(client)
            self.volatile = client.create_ledger(**NO_SPARE)
            self.orphan = doomed.create_ledger(**NO_SPARE)
            self._cut_off()
            self.orphan.sync()
        cluster.restart(self._index)
        wait_until(lambda: not self.volatile.unanswered_size, what="what the bookie was owed")
        for ledger in (self.persistent, self.volatile):
            ledger.append(b"behind it")
            ledger.close()
        client.recover_ledger(self.orphan.ledger_id).close()

    def _write_pair(self) -> None:
        """Replace one of two bookies by one that is slow to connect; one is enough."""
        hanging = [b.index for b in self.cluster.bookies if b.bookie_id != self.other]
        for index in hanging:
            pause(self.cluster, index)
        while self.victim in self.pair.metadata.last_fragment.bookies:
            self.pair.append(b"x" * 100, timeout=30)
        for _ in range(25):
            self.pair.append(b"behind it", timeout=30)
        for index in hanging:
            self.cluster.resume(index)
        self.pair.close(timeout=30)

    @property
    def _index(self) -> int:
        return [bookie.bookie_id for bookie in self.cluster.bookies].index(self.victim)

    def _with_victim(self, client: zbk.Client) -> zbk.LedgerWriter:
        while True:
            ledger = client.create_ledger()
            if self.victim in ledger.metadata.last_fragment.bookies:
                return ledger
            ledger.close()

    def _cut_off(self) -> None:
        ledgers = (self.persistent, self.volatile, self.orphan)
        for ledger in ledgers:
            ledger.append(b"before it")
        wait_until(
            lambda: not any(ledger.unanswered_size for ledger in ledgers),
            what="the last copies of the first entries, which are more than a quorum",
        )
        pause(self.cluster, self._index)
        until_s = monotonic_s() + 3 * SILENCE_MS / 1000  # it times out, and more follows
        while monotonic_s() < until_s or self._is_named_by(self.persistent):
            for ledger in ledgers:
                ledger.append(b"x" * 100, timeout=30)
        self.cluster.kill(self._index)

    def _is_named_by(self, ledger: zbk.LedgerWriter) -> bool:
        return self.victim in ledger.metadata.last_fragment.bookies

    def lacking(self, ledger: zbk.LedgerWriter) -> set[str]:
        """Return the bookies that do not hold, or do not say that they hold, all that is due."""
        metadata, _version = self.connection.ledgers.read(ledger.ledger_id)
        found = LedgerChecker(self.connection.requests).compare_holdings(metadata)
        return {*found.missing, *found.undecided}

    def task(self, ledger: zbk.LedgerWriter) -> UnderreplicatedLedger | None:
        found = self.connection.tasks.read(ledger.ledger_id)
        return None if found is None else found[0]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder: Path = tmp_path_factory.mktemp("missing") / "data"
    with (
        LocalCluster(folder, bookie_count=4, bookie_options=LASTING) as cluster,
        ClusterConnection(cluster.metadata_uri) as connection,
        zbk.connect(cluster.metadata_uri, request_timeout_ms=SILENCE_MS) as client,
    ):
        yield Story(cluster, connection, client)


def test_a_new_bookie_has_the_first_entries_of_its_fragment(story: Story) -> None:
    """One acknowledgement is enough here: the entry was on no bookie that the metadata name."""
    last = story.pair.metadata.last_fragment

    assert story.victim not in last.bookies
    assert not story.lacking(story.pair) & set(last.bookies)


def test_a_bookie_that_comes_back_gets_all_that_it_missed(story: Story) -> None:
    assert story.victim in story.volatile.metadata.last_fragment.bookies

    assert story.lacking(story.volatile) == set()
    assert story.volatile.under_replicated == {}
    assert story.task(story.volatile) is None, "nothing is reported of a ledger that is whole"


def test_what_a_replaced_bookie_missed_is_reported_with_its_ranges(story: Story) -> None:
    end = story.persistent.metadata.last_fragment.first_entry_id - 1

    task = story.task(story.persistent)

    assert story.lacking(story.persistent) == {story.victim}
    assert story.persistent.under_replicated == {story.victim: ((1, end),)}
    assert task is not None
    assert task.missing == {story.victim: (MissingReason.NOT_WRITTEN,)}
    assert task.ranges == story.persistent.under_replicated


def test_what_the_writer_that_died_may_have_known_is_to_be_compared(story: Story) -> None:
    task = story.task(story.orphan)

    assert story.victim in story.lacking(story.orphan)
    assert task is not None
    assert set(task.missing) == set(story.orphan.metadata.last_fragment.bookies)
    assert set(task.missing.values()) == {(MissingReason.UNCHECKED,)}


def test_then_autorecovery_makes_all_of_them_whole(story: Story) -> None:
    ledgers = [story.pair, story.persistent, story.volatile, story.orphan]
    story.cluster.start_autorecovery({"lost_bookie_delay_ms": 60_000})

    wait_until(
        lambda: not any(story.task(one) or story.lacking(one) for one in ledgers),
        WHOLE_S,
        what="four ledgers that are whole",
    )

    assert list(story.connection.tasks.list_unrepairable()) == []
