"""Entries that one bookie of a closed ledger lacks: found, named, and copied to it."""

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import zbk
from tests.support.batches import batch_of
from tests.support.cli import Run
from tests.support.cluster import cluster
from tests.support.lost_bookies import Autorecoveries, Watched
from tests.support.waiting import wait_until
from zbk.auditor.cluster_connection import ClusterConnection
from zbk.auditor.worker import ReplicationWorker
from zbk.cli.main import cli
from zbk.cli.session import Session
from zbk.client.cluster.requests import ReplyBox
from zbk.cluster.local import LocalCluster
from zbk.config import AutorecoveryConfig
from zbk.metadata.records.underreplication import MissingReason
from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import LedgerState, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.wire.codec import encode_batch
from zbk.wire.messages import Add, AddAnswer, GetLedgerInfo, LedgerInfo

__all__ = ["cluster"]

LAST = 99
HOLES: Sequence[Span] = ((57, 79), (91, 91))


@pytest.fixture
def connection(cluster: LocalCluster) -> Iterator[ClusterConnection]:
    with ClusterConnection(cluster.metadata_uri) as opened:
        yield opened


@pytest.fixture
def run(cluster: LocalCluster) -> Run:
    """``zbk`` in this process: its start takes longer than what it does here."""

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        where = {"ZBK_METADATA": cluster.metadata_uri}
        return CliRunner(env=where).invoke(cli, list(arguments), input=stdin, obj=Session())

    return invoke


class Holed:
    """A closed ledger; its last bookie was cut off twice while it was written."""

    def __init__(self, connection: ClusterConnection, client: zbk.Client, kind: LedgerType) -> None:
        self._connection = connection
        self.ledger_id = client.reserve_ledger(ledger_type=kind)
        metadata, _version = connection.ledgers.read(self.ledger_id)
        *whole, self.bookie_id = metadata.last_fragment.bookies
        for bookie_id in whole:
            self._add(metadata, bookie_id, [(0, LAST)])
        self._add(metadata, self.bookie_id, [(0, 56), (80, 90), (92, LAST)])
        connection.ledgers.update(self.ledger_id, lambda current: current.with_closed(LAST, LAST))

    def info(self) -> LedgerInfo:
        """Return what the bookie with the holes says."""
        request = GetLedgerInfo(request_id=0, ledger_id=self.ledger_id, first_entry_id=0)
        told = self._connection.requests.ask(self.bookie_id, request).outcome
        assert isinstance(told, LedgerInfo)
        return told

    def _add(self, metadata: LedgerMetadata, bookie_id: str, spans: Sequence[Span]) -> None:
        """Add as the writer does; a VD add is not synced for that."""
        for first, last in spans:
            batch = batch_of(self.ledger_id, range(first, last + 1))
            request = Add(
                request_id=0,
                ledger_id=self.ledger_id,
                ledger_key=metadata.ledger_key,
                ledger_type=metadata.ledger_type,
                first_entry_id=first,
                count=batch.count,
                lac=-1,
                checksum=batch.checksum,
            )
            box = ReplyBox()
            self._connection.requests.send(bookie_id, request, encode_batch(batch), box, first)
            reply = box.next()
            assert reply is not None
            assert isinstance(reply.outcome, AddAnswer), reply.outcome


@pytest.mark.parametrize("kind", list(LedgerType))
def test_holes_are_named_and_once_reported_they_are_copied_at_once(
    cluster: LocalCluster, connection: ClusterConnection, run: Run, kind: LedgerType
) -> None:
    with zbk.connect(cluster.metadata_uri) as client:
        holed = Holed(connection, client, kind)
    number = str(holed.ledger_id)
    wanted = {holed.bookie_id: [list(span) for span in HOLES]}

    checked = run("ledger", "check", number, "-o", "json")
    shown = json.loads(checked.stdout)
    assert (checked.exit_code, shown["is_whole"], shown["missing_entries"]) == (4, False, wanted)
    assert f"zbk ledger check {number} --report" in checked.stderr

    reported = run("ledger", "check", number, "--report")
    assert (reported.exit_code, "57 .. 79, 91" in reported.stdout) == (4, True)
    (row,) = run("ledger", "underreplicated", "-o", "json").stdout.splitlines()
    assert (json.loads(row)["why"], json.loads(row)["missing"]) == ("checked", wanted)
    assert json.loads(run("ledger", "show", number, "-o", "json").stdout)["missing"] == wanted

    failures: list[BaseException] = []
    worker = ReplicationWorker(connection, "worker", AutorecoveryConfig(), failures.append)
    worker.start()
    wait_until(lambda: not list(connection.tasks.list()), 60, what="the task to be done")
    worker.stop()

    assert not failures
    told = holed.info()
    assert told.ranges == [(0, LAST)]
    if kind.is_volatile:
        assert told.last_add_synced == LAST, "the sync cursor has reached the end"
    assert run("ledger", "check", number, "--full").exit_code == 0


def test_the_auditor_finds_holes_by_itself(
    cluster: LocalCluster, connection: ClusterConnection, tmp_path: Path
) -> None:
    with zbk.connect(cluster.metadata_uri) as client:
        holed = [Holed(connection, client, kind) for kind in LedgerType]
    with Autorecoveries(cluster.metadata_uri, tmp_path) as processes:
        processes.start(replicas_check_interval_ms=200)
        Watched(connection).wait_ready()

        def are_whole() -> bool:
            return all(one.info().ranges == [(0, LAST)] for one in holed)

        wait_until(are_whole, 60, what="the holes to be filled")


@pytest.mark.parametrize("kind", list(LedgerType))
def test_a_whole_ledger_whose_writer_died_is_looked_at_once_and_nothing_is_copied(
    cluster: LocalCluster,
    connection: ClusterConnection,
    caplog: pytest.LogCaptureFixture,
    kind: LedgerType,
) -> None:
    caplog.set_level(logging.DEBUG, "zbk.auditor")  # the level that tells of each whole ledger
    with (
        zbk.connect(cluster.metadata_uri) as client,
        client.create_ledger(ledger_type=kind, ack_quorum_size=3) as ledger,
    ):
        ledger.append_many([b"x"] * 100).result(30)
    metadata, _version = connection.ledgers.read(ledger.ledger_id)
    assert metadata.state is LedgerState.CLOSED
    names = metadata.last_fragment.bookies
    failures: list[BaseException] = []
    worker = ReplicationWorker(connection, "worker", AutorecoveryConfig(), failures.append)
    worker.start()

    connection.tasks.report(ledger.ledger_id, names, MissingReason.UNCHECKED)
    wait_until(lambda: not list(connection.tasks.list()), 60, what="the task to be done")
    worker.stop()

    assert not failures
    assert f"ledger {ledger.ledger_id} is whole: 0 entries copied, 0 bookies" in caplog.text
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []
