"""A bookie with a ledger that is fenced, or not, and the request that fences it."""

from tests.support.simulated_disk import SimulatedDisk
from tests.support.storage_actor import LEDGER_ID, World, add, batch, read_lac
from zbk.errors import LedgerFencedError, from_wire
from zbk.protocol.entry.words import LedgerType
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.wire.messages import AddAnswer, Message, ReadLac, Refused

FENCED = 9
"""The request id of fences."""

PD = LedgerType.PD_JOURNAL
SEGMENT_SIZE = SEGMENT_HEADER_SIZE + 8192


def bookie(disk: SimulatedDisk | None = None) -> World:
    """Return a bookie with small journal segments."""
    return World(disk or SimulatedDisk(), "/b", segment_size=SEGMENT_SIZE)


def forgetful(disk: SimulatedDisk) -> World:
    """Return a bookie with room for one ledger, one index header, one open file."""
    return World(disk, "/b", segment_size=SEGMENT_SIZE, open_files_max=1, ledger_count_max=1)


def with_entries(*payloads: bytes, kind: LedgerType = PD) -> World:
    """Return a bookie with a ledger of these entries, all on stable storage."""
    world = bookie()
    world.say(*add(batch(0, payloads), kind=kind))
    world.settle()
    world.answers.clear()
    return world


def fence(kind: LedgerType = PD, *, ledger_id: int = LEDGER_ID) -> ReadLac:
    """Return the request that fences a ledger."""
    return read_lac(request_id=FENCED, is_fencing=True, kind=kind, ledger_id=ledger_id)


def error_of(answer: Message) -> type[BaseException]:
    """Return what an answer refused with."""
    assert isinstance(answer, Refused), answer
    return type(from_wire(answer.code, tuple(answer.fields)))


def is_fenced(world: World) -> bool:
    """Ask with an add that is new; it is taken when the ledger is not fenced."""
    world.answers.clear()
    world.say(*add(batch(1_000, [b"late"])))
    world.settle()
    if isinstance(world.answers[-1], AddAnswer):
        return False
    assert error_of(world.answers[-1]) is LedgerFencedError
    return True
