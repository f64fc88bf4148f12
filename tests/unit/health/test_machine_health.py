"""The rule that judges a machine: each finding, alone."""

from typing import Any

import pytest

from zbk.config.units import parse_free
from zbk.health.finding import has_problem
from zbk.health.machine_health import (
    DirectoryFacts,
    LinkFacts,
    MachineFacts,
    PackageFacts,
    PortFacts,
    findings,
)
from zbk.metadata.stores.zookeeper_server import ServerAnswer
from zbk.system.exposure import Exposure
from zbk.system.ports import PortUse
from zbk.wire.messages import VERSION_MAX

GIB = 1 << 30


def machine(**fields: Any) -> MachineFacts:  # noqa: ANN401 - the struct's
    """Return the facts of a machine that is well, but for ``fields``."""
    known: dict[str, Any] = {
        "python": "3.11.7",
        "zbk": "0.1.0",
        "soft_descriptor_count": 1_024,
        "hard_descriptor_count": 65_536,
        "clock_source": "tsc",
        "is_clock_synchronized": True,
        "huge_pages": "madvise",
        "warn_free": parse_free("1 GiB"),
        "readonly_free": parse_free("512 MiB"),
        "metadata": "zk://h/zbk",
    }
    return MachineFacts(**(known | fields))


def with_directory(**fields: Any) -> MachineFacts:  # noqa: ANN401 - likewise
    known: dict[str, Any] = {
        "path": "/j", "file_system": "ext4", "free_size": 100 * GIB, "total_size": 200 * GIB,
        "fsync_p99_ms": 2.0,
    }  # fmt: skip
    return machine(directories=(DirectoryFacts(**(known | fields)),))


def with_port(**fields: Any) -> MachineFacts:  # noqa: ANN401 - likewise
    use = PortUse(**({"is_free": False} | fields))
    return machine(ports=(PortFacts(address="tcp://h:3181", use=use),))


def with_link(**fields: Any) -> MachineFacts:  # noqa: ANN401 - likewise
    known: dict[str, Any] = {
        "bookie_id": "b-1",
        "address": "tcp://h:1",
        "wire_version": VERSION_MAX,
    }
    return machine(links=(LinkFacts(**(known | fields)),))


WELL = [
    machine(),
    machine(hard_descriptor_count=None, is_clock_synchronized=None, clock_source=""),
    machine(packages=(PackageFacts(name="click", installed="10.0", required="8.1"),)),
    with_directory(),
    with_port(is_free=True),
    with_port(pid=7, command="python -m zbk bookie run"),
    with_link(),
    machine(servers=(ServerAnswer(address="h:2181", version="3.9.5", mode="leader"),)),
]


@pytest.mark.parametrize("facts", WELL)
def test_nothing_is_found_where_nothing_is_wrong(facts: MachineFacts) -> None:
    assert findings(facts) == []


