"""Readers of the simulation: the real ``LacRead`` and ``RangeRead``, and what they were told."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tests.simulation.kernel import MS, Node
from tests.simulation.links import ClientPool
from tests.simulation.world import World
from tests.support.history import Event, hash_of
from zbk.client.cluster.ledger_calls import body_of, lac_of
from zbk.errors import (
    BookieUnavailableError,
    MetadataUnavailableError,
    NoSuchEntryError,
    ZbkError,
)
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.read import range_read as reader
from zbk.protocol.read.lac_read import LacRead
from zbk.transport.events import News, Reply
from zbk.wire.codec import encode_ids
from zbk.wire.messages import Read, ReadLac

LOG = "log"
"""The one log of a run."""

LacDone: TypeAlias = Callable[[int | ZbkError], None]
RangeDone: TypeAlias = Callable[[ZbkError | None], None]


class ReaderBody:
    """Reads for one client: each read ends with one call of ``done``."""

    def __init__(
        self,
        world: World,
        node: Node,
        pool: ClientPool,
        on_entry: Callable[[int], None] = lambda _entry_id: None,
    ) -> None:
        self._world = world
        self._node = node
        self._pool = pool
        self._on_entry = on_entry
        self._session = world.session(node.name)

    def read_metadata(self, ledger_id: int, done: Callable[..., None]) -> None:
        """Read a ledger's metadata."""
        ledgers = self._session.ledgers()
        self._world.metadata.submit(self._node, lambda: ledgers.read(ledger_id)[0], done)

    # ------------------------------------------------------------------ LAC

    def read_lac(self, metadata: LedgerMetadata, floor: int, done: LacDone) -> None:
        """Read the LAC of an open ledger."""
        fragment = metadata.last_fragment
        read = LacRead(metadata.quorum, max(floor, fragment.first_entry_id - 1))
        for slot in range(metadata.ensemble_size):
            self._ask_lac(read, slot, metadata, done)

    def _ask_lac(self, read: LacRead, slot: int, metadata: LedgerMetadata, done: LacDone) -> None:
        def deliver(news: News) -> None:
            assert isinstance(news, Reply), "each question gets a reply"
            if read.is_over:
                return
            read.answered(slot, lac_of(news))
            if read.is_found:
                done(read.lac)
            elif read.error is not None:
                done(read.error)

        request = ReadLac(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._world.ledger_key(metadata.ledger_id),
            ledger_type=metadata.ledger_type,
        )
        self._pool.request(metadata.last_fragment.bookies[slot], request, (), slot, deliver)

    # ------------------------------------------------------------------ entries

    def read_range(
        self, metadata: LedgerMetadata, first: int, last: int, call: str, done: RangeDone
    ) -> None:
        """Read entries and note them in the history, fragment by fragment.

        What cannot be read may have been moved: then it is asked for where it is now.
        """
        if first > last:
            done(None)
            return
        fragment, fragment_last = metadata.fragment_of(first)
        end = last if fragment_last is None else min(last, max(first, fragment_last))

        def on_part(failure: Failure | None) -> None:
            if failure is None:
                self.read_range(metadata, end + 1, last, call, done)
            else:
                self._refresh(failure, fragment, last, call, done)

        part = _Part(self._world, self._node, self._pool, metadata, fragment, call, on_part)
        part.on_entry = self._on_entry
        part.run(first, end)

    def _refresh(  # as the client: with a read that sees every change that was answered before
        self, failure: "Failure", fragment: Fragment, last: int, call: str, done: RangeDone
    ) -> None:
        world, ledger_id = self._world, failure.begun.ledger_id
        assert ledger_id is not None, "an entry was read"

        def on_metadata(fresh: LedgerMetadata | ZbkError) -> None:
            if isinstance(fresh, LedgerMetadata):
                now, _ = fresh.fragment_of(failure.entry_id)
                if now.bookies != fragment.bookies:
                    world.sometimes["reader: an entry is elsewhere now"] += 1
                    world.history.end(failure.begun, world.kernel.now_ms, "info")
                    self.read_range(fresh, failure.entry_id, last, call, done)
                    return
            error = failure.error
            if isinstance(fresh, MetadataUnavailableError) and isinstance(error, NoSuchEntryError):
                error = fresh  # where the entry is now is not known
            world.history.end(failure.begun, world.kernel.now_ms, "fail", error=error)
            done(error)

        ledgers = self._session.ledgers()

        def read() -> LedgerMetadata:
            return ledgers.read(ledger_id, is_fresh=True)[0]

        world.metadata.submit(self._node, read, on_metadata)


class Failure(msgspec.Struct, frozen=True):
    """An entry that could not be read."""

    entry_id: int
    begun: Event
    error: ZbkError


