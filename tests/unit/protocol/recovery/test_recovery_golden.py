"""RecoveryCore: golden stories."""

from pathlib import Path
from typing import assert_never

import pytest

from tests.support.golden import run_script, scripts
from tests.support.recovery_world import (
    Bookies,
    Recovery,
    Request,
    damaged,
    encoded,
    ledger,
)
from zbk.protocol.ledger.metadata import Fragment
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import (
    ChooseReplacements,
    CloseRecovered,
    Effect,
    RecoveryFailed,
    RecoveryLimits,
    SendFence,
    SendRead,
    SendWrite,
    TimeIsOver,
)


class RecoveryScript:
    """The commands a golden script may use. Requests are numbered in the order they are sent."""

    def __init__(self) -> None:
        self.metadata = ledger(Quorum(1, 1, 1))
        self.bookies = Bookies()
        self.recovery = Recovery(self.metadata, self.bookies)
        self.limits = RecoveryLimits(attempt_count_max=2)

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects: list[Effect] = getattr(self, f"do_{name}")(*args)
        return "\n    ".join([f"{' '.join(words)}:", *map(self._line, effects)])

    def do_ledger(self, sizes: str, *fragments: str) -> list[Effect]:
        """Begin with a ledger; a fragment is ``3=b0,b1``."""
        starts = [fragment.split("=") for fragment in fragments]
        self.bookies = Bookies()
        self.metadata = ledger(
            Quorum(*map(int, sizes.split("/"))),
            *(Fragment(int(first), tuple(names.split(","))) for first, names in starts),
        )
        return []

    def do_has(self, bookie_id: str, *entries: str) -> list[Effect]:
        """Give a bookie entries: ``3``, or ``!3`` that is damaged, or its LAC: ``lac=2``."""
        bookie = self.bookies[bookie_id]
        for entry in entries:
            if entry.startswith("lac="):
                bookie.lac = int(entry[4:])
            elif entry[0] == "!":
                bookie.entries[int(entry[1:])] = damaged(encoded(int(entry[1:])))
            else:
                bookie.entries[int(entry)] = encoded(int(entry))
        return []

    def do_recover(self, *options: str) -> list[Effect]:
        """Begin; ``one-by-one`` writes back an entry a batch."""
        count = 1 if "one-by-one" in options else 100
        self.limits = RecoveryLimits(attempt_count_max=2, batch_count_max=count)
        self.recovery = Recovery(self.metadata, self.bookies, self.limits)
        self.recovery.start()
        return [*self.recovery.sent]

    def do_deliver(self, *numbers: str) -> list[Effect]:
        return [e for n in numbers for e in self.recovery.deliver(self._request(n))]

    def do_lose(self, number: str) -> list[Effect]:
        return self.recovery.lose(self._request(number))

    def do_choose(self, *replacements: str) -> list[Effect]:
        """Answer the request for replacements: ``s1=b3``."""
        pairs = [one.removeprefix("s").split("=") for one in replacements]
        return self.recovery.choose({int(slot): bookie for slot, bookie in pairs})

    def do_wait(self, milliseconds: str) -> list[Effect]:
        return self.recovery.tick(int(milliseconds))

    def do_stop(self) -> list[Effect]:
        return self.recovery.handle(TimeIsOver())

    def _request(self, number: str) -> Request:
        return self.recovery.sent[int(number)]

    def _line(self, effect: Effect) -> str:
        match effect:
            case SendFence():
                return f"#{self._number(effect)} {effect.bookie_id} <- fence"
            case SendRead():
                ids = effect.entry_ids
                text = (
                    f"{ids[0]}.." if isinstance(ids, range) else ",".join(map(str, ids[:3])) + ".."
                )
                text = str(ids[0]) if len(ids) == 1 else text
                return f"#{self._number(effect)} {effect.bookie_id} <- fence, read {text}"
            case SendWrite():
                batch = effect.batch
                written = ",".join(map(str, batch.entry_ids))
                to = f"#{self._number(effect)} {effect.bookie_id}"
                return f"{to} <- write {written} lac={effect.lac}"
            case ChooseReplacements():
                slots = ",".join(f"s{slot}" for slot in effect.failed_slots)
                return f"choose for {slots}, not {','.join(sorted(effect.exclude))}"
            case CloseRecovered():
                new = " ".join(
                    f"{f.first_entry_id}={','.join(f.bookies)}" for f in effect.fragments
                )
                end = f"close at {effect.last_entry_id}, {effect.length} bytes"
                return f"{end}, with {new}" if new else end
            case RecoveryFailed():
                return f"failed: {effect.error}"
            case _:
                assert_never(effect)

    def _number(self, effect: Request) -> int:
        return next(i for i, sent in enumerate(self.recovery.sent) if sent is effect)


@pytest.mark.parametrize("path", scripts("recovery"), ids=lambda path: path.stem)
def test_golden_script(path: Path, request: pytest.FixtureRequest) -> None:
    run_script(path, RecoveryScript(), rewrite=request.config.getoption("--rewrite-golden"))
