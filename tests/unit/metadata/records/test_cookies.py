"""Cookies on a store in memory that fails on cue, and the incarnations that they keep."""

import msgspec
import pytest

from tests.support.bookie_registry import COOKIE, Cluster, cluster
from tests.support.hooked_store import HookedStore
from tests.support.memory_store import MemoryStore
from zbk.errors import MetadataAccessError, MetadataUnavailableError, NodeExistsError, NoNodeError
from zbk.metadata.records.bookies import BookieRegistry

__all__ = ["cluster"]


# ------------------------------------------------------------------ cookies


def test_a_cookie_is_kept_until_it_is_deleted(cluster: Cluster) -> None:
    assert cluster.registry.read_cookie("b1") is None
    cluster.registry.create_cookie(COOKIE)

    assert cluster.others.read_cookie("b1") == COOKIE
    assert cluster.others.cookies() == {"b1": COOKIE}
    cluster.others.delete_cookie("b1")
    assert cluster.registry.read_cookie("b1") is None
    with pytest.raises(NoNodeError):
        cluster.others.delete_cookie("b1")


def test_a_bookie_id_is_taken_once(cluster: Cluster) -> None:
    cluster.registry.create_cookie(COOKIE)

    with pytest.raises(NodeExistsError, match="has a cookie already"):
        cluster.others.create_cookie(msgspec.structs.replace(COOKIE, journal_dirs=("/k",)))
    assert cluster.registry.read_cookie("b1") == COOKIE


def test_a_cookie_whose_reply_was_lost_is_ours(cluster: Cluster) -> None:
    cluster.store.lose_next_reply()
    cluster.registry.create_cookie(COOKIE)

    assert cluster.registry.read_cookie("b1") == COOKIE


def test_a_cookie_that_was_not_made_is_made_again(cluster: Cluster) -> None:
    cluster.store.fail_next()
    cluster.registry.create_cookie(COOKIE)

    assert cluster.registry.read_cookie("b1") == COOKIE


def test_an_unanswered_create_of_another_ones_cookie_is_not_ours(cluster: Cluster) -> None:
    cluster.others.create_cookie(msgspec.structs.replace(COOKIE, created_ms=2))
    cluster.store.fail_next()

    with pytest.raises(NodeExistsError, match="has a cookie already"):
        cluster.registry.create_cookie(COOKIE)


def test_a_store_that_does_not_answer_has_no_opinion_on_cookies(cluster: Cluster) -> None:
    cluster.store.suspend()

    with pytest.raises(MetadataUnavailableError):
        cluster.registry.read_cookie("b1")


# ------------------------------------------------------------------ histories


def history(cluster: Cluster) -> tuple[int, bool]:
    cookie = cluster.others.read_stored_cookie("b1")
    assert cookie is not None
    return cookie.incarnation, cookie.has_served


def raise_to(cluster: Cluster, incarnation: int, *, has_served: bool = True) -> bool:
    return cluster.registry.raise_incarnation("b1", incarnation, has_served=has_served)


def test_an_incarnation_is_raised_once_and_never_lowered(cluster: Cluster) -> None:
    cluster.registry.create_cookie(COOKIE)
    assert history(cluster) == (0, False)

    assert raise_to(cluster, 3, has_served=False)
    assert history(cluster) == (3, False)
    assert raise_to(cluster, 5)
    for taken in (5, 4, 0):
        assert not raise_to(cluster, taken)
    assert raise_to(cluster, 6, has_served=False)

    assert history(cluster) == (6, True), "what was served stays"
    assert cluster.registry.read_cookie("b1") == COOKIE
    cluster.registry.forget_served("b1")
    cluster.registry.forget_served("b1")
    assert history(cluster) == (6, False)
    assert cluster.others.read_stored_cookie("b2") is None
    with pytest.raises(NoNodeError):
        cluster.registry.raise_incarnation("b2", 1, has_served=True)


@pytest.mark.parametrize("count", [1, 3])
def test_an_incarnation_whose_reply_was_lost_was_raised(cluster: Cluster, count: int) -> None:
    cluster.registry.create_cookie(COOKIE)
    cluster.store.lose_next_reply(count)

    assert raise_to(cluster, 1)
    assert history(cluster) == (1, True)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_incarnation_that_nobody_answered_for_is_raised_again(
    cluster: Cluster, count: int
) -> None:
    cluster.registry.create_cookie(COOKIE)
    cluster.store.fail_next(count)

    assert raise_to(cluster, 1)
    assert history(cluster) == (1, True)


def hooked(cluster: Cluster) -> tuple[HookedStore, BookieRegistry]:
    store = HookedStore(cluster.tree)
    return store, BookieRegistry(store, pause=lambda _seconds: None)


class LateStore(MemoryStore):
    """A session whose first set is applied just before the second one."""

    sent_count = 0
    _late: tuple[str, bytes, int] | None = None

    def set(self, path: str, value: bytes, version: int) -> int:
        self.sent_count += 1
        if self.sent_count == 1:
            self._late = (path, value, version)
            raise MetadataUnavailableError(self.address, "the connection went")
        if self._late is not None:
            late, self._late = self._late, None
            super().set(*late)
        return super().set(path, value, version)


def test_a_refused_change_of_a_cookie_is_an_error_at_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tried again for half a minute."""
    cluster.registry.create_cookie(COOKIE)

    def refused(*_args: object) -> int:
        raise MetadataAccessError("memory://", "refused")

    def paused(_seconds: float) -> None:
        pytest.fail("it is tried again")

    monkeypatch.setattr(cluster.store, "set", refused)
    registry = BookieRegistry(cluster.store, pause=paused)

    with pytest.raises(MetadataAccessError):
        registry.switch_readonly("b1", is_readonly=True)


def test_of_two_that_raise_to_the_same_incarnation_one_is_told_no(cluster: Cluster) -> None:
    cluster.registry.create_cookie(COOKIE)
    store, second = hooked(cluster)
    store.interrupt(lambda: raise_to(cluster, 2), "set")

    assert not second.raise_incarnation("b1", 2, has_served=True)
    store.interrupt(lambda: raise_to(cluster, 3), "set")
    assert second.raise_incarnation("b1", 4, has_served=True)

    assert history(cluster) == (4, True)
    store.close()


def test_an_attempt_that_is_applied_when_it_was_given_up_is_known_as_ours(
    cluster: Cluster,
) -> None:
    """The request was on its way when the connection went; the next attempt meets it."""
    cluster.registry.create_cookie(COOKIE)
    store = LateStore(cluster.tree)
    registry = BookieRegistry(store, pause=lambda _seconds: None)

    assert registry.raise_incarnation("b1", 1, has_served=True)

    assert store.sent_count == 2
    assert history(cluster) == (1, True)
    store.close()
