"""The bookies and the writer of ``exhaustive``: what recoverers share, as numbered states.

A state is what each bookie holds, which adds are still on their way to it, and the writer. Adds
come just before a request of a recoverer to the same bookie, or never, or behind the end:

  * An add touches one bookie and the writer only, so its order matters against what else reaches
    that bookie, and no more. That it comes later than it could leaves fewer holders at the close.
  * A ledger that was closed is judged by what the writer would acknowledge if every add on its way
    to a bookie that takes it did arrive then. So nothing behind the close needs to be tried.
  * A bookie to which no add is on its way is as good as fenced: nothing else asks for the fence.
  * Writers that will acknowledge the same, whatever arrives, are one (``_writer_class``).
"""

from typing import Any, Final, NamedTuple

from tests.simulation.small_scope import (
    BOOKIES,
    DIGEST,
    LEDGER_ID,
    QUORUM,
    Bookie,
    Parts,
    Scene,
    Switches,
    answer_of,
    new_metadata,
)
from zbk.durability.level import level_of
from zbk.errors import NoSuchEntryError, RequestTimeoutError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.ledger.changes import begin_recovery, change_ensemble, close_by_recovery
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.recovery import events as rec
from zbk.protocol.write import events as wri
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

PAYLOADS: Final = (b"entry 0", b"entry 1")


class Ask(NamedTuple):
    """A request to a bookie, without the number that its client gave it."""

    bookie: int
    kind: str  # fence, read, write
    first: int = 0
    entry_count: int = 0
    lac: int = NO_ENTRY

    def __str__(self) -> str:
        entries = (
            "" if self.kind == "fence" else f" of {self.first}..{self.first + self.entry_count - 1}"
        )
        return f"{self.kind}{entries} reaches {BOOKIES[self.bookie]}"


class Closing(NamedTuple):
    """How a recoverer closes the ledger."""

    fragments: tuple[Fragment, ...]
    last_entry_id: int
    length: int


class _State(NamedTuple):
    writer: int  # its class
    bookies: tuple[int, ...]
    adds: tuple[tuple[int, ...], ...]  # on their way, by bookie


