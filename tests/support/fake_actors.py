"""Stand-ins for what a storage actor and its neighbors ask: a ticker, and lookups of ledgers."""

from collections.abc import Callable, Sequence

from zbk.actors.serve.ledger_lookups import LookedUp, LookUp
from zbk.durability.new_ledgers import Finding, KnownLedger
from zbk.protocol.entry.words import LedgerType


class FakeTicker:
    """Keeps the callbacks that are on; a test calls them."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def every(self, interval_ms: int, callback: Callable[[], None]) -> None:
        assert interval_ms > 0
        self.callbacks.append(callback)

    def cancel(self, callback: Callable[[], None]) -> None:
        self.callbacks.remove(callback)


class FakeLookups:
    """Says of each ledger what a test wants it to say: by default that there is one of any type."""

    def __init__(self) -> None:
        self.asked: list[Sequence[int]] = []
        self.findings: dict[int, Finding] = {}  # of others, that they are of the type asked for
        self.is_answering = True

    def ask(self, question: LookUp) -> None:
        self.asked.append(question.ledger_ids)

    def answer(self, kinds: dict[int, LedgerType]) -> LookedUp | None:
        """Return the answer to the question that is open; ``kinds`` as requests say."""
        if not self.asked:
            return None
        found = {
            one: self.findings.get(one) or KnownLedger(b"", kinds[one]) for one in self.asked.pop(0)
        }
        return LookedUp(found)
