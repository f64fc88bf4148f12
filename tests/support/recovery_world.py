"""Bookies in memory that fence, a writer's adds, and a recovery that runs against them.

Requests wait in ``Recovery.waiting`` until a test delivers or fails them: so a test chooses every
order of events. A bookie does at the moment of delivery what it is asked to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, assert_never

from zbk.errors import (
    BookieUnavailableError,
    EntryUnreadableError,
    LedgerFencedError,
    NoSuchEntryError,
    UnknownLedgerStateError,
    ZbkError,
)
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.recovery.events import (
    ChooseReplacements,
    CloseRecovered,
    Effect,
    Event,
    FenceAnswered,
    ReadAnswered,
    RecoveryFailed,
    RecoveryLimits,
    RecoveryStarted,
    ReplacementsChosen,
    SendFence,
    SendRead,
    SendWrite,
    Tick,
    WriteAnswered,
)
from zbk.protocol.recovery.recovery import RecoveryCore

LEDGER_ID = 7
DIGEST = digest_function(DigestType.XXH3, b"", LEDGER_ID)
Q332 = Quorum(3, 3, 2)
IMPATIENT = RecoveryLimits(attempt_count_max=2)

Request: TypeAlias = SendFence | SendRead | SendWrite


def payload(entry_id: int) -> bytes:
    """Return bytes that say whose they are; their size changes with the entry."""
    return b"%d" % entry_id * (1 + entry_id % 3)


def length_up_to(last_entry_id: int) -> int:
    """Return the bytes of payload up to and with an entry."""
    return sum(len(payload(entry_id)) for entry_id in range(last_entry_id + 1))


def encoded(entry_id: int, lac: int = NO_ENTRY) -> bytes:
    """Return an entry as its writer encodes it."""
    return encode_entries(
        LEDGER_ID,
        [entry_id],
        lac,
        length_up_to(entry_id - 1),
        [payload(entry_id)],
        DigestType.XXH3,
        DIGEST,
    )[0]


def damaged(entry: bytes) -> bytes:
    """Return the entry with a flipped bit."""
    return entry[:-1] + bytes([entry[-1] ^ 1])


def ledger(
    quorum: Quorum,
    *fragments: Fragment,
    ledger_type: LedgerType = LedgerType.PD_JOURNAL,
) -> LedgerMetadata:
    """Return an open ledger; its first ensemble is b0, b1, ... unless fragments are given."""
    bookies = tuple(f"b{slot}" for slot in range(quorum.ensemble_size))
    return LedgerMetadata(
        ledger_id=LEDGER_ID,
        ensemble_size=quorum.ensemble_size,
        write_quorum_size=quorum.write_size,
        ack_quorum_size=quorum.ack_size,
        ledger_type=ledger_type,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        fragments=fragments or (Fragment(0, bookies),),
        created_ms=0,
        creation_token="token",
    )


class ModelBookie:
    """What one bookie has of the ledger. ``None`` as an entry: it has it and cannot read it."""

    def __init__(self, bookie_id: str) -> None:
        self.bookie_id = bookie_id
        self.entries: dict[int, bytes | None] = {}
        self.lac = NO_ENTRY
        self.is_fenced = False
        self.is_dead = False
        self.is_in_limbo = False
        self.does_read_fence = True  # not so in BookKeeper before 4.14

    def check_up(self) -> None:
        """Raise if nobody answers here."""
        if self.is_dead:
            raise BookieUnavailableError(self.bookie_id, "not there")

    def add(self, entry_id: int, entry: bytes, lac: int = NO_ENTRY) -> None:
        """Take an add of the writer."""
        self.check_up()
        if self.is_fenced:
            raise LedgerFencedError(LEDGER_ID)
        self.entries.setdefault(entry_id, entry)
        self.lac = max(self.lac, lac)

    def fence(self) -> int:
        """Take a fencing LAC read."""
        self.check_up()
        self.is_fenced = True
        return self.lac

    def read(self, entry_ids: Sequence[int], count_max: int) -> bytes:
        """Take a fencing read."""
        self.check_up()
        self.is_fenced |= self.does_read_fence
        found: list[bytes] = []
        for entry_id in entry_ids[:count_max]:
            if entry_id not in self.entries:
                if not found and self.is_in_limbo:
                    raise UnknownLedgerStateError(LEDGER_ID, self.bookie_id)
                if not found:
                    raise NoSuchEntryError(LEDGER_ID, entry_id)
                break
            entry = self.entries[entry_id]
            if entry is None:
                if not found:
                    raise EntryUnreadableError(LEDGER_ID, entry_id, "bad sector")
                break
            found.append(entry)
        return b"".join(found)

    def write_back(self, request: SendWrite) -> None:
        """Take a recovery add."""
        self.check_up()
        start = 0
        batch = request.batch
        for entry_id, size in zip(batch.entry_ids, batch.sizes, strict=True):
            self.entries[entry_id] = batch.body[start : start + size]
            start += size
        self.lac = max(self.lac, request.lac)


class Bookies:
    """The bookies of the cluster, by id, made when they are first named."""

    def __init__(self, *bookie_ids: str) -> None:
        self._bookies: dict[str, ModelBookie] = {}
        for bookie_id in bookie_ids:
            self._bookies[bookie_id] = ModelBookie(bookie_id)

    def __getitem__(self, bookie_id: str) -> ModelBookie:
        """Return a bookie."""
        return self._bookies.setdefault(bookie_id, ModelBookie(bookie_id))

    def __iter__(self) -> Iterator[ModelBookie]:
        """Yield the bookies."""
        return iter(list(self._bookies.values()))

    def fill(self, metadata: LedgerMetadata, last_entry_id: int, lac: int = NO_ENTRY) -> None:
        """Give every bookie what it should have, each entry with the LAC before it."""
        for entry_id in range(last_entry_id + 1):
            fragment, _ = metadata.fragment_of(entry_id)
            for slot in metadata.quorum.write_set(entry_id):
                self[fragment.bookies[slot]].entries[entry_id] = encoded(entry_id, lac)
        for bookie_id in {b for f in metadata.fragments for b in f.bookies}:
            self[bookie_id].lac = lac

    def replacements(self, effect: ChooseReplacements) -> dict[int, str]:
        """Return spare bookies, by slot, as far as there are some."""
        used = {*effect.ensemble, *effect.exclude}
        spare = [b for b in self._bookies if b not in used]
        return dict(zip(effect.failed_slots, spare, strict=False))


class Recovery:
    """One recoverer and its requests that are on their way."""

    def __init__(
        self,
        metadata: LedgerMetadata,
        bookies: Bookies,
        limits: RecoveryLimits | None = None,
        *,
        read_count_max: int = 1_000,
    ) -> None:
        self.bookies = bookies
        self.core = RecoveryCore(
            metadata.with_recovery(), digest=DIGEST, limits=limits or RecoveryLimits()
        )
        self.read_count_max = read_count_max
        self.waiting: list[Request] = []
        self.sent: list[Request] = []
        self.choices: list[ChooseReplacements] = []
        self.closed: CloseRecovered | None = None
        self.error: ZbkError | None = None
        self.now_ms = 0

    @property
    def end(self) -> tuple[int, int]:
        """The last entry and the length with which the ledger is closed."""
        assert self.closed is not None, f"not closed: {self.error}"
        return self.closed.last_entry_id, self.closed.length

    @property
    def is_over(self) -> bool:
        """True when the recovery has closed the ledger, or failed."""
        return self.core.is_over

    def start(self) -> "Recovery":
        """Begin."""
        self.handle(RecoveryStarted())
        return self

    def handle(self, event: Event) -> list[Effect]:
        """Give the core one event; keep what comes out."""
        effects = self.core.handle(event, self.now_ms)
        for effect in effects:
            match effect:
                case SendFence() | SendRead() | SendWrite():
                    self.waiting.append(effect)
                    self.sent.append(effect)
                case ChooseReplacements():
                    self.choices.append(effect)
                case CloseRecovered():
                    self.closed = effect
                case RecoveryFailed():
                    self.error = effect.error
                case _:
                    assert_never(effect)
        return effects

    def tick(self, ms: int = 100) -> list[Effect]:
        """Advance the clock."""
        self.now_ms += ms
        return self.handle(Tick())

    def choose(self, bookies: Mapping[int, str] | None = None) -> list[Effect]:
        """Answer the oldest request for replacements; with spare bookies if none are given."""
        effect = self.choices.pop(0)
        chosen = self.bookies.replacements(effect) if bookies is None else bookies
        return self.handle(ReplacementsChosen(chosen))

    # ------------------------------------------------------------------ requests

    def waiting_for(self, bookie_id: str, kind: type | None = None) -> list[Request]:
        """Return what is on its way to a bookie."""
        return [
            one
            for one in self.waiting
            if one.bookie_id == bookie_id and (kind is None or isinstance(one, kind))
        ]

    def deliver(self, request: Request) -> list[Effect]:
        """Deliver a request and its answer."""
        self.waiting.remove(request)
        return self.handle(self.answer(request))

    def answer(self, request: Request) -> Event:
        """Deliver a request; return its answer, which the caller delivers or loses."""
        bookie = self.bookies[request.bookie_id]
        try:
            match request:
                case SendFence():
                    return FenceAnswered(request.slot, bookie.fence())
                case SendRead():
                    body = bookie.read(request.entry_ids, self.read_count_max)
                    return ReadAnswered(request.read_id, body)
                case SendWrite():
                    bookie.write_back(request)
                    return WriteAnswered(request.write_id)
                case _:
                    assert_never(request)
        except ZbkError as error:
            return failure(request, error)

    def lose(self, request: Request) -> list[Effect]:
        """Lose a request; it times out."""
        self.waiting.remove(request)
        return self.handle(
            failure(request, BookieUnavailableError(request.bookie_id, "connection lost"))
        )

    def run(self, *, is_lost: Callable[[Request], bool] = lambda _: False) -> "Recovery":
        """Deliver in order whatever is on its way, and let time pass, until the end."""
        for _ in range(100_000):
            if self.is_over:
                return self
            if self.choices:
                self.choose()
            elif not self.waiting:
                self.tick()
            elif is_lost(self.waiting[0]):
                self.lose(self.waiting[0])
            else:
                self.deliver(self.waiting[0])
        raise AssertionError("the recovery does not end")


def failure(request: Request, error: ZbkError) -> Event:
    """Return the event that says that a request failed."""
    match request:
        case SendFence():
            return FenceAnswered(request.slot, error)
        case SendRead():
            return ReadAnswered(request.read_id, error)
        case SendWrite():
            return WriteAnswered(request.write_id, error)
        case _:
            assert_never(request)


def recovered(
    metadata: LedgerMetadata, bookies: Bookies, limits: RecoveryLimits | None = None
) -> Recovery:
    """Recover to the end, in the plainest order."""
    return Recovery(metadata, bookies, limits).start().run()
