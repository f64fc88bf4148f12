"""Every interleaving of a small scope: E = Qw = 3, Qa = 2, two entries, a writer, two recoverers.

All orders in which requests reach bookies, with a lost message and a crash of a bookie, on the
real ``WriterCore``, ``RecoveryCore``, ``BookieLedger`` and changes of metadata. The bookies are
exact and tiny: what they take is on stable storage.

    python -m tests.simulation.exhaustive     all of it, to the end, with what it came to

A state is the shared part, bookies and writer (``small_cluster``), with the recoverers
(``small_recoverer``), all by number. Recoverers meet at the bookies only, so that the steps of one
of them follow from its number and the shared part's. Both searches use that:

    Search     states of one or two recoverers, each with the shared part. Exact: it has a story to
               tell, and grows with the product of the recoverers.
    Closure    pairs of the shared part and one recoverer, for any number of recoverers. Wherever
               two recoverers may meet the same shared part, a step of one of them that changes it
               changes it for the other one. Every pair that occurs in any run, of however many
               recoverers, is found: at the start all are there; a step is made by one recoverer,
               whose pair follows by itself, and those of all others by what the step changed. It
               takes in pairs of which it is not known that they occur together, so a violation
               here would have to be looked at; none means that there is none.

A promise is broken by the step that closes the ledger, which one pair tells. What makes both small
enough, beside what the two modules say:
  * Recoverers begin at once: one that begins later is one whose requests are late. The metadata are
    IN_RECOVERY until the close, which is the end: others could but adopt it.
  * What goes wrong is spread beforehand. A lost message belongs to the writer or to a recoverer.
    Each client loses its connections to the bookie that crashes when it likes, which is more than
    can happen: the bookie crashes for all of them at once. An add that is never delivered is lost;
    one lost before the next one to the same bookie is left out from the start.
  * Late acks are no worse than early ones. The writer never hears of refusals and time-outs: it
    goes on as if nothing had happened. Who dies takes no step any more.

In a ``Closure`` each recoverer may lose a message and its connections to one bookie, not only one
of them. Not in the scope: requests that arrive after their client gave them up, replacements of
bookies by a recoverer (it is told that there are none), a writer that closes the ledger itself.

Two scenes: a ledger with one fragment, and one whose writer has replaced two bookies behind entry
0, so that the last ensemble hardly knows of it.
"""

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from tests.simulation.small_cluster import Cluster
from tests.simulation.small_recoverer import NO_CRASH, Recoverers
from tests.simulation.small_scope import Scene, Switches

SCENES: Final[tuple[Scene, ...]] = ("one fragment", "two fragments")
STATE_COUNT_MAX: Final = 20_000_000


class Found(msgspec.Struct):
    """What a search came to."""

    state_count: int = 0
    step_count: int = 0
    violation: str = ""
    story: list[str] = []
    is_complete: bool = False  # all states were seen


class _State(NamedTuple):
    shared: int
    recoverers: tuple[int, ...]  # ascending: they are all alike


class _Pair(NamedTuple):
    shared: int
    recoverer: int


class _Step(NamedTuple):
    text: str
    after: _Pair


class _Moves(NamedTuple):
    """What one recoverer may do."""

    steps: tuple[_Step, ...]  # each pair behind a step once
    closing_count: int
    violation: tuple[str, str] | None  # a step that closes and breaks a promise, and how