class Cluster:
    """All states of the bookies and the writer, and the steps between them."""

    def __init__(self, scene: Scene, switches: Switches) -> None:
        self._fences = switches.is_read_fencing
        self._parts = Parts()
        self._states: dict[_State, int] = {}
        self._by_number: list[_State] = []
        self._classes: dict[object, int] = {}
        self._class_of: dict[tuple[int, tuple[tuple[int, ...], ...]], int] = {}
        self._writers: list[tuple[int, int]] = []  # by class: a writer, what it will acknowledge
        self._served: dict[tuple[int, Ask], list[tuple[int, int, int]]] = {}
        self._bookie_steps: dict[tuple[int, Ask], tuple[int, int]] = {}
        self._stored: dict[int, frozenset[int]] = {}
        self._entries: dict[int, EntryBatch] = {}
        self.bookie_count = 3 if scene == "one fragment" else 5
        self._new_scene(scene)

    # ------------------------------------------------------------------ starts

    def start(self, lost: frozenset[tuple[int, int]] = frozenset()) -> int:
        """Return the state in which the adds of some entries to some bookies are lost."""
        adds = tuple(
            tuple(a for a in queue if (b, self._parts.part(a).batch.first_entry_id) not in lost)
            for b, queue in enumerate(self._first_adds)
        )
        return self._state(self._first_writer, self._first_bookies, adds)

    @property
    def adds(self) -> list[tuple[int, int]]:
        """The adds under way at the start: bookie and entry."""
        return [
            (bookie, self._parts.part(add).batch.first_entry_id)
            for bookie, queue in enumerate(self._first_adds)
            for add in queue
        ]

    @property
    def last_bookies(self) -> list[int]:
        """The bookies of the last ensemble."""
        return [BOOKIES.index(bookie_id) for bookie_id in self.metadata.last_fragment.bookies]

    # ------------------------------------------------------------------ steps

    def serve(self, state: int, ask: Ask) -> list[tuple[int, int, int]]:
        """Return what may follow a request: the state, the outcome, how many adds were before it.

        The outcome is the LAC for a fence, the count of entries for a read.
        """
        key = (state, ask)
        if key not in self._served:
            self._served[key] = self._serve(self._by_number[state], ask)
        return self._served[key]

    def problem(self, state: int, closing: Closing) -> str:
        """Return what is wrong with closing the ledger so now; nothing if all is well."""
        shared = self._by_number[state]
        _, acked_id = self._writers[shared.writer]
        end = closing.last_entry_id
        if end < acked_id:
            return f"the ledger ends at {end}, entry {acked_id} is acknowledged"
        changed = close_by_recovery(self.metadata, closing.fragments, end, closing.length)
        assert changed is not None, "it is closed once"
        if changed.length != sum(map(len, PAYLOADS[: end + 1])):
            return f"a ledger that ends at {end} has the length {changed.length}"
        for entry_id in range(end + 1):
            fragment, _ = changed.fragment_of(entry_id)
            holders = [
                b
                for b in fragment.bookies
                if entry_id in self._holds(shared.bookies[BOOKIES.index(b)])
            ]
            if len(holders) < QUORUM.ack_size:
                return f"entry {entry_id} of a closed ledger is on {holders} only"
        return ""

    def _serve(self, shared: _State, ask: Ask) -> list[tuple[int, int, int]]:
        found: dict[tuple[int, int], int] = {}
        writer, _ = self._writers[shared.writer]
        bookies, adds, at = shared.bookies, shared.adds, ask.bookie
        for count in range(len(adds[at]) + 1):
            if count:
                bookies, writer = self._add(bookies, writer, at, adds[at][0])
                adds = _put(adds, at, adds[at][1:])
            after, outcome = self._ask(bookies[at], ask)
            left = adds
            if self._parts.part(after).ledger.is_fenced:
                left = _put(adds, at, ())
            state = self._state(writer, _put(bookies, at, after), left)
            found.setdefault((state, outcome), count)
        return [(state, outcome, count) for (state, outcome), count in found.items()]

    def _add(
        self, bookies: tuple[int, ...], writer: int, at: int, add: int
    ) -> tuple[tuple[int, ...], int]:
        bookie = self._parts.part(bookies[at])
        event = answer_of(bookie, self._parts.part(add), is_read_fencing=self._fences)
        return _put(bookies, at, self._parts.number(bookie)), self._tell(writer, event)

    def _tell(self, writer: int, event: object) -> int:
        core, acked_id = self._parts.part(writer)
        for effect in core.handle(event, 0):
            if isinstance(effect, wri.Acked):
                last = max(first + count - 1 for _ticket, first, count in effect.tickets)
                acked_id = max(acked_id, last)
        return self._parts.number((core, acked_id))

    def _ask(self, bookie: int, ask: Ask) -> tuple[int, int]:
        key = (bookie, ask)
        if key not in self._bookie_steps:
            model = self._parts.part(bookie)
            event = answer_of(model, self.request(ask), is_read_fencing=self._fences)
            self._bookie_steps[key] = (self._parts.number(model), self._outcome(ask, event))
        return self._bookie_steps[key]

    def _outcome(self, ask: Ask, event: object) -> int:
        match event:
            case rec.FenceAnswered(_, int() as lac):
                return lac
            case rec.ReadAnswered(_, bytes() as body):
                count = len(body) // self._entries[0].size
                assert body == self.body(ask.first, count), "all copies are alike"
                return count
            case rec.ReadAnswered(_, NoSuchEntryError()) | rec.WriteAnswered(_, None):
                return 0
        raise AssertionError(f"no bookie says {event}")

    # ------------------------------------------------------------------ requests

    def outcomes(self, ask: Ask) -> range:
        """Return every outcome that a request may have."""
        match ask.kind:
            case "fence":
                return range(NO_ENTRY, self.metadata.last_fragment.first_entry_id)
            case "read":
                count = min(ask.entry_count, len(PAYLOADS) - ask.first)
                return range(max(count, 0) + 1)
        return range(1)

    def request(self, ask: Ask) -> object:
        """Return a request as it is sent."""
        bookie_id = BOOKIES[ask.bookie]
        match ask.kind:
            case "fence":
                return rec.SendFence(0, bookie_id)
            case "read":
                return rec.SendRead(0, bookie_id, range(ask.first, ask.first + ask.entry_count))
        ids = range(ask.first, ask.first + ask.entry_count)
        sizes = [self._entries[i].size for i in ids]
        batch = EntryBatch.of(LEDGER_ID, ids, sizes, self.body(ask.first, ask.entry_count))
        return rec.SendWrite(0, bookie_id, batch, ask.lac)

    def body(self, first: int, count: int) -> bytes:
        """Return entries, back to back."""
        return b"".join(self._entries[i].body for i in range(first, first + count))

    def _holds(self, bookie: int) -> frozenset[int]:
        if bookie not in self._stored:
            self._stored[bookie] = frozenset(self._parts.part(bookie).entries)
        return self._stored[bookie]

    # ------------------------------------------------------------------ states by number

    def _state(
        self, writer: int, bookies: tuple[int, ...], adds: tuple[tuple[int, ...], ...]
    ) -> int:
        for at, queue in enumerate(adds):
            if not queue:
                bookies = _put(bookies, at, self._ask(bookies[at], Ask(at, "fence"))[0])
        state = _State(self._writer_class(writer, adds), bookies, adds)
        number = self._states.get(state)
        if number is None:
            number = self._states[state] = len(self._by_number)
            self._by_number.append(state)
        return number

    def _writer_class(self, writer: int, adds: tuple[tuple[int, ...], ...]) -> int:
        key = (writer, adds)
        if key not in self._class_of:
            after: list[object] = []
            last = writer
            for at, queue in enumerate(adds):
                if queue:
                    rest = self._writer_class(
                        self._told(writer, queue[0]), _put(adds, at, queue[1:])
                    )
                    after.append((at, rest, self._writer_class(writer, _put(adds, at, ()))))
                for add in queue:
                    last = self._told(last, add)
            acked_id = self._parts.part(last)[1]
            signature = (acked_id, adds, tuple(after))
            number = self._classes.setdefault(signature, len(self._writers))
            if number == len(self._writers):
                self._writers.append((writer, acked_id))
            self._class_of[key] = number
        return self._class_of[key]

    def _told(self, writer: int, add: int) -> int:
        request = self._parts.part(add)
        first = request.batch.first_entry_id
        event = wri.AddAnswered(request.slot, first, 1, NO_ENTRY, request.epoch)
        return self._tell(writer, event)

    # ------------------------------------------------------------------ scenes

    def _new_scene(self, scene: Scene) -> None:
        metadata = new_metadata(("a", "b", "c"))
        core = WriterCore(
            LEDGER_ID,
            QUORUM,
            level_of(LedgerType.PD_JOURNAL),
            ensemble=("a", "b", "c"),
            digest_type=DigestType.XXH3,
            digest=DIGEST,
            limits=WriterLimits(batch_count_max=1, explicit_lac_ms=0),
        )
        for slot in range(3):
            core.handle(wri.SlotUp(slot, 1), 0)
        bookies = tuple(self._parts.number(Bookie()) for _ in range(self.bookie_count))
        adds = self._append(core, 0)
        writer = self._parts.number((core, NO_ENTRY))
        if scene == "two fragments":
            for add in adds:
                bookies, writer = self._add(bookies, writer, add.slot, self._parts.number(add))
            core, acked_id = self._parts.part(writer)
            assert acked_id == 0
            metadata = _with_change(core, metadata)
            adds = []
        adds += self._append(core, 1)
        if scene == "two fragments":
            writer = self._parts.number((core, 0))
        else:
            writer = self._parts.number((core, NO_ENTRY))
        queues: list[tuple[int, ...]] = [() for _ in bookies]
        for add in adds:
            at = BOOKIES.index(metadata.last_fragment.bookies[add.slot])
            queues[at] = (*queues[at], self._parts.number(add))
        self._first_writer, self._first_bookies = writer, bookies
        self._first_adds = tuple(queues)
        self.metadata: LedgerMetadata = begin_recovery(metadata) or metadata

    def _append(self, core: WriterCore, entry_id: int) -> list[wri.SendAdd]:
        effects = core.handle(wri.Append(entry_id, [PAYLOADS[entry_id]]), 0)
        adds = [e for e in effects if isinstance(e, wri.SendAdd)]
        assert len(adds) == QUORUM.write_size
        self._entries[entry_id] = adds[0].batch
        return adds


def _with_change(core: WriterCore, metadata: LedgerMetadata) -> LedgerMetadata:
    """Replace the bookies a and b of the writer by d and e, from entry 1 on."""
    error = RequestTimeoutError("add", 1.0)
    ensemble = ["a", "b", "c"]
    for slot, new in enumerate(("d", "e")):
        effects = core.handle(wri.SlotDown(slot, error), 0)
        (change,) = [e for e in effects if isinstance(e, wri.ChangeEnsemble)]
        replaced = {slot: (ensemble[slot], new)}
        metadata = change_ensemble(metadata, 1, replaced, change.length_before) or metadata
        ensemble[slot] = new
        core.handle(wri.EnsembleChanged(change.change_id, 1, tuple(ensemble)), 0)
        core.handle(wri.SlotUp(slot, 1), 0)
    return metadata


def _put(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])
