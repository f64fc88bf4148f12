"""The metadata store of the simulation is as stale as ZooKeeper may be, and no staler."""

import pytest

from tests.simulation.faults import Faults
from tests.simulation.kernel import Kernel
from tests.simulation.metadata import MetadataServer, Session
from tests.simulation.run import run_seed
from tests.simulation.tape import Tape
from tests.support.history import History

OLDEST = 3
"""Draws the oldest version that is kept."""


def stale_server() -> MetadataServer:
    """Return one that answers each read that need not be fresh as stale as it may."""
    kernel = Kernel(Tape(recorded=[1, OLDEST] * 100))
    server = MetadataServer(kernel, Faults(), History())
    server.faults.stale_read_share = 1_000
    return server


def two_nodes_that_change(server: MetadataServer) -> tuple[Session, Session]:
    """Return who changes them, and another session."""
    writer, reader = Session(server, "writer"), Session(server, "reader")
    writer.create("/one", b"0")
    writer.create("/other", b"0")
    for number in range(3):
        writer.set("/one", b"%d" % (number + 1), number)
        writer.set("/other", b"%d" % (number + 1), number)
    return writer, reader


def test_a_read_that_need_not_be_fresh_is_stale() -> None:
    _writer, reader = two_nodes_that_change(stale_server())

    assert reader.get("/one").value == b"0"
    assert reader.get("/one", is_fresh=True).value == b"3"


def test_a_session_never_goes_back_in_time_over_all_nodes() -> None:
    writer, reader = two_nodes_that_change(stale_server())

    reader.get("/one", is_fresh=True)
    writer.set("/other", b"4", 3)

    assert reader.get("/other").value == b"3", "as it was when it saw /one"


def test_who_sees_that_a_node_is_gone_sees_all_that_came_before() -> None:
    server = stale_server()
    writer, reader = two_nodes_that_change(server)
    writer.delete("/one")

    assert "one" not in reader.children("/")

    assert reader.get("/other").value == b"3"


def test_a_session_sees_what_it_wrote() -> None:
    writer, _reader = two_nodes_that_change(stale_server())

    assert writer.get("/one").value == b"3"


@pytest.mark.parametrize("seed", [8105731])
def test_a_scan_reads_no_ledger_as_it_was_before_the_bookie_was_lost(seed: int) -> None:
    """An auditor saw that a bookie was gone, and then a ledger of before it had that bookie."""
    assert run_seed(seed).violations == []
