"""Judges a history: which promises of a ledger were broken, and the story of each breach.

``check(history)`` is a function of what clients saw (``Event``) and of what the metadata was; it
looks at no disk. Each check is linear, or sorts. The names I1 to I36 are those of the reliability
plan:

    I1   an acknowledged PD entry is in the ledger for ever, with its value
    I2   the end of a closed ledger is behind every acknowledged PD entry and every LAC; one close
    I3   all reads of an entry give the same value; nothing is read behind the end, no hole before
    I4   a value read was added, to this ledger, under this id and no other
    I5   acks come in order, without a hole
    I6   the LAC of a handle never goes down, and is never behind the end
    I8   what was read once, confirmed, is never again "no such entry"
    I9   after a recovery ended at k nothing behind k is, or was, acknowledged or synced
    I11  a closed ledger's end never changes                     (tests.support.checker_metadata)
    I12  only legal transitions                                  (same)
    I13  fragments start where they may                          (same)
    I14  close() is ok only at the end that the metadata has, behind all acks
    I15  all recoveries end at the same entry
    I16  a recovery keeps every acknowledged PD entry, LAC, and synced entry
    I17  sync() covers what was acknowledged before it, and never goes back
    I20  a VD entry that was acknowledged survives killed processes
    I29  nothing is acknowledged after delete() returned
    I31  a ledger id is given out once
    I34  a log is one sequence                                   (tests.support.checker_logs)

I18, I19 and I32 need no checks of their own: read everything at the end, after the faults, and
I1 to I4, I8 and I16 find what is missing.

Values must differ within a ledger: a payload that is added twice cannot be told apart.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from tests.support.history import FAILED_FSYNC, POWER_LOSS, Event, History, MetadataVersion
from zbk.protocol.entry.words import NO_ENTRY, LedgerState, LedgerType

STORY_LINE_COUNT_MAX: Final = 80

_ADDS = ("add", "log_append")
_READS = ("read", "log_read")
_ANY_READS = (*_READS, "read_unconfirmed")


class Violation(msgspec.Struct, frozen=True):
    """A broken promise, and what led to it."""

    invariant: str
    text: str
    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.invariant}: {self.text}", *self.story])


class LedgerCase:
    """All that is known of one ledger."""

    def __init__(self, ledger_id: int, history: History) -> None:
        self.ledger_id = ledger_id
        self.history = history
        self.events: list[Event] = []
        self.versions: list[MetadataVersion] = []
        self.values: dict[int, str] = {}  # by entry id: what was acknowledged
        self.acks: list[Event] = []
        self.added: set[str] = set()  # values
        self.appended: set[str] = set()  # to its log: to which ledger only the answer tells

    # ------------------------------------------------------------------ as it was

    def take(self, event: Event) -> None:
        """Take in an event of this ledger."""
        self.events.append(event)
        if event.call in _ADDS and event.value_hash is not None:
            self.added.add(event.value_hash)
            if event.kind == "ok" and event.entry_id is not None:
                self.values.setdefault(event.entry_id, event.value_hash)
                self.acks.append(event)

    def ends(self, *calls: str, kind: str = "ok") -> Iterator[Event]:
        """Yield the ends of calls."""
        return (e for e in self.events if e.call in calls and e.kind == kind)

    @property
    def is_pd(self) -> bool:
        """True unless the metadata says that acks come before fsync."""
        return not self.versions or not self.ledger_type.is_volatile

    @property
    def ledger_type(self) -> LedgerType:
        return self.versions[0].metadata.ledger_type

    @property
    def closing(self) -> MetadataVersion | None:
        """The first version that is closed."""
        return next((v for v in self.versions if v.metadata.is_closed), None)

    @property
    def last_entry_id(self) -> int | None:
        """The end, if there is one."""
        return None if self.closing is None else self.closing.metadata.last_entry_id

    @property
    def is_closed_by_recovery(self) -> bool:
        """True when a recoverer closed it."""
        states = [v.metadata.state for v in self.versions]
        return LedgerState.IN_RECOVERY in states

    @property
    def acked_id(self) -> int:
        """The highest id acknowledged."""
        return max(self.values, default=NO_ENTRY)

    def is_closed_at(self, event: Event) -> bool:
        """Return whether the ledger was closed when this happened, as far as is known."""
        if not self.history.metadata.is_complete:
            return True
        return self.closing is not None and self.closing.index < event.index

    def invoked_at(self, event: Event) -> int:
        """Return the index at which a call began."""
        return event.index if event.invoked_at is None else event.invoked_at

    # ------------------------------------------------------------------ what is wrong

    def violation(self, invariant: str, text: str, *entry_ids: int) -> Violation:
        """Return a violation with the events of this ledger, of these entries if any are given."""
        values = {self.values[e] for e in entry_ids if e in self.values}
        chosen: list[tuple[int, str]] = [
            (e.index, str(e)) for e in self.events if _is_about(e, entry_ids, values)
        ]
        chosen += [(v.index, str(v)) for v in self.versions]
        chosen += [
            (e.index, str(e)) for e in self.history if e.ledger_id is None and e.kind == "info"
        ]
        lines = [line for _index, line in sorted(chosen)]
        if len(lines) > STORY_LINE_COUNT_MAX:
            half = STORY_LINE_COUNT_MAX // 2
            lines = [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]
        return Violation(invariant, f"ledger {self.ledger_id}: {text}", tuple(lines))


def check(history: History) -> list[Violation]:
    """Return every broken promise in a history; none is good."""
    from tests.support.checker_logs import check_logs  # noqa: PLC0415 - they build on this module
    from tests.support.checker_metadata import check_metadata  # noqa: PLC0415

    violations = list(_check_ids(history))
    may_lose_cache = any(e.call in (POWER_LOSS, FAILED_FSYNC) for e in history)
    for case in cases_of(history):
        violations += _check_acks(case)
        violations += _check_end(case)
        violations += _check_reads(case)
        violations += _check_absences(case)
        violations += _check_lacs(case)
        violations += _check_recoveries(case, may_lose_cache=may_lose_cache)
        violations += _check_closes(case)
        violations += _check_syncs(case)
        violations += check_metadata(case)
    violations += check_logs(history)
    return violations


def cases_of(history: History) -> list[LedgerCase]:
    """Return what is known of each ledger, by id."""
    cases: dict[int, LedgerCase] = {}

    def case_of(ledger_id: int) -> LedgerCase:
        return cases.setdefault(ledger_id, LedgerCase(ledger_id, history))

    for event in history:
        if event.ledger_id is not None:
            case_of(event.ledger_id).take(event)
    for version in history.metadata.ledgers:
        case_of(version.ledger_id).versions.append(version)
    _add_logged(history, cases.values())
    return [cases[ledger_id] for ledger_id in sorted(cases)]


def _add_logged(history: History, cases: Collection[LedgerCase]) -> None:
    """Take in what was appended to logs: an append does not know its ledger when it begins."""
    logged = {e.value_hash for e in history if e.call == "log_append" and e.value_hash is not None}
    for case in cases:
        if any(e.call in ("log_append", "log_read") for e in case.events):
            case.added |= logged


def _check_ids(history: History) -> Iterator[Violation]:
    seen: dict[int, Event] = {}
    for event in history:
        if event.call == "create" and event.kind == "ok" and event.ledger_id is not None:
            other = seen.setdefault(event.ledger_id, event)
            if other is not event:
                text = f"ledger id {event.ledger_id} was given out twice"
                yield Violation("I31", text, (str(other), str(event)))


def _check_acks(case: LedgerCase) -> Iterator[Violation]:
    last: dict[str, int] = {}
    for ack in case.ends("add"):
        expected = last.get(ack.process, NO_ENTRY) + 1
        if ack.entry_id is None:
            continue
        if ack.entry_id != expected:
            text = f"{ack.process} got the ack of {ack.entry_id}, {expected} comes next"
            yield case.violation("I5", text, ack.entry_id, expected)
        last[ack.process] = ack.entry_id
        if case.values[ack.entry_id] != ack.value_hash:
            text = f"entry {ack.entry_id} was acknowledged twice, with different values"
            yield case.violation("I5", text, ack.entry_id)
    deleted = next((e.index for e in case.ends("delete")), None)
    for ack in case.acks:
        if deleted is not None and case.invoked_at(ack) > deleted:
            yield case.violation("I29", f"entry {ack.entry_id} was acknowledged after the delete")


def _check_end(case: LedgerCase) -> Iterator[Violation]:
    closings = [
        b
        for a, b in zip(case.versions, case.versions[1:], strict=False)
        if b.metadata.is_closed and not a.metadata.is_closed
    ]
    if len(closings) > 1:
        yield case.violation("I2", "was closed twice")
    end = case.last_entry_id
    if end is None:
        return
    name = "I16" if case.is_closed_by_recovery else "I2"
    if case.is_pd and case.acked_id > end:
        text = f"closed at {end}, entry {case.acked_id} was acknowledged"
        yield case.violation(name, text, end + 1, case.acked_id)
    for event in case.ends("read_lac", "sync", "open"):
        if event.result is not None and event.result > end:
            text = f"closed at {end}, {event.call} of {event.process} said {event.result}"
            yield case.violation(name, text, event.result)
            return


def _check_reads(case: LedgerCase) -> Iterator[Violation]:
    seen: dict[int, Event] = {}  # the first read of each entry
    ids: dict[str, int] = {}
    end = case.last_entry_id
    for event in case.ends(*_ANY_READS):
        if event.entry_id is None or event.value_hash is None:
            continue
        entry_id, value = event.entry_id, event.value_hash
        yield from _check_value(case, entry_id, value)
        first = seen.setdefault(entry_id, event)
        is_confirmed = event.call in _READS
        if first.value_hash != value and (is_confirmed or first.call in _READS):
            text = f"entry {entry_id} was read with two values, {first.value_hash} and {value}"
            yield case.violation("I3", text, entry_id)
        if is_confirmed and ids.setdefault(value, entry_id) != entry_id:
            yield case.violation("I4", f"value {value} was read as {ids[value]} and {entry_id}")
        is_after = end is not None and entry_id > end
        if is_confirmed and is_after:
            yield case.violation("I3", f"entry {entry_id} was read, the end is {end}", entry_id)


def _check_absences(case: LedgerCase) -> Iterator[Violation]:
    end, closing = case.last_entry_id, case.closing
    confirmed: dict[int, int] = {}
    deleting = next((e.index for e in case.events if e.call == "delete"), None)
    for event in case.events:
        if event.call not in _READS or event.entry_id is None:
            continue
        entry_id = event.entry_id
        if event.kind == "ok":
            confirmed.setdefault(entry_id, event.index)
        if event.kind != "fail" or event.error != "NoSuchEntryError":
            continue
        if deleting is not None and deleting < event.index:
            continue
        begun = case.invoked_at(event)
        if confirmed.get(entry_id, event.index) < begun:
            yield case.violation("I8", f"entry {entry_id} was read, and is gone", entry_id)
        if case.is_pd and entry_id in case.values:
            text = f"entry {entry_id} was acknowledged, and there is no such entry"
            yield case.violation("I1", text, entry_id)
        is_within = end is not None and entry_id <= end
        if closing is not None and is_within and closing.index < begun:
            text = f"closed at {end}, and there is no entry {entry_id}"
            yield case.violation("I3", text, entry_id)


def _check_value(case: LedgerCase, entry_id: int, value: str) -> Iterator[Violation]:
    acked = case.values.get(entry_id)
    if acked is not None and acked != value:
        text = f"entry {entry_id} was acknowledged as {acked} and read as {value}"
        yield case.violation("I1" if case.is_pd else "I3", text, entry_id)
    if value not in case.added and value not in case.appended:
        yield case.violation("I4", f"entry {entry_id} has the value {value}: nobody added it")


def _check_lacs(case: LedgerCase) -> Iterator[Violation]:
    highest: dict[str, int] = defaultdict(lambda: NO_ENTRY)
    for event in case.ends("read_lac", "open"):
        if event.result is None:
            continue
        if event.result < highest[event.process]:
            text = f"the LAC of {event.process} went from {highest[event.process]} back to"
            yield case.violation("I6", f"{text} {event.result}")
        highest[event.process] = max(highest[event.process], event.result)


def _check_recoveries(case: LedgerCase, *, may_lose_cache: bool) -> Iterator[Violation]:
    recoveries = [e for e in case.ends("recover") if e.result is not None]
    if not recoveries:
        return
    results = {e.result for e in recoveries}
    end = min(result for result in results if result is not None)
    if len(results) > 1 or end != case.last_entry_id:
        ends = sorted(result for result in results if result is not None)
        text = f"recoveries ended at {ends}, the metadata says {case.last_entry_id}"
        yield case.violation("I15", text)
    if not case.is_closed_at(recoveries[0]):
        yield case.violation("I15", f"a recovery ended at {end}, and it was not closed")
    is_kept = case.is_pd or not may_lose_cache
    if is_kept and (case.is_pd or case.is_closed_by_recovery):
        name = "I9" if case.is_pd else "I20"
        late = [ack for ack in case.acks if ack.entry_id is not None and ack.entry_id > end]
        if late:
            text = f"a recovery ended at {end}, entry {late[0].entry_id} was acknowledged"
            yield case.violation(name, text, end + 1, late[0].entry_id or 0)
    for event in case.ends("sync"):
        if event.result is not None and event.result > end:
            text = f"a recovery ended at {end}, sync() of {event.process} said {event.result}"
            yield case.violation("I9", text, event.result)


def _check_closes(case: LedgerCase) -> Iterator[Violation]:
    for event in case.ends("close"):
        if event.result is None or not case.versions:
            continue
        mine = [e for e in case.events if e.process == event.process and e.call in _ADDS]
        acked = [e.entry_id for e in mine if e.kind == "ok" and e.entry_id is not None]
        last = max(acked, default=NO_ENTRY)
        # an append of many that failed may have been acknowledged in part, unheard
        has_unknown = len(acked) < sum(e.kind == "invoke" for e in mine)
        if not case.is_closed_at(event):
            yield case.violation("I14", f"close() said {event.result}, and it was not closed")
        elif event.result != case.last_entry_id:
            text = f"close() said {event.result}, the metadata says {case.last_entry_id}"
            yield case.violation("I14", text)
        elif event.result < last or (event.result > last and not has_unknown):
            text = f"close() said {event.result}, entry {last} is the last one acknowledged"
            yield case.violation("I14", text, max(0, last))


def _check_syncs(case: LedgerCase) -> Iterator[Violation]:
    highest: dict[str, int] = defaultdict(lambda: NO_ENTRY)
    acked: dict[str, list[tuple[int, int]]] = defaultdict(list)  # index, entry id: ascending
    begun: dict[str, int] = defaultdict(int)
    for event in case.events:
        name = event.process
        if event.call in _ADDS and event.kind == "invoke":
            begun[name] += 1
        elif event.call in _ADDS and event.kind == "ok" and event.entry_id is not None:
            acked[name].append((event.index, event.entry_id))
        elif event.call == "sync" and event.kind == "ok" and event.result is not None:
            result = event.result
            needed = _last_before(acked[name], case.invoked_at(event))
            if result < needed:
                text = f"sync() said {result}, entry {needed} was acknowledged before"
                yield case.violation("I17", text, needed)
            if result < highest[name]:
                yield case.violation("I17", f"sync() said {highest[name]}, then {result}")
            if name in begun and result >= begun[name]:
                text = f"sync() said {result}, {begun[name]} entries were added"
                yield case.violation("I17", text, result)
            highest[name] = max(highest[name], result)


def _last_before(acked: Sequence[tuple[int, int]], index: int) -> int:
    return max((entry_id for at, entry_id in acked if at < index), default=NO_ENTRY)


def _is_about(event: Event, entry_ids: Sequence[int], values: set[str]) -> bool:
    if event.call not in (*_ADDS, *_ANY_READS) or not entry_ids:
        return True
    return event.entry_id in entry_ids or event.value_hash in values
