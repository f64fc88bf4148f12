"""Every interleaving of a small striped VD ledger, with a crash and a change of its ensemble.

A writer appends some entries, each a batch of its own, and syncs. In any order:

    a request reaches its bookie, an answer reaches the writer; each connection keeps its order
    a bookie syncs by itself
    one bookie loses its power, and with it what it has not synced; the connection breaks
    it starts again, and the writer hears of it
    the writer no longer waits for answers before it asks for a change of the ensemble
    the change is declined, or a new bookie catches up; then the metadata name it, and later the
    writer hears of that

In every state the promises of ``striped_promises`` hold.
The entries that a recovery would find follow: an entry with Qa holders is never denied by as many
bookies of its write set as it takes to leave it out.

    python -m tests.simulation.striped_search     the large scopes, to their ends
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from tests.simulation.small_scope import Parts
from tests.simulation.striped_promises import broken_promise
from tests.simulation.striped_scope import (
    BOOKIES,
    ToBookie,
    VolatileBookie,
    answer_of,
    new_core,
    new_ledger,
)
from zbk.errors import BookieUnavailableError, NotEnoughBookiesError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.changes import change_ensemble
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write import events as ev
from zbk.protocol.write.catch_up import CatchUp
from zbk.protocol.write.ensemble_keeper import STAYING_WAIT_MS
from zbk.protocol.write.writer import WriterCore

NOTHING: Final = -1
STATE_COUNT_MAX: Final = 5_000_000


class Scope(msgspec.Struct, frozen=True):
    """What happens in a search."""

    quorum: Quorum
    entry_count: int
    crashing: frozenset[int] = frozenset(range(3))  # one of the bookies of these slots crashes
    has_change: bool = True
    syncs_by_itself: bool = True


LARGE: Final = (
    Scope(Quorum(3, 2, 2), 3),
    Scope(Quorum(3, 2, 1), 2),
    Scope(Quorum(3, 2, 1), 3, frozenset({1}), syncs_by_itself=False),
    Scope(Quorum(4, 3, 2), 2, frozenset({0}), syncs_by_itself=False),
    Scope(Quorum(4, 3, 2), 2, frozenset({1}), syncs_by_itself=False),
)
"""In 4/3/2 the bookies that stay are an ack quorum, in the others they are not, or one alone is."""


class Found(msgspec.Struct):
    """What a search came to."""

    state_count: int = 0
    violation: str = ""
    story: list[str] = []
    changed_count: int = 0  # states whose ledger has two fragments
    highest_lac: int = NO_ENTRY


class _State(NamedTuple):
    """Everything by number of its part, so that a step costs little."""

    writer: int
    metadata: int
    bookies: tuple[int, ...]
    requests: tuple[tuple[int, ...], ...]  # by slot: what is on its way
    answers: tuple[tuple[int, ...], ...]
    down: frozenset[int]  # slots whose bookie is to be connected
    crashes_left: int
    is_joining: int  # the slot of a new bookie that the writer has not heard of


class _Writer(NamedTuple):
    core: WriterCore
    acked_id: int  # what the application knows
    change: ev.ChangeEnsemble | None  # that was asked for


class _View(NamedTuple):
    """What the next steps depend on in a writer."""

    bookies: tuple[str, ...]
    change: ev.ChangeEnsemble | None  # that was asked for
    is_waiting: bool  # before it asks for one


_Told: TypeAlias = tuple[int, tuple[tuple[int, int], ...]]
"""The writer after an event, and its requests by slot."""


class StripedSearch:
    """A breadth-first search of one scope. What a part does with another one is kept by number."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._parts = Parts()
        self._told: dict[tuple[int, int], _Told] = {}
        self._served: dict[tuple[int, int], tuple[int, int]] = {}
        self._synced: dict[int, int] = {}
        self._lives: dict[int, int] = {}
        self._views: dict[int, _View] = {}
        self._judged: dict[tuple[int, int, tuple[int, ...], int], str] = {}

    def run(self, state_count_max: int = STATE_COUNT_MAX) -> Found:
        """Look at every state; stop at the first that breaks a promise."""
        found = Found()
        start = self._start()
        parents: dict[_State, tuple[_State, str] | None] = {start: None}
        queue = deque([start])
        while queue:
            state = queue.popleft()
            found.violation = self._problem(state, found)
            if found.violation:
                found.story = _story(parents, state)
                break
            for text, after in self._steps(state):
                if after not in parents:
                    parents[after] = (state, text)
                    queue.append(after)
            assert len(parents) <= state_count_max, "the scope is too large"
        found.state_count = len(parents)
        return found

    # ------------------------------------------------------------------ steps

    def _start(self) -> _State:
        scope, number = self._scope, self._parts.number
        size = scope.quorum.ensemble_size
        state = _State(
            number(_Writer(new_core(scope.quorum), NO_ENTRY, None)),
            number(new_ledger(scope.quorum)),
            tuple(number(VolatileBookie()) for _ in range(size + scope.has_change)),
            ((),) * size,
            ((),) * size,
            frozenset(),
            int(bool(scope.crashing)),
            NOTHING,
        )
        events: list[ev.Event] = [ev.SlotUp(slot, 1) for slot in range(size)]
        events += [ev.Append(one, [b"entry %d" % one]) for one in range(scope.entry_count)]
        for event in (*events, ev.SyncRequested("sync")):
            state = self._tell(state, event)
        return state

    def _tell(self, state: _State, event: ev.Event | int) -> _State:
        """Hand the writer an event, or the one with this number."""
        event_no = event if isinstance(event, int) else self._parts.number(event)
        key = (state.writer, event_no)
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = self._handle(*key)
        requests = state.requests
        for slot, request in told[1]:
            requests = _put(requests, slot, (*requests[slot], request))
        return state._replace(writer=told[0], requests=requests)

    def _handle(self, writer: int, event: int) -> _Told:
        core, acked_id, change = self._parts.part(writer)
        sends = []
        event = self._parts.part(event)
        now_ms = STAYING_WAIT_MS if isinstance(event, ev.Tick) else 0
        for effect in core.handle(event, now_ms):
            match effect:
                case ev.SendAdd(slot, batch, lac, epoch):
                    sends.append((slot, ToBookie(slot, epoch, batch, 0, lac)))
                case ev.SendSync(slot, sync_id, lac, epoch):
                    sends.append((slot, ToBookie(slot, epoch, None, sync_id, lac)))
                case ev.Acked(tickets):
                    last = max(first + count - 1 for _ticket, first, count in tickets)
                    acked_id = max(acked_id, last)
                case ev.ChangeEnsemble():
                    change = effect
                case _:
                    pass  # answers of syncs, and a suspect slot: its bookie has crashed
        if isinstance(event, ev.EnsembleChanged | ev.EnsembleChangeFailed):
            change = None
        number = self._parts.number
        _normalize(core)
        after = number(_Writer(core, acked_id, change))
        return after, tuple((slot, number(request)) for slot, request in sends)

    def _view(self, writer: int) -> _View:
        if writer not in self._views:
            core, _, change = self._parts.part(writer)
            is_waiting = change is None and core._keeper._wait_began_ms is not None
            self._views[writer] = _View(core.slots.bookies, change, is_waiting)
        return self._views[writer]

    def _steps(self, state: _State) -> Iterator[tuple[str, _State]]:
        bookies, change, is_waiting = self._view(state.writer)
        for slot, bookie_id in enumerate(bookies):
            yield from self._steps_of_slot(state, slot, BOOKIES.index(bookie_id))
        if self._scope.syncs_by_itself:
            yield from self._fsyncs(state)
        if state.is_joining != NOTHING:
            yield self._hear_of_change(state, change)
        elif change is not None:
            yield from self._settle(state, change)
        elif is_waiting:
            yield "the writer has waited long enough", self._tell(state, ev.Tick())

    def _steps_of_slot(self, state: _State, slot: int, number: int) -> Iterator[tuple[str, _State]]:
        name = BOOKIES[number]
        requests, answers = state.requests[slot], state.answers[slot]
        if requests:
            bookie, answer = self._serve(state.bookies[number], requests[0])
            yield (
                f"a request reaches {name}",
                state._replace(
                    bookies=_put(state.bookies, number, bookie),
                    requests=_put(state.requests, slot, requests[1:]),
                    answers=_put(state.answers, slot, (*answers, answer)),
                ),
            )
        if answers:
            after = state._replace(answers=_put(state.answers, slot, answers[1:]))
            yield f"an answer of {name} reaches the writer", self._tell(after, answers[0])
        if slot in state.down:
            bookie = self._parts.part(state.bookies[number])
            after = state._replace(down=state.down - {slot})
            yield f"{name} is connected", self._tell(after, ev.SlotUp(slot, bookie.incarnation))
        elif state.crashes_left and slot in self._scope.crashing and number == slot:
            yield f"{name} loses its power", self._crash(state, slot, number)

    def _crash(self, state: _State, slot: int, number: int) -> _State:
        before = state.bookies[number]
        if before not in self._lives:
            bookie = self._parts.part(before)
            self._lives[before] = self._parts.number(bookie.after_power_loss())
        after = state._replace(
            bookies=_put(state.bookies, number, self._lives[before]),
            requests=_put(state.requests, slot, ()),
            answers=_put(state.answers, slot, ()),
            down=state.down | {slot},
            crashes_left=state.crashes_left - 1,
        )
        error = BookieUnavailableError(BOOKIES[number], "it has no power")
        return self._tell(after, ev.SlotDown(slot, error))

    def _serve(self, bookie: int, request: int) -> tuple[int, int]:
        key = (bookie, request)
        if key not in self._served:
            model, number = self._parts.part(bookie), self._parts.number
            answer = answer_of(model, self._parts.part(request), self._scope.quorum)
            self._served[key] = number(model), number(answer)
        return self._served[key]

    def _fsyncs(self, state: _State) -> Iterator[tuple[str, _State]]:
        for number, bookie in enumerate(state.bookies):
            if bookie not in self._synced:
                model = self._parts.part(bookie)
                model.fsync()
                self._synced[bookie] = self._parts.number(model)
            if self._synced[bookie] != bookie:
                bookies = _put(state.bookies, number, self._synced[bookie])
                yield f"{BOOKIES[number]} syncs by itself", state._replace(bookies=bookies)

    def _hear_of_change(
        self, state: _State, change: ev.ChangeEnsemble | None
    ) -> tuple[str, _State]:
        assert change is not None, "it was asked for"
        slot, last = state.is_joining, self._parts.part(state.metadata).last_fragment
        after = state._replace(
            requests=_put(state.requests, slot, ()),
            answers=_put(state.answers, slot, ()),
            down=state.down | {slot},  # the new one is to be connected
            is_joining=NOTHING,
        )
        event = ev.EnsembleChanged(change.change_id, last.first_entry_id, last.bookies)
        return "the writer hears of the change", self._tell(after, event)

    def _settle(self, state: _State, change: ev.ChangeEnsemble) -> Iterator[tuple[str, _State]]:
        metadata = self._parts.part(state.metadata)
        if self._scope.has_change and len(metadata.fragments) == 1:
            yield self._replace(state, metadata, change)
        error = NotEnoughBookiesError(1, 0, "there is no other one")
        event = ev.EnsembleChangeFailed(change.change_id, error)
        yield "the change is declined", self._tell(state, event)

    def _replace(
        self, state: _State, metadata: LedgerMetadata, change: ev.ChangeEnsemble
    ) -> tuple[str, _State]:
        quorum = self._scope.quorum
        (slot,) = change.failed
        number = quorum.ensemble_size
        catch_up = CatchUp(change, {slot: (change.failed[slot], BOOKIES[number])})
        bookie: VolatileBookie = self._parts.part(state.bookies[number])
        for send in catch_up.sends:
            for batch in send.batches:
                bookie.add(slot, 0, batch, send.lac, quorum)
                catch_up.added(slot, None)
            catch_up.synced(slot, bookie.sync(slot, send.lac, quorum))
        assert catch_up.is_over
        assert catch_up.caught_up, catch_up.failures
        first, length = change.first_entry_id, change.length_before
        changed = change_ensemble(metadata, first, catch_up.caught_up, length)
        return f"{BOOKIES[number]} catches up and is in the metadata", state._replace(
            metadata=self._parts.number(changed),
            bookies=_put(state.bookies, number, self._parts.number(bookie)),
            is_joining=slot,
        )

    # ------------------------------------------------------------------ the promises

    def _problem(self, state: _State, found: Found) -> str:
        core, acked_id, _ = self._parts.part(state.writer)
        lac = core.path.lac
        found.highest_lac = max(found.highest_lac, lac)
        metadata = self._parts.part(state.metadata)
        found.changed_count += len(metadata.fragments) > 1
        key = (lac, state.metadata, state.bookies, acked_id)
        if key not in self._judged:
            bookies = [self._parts.part(one) for one in state.bookies]
            self._judged[key] = broken_promise(metadata, bookies, lac, acked_id)
        return self._judged[key]