class _Scope:
    """What both searches share: where it begins, and the steps of a recoverer."""

    def __init__(
        self, scene: Scene, loss_count: int, crash_count: int, switches: Switches | None
    ) -> None:
        switches = switches or Switches()
        self._losses, self._crashes = loss_count, crash_count
        self._cluster = Cluster(scene, switches)
        self._recoverers = Recoverers(self._cluster, switches)
        self._moves: dict[_Pair, _Moves] = {}

    @property
    def core_state_count(self) -> int:
        """How many states recoverers have, before those that do the same are made one."""
        return self._recoverers.seen_count

    def starts(self, recoverer_count: int) -> list[_State]:
        """Return all beginnings: who loses a message, which bookie crashes."""
        found = set()
        adds = self._cluster.adds
        for crash in self._cluster.last_bookies if self._crashes else (NO_CRASH,):
            cuts: list[frozenset[tuple[int, int]]] = [frozenset()]
            if (crash, 0) in adds:
                cuts.append(frozenset({(crash, 0)}))
            for cut in cuts:
                shared = self._cluster.start(cut)
                found.add(self._start(shared, recoverer_count, self._losses, crash))
                for add in adds if self._losses else ():
                    shared = self._cluster.start(cut | {add})
                    found.add(self._start(shared, recoverer_count, 0, crash))
        return sorted(found)

    def _start(self, shared: int, recoverer_count: int, loss_count: int, crash: int) -> _State:
        first = self._recoverers.start(loss_count=loss_count, crash=crash)
        other = self._recoverers.start(loss_count=0, crash=crash)
        return _State(shared, tuple(sorted([first, *[other] * (recoverer_count - 1)])))

    def moves(self, pair: _Pair) -> _Moves:
        """Return what a recoverer may do."""
        moves = self._moves.get(pair)
        if moves is None:
            moves = self._moves[pair] = self._new_moves(pair)
        return moves

    def _new_moves(self, pair: _Pair) -> _Moves:
        steps: dict[_Pair, str] = {}
        closing_count = 0
        violation = None
        for text, after in self._steps(pair):
            if after.recoverer >= 0:
                steps.setdefault(after, text)
                continue
            closing_count += 1
            closing = self._recoverers.closings[-1 - after.recoverer]
            problem = self._cluster.problem(after.shared, closing)
            if problem and violation is None:
                violation = (text, problem)
        steps.pop(pair, None)
        texts = tuple(_Step(text, after) for after, text in steps.items())
        return _Moves(texts, closing_count, violation)

    def _steps(self, pair: _Pair) -> Iterator[_Step]:
        behaviour = self._recoverers.behaviours[pair.recoverer]
        for ask, following in behaviour.asks:
            for shared, outcome, count in self._cluster.serve(pair.shared, ask):
                text = f"behind {count} adds, {ask}" if count else str(ask)
                yield _Step(text, _Pair(shared, following[outcome + 1]))
        for text, recoverer in zip(behaviour.texts, behaviour.steps, strict=True):
            yield _Step(text, _Pair(pair.shared, recoverer))


class Search(_Scope):
    """A breadth-first search of one recoverer, or two."""

    def __init__(
        self,
        scene: Scene = "one fragment",
        *,
        recoverer_count: int = 2,
        loss_count: int = 1,
        crash_count: int = 1,
        switches: Switches | None = None,
        state_count_max: int = STATE_COUNT_MAX,
    ) -> None:
        super().__init__(scene, loss_count, crash_count, switches)
        self._recoverer_count = recoverer_count
        self._state_count_max = state_count_max

    def run(self) -> Found:
        """Look at every state; stop at the first that breaks a promise."""
        found = Found(is_complete=True)
        starts = self.starts(self._recoverer_count)
        parents: dict[_State, _State | None] = dict.fromkeys(starts)
        queue = deque(starts)
        while queue:
            state = queue.popleft()
            for at, recoverer in enumerate(state.recoverers):
                moves = self.moves(_Pair(state.shared, recoverer))
                found.step_count += len(moves.steps) + moves.closing_count
                if moves.violation is not None:
                    text, found.violation = moves.violation
                    story = self._story(parents, state)
                    found.story = [*story, f"recoverer {at + 1}: {text}", found.violation]
                    return _incomplete(found, len(parents))
                for _, after in moves.steps:
                    following = _with(state, at, after)
                    if following not in parents:
                        parents[following] = state
                        queue.append(following)
            if len(parents) > self._state_count_max:
                return _incomplete(found, len(parents))
        found.state_count = len(parents)
        return found

    def _story(self, parents: dict[_State, _State | None], state: _State) -> list[str]:
        """Return the way to a state; a recoverer's number is its place in the state before."""
        lines = []
        before = parents[state]
        while before is not None:
            lines.append(self._line(before, state))
            state, before = before, parents[before]
        return lines[::-1]

    def _line(self, before: _State, state: _State) -> str:
        for at, recoverer in enumerate(before.recoverers):
            for text, after in self.moves(_Pair(before.shared, recoverer)).steps:
                if _with(before, at, after) == state:
                    return f"recoverer {at + 1}: {text}"
        raise AssertionError("one of them made the step")


