"""Where requests for ledgers that the bookie does not hold wait for the metadata store.

The rules are those of ``zbk.durability.new_ledgers``. Requests of ledgers that are held pass. Where
rights are enforced, requests of ledgers whose owner is not known here wait, too (``access_gate``).

Owned and run by the storage actor.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from zbk.actors.serve.ledger_lookups import LookUp
from zbk.actors.serve.ledger_table import LedgerSlot, LedgerTable
from zbk.durability.new_ledgers import Finding, WaitingRoom, check_claim
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Add, GetLedgerInfo, Read, ReadLac, Sync, WriteLac


class NewLedgerGate:
    """Holds requests back, and lets them go."""

    def __init__(self, ledgers: LedgerTable, ask: Callable[[LookUp], None]) -> None:
        self._ledgers = ledgers
        self._ask = ask
        self._room: WaitingRoom[Inbound | None] = WaitingRoom()  # None: only a look-up
        self._findings: dict[int, Finding] = {}  # of the ledger whose requests are let go

    @property
    def is_holding(self) -> bool:
        """True while any request waits."""
        return bool(len(self._room))

    def holds_back(self, inbound: Inbound) -> bool:
        """Return whether a request waits after others of its ledger; keep it then.

        Raises:
            BusyError: too much waits.
        """
        request = inbound.request
        if not isinstance(request, Add | Read | ReadLac | WriteLac | Sync | GetLedgerInfo):
            return False
        is_waiting = self._room.has(request.ledger_id)
        if is_waiting:
            self.hold(request.ledger_id, inbound)
        return is_waiting

    def slot(self, inbound: Inbound, request: Add | Read | ReadLac | WriteLac) -> LedgerSlot | None:
        """Return the ledger of a request that may be its first; ``None``: the request waits.

        Raises:
            NoSuchLedgerError: it was deleted, or there never was one.
            MetadataUnavailableError: the metadata store did not answer.
            UnauthorizedError, UnsupportedLedgerError: the ledger has another key, or type.
            BusyError: too much waits.
        """
        ledger_id = request.ledger_id
        slot = self._ledgers.find(ledger_id)
        if slot is None:
            self._ledgers.check_not_deleted(ledger_id)
            found = self._findings.get(ledger_id)
            if found is None:
                self.hold(ledger_id, inbound)
                return None
            check_claim(ledger_id, request.ledger_key, request.ledger_type, found)
            slot = self._ledgers.new(ledger_id)
        return slot

    def hold(self, ledger_id: int, inbound: Inbound) -> None:
        """Keep a request until its ledger was looked up.

        Raises:
            BusyError: too much waits.
        """
        self._room.put(ledger_id, inbound, inbound.size, inbound.share_key)

    def want(self, ledger_id: int, key: str) -> None:
        """Look up a ledger for which no request waits, at the cost of a client's share.

        Raises:
            BusyError: too much waits.
        """
        if not self._room.has(ledger_id):
            self._room.put(ledger_id, None, 0, key)

    def ask(self) -> Sequence[int]:
        """Look up the ledgers whose requests wait, unless a look-up is running; return them."""
        ledger_ids = self._room.next_batch()
        if ledger_ids:
            self._ask(LookUp(ledger_ids))
        return ledger_ids

    def ask_again(self, ledger_ids: Sequence[int]) -> None:
        """Repeat the look-up that has ended: its answer does not count."""
        self._ask(LookUp(ledger_ids))

    def released(self, findings: Mapping[int, Finding]) -> Iterator[Inbound]:
        """Yield the released requests, in order. Serve each before taking the next."""
        for one in self._room.answered(findings):
            self._findings[one.ledger_id] = one.found
            yield from (inbound for inbound in one.requests if inbound is not None)
            del self._findings[one.ledger_id]

    def give_up(self) -> Sequence[Inbound]:
        """Return all waiting requests, to be refused."""
        return [inbound for inbound in self._room.take_all() if inbound is not None]
