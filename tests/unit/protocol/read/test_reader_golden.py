"""RangeRead: golden stories."""

from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from tests.support.recovery_world import LEDGER_ID
from tests.support.replica_reads import damaged, encoded, make_read, timeout
from zbk.errors import (
    BookieUnavailableError,
    EntryUnreadableError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.read.range_read import (
    Delivered,
    Effect,
    Event,
    ReadAnswered,
    ReadFailed,
    ReadStarted,
    ReadTicked,
    SendRead,
)


class ReadScript:
    """The commands a golden script may use."""

    def __init__(self) -> None:
        self.read = make_read(Quorum(1, 1, 1), 0, 0)
        self.requests: dict[int, SendRead] = {}
        self.now_ms = 0

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects: list[Effect] = getattr(self, f"do_{name}")(*args)
        for effect in effects:
            if isinstance(effect, SendRead):
                self.requests[effect.read_id] = effect
        return "\n    ".join([f"{' '.join(words)}:", *map(_line, effects)])

    def do_read(self, sizes: str, first: str, last: str, *options: str) -> list[Effect]:
        ensemble, write, ack = map(int, sizes.split("/"))
        only = [int(o.removeprefix("only=s")) for o in options if o.startswith("only")]
        speculative = [int(o.removeprefix("speculate=")) for o in options if o[0] == "s"]
        self.now_ms = 0
        self.read = make_read(
            Quorum(ensemble, write, ack),
            int(first),
            int(last),
            only_slot=only[0] if only else None,
            speculative_ms=speculative[0] if speculative else 0,
        )
        return self._handle(ReadStarted())

    def do_wait(self, wait_ms: str) -> list[Effect]:
        self.now_ms += int(wait_ms)
        return self._handle(ReadTicked())

    def do_answer(self, read_id: str, *ids: str) -> list[Effect]:
        """Answer with entries; ``!3`` is entry 3 damaged, ``~`` some garbage."""
        pieces = []
        for name in ids:
            if name == "~":
                pieces.append(b"garbage" * 20)
            else:
                pieces.append(damaged(int(name[1:])) if name[0] == "!" else encoded(int(name)))
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), b"".join(pieces)))

    def do_missing(self, read_id: str, entry_id: str) -> list[Effect]:
        error = NoSuchEntryError(LEDGER_ID, int(entry_id))
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_unreadable(self, read_id: str, entry_id: str) -> list[Effect]:
        error = EntryUnreadableError(LEDGER_ID, int(entry_id), "bad sector")
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_unknown(self, read_id: str) -> list[Effect]:
        error = NoSuchLedgerError(LEDGER_ID)
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_lost(self, read_id: str) -> list[Effect]:
        error = BookieUnavailableError(f"b{self._slot(read_id)}", "connection lost")
        return self._handle(ReadAnswered(self._slot(read_id), int(read_id), error))

    def do_timeout(self, read_id: str) -> list[Effect]:
        slot = self._slot(read_id)
        return self._handle(ReadAnswered(slot, int(read_id), timeout(slot)))

    def _slot(self, read_id: str) -> int:
        return self.requests[int(read_id)].slot

    def _handle(self, event: Event) -> list[Effect]:
        return self.read.handle(event, self.now_ms)


def _line(effect: Effect) -> str:
    match effect:
        case SendRead():
            return f"#{effect.read_id} s{effect.slot} <- read {_ids(effect.entry_ids)}"
        case Delivered():
            end = ", the last" if effect.is_last else ""
            return f"delivered {_ids(effect.batch.entry_ids)}{end}"
        case ReadFailed():
            return f"failed: {type(effect.error).__name__}({effect.error})"
        case _:
            assert_never(effect)


def _ids(ids: Sequence[int]) -> str:
    if len(ids) > 1 and list(ids) == list(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]}..{ids[-1]}"
    return ",".join(map(str, ids))


@pytest.mark.parametrize("script", scripts("reader"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite_golden: bool) -> None:
    run_script(script, ReadScript(), rewrite=rewrite_golden)
