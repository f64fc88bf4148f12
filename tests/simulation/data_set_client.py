"""What the real ``DataSets`` stand on in the simulation: metadata, and ledgers written elsewhere.

``create_ledger`` makes a ledger that its client writes later, or gives the manifest that is written
already; ``open_ledger`` gives a manifest's entries as they were acknowledged.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self, cast

import msgspec

from tests.simulation.data_set_oracle import DataSetOracle
from tests.simulation.passwords import PASSWORDS
from tests.simulation.world import World
from zbk.client.dataset.datasets import DataSets
from zbk.client.dataset.ledgers import DataSetClient
from zbk.errors import NotEnoughBookiesError
from zbk.metadata.records.datasets import DataSetStore
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum


class _Entry(msgspec.Struct, frozen=True):
    payload: bytes


class _Reader:
    """What a manifest says, as it was acknowledged; that bookies have it is judged at the end."""

    def __init__(self, metadata: LedgerMetadata, payloads: Sequence[bytes]) -> None:
        self.metadata = metadata
        self._payloads = payloads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        return None

    def read(self, first: int, last: int) -> Iterator[_Entry]:
        return map(_Entry, self._payloads[first : last + 1])


class WrittenManifest:
    """A manifest that is written already, for whoever is about to write it."""

    def __init__(self, ledger_id: int, payloads: Sequence[bytes]) -> None:
        self.ledger_id = ledger_id
        self._payloads = payloads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        return None

    def append_many(self, payloads: Sequence[bytes]) -> "Future[None]":
        assert list(payloads) == self._payloads, "the manifest is another one than was written"
        future: Future[None] = Future()
        future.set_result(None)
        return future


class Made(msgspec.Struct, frozen=True):
    """A ledger that was made, and is not written yet."""

    metadata: LedgerMetadata


class DataSetMetadataClient:
    """The part of ``Client`` that data sets stand on, at one moment of simulated time."""

    def __init__(self, world: World, name: str, quorum: Quorum, oracle: DataSetOracle) -> None:
        self._world = world
        self._name = name
        self._quorum = quorum
        self._oracle = oracle
        self._made_count = 0
        session = world.session(name)
        self._ledgers = session.ledgers()
        self._id_count = 0
        self.data_set_store = DataSetStore(session, pause=lambda _s: None, new_id=self._new_id)
        self.written: WrittenManifest | None = None

    def data_sets(self) -> DataSets:
        """Return the data sets that this client sees."""
        kernel = self._world.kernel
        return DataSets(cast("DataSetClient", self), PASSWORDS[0], now_ms=lambda: kernel.now_us)

    def _new_id(self) -> str:
        """Return an id that is the same in every run of a seed."""
        self._id_count += 1
        return f"{checksum(self._name.encode()):016x}{self._id_count:016x}"

    def next_ledger_id(self) -> int:
        return self._ledgers.next_ledger_id()

    def create_ledger(self, **options: Any) -> Made | WrittenManifest:  # noqa: ANN401 - create's
        if self.written is not None:
            return self.written
        bookies = self._world.candidates()
        size = self._quorum.ensemble_size
        if len(bookies) < size:
            raise NotEnoughBookiesError(size, len(bookies), "")
        self._made_count += 1
        token = f"{self._name} {self._made_count}"
        make = self._world.new_ledger(self._quorum, LedgerType.PD_JOURNAL, bookies, token)
        tags = options["custom_metadata"]
        metadata, _version = self._ledgers.create(
            lambda ledger_id: msgspec.structs.replace(make(ledger_id), custom_metadata=tags)
        )
        return Made(metadata)

    def open_ledger(self, ledger_id: int, _password: bytes = b"") -> _Reader:
        metadata = self._ledgers.read(ledger_id)[0]
        return _Reader(metadata, self._oracle.payloads[ledger_id])

    def list_ledgers(self) -> Iterator[int]:
        return self._ledgers.list()

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        return self._ledgers.read(ledger_id)[0]

    def delete_ledger(self, ledger_id: int) -> None:
        self._ledgers.delete(ledger_id)

    def list_bookies(self) -> list[Any]:
        return []  # the manifest is written where ``create_ledger`` says
