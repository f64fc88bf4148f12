"""A cluster is upgraded from protocol version 2 to 3, bookie by bookie, while it is written.

Processes of version 2 are today's, held to that version (``tests.support.version_2_bookie``).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

import zbk
from tests.integration.test_thousand_ledgers import Chain, check_whole, wait_for_more
from zbk.cluster.local import LocalCluster
from zbk.transport import events
from zbk.wire import codec
from zbk.wire.messages import VERSION_MIN, AnswerBundle, Bundle, Hello, Message

WAIT_S = 60.0
BOOKIE_COUNT = 4
LEDGER_COUNT = 30
OLD_PROGRAM = ("-m", "tests.support.version_2_bookie", "bookie", "run")


@pytest.fixture
def programs() -> dict[int, Sequence[str]]:
    """What each bookie runs as, from its next start on; those that are not here are new."""
    return dict.fromkeys(range(BOOKIE_COUNT), OLD_PROGRAM)


@pytest.fixture
def cluster(tmp_path: Path, programs: dict[int, Sequence[str]]) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path / "data", bookie_count=BOOKIE_COUNT, bookie_programs=programs
    ) as running:
        running._programs = programs  # not a copy: a test removes the bookies that it upgrades
        yield running


@pytest.fixture
def bundle_count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bundles this client has sent, and received."""
    counts = [0, 0]
    encode, decode = codec.encode, codec.decode_answer

    def count_sent(message: Message) -> bytes:
        counts[0] += isinstance(message, Bundle)
        return encode(message)

    def count_received(header: bytes) -> object:
        answer = decode(header)
        counts[1] += isinstance(answer, AnswerBundle)
        return answer

    monkeypatch.setattr(codec, "encode", count_sent)
    monkeypatch.setattr(codec, "decode_answer", count_received)
    return counts


def connect(cluster: LocalCluster) -> zbk.Client:
    return zbk.connect(cluster.metadata_uri, quorum_grace_ms=10_000, request_timeout_ms=5_000)


def upgrade(cluster: LocalCluster, programs: dict[int, Sequence[str]], index: int) -> None:
    del programs[index]
    cluster.restart(index)


def finish(client: zbk.Client, chains: list[Chain]) -> None:
    for chain in chains:
        chain.stop()
    for chain in chains:
        assert chain.is_idle.wait(WAIT_S)
    assert [chain.error for chain in chains if chain.error is not None] == []
    client.close_all([chain.writer for chain in chains], timeout=WAIT_S)
    check_whole(client, chains)


def test_bookies_first(
    cluster: LocalCluster,
    programs: dict[int, Sequence[str]],
    bundle_count: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(events, "Hello", partial(Hello, version_max=VERSION_MIN))
        with connect(cluster) as old:
            chains = [Chain(one) for one in old.create_ledgers(LEDGER_COUNT)]
            for index in range(BOOKIE_COUNT):
                wait_for_more(chains, 1)
                upgrade(cluster, programs, index)
            wait_for_more(chains, 1)
            finish(old, chains)
    assert bundle_count == [0, 0]

    with connect(cluster) as new:
        check_whole(new, chains)
        more = [Chain(one) for one in new.create_ledgers(LEDGER_COUNT)]
        wait_for_more(more, 5)
        finish(new, more)
    assert min(bundle_count) > 0


def test_clients_first(
    cluster: LocalCluster, programs: dict[int, Sequence[str]], bundle_count: list[int]
) -> None:
    with connect(cluster) as new:
        chains = [Chain(one) for one in new.create_ledgers(LEDGER_COUNT)]
        wait_for_more(chains, 2)
        assert bundle_count == [0, 0], "no bookie knows of bundles"
        for index in range(BOOKIE_COUNT):
            wait_for_more(chains, 1)
            upgrade(cluster, programs, index)
        wait_for_more(chains, 5)
        assert min(bundle_count) > 0
        finish(new, chains)
