"""Bookies as others see them: watches, a damaged registration, and a store without a cluster."""

from collections.abc import Mapping

import msgspec
import pytest

from tests.support.bookie_registry import B1, B1_READONLY, B2, COOKIE, Cluster, cluster
from tests.support.memory_store import MemoryTree
from tests.support.recorder import Recorder
from tests.support.threads import NewThreads
from zbk.errors import CorruptRecordError, InvalidOptionError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.values import BookieRegistration

__all__ = ["cluster"]


def test_without_a_cluster_nobody_registers() -> None:
    store = MemoryTree("empty").open_session()
    registry = BookieRegistry(store)

    with pytest.raises(InvalidOptionError, match="zbk up"):
        registry.create_cookie(COOKIE)
    with pytest.raises(InvalidOptionError, match="zbk up"):
        registry.register(B1)
    with pytest.raises(InvalidOptionError, match="zbk up"):
        registry.cookies()
    assert registry.available() == registry.readonly() == {}
    store.close()


def test_a_watch_tells_who_is_there_now_and_after_each_change(cluster: Cluster) -> None:
    threads = NewThreads()
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    watch = cluster.others.watch_available(seen)
    seen.wait_last({})
    one = cluster.registry.register(B1)
    seen.wait_last({"b1": B1})
    two = cluster.registry.register(B2)
    seen.wait_last({"b1": B1, "b2": B2})
    one.close()
    seen.wait_last({"b2": B2})

    watch.cancel()
    count = len(seen.items)
    two.close()
    cluster.other_store.settle()
    assert len(seen.items) == count
    assert threads.names("bookies-watch") == []


def test_a_bookie_that_comes_back_elsewhere_is_news(cluster: Cluster) -> None:
    moved = msgspec.structs.replace(B1, address="tcp://127.0.0.1:7", incarnation=2)
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    cluster.registry.register(B1).close()
    first = cluster.registry.register(B1)
    watch = cluster.others.watch_available(seen)
    seen.wait_last({"b1": B1})

    first.close()
    second = cluster.registry.register(moved)

    seen.wait_last({"b1": moved})
    second.close()
    watch.cancel()


def test_a_watch_on_readonly_bookies_leaves_out_the_others(cluster: Cluster) -> None:
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    registration = cluster.registry.register(B1)
    watch = cluster.others.watch_readonly(seen)
    seen.wait_last({})

    registration.set_readonly(is_readonly=True)

    seen.wait_last({"b1": B1_READONLY})
    registration.close()
    watch.cancel()


def test_a_watch_reads_again_when_the_store_did_not_answer(cluster: Cluster) -> None:
    seen: Recorder[Mapping[str, BookieRegistration]] = Recorder()
    registration = cluster.registry.register(B1)
    cluster.other_store.fail_next(1)
    watch = cluster.others.watch_available(seen)

    seen.wait_last({"b1": B1})
    registration.close()
    watch.cancel()


def test_a_registration_that_cannot_be_read_hides_no_other(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    registration = cluster.registry.register(B1)
    cluster.other_store.create("/available/b9", b"garbage", is_ephemeral=True)

    assert cluster.others.available() == {"b1": B1}
    assert "/available/b9" in caplog.text
    with pytest.raises(CorruptRecordError):
        cluster.others.resolve("b9")
    registration.close()