class _Part:
    """A read within one fragment."""

    def __init__(
        self,
        world: World,
        node: Node,
        pool: ClientPool,
        metadata: LedgerMetadata,
        fragment: Fragment,
        call: str,
        done: Callable[[Failure | None], None],
    ) -> None:
        self._world = world
        self._node = node
        self._pool = pool
        self._metadata = metadata
        self._fragment = fragment
        self._call = call
        self._done = done
        self.on_entry: Callable[[int], None] = lambda _entry_id: None

    def run(self, first: int, last: int) -> None:
        """Begin."""
        world, metadata = self._world, self._metadata
        size = metadata.ensemble_size
        turn = world.tape.draw(size)
        self._begun = {
            entry_id: world.history.invoke(
                world.kernel.now_ms,
                self._node.name,
                self._call,
                ledger_id=metadata.ledger_id,
                entry_id=entry_id,
                log=LOG if self._call == "log_read" else None,
            )
            for entry_id in range(first, last + 1)
        }
        self._core = reader.RangeRead(
            metadata,
            first,
            last,
            digest=world.digest(metadata),
            slot_order=[(turn + i) % size for i in range(size)],
            speculative_ms=world.speculative_ms,
        )
        self._handle(reader.ReadStarted())

    def _handle(self, event: reader.Event) -> None:
        for effect in self._core.handle(event, self._node.now_ms()):
            match effect:
                case reader.SendRead():
                    self._send(effect)
                case reader.Delivered():
                    self._delivered(effect)
                case reader.ReadFailed():
                    self._failed(effect.error)
        at_ms = self._core.speculate_at_ms
        if at_ms is not None and not self._core.is_over:
            self._node.after((at_ms - self._node.now_ms()) * MS, self._look, at_ms)

    def _look(self, at_ms: int) -> None:
        if not self._core.is_over and self._core.speculate_at_ms == at_ms:
            self._handle(reader.ReadTicked())

    def _delivered(self, effect: reader.Delivered) -> None:
        world = self._world
        for entry in effect.batch.entries():
            begun = self._begun.pop(entry.entry_id)
            value = hash_of(bytes(entry.payload))
            world.history.end(begun, world.kernel.now_ms, "ok", value_hash=value)
            self.on_entry(entry.entry_id)
        if effect.is_last:
            self._done(None)

    def _failed(self, error: ZbkError) -> None:
        entry_id = min(self._begun)
        self._node.trace(f"cannot read L{self._metadata.ledger_id}/{entry_id}: {error!r}")
        self._done(Failure(entry_id, self._begun[entry_id], error))

    def _send(self, effect: reader.SendRead) -> None:
        ids, metadata = effect.entry_ids, self._metadata
        is_striped = not isinstance(ids, range)
        request = Read(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=self._world.ledger_key(metadata.ledger_id),
            ledger_type=metadata.ledger_type,
            first_entry_id=ids[0],
            last_entry_id=ids[-1],
            size_max=self._world.read_size_max,
            is_striped=is_striped,
        )

        def deliver(news: News) -> None:
            assert isinstance(news, Reply), "each question gets a reply"
            self._handle(reader.ReadAnswered(effect.slot, effect.read_id, body_of(news)))

        frames = (bytes(encode_ids(ids)),) if is_striped else ()
        bookie_id = self._fragment.bookies[effect.slot]
        self._pool.request(bookie_id, request, frames, effect.read_id, deliver)


class SimulatedReader:
    """A client that looks at one ledger again and again."""

    def __init__(self, world: World, name: str, ledger_id: int) -> None:
        self._world = world
        self.node = Node(world.kernel, name)
        self.pool = ClientPool(world.network, self.node, world.request_timeout_ms)
        self._body = ReaderBody(world, self.node, self.pool)
        self._ledger_id = ledger_id
        self._lac = -1
        self.is_over = False
        self.node.after(world.tape.draw(10) * 20 * MS, self._begin)

    def crash(self) -> None:
        """End the process."""
        self.node.die()
        self.pool.close()
        self.is_over = True

    def _begin(self) -> None:
        if self._world.is_ending:
            self.is_over = True
            return
        self._body.read_metadata(self._ledger_id, self._on_metadata)

    def _on_metadata(self, metadata: LedgerMetadata | ZbkError) -> None:
        world = self._world
        if isinstance(metadata, ZbkError):
            self._again()
            return
        begun = world.history.invoke(
            world.kernel.now_ms, self.node.name, "read_lac", ledger_id=self._ledger_id
        )

        def done(lac: int | ZbkError) -> None:
            if isinstance(lac, ZbkError):
                world.history.end(begun, world.kernel.now_ms, "info", error=lac)
                self._again()
                return
            self._lac = lac
            world.history.end(begun, world.kernel.now_ms, "ok", result=lac)
            first = world.tape.draw(lac + 1) if lac >= 0 else 0
            self._body.read_range(metadata, first, lac, "read", lambda _error: self._again())

        if metadata.last_entry_id is not None:
            done(metadata.last_entry_id)
        else:
            self._body.read_lac(metadata, self._lac, done)

    def _again(self) -> None:
        self.node.after((1 + self._world.tape.draw(10)) * 20 * MS, self._begin)


def _error_of(reply: Reply) -> ZbkError:
    if isinstance(reply.outcome, ZbkError):
        return reply.outcome
    return BookieUnavailableError(reply.bookie_id, f"nonsense: {type(reply.outcome).__name__}")
