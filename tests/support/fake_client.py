"""A client without a cluster: ledgers in memory, for tests of what stands above the client."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self

import msgspec

from tests.support.fake_logs import FakeLogs
from zbk.client.operations.ledger_copies import LedgerCopy
from zbk.errors import (
    EntryTooLargeError,
    NoSuchLedgerError,
    NotDurableError,
    UnauthorizedError,
    ZbkError,
)
from zbk.metadata.values import BookieRegistration
from zbk.protocol.entry.spans import Span
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.access import (
    Grants,
    LedgerAccess,
    Right,
    grants_of,
    rights_named,
    with_grant,
    without_grant,
)
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.underreplicated import UnderreplicatedLedger
from zbk.wire.messages import BookieInfo, GarbageStatus, ScrubStatus

BOOKIES = ("bookie-a", "bookie-b", "bookie-c")
CREATED_MS = 1_700_000_000_000


class FakeBatch(list[bytes]):
    """What a reader yields: payloads, and their ids."""

    ledger_id = 0

    def __init__(self, first_entry_id: int, payloads: Iterable[bytes]) -> None:
        super().__init__(payloads)
        self.entry_ids = range(first_entry_id, first_entry_id + len(self))


class FakeTail:
    """What a reader's tail is: here it ends with what there is."""

    def __init__(self, found: Iterator[FakeBatch]) -> None:
        self._found = found

    def batches(self) -> Iterator[FakeBatch]:
        return self._found


