"""When a writer asks for other bookies, and what becomes of it.

A *change* puts new bookies into failed slots, from the first entry on that is not acknowledged.
From the moment it is asked for until it is *settled* nothing is acknowledged (``WriterCore`` holds
its path), because the new fragment's start has been chosen.

One change at a time: what fails meanwhile is in the next one. A change ends in one of these ways:

    made            the metadata name another ensemble; it is adopted as it is found there
    declined        there is no replacement; the metadata were not touched. Asked again when other
                    bookies are there, when another slot fails, or after ``ensemble_retry_ms``.
                    Where a try may cost a catch-up (``write.catch_up``) this pause doubles, up to
                    ``catch_up_retry_ms_max``; a new bookie that could not catch up counts alike
    in doubt        the metadata store did not answer. The same change is asked for again: only a
                    compare-and-swap that was answered tells whether an earlier one was made.
                    ``metadata_grace_ms`` after it was first asked for the writer ends. While it
                    waits for its turn behind changes of other ledgers it is not asked for
    refused         the ledger is not OPEN any more, or is gone: the writer ends

Limits: ``ensemble_change_count_max`` changes in the life of a writer, because each may add a
fragment to the metadata.

Source: "The BookKeeper protocol", Writing to ledgers; BookKeeper's
``LedgerHandle.ensembleChangeLoop``, ``MetadataUpdateLoop``.
"""

from collections.abc import Collection, Mapping

from zbk.errors import MetadataUnavailableError, NotEnoughBookiesError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.write.events import ChangeEnsemble
from zbk.protocol.write.grace import Grace
from zbk.protocol.write.limits import WriterLimits


class EnsembleChanges:
    """The change that is pending, if there is one, and when the next one may be asked for.

    ``pending`` is set from the asking for a change until it is settled; others only read it.

    Invariant: an answer counts only if it names the change that is pending.
    """

    __slots__ = (
        "_again_ms", "_count_max", "_declined", "_doubt", "_grace", "_grace_ms", "_has_come",
        "_is_queued", "_made_count", "_next_id", "_pause_ms", "_pause_ms_max", "_retry_ms",
        "pending",
    )  # fmt: skip

    def __init__(self, limits: WriterLimits, *, has_catch_up: bool = False) -> None:
        self._count_max = limits.ensemble_change_count_max
        self._retry_ms = limits.ensemble_retry_ms
        self._pause_ms = self._retry_ms  # the next one
        self._pause_ms_max = limits.catch_up_retry_ms_max if has_catch_up else self._retry_ms
        self._grace_ms = limits.metadata_grace_ms
        self._grace = Grace(self._grace_ms)
        self.pending: ChangeEnsemble | None = None
        self._doubt: ZbkError | None = None  # why the outcome of the pending one is not known
        self._is_queued = False  # it waits for its turn
        self._has_come = False  # its turn has come once
        self._next_id = 0
        self._made_count = 0
        self._declined: frozenset[int] = frozenset()
        self._again_ms = 0

    def is_due(self, slots: Collection[int], now_ms: int) -> bool:
        """Return whether to ask for other bookies in these slots now."""
        if self.pending is not None:
            return False
        return now_ms >= self._again_ms or not self._declined.issuperset(slots)

    def begin(
        self,
        failed: Mapping[int, str],
        first_entry_id: int,
        now_ms: int,
        *,
        is_urgent: bool,
        length_before: int,
        unsynced: Mapping[int, tuple[EntryBatch, ...]],
    ) -> ChangeEnsemble:
        """Return the change to ask for; the arguments are those of ``ChangeEnsemble``.

        Raises:
            NotEnoughBookiesError: there were too many already.
        """
        assert self.pending is None, "one change at a time"
        if self._made_count >= self._count_max:
            reason = f"the ensemble was changed {self._made_count} times, and bookies still fail"
            raise NotEnoughBookiesError(len(failed), 0, reason)
        self.pending = ChangeEnsemble(
            self._next_id, first_entry_id, dict(failed), is_urgent, length_before, unsynced
        )
        self._next_id += 1
        self._doubt = None
        self._is_queued = self._has_come = False
        self._begin_grace(now_ms)
        return self.pending

    def _begin_grace(self, now_ms: int) -> None:
        self._grace.reset()
        self._grace.is_over(now_ms)

    def turn(self, now_ms: int, *, has_come: bool) -> None:
        """Record that the pending change waits for its turn, or that its turn has come."""
        self._is_queued = not has_come
        if has_come and not self._has_come:
            self._has_come = True
            self._begin_grace(now_ms)

    def again(self, now_ms: int) -> ChangeEnsemble | None:
        """Return the pending change if its outcome is in doubt and it is time to ask again.

        Raises:
            ZbkError: what keeps it in doubt, for too long.
        """
        if self.pending is None or self._is_queued:
            return None
        if self._grace.is_over(now_ms):
            raise self._doubt or self._no_answer(self.pending)
        if self._doubt is None or now_ms < self._again_ms:
            return None
        self._doubt = None
        return self.pending

    def _no_answer(self, change: ChangeEnsemble) -> MetadataUnavailableError:
        failed = ", ".join(f"bookie {change.failed[slot]}" for slot in sorted(change.failed))
        reason = (
            f"no answer for {self._grace_ms / 1000:g} s to the change of the ensemble that "
            f"replaces {failed} from entry {change.first_entry_id} on; `zbk bookie ls` shows "
            "whether it answers now"
        )
        return MetadataUnavailableError("of this ledger", reason)

    # ------------------------------------------------------------------ answers

    def is_answer_valid(self, change_id: int) -> bool:
        """Return whether an answer is to the change that is pending."""
        return self.pending is not None and self.pending.change_id == change_id

    def made(self, replaced_slots: Collection[int], now_ms: int) -> None:
        """Record that the change is settled; slots that it left alone have no replacement yet."""
        assert self.pending is not None, "it was asked for"
        self._made_count += bool(replaced_slots)
        self._decline(self.pending.failed.keys() - set(replaced_slots), now_ms)
        self.pending = None

    def declined(self, now_ms: int) -> None:
        """Record that there is no replacement now."""
        assert self.pending is not None, "it was asked for"
        self._decline(self.pending.failed.keys(), now_ms)
        self.pending = None

    def _decline(self, slots: Collection[int], now_ms: int) -> None:
        self._declined = frozenset(slots)
        if not slots:
            self._pause_ms = self._retry_ms
            return
        self._again_ms = now_ms + self._pause_ms
        self._pause_ms = max(self._retry_ms, min(2 * self._pause_ms, self._pause_ms_max))

    def doubted(self, error: ZbkError, now_ms: int) -> None:
        """Record that the outcome of the change is unknown."""
        self._doubt = error
        self._again_ms = now_ms + self._retry_ms

    def bookies_changed(self) -> None:
        """Record that what was declined may be possible now."""
        self._declined = frozenset()
        self._pause_ms = self._retry_ms

    def cancel(self) -> None:
        """Forget the pending change: the writer has ended."""
        self.pending = None
