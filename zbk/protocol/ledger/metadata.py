"""The record of a ledger in the metadata store, and its legal changes.

The metadata of a ledger are an immutable value. These changes are legal:

    OPEN         -> OPEN         a new last fragment, or one bookie replaced by another, or a
                                 higher reported LAC
    OPEN         -> IN_RECOVERY
    OPEN         -> CLOSED       by its writer
    IN_RECOVERY  -> IN_RECOVERY  one bookie replaced by another
    IN_RECOVERY  -> CLOSED       by a recoverer, with the fragments that it wrote back to: after
                                 the last fragment, or in its place
    CLOSED       -> CLOSED       one bookie replaced by another, or one fragment cut into several
                                 with the same bookies: a loss on one side of a cut does not
                                 prevent the repair of the other side

In any state its grants may change. Nothing else ever changes: not the sizes, the types, the
password, the id, the owner, the namespace, the creation. A ledger that was created without a writer
can get one, once, while it is OPEN: that compare-and-swap selects its only writer.

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
from zbk.protocol.ledger.access import (
    PLAIN,
    Grants,
    LedgerAccess,
    check_access,
    problem_of_access,
)
from zbk.protocol.ledger.formats import PLAIN_FORMAT_VERSION, format_of
from zbk.protocol.ledger.fragments import Fragment, are_cut, problem_of_change
from zbk.protocol.ledger.quorum import Quorum

__all__ = ["Fragment", "LedgerMetadata", "check_transition"]


class LedgerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a ledger.

    Invariants, checked when it is created:
      * the first fragment starts at entry 0, starts strictly increase;
      * each ensemble has ``ensemble_size`` different bookies;
      * ``last_entry_id`` and ``length`` are given exactly when the state is CLOSED;
      * ``ledger_key`` is a whole key, or empty for ledgers created in format 1;
      * ``length_before`` is given only while the ledger is not CLOSED;
      * ``reported_lac`` is given only while the ledger is not CLOSED;
      * the format is the lowest one that has the fields which are given.

    ``length_before`` is the bytes of payload before the last fragment. The writer that begins a
    fragment records it, so that a recovery that finds the fragment empty knows the ledger's length
    without a bookie of an earlier fragment. If it is not given, the recovery reads the last entry.

    ``reported_lac`` is the highest LAC that a client other than the writer has found out and may
    have reported to anyone; -1 is none. A ledger whose entries may be acknowledged and not synced
    has it from its creation on. Such a client raises it before it reports, so the writer begins no
    fragment at or below it, and no recovery ends below it (``durability.outside_sync``).

    Bookies require the key. The metadata keep it so that a repair can copy entries without the
    ledger's password: a client that can read the metadata can copy entries, as in BookKeeper, whose
    metadata hold the password itself. It cannot forge an entry with a MAC, because the MAC's key
    does not follow from this key. The key is never shown, not even by ``repr``.
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
    creation_token: str  # identifies the create of this client if its reply was lost
    state: LedgerState = LedgerState.OPEN
    last_entry_id: int | None = None
    length: int | None = None  # bytes of payload
    has_writer: bool = True  # false: reserved; the first client to claim it sets it, once
    custom_metadata: dict[str, bytes] = {}
    ledger_key: bytes = b""
    length_before: int | msgspec.UnsetType = msgspec.UNSET  # see above
    reported_lac: int | msgspec.UnsetType = msgspec.UNSET  # see above
    access: LedgerAccess | msgspec.UnsetType = msgspec.UNSET  # no owner, and no grants
    format_version: int = PLAIN_FORMAT_VERSION

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
            return "last entry id and length belong to the state CLOSED only"
        if self.last_entry_id is not None and self.last_entry_id < NO_ENTRY:
            return f"impossible last entry id {self.last_entry_id}"
        return (
            self._length_problem()
            or self._reported_lac_problem()
            or self._access_problem()
            or self._key_problem()
        )

    def _length_problem(self) -> str:
        if self.length is not None and self.length < 0:
            return f"impossible length {self.length}"
        if isinstance(self.length_before, int) and (self.is_closed or self.length_before < 0):
            return f"impossible length {self.length_before} before the last fragment"
        return ""

    def _reported_lac_problem(self) -> str:
        lac = self.reported_lac
        if isinstance(lac, int) and (self.is_closed or lac < NO_ENTRY):
            return f"impossible reported LAC {lac}"
        return ""

    def _access_problem(self) -> str:
        if self.format_version != format_of(self.format_version, self.reported_lac, self.access):
            return f"a reported LAC or an access does not belong to format {self.format_version}"
        return check_access(self.access) if isinstance(self.access, LedgerAccess) else ""

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
        """True when the ledger accepts no more entries and its end is final."""
        return self.state is LedgerState.CLOSED

    @property
    def known_access(self) -> LedgerAccess:
        """The owner, the namespace and the grants; those of a plain ledger if none are given."""
        return self.access or PLAIN

    @property
    def records_reported_lac(self) -> bool:
        """True when a client that reports a LAC has to record it first."""
        return isinstance(self.reported_lac, int)

    @property
    def confirmed_floor(self) -> int:
        """An entry up to which all are confirmed, as these metadata say; -1 is none.

        It is the end of the last fragment but one, or the reported LAC if that is higher.
        """
        start = self.last_fragment.first_entry_id
        return (
            max(start - 1, self.reported_lac) if isinstance(self.reported_lac, int) else start - 1
        )

    @property
    def last_fragment(self) -> Fragment:
        """The fragment to which the writer of an open ledger appends."""
        return self.fragments[-1]

    def fragment_of(self, entry_id: int) -> tuple[Fragment, int | None]:
        """Return the fragment of ``entry_id`` and its last id (``None`` if not known yet)."""
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
            **self._end_of_open(),
        )

    def with_closed_by_recovery(
        self, fragments: Sequence[Fragment], last_entry_id: int, length: int
    ) -> Self:
        """Return the metadata of the ledger closed by a recoverer that wrote to ``fragments``.

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
            **self._end_of_open(),
        )

    def recording_reported_lac(self) -> Self:
        """Return the metadata of a new ledger, or of one without a writer, that will record it."""
        return self._with(reported_lac=NO_ENTRY)

    def owned(self, access: LedgerAccess) -> Self:
        """Return the metadata of a new ledger with an owner, a namespace and grants."""
        return self._with(access=access)

    def with_grants(self, grants: Grants) -> Self:
        """Return the metadata with other grants."""
        access = msgspec.structs.replace(self.known_access, grants=grants)
        return self._changed(access=access)

    def with_reported_lac(self, lac: int) -> Self:
        """Return the metadata with a LAC that may be reported once they are in the store."""
        return self._changed(reported_lac=lac)

    def with_writer(self, *, records_reported_lac: bool = False) -> Self:
        """Return the metadata of a reserved ledger that now has its writer.

        ``records_reported_lac``: others can find out a LAC of it, and have to record it.

        Raises:
            IllegalTransitionError: it has or had a writer.
        """
        if self.has_writer:
            raise IllegalTransitionError(f"ledger {self.ledger_id}", "it has a writer already")
        if not records_reported_lac or self.records_reported_lac:
            return self._changed(has_writer=True)
        return self._changed(has_writer=True, reported_lac=NO_ENTRY)

    def with_recovery(self) -> Self:
        """Return the metadata of the ledger IN_RECOVERY."""
        return self._changed(state=LedgerState.IN_RECOVERY)

    def with_new_fragment(
        self,
        first_entry_id: int,
        bookies: tuple[str, ...],
        length_before: int | msgspec.UnsetType = msgspec.UNSET,
    ) -> Self:
        """Return the metadata with a new last fragment at ``first_entry_id``.

        A last fragment that starts at the same entry is replaced, because none of its entries is
        confirmed.
        ``length_before``: the bytes of payload before it, if the writer knows them.
        """
        kept = self.fragments
        if kept[-1].first_entry_id == first_entry_id:
            kept = kept[:-1]
        fragments = (*kept, Fragment(first_entry_id, bookies))
        return self._changed(fragments=fragments, length_before=length_before)

    def with_replaced_bookie(self, first_entry_id: int, old: str, new: str) -> Self:
        """Return the metadata with ``old`` replaced by ``new`` in one fragment.

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
                after its first one.
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

    def _end_of_open(self) -> dict[str, object]:
        """Return what a closed ledger does not need."""
        return {"length_before": msgspec.UNSET, "reported_lac": msgspec.UNSET}

    def _changed(self, **fields: object) -> Self:
        changed = self._with(**fields)
        check_transition(self, changed)
        return changed

    def _with(self, **fields: object) -> Self:
        """Return the metadata with other fields, in the format that these need."""
        lac = fields.get("reported_lac", self.reported_lac)
        access = fields.get("access", self.access)
        version = format_of(self.format_version, lac, access)
        return msgspec.structs.replace(self, **fields, format_version=version)


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
)

_NEXT_STATES = {
    LedgerState.OPEN: {LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.IN_RECOVERY: {LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.CLOSED: {LedgerState.CLOSED},
}


def check_transition(old: LedgerMetadata, new: LedgerMetadata) -> None:
    """Check that the change from ``old`` to ``new`` is legal.

    Raises:
        IllegalTransitionError: it is not; the text says why.
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
    _check_reported_lac(old, new, name)
    if old.has_writer != new.has_writer and (old.has_writer or new.state is not LedgerState.OPEN):
        raise IllegalTransitionError(name, "only an open ledger without a writer gets one, once")
    problem = problem_of_access(old.access, new.access)
    if new.format_version != format_of(old.format_version, new.reported_lac, new.access):
        problem = problem or "format_version never changes"
    if not (problem or are_cut(old.fragments, new.fragments, old.last_entry_id)):
        problem = problem_of_change(old.fragments, new.fragments, (old.state, new.state))
    if problem:
        raise IllegalTransitionError(name, problem)


def _check_reported_lac(old: LedgerMetadata, new: LedgerMetadata, name: str) -> None:
    """Check that a reported LAC only grows, and that nothing begins or ends below it."""
    before, after = old.reported_lac, new.reported_lac
    if isinstance(before, int) and new.is_closed:
        end = new.last_entry_id
        assert end is not None, "it is closed"
        if end < before:
            problem = f"it cannot end at {end}, because entries up to {before} were reported"
            raise IllegalTransitionError(name, problem)
    elif isinstance(before, int):
        if not isinstance(after, int) or after < before:
            raise IllegalTransitionError(name, "the reported LAC never falls")
        start = new.last_fragment.first_entry_id
        if start != old.last_fragment.first_entry_id and start <= before:
            problem = f"no fragment begins at {start}, because entries up to {before} were reported"
            raise IllegalTransitionError(name, problem)
    elif isinstance(after, int) and (old.has_writer or after != NO_ENTRY):
        raise IllegalTransitionError(name, "a ledger records reported LACs from its first entry on")
