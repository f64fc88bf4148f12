"""How a bookie of the simulation gets out of limbo: the real ``LedgerRecheck`` and its body.

The body does what ``zbk.auditor.recheck`` does, in the bookie's process: it ends with it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from tests.simulation.copier import CopyBody, HoldingsBody
from tests.simulation.kernel import MS, SECOND, Node
from tests.simulation.links import ClientPool
from tests.simulation.metadata import MetadataServer, Session
from tests.simulation.oracle import BookieOracle
from zbk.actors.identity.losses import Losses
from zbk.durability.limbo_recheck import (
    LedgerRecheck,
    Patience,
    ReadClock,
    RecheckEffect,
    RecheckResult,
    listed_first,
)
from zbk.errors import ZbkError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair import repair_effects as ev
from zbk.protocol.repair.holdings import AskHoldings

ROUND_US: Final = 300 * MS
ROUND_US_MAX: Final = 2 * SECOND


class CheckedBookie(Protocol):
    """What a re-check needs of its bookie."""

    node: Node
    bookie_id: str
    oracle: BookieOracle

    def later(self, delay_us: int, action: Any, *arguments: object) -> None:  # noqa: ANN401 - any
        """Do something later, in this life; what goes wrong in it ends the process."""
        ...


class BookieRecheck:
    """The re-check of one life of a bookie."""

    def __init__(
        self,
        bookie: CheckedBookie,
        losses: Losses,
        pool: ClientPool,
        metadata: MetadataServer,
        *,
        core: type[LedgerRecheck],
        grace_ms: int,
        registered: Callable[[], frozenset[str]],
    ) -> None:
        self._bookie = bookie
        self._node = bookie.node
        self._losses = losses
        self._pool = pool
        self._metadata = metadata
        self._core_type = core
        self._registered = registered
        session = Session(metadata, f"{bookie.bookie_id}.recheck", is_faulty=True)
        session.is_list_whole = False
        self._ledgers = session.ledgers()
        self._tasks = UnderreplicationStore(Session(metadata, "recheck"))
        self._patience = Patience(grace_ms)
        self._queue: list[tuple[int, bool]] = []  # ledgers, and after which losses
        self._core: LedgerRecheck | None = None
        self._ledger_id = 0
        self._has_cleared = False
        self._pause_us = ROUND_US
        if losses.reasons:
            bookie.later(10 * MS, self._begin_round)

    # ------------------------------------------------------------------ rounds

    def _begin_round(self) -> None:
        ledgers = self._ledgers
        self._has_cleared = False
        self._metadata.submit(
            self._node, lambda: list(ledgers.list()), self._in_process(self._on_listing)
        )

    def _on_listing(self, listed: list[int] | ZbkError) -> None:
        if isinstance(listed, ZbkError):
            self._end_round()
            return
        self._queue = []
        for has_lost_fences in (True, False):
            left = self._losses.left(has_lost_fences=has_lost_fences)
            spans = list(zip(left.firsts, left.lasts, strict=True))
            self._queue += [(one, has_lost_fences) for one in listed_first(spans, listed)]
        self._next()

    def _next(self) -> None:
        if not self._queue:
            self._end_round()
            return
        self._ledger_id, has_lost_fences = self._queue.pop(0)
        self._core = self._core_type(
            self._bookie.bookie_id, has_lost_fences=has_lost_fences, patience=self._patience
        )
        self._go_on(self._core.begin())

    def _end_round(self) -> None:
        if self._losses.reasons:
            self._pause_us = (
                ROUND_US if self._has_cleared else min(2 * self._pause_us, ROUND_US_MAX)
            )
            self._bookie.later(self._pause_us, self._begin_round)
        else:
            self._node.kernel.sometimes["limbo: a bookie has left it"] += 1

    def _hand_out(self) -> None:
        """Retry a ledger that was put aside, now that something of it came back."""
        ledger_id = self._ledger_id
        if self._tasks.read_unrepairable(ledger_id) is not None:
            self._node.kernel.sometimes["limbo: a ledger that was put aside is handed out"] += 1
            self._metadata.submit(
                self._node, lambda: self._tasks.retry_unrepairable([ledger_id]), lambda _count: None
            )

    def _clear(self, ranges: list[tuple[int, int]]) -> None:
        oracle = self._bookie.oracle
        oracle.losses.clearing += ranges
        if self._losses.clear(ranges):
            self._has_cleared = True
            oracle.losses.cleared(ranges, self._metadata.current)
        del oracle.losses.clearing[-len(ranges) :]  # not if the process has ended

    # ------------------------------------------------------------------ one ledger

    def _answer(self, value: object) -> None:
        assert self._core is not None, "a ledger is checked"
        self._go_on(self._core.answer(value))

    def _go_on(self, effect: RecheckEffect | None) -> None:
        ledgers, ledger_id, now_ms = self._ledgers, self._ledger_id, self._node.now_ms()
        match effect:
            case ev.LookAtLedger():
                self._metadata.submit(
                    self._node,
                    lambda: ledgers.read(ledger_id, is_fresh=True)[0],
                    self._in_process(partial(self._on_metadata, now_ms)),
                )
            case AskHoldings(bookie_id, span):
                done = self._in_process(self._answer)
                HoldingsBody(self._pool, bookie_id, ledger_id, span, done)
            case ev.CopyFragment(order):
                CopyBody(self._node, self._pool, order, self._in_process(self._answer))
            case ev.WaitUntil(until_ms):
                self._bookie.later(max(1, until_ms - now_ms) * MS, self._answer, until_ms)
            case ReadClock():
                self._answer(now_ms)
            case None:
                assert self._core is not None, "a ledger is checked"
                self._on_result(self._core.result)

    def _on_result(self, result: RecheckResult) -> None:
        ledger_id, sometimes = self._ledger_id, self._node.kernel.sometimes
        if result.is_cleared:
            told = f"{result.copied_count} copied, {result.silent}"
            self._node.trace(f"L{ledger_id} leaves limbo, {told}")
            if result.silent:
                self._bookie.oracle.gave_up.add(ledger_id)
                sometimes["limbo: cleared without a silent peer"] += 1
            if result.copied_count:
                sometimes["limbo: what was lost came back"] += 1
            self._clear([(ledger_id, ledger_id)])
        else:
            self._node.trace(f"L{ledger_id} stays in limbo: {result.reason}")
            sometimes["limbo: a ledger stays in it for now"] += 1
        if result.is_cleared or result.copied_count:
            self._hand_out()
        self._next()

    def _on_metadata(self, asked_ms: int, outcome: LedgerMetadata | ZbkError) -> None:
        if isinstance(outcome, ZbkError):
            self._answer(outcome)
        else:
            now_ms = self._node.now_ms()
            self._answer(ev.LedgerSeen(outcome, self._registered(), asked_ms, now_ms))

    def _in_process(self, take: Any) -> Any:  # noqa: ANN401 - whatever the body tells
        """Return what hands news to the bookie's process: what goes wrong there ends it."""
        return lambda outcome: self._bookie.later(0, take, outcome)
