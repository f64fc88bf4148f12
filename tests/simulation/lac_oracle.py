"""Which LACs one bookie was told, and which it tells, in answers and at the end of watches.

I8: a LAC that readers were told is never taken back.
"""

from collections import defaultdict
from collections.abc import Callable

from tests.simulation.judged_bookie import JudgedBookie
from tests.simulation.oracle_requests import has_key, highest_lac
from zbk.protocol.entry.words import NO_ENTRY
from zbk.transport.inbound import Inbound
from zbk.wire.messages import Add, LacsRisen, ReadLac, Sync, WatchLacs, WriteLac


class LacOracle:
    """The LACs that one bookie knows, and those that it told."""

    def __init__(self, bookie: JudgedBookie, is_deleted: Callable[[int], bool]) -> None:
        self._bookie = bookie
        self._is_deleted = is_deleted  # whether a ledger is
        self._told: dict[int, int] = defaultdict(lambda: NO_ENTRY)
        self._answered: dict[int, int] = defaultdict(lambda: NO_ENTRY)
        self._watched: dict[tuple[bytes, int], ReadLac] = {}  # by connection and number

    def told(self, ledger_id: int) -> int:
        """Return the highest LAC that requests told it."""
        return self._told[ledger_id]

    def received(self, request: Add | WriteLac | Sync, inbound: Inbound) -> None:
        """Note the LAC that a request tells, and those in the headers of entries.

        A copy is sent without a LAC; the one in its header, which its writer knew to be confirmed,
        is what a start finds.
        """
        lac = request.lac
        if isinstance(request, Add):
            lac = max(lac, highest_lac(inbound.frames))
        self._told[request.ledger_id] = max(self._told[request.ledger_id], lac)

    def dropped(self, ledger_id: int) -> None:
        """Forget a deleted ledger."""
        self._told.pop(ledger_id, None)
        self._answered.pop(ledger_id, None)

    def check(self, request: WriteLac | ReadLac, lac: int) -> None:
        """A LAC that readers were told is never taken back.

        A recoverer may hear of more. It, and a writer, which knows its own LAC, may hear of less
        from a bookie that is known to have lost some.
        """
        bookie, ledger_id = self._bookie, request.ledger_id
        is_for_readers = isinstance(request, ReadLac) and not request.is_fencing
        highest = self._answered[ledger_id]
        may_know_less = bookie.is_damaged or (bookie.was_wiped and not is_for_readers)
        if lac < highest and not may_know_less:
            bookie.violated("I8", f"told the LAC {highest} of ledger {ledger_id}, then {lac}")
        if is_for_readers or isinstance(request, WriteLac):
            self._answered[ledger_id] = max(lac, highest)

    def check_watches(self, peer: bytes, request: WatchLacs, answer: LacsRisen) -> None:
        """Judge the LACs that the watches of a connection ended with."""
        for watch in request.begun:
            self._watched[peer, watch.number] = ReadLac(
                request_id=0,
                ledger_id=watch.ledger_id,
                ledger_key=watch.ledger_key,
                ledger_type=watch.ledger_type,
                known_lac=watch.known_lac,
            )
        bookie = self._bookie
        for number, lac in answer.risen:
            asked = self._watched.pop((peer, number))
            bookie.kernel.sometimes["bookie: a watch ends with news"] += lac > asked.known_lac
            if not has_key(asked):
                bookie.violated("key", f"answers LAC {lac} to a wrong key: {asked}")
            if not self._is_deleted(asked.ledger_id):
                self.check(asked, lac)
