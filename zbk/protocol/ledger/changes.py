"""The changes that writers and recoverers make to a ledger's metadata.

Each is a function from the metadata as they are now to the metadata as they should be, or ``None``
if nothing is left to do: what ``LedgerStore.update`` wants. It is called again with fresh metadata
whenever somebody else was quicker, so everything is decided on what is there now, and what others
changed meanwhile stays:

    somebody replaced a bookie in an old fragment    kept, beside our change
    somebody began a recovery                        a writer stops: ``LedgerFencedError``
    somebody closed the ledger                       a writer stops: ``LedgerClosedError``;
                                                     a recoverer adopts that end

Decision: a ledger IN_RECOVERY is an error for a writer that closes it, as the page says
(BookKeeper's code overrides it; both are safe, because the recoverer's closing compare-and-swap
decides).

Source: "The BookKeeper protocol", Closing a ledger, Ensemble changes; BookKeeper's
``MetadataUpdateLoop``, ``LedgerHandle``, ``EnsembleUtils``, ``ReadOnlyLedgerHandle``.
"""

from collections.abc import Mapping, Sequence

import msgspec

from zbk.errors import IllegalTransitionError, LedgerClosedError, LedgerFencedError
from zbk.protocol.entry.words import LedgerState
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata


def close_by_writer(
    current: LedgerMetadata, last_entry_id: int, length: int
) -> LedgerMetadata | None:
    """Return the ledger closed by its writer; ``None`` if it is closed just so already.

    Raises:
        LedgerFencedError: somebody recovers it; what is acknowledged stays in the ledger.
        LedgerClosedError: somebody closed it at another end.
    """
    match current.state:
        case LedgerState.OPEN:
            return current.with_closed(last_entry_id, length)
        case LedgerState.IN_RECOVERY:
            raise LedgerFencedError(current.ledger_id)
        case LedgerState.CLOSED:
            if (current.last_entry_id, current.length) == (last_entry_id, length):
                return None
            raise LedgerClosedError(current.ledger_id, current.last_entry_id)


def change_ensemble(
    current: LedgerMetadata,
    first_entry_id: int,
    replaced: Mapping[int, tuple[str, str]],
    length_before: int | msgspec.UnsetType = msgspec.UNSET,
) -> LedgerMetadata | None:
    """Return the ledger with other bookies from ``first_entry_id`` on, as its writer needs them.

    ``length_before``: the bytes of payload before that entry, if the writer knows them.

    ``replaced`` has, by slot, the failed bookie and the new one. A slot in which the failed bookie
    sits no more is left alone; ``None``: that is so of all of them. A last fragment that starts at
    the same entry is replaced: it never held anything.

    Raises:
        LedgerFencedError: somebody recovers the ledger.
        LedgerClosedError: somebody closed it.
        IllegalTransitionError: the last fragment starts later than ``first_entry_id``.
    """
    match current.state:
        case LedgerState.IN_RECOVERY:
            raise LedgerFencedError(current.ledger_id)
        case LedgerState.CLOSED:
            raise LedgerClosedError(current.ledger_id, current.last_entry_id)
        case LedgerState.OPEN:
            before = current.last_fragment.bookies
            bookies = _with_replacements(before, replaced)
            if bookies == before:
                return None
            return current.with_new_fragment(first_entry_id, bookies, length_before)


def begin_recovery(current: LedgerMetadata) -> LedgerMetadata | None:
    """Return the ledger as being recovered; ``None`` if it is already, or is closed."""
    return current.with_recovery() if current.state is LedgerState.OPEN else None


def begin_recovery_of(current: LedgerMetadata, fragment: Fragment) -> LedgerMetadata | None:
    """Return the ledger as being recovered, if ``fragment`` is still the last one.

    ``None`` if it is not, or nothing is left to begin: its writer has moved on and is not stopped.
    """
    return begin_recovery(current) if current.last_fragment == fragment else None


def close_by_recovery(
    current: LedgerMetadata, fragments: Sequence[Fragment], last_entry_id: int, length: int
) -> LedgerMetadata | None:
    """Return the ledger closed by a recoverer; ``None`` if somebody closed it: adopt that end.

    ``fragments``, ascending, are those that the recoverer wrote entries back to and kept to itself.
    The first one may start where the last fragment of the ledger does, and takes its place then:
    every entry of it was written back.

    Raises:
        IllegalTransitionError: the ledger is not IN_RECOVERY; a fragment starts before the last one
            of the ledger does, or after the end.
    """
    if current.is_closed:
        return None
    name = f"ledger {current.ledger_id}"
    last_start = current.last_fragment.first_entry_id
    if current.state is not LedgerState.IN_RECOVERY:
        raise IllegalTransitionError(name, f"a recoverer does not close a ledger {current.state}")
    if last_entry_id < last_start - 1:
        raise IllegalTransitionError(
            name, f"it cannot end at {last_entry_id}, before its last fragment, at {last_start}"
        )
    starts = [fragment.first_entry_id for fragment in fragments]
    if starts and not last_start <= starts[0] <= starts[-1] <= last_entry_id:
        raise IllegalTransitionError(
            name,
            f"fragments written back at {starts} do not fit between its last fragment, at "
            f"{last_start}, and its end {last_entry_id}",
        )
    return current.with_closed_by_recovery(fragments, last_entry_id, length)


def replace_bookie(
    current: LedgerMetadata, first_entry_id: int, slot: int, old: str, new: str
) -> LedgerMetadata | None:
    """Return the ledger with ``new`` in the place of ``old`` in the fragment at ``first_entry_id``.

    ``None`` if ``old`` is not in that slot any more: somebody else was quicker. ``new`` has to hold
    all that is due on the slot: who calls has copied it. It is the slot that counts and not the
    name alone: a bookie that was replaced may have come back, in another slot, for other entries.

    Raises:
        IllegalTransitionError: ``new`` is in the ensemble already.
    """
    is_there = any(
        fragment.first_entry_id == first_entry_id and fragment.bookies[slot] == old
        for fragment in current.fragments
    )
    return current.with_replaced_bookie(first_entry_id, old, new) if is_there else None


def cut_fragment(
    current: LedgerMetadata, first_entry_id: int, starts: Sequence[int]
) -> LedgerMetadata | None:
    """Return the closed ledger with the fragment at ``first_entry_id`` cut before ``starts``.

    ``None`` if no fragment that starts there has all of these ids any more: somebody else has cut
    it.

    Raises:
        IllegalTransitionError: the ledger is not CLOSED.
    """
    starts_now = [fragment.first_entry_id for fragment in current.fragments]
    if first_entry_id not in starts_now or any(
        first_entry_id < start <= starts[-1] for start in starts_now
    ):
        return None
    return current.with_cut_fragment(first_entry_id, starts)


def _with_replacements(
    bookies: tuple[str, ...], replaced: Mapping[int, tuple[str, str]]
) -> tuple[str, ...]:
    changed = list(bookies)
    for slot, (old, new) in replaced.items():
        if changed[slot] == old:
            changed[slot] = new
    return tuple(changed)
