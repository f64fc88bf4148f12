"""A client that writes several ledgers with the code that ships, all but its threads.

``LedgerWriter``, ``AppendMailbox``, ``WriterActor``, ``WriterBody``, ``Deadlines`` and the bundles
are the real ones. Three threads are events here: the application's, the actor's own, and that of
the connections, which delivers news, calls back at deadlines, and takes turns of an idle actor. It
may come in between wherever the actor's thread calls the connections.

A bug is put into one writer at times: it ends that one, and no other (I42). Turns do not run beside
one another (I43).
"""

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from tests.simulation.bundling_link import BundlingPool
from tests.simulation.kernel import MS, Node
from tests.simulation.links import Outstanding
from tests.simulation.world import World
from tests.simulation.writer import Plan
from tests.simulation.writer_oracle import WriterOracle, may_lose
from tests.support.history import Event, hash_of
from zbk.client.cluster.metadata_actor import MetadataTask
from zbk.client.write.append_budget import AppendBudget
from zbk.client.write.append_future import SharedCondition
from zbk.client.write.ledger_writer import CallTerms, LedgerWriter
from zbk.client.write.mailbox import AppendMailbox
from zbk.client.write.writer_actor import Join, WriterActor, WriterDoor
from zbk.client.write.writer_body import WriterBody, WriterSetup
from zbk.client.write.writer_metadata import WriterMetadata
from zbk.errors import MetadataUnavailableError, NotDurableError, ZbkError
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.direct_inbox import TurnQueue
from zbk.transport.bundles import BundleLimits
from zbk.transport.events import BookieDown, BookieUp, News, Outgoing, Sink
from zbk.wire.messages import Add

LIMITS: Final = (
    BundleLimits(),
    BundleLimits(part_size_max=600, size_max=1_000, count_max=3),
    BundleLimits(part_size_max=200, size_max=600, count_max=2),
)
CLOSE_TIMEOUT_S: Final = 0.4
CLOSE_COUNT_MAX: Final = 20
STUCK_CLOSE_COUNT_MAX: Final = 4


class PlannedError(Exception):
    """Put into one writer on purpose."""


class BreakableBody(WriterBody):
    """The real one; it has room for a bug."""


