"""Asks bookies for what they should hold of a ledger; what answers prove is decided elsewhere.

A bookie that does not answer once is asked no more until ``begin_step``: one that hangs would
otherwise cost a time-out for each ledger. What it holds stays undecided.

Any thread may use a checker, one at a time. Rules: ``zbk.protocol.fragment_check``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from zbk.auditor.copier import RequestSender, Secret, error_of
from zbk.client.requests import ReplyBox
from zbk.errors import DigestMismatchError, UnavailableError, ZbkError
from zbk.protocol.fragment_check import (
    CheckedLedger,
    Finding,
    Probe,
    finding_of,
    holders,
    not_held,
    probes,
)
from zbk.protocol.ledger_metadata import LedgerMetadata
from zbk.protocol.read_batch import decode_entries
from zbk.protocol.spans import Span
from zbk.transport.news import Reply
from zbk.wire.codec import encode_ids
from zbk.wire.messages import GetLedgerInfo, LedgerInfo, Message, Read, ReadAnswer

READ_SIZE_MAX: Final = 1024 * 1024
READ_COUNT_MAX: Final = 4_096
"""Entries asked for in one read of a full check."""


class LedgerChecker:
    """Checks ledgers, one after the other. Once ``is_over``, all that is left is undecided."""

    def __init__(
        self, requests: RequestSender, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        self._requests = requests
        self._is_over = is_over
        self._silent: set[str] = set()

    def begin_step(self) -> None:
        """Give those who were silent another chance."""
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
        """Ask every bookie what it holds, and compare."""
        checked = CheckedLedger()
        for bookie_id in holders(metadata):
            if bookie_id in left_out:
                continue
            held = self._holdings(metadata, bookie_id)
            if held is None:
                checked.note(bookie_id, Finding.UNDECIDED)
            elif not_held(metadata, bookie_id, held):
                checked.note(bookie_id, Finding.ABSENT)
        return checked

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
        """Return how many of the entries came, verified, at least one; or what is in the way."""
        is_striped = not isinstance(entry_ids, range) and len(entry_ids) > 1
        request = Read(
            request_id=0,
            ledger_id=metadata.ledger_id,
            ledger_key=secret.ledger_key,
            ledger_type=metadata.ledger_type,
            first_entry_id=entry_ids[0],
            last_entry_id=entry_ids[-1],
            size_max=READ_SIZE_MAX,
            is_striped=is_striped,
        )
        frames = (encode_ids(entry_ids),) if is_striped else ()
        reply = self._ask(bookie_id, request, frames)
        if not isinstance(reply.outcome, ReadAnswer):
            return error_of(reply)
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

    def _holdings(self, metadata: LedgerMetadata, bookie_id: str) -> tuple[Span, ...] | None:
        """Return what a bookie holds for good; ``None``: it does not say."""
        held: list[Span] = []
        next_id: int | None = 0
        while next_id is not None:
            if bookie_id in self._silent or self._is_over():
                return None
            request = GetLedgerInfo(
                request_id=0, ledger_id=metadata.ledger_id, first_entry_id=next_id
            )
            reply = self._ask(bookie_id, request, ())
            info = reply.outcome
            if not isinstance(info, LedgerInfo):
                self._note_silence(bookie_id, error_of(reply))
                return None
            if info.is_in_limbo:
                return None
            held += info.ranges
            next_id = info.next_entry_id
        return tuple(held)

    def _ask(self, bookie_id: str, request: Message, frames: tuple[bytes, ...]) -> Reply:
        box = ReplyBox()
        self._requests.send(bookie_id, request, frames, box, bookie_id)
        reply = box.next()
        assert reply is not None, "without a time-out it waits"
        return reply

    def _note_silence(self, bookie_id: str, error: ZbkError) -> None:
        if isinstance(error, UnavailableError):
            self._silent.add(bookie_id)
