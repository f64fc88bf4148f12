"""What the metadata store keeps of a ledger, and the ways in which it may change.

A ledger's metadata is an immutable value; each change makes a new one, and is legal or not:

    OPEN         -> OPEN         a new last fragment, or one bookie replaced by another
    OPEN         -> IN_RECOVERY
    OPEN         -> CLOSED       by its writer
    IN_RECOVERY  -> IN_RECOVERY  one bookie replaced by another
    IN_RECOVERY  -> CLOSED       by a recoverer, with the fragments that it wrote back to: after
                                 the last one, or in its place
    CLOSED       -> CLOSED       one bookie replaced by another, or one fragment cut into several
                                 with the same bookies: what is lost on one side of a cut does not
                                 keep the other side from being repaired

Nothing else may change, ever: not the sizes, the types, the password, the id, the creation. A
ledger that was made without a writer may get one, once, while it is OPEN: the compare-and-swap
that says so picks the single writer.

Source: BookKeeper's ``LedgerMetadata`` and ``MetadataUpdateLoop``; the protocol page, section
Ledger metadata.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import msgspec

from zbk.errors import IllegalTransitionError
from zbk.protocol.entry.digest import LEDGER_KEY_SIZE
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.quorum import Quorum

METADATA_FORMAT_VERSION = 2
"""2 added ``ledger_key``: a zbk that knew only 1 would lose it with the next change."""


class Fragment(msgspec.Struct, frozen=True):
    """A run of entries that share one ensemble."""

    first_entry_id: int
    bookies: tuple[str, ...]  # bookie ids, by slot


class LedgerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger as the metadata store knows it.

    Invariants, checked when it is made:
      * the first fragment starts at entry 0, starts strictly increase;
      * each ensemble has ``ensemble_size`` different bookies;
      * ``last_entry_id`` and ``length`` are given exactly when the state is CLOSED;
      * ``ledger_key`` is a whole key, or none: of ledgers made in format 1;
      * ``length_before`` is given only while the ledger is not CLOSED.

    ``length_before`` is the bytes of payload before the last fragment. The writer that begins a
    fragment notes it, so that a recovery that finds the fragment empty knows the ledger's length
    without a bookie of an earlier fragment. Where it is not given, the last entry is read.

    The key is what bookies want to see. It is kept so that what a lost bookie held can be copied
    without the ledger's password: whoever may read the metadata may have entries copied, as in
    BookKeeper, whose metadata hold the password itself; yet nobody can make up an entry with a MAC,
    as the MAC's key does not follow from this one. It is never shown, by ``repr`` neither.
    """

    ledger_id: int
    ensemble_size: int
    write_quorum_size: int
    ack_quorum_size: int
    ledger_type: LedgerType
    digest_type: DigestType
    password_digest: bytes
    fragments: tuple[Fragment, ...]
    created_ms: int  # wall clock, for people
    creation_token: str  # tells our own create, whose reply was lost, from somebody else's
    state: LedgerState = LedgerState.OPEN
    last_entry_id: int | None = None
    length: int | None = None  # bytes of payload
    has_writer: bool = True  # false: reserved; becomes true once, by whoever claims it first
    custom_metadata: dict[str, bytes] = {}
    ledger_key: bytes = b""
    length_before: int | msgspec.UnsetType = msgspec.UNSET  # see above
    format_version: int = METADATA_FORMAT_VERSION

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise IllegalTransitionError(f"ledger {self.ledger_id}", problem)

    def _problem(self) -> str:
        starts = [fragment.first_entry_id for fragment in self.fragments]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            return f"fragments must start at 0 and grow, not {starts}"
        for fragment in self.fragments:
            if len(set(fragment.bookies)) != len(fragment.bookies) or (
                len(fragment.bookies) != self.ensemble_size
            ):
                return f"an ensemble needs {self.ensemble_size} different bookies"
        is_closed = self.state is LedgerState.CLOSED
        if is_closed != (self.last_entry_id is not None) or is_closed != (self.length is not None):
            return "last entry id and length belong to CLOSED, and to nothing else"
        if self.last_entry_id is not None and self.last_entry_id < NO_ENTRY:
            return f"impossible last entry id {self.last_entry_id}"
        return self._length_problem() or self._key_problem()

    def _length_problem(self) -> str:
        if self.length is not None and self.length < 0:
            return f"impossible length {self.length}"
        if isinstance(self.length_before, int) and (self.is_closed or self.length_before < 0):
            return f"impossible length {self.length_before} before the last fragment"
        return ""

    def _key_problem(self) -> str:
        if len(self.ledger_key) not in (0, LEDGER_KEY_SIZE):
            return f"a ledger key has {LEDGER_KEY_SIZE} bytes, not {len(self.ledger_key)}"
        return ""

    def __repr__(self) -> str:
        named = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = ", ".join(f"{name}={value!r}" for name, value in named if name != "ledger_key")
        return f"LedgerMetadata({shown})"

    @property
    def quorum(self) -> Quorum:
        """The three sizes."""
        return Quorum(self.ensemble_size, self.write_quorum_size, self.ack_quorum_size)

    @property
    def is_closed(self) -> bool:
        """True when nobody can add any more and the end is known."""
        return self.state is LedgerState.CLOSED

    @property
    def last_fragment(self) -> Fragment:
        """The fragment that an open ledger is written to."""
        return self.fragments[-1]

    def fragment_of(self, entry_id: int) -> tuple[Fragment, int | None]:
        """Return the fragment of ``entry_id`` and its last id (``None``: not known yet)."""
        assert entry_id >= 0, "entry ids start at 0"
        end: int | None = self.last_entry_id
        for fragment in reversed(self.fragments):
            if fragment.first_entry_id <= entry_id:
                return fragment, end
            end = fragment.first_entry_id - 1
        raise AssertionError("the first fragment starts at 0")

    def with_closed(self, last_entry_id: int, length: int) -> Self:
        """Return the metadata of the ledger closed at ``last_entry_id`` (-1: empty)."""
        return self._changed(
            state=LedgerState.CLOSED,
            last_entry_id=last_entry_id,
            length=length,
            length_before=msgspec.UNSET,
        )

    def with_closed_by_recovery(
        self, fragments: Sequence[Fragment], last_entry_id: int, length: int
    ) -> Self:
        """Return the metadata closed, with the fragments that a recoverer wrote entries back to.

        The first one replaces the last fragment of the ledger if it starts at the same entry.
        """
        kept = self.fragments
        if fragments and fragments[0].first_entry_id == kept[-1].first_entry_id:
            kept = kept[:-1]
        return self._changed(
            state=LedgerState.CLOSED,
            fragments=(*kept, *fragments),
            last_entry_id=last_entry_id,
            length=length,
            length_before=msgspec.UNSET,
        )

    def with_writer(self) -> Self:
        """Return the metadata of a reserved ledger that now has its one writer.

        Raises:
            IllegalTransitionError: it has, or had, one.
        """
        if self.has_writer:
            raise IllegalTransitionError(
                f"ledger {self.ledger_id}", "it has its one writer already"
            )
        return self._changed(has_writer=True)

    def with_recovery(self) -> Self:
        """Return the metadata of the ledger while it is recovered."""
        return self._changed(state=LedgerState.IN_RECOVERY)

    def with_new_fragment(
        self,
        first_entry_id: int,
        bookies: tuple[str, ...],
        length_before: int | msgspec.UnsetType = msgspec.UNSET,
    ) -> Self:
        """Return the metadata with a new last ensemble from ``first_entry_id`` on.

        A last fragment that starts at the same entry is replaced: it never held anything.
        ``length_before``: the bytes of payload up to there, where the writer knows them.
        """
        kept = self.fragments
        if kept[-1].first_entry_id == first_entry_id:
            kept = kept[:-1]
        fragments = (*kept, Fragment(first_entry_id, bookies))
        return self._changed(fragments=fragments, length_before=length_before)

    def with_replaced_bookie(self, first_entry_id: int, old: str, new: str) -> Self:
        """Return the metadata with ``new`` in the place of ``old`` in one fragment.

        Raises:
            IllegalTransitionError: there is no such fragment, or ``old`` is not in it.
        """
        if not any(f.first_entry_id == first_entry_id and old in f.bookies for f in self.fragments):
            raise IllegalTransitionError(
                f"ledger {self.ledger_id}", f"bookie {old} is in no fragment at {first_entry_id}"
            )
        fragments = tuple(
            Fragment(f.first_entry_id, tuple(new if b == old else b for b in f.bookies))
            if f.first_entry_id == first_entry_id
            else f
            for f in self.fragments
        )
        return self._changed(fragments=fragments)

    def with_cut_fragment(self, first_entry_id: int, starts: Sequence[int]) -> Self:
        """Return the metadata with one fragment cut before each of ``starts``, ascending.

        Raises:
            IllegalTransitionError: the ledger is not CLOSED, or these are not ids of the fragment
                behind its first one.
        """
        fragment, last = self.fragment_of(first_entry_id)
        if fragment.first_entry_id != first_entry_id or last is None or starts[-1] > last:
            raise IllegalTransitionError(
                f"ledger {self.ledger_id}", f"no fragment at {first_entry_id} is cut at {starts}"
            )
        index = self.fragments.index(fragment)
        parts = (Fragment(start, fragment.bookies) for start in (first_entry_id, *starts))
        return self._changed(
            fragments=(*self.fragments[:index], *parts, *self.fragments[index + 1 :])
        )

    def _changed(self, **fields: object) -> Self:
        changed = msgspec.structs.replace(self, **fields)
        check_transition(self, changed)
        return changed


