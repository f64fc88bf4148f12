"""Truncation of a log: which ledgers it deletes, and which it names when it could not."""

import pytest

from tests.support.log_cluster import Cluster, cluster
from zbk.errors import AccessDeniedError, MetadataUnavailableError, ZbkError

__all__ = ["cluster"]


def test_a_truncation_deletes_the_ledgers_before_the_position_and_no_other(
    cluster: Cluster,
) -> None:
    log = cluster.log()
    positions = []
    for payload in (b"a", b"b", b"c", b"d"):
        positions.append(log.append(payload))
        log.roll()

    assert log.truncate(positions[0]) == 0
    assert log.truncate(positions[2]) == 2

    assert cluster.ledgers.deleted == {0, 1}
    assert cluster.payloads() == [b"c", b"d"]
    assert log.truncate(log.append(b"e")) == 2, "those before the current one are closed"
    assert cluster.payloads() == [b"e"]


def test_a_truncation_leaves_a_ledger_that_is_not_closed_and_all_after_it(
    cluster: Cluster,
) -> None:
    """Its owner may have died in the roll: the next one recovers it."""
    log = cluster.log()
    log.append(b"a")
    log.roll()
    log.append(b"b")
    cluster.ledgers.close_failures = 1
    log.roll()
    last = log.append(b"c")

    assert log.truncate(last) == 1
    assert cluster.payloads() == [b"b", b"c"]


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (AccessDeniedError(1, "bob", "delete"), {1}),
        (MetadataUnavailableError("memory://", "no answer"), {1, 2, 3}),
    ],
)
def test_a_truncation_names_the_ledgers_that_it_could_not_delete(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: ZbkError, left: set[int]
) -> None:
    """The log does not name them any more, so no later truncation finds them."""
    log = cluster.log()
    for payload in (b"a", b"b", b"c", b"d"):
        log.append(payload)
        log.roll()
    last = log.append(b"e")
    delete = cluster.ledgers.delete_ledger

    def refuse_one(ledger_id: int) -> None:
        if ledger_id == 1:
            raise error
        delete(ledger_id)

    monkeypatch.setattr(cluster.ledgers, "delete_ledger", refuse_one)
    with pytest.raises(type(error)) as raised:
        log.truncate(last)

    assert cluster.ledgers.deleted == {0, 1, 2, 3} - left
    assert f"not deleted yet: {', '.join(map(str, sorted(left)))};" in raised.value.__notes__[0]