class ConnectionsThread:
    """The real ``BookiePool``'s part: subscriptions, requests, and the thread that they run in."""

    def __init__(self, world: World, node: Node, limits: BundleLimits) -> None:
        self._world = world
        self._node = node
        self._pool = BundlingPool(world, node, limits)
        self._deliveries: dict[tuple[str, object], Callable[[News], None]] = {}
        self._posted: list[tuple[Sink, News]] = []
        self._alarms: dict[Callable[[], None], int] = {}
        self.on_request: Callable[[Outgoing], None] = lambda _outgoing: None
        self.is_in_actor = False  # the actor's own thread runs

    def close(self) -> None:
        """End it with its client."""
        self._pool.close()

    # -------------------------------------------------------------- as BookiePool has them

    def subscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Report when the link comes and goes, beginning with now."""

        def deliver(news: News) -> None:
            assert isinstance(news, BookieUp | BookieDown), "a reply goes to whoever asked"
            self._post(sink, msgspec.structs.replace(news, key=key))

        self._deliveries[(bookie_id, key)] = deliver
        self._pool.link(bookie_id).subscribe(deliver)

    def unsubscribe(self, bookie_id: str, sink: Sink, key: object = None) -> None:
        """Report no more."""
        del sink
        self._pool.link(bookie_id).unsubscribe(self._deliveries.pop((bookie_id, key)))

    def request(self, outgoing: Outgoing) -> None:
        """Send a request; what comes of it is posted."""
        self.on_request(outgoing)
        outstanding = Outstanding(
            outgoing.key,
            partial(self._post, outgoing.sink),
            type(outgoing.request).__name__,
            outgoing.timeout_ms,
            outgoing.size,
        )
        frames = tuple(bytes(frame) for frame in outgoing.frames)
        request: Any = outgoing.request
        self._pool.link(outgoing.bookie_id).request(request, frames, outstanding)
        if self.is_in_actor and self._posted and self._world.tape.draw(2):
            self._world.sometimes["shared client: news in the middle of a turn"] += 1
            self._hand_out()

    def request_all(self, outgoings: Sequence[Outgoing]) -> None:
        """Send requests, in order."""
        for outgoing in outgoings:
            self.request(outgoing)

    def reset(self, bookie_id: str, sink: Sink, error: ZbkError, key: object = None) -> None:
        """Make a connection anew."""
        del sink, key
        self._pool.link(bookie_id).reset(error)

    def call_soon(self, callback: Callable[[], None]) -> bool:
        """Call back in the thread of the connections; false: it is busy."""
        if self._world.tape.draw(4) == 3:
            return False
        self._node.after(self._world.tape.draw(4) * 30, callback)
        return True

    def call_at(self, due_ms: int | None, callback: Callable[[], None]) -> None:
        """Call back at a time, which replaces an earlier one; in the actor only if sooner."""
        known_ms = self._alarms.get(callback)
        if self.is_in_actor and known_ms is not None and (due_ms is None or due_ms >= known_ms):
            return
        if due_ms is None:
            self._alarms.pop(callback, None)
            return
        self._alarms[callback] = due_ms

        def call() -> None:
            if self._alarms.get(callback) == due_ms:
                del self._alarms[callback]
                callback()

        self._node.after(max(0, due_ms - self._node.now_ms()) * MS, call)

    # -------------------------------------------------------------- private

    def _post(self, sink: Sink, news: News) -> None:
        self._posted.append((sink, news))
        if len(self._posted) == 1:
            self._node.after(self._world.tape.draw(4) * 40, self._hand_out)

    def _hand_out(self) -> None:
        posted, self._posted = self._posted, []
        is_in_actor, self.is_in_actor = self.is_in_actor, False
        for sink in dict.fromkeys(sink for sink, _news in posted):
            sink.deliver([news for other, news in posted if other is sink])
        self.is_in_actor = is_in_actor


class SteppedInbox(TurnQueue):
    """The real one, of an actor whose thread waits, or is about to take a message."""

    def __init__(self) -> None:
        super().__init__()
        self.on_put: Callable[[], None] = lambda: None
        self.end()  # the actor waits

    def put(self, envelope: Any) -> None:  # noqa: ANN401 - as TurnQueue has it
        """Leave a message for the actor."""
        super().put(envelope)
        self.on_put()

    def take(self) -> Any:  # noqa: ANN401 - as TurnQueue has it
        """Return the next message, with the turn."""
        is_free = self._turn.acquire(blocking=False)
        assert is_free, "turns are taken one after the other"
        return self.get().message


class SteppedWriterActor(WriterActor):
    """The real one; its own turns are events."""

    def __init__(
        self,
        world: World,
        node: Node,
        door: WriterDoor,
        connections: ConnectionsThread,
        on_turn: Callable[[], None],
    ) -> None:
        pool: Any = connections
        super().__init__(door, pool, node.now_ms)
        self._on_turn = on_turn
        self._world = world
        self._node = node
        self._connections = connections
        self._is_in_turn = False
        self._is_waking = False
        inbox: SteppedInbox = self.actor_inbox
        inbox.on_put = self._wake

    @staticmethod
    def _create_actor_inbox() -> SteppedInbox:
        return SteppedInbox()

    def on_receive(self, message: Any) -> None:  # noqa: ANN401 - as pykka has it
        """Take a turn."""
        if self._is_in_turn:
            self._world.violated("I43", f"{self._node.name}: a turn beside another one")
            return
        self._is_in_turn = True
        try:
            super().on_receive(message)
        finally:
            self._is_in_turn = False
        self._on_turn()

    def _wake(self) -> None:
        if not self._is_waking and self._node.is_alive:
            self._is_waking = True
            self._node.after(10 + self._world.tape.draw(4) * 50, self._work)

    def _work(self) -> None:
        self._is_waking = False
        inbox: SteppedInbox = self.actor_inbox
        message = inbox.take()
        self._connections.is_in_actor = True
        self._thread_id = threading.get_ident()
        try:
            self.on_receive(message)
        finally:
            self._connections.is_in_actor = False
            self._thread_id = 0
            inbox.end()
        if inbox.has_waiting:
            self._wake()

    def _fail(self, writer: WriterBody, error: Exception) -> None:
        if not isinstance(error, PlannedError):
            raise error  # a bug that nobody has planned
        others = [one for one in self._writers if one is not writer and not one.is_ended]
        super()._fail(writer, error)
        if any(one.is_ended for one in others):
            text = f"{self._node.name}: a bug in the writer of ledger {writer.ledger_id}"
            self._world.violated("I42", f"{text} ends others")


class _Placer:
    """Chooses replacements, as ``BookiePlacer``."""

    def __init__(self, world: World) -> None:
        self._world = world

    def note_failed(self, bookie_ids: Collection[str]) -> None:
        """Remember nothing: any bookie may be chosen again."""

    def lacking(self, needs: Collection[str]) -> str:
        """Return the names of bookies that lack features: none."""
        del needs
        return ""

    def replacements(
        self,
        ensemble: Sequence[str],
        failed_slots: Collection[int],
        *,
        may_avoided: bool = True,
        needs: Collection[str] = (),
    ) -> dict[int, str]:
        """Return a new bookie for each failed slot, as many as there are."""
        del may_avoided, needs  # all bookies know all ledgers
        return self._world.replacements(list(ensemble), tuple(failed_slots))


class _MetadataThread:
    """Waits for the metadata store, as ``MetadataActors``."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def tell(self, key: object, task: MetadataTask) -> None:
        """Carry out a task."""
        del key
        self._world.metadata.submit(self._node, task.run, task.done)


