"""What the metadata store and the placement do for a writer in a ``WriterCluster``."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from zbk.durability.level import level_of
from zbk.errors import MetadataUnavailableError, NotEnoughBookiesError, ZbkError
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.changes import change_ensemble
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.placement import Candidate, RandomPlacement
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.catch_up import CatchUp, SendCatchUp
from zbk.protocol.write.events import ChangeEnsemble, EnsembleChanged, EnsembleChangeFailed


class Store(Enum):
    """What becomes of one compare-and-swap."""

    ANSWERS = "answers"
    LOSES_REQUEST = "loses the request"
    LOSES_REPLY = "loses the reply"


class FakeMetadata:
    """One ledger's metadata, and what the writer has asked for.

    ``writable`` returns the bookies that take new entries, in the order in which they are chosen;
    ``catch_up`` carries out what a new one is sent, and returns the outcome of its sync.
    """

    def __init__(
        self,
        ledger_id: int,
        quorum: Quorum,
        ledger_type: LedgerType,
        ensemble: Sequence[str],
        writable: Callable[[], list[str]],
        catch_up: Callable[[SendCatchUp], int | ZbkError],
    ) -> None:
        metadata = LedgerMetadata(
            ledger_id=ledger_id,
            ensemble_size=quorum.ensemble_size,
            write_quorum_size=quorum.write_size,
            ack_quorum_size=quorum.ack_size,
            ledger_type=ledger_type,
            digest_type=DigestType.XXH3,
            password_digest=b"",
            fragments=(Fragment(0, tuple(ensemble)),),
            created_ms=0,
            creation_token="t",
        )
        is_volatile = level_of(ledger_type).has_sync_cursor
        self.ledger = metadata.recording_reported_lac() if is_volatile else metadata
        self.asked: list[ChangeEnsemble] = []
        self.failed: set[str] = set()
        self._writable = writable
        self._ensemble = tuple(ensemble)
        self._catch_up = catch_up
        self._decided: tuple[int, Mapping[int, tuple[str, str]]] = (-1, {})

    def names(self, entry_id: int) -> list[str]:
        """Return the bookies that the metadata name for an entry."""
        fragment, _last = self.ledger.fragment_of(entry_id)
        return [fragment.bookies[slot] for slot in self.ledger.quorum.write_set(entry_id)]

    def ask(self, change: ChangeEnsemble, ensemble: Sequence[str]) -> None:
        """Take a request; it waits until ``serve``."""
        assert not self.asked, "one change at a time"
        self.asked.append(change)
        self.failed |= set(change.failed.values())
        self._ensemble = tuple(ensemble)

    def serve(self, store: Store) -> EnsembleChanged | EnsembleChangeFailed:
        """Carry out the request that waits."""
        change = self.asked.pop(0)
        if self._decided[0] != change.change_id:
            self._decided = (change.change_id, self._caught_up(change))
        replaced = self._decided[1]
        if not replaced:
            error: ZbkError = NotEnoughBookiesError(len(change.failed), 0, "no replacement")
            return EnsembleChangeFailed(change.change_id, error)
        if store is not Store.LOSES_REQUEST:
            try:
                changed = change_ensemble(
                    self.ledger, change.first_entry_id, replaced, change.length_before
                )
            except ZbkError as error:
                return EnsembleChangeFailed(change.change_id, error)
            self.ledger = changed or self.ledger
        if store is not Store.ANSWERS:
            return EnsembleChangeFailed(change.change_id, MetadataUnavailableError("m", "silence"))
        last = self.ledger.last_fragment
        return EnsembleChanged(change.change_id, last.first_entry_id, last.bookies)

    def _caught_up(self, change: ChangeEnsemble) -> Mapping[int, tuple[str, str]]:
        catch_up = CatchUp(change, self._choose(change))
        for send in catch_up.sends:
            for _batch in send.batches:
                catch_up.added(send.slot, None)
            catch_up.synced(send.slot, self._catch_up(send))
        assert catch_up.is_over
        self.failed |= set(catch_up.failures)
        return catch_up.caught_up

    def _choose(self, change: ChangeEnsemble) -> dict[int, tuple[str, str]]:
        free = [Candidate(bookie_id) for bookie_id in self._writable()]
        exclude = set() if change.is_urgent else self.failed
        found = RandomPlacement().replacements(
            free, self._ensemble, change.failed, exclude, self.failed
        )
        return {slot: (change.failed[slot], new) for slot, new in found.items()}
