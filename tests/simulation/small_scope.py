"""What ``exhaustive`` puts together: one ledger, and bookies that hold it exactly."""

import io
import pickle
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from zbk.durability.bookie_ledger import BookieLedger
from zbk.errors import NoSuchEntryError, RequestTimeoutError, ZbkError
from zbk.protocol.entry.digest import digest_function, ledger_key, password_digest
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery import events as rec
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.protocol.write import events as wri

LEDGER_ID: Final = 7
QUORUM: Final = Quorum(3, 3, 2)
KEY: Final = ledger_key(b"", LEDGER_ID)
DIGEST: Final = digest_function(DigestType.XXH3, b"", LEDGER_ID)
BOOKIES: Final = ("a", "b", "c", "d", "e")
READ_COUNT: Final = 100
WRITE_COUNT: Final = 1_000
"""Numbers from which new ones are taken, above all that follow from slots and entries."""


Scene: TypeAlias = Literal["one fragment", "two fragments"]


class Switches(msgspec.Struct, frozen=True):
    """What the search may leave out, to see that it would be missed."""

    is_read_fencing: bool = True  # B1
    has_floor: bool = True  # B2


class Bookie:
    """One ledger at one bookie: the real rules, and what is stored."""

    def __init__(self) -> None:
        self.ledger = BookieLedger(LEDGER_ID)
        self.entries: dict[int, bytes] = {}


class Parts:
    """Whatever states are made of, by number: the same pickle, the same number.

    Constants within a part are kept once, beside the pickles: most of the time went into them.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._blobs: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._kept: dict[int, tuple[object, _Reduced]] = {}  # by identity
        self._table: Any = dict.fromkeys(_CONSTANT_TYPES, self._reduced)

    def number(self, part: object) -> int:
        """Return the number of a part."""
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer, protocol=5)
        pickler.dispatch_table = self._table
        pickler.dump(part)
        number = self._numbers.setdefault(buffer.getvalue(), len(self._blobs))
        if number == len(self._blobs):
            self._blobs.append(buffer.getvalue())
        return number

    def part(self, number: int) -> Any:  # noqa: ANN401 - whatever was numbered
        """Return a part, new each time."""
        return pickle.loads(self._blobs[number])  # noqa: S301 - our own bytes

    def _reduced(self, part: object) -> "_Reduced":
        if id(part) in self._kept:
            return self._kept[id(part)][1]
        blob = pickle.dumps(part, protocol=5)
        if blob not in self._places:
            self._places[blob] = len(_CONSTANTS)
            _CONSTANTS.append(part)
        place = self._places[blob]
        reduced = (_constant, (place,))
        if _CONSTANTS[place] is part:  # it stays, and so does its identity
            self._kept[id(part)] = (part, reduced)
        return reduced


_Reduced: TypeAlias = tuple[Callable[[int], object], tuple[int]]
_CONSTANTS: Final[list[object]] = []
_CONSTANT_TYPES: Final = (
    LedgerMetadata,
    Quorum,
    rec.RecoveryLimits,
    EntryBatch,
    RequestTimeoutError,
    NoSuchEntryError,
)
"""What nobody changes, as parts of parts."""


def _constant(place: int) -> object:
    return _CONSTANTS[place]


def answer_of(model: Bookie, request: object, *, is_read_fencing: bool) -> object:
    """Carry out a request; return the event for whoever sent it."""
    try:
        match request:
            case wri.SendAdd(slot, batch, lac, epoch):
                _store(model, batch, lac, is_recovery=False)
                return wri.AddAnswered(slot, batch.first_entry_id, 1, NO_ENTRY, epoch)
            case rec.SendWrite(write_id, _, batch, lac):
                _store(model, batch, lac, is_recovery=True)
                return rec.WriteAnswered(write_id)
            case rec.SendFence(slot):
                _fence(model)
                return rec.FenceAnswered(slot, model.ledger.lac)
            case rec.SendRead(read_id, _, entry_ids):
                if is_read_fencing:
                    _fence(model)
                return _read(model, read_id, list(entry_ids))
    except ZbkError as error:
        return failure_of(request, error)
    raise AssertionError(f"nobody asks for {request}")


def _store(model: Bookie, batch: EntryBatch, lac: int, *, is_recovery: bool) -> None:
    model.ledger.admit_add(KEY, LedgerType.PD_JOURNAL, is_recovery=is_recovery)
    model.ledger.added(lac)
    offset = 0
    for entry_id, size in zip(batch.entry_ids, batch.sizes, strict=True):
        model.entries[entry_id] = batch.body[offset : offset + size]
        offset += size
    model.entries = dict(sorted(model.entries.items()))


def _fence(model: Bookie) -> None:
    model.ledger.fence(KEY, LedgerType.PD_JOURNAL)
    model.ledger.fence_synced()


def _read(model: Bookie, read_id: int, entry_ids: list[int]) -> object:
    found = []
    for entry_id in entry_ids:
        if entry_id not in model.entries:
            break
        found.append(model.entries[entry_id])
    if not found:
        return rec.ReadAnswered(read_id, NoSuchEntryError(LEDGER_ID, entry_ids[0]))
    return rec.ReadAnswered(read_id, b"".join(found))


def failure_of(request: object, error: ZbkError) -> object:
    """Return the event for whoever sent a request that failed."""
    match request:
        case wri.SendAdd(slot, batch, _, epoch):
            return wri.AddFailed(slot, batch.first_entry_id, error, epoch)
        case rec.SendWrite(write_id):
            return rec.WriteAnswered(write_id, error)
        case rec.SendFence(slot):
            return rec.FenceAnswered(slot, error)
        case rec.SendRead(read_id):
            return rec.ReadAnswered(read_id, error)
    raise AssertionError(f"nobody asks for {request}")


def renumbered(core: RecoveryCore, effects: list[rec.Effect]) -> list[rec.Effect]:
    """Give reads and writes numbers that do not tell how many there were before.

    A slot has one read, and one write of a batch, under way: their numbers follow from that.
    """
    reads, writes = core._reads, core._writes
    if reads is None or writes is None:
        return effects
    read_ids = {old: asked.slot for old, asked in reads._asked.items()}
    reads._asked = dict(sorted((read_ids[old], asked) for old, asked in reads._asked.items()))
    reads.read_count = READ_COUNT
    write_ids = {old: 8 * first + slot for old, (slot, first) in writes._sent.items()}
    writes._sent = dict(sorted((write_ids[old], sent) for old, sent in writes._sent.items()))
    writes._write_count = WRITE_COUNT
    renumbered: list[rec.Effect] = []
    for effect in effects:
        if isinstance(effect, rec.SendRead) and effect.read_id in read_ids:
            effect = msgspec.structs.replace(effect, read_id=read_ids[effect.read_id])  # noqa: PLW2901
        elif isinstance(effect, rec.SendWrite):
            effect = msgspec.structs.replace(effect, write_id=write_ids[effect.write_id])  # noqa: PLW2901
        renumbered.append(effect)
    return renumbered


def new_metadata(ensemble: tuple[str, ...]) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=LEDGER_ID,
        ensemble_size=3,
        write_quorum_size=3,
        ack_quorum_size=2,
        ledger_type=LedgerType.PD_JOURNAL,
        digest_type=DigestType.XXH3,
        password_digest=password_digest(b"", LEDGER_ID),
        fragments=(Fragment(0, ensemble),),
        created_ms=0,
        creation_token="t",
    )