_FIXED = (
    "ledger_id",
    "ensemble_size",
    "write_quorum_size",
    "ack_quorum_size",
    "ledger_type",
    "digest_type",
    "password_digest",
    "created_ms",
    "creation_token",
    "custom_metadata",
    "ledger_key",
    "format_version",
)

_NEXT_STATES = {
    LedgerState.OPEN: {LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.IN_RECOVERY: {LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.CLOSED: {LedgerState.CLOSED},
}


def check_transition(old: LedgerMetadata, new: LedgerMetadata) -> None:
    """Accept a legal change from ``old`` to ``new``.

    Raises:
        IllegalTransitionError: says what may not change.
    """
    name = f"ledger {old.ledger_id}"
    for field in _FIXED:
        if getattr(old, field) != getattr(new, field):
            raise IllegalTransitionError(name, f"{field} never changes")
    if new.state not in _NEXT_STATES[old.state]:
        raise IllegalTransitionError(name, f"{old.state} does not become {new.state}")
    if old.is_closed and (old.last_entry_id, old.length) != (new.last_entry_id, new.length):
        raise IllegalTransitionError(name, "a closed ledger's end never changes")
    if new.length_before not in (old.length_before, msgspec.UNSET) and (
        new.last_fragment == old.last_fragment
    ):
        raise IllegalTransitionError(name, "the length before the last fragment never changes")
    if old.has_writer != new.has_writer and (old.has_writer or new.state is not LedgerState.OPEN):
        raise IllegalTransitionError(name, "only an open ledger without a writer gets one, once")
    problem = "" if _is_cut(old, new) else _fragment_problem(old, new)
    if problem:
        raise IllegalTransitionError(name, problem)


def _fragment_problem(old: LedgerMetadata, new: LedgerMetadata) -> str:
    """Return what is wrong with the change of fragments, or nothing.

    Of the fragments that were there one bookie may have been replaced, or the last ensemble as a
    whole: of an open ledger, if it held nothing yet, as its writer knows; at the end of a recovery,
    if all that it held was written back. New ones come at the end: one of an open ledger, any
    number with the closing of a recovery, which kept them to itself.
    """
    kept = new.fragments[: len(old.fragments)]
    if [f.first_entry_id for f in kept] != [f.first_entry_id for f in old.fragments]:
        return "the starts of fragments never change"
    added_count = len(new.fragments) - len(old.fragments)
    is_open = old.state is new.state is LedgerState.OPEN
    is_recovered = old.state is LedgerState.IN_RECOVERY and new.is_closed
    if added_count and not (is_recovered or (is_open and added_count == 1)):
        return f"{added_count} fragments are not added from {old.state} to {new.state}"
    changed = [(a, b) for a, b in zip(old.fragments, kept, strict=True) if a != b]
    if not changed:
        return ""
    if changed == [(old.fragments[-1], kept[-1])] and (
        is_recovered or (is_open and not added_count)
    ):
        return ""
    replaced_count = sum(
        x != y for a, b in changed for x, y in zip(a.bookies, b.bookies, strict=True)
    )
    if replaced_count != 1 or added_count:
        return "one bookie of one fragment is replaced at a time"
    return ""


def _is_cut(old: LedgerMetadata, new: LedgerMetadata) -> bool:
    """Return whether the one change is that a closed ledger's fragment became several.

    They have its bookies, and none of them lies behind the end.
    """
    last, added_count = old.last_entry_id, len(new.fragments) - len(old.fragments)
    if last is None or added_count < 1:
        return False
    before = old.fragments
    for index, fragment in enumerate(before):
        stop = index + added_count + 1
        parts = new.fragments[index:stop]
        others = (*new.fragments[:index], *new.fragments[stop:])
        if others == (*before[:index], *before[index + 1 :]) and parts[0] == fragment:
            is_inside = parts[-1].first_entry_id <= last
            return is_inside and all(part.bookies == fragment.bookies for part in parts)
    return False
