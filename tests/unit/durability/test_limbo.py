"""Limbo: what a bookie that may have lost something says no to, against a slow twin."""

from hypothesis import given
from hypothesis import strategies as st

from zbk.durability.limbo import Limbo, Loss, LossReason
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.ledger_ranges import LedgerRanges

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
ID_MAX = 12

ids = st.integers(0, ID_MAX)
losses = st.tuples(st.sampled_from(LossReason), st.integers(1, ID_MAX))
cleared = st.lists(st.tuples(ids, ids), max_size=3)


def after(reason: LossReason, bound: int) -> Limbo:
    return Limbo().with_loss(Loss(reason, bound, LedgerRanges()))


class Twin:
    """Remembers every ledger by itself."""

    def __init__(self) -> None:
        self.volatile: set[int] = set()
        self.everything: dict[LossReason, set[int]] = {}
        self.fences: set[int] = set()
        self.bounds: dict[LossReason, int] = {}

    def lose(self, reason: LossReason, bound: int) -> None:
        self.bounds[reason] = bound = max(bound, self.bounds.get(reason, 0))
        if reason is LossReason.UNCLEAN_STOP:
            self.volatile = set(range(bound))
        else:
            self.everything[reason] = set(range(bound))
            self.fences |= set(range(bound))

    def clear(self, first: int, last: int) -> None:
        gone = set(range(first, last + 1))
        self.volatile -= gone
        if not self.volatile:
            self.bounds.pop(LossReason.UNCLEAN_STOP, None)
        for left in self.everything.values():
            left.difference_update(gone)

    def is_miss_unknown(self, ledger_id: int, kind: LedgerType | None) -> bool:
        is_lost = any(ledger_id in left for left in self.everything.values())
        return is_lost or (ledger_id in self.volatile and kind is not PD)


@given(st.lists(st.one_of(losses, cleared), max_size=8))
def test_limbo_is_what_every_ledger_by_itself_remembers(steps: list[object]) -> None:
    limbo, twin = Limbo(), Twin()
    for step in steps:
        if isinstance(step, tuple):
            reason, bound = step
            limbo = limbo.with_loss(Loss(reason, bound, LedgerRanges()))
            twin.lose(reason, bound)
        else:
            assert isinstance(step, list)
            limbo = limbo.with_cleared(step)
            for first, last in step:
                twin.clear(first, last)
        for ledger_id in range(ID_MAX + 2):
            for kind in (PD, VD, None):
                assert limbo.is_miss_unknown(ledger_id, kind) == twin.is_miss_unknown(
                    ledger_id, kind
                )
            assert limbo.may_lack_fence(ledger_id) == (ledger_id in twin.fences)
        left = {r: ids for r, ids in twin.everything.items() if ids}
        expected = {*left, *([LossReason.UNCLEAN_STOP] if twin.volatile else [])}
        assert set(limbo.reasons) == expected


def test_without_a_loss_every_no_is_honest() -> None:
    assert not Limbo().is_miss_unknown(0, None)
    assert not Limbo().may_lack_fence(0)
    assert Limbo().reasons == ()


def test_an_unclean_stop_concerns_what_was_acknowledged_before_an_fsync_only() -> None:
    limbo = after(LossReason.UNCLEAN_STOP, 5)

    assert limbo.is_miss_unknown(4, VD)
    assert limbo.is_miss_unknown(4, None)  # nobody knows of which type it was
    assert not limbo.is_miss_unknown(4, PD)
    assert not limbo.may_lack_fence(4)


def test_a_wiped_bookie_knows_nothing_of_any_ledger_of_before() -> None:
    limbo = after(LossReason.WIPED, 5)

    assert limbo.is_miss_unknown(4, PD)
    assert limbo.may_lack_fence(4)
    assert not limbo.is_miss_unknown(5, VD)
    assert not limbo.may_lack_fence(5)


def test_a_second_unclean_stop_widens_the_bound_and_forgets_what_was_cleared() -> None:
    limbo = after(LossReason.UNCLEAN_STOP, 5).with_cleared([(0, 3)])
    assert not limbo.is_miss_unknown(2, VD)

    again = limbo.with_loss(Loss(LossReason.UNCLEAN_STOP, 9, LedgerRanges()))

    assert all(again.is_miss_unknown(ledger_id, VD) for ledger_id in range(9))
    assert len(again.losses) == 1


def test_a_counter_that_was_put_back_narrows_nothing() -> None:
    limbo = after(LossReason.WIPED, 9).with_loss(Loss(LossReason.WIPED, 5, LedgerRanges()))

    assert limbo.is_miss_unknown(8, PD)


def test_two_losses_leave_a_ledger_in_limbo_as_long_as_the_harder_one_does() -> None:
    limbo = after(LossReason.WIPED, 5).with_loss(Loss(LossReason.UNCLEAN_STOP, 9, LedgerRanges()))
    assert limbo.is_miss_unknown(3, PD)
    assert not limbo.is_miss_unknown(7, PD)
    assert limbo.is_miss_unknown(7, VD)

    limbo = limbo.with_cleared([(3, 3)])

    assert not limbo.is_miss_unknown(3, VD)
    assert limbo.is_miss_unknown(4, PD)


def test_when_all_is_cleared_an_unclean_stop_is_forgotten_and_lost_fences_are_not() -> None:
    assert after(LossReason.UNCLEAN_STOP, 5).with_cleared([(0, 9)]) == Limbo()

    limbo = after(LossReason.WIPED, 5).with_cleared([(0, 9)])

    assert limbo.reasons == ()
    assert not limbo.is_miss_unknown(4, PD)
    assert limbo.may_lack_fence(4)