class FakeReader:
    def __init__(self, metadata: LedgerMetadata, entries: list[bytes]) -> None:
        self.metadata = metadata
        self._entries = entries
        self.bookies_asked: list[str | None] = []

    @classmethod
    def of(cls, entries: list[bytes]) -> Self:
        """Return a reader of ledger 0 that holds these entries."""
        client = FakeClient()
        client.add_ledger(entries)
        return cls(client.metadata[0], entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @property
    def last_add_confirmed(self) -> int:
        return len(self._entries) - 1

    def read_batches(
        self, first: int, last: int, *, bookie_id: str | None = None
    ) -> Iterator[FakeBatch]:
        self.bookies_asked.append(bookie_id)
        for start in range(first, last + 1, 3):  # small batches, so that there are several
            yield FakeBatch(start, self._entries[start : min(last + 1, start + 3)])

    def tail(self, first: int = 0) -> FakeTail:
        return FakeTail(self.read_batches(first, self.last_add_confirmed))


class FakeWriter:
    """Acknowledges at once; ``failure`` makes every append after the first batch fail."""

    entry_size_max = 1024 * 1024

    def __init__(self, client: "FakeClient", ledger_id: int) -> None:
        self._client = client
        self.ledger_id = ledger_id
        self.is_closed = False

    @property
    def last_add_pushed(self) -> int:
        return len(self._client.entries[self.ledger_id]) - 1

    @property
    def last_add_acknowledged(self) -> int:
        return self.last_add_pushed

    @property
    def last_add_confirmed(self) -> int:
        return self.last_add_pushed - self._client.volatile_count

    @property
    def under_replicated(self) -> Mapping[str, Sequence[Span]]:
        return self._client.under_replicated if self.is_closed else {}

    def close(self, *, timeout: float | None = None, accept_loss: bool = False) -> int:
        """Close it; ``volatile_count`` entries at the end cannot become durable."""
        lac, last_acked_id = self.last_add_confirmed, self.last_add_acknowledged
        if lac < last_acked_id and not accept_loss:
            raise NotDurableError(self.ledger_id, lac, last_acked_id, "bookies are down")
        self.is_closed = True
        self._client.close_ledger(self.ledger_id)
        return lac

    def append_many(
        self, payloads: Iterable[bytes], *, timeout: float | None = None
    ) -> "Future[range]":
        entries = self._client.entries[self.ledger_id]
        batch = list(payloads)
        for payload in batch:
            if len(payload) > self.entry_size_max:
                raise EntryTooLargeError(len(payload), self.entry_size_max)
        future: Future[range] = Future()
        if self._client.append_failure is not None:
            future.set_exception(self._client.append_failure)
            return future
        future.set_result(range(len(entries), len(entries) + len(batch)))
        entries += batch
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FakeClient(FakeLogs):
    """``failure`` is raised by whatever asks for a ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[int, LedgerMetadata] = {}
        self.tasks: dict[int, UnderreplicatedLedger] = {}
        self.copies: dict[int, list[LedgerCopy]] = {}
        self.entries: dict[int, list[bytes]] = {}
        self.passwords: dict[int, bytes] = {}
        self.readers: list[FakeReader] = []
        self.failure: BaseException | None = None
        self.append_failure: ZbkError | None = None
        self.volatile_count = 0
        self.under_replicated: Mapping[str, Sequence[Span]] = {}
        self.recover_timeout_s: float | None = None
        self.scrubbed: list[tuple[str, bool | None]] = []  # begun, only asked, or waited for
        self.suspended: set[str] = set()  # kinds of compaction
        self.tested: list[str] = []  # bookies
        self.self_test_error: ZbkError | None = None
        self.is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    def add_ledger(self, entries: list[bytes], **keywords: Any) -> int:  # noqa: ANN401 - create's
        """Make a closed ledger."""
        ledger_id = self.reserve_ledger(**keywords)
        self.entries[ledger_id] = entries
        self.close_ledger(ledger_id)
        return ledger_id

    def close_ledger(self, ledger_id: int) -> None:
        entries = self.entries[ledger_id]
        self.metadata[ledger_id] = self.metadata[ledger_id].with_closed(
            len(entries) - 1, sum(map(len, entries))
        )

    def reserve_ledger(
        self,
        *,
        ensemble_size: int = 3,
        write_quorum_size: int = 3,
        ack_quorum_size: int = 2,
        ledger_type: str = "PD_JOURNAL",
        digest_type: str = "XXH3",
        password: bytes = b"",
        custom_metadata: dict[str, bytes] | None = None,
        namespace: str = "",
        grants: Mapping[str, Sequence[str]] | None = None,
    ) -> int:
        if self.failure is not None:
            raise self.failure
        access = LedgerAccess(owner="me", namespace=namespace, grants=grants_of(grants or {}))
        ledger_id = len(self.metadata)
        self.metadata[ledger_id] = LedgerMetadata(
            ledger_id=ledger_id,
            ensemble_size=ensemble_size,
            write_quorum_size=write_quorum_size,
            ack_quorum_size=ack_quorum_size,
            ledger_type=LedgerType(ledger_type),
            digest_type=DigestType(digest_type),
            password_digest=b"",
            fragments=(Fragment(0, BOOKIES[:ensemble_size]),),
            created_ms=CREATED_MS,
            creation_token="",
            has_writer=False,
            custom_metadata=custom_metadata or {},
        )
        if namespace:
            self.metadata[ledger_id] = self.metadata[ledger_id].owned(access)
        self.entries[ledger_id] = []
        self.passwords[ledger_id] = password
        return ledger_id

    def grant(self, ledger_id: int, principal: str, rights: Sequence[str]) -> LedgerMetadata:
        return self._grant(ledger_id, with_grant, principal, rights)

    def revoke(self, ledger_id: int, principal: str, rights: Sequence[str]) -> LedgerMetadata:
        return self._grant(ledger_id, without_grant, principal, rights)

    def _grant(
        self,
        ledger_id: int,
        change: Callable[[Grants, str, Iterable[Right]], Grants],
        principal: str,
        rights: Sequence[str],
    ) -> LedgerMetadata:
        found = self.metadata[ledger_id]
        changed = change(found.known_access.grants, principal, rights_named(rights))
        self.metadata[ledger_id] = found.with_grants(changed)
        return self.metadata[ledger_id]

    def create_ledger(self, **keywords: Any) -> FakeWriter:  # noqa: ANN401 - reserve's
        return self.open_for_append(self.reserve_ledger(**keywords), keywords.get("password", b""))

    def open_for_append(self, ledger_id: int, password: bytes = b"") -> FakeWriter:
        self._check(ledger_id, password)
        self.metadata[ledger_id] = self.metadata[ledger_id].with_writer()
        return FakeWriter(self, ledger_id)

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> FakeReader:
        self._check(ledger_id, password)
        reader = FakeReader(self.metadata[ledger_id], self.entries[ledger_id])
        self.readers.append(reader)
        return reader

    def recover_ledger(
        self, ledger_id: int, password: bytes = b"", *, timeout: float | None = None
    ) -> FakeReader:
        self._check(ledger_id, password)
        self.recover_timeout_s = timeout
        if not self.metadata[ledger_id].is_closed:
            self.close_ledger(ledger_id)
        return self.open_ledger(ledger_id, password)

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        if self.failure is not None:
            raise self.failure
        if ledger_id not in self.metadata:
            raise NoSuchLedgerError(ledger_id)
        return self.metadata[ledger_id]

    def get_ledger_copies(self, ledger_id: int, *, timeout: float = 5.0) -> list[LedgerCopy]:
        del timeout
        found = self.get_ledger_metadata(ledger_id)
        return self.copies.get(
            ledger_id,
            [LedgerCopy(bookie_id=one, why="no answer") for one in found.last_fragment.bookies],
        )

    def get_underreplicated(self, ledger_id: int) -> UnderreplicatedLedger | None:
        return self.tasks.get(ledger_id)

    def list_ledgers(self, first_id: int = 0) -> Iterator[int]:
        return (one for one in sorted(self.metadata) if one >= first_id)

    def delete_ledger(self, ledger_id: int) -> None:
        del self.metadata[ledger_id]

    def sync_ledger(self, ledger_id: int, password: bytes = b"") -> int:
        self._check(ledger_id, password)
        return len(self.entries[ledger_id]) - 1

    def close_reserved_ledger(self, ledger_id: int, password: bytes = b"") -> None:
        self._check(ledger_id, password)
        self.close_ledger(ledger_id)

    def list_bookies(self) -> list[BookieRegistration]:
        return [
            BookieRegistration(
                bookie_id=bookie_id,
                address=f"tcp://127.0.0.1:{4000 + index}",
                incarnation=index + 1,
                is_readonly=index == 2,
                started_ms=CREATED_MS,
                version="0.1.0",
            )
            for index, bookie_id in enumerate(BOOKIES)
        ]

    def collect_garbage(
        self, bookie_id: str, *, compaction: str = "", timeout: float = 600.0
    ) -> GarbageStatus:
        del bookie_id, timeout
        logs = {"": 0, "minor": 1, "major": 3}[compaction]
        return GarbageStatus(
            request_id=1,
            incarnation=1,
            awaited_round=1,
            ended_round=1,
            compacted_log_count=logs,
            compacted_size=1_000 * logs,
        )

    def switch_compaction(
        self, bookie_id: str, *, suspend: Iterable[str] = (), resume: Iterable[str] = ()
    ) -> list[str]:
        assert bookie_id in BOOKIES
        self.suspended = (self.suspended | set(suspend)) - set(resume)
        return sorted(self.suspended)

    def test_bookie(self, bookie_id: str, *, timeout: float = 5.0) -> None:
        assert timeout > 0
        self.tested.append(bookie_id)
        if self.self_test_error is not None:
            raise self.self_test_error

    def bookie_info(self, bookie_id: str) -> BookieInfo:
        numbers = {
            field.name: 7
            for field in msgspec.structs.fields(BookieInfo)
            if field.name not in ("bookie_id", "instance_id", "software", "is_readonly")
        }
        texts = {"journal_position": "1:2", "last_log_mark": "1:0"}
        return BookieInfo(
            bookie_id=bookie_id,
            instance_id="i",
            software="zbk",
            is_readonly=False,
            **(numbers | texts),  # type: ignore[arg-type]  # fields that are numbers, by name
        )

    def scrub(self, bookie_id: str, *, is_pass_wanted: bool = True) -> ScrubStatus:
        """Begin the second pass at each bookie; the second bookie is damaged."""
        self.scrubbed.append((bookie_id, is_pass_wanted))
        status = ScrubStatus(
            request_id=0, awaited_pass=2, begun_pass=1, ended_pass=1, read_size=1_000
        )
        if bookie_id != BOOKIES[1]:
            return status
        return msgspec.structs.replace(
            status,
            file_count=1,
            ledger_count=2,
            entry_count=3,
            files=[("/l/logs/00000001.log", 80, 7, "a block fails its checksum")],
            ranges=[(7, 2, 4), (8, 0, -1)],
        )

    def follow_scrub(
        self,
        bookie_id: str,
        begun: ScrubStatus,
        *,
        timeout: float,
        tell: Callable[[ScrubStatus], None],
    ) -> ScrubStatus:
        assert timeout > 0
        ended = msgspec.structs.replace(begun, begun_pass=2, ended_pass=2)
        tell(ended)
        self.scrubbed.append((bookie_id, None))
        return ended

    def _check(self, ledger_id: int, password: bytes) -> None:
        self.get_ledger_metadata(ledger_id)
        if self.passwords[ledger_id] != password:
            raise UnauthorizedError(ledger_id)
