"""The ledgers of data sets in the cluster: data ledgers and manifests.

The custom metadata of each ledger hold the *tags* that name its data set and its load. So the
leftovers of a killed driver are found by reading the metadata of all ledgers.

A manifest has ``MANIFEST_COPY_COUNT`` copies, or as many as there are writable bookies: it is
small, and without it the ledgers that it lists are not found.

Any thread; every method blocks.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol, Unpack

import msgspec

from zbk.client.read.ledger_reader import LedgerReader
from zbk.client.write.ledger_creation import LedgerOptions, LedgerPlan, plan_ledger
from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import (
    ArgumentTypeError,
    CorruptRecordError,
    InvalidOptionError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.metadata.records.datasets import DataSetStore
from zbk.metadata.values import BookieRegistration
from zbk.protocol.dataset.dataset import Load, LoadKind
from zbk.protocol.dataset.manifest import DataLedger, Manifest, decode_manifest, encode_manifest
from zbk.protocol.entry.words import NO_ENTRY, LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata

DATA_SET_TAG: Final = "zbk.dataset"
NAME_TAG: Final = "zbk.dataset.name"
LOAD_TAG: Final = "zbk.load"
PARTITION_TAG: Final = "zbk.partition"
ATTEMPT_TAG: Final = "zbk.attempt"

MANIFEST_COPY_COUNT: Final = 3

SPAN_COUNT_MAX: Final = 1000
"""The longest range of ids that is read id by id; for a longer one all ledgers are listed."""


class DataSetClient(Protocol):
    """The part of ``Client`` that data sets use."""

    @property
    def data_set_store(self) -> DataSetStore:
        """The data sets of the cluster."""
        ...

    def next_ledger_id(self) -> int:
        """Return an id that is above those of all ledgers that exist now."""
        ...

    def create_ledger(self, **options: Unpack[LedgerOptions]) -> LedgerWriter:
        """Create a ledger."""
        ...

    def open_ledger(self, ledger_id: int, password: bytes = b"") -> LedgerReader:
        """Open a ledger."""
        ...

    def list_ledgers(self) -> Iterator[int]:
        """Yield all ledger ids."""
        ...

    def get_ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Read a ledger's metadata."""
        ...

    def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger."""
        ...

    def list_bookies(self) -> list[BookieRegistration]:
        """Return the registered bookies."""
        ...


class LoadTicket(msgspec.Struct, frozen=True, kw_only=True):
    """A load that has begun: plain values, to send to the processes that take part in it."""

    name: str
    data_set_id: str
    load_id: str
    kind: LoadKind
    base_version: int


def ticket_of(name: str, load: Load) -> LoadTicket:
    """Return the ticket of a load of the data set ``name``."""
    return LoadTicket(
        name=name,
        data_set_id=load.data_set_id,
        load_id=load.load_id,
        kind=load.kind,
        base_version=load.base_version,
    )


class TaggedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger of a data set, with its tags."""

    ledger_id: int
    data_set_id: str
    name: str  # of the data set
    load_id: str