class _OpenLedger:
    """One ledger of the client, and the application's calls to it."""

    def __init__(self, client: "SharedClient", metadata: LedgerMetadata, plan: Plan) -> None:
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


class SharedClient:
    """One process that writes several ledgers."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        connections = ConnectionsThread(world, self.node, world.tape.pick(LIMITS))
        connections.on_request = self._on_request
        self._connections = connections
        self.pool: Any = connections
        self.budget = AppendBudget(1 << 24)
        session = world.session(name)
        self.ledgers = session.ledgers()
        self.tasks = UnderreplicationStore(session)
        self.placer: Any = _Placer(world)
        self.metadata_thread: Any = _MetadataThread(world, self.node)
        self._open: dict[int, _OpenLedger] = {}
        self._doors = [self._make_door() for _ in range(1 + world.tape.draw(2))]
        if world.tape.draw(3) == 1:
            self.node.after((1 + world.tape.draw(20)) * 50 * MS, self._break_one)

    @property
    def is_over(self) -> bool:
        """True when all of its ledgers are closed, or have failed to be, or when it is dead."""
        return not self.node.is_alive or all(one.is_over for one in self._open.values())

    def write(self, metadata: LedgerMetadata, plan: Plan) -> None:
        """Begin to write one more ledger."""
        if self.node.is_alive:
            self._open[metadata.ledger_id] = _OpenLedger(self, metadata, plan)

    def crash(self) -> None:
        """End the process: whoever waits never hears."""
        self.node.trace("the client of many ledgers dies")
        self.node.die()
        self._connections.close()
        for one in self._open.values():
            one.give_up()

    def door_of(self, ledger_id: int) -> WriterDoor:
        """Return the way to the actor of a ledger."""
        return self._doors[ledger_id % len(self._doors)]

    def _make_door(self) -> WriterDoor:
        door = WriterDoor(self.pool)
        SteppedWriterActor(self.world, self.node, door, self._connections, self._check)
        return door

    def _on_request(self, outgoing: Outgoing) -> None:
        request = outgoing.request
        if isinstance(request, Add):
            last_entry_id = request.first_entry_id + request.count - 1
            self._open[request.ledger_id].oracle.sent(last_entry_id)

    def _check(self) -> None:
        for one in self._open.values():
            one.oracle.check_lac()

    def _break_one(self) -> None:
        """Put a bug into one writer."""
        victims = [one for one in self._open.values() if not one.is_over and not one.body.is_ended]
        if not victims or self.world.is_ending:
            return
        victim = victims[self.world.tape.draw(len(victims))]
        self.world.sometimes["shared client: a bug ends one writer"] += 1

        def fail(*_arguments: object) -> None:
            raise PlannedError

        body: Any = victim.body
        body.take_in = body.tick = fail
