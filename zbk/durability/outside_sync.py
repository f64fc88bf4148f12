"""The sync of an open VD ledger by a client that is not its writer.

The client asks every bookie of the ensemble to fsync and to report its sync cursor; the LAC follows
from the cursors (``SyncedLac``). If the LAC grew, the client sends it to the bookies, which raises
the cursor of a bookie with a hole over that hole. So it asks all of them again, until the LAC does
not grow.

Before a higher LAC is sent, the client records it in the metadata, by compare-and-swap
(``changes.report_lac``): the writer may not have learned it, and would begin a new fragment below
it, with another bookie. A recovery would then ask a bookie that lacks what was reported. The record
succeeds only while the fragment whose bookies were asked is the last one, so what they have synced
stays in that fragment. The writer begins every later fragment above the record.

A bookie that was replaced meanwhile may have entries of the new fragment, for example because it
left limbo with copies of them, but a recovery does not ask it. So the client reads the metadata
again also before the sync fails, and if they changed, the next round asks the bookies that they
name now. Old ledgers have no record. Their writers replace a bookie only when all that they have
sent is acknowledged and durable, so there it suffices to read the metadata again.

    heard      the bookie reported a cursor, or has no such ledger: nothing is synced there
    not heard  every other case

If fewer than Qa bookies of a write set are heard, the durable end is unknown and the sync fails.
While a writer appends, the LAC may grow without end: after ``ROUND_COUNT_MAX`` rounds the sync ends
with the entries that are durable then.

Source: the relaxed-durability proposal, section LAC Advance Protocol.
"""

from collections.abc import Collection
from typing import Final, TypeAlias

import msgspec

from zbk.durability.synced_lac import SyncedLac
from zbk.errors import CannotAdvanceError, NoSuchLedgerError, ZbkError
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.procedure import Steps

ROUND_COUNT_MAX: Final = 16


class AskSync(msgspec.Struct, frozen=True):
    """Ask all bookies, by slot, to fsync; on a striped ledger each with its stripe.

    Answer: the ``Cursor`` or the error of each, by slot, in the order in which they came.
    """

    bookies: tuple[str, ...]
    lac: int


class Cursor(msgspec.Struct, frozen=True):
    """A bookie has fsynced and reports its cursor."""

    incarnation: int
    last_add_synced: int


class TellLac(msgspec.Struct, frozen=True):
    """Send the LAC to all bookies. Answer: ``None``; a silent bookie gets it later."""

    bookies: tuple[str, ...]
    lac: int


class ReadMetadata(msgspec.Struct, frozen=True):
    """Read the metadata, with every change made until now. Answer: they and their version."""


class RecordLac(msgspec.Struct, frozen=True):
    """Record a LAC that this fragment's bookies have synced, before it is sent to anyone.

    Answer: the metadata after it, and their version. They have the LAC, or show why not.
    """

    fragment: Fragment
    lac: int


Effect: TypeAlias = AskSync | TellLac | ReadMetadata | RecordLac


class OutsideSync:
    """One sync: rounds that ask every slot for its cursor, then send every slot the LAC.

    The entry before the first one of the last fragment is durable already. A bookie that joined
    with that fragment may not have the ledger yet.
    """

    def __init__(self, metadata: LedgerMetadata, version: int) -> None:
        self._ledger_id = metadata.ledger_id
        self._quorum = metadata.quorum
        self._adopt(metadata, version)

    def run(self) -> Steps[Effect, int]:
        """Sync; return the last entry that is durable, with all before it, on an ack quorum.

        Raises:
            CannotAdvanceError: too few bookies were heard.
            NoSuchLedgerError, MetadataUnavailableError: the answers to ``ReadMetadata``.
        """
        for round_number in range(1, ROUND_COUNT_MAX + 1):
            before = self._lac
            failures = yield from self._ask()
            is_short = self._is_short(failures)
            if self._lac == before and not is_short:
                break
            metadata, version, is_changed = yield from self._look(before)
            if metadata.last_entry_id is not None:
                return metadata.last_entry_id
            if is_changed and round_number < ROUND_COUNT_MAX:
                self._adopt(metadata, version)
            elif is_changed or is_short:
                texts = [f"slot {slot}: {error}" for slot, error in sorted(failures.items())]
                reason = "; ".join(texts) or f"the metadata changed in {ROUND_COUNT_MAX} rounds"
                raise CannotAdvanceError(self._ledger_id, before, None, reason)
            else:
                yield TellLac(self._bookies, self._lac)
        return self._lac

    @property
    def _lac(self) -> int:
        return self._synced.lac

    def _adopt(self, metadata: LedgerMetadata, version: int) -> None:
        self._version = version
        self._fragment = metadata.last_fragment
        self._bookies = self._fragment.bookies
        self._records = metadata.records_reported_lac
        self._synced = SyncedLac(self._quorum, metadata.confirmed_floor)

    def _ask(self) -> Steps[Effect, dict[int, ZbkError]]:
        """Ask all slots for their cursors; return the errors of those that were not heard."""
        failures: dict[int, ZbkError] = {}
        answers: dict[int, Cursor | ZbkError] = yield AskSync(self._bookies, self._lac)
        for slot, answer in answers.items():
            if isinstance(answer, Cursor):
                self._synced.update(slot, answer.incarnation, answer.last_add_synced)
            elif not isinstance(answer, NoSuchLedgerError):
                failures[slot] = answer
        return failures

    def _is_short(self, failures: Collection[int]) -> bool:
        """Return whether a write set has fewer slots that were heard than an ack quorum."""
        quorum = self._quorum
        heard_counts = [sum(slot not in failures for slot in one) for one in quorum.write_sets]
        return min(heard_counts) < quorum.ack_size

    def _look(self, before: int) -> Steps[Effect, tuple[LedgerMetadata, int, bool]]:
        """Read the metadata; record a LAC above ``before`` in them, if they have a place for it.

        Return them, their version, and whether the cursors are void.
        """
        lac = self._lac
        if lac == before or not self._records:
            metadata, version = yield ReadMetadata()
            return metadata, version, version != self._version
        metadata, version = yield RecordLac(self._fragment, lac)
        is_last = metadata.state is LedgerState.OPEN and metadata.last_fragment == self._fragment
        is_recorded = is_last and metadata.confirmed_floor >= lac
        if is_recorded:
            self._version = version
        return metadata, version, not is_recorded
