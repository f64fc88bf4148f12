"""How Redis is set up, and what its answers promise."""

from pathlib import Path

import pytest

from benchmarks.peers.redis_servers import (
    CONFIRM_TIMEOUT_MS,
    confirm_commands,
    durability,
    is_confirmed,
    online_replica_count,
    server_arguments,
)

REPLICATION = """\
role:master\r
connected_slaves:2\r
slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=1\r
slave1:ip=127.0.0.1,port=7002,state={state},offset=0,lag=0\r
master_replid:3b5d\r
"""


def options(arguments: list[str]) -> dict[str, str]:
    return dict(zip(arguments[::2], arguments[1::2], strict=True))


@pytest.mark.parametrize("master_port", [None, 7000])
def test_master_and_replicas_sync_every_write(master_port: int | None) -> None:
    given = options(server_arguments(Path("/x"), 7001, master_port))

    assert given["--appendonly"] == "yes"
    assert given["--appendfsync"] == "always"
    assert given["--bind"] == "127.0.0.1"


def test_only_a_replica_follows() -> None:
    assert "--replicaof" not in options(server_arguments(Path("/x"), 7000, None))
    replica = options(server_arguments(Path("/x"), 7001, 7000))
    assert replica["--replicaof"] == "127.0.0.1 7000"


def test_a_server_that_has_waitaof_is_asked_for_fsyncs_too_and_an_older_one_for_receipt() -> None:
    received = ("WAIT", 1, CONFIRM_TIMEOUT_MS)

    assert confirm_commands((7, 2, 0)) == [received, ("WAITAOF", 1, 1, CONFIRM_TIMEOUT_MS)]
    assert confirm_commands((8, 0, 1)) == confirm_commands((7, 2, 0))
    assert confirm_commands((7, 0, 15)) == [received]


def test_the_durability_says_which_it_was() -> None:
    assert durability((7, 2, 0)).text.startswith("WAITAOF 1 1")
    assert durability((7, 0, 15)).text.startswith("WAIT 1")
    assert "received" in durability((7, 0, 15)).text


@pytest.mark.parametrize(
    ("answer", "is_enough"),
    [
        (1, True),
        (2, True),
        (0, False),
        ([1, 1], True),
        ([1, 2], True),
        ([1, 0], False),
        ([0, 1], False),
        (None, False),
    ],
)
def test_an_answer_counts_when_two_of_three_have_it(answer: object, is_enough: bool) -> None:
    assert is_confirmed(answer) is is_enough


@pytest.mark.parametrize(("state", "count"), [("online", 2), ("wait_bgsave", 1)])
def test_only_replicas_that_follow_count(state: str, count: int) -> None:
    assert online_replica_count(REPLICATION.format(state=state)) == count
