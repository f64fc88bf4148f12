"""Every interleaving of a small scope: E = Qw = 3, Qa = 2, two entries, a writer, two recoverers.

Breadth first over all orders in which requests reach bookies, with at most one lost message and one
crash of a bookie, on the real ``WriterCore``, ``RecoveryCore``, ``BookieLedger`` and changes of
metadata. The bookies are exact and tiny: what they take is on stable storage.

What makes it small enough:
  * A bookie's answer arrives when it is given. Late acks are no worse for safety than early ones,
    and a recoverer's decisions depend on who said what only. The writer never hears of refusals and
    time-outs: it goes on as if nothing had happened.
  * Time-outs come when their client waits for nothing else.
  * A writer or a recoverer that dies is one of which nothing more is delivered: every state of such
    a run is met anyway, so nobody dies here but bookies, with all that is on its way to them.
  * An add to a bookie matters only before or behind what else reaches that bookie: it comes just
    before a request of a recoverer, or when no recoverer is at work any more.
  * What can change nothing is taken away: adds on their way to a fenced bookie, and reads of a
    recoverer that is done, which could but fence.
  * Once the ledger is closed, recoverers are taken away: they could but adopt its end. Recoverers
    are all alike, so that who is who does not matter.
  * Messages between two nodes keep their order; a recoverer's write-backs come one by one.
  * The parts of a state are kept once, by number, and each step of a part is computed once: a state
    is a tuple of small integers.

Two scenes: a ledger with one fragment, and one whose writer has replaced two bookies behind entry
0, so that the last ensemble hardly knows of it.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from tests.simulation.small_scope import (
    BOOKIES,
    DIGEST,
    LEDGER_ID,
    QUORUM,
    Bookie,
    answer_of,
    failure_of,
    new_metadata,
    renumbered,
)
from zbk.durability.level import level_of
from zbk.errors import (
    NotEnoughBookiesError,
    RequestTimeoutError,
)
from zbk.protocol import recovery_events as rec
from zbk.protocol import writer_events as wri
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.metadata_changes import begin_recovery, change_ensemble, close_by_recovery
from zbk.protocol.recovery import RecoveryCore
from zbk.protocol.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.writer import WriterCore

WRITER: Final = 0
TICK_MS: Final = 100_000
LIMITS: Final = rec.RecoveryLimits(window_count=4, attempt_count_max=2)

Scene: TypeAlias = Literal["one fragment", "two fragments"]


class State(msgspec.Struct, frozen=True):
    """All there is, by number; hashable."""

    metadata: int
    clients: tuple[int, ...]  # the writer, then the recoverers; -1: not begun, -2: over
    bookies: tuple[int, ...]
    requests: tuple[tuple[int, ...], ...]  # by client and bookie: on their way, in order
    writes: tuple[tuple[int, ...], ...]  # by client: what recoverers write back, in order
    late: tuple[tuple[int, ...], ...]  # by client: events that may come at any time
    acked_id: int
    loss_left: int
    crash_left: int


NOT_BEGUN, OVER = -1, -2


class Switches(msgspec.Struct, frozen=True):
    """What the search may leave out, to see that it would be missed."""

    is_read_fencing: bool = True  # B1
    has_floor: bool = True  # B2


class Found(msgspec.Struct):
    """What a search came to."""

    state_count: int = 0
    step_count: int = 0
    violation: str = ""
    story: list[str] = []
    is_complete: bool = False  # all states were seen


class Search:
    """A breadth-first search."""

    def __init__(
        self,
        scene: Scene = "one fragment",
        *,
        recoverer_count: int = 2,
        loss_count: int = 1,
        crash_count: int = 1,
        switches: Switches | None = None,
        state_count_max: int = 10_000_000,
    ) -> None:
        self._switches = switches or Switches()
        self._recoverer_count = recoverer_count
        self._state_count_max = state_count_max
        self._numbers: dict[bytes, int] = {}
        self._blobs: list[bytes] = []
        self._client_steps: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
        self._bookie_steps: dict[tuple[int, int], tuple[int, int]] = {}
        self._problem = ""
        self._start = self._scene(scene, loss_count, crash_count)

    # ------------------------------------------------------------------ the search

    def run(self) -> Found:
        """Look at every state; stop at the first that breaks a promise."""
        found = Found(state_count=1)
        parents: dict[State, tuple[State, str] | None] = {self._start: None}
        queue = deque([self._start])
        while queue:
            state = queue.popleft()
            for text, step in self._steps(state):
                following = _canonical(step)
                found.step_count += 1
                if self._problem:
                    found.violation = self._problem
                    found.story = [*_story(parents, state), text, self._problem]
                    return found
                if following not in parents:
                    parents[following] = (state, text)
                    queue.append(following)
            if len(parents) > self._state_count_max:
                found.state_count = len(parents)
                return found
        found.state_count = len(parents)
        found.is_complete = True
        return found

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        for client, core in enumerate(state.clients):
            name = _name(client)
            if core == NOT_BEGUN:
                yield f"{name} begins", self._begin(state, client)
            elif core >= 0 and self._is_idle(state, client):
                for at, event in enumerate(state.late[client]):
                    late = _without(state.late[client], at)
                    rest = _replace(state, late=_put(state.late, client, late))
                    yield f"{name} hears {self._text(event)}", self._tell(rest, client, event)
                if client != WRITER and not state.late[client]:
                    event = self._number(rec.Tick())
                    following = self._tell(state, client, event)
                    if following != state:
                        yield f"{name} tries again", following
            yield from self._deliveries(state, client)
        if state.crash_left:
            yield from self._crashes(state)

    def _deliveries(self, state: State, client: int) -> Iterator[tuple[str, State]]:
        """Yield what may reach a bookie next; adds do before a recoverer's request, or last."""
        if client == WRITER:
            yield from self._adds(state)
            return
        for bookie in range(len(state.bookies)):
            link = client * len(state.bookies) + bookie
            if state.requests[link]:
                request, *rest = state.requests[link]
                taken = _replace(state, requests=_put(state.requests, link, tuple(rest)))
                yield from self._delivery(taken, client, bookie, request)
        if state.writes[client]:
            request, *rest = state.writes[client]
            taken = _replace(state, writes=_put(state.writes, client, tuple(rest)))
            bookie = BOOKIES.index(self._object(request).bookie_id)
            yield from self._delivery(taken, client, bookie, request)

    def _delivery(
        self, taken: State, client: int, bookie: int, request: int
    ) -> Iterator[tuple[str, State]]:
        text = f"{self._text(request)} of {_name(client)} reaches {BOOKIES[bookie]}"
        before = taken
        yield text, self._serve(before, client, bookie, request)
        for count, add in enumerate(taken.requests[bookie], start=1):
            rest = taken.requests[bookie][count:]
            before = _replace(before, requests=_put(before.requests, bookie, rest))
            before = self._serve(before, WRITER, bookie, add)
            yield f"behind {count} adds, {text}", self._serve(before, client, bookie, request)
        if taken.loss_left:
            lost = _replace(taken, loss_left=taken.loss_left - 1)
            yield f"{text}: lost", self._fail(lost, client, request)

    def _adds(self, state: State) -> Iterator[tuple[str, State]]:
        recoverers = state.clients[1:]
        for bookie in range(len(state.bookies)):
            if not state.requests[bookie]:
                continue
            add, *rest = state.requests[bookie]
            taken = _replace(state, requests=_put(state.requests, bookie, tuple(rest)))
            text = f"{self._text(add)} reaches {BOOKIES[bookie]}"
            if all(core < 0 for core in recoverers) and OVER in recoverers:
                yield text, self._serve(taken, WRITER, bookie, add)
            if state.loss_left and all(core == NOT_BEGUN for core in recoverers):
                yield f"{text}: lost", _replace(taken, loss_left=state.loss_left - 1)

    def _crashes(self, state: State) -> Iterator[tuple[str, State]]:
        size = len(state.bookies)
        for bookie in range(size):
            fallen = _replace(state, crash_left=state.crash_left - 1)
            for client in range(len(state.clients)):
                link = client * size + bookie
                for request in state.requests[link]:
                    fallen = _replace(fallen, requests=_put(fallen.requests, link, ()))
                    fallen = self._fail(fallen, client, request)
            if fallen.requests != state.requests:
                yield f"bookie {BOOKIES[bookie]} dies and comes back", fallen

    def _fail(self, state: State, client: int, request: int) -> State:
        if client == WRITER:
            return state
        return self._later(state, client, self._number(self._failure(request)))

    def _is_idle(self, state: State, client: int) -> bool:
        size = len(state.bookies)
        links = state.requests[client * size : (client + 1) * size]
        return not any(links) and not state.writes[client]

    # ------------------------------------------------------------------ steps of the parts

    def _begin(self, state: State, client: int) -> State:
        metadata = self._object(state.metadata)
        changed = begin_recovery(metadata) or metadata
        state = _replace(state, metadata=self._number(changed))
        if changed.is_closed:
            return _replace(state, clients=_put(state.clients, client, OVER))
        core = RecoveryCore(changed, digest=DIGEST, limits=LIMITS)
        if not self._switches.has_floor:
            core._fence.lac = NO_ENTRY
        state = _replace(state, clients=_put(state.clients, client, self._number((core, 0))))
        return self._tell(state, client, self._number(rec.RecoveryStarted()))

    def _tell(self, state: State, client: int, event: int) -> State:
        """Hand an event to a client; carry out what it answers."""
        core = state.clients[client]
        if core < 0:
            return state
        key = (core, event)
        if key not in self._client_steps:
            machine, now_ms = self._object(core)
            happened = self._object(event)
            now_ms += TICK_MS * isinstance(happened, rec.Tick)
            effects = machine.handle(happened, now_ms)
            if isinstance(machine, RecoveryCore):
                effects = renumbered(machine, effects)
            if not effects and isinstance(happened, rec.Tick):
                now_ms -= TICK_MS  # nothing to be tried again: the same state
                machine = self._object(core)[0]
            after = self._number((machine, now_ms))
            self._client_steps[key] = (after, tuple(self._number(e) for e in effects))
        after, effects = self._client_steps[key]
        state = _replace(state, clients=_put(state.clients, client, after))
        for effect in effects:
            state = self._carry_out(state, client, effect)
        return state

    def _carry_out(self, state: State, client: int, number: int) -> State:  # noqa: PLR0911 - a case each
        effect = self._object(number)
        match effect:
            case wri.SendAdd():
                bookies = self._object(state.metadata).last_fragment.bookies
                return self._send(state, client, bookies[effect.slot], number)
            case rec.SendWrite():
                writes = (*state.writes[client], number)
                return _replace(state, writes=_put(state.writes, client, writes))
            case rec.SendFence() | rec.SendRead():
                return self._send(state, client, effect.bookie_id, number)
            case wri.Acked():
                last = max(first + count - 1 for _ticket, first, count in effect.tickets)
                state = _replace(state, acked_id=max(state.acked_id, last))
                self._check_end(state, self._object(state.metadata).last_entry_id)
            case rec.ChooseReplacements():
                return self._later(state, client, self._number(rec.ReplacementsChosen({})))
            case rec.CloseRecovered():
                return self._close(state, client, effect)
            case rec.RecoveryFailed():
                return self._end(state, client)
            case wri.ChangeEnsemble():
                error = NotEnoughBookiesError(1, 0, "no other bookie is there")
                failed = wri.EnsembleChangeFailed(effect.change_id, error)
                return self._later(state, client, self._number(failed))
            case _:
                pass
        return state

    def _close(self, state: State, client: int, effect: rec.CloseRecovered) -> State:
        state = self._end(state, client)
        metadata: LedgerMetadata = self._object(state.metadata)
        if not metadata.is_closed:
            self._check_end(state, effect.last_entry_id)
            if self._problem:
                return state
        changed = close_by_recovery(metadata, effect.fragments, effect.last_entry_id, effect.length)
        if changed is None:
            return state
        for entry_id in range(effect.last_entry_id + 1):
            fragment, _ = changed.fragment_of(entry_id)
            holders = [
                b
                for b in fragment.bookies
                if entry_id in self._object(state.bookies[BOOKIES.index(b)]).entries
            ]
            if len(holders) < QUORUM.ack_size:
                self._problem = f"entry {entry_id} of a closed ledger is on {holders} only"
        state = _replace(state, metadata=self._number(changed))
        for other in range(1, len(state.clients)):  # they could but adopt this end
            state = self._end(state, other)
        return _replace(state, writes=((),) * len(state.writes))

    def _check_end(self, state: State, last_entry_id: int | None) -> None:
        if last_entry_id is not None and last_entry_id < state.acked_id:
            self._problem = (
                f"the ledger ends at {last_entry_id}, entry {state.acked_id} is acknowledged"
            )

    def _send(self, state: State, client: int, bookie_id: str, request: int) -> State:
        link = client * len(state.bookies) + BOOKIES.index(bookie_id)
        return _replace(
            state, requests=_put(state.requests, link, (*state.requests[link], request))
        )

    def _end(self, state: State, client: int) -> State:
        """Take a recoverer away; what it wrote back is still on its way."""
        size = len(state.bookies)
        requests = list(state.requests)
        requests[client * size : (client + 1) * size] = [()] * size
        return _replace(
            state,
            clients=_put(state.clients, client, OVER),
            late=_put(state.late, client, ()),
            requests=tuple(requests),
        )

    def _later(self, state: State, client: int, event: int) -> State:
        if state.clients[client] < 0:
            return state
        late = tuple(sorted((*state.late[client], event)))
        return _replace(state, late=_put(state.late, client, late))

    # ------------------------------------------------------------------ the bookie

    def _serve(self, state: State, client: int, bookie: int, request: int) -> State:
        key = (state.bookies[bookie], request)
        if key not in self._bookie_steps:
            model = self._object(key[0])
            fencing = self._switches.is_read_fencing
            event = answer_of(model, self._object(request), is_read_fencing=fencing)
            self._bookie_steps[key] = (self._number(model), self._number(event))
        after, event = self._bookie_steps[key]
        state = _replace(state, bookies=_put(state.bookies, bookie, after))
        happened = self._object(event)
        if self._object(after).ledger.is_fenced:
            state = _replace(state, requests=_put(state.requests, bookie, ()))
        if isinstance(happened, wri.AddFailed):
            return state
        return self._tell(state, client, event)

    def _failure(self, request: int) -> object:
        return failure_of(self._object(request), RequestTimeoutError("request", 1.0))

    # ------------------------------------------------------------------ scenes

    def _scene(self, scene: Scene, loss_count: int, crash_count: int) -> State:
        metadata = new_metadata(("a", "b", "c"))
        core = WriterCore(
            LEDGER_ID,
            QUORUM,
            level_of(LedgerType.PD_JOURNAL),
            ensemble=("a", "b", "c"),
            digest_type=DigestType.XXH3,
            digest=DIGEST,
            limits=wri.WriterLimits(batch_count_max=1, explicit_lac_ms=0),
        )
        count = 3 if scene == "one fragment" else 5
        state = State(
            metadata=self._number(metadata),
            clients=(self._number((core, 0)), *[NOT_BEGUN] * self._recoverer_count),
            bookies=tuple(self._number(Bookie()) for _ in range(count)),
            requests=((),) * (count * (1 + self._recoverer_count)),
            writes=((),) * (1 + self._recoverer_count),
            late=((),) * (1 + self._recoverer_count),
            acked_id=NO_ENTRY,
            loss_left=loss_count,
            crash_left=crash_count,
        )
        for slot in range(3):
            state = self._tell(state, WRITER, self._number(wri.SlotUp(slot, 1)))
        if scene == "two fragments":
            state = self._append(state, 0)
            for link in range(3):
                request = state.requests[link][0]
                taken = _replace(state, requests=_put(state.requests, link, ()))
                state = self._serve(taken, WRITER, link, request)
            assert state.acked_id == 0
            state = self._change(state)
            return self._append(state, 1)
        return self._append(self._append(state, 0), 1)

    def _append(self, state: State, number: int) -> State:
        append = wri.Append(number, [b"entry %d" % number])
        return self._tell(state, WRITER, self._number(append))

    def _change(self, state: State) -> State:
        """Let the writer replace the bookies a and b by d and e, from entry 1 on."""
        core, now_ms = self._object(state.clients[WRITER])
        error = RequestTimeoutError("add", 1.0)
        effects = core.handle(wri.SlotDown(0, error), now_ms)
        (first,) = [e for e in effects if isinstance(e, wri.ChangeEnsemble)]
        metadata = self._object(state.metadata)
        metadata = change_ensemble(metadata, 1, {0: ("a", "d")}) or metadata
        changed = wri.EnsembleChanged(first.change_id, 1, ("d", "b", "c"))
        core.handle(changed, now_ms)
        core.handle(wri.SlotUp(0, 1), now_ms)
        effects = core.handle(wri.SlotDown(1, error), now_ms)
        (second,) = [e for e in effects if isinstance(e, wri.ChangeEnsemble)]
        metadata = change_ensemble(metadata, 1, {1: ("b", "e")}) or metadata
        core.handle(wri.EnsembleChanged(second.change_id, 1, ("d", "e", "c")), now_ms)
        core.handle(wri.SlotUp(1, 1), now_ms)
        return _replace(
            state,
            metadata=self._number(metadata),
            clients=_put(state.clients, WRITER, self._number((core, now_ms))),
        )

    # ------------------------------------------------------------------ parts by number

    def _number(self, part: object) -> int:
        blob = pickle.dumps(part, protocol=5)
        number = self._numbers.get(blob)
        if number is None:
            number = self._numbers[blob] = len(self._blobs)
            self._blobs.append(blob)
        return number

    def _object(self, number: int) -> Any:  # noqa: ANN401 - whatever was numbered
        return pickle.loads(self._blobs[number])  # noqa: S301 - our own bytes

    def _text(self, number: int) -> str:
        part = self._object(number)
        match part:
            case wri.SendAdd():
                return f"add {part.batch.first_entry_id}"
            case rec.SendWrite():
                return f"write-back of {part.batch.first_entry_id}"
            case rec.SendRead():
                return f"read of {part.entry_ids[0]}.."
            case rec.SendFence():
                return "fence"
        return type(part).__name__


def _canonical(state: State) -> State:
    """Return the state with its recoverers, who are all alike, in one order."""
    size = len(state.bookies)
    of_client = [
        (
            state.clients[c],
            state.requests[c * size : (c + 1) * size],
            state.writes[c],
            state.late[c],
        )
        for c in range(1, len(state.clients))
    ]
    in_order = sorted(of_client)
    if in_order == of_client:
        return state
    return _replace(
        state,
        clients=(state.clients[0], *(one[0] for one in in_order)),
        requests=(*state.requests[:size], *(queue for one in in_order for queue in one[1])),
        writes=(state.writes[0], *(one[2] for one in in_order)),
        late=(state.late[0], *(one[3] for one in in_order)),
    )


def _name(client: int) -> str:
    return "the writer" if client == WRITER else f"recoverer {client}"


_replace: Callable[..., State] = msgspec.structs.replace


def _put(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _without(items: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*items[:at], *items[at + 1 :])


def _story(parents: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    lines: list[str] = []
    step = parents[state]
    while step is not None:
        lines.append(step[1])
        step = parents[step[0]]
    return lines[::-1]
