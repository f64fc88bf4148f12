"""What the fence of a ledger refuses at a bookie, and when it is answered."""

import pytest

from zbk.durability.fence import Fence


@pytest.mark.parametrize(
    ("fence", "is_set", "is_durable"),
    [(Fence.NONE, False, False), (Fence.PENDING, True, False), (Fence.DURABLE, True, True)],
    ids=["none", "pending", "durable"],
)
def test_a_fence_refuses_before_it_is_durable_and_is_answered_after(
    fence: Fence, is_set: bool, is_durable: bool
) -> None:
    assert (fence.is_set, fence.is_durable) == (is_set, is_durable)
    assert fence.admits_add(is_recovery=False) is not is_set
    assert fence.admits_sync is not is_set
    assert fence.admits_add(is_recovery=True)


def test_a_fence_is_permanent() -> None:
    assert Fence.NONE.begun() is Fence.PENDING
    assert Fence.PENDING.begun() is Fence.PENDING
    assert Fence.PENDING.synced() is Fence.DURABLE
    assert Fence.DURABLE.begun() is Fence.DURABLE
    assert Fence.DURABLE.synced() is Fence.DURABLE
