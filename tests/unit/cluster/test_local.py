"""What a local cluster refuses, before it starts anything."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.simulated_disk import SimulatedCrash, SimulatedDisk
from zbk.cluster import local
from zbk.cluster.local import LocalCluster
from zbk.cluster.local_state import (
    STATE_NAME,
    BookieSeat,
    ClusterState,
    read_state,
    write_state,
)
from zbk.cluster.new_bookie import make_bookie
from zbk.conversion import decode_json
from zbk.errors import BookieError, DirectoryInUseError, InvalidOptionError
from zbk.system.files import OsFiles

STATE: dict[str, Any] = {
    "metadata": "sqlite",
    "bookies": [{"bookie_id": f"b{index}", "port": 1} for index in range(3)],
    "format_version": 1,
}


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"bookie_count": 0}, "bookies"),
        ({"bookie_count": 65}, "bookies"),
        ({"use_zookeeper": True, "metadata": "zk://h"}, "zookeeper"),
        ({"bookie_options": {"sync_intervall_ms": 1}}, "did you mean 'sync_interval_ms'"),
        ({"bookie_options": {"sync_interval_ms": -1}}, "sync_interval_ms"),
    ],
)
def test_a_wrong_option_is_refused_and_makes_no_folder(
    tmp_path: Path, keywords: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidOptionError, match=named):
        LocalCluster(tmp_path / "new", **keywords)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(InvalidOptionError, match=r"holds 'thesis\.tex'"):
        LocalCluster(tmp_path).start()

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_use_is_named_with_the_cures(tmp_path: Path) -> None:
    lock = OsFiles().lock(str(tmp_path / "lock"))
    assert lock is not None

    with pytest.raises(DirectoryInUseError, match="Ctrl-C in its terminal"):
        LocalCluster(tmp_path).start()
    lock.close()


def without_bookies(state: dict[str, Any]) -> None:
    del state["bookies"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda state: state.update(metadata="zookeeper"), "has its metadata in 'zookeeper'"),
        (lambda state: state["bookies"].append({"bookie_id": "b3"}), "--bookies 4"),
        (lambda state: state.update(format_version=2), "format version 2"),
        (without_bookies, "not readable"),
    ],
)
def test_a_folder_of_another_cluster_is_named_with_the_cure(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], named: str
) -> None:
    state = json.loads(json.dumps(STATE))
    change(state)
    (tmp_path / STATE_NAME).write_text(json.dumps(state))

    with pytest.raises(InvalidOptionError, match=named):
        LocalCluster(tmp_path).start()

    assert json.loads((tmp_path / STATE_NAME).read_text()) == state
    lock = OsFiles().lock(str(tmp_path / "lock"))
    assert lock is not None, "a cluster that did not start holds nothing"
    lock.close()


class StoppedChild:
    """A child that notes when it is stopped, and may not end."""

    def __init__(self, name: str, notes: list[str], error: BookieError | None = None) -> None:
        self._name, self._notes, self._error = name, notes, error

    def ask_to_stop(self) -> None:
        self._notes.append(f"ask {self._name}")

    def wait_stopped(self) -> None:
        self._notes.append(f"wait {self._name}")
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("failing", ["autorecovery", "bookie 0", "bookie 1"])
def test_a_child_that_does_not_end_keeps_nothing_else_from_its_end(
    failing: str, tmp_path: Path
) -> None:
    cluster, notes = LocalCluster(tmp_path / "cluster"), list[str]()

    def child(name: str) -> Any:  # noqa: ANN401 - stands for a Child
        return StoppedChild(name, notes, BookieError(name) if name == failing else None)

    cluster._autorecovery = child("autorecovery")
    cluster._children = {index: child(f"bookie {index}") for index in range(2)}
    cluster._exit.callback(notes.append, "store")

    with pytest.raises(BookieError, match=failing):
        cluster.stop()

    bookies = ["bookie 0", "bookie 1"]
    assert notes[:2] == ["ask autorecovery", "wait autorecovery"]
    assert notes[2:4] == [f"ask {name}" for name in bookies]
    assert sorted(notes[4:6]) == [f"wait {name}" for name in bookies]
    assert notes[6:] == ["store"]
    cluster.stop()
    assert len(notes) == 7


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCluster, "_start_bookies", lambda *_: None)


def ids_in(folder: Path) -> list[str]:
    return [one.bookie_id for one in read_state(folder).bookies]


def interrupted_after(call: Callable[..., Any], count: int, *, is_done: bool) -> Callable[..., Any]:
    """Return the function with Ctrl-C in its call of this number, from 1: before or after it."""
    calls: list[int] = []

    def interrupted(*given: object) -> object:
        calls.append(1)
        if len(calls) == count and not is_done:
            raise KeyboardInterrupt
        value = call(*given)
        if len(calls) == count:
            raise KeyboardInterrupt
        return value

    return interrupted


@pytest.mark.usefixtures("no_processes")
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_start_continues_one_that_was_interrupted_while_it_made_bookies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, *, is_done: bool
) -> None:
    folder = tmp_path / "cluster"
    with monkeypatch.context() as patch:
        interrupted = interrupted_after(make_bookie, count, is_done=is_done)
        patch.setattr(local, "make_bookie", interrupted)
        with pytest.raises(KeyboardInterrupt):
            LocalCluster(folder).start()

    with LocalCluster(folder) as cluster:
        assert cluster._registry is not None
        assert sorted(cluster._registry.cookies()) == sorted(ids_in(folder))
    assert len(ids_in(folder)) == 3


@pytest.mark.usefixtures("no_processes")
def test_a_cluster_grows_after_an_interrupted_growth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(tmp_path / "c", bookie_count=1):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(local, "make_bookie", interrupted_after(make_bookie, 1, is_done=True))
        with pytest.raises(KeyboardInterrupt):
            LocalCluster(tmp_path / "c", bookie_count=2).start()

    with LocalCluster(tmp_path / "c", bookie_count=2) as cluster:
        assert cluster._registry is not None
        assert len(cluster._registry.cookies()) == len(ids_in(tmp_path / "c")) == 2


@pytest.mark.usefixtures("no_processes")
def test_a_start_before_any_bookie_fixes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LocalCluster, "_start_metadata", interrupted_after(print, 1, is_done=False))
        with pytest.raises(KeyboardInterrupt):
            LocalCluster(tmp_path / "c", use_zookeeper=True).start()

    with LocalCluster(tmp_path / "c", bookie_count=1):
        assert len(ids_in(tmp_path / "c")) == 1


def test_a_loss_of_power_leaves_the_record_of_the_cluster_whole() -> None:
    before, after = (
        ClusterState(metadata="sqlite", bookies=(BookieSeat("b0", port),)) for port in (1, 2)
    )
    for step in range(1, 20):
        disk = SimulatedDisk()
        disk.make_dirs("/c")
        write_state(Path("/c"), before, disk)
        disk.crash_at = disk.operation_count + step
        try:
            write_state(Path("/c"), after, disk)
        except SimulatedCrash:
            disk.crash(Random(step))
            assert state_on(disk) in (before, after)
            write_state(Path("/c"), after, disk)
        else:
            disk.crash_at = None
        disk.crash(Random(step))
        assert state_on(disk) == after, step


def state_on(disk: SimulatedDisk) -> ClusterState:
    return decode_json(disk.content(f"/c/{STATE_NAME}"), ClusterState)
