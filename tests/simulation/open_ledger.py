"""One of the ledgers that a client writes, and the application's calls to it.

``LedgerWriter``, ``AppendMailbox`` and ``WriterBody`` are the real ones.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

from tests.simulation.kernel import MS, Node
from tests.simulation.world import World
from tests.simulation.writer import Plan
from tests.simulation.writer_oracle import WriterOracle, may_lose
from tests.support.history import Event, hash_of
from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.append_future import SharedCondition
from zbk.client.write.ledger_writer import CallTerms, LedgerWriter
from zbk.client.write.mailbox import AppendMailbox
from zbk.client.write.writer_actor import Join, WriterDoor
from zbk.client.write.writer_body import WriterBody, WriterSetup
from zbk.client.write.writer_metadata import WriterMetadata
from zbk.errors import MetadataUnavailableError, NotDurableError, ZbkError
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.metadata import LedgerMetadata

CLOSE_TIMEOUT_S: Final = 0.4
CLOSE_COUNT_MAX: Final = 20
STUCK_CLOSE_COUNT_MAX: Final = 4


class LedgersClient(Protocol):
    """What an open ledger needs of its client."""

    world: World
    node: Node
    pool: Any
    budget: AppendBudget
    ledgers: LedgerStore
    tasks: UnderreplicationStore
    placer: Any
    metadata_thread: Any

    def door_of(self, ledger_id: int) -> WriterDoor:
        """Return the way to the actor of a ledger."""
        ...


class BreakableBody(WriterBody):
    """The real one; it has room for a bug."""


class OpenLedger:
    """One ledger of the client, and the application's calls to it."""

    def __init__(self, client: LedgersClient, metadata: LedgerMetadata, plan: Plan) -> None:
        self._client = client
        self._world = world = client.world
        self._node = client.node
        self._metadata = metadata
        self._plan = plan
        self.ledger_id = metadata.ledger_id
        self.is_over = False
        core = world.parts.writer_core(world, metadata)
        self._accepts_loss = may_lose(self.ledger_id)
        self._left_count = plan.append_count
        self._value_count = 0
        self._synced_id = -1
        self._close_left = CLOSE_COUNT_MAX
        self._stuck_left = STUCK_CLOSE_COUNT_MAX
        door = client.door_of(self.ledger_id)

        def rouse(is_lone: bool) -> None:
            door.rouse(self.body, is_lone=is_lone)

        mailbox = AppendMailbox(1 << 20, rouse, client.budget)
        current = WriterMetadata(
            metadata, client.ledgers, client.tasks, client.placer, client.metadata_thread
        )
        self.oracle = WriterOracle(
            world, lambda: current.current, core, accepts_loss=self._accepts_loss
        )
        setup = WriterSetup(
            metadata=current,
            ledger_key=world.ledger_key(self.ledger_id),
            core=core,
            mailbox=mailbox,
            pool=client.pool,
            request_timeout_ms=world.request_timeout_ms,
            condition=SharedCondition(),
            sink=door,
            now_ms=client.node.now_ms,
        )
        self.body = BreakableBody(setup, door.tell_writer, door.forget, threading.Event())
        door.leave_message(Join(self.body))
        self._writer = LedgerWriter(
            current,
            core,
            mailbox,
            setup.condition,
            partial(door.tell_writer, self.body),
            partial(door.end_writer, self.body),
            CallTerms(1 << 20, 1.0, lambda: None),
        )
        self._node.after(world.tape.draw(20) * MS, self._append)

    # -------------------------------------------------------------- appends and syncs

    def _append(self) -> None:
        tape, plan = self._world.tape, self._plan
        if not self._left_count or self._world.is_ending:
            self._node.after(tape.draw(4) * 5 * MS, self._close)
            return
        count = min(self._left_count, 1 + tape.draw(plan.batch_count_max))
        self._left_count -= count
        payloads = [self._value() for _ in range(count)]
        begun = [self._invoke("add", value_hash=hash_of(payload)) for payload in payloads]
        try:
            if tape.draw(2):
                future: Any = self._writer.append_many(payloads)
                future.add_done_callback(partial(self._appended, begun))
            else:
                for payload, event in zip(payloads, begun, strict=True):
                    future = self._writer.append_async(payload)
                    future.add_done_callback(partial(self._appended, [event]))
        except ZbkError as error:  # the writer has ended
            for event in begun:
                self._end(event, "info", error=error)
            self._left_count = 0
        if tape.chance(plan.sync_share):
            self._sync()
        self._node.after(tape.draw(8) * plan.gap_us_max // 8, self._append)

    def _value(self) -> bytes:
        text = f"L{self.ledger_id} value {self._value_count} "
        self._value_count += 1
        return text.encode() + bytes(self._world.tape.draw(self._plan.size_max))

    def _appended(self, begun: Sequence[Event], future: Any) -> None:  # noqa: ANN401
        error = future.exception()
        if error is not None:
            for event in begun:
                self._end(event, "info", error=error)
            return
        ids = future.result() if future.is_many else range(future.result(), future.result() + 1)
        self._world.acknowledged(self._metadata, ids[0], len(ids))
        self.oracle.told(ids[-1])
        for entry_id, event in zip(ids, begun, strict=True):
            self._end(event, "ok", ledger_id=self.ledger_id, entry_id=entry_id)

    def _sync(self) -> None:
        begun = self._invoke("sync")
        try:
            future: Any = self._writer.sync_async()
        except ZbkError as error:
            self._end(begun, "info", error=error)
        else:
            future.add_done_callback(partial(self._synced, begun))

    def _synced(self, begun: Event, future: Any) -> None:  # noqa: ANN401
        error = future.exception()
        if error is not None:
            self._end(begun, "info", error=error)
            return
        last_id = future.result()
        self._world.check_durable(self.ledger_id, self._synced_id + 1, last_id)
        self._synced_id = max(self._synced_id, last_id)
        self._end(begun, "ok", result=last_id)

    # -------------------------------------------------------------- the end

    def _close(self) -> None:
        begun = self._invoke("close")
        try:
            future: Any = self._writer._begin_close(CLOSE_TIMEOUT_S, accept_loss=self._accepts_loss)
        except ZbkError as error:
            self._end(begun, "info", error=error)
            self._finish()
        else:
            future.add_done_callback(partial(self._closed, begun))

    def _closed(self, begun: Event, future: Any) -> None:  # noqa: ANN401
        error = future.exception()
        if error is None:
            end = future.result()
            self.oracle.check_end(end)
            kind: Any = "ok" if end >= self.oracle.told_id else "info"  # it accepts the loss
            self._end(begun, kind, result=end)
            self._finish()
            return
        self._end(begun, "info", error=error)
        if isinstance(error, MetadataUnavailableError) and self._close_left:
            self._close_left -= 1
        elif isinstance(error, NotDurableError) and self._stuck_left:
            self._stuck_left -= 1
        else:
            self._finish()
            return
        self._node.after(100 * MS, self._close)

    def _finish(self) -> None:
        self.is_over = self.oracle.is_over = True
        self._writer._end_body()

    def give_up(self) -> None:
        """End with the process."""
        self.is_over = self.oracle.is_over = True

    # -------------------------------------------------------------- private

    def _invoke(self, call: str, **what: Any) -> Event:  # noqa: ANN401 - as History.invoke
        world = self._world
        return world.history.invoke(
            world.kernel.now_ms, self._node.name, call, ledger_id=self.ledger_id, **what
        )

    def _end(self, begun: Event, kind: Any, **what: Any) -> None:  # noqa: ANN401 - as History.end
        self._world.history.end(begun, self._world.kernel.now_ms, kind, **what)