class DataSetLedgers:
    """The ledgers of a client's data sets. ``password`` is the same for all of them."""

    def __init__(self, client: DataSetClient, password: bytes) -> None:
        self._client = client
        self._password = password

    def check_options(self, options: LedgerOptions) -> LedgerPlan:
        """Return the plan of a data ledger.

        Raises:
            ArgumentTypeError: ``options`` have a password, but all of a data set have the same.
            InvalidOptionError, InvalidQuorumError: as ``create_ledger``.
        """
        if "password" in options:
            raise ArgumentTypeError("password", "...", "give it to DataSets, for all ledgers")
        return plan_ledger({**options, "password": self._password})

    def create(
        self, ticket: LoadTicket, partition: int, attempt: int, options: LedgerOptions
    ) -> LedgerWriter:
        """Create a data ledger of a load. Raises as ``check_options``."""
        plan = self.check_options(options)
        tags = _tags(ticket) | {
            PARTITION_TAG: str(partition).encode(),
            ATTEMPT_TAG: str(attempt).encode(),
        }
        wanted: LedgerOptions = {**options, "password": self._password}
        wanted["custom_metadata"] = {**plan.custom_metadata, **tags}
        return self._client.create_ledger(**wanted)

    def check(self, ticket: LoadTicket, ledgers: Iterable[DataLedger]) -> None:
        """Check that ledgers belong to the load, are closed, and have the stated lengths.

        Raises:
            InvalidOptionError: one of them does not, or is given twice.
            NoSuchLedgerError: one of them was deleted.
        """
        seen: set[int] = set()
        for ledger in ledgers:
            found = self._client.get_ledger_metadata(ledger.ledger_id)
            tags = _tagged(found)
            problem = ""
            if ledger.ledger_id in seen:
                problem = "is given twice"
            elif tags is None or (tags.data_set_id, tags.load_id) != (
                ticket.data_set_id,
                ticket.load_id,
            ):
                problem = f"is not of load {ticket.load_id}"
            elif found.last_entry_id is None:
                problem = "is not closed"
            elif found.last_entry_id + 1 != ledger.entry_count:
                problem = f"has {found.last_entry_id + 1} entries, and not {ledger.entry_count}"
            if problem:
                raise InvalidOptionError("ledgers", ledger.ledger_id, problem)
            seen.add(ledger.ledger_id)

    # ------------------------------------------------------------------ manifests

    def write_manifest(
        self, ticket: LoadTicket, schema: bytes, ledgers: Sequence[DataLedger]
    ) -> int:
        """Write a closed and durable ledger that lists these; return its id.

        Raises:
            NotEnoughBookiesError: there is no writable bookie.
            EntryTooLargeError: the schema, or the bounds of one ledger, exceed an entry.
        """
        payloads = encode_manifest(ticket.data_set_id, ticket.load_id, schema, ledgers)
        writable_count = sum(not one.is_readonly for one in self._client.list_bookies())
        copy_count = max(1, min(MANIFEST_COPY_COUNT, writable_count))
        with self._client.create_ledger(
            ensemble_size=copy_count,
            write_quorum_size=copy_count,
            ack_quorum_size=copy_count // 2 + 1,
            ledger_type=LedgerType.PD_JOURNAL,
            password=self._password,
            custom_metadata=_tags(ticket),
        ) as writer:
            writer.append_many(payloads).result()
        return writer.ledger_id

    def read_manifest(self, ledger_id: int, data_set_id: str) -> Manifest:
        """Return the manifest in a ledger of this data set.

        Raises:
            NoSuchLedgerError: it was deleted.
            UnauthorizedError: it has another password.
            CorruptRecordError: it is not a manifest, or belongs to another data set.
        """
        where = f"ledger {ledger_id}"
        with self._client.open_ledger(ledger_id, self._password) as reader:
            last = reader.metadata.last_entry_id
            if last is None or last == NO_ENTRY:
                raise CorruptRecordError(where, 0, "is not a closed manifest")
            payloads = [entry.payload for entry in reader.read(0, last)]
        manifest = decode_manifest(payloads, where)
        if manifest.data_set_id != data_set_id:
            raise CorruptRecordError(
                where, 0, f"is a manifest of data set id {manifest.data_set_id}"
            )
        return manifest

    # ------------------------------------------------------------------ finding, deleting

    def tagged(
        self, first_ledger_id: int = 0, end_ledger_id: int | None = None
    ) -> Iterator[TaggedLedger]:
        """Yield the ledgers of all data sets with ids in this range; read the metadata of each.

        A ledger that is created or deleted meanwhile may or may not be among them. One whose
        metadata are damaged is not, and stays.
        """
        end = self._client.next_ledger_id() if end_ledger_id is None else end_ledger_id
        span = range(first_ledger_id, end)
        ids = span if len(span) <= SPAN_COUNT_MAX else self._client.list_ledgers()
        for ledger_id in ids:
            if ledger_id in span:
                yield from self._tags_of(ledger_id)

    def delete(self, ledger_id: int) -> bool:
        """Delete a ledger; return false if it did not exist any more."""
        try:
            self._client.delete_ledger(ledger_id)
        except NoSuchLedgerError:
            return False
        return True

    def discard(self, ledger_id: int) -> None:
        """Delete a ledger that no version lists; if that fails, ``collect`` finds it later."""
        with suppress(ZbkError):
            self.delete(ledger_id)

    def _tags_of(self, ledger_id: int) -> Iterator[TaggedLedger]:
        try:
            tags = _tagged(self._client.get_ledger_metadata(ledger_id))
        except (NoSuchLedgerError, CorruptRecordError):
            return  # deleted meanwhile, or of unknown origin
        if tags is not None:
            yield tags


def is_tagged_by(load: Load, ledger: TaggedLedger) -> bool:
    """Return whether a ledger carries the id of this load."""
    return (ledger.data_set_id, ledger.load_id) == (load.data_set_id, load.load_id)


def _tags(ticket: LoadTicket) -> dict[str, bytes]:
    return {
        DATA_SET_TAG: ticket.data_set_id.encode(),
        NAME_TAG: ticket.name.encode(),
        LOAD_TAG: ticket.load_id.encode(),
    }


def _tagged(metadata: LedgerMetadata) -> TaggedLedger | None:
    tags = metadata.custom_metadata
    if DATA_SET_TAG not in tags:
        return None
    data_set_id, name, load_id = (
        tags.get(tag, b"").decode(errors="replace") for tag in (DATA_SET_TAG, NAME_TAG, LOAD_TAG)
    )
    return TaggedLedger(
        ledger_id=metadata.ledger_id, data_set_id=data_set_id, name=name, load_id=load_id
    )
