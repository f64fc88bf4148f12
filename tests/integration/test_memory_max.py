"""A bookie whose memory is limited: it ends with its reason, and the next start is clean."""

import re
import resource
from pathlib import Path

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

MIB = 1 << 20
MEMORY_MAX = 700 * MIB


def has_limit(pid: int) -> bool:
    """Return whether the bytes that a process may map are limited."""
    return resource.prlimit(pid, resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def address_space(pid: int) -> tuple[int, int]:
    """Return the bytes that a process may map, and those that it has mapped."""
    mapped = re.search(r"VmSize:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert mapped is not None
    return resource.prlimit(pid, resource.RLIMIT_AS)[0], int(mapped[1]) * 1024


def test_a_bookie_that_has_used_up_its_memory_says_so_and_loses_nothing(tmp_path: Path) -> None:
    options = QUICK | {"memory_max": MEMORY_MAX}
    with LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=options) as cluster:
        (bookie,) = cluster.bookies
        wait_until(lambda: has_limit(bookie.pid), what="the limit, set once it is registered")
        limit, mapped_size = address_space(bookie.pid)
        assert MEMORY_MAX <= limit <= MEMORY_MAX + mapped_size

        with zbk.connect(cluster.metadata_uri, quorum_grace_ms=500) as client:
            ledger = lone_ledger(client)
            acknowledged = ledger.append(b"." * MIB)
            # as if all of the rest were used
            resource.prlimit(bookie.pid, resource.RLIMIT_AS, (mapped_size, limit * 2))
            try:
                while True:
                    acknowledged = ledger.append_many([b"." * MIB] * 8).result(30)[-1]
            except zbk.ZbkError:
                wait_until(lambda: bool(cluster.deaths()), what="the end of the bookie")
        log = (cluster.folder / "bookie0.log").read_text()
        assert "is used up" in log or "OUT OF MEMORY" in log, log

        cluster.restart(0)

        with zbk.connect(cluster.metadata_uri) as client:
            client.recover_ledger(ledger.ledger_id)
            with client.open_ledger(ledger.ledger_id) as reader:
                assert reader.last_add_confirmed >= acknowledged
                assert {len(one.payload) for one in reader.read(0, acknowledged)} == {MIB}
