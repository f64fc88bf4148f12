"""The lease of a session: renewed at a third, late at two thirds, and judged with patience."""

from zbk.metadata.stores.session_lease import PATIENCE_MS, SessionLease

LEASE_MS = 9_000


def test_a_renewal_begins_the_lease_anew() -> None:
    lease = SessionLease(LEASE_MS, now_ms=100)
    assert lease.is_over(9_100)

    lease.renewed_ms = 9_100

    assert not lease.is_due(12_099)
    assert lease.is_due(12_100)
    assert not lease.is_late(15_099)
    assert lease.is_late(15_100)
    assert not lease.is_over(18_099)


def test_a_renewal_waits_until_the_session_is_late_then_until_it_is_over() -> None:
    lease = SessionLease(LEASE_MS, now_ms=0)

    assert [lease.patience_ms(now_ms) for now_ms in (3_000, 5_999, 6_000, 8_999, 20_000)] == [
        3_000, PATIENCE_MS, 3_000, PATIENCE_MS, PATIENCE_MS,
    ]  # fmt: skip


def test_a_store_that_was_suspended_gives_the_others_half_a_lease() -> None:
    lease = SessionLease(LEASE_MS, now_ms=0)
    lease.poll(3_000)
    assert lease.may_end_others(3_000)

    lease.poll(6_001)

    assert not lease.may_end_others(10_500)
    lease.poll(9_000)
    assert lease.may_end_others(10_501)
