"""A client that follows a ledger while it is written: the real ``TailCore`` and its body.

The body does what ``read.tail_body`` does; metadata come as from a watch, late. Half of the
followers wait for LACs with the client's own sessions (``read.lac_watches``), the others with
long polls, as clients of version 2 do. It is judged here:
entries come in order, none is left out, and the tail ends when the ledger is closed and not before;
the checker judges that nothing was read, and no LAC was told, that is gone later (I2, I3, I6).
"""

from collections.abc import Callable
from typing import Final

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.reader import ReaderBody
from tests.simulation.world import World
from zbk.client.cluster.ledger_calls import LedgerRequests
from zbk.client.cluster.requests import Requests
from zbk.client.read.lac_watches import LacWatches
from zbk.errors import BookieUnavailableError, NoSuchLedgerError, ZbkError
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.read import tail as ev
from zbk.transport.events import News, Reply, Sink
from zbk.wire.messages import LacAnswer, Message, ReadLac, WatchLacs

WATCH_US_MAX: Final = 100 * MS
WAITS_MS: Final = (500, 2_000)
OUTAGE_MS: Final = 60_000

Seen = tuple[LedgerMetadata, int]


class SimulatedRequests(Requests):
    """Sends what the client's sessions ask for through simulated links."""

    def __init__(self, pool: ClientPool, timeout_ms: int) -> None:
        self._links = pool
        self._own_timeout_ms = timeout_ms

    def send(
        self,
        bookie_id: str,
        request: Message,
        frames: tuple[bytes, ...],
        box: Sink,
        key: object,
        *,
        wait_ms: int = 0,
        needs_own_try: bool = False,
    ) -> None:
        assert isinstance(request, WatchLacs | ReadLac)
        self._links.request(
            bookie_id, request, frames, key, lambda news: box.deliver([news]),
            timeout_ms=self._own_timeout_ms + wait_ms,
        )  # fmt: skip


class TailClient:
    """The sessions of a client that follows several ledgers."""

    def __init__(self, world: World) -> None:
        self._node = Node(world.kernel, "tails")
        pool = ClientPool(world.network, self._node, world.request_timeout_ms)
        requests = SimulatedRequests(pool, world.request_timeout_ms)
        self.watches = LacWatches(requests, self._call_soon)

    def _call_soon(self, callback: Callable[[], None]) -> bool:
        self._node.after(0, callback)
        return True


