"""The checker of a ledger's replicas at their bookies.

    reading     the first and the last entry of each replica of each fragment, or all: finds damage
    comparing   the entries that each bookie holds: finds every hole, but no damage

Costs of reading: one or two requests for each replica of each fragment, each a read of an entry
log. Costs of comparing: one request for each bookie of the ledger, all sent at once, and one more
for each 1,000 ranges or 1,000,000 entries that a bookie holds; the bookie reads index pages. Three
bookies and 200 entries: 3 requests, 0.6 ms of this process, and 5 ms from the first request to the
last answer while eight other processes keep the two cores busy. 1,000,000 entries: 3 requests,
42 ms. Striped ledgers are expensive, because their ranges are short: 34 requests to each bookie for
100,000 entries. A million common ledgers take almost two hours, once a day, one at a time.

A bookie that does not answer once is not asked again until ``begin_step``: a hanging bookie would
otherwise cost a time-out for each ledger. Its replicas stay undecided.

Any thread may use a checker, one at a time. Rules: ``zbk.protocol.repair.fragment_check``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from zbk.auditor.copier import Secret
from zbk.client.cluster.ledger_calls import LedgerRequests, info_request
from zbk.client.cluster.requests import ReplyBox, Requests, answer_of
from zbk.errors import DigestMismatchError, UnavailableError, ZbkError
from zbk.protocol.entry.read_batch import decode_entries
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.repair.fragment_check import (
    CheckedLedger,
    Finding,
    Probe,
    finding_of,
    holders,
    probes,
)
from zbk.protocol.repair.holdings import HoldingsComparison
from zbk.wire.messages import LedgerInfo, ReadAnswer

READ_SIZE_MAX: Final = 1024 * 1024
READ_COUNT_MAX: Final = 4_096
"""Entries of one read of a full check."""


class LedgerChecker:
    """A checker of ledgers. After ``is_over`` returns true, further replicas are undecided."""

    def __init__(self, requests: Requests, is_over: Callable[[], bool] = lambda: False) -> None:
        self._requests = requests
        self._is_over = is_over
        self._silent: set[str] = set()

    def begin_step(self) -> None:
        """Allow requests to bookies that did not answer before."""
        self._silent.clear()

    def read_replicas(
        self, metadata: LedgerMetadata, *, is_full: bool, left_out: Collection[str] = ()
    ) -> CheckedLedger:
        """Read the first and last entry of every replica of every fragment, or all entries."""
        checked = CheckedLedger()
        secret = Secret.of(metadata)
        for probe in probes(metadata, is_full=is_full, left_out=left_out):
            checked.note(probe.bookie_id, self._read(metadata, secret, probe))
        return checked

    def compare_holdings(
        self, metadata: LedgerMetadata, *, left_out: Collection[str] = ()
    ) -> CheckedLedger:
        """Compare the holdings of every bookie."""
        checked = CheckedLedger()
        self.add_holdings(checked, metadata, left_out=left_out)
        return checked

    def add_holdings(
        self, checked: CheckedLedger, metadata: LedgerMetadata, *, left_out: Collection[str] = ()
    ) -> None:
        """Compare the holdings of every bookie; add the findings to earlier ones.

        All bookies are asked at once, each for one page at a time.
        """
        box = ReplyBox()
        under_way: dict[str, HoldingsComparison] = {}
        for bookie_id in holders(metadata):
            if bookie_id not in left_out:
                under_way[bookie_id] = HoldingsComparison(metadata, bookie_id)
                self._ask_page(checked, metadata, bookie_id, under_way, box)
        while under_way:
            reply = box.next()
            assert reply is not None, "without a time-out it waits"
            info = answer_of(reply, LedgerInfo)
            if isinstance(info, LedgerInfo):
                comparison = under_way[reply.bookie_id]
                comparison.add(info.ranges, info.next_entry_id, is_in_limbo=info.is_in_limbo)
                self._ask_page(checked, metadata, reply.bookie_id, under_way, box)
            else:
                self._note_silence(reply.bookie_id, info)
                checked.note(reply.bookie_id, Finding.UNDECIDED)
                del under_way[reply.bookie_id]

    # ------------------------------------------------------------------ entries

    def _read(self, metadata: LedgerMetadata, secret: Secret, probe: Probe) -> Finding:
        left = probe.entry_ids
        while left:
            if probe.bookie_id in self._silent or self._is_over():
                return Finding.UNDECIDED
            got = self._read_some(metadata, secret, probe.bookie_id, left[:READ_COUNT_MAX])
            if isinstance(got, ZbkError):
                self._note_silence(probe.bookie_id, got)
                return finding_of(got)
            left = left[got:]
        return Finding.HELD

    def _read_some(
        self, metadata: LedgerMetadata, secret: Secret, bookie_id: str, entry_ids: Sequence[int]
    ) -> int | ZbkError:
        """Return the number of entries received and verified, at least one; or an error.

        If the digest cannot be verified here, the bookie verifies its own blocks.
        """
        ledger = LedgerRequests.of(metadata, secret.ledger_key)
        built = ledger.read(entry_ids, READ_SIZE_MAX, is_checked=secret.digest is None)
        reply = self._requests.ask(bookie_id, *built)
        if not isinstance(reply.outcome, ReadAnswer):
            return reply.error
        count = min(reply.outcome.count, len(entry_ids))
        if secret.digest is None:
            return count
        asked = entry_ids[:count]
        found, _is_all = decode_entries(
            reply.frames[0], asked, metadata.ledger_id, metadata.digest_type, secret.digest
        )
        if len(found) < count:
            return DigestMismatchError(metadata.ledger_id, asked[len(found)])
        return count

    # ------------------------------------------------------------------ holdings

    def _ask_page(
        self,
        checked: CheckedLedger,
        metadata: LedgerMetadata,
        bookie_id: str,
        under_way: dict[str, HoldingsComparison],
        box: ReplyBox,
    ) -> None:
        """Ask a bookie for the next page of its holdings; after the last one record the result.

        A comparison that the end of the check cuts short is undecided.
        """
        one = under_way[bookie_id]
        next_id = one.next_entry_id
        is_cut = next_id is not None and (bookie_id in self._silent or self._is_over())
        if next_id is not None and not is_cut:
            request = info_request(metadata.ledger_id, next_id)
            self._requests.send(bookie_id, *request, box, bookie_id)
            return
        del under_way[bookie_id]
        if is_cut:
            checked.note(bookie_id, Finding.UNDECIDED)
        else:
            checked.note_holdings(bookie_id, one.missing, is_in_limbo=one.is_in_limbo)

    def _note_silence(self, bookie_id: str, error: ZbkError) -> None:
        if isinstance(error, UnavailableError):
            self._silent.add(bookie_id)
