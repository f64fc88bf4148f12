"""The unit of a bookie permits what a bookie calls, and hardly more; its keys reach no disk."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.http import ask
from tests.support.injection import strace
from tests.support.secure_cluster import Keyring, is_refused
from tests.support.system_calls import (
    ANALYZE,
    SETS_FILE,
    calls_of,
    counted_bookie,
    made_calls,
    permitted_calls,
    shown_sets,
)
from tests.support.waiting import wait_until
from zbk.cli.generate.systemd import unit
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.words import LedgerType

__all__ = ["strace"]

UNIT = unit("bookie", "zbk", ["/opt/zbk/bin/zbk", "bookie", "run"], [])
MIB = 1024 * 1024
OPTIONS = QUICK | {
    "entry_log_size_max": MIB,
    "checkpoint_interval_ms": 100,
    "gc_interval_ms": 0,
    "gc_confirm_delay_ms": 50,
    "sync_interval_ms": 50,
}
DANGEROUS = (
    "ptrace", "bpf", "mount", "unshare", "setns", "init_module", "kexec_load", "reboot", "swapon",
    "iopl", "chroot", "pivot_root", "setuid", "setgroups", "chown", "add_key", "perf_event_open",
    "process_vm_readv", "userfaultfd", "open_by_handle_at", "clock_settime",
)  # fmt: skip
"""Calls that a stolen process would like to make."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    return Keyring.of(tmp_path_factory.mktemp("keys"), "bookie", "operator", "stranger")


@pytest.fixture
def cluster(tmp_path: Path, keys: Keyring) -> Iterator[LocalCluster]:
    flags = ("--key", keys.path("bookie"), "--audit-log", str(tmp_path / "audit"))
    with LocalCluster(
        tmp_path / "data",
        bookie_count=1,
        bookie_options=OPTIONS,
        bookie_flags=(*flags, "--autorecovery", "--allow-actions"),
        bookie_programs={0: counted_bookie(tmp_path / "calls")},
    ) as running:
        keys.admit(running, "operator", "operator", "operator")
        keys.admit(running, "bookie", "bookie", "bookie")
        keys.wait_for(running, "operator", "bookie")
        yield running


def work(client: zbk.Client) -> None:
    """Do what clients do: all types of ledgers, small and large entries, recovery, deletion."""
    for ledger_type in LedgerType:
        ledger = client.create_ledger(
            ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, ledger_type=ledger_type
        )
        for _ in range(20):
            ledger.append(b"alone")
        ledger.append_many([b"." * 100] * 2_000).result(60)
        ledger.append_many([b"." * (MIB // 2)] * 8).result(60)
        if ledger_type != LedgerType.PD_JOURNAL:
            ledger.sync()
        with client.open_ledger(ledger.ledger_id) as reader:
            assert len(list(reader.read_unconfirmed(0, 2_027))) == 2_028
        reader = client.recover_ledger(ledger.ledger_id)
        assert reader.last_add_confirmed == 2_027
        client.delete_ledger(ledger.ledger_id)


def upkeep(client: zbk.Client, cluster: LocalCluster) -> None:
    """Do what operators do."""
    (bookie,) = cluster.bookies
    wait_until(lambda: client.collect_garbage(bookie.bookie_id).freed_size > 0)
    client.scrub(bookie.bookie_id)
    wait_until(lambda: not client.bookie_info(bookie.bookie_id).is_scrubbing)
    os.kill(bookie.pid, signal.SIGHUP)
    for path in ("/metrics", "/readyz", "/api/v1/bookie/list_disk_file", "/api/v1/bookie/info"):
        assert ask(f"{bookie.http}{path}").status == 200


@pytest.mark.usefixtures("strace")
def test_a_bookie_under_load_calls_only_what_its_unit_permits(
    cluster: LocalCluster, keys: Keyring, tmp_path: Path
) -> None:
    with keys.connect(cluster, "operator") as client, keys.connect(cluster, "stranger") as other:
        with lone_ledger(client) as kept:  # in the log that compaction copies from
            kept.append(b"kept")
        work(client)
        upkeep(client, cluster)
        wait_until(lambda: is_refused(other, cluster.bookies[0].bookie_id))
    assert cluster.terminate(0) == 0
    wait_until(lambda: (tmp_path / "calls").exists() and bool(made_calls(tmp_path / "calls")))

    made = made_calls(tmp_path / "calls")
    assert made["fdatasync"] > 20
    assert {"openat", "accept4", "unlink", "recvfrom"} <= set(made)
    assert {"pwritev", "pwritev2"} & set(made)
    assert set(made) - permitted_calls(UNIT) == set()


def test_the_unit_denies_what_only_an_attacker_wants() -> None:
    permitted = permitted_calls(UNIT)
    assert not permitted & set(DANGEROUS)
    lines = UNIT.splitlines()
    for line in ("NoNewPrivileges=yes", "MemorySwapMax=0", "LimitCORE=1", "CapabilityBoundingSet="):
        assert line in lines


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
def test_the_sets_of_this_systemd_have_those_of_the_file() -> None:
    """A later systemd adds calls to its sets, and splits sets."""
    names = [line for line in SETS_FILE.read_text().splitlines() if line.startswith("@")]
    assert len(names) > 10
    wanted = [line.strip() for line in SETS_FILE.read_text().splitlines() if line.startswith(" ")]
    here = {call for name in names for call in calls_of(name)}
    assert {one for one in wanted if not one.startswith("@")} <= here
    assert shown_sets("@system-service").startswith("@system-service")
