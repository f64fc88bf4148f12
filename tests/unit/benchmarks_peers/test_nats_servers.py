"""How NATS is set up, and what its acknowledgements promise."""

from pathlib import Path

from benchmarks.peers.nats_servers import STREAM, SUBJECT, configuration, durability, subject_of

PORTS = (4001, 4002, 4003)
CLUSTER_PORTS = (5001, 5002, 5003)


def test_each_server_has_its_own_ports_and_knows_all_routes() -> None:
    text = configuration(Path("/x/nats1"), 1, (2, 10, 0), PORTS, CLUSTER_PORTS)

    assert "server_name: nats1" in text
    assert 'listen: "127.0.0.1:4002"' in text
    assert 'listen: "127.0.0.1:5002"' in text
    assert all(f"nats://127.0.0.1:{port}" in text for port in CLUSTER_PORTS)


def test_a_server_that_can_fsync_each_message_is_told_to_and_an_older_one_is_not() -> None:
    new = configuration(Path("/x"), 0, (2, 10, 0), PORTS, CLUSTER_PORTS)
    old = configuration(Path("/x"), 0, (2, 9, 10), PORTS, CLUSTER_PORTS)

    assert 'sync_interval: "always"' in new
    assert "sync_interval" not in old


def test_the_durability_says_which_it_was() -> None:
    assert "fsynced by a majority" in durability((2, 10, 23)).text
    assert "fsynced by the leader" in durability((2, 10, 22)).text
    assert "page caches" in durability((2, 9, 10)).text
    fsynced = [durability((2, *rest)).is_fsynced for rest in ((10, 23), (10, 22), (9, 10))]
    assert fsynced == [True, True, False]


def test_a_stream_takes_the_messages_of_its_own_subject() -> None:
    assert subject_of(STREAM) == SUBJECT
    assert subject_of("zbk-peers-1") != subject_of("zbk-peers-11")


def test_a_folder_with_quotes_stays_one_value() -> None:
    text = configuration(Path('/x/a"b\\c'), 0, (2, 9, 10), PORTS, CLUSTER_PORTS)

    assert 'store_dir: "/x/a\\"b\\\\c"' in text
