"""A metadata store that computes its nodes: very many ledgers without memory for them."""

from typing import Any

from zbk.errors import NoNodeError
from zbk.metadata.paths import IDGEN, LAYOUT, LEDGERS, ledger_id_of
from zbk.metadata.stores.store import Node
from zbk.metadata.values import IdCounter, Layout, LedgerLayout, encode
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata


class SyntheticStore:
    """``ledger_count`` open VD ledgers on three of ``bookie_count`` bookies each; read only."""

    address = "synthetic://"

    def __init__(self, ledger_count: int, bookie_count: int) -> None:
        self.ledger_count = ledger_count
        self.bookie_count = bookie_count
        self.listed_count = 0  # names that were returned
        self.read_count = 0

    def children(self, path: str) -> list[str]:
        last = self.ledger_count - 1
        first_digits = path.removeprefix(LEDGERS).replace("/", "")
        depth = path.count("/")
        if not path.startswith(LEDGERS) or depth > 3:
            raise NoNodeError(path, "there is no such node")
        if depth == 1:
            names = [f"{n:02d}" for n in range(last // 100_000_000 + 1)]
        elif depth == 2:
            base = int(first_digits) * 10_000
            names = [f"{n:04d}" for n in range(min(9_999, last // 10_000 - base) + 1)]
        else:
            base = int(first_digits) * 10_000
            names = [f"L{n:04d}" for n in range(min(9_999, last - base) + 1)]
        self.listed_count += len(names)
        return names

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        del is_fresh
        self.read_count += 1
        if path == LAYOUT:
            return Node(encode(Layout()), 0)
        if path == IDGEN:
            return Node(encode(IdCounter(next_ledger_id=self.ledger_count)), 0)
        if path.startswith(LEDGERS):
            ledger_id = ledger_id_of(path, LedgerLayout.HIERARCHICAL)
            if ledger_id < self.ledger_count:
                return Node(encode(self._ledger(ledger_id)), 0)
        raise NoNodeError(path, "there is no such node")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a call that the tests do not expect
        raise AssertionError(f"the page calls {name}")

    def _ledger(self, ledger_id: int) -> LedgerMetadata:
        bookies = tuple(f"b-{(ledger_id + n) % self.bookie_count:04d}" for n in range(3))
        return LedgerMetadata(
            ledger_id=ledger_id,
            ensemble_size=3,
            write_quorum_size=3,
            ack_quorum_size=2,
            ledger_type=LedgerType.VD_JOURNAL,
            digest_type=DigestType.XXH3,
            password_digest=b"",
            fragments=(Fragment(0, bookies),),
            created_ms=0,
            creation_token="t",
            custom_metadata={"job": b"nightly"} if ledger_id % 2 else {},
        )