def _normalize(core: WriterCore) -> None:
    """Remove from a writer what it does not use again, and orders that mean nothing."""
    core._effects = []
    core._now_ms = 0
    now = core._syncs._round
    if now is not None:
        now.heard = dict(sorted(now.heard.items()))
        now.errors = dict(sorted(now.errors.items()))


def _put(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _story(parents: dict[_State, tuple[_State, str] | None], state: _State) -> list[str]:
    lines = []
    before = parents[state]
    while before is not None:
        lines.append(before[1])
        before = parents[before[0]]
    return lines[::-1]


def main() -> int:
    """Search the large scopes to their ends; return the exit code."""
    is_sound = True
    for scope in LARGE:
        begun_s = time.process_time()
        found = StripedSearch(scope).run()
        is_sound = is_sound and not found.violation
        sizes = "/".join(map(str, msgspec.structs.astuple(scope.quorum)))
        slots = ", ".join(map(str, sorted(scope.crashing)))
        seconds = time.process_time() - begun_s
        end = found.violation or "no violation"
        sys.stdout.write(
            f"{sizes}, {scope.entry_count} entries, a crash in slot {slots}, "
            f"{'with' if scope.syncs_by_itself else 'without'} syncs of bookies: "
            f"{found.state_count:,} states, {found.changed_count:,} with two fragments, "
            f"{seconds:.0f} s of processor time: {end}\n"
        )
        sys.stdout.flush()
    return 0 if is_sound else 1


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.simulation.striped_search",
        description="Search the large scopes to their ends.",
    ).parse_args()
    sys.exit(main())
