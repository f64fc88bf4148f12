"""Data sets without bookies: real metadata on any store, payloads in memory."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple, Self, cast
from uuid import uuid4

from zbk.client.dataset.datasets import DataSetClient, DataSets, LoadTicket
from zbk.client.write.ledger_creation import plan_ledger
from zbk.errors import NotEnoughBookiesError, UnauthorizedError
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import BookieRegistration
from zbk.protocol.dataset.manifest import DataLedger
from zbk.protocol.entry.digest import password_digest
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

NAME = "events"
SCHEMA = b'{"fields":[{"name":"id","nullable":true,"type":"long"}],"type":"struct"}'


class FakeEntry(NamedTuple):
    payload: bytes


class FakeDataReader:
    def __init__(self, metadata: LedgerMetadata, payloads: list[bytes]) -> None:
        self.metadata = metadata
        self._payloads = payloads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def read(self, first: int, last: int) -> Iterator[FakeEntry]:
        return map(FakeEntry, self._payloads[first : last + 1])


class FakeDataWriter:
    def __init__(self, client: "FakeDataSetClient", ledger_id: int) -> None:
        self._client = client
        self.ledger_id = ledger_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, payload: bytes) -> int:
        return self.append_many([payload]).result().start

    def append_many(self, payloads: Iterable[bytes]) -> "Future[range]":
        entries = self._client.payloads[self.ledger_id]
        start = len(entries)
        entries += payloads
        future: Future[range] = Future()
        future.set_result(range(start, len(entries)))
        return future

    def close(self) -> int:
        entries = self._client.payloads[self.ledger_id]
        last, length = len(entries) - 1, sum(map(len, entries))
        self._client.ledgers.update(self.ledger_id, lambda now: now.with_closed(last, length))
        return last


class FakeDataSetClient:
    """The part of ``Client`` that data sets stand on; clients that share ``payloads`` see alike."""

    def __init__(
        self,
        store: MetadataStore,
        payloads: dict[int, list[bytes]],
        *,
        pause: Callable[[float], None] = lambda _s: None,
    ) -> None:
        self.store = store
        self.payloads = payloads
        self.ledgers = LedgerStore(store, pause=pause)
        self.data_set_store = DataSetStore(store, pause=pause)
        self.bookie_count = 3
        self.listed_count = 0  # how often all ledgers were listed
        self.looked: list[int] = []  # ledgers whose metadata were read
        self.on_open: Callable[[], object] = lambda: None

    def data_sets(self, now_ms: Callable[[], int], password: bytes = b"") -> DataSets:
        """Return the data sets that this client sees."""
        return DataSets(cast("DataSetClient", self), password, now_ms=now_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def next_ledger_id(self) -> int:
        return self.ledgers.next_ledger_id()

    def create_ledger(self, **options: Any) -> FakeDataWriter:  # noqa: ANN401 - create's
        plan = plan_ledger(options)  # type: ignore[arg-type]  # keywords, as a client gets them
        size = plan.quorum.ensemble_size
        if size > self.bookie_count:
            raise NotEnoughBookiesError(size, self.bookie_count, "start more of them")
        token = uuid4().hex

        def make(ledger_id: int) -> LedgerMetadata:
            return LedgerMetadata(
                ledger_id=ledger_id,
                ensemble_size=size,
                write_quorum_size=plan.quorum.write_size,
                ack_quorum_size=plan.quorum.ack_size,
                ledger_type=plan.ledger_type,
                digest_type=plan.digest_type,
                password_digest=password_digest(plan.password, ledger_id),
                fragments=(Fragment(0, tuple(f"b{n}" for n in range(size))),),
                created_ms=0,
                creation_token=token,
                custom_metadata=dict(plan.custom_metadata),
            )

        ledger_id = self.ledgers.create(make)[0].ledger_id
        self.payloads[ledger_id] = []
        return FakeDataWriter(self, ledger_id)

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> FakeDataReader:
        self.on_open()
        metadata = self.ledgers.read(ledger_id)[0]
        if password_digest(password, ledger_id) != metadata.password_digest:
            raise UnauthorizedError(ledger_id)
        return FakeDataReader(metadata, self.payloads[ledger_id])

    def list_ledgers(self) -> Iterator[int]:
        self.listed_count += 1
        return self.ledgers.list()

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        self.looked.append(ledger_id)
        return self.ledgers.read(ledger_id)[0]

    def delete_ledger(self, ledger_id: int) -> None:
        self.ledgers.delete(ledger_id)

    def list_bookies(self) -> list[BookieRegistration]:
        return [
            BookieRegistration(
                bookie_id=f"b{n}",
                address=f"tcp://127.0.0.1:{4000 + n}",
                incarnation=1,
                is_readonly=False,
                started_ms=0,
                version="0",
            )
            for n in range(self.bookie_count)
        ]

    def ledger_ids(self) -> set[int]:
        """Return what is there, without counting as a listing."""
        return set(self.ledgers.list())


class Clock:
    """A wall clock that tests turn."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def write_ledger(
    data_sets: DataSets,
    ticket: LoadTicket,
    row_count: int = 1,
    *,
    partition: int = 0,
    attempt: int = 0,
) -> DataLedger:
    """Be one task attempt: a ledger of so many entries, a row each, closed."""
    with data_sets.create_ledger(ticket, partition=partition, attempt=attempt) as ledger:
        for number in range(row_count):
            ledger.append(b"%d" % number)
    return DataLedger(
        ledger_id=ledger.ledger_id,
        entry_count=row_count,
        row_count=row_count,
        size=row_count,
        load_id=ticket.load_id,
        partition=partition,
        attempt=attempt,
    )
