"""The sync of an open VD ledger by a client that is not its writer.

The client asks every bookie of the ensemble to fsync and to report its sync cursor; the LAC follows
from the cursors (``SyncedLac``). If the LAC grew, the client sends it to the bookies, which raises
the cursor of a bookie with a hole over that hole. So it asks all of them again, until the LAC does
not grow.

Before a higher LAC is sent, and before the sync fails, the client reads the metadata again. A
bookie that was replaced meanwhile may have entries of the new fragment, for example because it left
limbo with copies of them, but a recovery does not ask it. So cursors count only if the metadata are
still those that named the bookies. If they changed, the next round asks the bookies that they name
now. The writer replaces a bookie at a sync point only, so what an unchanged ensemble has synced
stays there.

    heard      the bookie reported a cursor, or has no such ledger: nothing is synced there
    not heard  every other case

If fewer than Qa bookies are heard, the durable end is unknown and the sync fails. While a writer
appends, the LAC may grow without end: after ``ROUND_COUNT_MAX`` rounds the sync ends with the
entries that are durable then.

Source: the relaxed-durability proposal, section LAC Advance Protocol.
"""

from typing import Final, TypeAlias

import msgspec

from zbk.durability.synced_lac import SyncedLac
from zbk.errors import CannotAdvanceError, NoSuchLedgerError, ZbkError
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.procedure import Steps

ROUND_COUNT_MAX: Final = 16


class AskSync(msgspec.Struct, frozen=True):
    """Ask all bookies, by slot, to fsync.

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


Effect: TypeAlias = AskSync | TellLac | ReadMetadata


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
            is_short = self._quorum.ensemble_size - len(failures) < self._quorum.ack_size
            if self._lac == before and not is_short:
                break
            metadata, version = yield from self._look()
            if metadata.last_entry_id is not None:
                return metadata.last_entry_id
            is_changed = version != self._version
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
        return max(self._floor, self._synced.lac)

    def _adopt(self, metadata: LedgerMetadata, version: int) -> None:
        self._metadata = metadata
        self._version = version
        self._bookies = metadata.last_fragment.bookies
        self._floor = metadata.last_fragment.first_entry_id - 1
        self._synced = SyncedLac(self._quorum)

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

    def _look(self) -> Steps[Effect, tuple[LedgerMetadata, int]]:
        metadata, version = yield ReadMetadata()
        return metadata, version