PROBLEMS = [
    (
        "package-unfit",
        machine(packages=(PackageFacts(name="click", installed="8.0.9", required="8.1"),)),
        "pip install 'click>=8.1'",
    ),
    (
        "package-unfit",
        machine(packages=(PackageFacts(name="rich", installed="", required=""),)),
        "pip install 'rich'",
    ),
    ("descriptors-few", machine(hard_descriptor_count=512), "LimitNOFILE"),
    ("directory-unusable", with_directory(error="No such file"), "zbk bookie init"),
    ("directory-volatile", with_directory(file_system="tmpfs"), "move it to a disk"),
    ("directory-remote", with_directory(file_system="nfs4"), "local disk"),
    ("disk-full", with_directory(free_size=GIB // 4), "add a disk"),
    ("disk-low", with_directory(free_size=GIB - 1), "add a disk"),
    ("fsync-slow", with_directory(fsync_p99_ms=80.0), "a disk of its own"),
    ("address-unusable", with_port(reason="Cannot assign requested address"), "--listen"),
    ("port-in-use", with_port(pid=7, command="nginx"), "--listen"),
    ("store-unreachable", machine(metadata_error="timed out"), "--metadata"),
    ("store-slow", machine(store_latency_ms=400.0), "ZooKeeper"),
    (
        "server-unreachable",
        machine(servers=(ServerAnswer(address="h:2181", error="Connection refused"),)),
        "start the server",
    ),
    (
        "zookeeper-outdated",
        machine(servers=(ServerAnswer(address="h:2181", version="3.9.4"),)),
        "3.8.6 or 3.9.5",
    ),
    ("bookies-unreachable", with_link(error="timed out", wire_version=0), "firewall"),
]


@pytest.mark.parametrize(("kind", "facts", "remedy"), PROBLEMS)
def test_a_problem_is_found_with_its_remedy(kind: str, facts: MachineFacts, remedy: str) -> None:
    (found,) = findings(facts)

    assert (found.kind, found.is_problem) == (kind, True)
    assert remedy in found.command
    assert found.consequence
    assert "\n" not in str(found)


NOTES = [
    ("descriptors-few", machine(hard_descriptor_count=4_096)),
    ("clock-slow", machine(clock_source="hpet")),
    ("clock-free", machine(is_clock_synchronized=False)),
    ("huge-pages", machine(huge_pages="always")),
    ("swap-used", machine(used_swap_size=1 << 30)),
    ("port-in-use", with_port()),
    ("no-cluster", machine(metadata="")),
    (
        "server-unreachable",
        machine(servers=(ServerAnswer(address="h:1", error="no answer to srvr: not allowed"),)),
    ),
    ("bookies-old", with_link(wire_version=VERSION_MAX - 1)),
]


@pytest.mark.parametrize(("kind", "facts"), NOTES)
def test_a_note_is_no_problem(kind: str, facts: MachineFacts) -> None:
    found = findings(facts)

    assert [one.kind for one in found] == [kind]
    assert not has_problem(found)


def test_a_disk_that_is_full_is_not_low_as_well() -> None:
    assert [one.kind for one in findings(with_directory(free_size=0))] == ["disk-full"]


def with_clocks(*offsets_ms: int | None) -> MachineFacts:
    return machine(
        links=tuple(
            LinkFacts(
                bookie_id=f"b-{number}",
                address="tcp://h:1",
                wire_version=VERSION_MAX,
                clock_offset_ms=offset_ms,
            )
            for number, offset_ms in enumerate(offsets_ms)
        )
    )


@pytest.mark.parametrize(
    ("offsets_ms", "expected"),
    [
        ((), {}),
        ((None, None), {}),
        ((0, 999, -1_000), {}),
        ((0, 5_000, 0), {"bookie-clocks-off": ("b-1",)}),
        ((None, -5_000, 9_000), {"bookie-clocks-off": ("b-2", "b-1")}),
        ((-3_000,), {"bookie-clocks-off": ("b-0",)}),
        ((60_000, 60_100, 59_900, None), {"clock-off": ()}),
        ((60_000, 60_100, 0), {"clock-off": (), "bookie-clocks-off": ("b-2",)}),
    ],
)
def test_the_clock_that_differs_from_most_is_named(
    offsets_ms: tuple[int | None, ...], expected: dict[str, tuple[str, ...]]
) -> None:
    found = findings(with_clocks(*offsets_ms))

    assert {one.kind: one.subjects for one in found} == expected
    assert all(one.is_problem and "chronyc" in one.command for one in found)


def test_a_clock_is_said_to_be_ahead_or_behind() -> None:
    this, bookie = findings(with_clocks(60_000, 60_000, -1_500))

    assert this.what == "this clock is 60.0 s behind the clocks of most bookies"
    assert "61.5 s behind" in bookie.what


def test_a_directory_that_others_can_read_is_a_problem_with_its_remedy() -> None:
    exposure = Exposure(path="/data", why="lets everyone create files", remedy="chmod o-w /data")

    (found,) = findings(with_directory(exposures=(exposure,)))

    assert found.is_problem
    assert (found.kind, found.command) == ("directory-exposed", "chmod o-w /data")
