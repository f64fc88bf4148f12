"""WriterCore as stories: golden scripts."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from tests.support.writer_cores import LEDGER_ID, make_writer
from zbk.errors import (
    BookieUnavailableError,
    BusyError,
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
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.spans import Span, spans_text
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.events import (
    Acked,
    AddAnswered,
    AddFailed,
    Append,
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
