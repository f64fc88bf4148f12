"""One run, from a seed: a cluster, its clients, the nemesis, a calm end, and the verdict.

1   faults, bookies and ledgers are drawn; writers write, readers read, recoverers recover,
    while the nemesis acts
2   all faults stop; the dead come back; every call has to end
3   at times the power of all bookies is lost
4   every ledger that is not closed is recovered
5   at times the power of all bookies is lost again
6   every ledger is read from its first entry to its last
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.simulation.autorecovery import Autorecovery
from tests.simulation.calm_end import CalmEnd
from tests.simulation.clients import Clients, draw_ledger
from tests.simulation.collector import UpkeepPlan
from tests.simulation.faults import Faults
from tests.simulation.kernel import SECOND, RunCutError
from tests.simulation.last_repairs import LastRepairs
from tests.simulation.nemesis import Client, Nemesis
from tests.simulation.repair_plan import SHARE
from tests.simulation.tape import Tape
from tests.simulation.world import Parts, World
from tests.support.checker import Violation, check

RIGHTS_SHARE: Final = 6
"""Of so many runs, bookies enforce rights in one."""


class Outcome(msgspec.Struct):
    """What came of a run."""

    seed: int
    violations: list[Violation]
    trace_hash: int
    event_count: int
    entry_count: int
    sometimes: Counter[str]
    tape: list[int]
    lines: list[str]
    faults: Faults

    @property
    def names(self) -> set[str]:
        """The invariants that were broken."""
        return {violation.invariant for violation in self.violations}


def run_seed(
    seed: int,
    parts: Parts | None = None,
    *,
    recorded: Sequence[int] | None = None,
    is_traced: bool = False,
    is_cut_when_violated: bool = False,
) -> Outcome:
    """Run a seed, or a recorded tape, to its end, or to the first promise seen to be broken.

    Clients' observations are judged behind the last event in both cases.
    """
    tape = Tape(seed, recorded)
    world = World(tape, parts, is_traced=is_traced)
    world.kernel.is_cut_when_violated = is_cut_when_violated
    run = Run(world)
    try:
        run.play()
    except RunCutError:
        pass  # the violation is noted
    except AssertionError as error:
        text = _place_of(error)
        world.violated("assert", f"{text}: {error}")
    for bookie in world.bookies:
        world.violations += bookie.oracle.violations
    violations = world.violations + check(world.history)
    acks = sum(1 for e in world.history if e.kind == "ok" and e.call in ("add", "log_append"))
    return Outcome(
        seed,
        violations,
        world.kernel.trace_hash,
        world.kernel.event_count,
        acks,
        world.sometimes,
        tape.values,
        world.kernel.lines,
        world.faults,
    )


class Run:
    """The story of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._clients = Clients(world)
        self._repair: Autorecovery | None = None

    def play(self) -> None:
        """Run it all."""
        world, tape = self._world, self._world.tape
        ledgers = [draw_ledger(tape) for _ in range(1 + tape.draw(2))]
        largest = max(quorum.ensemble_size for quorum, _ in ledgers)
        world.has_autorecovery = tape.draw(SHARE) == 1
        if world.has_autorecovery:
            self._repair = Autorecovery(world)
            world.faults.deeds += ("long_outage",) * tape.pick((0, 2, 6))
        doomed_count = tape.pick((0, 0, 1, 2))
        if doomed_count:
            world.upkeep = UpkeepPlan.draw(tape)
        if tape.aside(RIGHTS_SHARE, "rights") == 1:
            world.use_rights()
        for number in range(largest + tape.draw(3) + world.has_autorecovery):
            world.add_bookie(f"host{number + 1}")
        loss_count_max = min(quorum.ack_size for quorum, _ in ledgers) - 1
        nemesis = Nemesis(world, loss_count_max=loss_count_max)
        nemesis.clients = self._clients.all
        nemesis.servants = self._servants
        self._clients.begin(ledgers, doomed_count)
        if world.faults.is_skewed:
            for bookie in world.bookies:
                bookie.node.skew(tape.pick((1000, 900, 1100)))
        world.kernel.run_until((2 + tape.draw(5) + 4 * world.has_autorecovery) * SECOND)
        self._end(loss_count_max)

    def _end(self, loss_count_max: int) -> None:
        """Stop all faults, and see what is left."""
        calm = CalmEnd(self._world, self._clients, self._servants)
        repairs = None
        if self._repair is not None:
            repairs = LastRepairs(self._world, self._repair, loss_count_max)
        calm.begin()
        calm.end_calls()
        calm.lose_power_at_times()
        calm.leave_limbo()
        calm.recover_all()
        calm.end_tails()
        calm.lose_power_at_times()
        if repairs is not None:
            repairs.repair_all()
        calm.collect_all()
        calm.read_all()
        if self._clients.data_set is not None:
            self._clients.data_set.judge()
        if repairs is not None:
            repairs.lose_too_much(calm.ledger_ids)

    def _servants(self) -> Sequence[Client]:
        """Return the clients that are not over when faults stop."""
        processes = () if self._repair is None else self._repair.processes
        return (*processes, *(one for one in self._clients.followers if not one.is_over))


def _place_of(error: BaseException) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_filename.rpartition('/main/')[2]}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
    return place
