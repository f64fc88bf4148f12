"""What a life of storage has promised, by ledger."""

from collections.abc import Callable, Hashable


class Promises:
    """What must be there, by ledger."""

    def __init__(self) -> None:
        self.entries: dict[int, dict[int, bytes]] = {}
        self.fenced: set[int] = set()
        self.lacs: dict[int, int] = {}
        self._state: Hashable = None  # while nothing changes; copies share it, and its hash

    def copy(self) -> "Promises":
        """Return a copy that does not change with it."""
        other = Promises()
        other.entries = {ledger_id: dict(own) for ledger_id, own in self.entries.items()}
        other.fenced, other.lacs = set(self.fenced), dict(self.lacs)
        other._state = self._state
        return other

    def state(self) -> Hashable:
        """Return what is promised."""
        if self._state is None:
            entries = frozenset(
                (ledger_id, frozenset(own.items())) for ledger_id, own in self.entries.items()
            )
            self._state = entries, frozenset(self.fenced), frozenset(self.lacs.items())
        return self._state

    def keep(self, promise: "Promise") -> None:
        """Promise this, too."""
        promise(self)
        self._state = None

    def forget(self, ledger_id: int) -> None:
        """Promise nothing of a ledger any more."""
        self._state = None
        self.entries.pop(ledger_id, None)
        self.fenced.discard(ledger_id)
        self.lacs.pop(ledger_id, None)


Promise = Callable[[Promises], None]
