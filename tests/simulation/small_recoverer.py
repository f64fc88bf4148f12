"""A recoverer of ``exhaustive``: every state that the real ``RecoveryCore`` can come to, made few.

A state is the core, what is on its way to each bookie in order, failures that it has still to
hear of, and what may still go wrong on its side: a lost request or answer, and the connections to
the bookie that will crash. All states are found beforehand, whatever the bookies may answer. Then
states that do the same for ever are made one: the steps have no circle, so that a state is what it
asks, whatever is answered, and the states that follow (``_class_of``). That is a bisimulation:
which requests reach bookies in which order, and how the ledger is closed, is all that others see.

What is left out, and why nothing is missed:
  * Time is only "it goes on" or "a rest or the patience is over", which may come whenever it
    changes something.
  * What could but fence is taken away: fences when the reading begins (reads fence, too), reads
    when the end is found, everything but write-backs when the recovery has failed. Without that
    fence more adds arrive, which is no better for the promises, and nobody else needs it.
  * What a step that is over has learned, and the core never looks at again, is forgotten
    (``_forget_past``), and so are the texts of errors.
  * A recoverer that dies is one that takes no step any more.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from tests.simulation.small_cluster import Ask, Closing, Cluster
from tests.simulation.small_scope import (
    BOOKIES,
    DIGEST,
    LEDGER_ID,
    READ_COUNT,
    Parts,
    Switches,
    failure_of,
    renumbered,
)
from zbk.errors import NoSuchEntryError, RequestTimeoutError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.recovery import events as rec
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.protocol.recovery.retries import SlotRetries

LIMITS: Final = rec.RecoveryLimits(window_count=4, attempt_count_max=2)
LATER_MS: Final = 100_000
FAILED: Final = -1
NO_CRASH: Final = -1
TIMEOUT: Final = RequestTimeoutError("request", 1.0)


class _State(NamedTuple):
    core: int
    links: tuple[tuple[int, ...], ...]  # requests on their way, by bookie
    late: tuple[int, ...]  # what it has still to hear, in any order
    loss_left: int
    crash: int  # the bookie that will crash
    is_crashing: bool = False  # its answers are lost from now on


_After: TypeAlias = _State | Closing


class Behaviour(msgspec.Struct, frozen=True):
    """What a recoverer may do next; states are classes, closings are negative: ``-1 - index``."""

    asks: tuple[tuple[Ask, tuple[int, ...]], ...]  # the state that follows, by outcome, from -1 on
    steps: tuple[int, ...]  # that need nobody else
    texts: tuple[str, ...]  # of these steps


class Recoverers:
    """All states of a recoverer, by class."""

    def __init__(self, cluster: Cluster, switches: Switches) -> None:
        self.behaviours: list[Behaviour] = []
        self.closings: list[Closing] = []
        self.seen_count = 0
        self._cluster = cluster
        self._has_floor = switches.has_floor
        self._reads_fence = switches.is_read_fencing
        self._parts = Parts()
        self._told: dict[tuple[int, int], tuple[int, tuple[object, ...]]] = {}
        self._asks: dict[int, Ask] = {}
        self._kinds: dict[int, str] = {}
        self._awaited: dict[int, frozenset[str]] = {}
        self._events: dict[tuple[int, int], int] = {}
        self._failures: dict[int, int] = {}
        self._tick = self._parts.number(rec.Tick())
        self._class_of: dict[_After, int] = {}
        self._classes: dict[object, int] = {}

    def start(self, *, loss_count: int, crash: int = NO_CRASH) -> int:
        """Return the class of a recoverer that begins."""
        core = RecoveryCore(self._cluster.metadata, digest=DIGEST, limits=LIMITS)
        if not self._has_floor:
            core._fence.lac = NO_ENTRY
        links: tuple[tuple[int, ...], ...] = ((),) * self._cluster.bookie_count
        state = _State(self._parts.number(core), links, (), loss_count, crash)
        begun = self._tell(state, self._parts.number(rec.RecoveryStarted()))
        self._find_classes(begun)
        return self._class_of[begun]

    # ------------------------------------------------------------------ classes

    def _find_classes(self, start: _After) -> None:
        """Give a class to every state, those that follow a state before it."""
        following: dict[_After, _Following] = {}
        stack = [start]
        while stack:
            state = stack[-1]
            if state in self._class_of:
                stack.pop()
            elif isinstance(state, Closing):
                self._class_of[state] = -1 - len(self.closings)
                self.closings.append(state)
            elif state not in following:
                following[state] = self._following(state)
                stack += [s for s in following[state].states() if s not in self._class_of]
            else:
                self._class_of[state] = self._class(following.pop(state))
                stack.pop()

    def _class(self, following: "_Following") -> int:
        asks = sorted(
            {
                (ask, tuple(self._class_of[after] for after in afters))
                for ask, afters in following.asks
            }
        )
        texts = {self._class_of[after]: text for text, after in following.steps}
        signature = (tuple(asks), tuple(sorted(texts)))
        number = self._classes.setdefault(signature, len(self.behaviours))
        if number == len(self.behaviours):
            steps = tuple(sorted(texts))
            self.behaviours.append(
                Behaviour(tuple(asks), steps, tuple(texts[step] for step in steps))
            )
        return number

    # ------------------------------------------------------------------ steps

    def _following(self, state: _State) -> "_Following":
        self.seen_count += 1
        asks: list[tuple[Ask, tuple[_After, ...]]] = []
        steps: list[tuple[str, _After]] = []
        for at, link in enumerate(state.links):
            asks += self._deliveries(state, at) if link else ()
        if state.core == FAILED:
            return _Following(asks, [])
        steps += self._losses(state)
        steps += self._crash(state)
        for at, event in enumerate(state.late):
            rest_late = (*state.late[:at], *state.late[at + 1 :])
            text = f"hears {type(self._parts.part(event)).__name__}"
            steps.append((text, self._tell(state._replace(late=rest_late), event)))
        waited = self._tell(state, self._tick)
        if waited != state:
            steps.append(("waits", waited))
        return _Following(asks, steps)

    def _deliveries(self, state: _State, at: int) -> Iterator[tuple[Ask, tuple[_After, ...]]]:
        """Yield what may come of the next request to a bookie: answered, or done and not heard of.

        Of the second kind are write-backs only: a fence or a read that nobody hears of could but
        fence, which is no better for the promises than that it is lost.
        """
        request, *rest = state.links[at]
        taken = state._replace(links=_put(state.links, at, tuple(rest)))
        ask = self._ask(request)
        is_cut = at == state.crash and state.is_crashing
        if not is_cut:
            yield ask, tuple(self._answered(taken, request, ask))
        if ask.kind != "write" or state.core == FAILED:
            return
        unheard = _later(taken, self._failure(request))
        if is_cut:
            yield ask, (unheard, unheard)
        elif at == state.crash:
            yield ask, (unheard._replace(is_crashing=True),) * 2
        if state.loss_left:
            yield ask, (unheard._replace(loss_left=state.loss_left - 1),) * 2

    def _answered(self, taken: _State, request: int, ask: Ask) -> Iterator[_After]:
        """Yield the state behind each outcome, from -1 on."""
        outcomes = self._cluster.outcomes(ask)
        for outcome in range(-1, max(outcomes) + 1):
            at = outcome if outcome in outcomes else max(outcomes)  # never asked for
            if (request, at) not in self._events:
                self._events[request, at] = self._parts.number(self._event(request, ask, at))
            yield self._tell(taken, self._events[request, at])

    def _losses(self, state: _State) -> Iterator[tuple[str, _After]]:
        if not state.loss_left:
            return
        lossy = state._replace(loss_left=state.loss_left - 1)
        for at, link in enumerate(state.links):
            for place, request in enumerate(link):
                rest = (*link[:place], *link[place + 1 :])
                taken = lossy._replace(links=_put(state.links, at, rest))
                text = f"loses: {self._ask(request)}"
                yield text, self._tell(taken, self._failure(request))

    def _crash(self, state: _State) -> Iterator[tuple[str, _After]]:
        if state.crash == NO_CRASH:
            return
        if not state.links[state.crash] and not state.is_crashing:
            return
        fallen: _After = state._replace(
            links=_put(state.links, state.crash, ()), crash=NO_CRASH, is_crashing=False
        )
        for request in state.links[state.crash]:
            if isinstance(fallen, _State):
                fallen = self._tell(fallen, self._failure(request))
        yield f"loses the connection to {BOOKIES[state.crash]}", fallen

    def _tell(self, state: _State, event: int) -> _After:
        """Hand an event to the core; carry out what it answers."""
        if state.core == FAILED:
            return state
        key = (state.core, event)
        if key not in self._told:
            core: RecoveryCore = self._parts.part(state.core)
            happened = self._parts.part(event)
            effects = core.handle(happened, LATER_MS * isinstance(happened, rec.Tick))
            effects = renumbered(core, effects)
            _forget_time(core)
            _forget_past(core)
            after = self._parts.number(core)
            self._awaited[after] = self._awaited_of(core)
            self._told[key] = (after, tuple(effects))
        after, told = self._told[key]
        state = state._replace(core=after)
        for effect in told:
            match effect:
                case rec.SendFence() | rec.SendRead() | rec.SendWrite():
                    at = BOOKIES.index(effect.bookie_id)
                    link = (*state.links[at], self._parts.number(effect))
                    state = state._replace(links=_put(state.links, at, link))
                case rec.ChooseReplacements():
                    state = _later(state, self._parts.number(rec.ReplacementsChosen({})))
                case rec.CloseRecovered():
                    return Closing(effect.fragments, effect.last_entry_id, effect.length)
                case rec.RecoveryFailed():
                    return self._without_fences(
                        state._replace(
                            core=FAILED, late=(), loss_left=0, crash=NO_CRASH, is_crashing=False
                        )
                    )
        return self._without_fences(state)

    def _without_fences(self, state: _State) -> _State:
        """Take away the requests of which nothing but their fence could matter."""
        kinds = {"fence", "read", "length"}
        if state.core != FAILED:
            kinds -= self._awaited[state.core]
        if not kinds:
            return state
        links = tuple(tuple(r for r in link if self._kind(r) not in kinds) for link in state.links)
        return state._replace(links=links)

    def _awaited_of(self, core: RecoveryCore) -> frozenset[str]:
        """Return the kinds of requests that matter by more than their fence."""
        reads = core._reads
        awaited = {"fence"} if reads is None or not self._reads_fence else set[str]()
        awaited.add("read" if reads is None or not reads.is_at_end else "length")
        return frozenset(awaited)

    # ------------------------------------------------------------------ requests

    def _ask(self, request: int) -> Ask:
        if request not in self._asks:
            sent = self._parts.part(request)
            at = BOOKIES.index(sent.bookie_id)
            match sent:
                case rec.SendFence():
                    ask = Ask(at, "fence")
                case rec.SendRead():
                    ask = Ask(at, "read", sent.entry_ids[0], len(sent.entry_ids))
                case _:
                    batch = sent.batch
                    ask = Ask(at, "write", batch.first_entry_id, batch.count, sent.lac)
                    written = self._cluster.request(ask)
                    assert isinstance(written, rec.SendWrite)
                    assert written.batch == batch, "it writes back what was written"
            self._asks[request] = ask
        return self._asks[request]

    def _kind(self, request: int) -> str:
        """Return the kind of a request; a read for the length is one of its own."""
        if request not in self._kinds:
            sent = self._parts.part(request)
            is_length = isinstance(sent, rec.SendRead) and sent.read_id >= READ_COUNT
            self._kinds[request] = "length" if is_length else self._ask(request).kind
        return self._kinds[request]

    def _event(self, request: int, ask: Ask, outcome: int) -> object:
        sent = self._parts.part(request)
        match sent:
            case rec.SendFence():
                return rec.FenceAnswered(sent.slot, outcome)
            case rec.SendRead() if outcome:
                return rec.ReadAnswered(sent.read_id, self._cluster.body(ask.first, outcome))
            case rec.SendRead():
                return rec.ReadAnswered(sent.read_id, NoSuchEntryError(LEDGER_ID, ask.first))
        return rec.WriteAnswered(sent.write_id)

    def _failure(self, request: int) -> int:
        if request not in self._failures:
            failure = failure_of(self._parts.part(request), TIMEOUT)
            self._failures[request] = self._parts.number(failure)
        return self._failures[request]


class _Following(NamedTuple):
    """The steps from one state."""

    asks: list[tuple[Ask, tuple[_After, ...]]]
    steps: list[tuple[str, _After]]

    def states(self) -> list[_After]:
        return [s for _, afters in self.asks for s in afters] + [s for _, s in self.steps]


def _forget_time(core: RecoveryCore) -> None:
    """Make now the time 0; a rest that is not over ends at 1."""
    retries = [core._fence._retries]
    if core._reads is not None:
        retries.append(core._reads._retries)
        asked = core._reads._asked
        core._reads._asked = {
            read_id: msgspec.structs.replace(one, sent_ms=0) for read_id, one in asked.items()
        }
    if core._length is not None:
        retries.append(core._length._retries)
        if core._length._core is not None:
            core._length._core._now_ms = 0
    for one in retries:
        one._rests_until_ms = [
            None if until is None else int(0 < until < LATER_MS) for until in one._rests_until_ms
        ]


def _forget_past(core: RecoveryCore) -> None:
    """Forget what a step that is over has learned, and nobody looks at again."""
    size = core._metadata.ensemble_size
    if core._reads is not None:
        core._fence._retries = SlotRetries(size, LIMITS)
        core._fence._asked = set()
        core._fence._coverage._known = (1 << size) - 1
        core._reads._retries._errors = {}
        core._reads._damages = {}
        if core._reads.is_at_end:
            core._reads._retries = SlotRetries(size, LIMITS)
            core._reads._asked, core._reads._busy = {}, set()
            core._reads._found, core._reads._negatives = {}, {}
            core._reads._found_size = 0
            core._reads._useless = [set() for _ in range(size)]
            core._reads._is_calm = False
    core._fence._retries._errors = {}


def _later(state: _State, event: int) -> _State:
    return state._replace(late=tuple(sorted((*state.late, event))))


def _put(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])
