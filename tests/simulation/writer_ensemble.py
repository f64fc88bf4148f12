"""The ensemble of a writer in the simulation: its links to bookies, and its changes.

New bookies catch up first. The metadata change through the real ``LedgerStore``.
"""

from collections.abc import Callable
from typing import Protocol

from tests.simulation.kernel import Node
from tests.simulation.links import ClientPool
from tests.simulation.world import World
from tests.simulation.writer_requests import CatchUpKey, WriterRequests
from zbk.errors import (
    BookieUnavailableError,
    LedgerFencedError,
    NotEnoughBookiesError,
    ZbkError,
)
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.ledger.changes import change_ensemble
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.write import events as ev
from zbk.protocol.write.catch_up import CatchUp, SendCatchUp
from zbk.transport.events import BookieDown, BookieUp, News, Reply
from zbk.wire.codec import encode_batch
from zbk.wire.messages import AddAnswer, SyncAnswer


class EnsembleWriter(Protocol):
    """What an ensemble needs of its writer."""

    world: World
    node: Node
    pool: ClientPool
    metadata: LedgerMetadata
    is_over: bool

    def handle(self, event: ev.Event) -> None:
        """Hand the core what has happened."""
        ...


class WriterEnsemble:
    """The bookies that one writer writes to."""

    def __init__(
        self, body: EnsembleWriter, requests: WriterRequests, ledgers: LedgerStore
    ) -> None:
        self._body = body
        self._world = body.world
        self._node = body.node
        self._pool = body.pool
        self._requests = requests
        self._ledgers = ledgers
        self.bookies = list(body.metadata.last_fragment.bookies)
        self._deliver: list[Callable[[News], None]] = [self._news_of(b) for b in self.bookies]
        self._changing: tuple[ev.ChangeEnsemble, CatchUp] | None = None

    def subscribe(self) -> None:
        """Begin to hear when the links to all bookies come and go."""
        for bookie_id, deliver in zip(self.bookies, self._deliver, strict=True):
            self._pool.link(bookie_id).subscribe(deliver)

    def change(self, effect: ev.ChangeEnsemble) -> None:
        """Choose new bookies, let them catch up, and write the ensemble; or write it again."""
        if self._changing is not None and self._changing[0].change_id == effect.change_id:
            self._write_ensemble(effect, self._changing[1])  # again: they have caught up
            return
        catch_up = CatchUp(effect, self._choose(effect))
        self._changing = effect, catch_up
        self._node.trace(f"changes the ensemble at {effect.first_entry_id}: {catch_up.caught_up}")
        for send in catch_up.sends:
            self._world.sometimes["writer: a new bookie catches up"] += 1
            self._send_catch_up(send, effect.change_id)
        self._write_if_caught_up()

    def _send_catch_up(self, send: SendCatchUp, change_id: int) -> None:
        key = CatchUpKey(send.slot, change_id)
        for batch in send.batches:
            frames = tuple(bytes(frame) for frame in encode_batch(batch))
            add = self._requests.add(batch, send.lac, send.slot)
            self._pool.request(send.bookie_id, add, frames, key, self._on_catch_up)
        sync = self._requests.sync(send.slot, send.lac)
        self._pool.request(send.bookie_id, sync, (), key, self._on_catch_up)

    def _on_catch_up(self, news: News) -> None:
        assert isinstance(news, Reply), "each question gets a reply"
        key, outcome = news.key, news.outcome
        assert isinstance(key, CatchUpKey)
        if self._body.is_over or self._changing is None:
            return
        change, catch_up = self._changing
        if change.change_id != key.change_id or catch_up.is_over:
            return
        match outcome:
            case AddAnswer():
                catch_up.added(key.slot, None)
            case SyncAnswer():
                catch_up.synced(key.slot, outcome.last_add_synced)
            case _:
                error = outcome if isinstance(outcome, ZbkError) else None
                catch_up.added(key.slot, error or BookieUnavailableError("?", "nonsense"))
        self._write_if_caught_up()

    def _write_if_caught_up(self) -> None:
        assert self._changing is not None, "a change is pending"
        change, catch_up = self._changing
        if catch_up.is_over:
            failed_count = len(catch_up.failures)
            self._world.sometimes["writer: a new bookie cannot catch up"] += failed_count
            self._write_ensemble(change, catch_up)

    def _write_ensemble(self, effect: ev.ChangeEnsemble, catch_up: CatchUp) -> None:
        chosen = catch_up.caught_up
        if not chosen:
            error = NotEnoughBookiesError(len(effect.failed), 0, "no replacement is left")
            self._world.sometimes["writer: no replacement is left"] += 1
            self._node.after(0, self._body.handle, ev.EnsembleChangeFailed(effect.change_id, error))
            return

        def change() -> LedgerMetadata:
            metadata, _version = self._ledgers.update(
                self._body.metadata.ledger_id,
                lambda now: change_ensemble(
                    now, effect.first_entry_id, chosen, effect.length_before
                ),
            )
            return metadata

        self._world.metadata.submit(
            self._node, change, lambda outcome: self._changed(effect.change_id, outcome)
        )

    def _choose(self, effect: ev.ChangeEnsemble) -> dict[int, tuple[str, str]]:
        found = self._world.replacements(self.bookies, tuple(effect.failed))
        return {slot: (effect.failed[slot], found[slot]) for slot in sorted(found)}

    def _changed(self, change_id: int, outcome: LedgerMetadata | ZbkError) -> None:
        if self._body.is_over:
            return
        if isinstance(outcome, ZbkError):
            self._node.trace(f"could not change the ensemble: {outcome!r}")
            if isinstance(outcome, LedgerFencedError):
                self._world.sometimes["writer: an ensemble change meets a recovery"] += 1
            self._body.handle(ev.EnsembleChangeFailed(change_id, outcome))
            return
        self._world.sometimes["writer: the ensemble was changed"] += 1
        self._body.metadata = outcome
        fragment = outcome.last_fragment
        before, after = self.bookies, list(fragment.bookies)
        self.bookies = after
        for slot, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self._pool.link(old).unsubscribe(self._deliver[slot])
        self._body.handle(ev.EnsembleChanged(change_id, fragment.first_entry_id, fragment.bookies))
        for slot, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new:
                self._deliver[slot] = self._news_of(new)
                self._pool.link(new).subscribe(self._deliver[slot])

    def _news_of(self, bookie_id: str) -> Callable[[News], None]:
        def deliver(news: News) -> None:
            if bookie_id not in self.bookies or self._body.is_over:
                return
            slot = self.bookies.index(bookie_id)
            match news:
                case BookieUp():
                    self._body.handle(ev.SlotUp(slot, news.incarnation))
                case BookieDown():
                    self._body.handle(ev.SlotDown(slot, news.error))
                case Reply():
                    raise AssertionError("replies go to those that asked")

        return deliver