class Closure(_Scope):
    """All pairs of the shared part and a recoverer that any number of recoverers can come to."""

    def __init__(
        self,
        scene: Scene = "one fragment",
        *,
        loss_count: int = 1,
        crash_count: int = 1,
        switches: Switches | None = None,
    ) -> None:
        super().__init__(scene, loss_count, crash_count, switches)
        self._seen: set[_Pair] = set()
        self._queue: deque[_Pair] = deque()
        self._recoverers_at: dict[int, list[int]] = {}
        self._changes_of: dict[int, set[int]] = {}

    def run(self) -> Found:
        """Look at every pair; stop at the first that breaks a promise."""
        found = Found(is_complete=True)
        for start in self.starts(recoverer_count=2):
            for recoverer in start.recoverers:
                self._reach(_Pair(start.shared, recoverer))
        while self._queue:
            pair = self._queue.popleft()
            moves = self._new_moves(pair)
            found.step_count += len(moves.steps) + moves.closing_count
            if moves.violation is not None:
                text, found.violation = moves.violation
                found.story = [text, found.violation]
                return _incomplete(found, len(self._seen))
            self._take(pair, moves)
        found.state_count = len(self._seen)
        return found

    def _take(self, pair: _Pair, moves: _Moves) -> None:
        """Go on from a pair; hand what it changes to whoever is there, or will be."""
        others = self._recoverers_at.setdefault(pair.shared, [])
        others.append(pair.recoverer)
        changes = self._changes_of.setdefault(pair.shared, set())
        for shared in changes:
            self._reach(_Pair(shared, pair.recoverer))
        for _, after in moves.steps:
            self._reach(after)
            if after.shared != pair.shared and after.shared not in changes:
                changes.add(after.shared)
                for other in others:
                    self._reach(_Pair(after.shared, other))

    def _reach(self, pair: _Pair) -> None:
        if pair not in self._seen:
            self._seen.add(pair)
            self._queue.append(pair)


def _with(state: _State, at: int, after: _Pair) -> _State:
    changed = list(state.recoverers)
    changed[at] = after.recoverer
    return _State(after.shared, tuple(sorted(changed)))


def _incomplete(found: Found, state_count: int) -> Found:
    found.state_count = state_count
    found.is_complete = False
    return found


def main() -> int:
    """Search both scenes to their ends, and without two fixes; return the exit code."""
    is_sound = True
    for scene in SCENES:
        begun = time.monotonic()
        closure = Closure(scene)
        found = closure.run()
        is_sound = is_sound and found.is_complete
        _say(
            f"{scene}, any number of recoverers, a lost message and a crash each: "
            f"{found.state_count:,} pairs, {closure.core_state_count:,} states of a recoverer, "
            f"{found.step_count:,} steps, {_end(found, begun)}"
        )
        begun = time.monotonic()
        found = Search(scene, loss_count=0, crash_count=0).run()
        is_sound = is_sound and found.is_complete
        _say(
            f"{scene}, two recoverers, step by step: {found.state_count:,} states, "
            f"{found.step_count:,} steps, {_end(found, begun)}",
        )
    without_b1, without_b2 = Switches(is_read_fencing=False), Switches(has_floor=False)
    for name, search in (
        ("B1", Search("two fragments", recoverer_count=1, crash_count=0, switches=without_b1)),
        ("B2", Search("two fragments", loss_count=0, crash_count=0, switches=without_b2)),
    ):
        found = search.run()
        is_sound = is_sound and bool(found.violation)
        story = "\n    ".join(found.story or ["nothing"])
        _say(f"without the fix of {name}:\n    {story}")
    return 0 if is_sound else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _end(found: Found, begun: float) -> str:
    end = "complete" if found.is_complete else "NOT COMPLETE"
    seconds = time.monotonic() - begun
    return f"{seconds:.0f} s, {end}: {found.violation or 'no violation'}"


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.simulation.exhaustive",
        description="Search both scenes to their ends.",
    ).parse_args()
    sys.exit(main())
