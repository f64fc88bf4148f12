"""The changes that writers and recoverers make to a ledger's metadata.

Each change is a function from the present metadata to the wanted metadata, or ``None`` if nothing
remains to be done, as ``LedgerStore.update`` expects. ``update`` calls it again with fresh metadata
whenever another client was faster. So a change is always decided on the present metadata, and keeps
the changes of other clients:

    a bookie was replaced in an old fragment    kept, beside the own change
    a recovery began                            a writer stops: ``LedgerFencedError``
    the ledger was closed                       a writer stops: ``LedgerClosedError``;
                                                a recoverer adopts that end

Decision: a writer that closes a ledger IN_RECOVERY gets an error, as the protocol page says.
(BookKeeper's code overrides it. Both are safe, because the recoverer's closing compare-and-swap
decides.)

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
    """Return the ledger closed by its writer; ``None`` if it is closed at this end already.

    Raises:
        LedgerFencedError: it is being recovered; acknowledged entries stay in the ledger.
        LedgerClosedError: another client closed it at another end.
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
    """Return the ledger with other bookies from ``first_entry_id`` on.

    ``first_entry_id`` follows the writer's LAC. If the metadata record that others reported more,
    the new bookies begin after that: it stays with the present ones, of whom an ack quorum has
    synced it.

    ``length_before``: the bytes of payload before ``first_entry_id``, if the writer knows them.

    ``replaced`` has, by slot, the failed bookie and the new one. A slot without the failed bookie
    does not change; ``None`` if no slot changes. A last fragment that starts at the same entry is
    replaced, because none of its entries is confirmed: the new bookies have those that were
    acknowledged.

    Raises:
        LedgerFencedError: the ledger is being recovered.
        LedgerClosedError: the ledger is closed.
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
            reported_lac = current.reported_lac
            if isinstance(reported_lac, int) and reported_lac >= first_entry_id:
                return current.with_new_fragment(reported_lac + 1, bookies)
            return current.with_new_fragment(first_entry_id, bookies, length_before)


def report_lac(current: LedgerMetadata, fragment: Fragment, lac: int) -> LedgerMetadata | None:
    """Return the ledger with a LAC that a client other than the writer is about to report.

    ``fragment`` is the one whose bookies have synced the entries up to it. ``None`` if the ledger
    has it already, or is not OPEN, or if the fragment is not the last one any more: then the LAC
    must not be reported.
    """
    is_last = current.state is LedgerState.OPEN and current.last_fragment == fragment
    if not is_last or lac <= current.confirmed_floor:
        return None
    return current.with_reported_lac(lac)


def begin_recovery(current: LedgerMetadata) -> LedgerMetadata | None:
    """Return the ledger IN_RECOVERY; ``None`` if it is so already, or is closed."""
    return current.with_recovery() if current.state is LedgerState.OPEN else None


def begin_recovery_of(current: LedgerMetadata, fragment: Fragment) -> LedgerMetadata | None:
    """Return the ledger IN_RECOVERY if ``fragment`` is still its last one.

    ``None`` if it is not, because its writer is alive and has moved on, or if the ledger is not
    OPEN.
    """
    return begin_recovery(current) if current.last_fragment == fragment else None


def close_by_recovery(
    current: LedgerMetadata, fragments: Sequence[Fragment], last_entry_id: int, length: int
) -> LedgerMetadata | None:
    """Return the ledger closed by a recoverer; ``None`` if it is closed already: adopt that end.

    ``fragments``, ascending, are those that the recoverer wrote entries back to and did not
    publish. The first one may start at the same entry as the last fragment of the ledger, and then
    replaces it: every entry of that fragment was written back.

    Raises:
        IllegalTransitionError: the ledger is not IN_RECOVERY; or a fragment starts before the last
            one of the ledger, or after the end.
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
    """Return the ledger with ``old`` replaced by ``new`` in the fragment at ``first_entry_id``.

    ``None`` if ``old`` is not in that slot any more, because another client was faster. The caller
    has copied every entry of the slot to ``new``. The slot counts, not the name alone: a bookie
    that was replaced may be back in another slot, for other entries.

    Raises:
        IllegalTransitionError: ``new`` is already in the ensemble.
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

    ``None`` if no fragment that starts there has all of these ids any more, because another client
    has cut it.

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
