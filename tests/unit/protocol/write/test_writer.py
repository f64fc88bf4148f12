"""WriterCore as stories: golden scripts, and what a script cannot show."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

import msgspec
import pytest

from tests.support.entry_decoding import decode_entry
from tests.support.golden import run_script, scripts
from zbk.durability.level import level_of
from zbk.errors import (
    BookieUnavailableError,
    BusyError,
    ClientClosedError,
    IllegalTransitionError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    RequestTimeoutError,
    UnauthorizedError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import entry_size
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span, spans_text
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import (
    Abandoned,
    Acked,
    AddAnswered,
    AddFailed,
    Append,
    Appends,
    BookiesChanged,
    ChangeEnsemble,
    CloseFailed,
    CloseLedger,
    CloseRequested,
    Effect,
    EnsembleChanged,
    EnsembleChangeFailed,
    Event,
    Failed,
    LacFailed,
    LacTaken,
    ReportMissing,
    SendAdd,
    SendLac,
    SendSync,
    SlotDown,
    SlotSuspect,
    SlotUp,
    SyncAnswered,
    SyncDone,
    SyncFailed,
    SyncFailedFor,
    SyncRequested,
    Tick,
)
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

LEDGER_ID = 7
DIGEST = digest_function(DigestType.XXH3, b"", LEDGER_ID)
ERRORS: dict[str, Callable[[], ZbkError]] = {
    "fenced": lambda: LedgerFencedError(LEDGER_ID),
    "unauthorized": lambda: UnauthorizedError(LEDGER_ID),
    "closed": lambda: LedgerClosedError(LEDGER_ID),
    "timeout": lambda: RequestTimeoutError("add", 5.0),
    "busy": lambda: BusyError("too much on its way"),
    "lost": lambda: BookieUnavailableError("b", "connection lost"),
    "none": lambda: NotEnoughBookiesError(1, 0, "no replacement"),
    "metadata": lambda: MetadataUnavailableError("m", "no answer"),
    "conflict": lambda: MetadataConflictError("/ledgers/7", "others were quicker"),
    "illegal": lambda: IllegalTransitionError("ledger 7", "starts of fragments grow"),
    "deleted": lambda: NoSuchLedgerError(LEDGER_ID),
}


def make_writer(
    quorum: Quorum, ledger_type: LedgerType = LedgerType.PD_JOURNAL, **limits: int
) -> WriterCore:
    return WriterCore(
        LEDGER_ID,
        quorum,
        level_of(ledger_type),
        ensemble=[f"b{slot}" for slot in range(quorum.ensemble_size)],
        digest_type=DigestType.XXH3,
        digest=DIGEST,
        limits=msgspec.convert(limits, WriterLimits),
    )


def writer_up(
    quorum: Quorum, ledger_type: LedgerType = LedgerType.PD_JOURNAL, **limits: int
) -> WriterCore:
    core = make_writer(quorum, ledger_type, **limits)
    for slot in range(quorum.ensemble_size):
        core.handle(SlotUp(slot, 1), 0)
    return core


class WriterScript:
    """The commands a golden script may use. Options are ``name=value``.

    Without ``manual=1`` there are no spare bookies, and ensemble changes are declined at once.
    """

    def __init__(self) -> None:
        self.core = make_writer(Quorum(1, 1, 1))
        self.is_manual = False
        self.now_ms = 0
        self.incarnations: dict[int, int] = {}

    def __call__(self, words: list[str]) -> str:
        name, *rest = words
        args = [word for word in rest if "=" not in word]
        options = {k: int(v) for k, v in (word.split("=") for word in rest if "=" in word)}
        result = getattr(self, f"do_{name}")(*args, **options)
        if isinstance(result, str):
            return result
        lines = [f"{' '.join(words)}:  {self._state()}"]
        return "\n    ".join(lines + [_line(effect) for effect in result])

    def do_writer(self, kind: str, *sizes: str, manual: int = 0, **limits: int) -> str:
        ledger_type = {"pd": LedgerType.PD_JOURNAL, "vd": LedgerType.VD_JOURNAL}[kind]
        quorum = Quorum(*map(int, sizes))
        limits.setdefault("explicit_lac_ms", 0)
        self.core = make_writer(quorum, ledger_type, **limits)
        self.is_manual = bool(manual)
        self.now_ms = 0
        self.incarnations = {}
        for slot in range(quorum.ensemble_size):
            self.do_up(str(slot))
        return f"a {kind} writer, {'/'.join(sizes)}, every slot is up"

    def do_up(self, slot: str, inc: int | None = None) -> list[Effect]:
        self.incarnations[int(slot)] = inc or self.incarnations.get(int(slot), 1)
        return self._handle(SlotUp(int(slot), self.incarnations[int(slot)]))

    def do_down(self, slot: str) -> list[Effect]:
        return self._handle(SlotDown(int(slot), BookieUnavailableError(f"b{slot}", "lost")))

    def do_append(self, ticket: str, *sizes: str) -> list[Effect]:
        return self._handle(Append(ticket, [bytes(int(size)) for size in sizes]))

    def do_ack(
        self, slot: str, first: str, las: int = -1, inc: int | None = None, epoch: int = 0
    ) -> list[Effect]:
        incarnation = inc or self.incarnations[int(slot)]
        return self._handle(AddAnswered(int(slot), int(first), incarnation, las, epoch))

    def do_refuse(self, slot: str, first: str, error: str, epoch: int = 0) -> list[Effect]:
        return self._handle(AddFailed(int(slot), int(first), ERRORS[error](), epoch))

    def do_changed(self, change_id: str, first: str, *ensemble: str) -> list[Effect]:
        return self._handle(EnsembleChanged(int(change_id), int(first), ensemble))

    def do_unchanged(self, change_id: str, error: str) -> list[Effect]:
        return self._handle(EnsembleChangeFailed(int(change_id), ERRORS[error]()))

    def do_bookies(self) -> list[Effect]:
        return self._handle(BookiesChanged())

    def do_told(self, slot: str, lac: str, epoch: int = 0) -> list[Effect]:
        return self._handle(LacTaken(int(slot), int(lac), epoch))

    def do_untold(self, slot: str, lac: str, epoch: int = 0) -> list[Effect]:
        return self._handle(LacFailed(int(slot), int(lac), ERRORS["timeout"](), epoch))

    def do_sync(self, ticket: str) -> list[Effect]:
        return self._handle(SyncRequested(ticket))

    def do_synced(
        self, slot: str, sync_id: str, las: int = -1, inc: int | None = None, epoch: int = 0
    ) -> list[Effect]:
        incarnation = inc or self.incarnations[int(slot)]
        return self._handle(SyncAnswered(int(slot), int(sync_id), incarnation, las, epoch))

    def do_unsynced(self, slot: str, sync_id: str, error: str, epoch: int = 0) -> list[Effect]:
        return self._handle(SyncFailed(int(slot), int(sync_id), ERRORS[error](), epoch))

    def do_close(self, ticket: str, wait: int = 1_000, loss: int = 0) -> list[Effect]:
        return self._handle(CloseRequested(ticket, wait, bool(loss)))

    def do_wait(self, ms: str) -> list[Effect]:
        self.now_ms += int(ms)
        return self._handle(Tick())

    def _handle(self, event: Event) -> list[Effect]:
        effects = self.core.handle(event, self.now_ms)
        changes = [effect for effect in effects if isinstance(effect, ChangeEnsemble)]
        if changes and not self.is_manual:
            effects += self._handle(EnsembleChangeFailed(changes[0].change_id, ERRORS["none"]()))
        return effects

    def _state(self) -> str:
        core = self.core
        next_tick_ms = core.next_tick_ms
        wanted = "" if next_tick_ms is None else f" tick in {next_tick_ms - self.now_ms}"
        path = core.path
        return f"lap={path.last_appended_id} acked={path.last_acked_id} lac={path.lac}{wanted}"


def _line(effect: Effect) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each kind of effect
    match effect:
        case SendAdd():
            ids = effect.batch.entry_ids
            is_row = list(ids) == list(range(ids[0], ids[-1] + 1))
            text = f"{ids[0]}..{ids[-1]}" if is_row else ",".join(map(str, ids))
            return f"s{effect.slot} <- add {text} lac={effect.lac}"
        case SendSync():
            return f"s{effect.slot} <- sync #{effect.sync_id} lac={effect.lac}"
        case Acked():
            tickets = [f"{ticket}={first}+{count}" for ticket, first, count in effect.tickets]
            return f"acked {' '.join(tickets)}"
        case Failed():
            return f"failed {' '.join(effect.tickets)}: {_error(effect.error)}"
        case SyncDone():
            return f"sync {effect.ticket} done: {effect.last_entry_id}"
        case SyncFailedFor():
            return f"sync {effect.ticket} failed: {_error(effect.error)}"
        case CloseLedger():
            end = f"at {effect.last_entry_id}, {effect.length} bytes"
            missing = f", missing {_spans(effect.missing)}" if effect.missing else ""
            return f"close {effect.ticket}: CLOSED {end}{missing}"
        case CloseFailed():
            return f"close {effect.ticket} failed: {_error(effect.error)}"
        case SendLac():
            return f"s{effect.slot} <- lac {effect.lac}"
        case ChangeEnsemble():
            failed = " ".join(f"s{slot}={bookie}" for slot, bookie in effect.failed.items())
            urgent = ", urgent" if effect.is_urgent else ""
            moved = sorted({ids for ids in map(_ids_of, effect.unsynced.values()) if ids})
            caught_up = f", catches up {' '.join(moved)}" if moved else ""
            start = f"change #{effect.change_id} from {effect.first_entry_id}"
            return f"{start}: {failed}{urgent}{caught_up}"
        case ReportMissing():
            return f"report {_spans(effect.missing)}"
        case SlotSuspect():
            return f"s{effect.slot} suspect: {_error(effect.error)}"
        case _:
            assert_never(effect)


def _ids_of(batches: Sequence[EntryBatch]) -> str:
    if not batches:
        return ""
    return f"{batches[0].first_entry_id}..{batches[-1].last_entry_id}"


def _spans(missing: Mapping[str, Sequence[Span]]) -> str:
    return " ".join(f"{bookie}={spans_text(spans)}" for bookie, spans in missing.items())


def _error(error: ZbkError) -> str:
    return f"{type(error).__name__}({error})"


@pytest.mark.parametrize("script", scripts("writer"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, WriterScript(), rewrite=rewrite_golden)


# ------------------------------------------------------------------ what goes into batches


def batches(effects: list[Effect], slot: int = 0) -> list[list[int]]:
    return [list(e.batch.entry_ids) for e in effects if isinstance(e, SendAdd) and e.slot == slot]


def only(effects: list[Effect], kind: type[Any]) -> Any:  # noqa: ANN401 - an effect of that kind
    found = [effect for effect in effects if isinstance(effect, kind)]
    assert len(found) == 1, effects
    return found[0]


def test_every_slot_gets_the_same_batch_object() -> None:
    core = writer_up(Quorum(3, 3, 2))

    sent = core.handle(Append("t", [b"one", b"two"]), 0)

    assert [effect.slot for effect in sent if isinstance(effect, SendAdd)] == [0, 1, 2]
    assert len({id(effect.batch) for effect in sent if isinstance(effect, SendAdd)}) == 1


def test_a_batch_holds_the_entries_as_they_will_be_read() -> None:
    core = writer_up(Quorum(1, 1, 1))
    for payload in (b"first", b"second"):
        effects = core.handle(Append("t", [payload]), 0)
        core.handle(AddAnswered(0, only(effects, SendAdd).batch.first_entry_id, 1, -1), 0)

    batch = only(core.handle(Append("t", [b"third", b""]), 0), SendAdd).batch

    batch.verify()
    batch.validate()
    entry, offset = decode_entry(batch.body, 0, LEDGER_ID, 2, DigestType.XXH3, DIGEST)
    assert (entry.lac, entry.length, bytes(entry.payload)) == (1, 16, b"third")
    entry, end = decode_entry(batch.body, offset, LEDGER_ID, 3, DigestType.XXH3, DIGEST)
    assert (entry.lac, entry.length, bytes(entry.payload)) == (1, 16, b"")
    assert end == batch.size == sum(batch.sizes)


def test_the_window_counts_what_the_ack_quorum_has_not_and_the_backlog_the_slowest_slot() -> None:
    size = entry_size(100, DigestType.XXH3)
    core = writer_up(
        Quorum(3, 3, 2), window_size=2 * size, backlog_size=3 * size, batch_size_max=size
    )
    payloads = [bytes(100)] * 6

    def ack(slot: int, first: int) -> list[list[int]]:
        return batches(core.handle(AddAnswered(slot, first, 1, -1), 0))

    assert batches(core.handle(Append("t", payloads), 0)) == [[0], [1]], "the window is full"
    assert not ack(0, 0)
    assert ack(1, 0) == [[2]], "an ack quorum makes room, though slot 2 has not answered"
    for first in (1, 2):
        assert not ack(0, first)
        assert not ack(1, first), "slot 2 has as much to answer as it may"
    assert core.path.backlog_size == 3 * size

    assert ack(2, 0) == [[3]]
    assert core.path.backlog_size == 3 * size


def test_a_backlog_that_is_smaller_than_the_window_is_as_large() -> None:
    size = entry_size(100, DigestType.XXH3)
    core = writer_up(Quorum(3, 3, 2), window_size=2 * size, backlog_size=size, batch_size_max=size)

    assert batches(core.handle(Append("t", [bytes(100)] * 5), 0)) == [[0], [1]]


def test_many_small_appends_that_waited_leave_in_one_batch() -> None:
    core = writer_up(Quorum(1, 1, 1), window_count=1)
    core.handle(Append("first", [b"x"]), 0)
    assert not core.handle(Appends([(f"t{i}", [b"x"]) for i in range(50)]), 0)

    effects = core.handle(AddAnswered(0, 0, 1, -1), 0)

    assert batches(effects) == [list(range(1, 51))]
    acked = core.handle(AddAnswered(0, 1, 1, -1), 0)
    assert only(acked, Acked).tickets == [(f"t{i}", i + 1, 1) for i in range(50)]


def test_memory_does_not_grow_while_nothing_is_answered() -> None:
    size = entry_size(1000, DigestType.XXH3)
    core = make_writer(Quorum(3, 3, 2), window_size=10 * size, batch_size_max=2 * size)

    for ticket in range(1000):
        core.handle(Append(ticket, [bytes(1000)]), 0)

    assert core.path.backlog_size <= 12 * size


def test_memory_does_not_grow_while_one_bookie_of_three_answers_nothing() -> None:
    size = entry_size(1000, DigestType.XXH3)
    core = writer_up(
        Quorum(3, 3, 2), window_size=2 * size, backlog_size=10 * size, batch_size_max=size
    )

    for ticket in range(100):
        for effect in core.handle(Append(ticket, [bytes(1000)]), 0):
            if isinstance(effect, SendAdd) and effect.slot < 2:
                core.handle(AddAnswered(effect.slot, effect.batch.first_entry_id, 1, -1), 0)

    assert core.path.backlog_size == 10 * size
    assert core.path.last_acked_id == 9


# ------------------------------------------------------------------ ends


def test_an_abandoned_writer_gives_every_ticket_back() -> None:
    core = writer_up(Quorum(3, 3, 2), LedgerType.VD_JOURNAL, window_count=1)
    core.handle(Append("pending", [b"x"]), 0)
    core.handle(Append("queued", [b"x"]), 0)
    core.handle(SyncRequested("sync"), 0)
    core.handle(CloseRequested("close", 1_000), 0)
    error = ClientClosedError()

    effects = core.handle(Abandoned(error), 0)

    assert effects == [
        Failed(["pending", "queued"], only(effects, Failed).error),
        SyncFailedFor("sync", error),
        CloseFailed("close", error),
    ]
    assert only(effects, Failed).error.outcome == "unknown"
    assert error.outcome == "failed"
    assert core.handle(Append("late", [b"x"]), 0) == [Failed(["late"], error)]


def test_one_sync_too_many_is_busy() -> None:
    core = writer_up(Quorum(3, 3, 2), LedgerType.VD_JOURNAL, sync_count_max=2)
    core.handle(Append("t", [b"x"]), 0)

    assert core.handle(SyncRequested(1), 0) == core.handle(SyncRequested(2), 0) == []

    assert isinstance(only(core.handle(SyncRequested(3), 0), SyncFailedFor).error, BusyError)


def test_a_part_of_an_append_may_be_acked_before_the_rest_fails() -> None:
    core = writer_up(Quorum(1, 1, 1), window_count=1, batch_count_max=2)
    core.handle(Append("t", [b"a", b"b", b"c"]), 0)
    assert not [e for e in core.handle(AddAnswered(0, 0, 1, -1), 0) if isinstance(e, Acked)]

    effects = core.handle(AddFailed(0, 2, LedgerFencedError(LEDGER_ID)), 0)

    assert only(effects, Failed).tickets == ["t"]
    assert core.path.last_acked_id == 1