class SimulatedFollower:
    """Follows one ledger from its first entry to its end; ``client`` has sessions for many."""

    def __init__(
        self, world: World, name: str, ledger_id: int, client: Callable[[], TailClient]
    ) -> None:
        self.world = world
        self.node = Node(world.kernel, name)
        self.ledger_id = ledger_id
        self.is_over = False
        self._pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self._reader = ReaderBody(world, self.node, self._pool, on_entry=self._on_entry)
        self._ledgers = world.session(name).ledgers()
        self._wait_ms = world.tape.pick(WAITS_MS)
        self._watches = client().watches if world.tape.aside(2, "watches") else None
        self._watch_numbers: dict[int, int] = {}  # by poll
        self._core: ev.TailCore | None = None
        self._metadata: LedgerMetadata | None = None
        self._next_id = 0
        self._told_lac = NO_ENTRY
        self._due_at_ms: int | None = None
        world.metadata.watchers.append(self._on_change)
        self._open()

    def crash(self) -> None:
        """End the process."""
        self.node.die()
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._pool.close()
        if self._watches is not None:
            for number in self._watch_numbers.values():
                self._watches.end(number)
        if self._on_change in self.world.metadata.watchers:
            self.world.metadata.watchers.remove(self._on_change)

    # ------------------------------------------------------------------ metadata

    def _open(self) -> None:
        def done(outcome: Seen | ZbkError) -> None:
            if isinstance(outcome, NoSuchLedgerError):
                self._end()
            elif isinstance(outcome, ZbkError):
                self.node.after(100 * MS, self._open)
            else:
                self._metadata = outcome[0]
                limits = ev.TailLimits(wait_ms=self._wait_ms, outage_ms=OUTAGE_MS)
                self._core = ev.TailCore(outcome[0], 0, NO_ENTRY, limits)
                self._handle(ev.EntriesWanted(0))

        self.world.metadata.submit(self.node, lambda: self._ledgers.read(self.ledger_id), done)

    def _on_change(self, metadata: LedgerMetadata) -> None:
        """Read the metadata some time after they changed, as after a watch."""
        if metadata.ledger_id == self.ledger_id:
            self.node.after(self.world.tape.draw(8) * WATCH_US_MAX // 8, self._read_metadata)

    def _read_metadata(self) -> None:
        def done(outcome: Seen | ZbkError) -> None:
            if isinstance(outcome, NoSuchLedgerError):
                self._handle(ev.MetadataSeen(None))
            elif not isinstance(outcome, ZbkError):
                self._metadata = outcome[0]
                self._handle(ev.MetadataSeen(*outcome))

        if not self.is_over and self._core is not None:
            self.world.metadata.submit(self.node, lambda: self._ledgers.read(self.ledger_id), done)

    # ------------------------------------------------------------------ the core

    def _handle(self, event: ev.Event) -> None:
        assert self._core is not None, "it has begun"
        if self.is_over:
            return
        for effect in self._core.handle(event, self.node.now_ms()):
            self._carry_out(effect)
        due_ms = self._core.due_ms
        if due_ms is not None and due_ms != self._due_at_ms and not self.is_over:
            self._due_at_ms = due_ms
            self.node.after(max(0, due_ms - self.node.now_ms()) * MS, self._tick, due_ms)

    def _tick(self, due_ms: int) -> None:
        if self._due_at_ms != due_ms:
            return  # another time counts now
        self._due_at_ms = None
        if self.node.now_ms() < due_ms:  # its clock is slow
            self._due_at_ms = due_ms
            self.node.after(MS, self._tick, due_ms)
            return
        self._handle(ev.TailTicked())

    def _carry_out(self, effect: ev.Effect) -> None:
        match effect:
            case ev.PollLac():
                self._poll(effect)
            case ev.ReadMetadata():
                self._read_metadata()
            case ev.EntriesConfirmed(lac):
                self._read(lac)
            case ev.TailEnded():
                self._check_end()
                self._end()
            case ev.TailFailed(error):
                self.node.trace(f"cannot follow L{self.ledger_id}: {error!r}")
                if self.ledger_id in self.world.metadata.current:
                    text = f"the tail of ledger {self.ledger_id} fails: {error!r}"
                    self.world.violated("I35", text)
                self._end()

    def _poll(self, effect: ev.PollLac) -> None:
        assert self._metadata is not None, "it has begun"

        def deliver_all(news: list[News]) -> None:
            for one in news:
                deliver(one)

        def deliver(news: News) -> None:
            assert isinstance(news, Reply), "nothing else was asked for"
            self._watch_numbers.pop(effect.poll_id, None)
            if isinstance(news.outcome, LacAnswer):
                lac = news.outcome.lac
                self.world.sometimes["tail: a poll is answered with news"] += lac > effect.known_lac
                self._handle(ev.PollAnswered(effect.poll_id, lac))
            else:
                self._handle(ev.PollAnswered(effect.poll_id, _error_of(news)))

        ledger = LedgerRequests.of(self._metadata, self.world.ledger_key(self.ledger_id))
        if self._watches is not None:
            number = self._watches.begin(
                effect.bookie_id, ledger, effect.known_lac, _Sink(deliver_all), effect.poll_id
            )
            self._watch_numbers[effect.poll_id] = number
            return
        built = ledger.read_lac(known_lac=effect.known_lac, wait_ms=effect.wait_ms)
        timeout_ms = self.world.request_timeout_ms + effect.wait_ms
        self._pool.request(effect.bookie_id, *built, effect.poll_id, deliver, timeout_ms=timeout_ms)

    # ------------------------------------------------------------------ entries

    def _read(self, lac: int) -> None:
        world = self.world
        assert self._metadata is not None, "it has begun"
        if lac > self._told_lac:
            self._told_lac = lac
            begun = world.history.invoke(
                world.kernel.now_ms, self.node.name, "read_lac", ledger_id=self.ledger_id
            )
            world.history.end(begun, world.kernel.now_ms, "ok", result=lac)

        def done(error: ZbkError | None) -> None:
            if error is None:
                self._handle(ev.EntriesWanted(self._next_id))
            else:
                world.sometimes["tail: confirmed entries cannot be read for now"] += 1
                self._handle(ev.EntriesUnread(error))

        self._reader.read_range(self._metadata, self._next_id, lac, "read", done)

    def _on_entry(self, entry_id: int) -> None:
        if entry_id != self._next_id:
            text = f"the tail of ledger {self.ledger_id} yields entry {entry_id}"
            self.world.violated("tail", f"{text}, {self._next_id} comes next")
        self._next_id = entry_id + 1
        assert self._metadata is not None, "it has begun"
        if entry_id and entry_id in [one.first_entry_id for one in self._metadata.fragments]:
            self.world.sometimes["tail: goes on in the next fragment"] += 1

    def _check_end(self) -> None:
        """Judge that it ended where the ledger does."""
        now = self.world.metadata.current.get(self.ledger_id)
        self.world.sometimes["tail: ended with its ledger"] += 1
        if now is not None and now.last_entry_id != self._next_id - 1:
            text = f"the tail of ledger {self.ledger_id} ends behind {self._next_id - 1}"
            self.world.violated("tail", f"{text}, the ledger's end is {now.last_entry_id}")


class _Sink:
    def __init__(self, deliver: Callable[[list[News]], None]) -> None:
        self.deliver = deliver


def _error_of(reply: Reply) -> ZbkError:
    if isinstance(reply.outcome, ZbkError):
        return reply.outcome
    return BookieUnavailableError(reply.bookie_id, f"nonsense: {type(reply.outcome).__name__}")
