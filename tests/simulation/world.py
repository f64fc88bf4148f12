"""Everything that one run consists of: clock, network, metadata, bookies; and who looks at them."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from tests.simulation.bookie import SimulatedBookie
from tests.simulation.bookie_parts import Parts as BookieParts
from tests.simulation.collector import UpkeepPlan
from tests.simulation.faults import Faults
from tests.simulation.kernel import Kernel
from tests.simulation.metadata import MetadataServer, Session
from tests.simulation.network import Network
from tests.simulation.passwords import key_of, password_of
from tests.simulation.principals import Rights
from tests.simulation.tape import Tape
from tests.support.checker import Violation
from tests.support.history import History
from zbk.durability.level import level_of
from zbk.protocol.entry.digest import DigestFunction, digest_function, password_digest
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.placement import Candidate, RandomPlacement
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.log.owner import LogOwner
from zbk.protocol.recovery.events import RecoveryLimits
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.repair_effects import RepairAim, RepairLimits
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.writer import WriterCore

DIGEST_TYPES: Final = (*(DigestType.XXH3,) * 7, *(DigestType.MAC,) * 2, DigestType.NONE)
"""Of ledgers: mostly the usual one."""


class Parts(BookieParts):
    """What a run is made of; a defect puts another part in."""

    def writer_core(self, world: "World", metadata: LedgerMetadata) -> WriterCore:
        """Return the core of a new writer."""
        return WriterCore(
            metadata.ledger_id,
            metadata.quorum,
            level_of(metadata.ledger_type),
            ensemble=metadata.last_fragment.bookies,
            digest_type=metadata.digest_type,
            digest=world.digest(metadata),
            limits=world.writer_limits,
        )

    def recovery_core(self, world: "World", metadata: LedgerMetadata) -> RecoveryCore:
        """Return the core of a new recovery."""
        return RecoveryCore(metadata, digest=world.digest(metadata), limits=world.recovery_limits)

    def repair_core(self, aim: RepairAim, limits: RepairLimits) -> LedgerRepair:
        """Return the core of a new repair."""
        return LedgerRepair(aim, limits)

    def log_owner(self, name: str) -> LogOwner:
        """Return the core of a new owner."""
        return LogOwner(name)

    def prepare(self, world: "World") -> None:
        """Change the world before anything happens."""


class World:
    """One cluster in one thread."""

    def __init__(self, tape: Tape, parts: Parts | None = None, *, is_traced: bool = False) -> None:
        self.tape = tape
        self.parts = parts or Parts()
        self.kernel = Kernel(tape, is_traced=is_traced)
        self.faults = Faults.draw(tape)
        self.history = History()
        self.network = Network(self.kernel, self.faults)
        self.metadata = MetadataServer(self.kernel, self.faults, self.history)
        self.bookies: list[SimulatedBookie] = []
        self.violations: list[Violation] = []
        self.is_ending = False
        self.has_autorecovery = False  # true: bookies register, and workers copy
        self.request_timeout_ms = tape.pick((1_000, 400))
        self.speculative_ms = tape.pick((0, 20))
        self.read_size_max = tape.pick((1 << 20, 300))
        self.writer_limits = _writer_limits(tape)
        self.recovery_limits = _recovery_limits(tape)
        self.upkeep: UpkeepPlan | None = None  # what bookies do to their disks
        self.rights: Rights | None = None  # None: bookies enforce none
        self._bookies_by_id: dict[str, SimulatedBookie] = {}
        self._acked_us: dict[tuple[int, int], int] = {}  # of VD entries, and when
        self.parts.prepare(self)

    @property
    def sometimes(self) -> Counter[str]:
        """How often the dangerous places were reached."""
        return self.kernel.sometimes

    # ------------------------------------------------------------------ what clients need

    def session(self, name: str) -> Session:
        """Return a new client's session with the metadata store."""
        session = Session(self.metadata, name, is_faulty=True)
        self.sessions.append(session)
        return session

    @property
    def sessions(self) -> list[Session]:
        """The sessions of all clients."""
        return self.metadata.sessions

    def ledger_key(self, ledger_id: int) -> bytes:
        """Return the key that bookies ask for."""
        return key_of(ledger_id)

    def digest(self, metadata: LedgerMetadata) -> DigestFunction:
        """Return the digest function of a ledger."""
        ledger_id = metadata.ledger_id
        return digest_function(metadata.digest_type, password_of(ledger_id), ledger_id)

    def undigested(self) -> set[int]:
        """Return the ledgers whose entries nobody can verify."""
        versions = self.history.metadata.ledgers
        return {v.ledger_id for v in versions if v.metadata.digest_type is DigestType.NONE}

    def new_ledger(
        self, quorum: Quorum, ledger_type: LedgerType, bookies: Sequence[str], token: str
    ) -> Callable[[int], LedgerMetadata]:
        """Return what ``LedgerStore.create`` wants, for a ledger on the first of these bookies."""
        digest_type = DIGEST_TYPES[self.tape.aside(len(DIGEST_TYPES))]
        self.sometimes[f"ledger: with the digest {digest_type}"] += 1

        def make(ledger_id: int) -> LedgerMetadata:
            metadata = LedgerMetadata(
                ledger_id=ledger_id,
                ensemble_size=quorum.ensemble_size,
                write_quorum_size=quorum.write_size,
                ack_quorum_size=quorum.ack_size,
                ledger_type=ledger_type,
                digest_type=digest_type,
                password_digest=password_digest(password_of(ledger_id), ledger_id),
                ledger_key=self.ledger_key(ledger_id),
                fragments=(Fragment(0, tuple(bookies[: quorum.ensemble_size])),),
                created_ms=0,
                creation_token=token,
            )
            has_sync_cursor = level_of(ledger_type).has_sync_cursor
            return metadata.recording_reported_lac() if has_sync_cursor else metadata

        return make

    def use_rights(self) -> None:
        """Make bookies enforce rights in this run."""
        self.rights = self.network.rights = Rights()
        self.metadata.watchers.append(self.rights.metadata_changed)

    def candidates(self) -> list[str]:
        """Return the bookies that are registered, shuffled; some may have died just now."""
        names = [b.bookie_id for b in self.bookies if b.node.is_alive]
        return self.tape.shuffled(names)

    def replacements(self, ensemble: list[str], failed: tuple[int, ...]) -> dict[int, str]:
        """Return new bookies for failed slots."""
        candidates = [Candidate(name) for name in self.candidates()]
        return RandomPlacement().replacements(candidates, ensemble, failed)

    # ------------------------------------------------------------------ bookies

    def add_bookie(self, address: str) -> SimulatedBookie:
        """Make a bookie with an empty disk, and start it."""
        bookie_id = f"b{len(self.bookies) + 1}"
        bookie = SimulatedBookie(
            self.kernel,
            self.network,
            self.metadata,
            bookie_id=bookie_id,
            address=address,
            parts=self.parts,
            is_registered=self.has_autorecovery,
            upkeep=self.upkeep,
        )
        self.bookies.append(bookie)
        self._bookies_by_id[bookie_id] = bookie
        bookie.start()
        return bookie

    def replace_bookie(self, old: SimulatedBookie) -> None:
        """Put a new bookie at the address of one that is lost, unless there is one."""
        if self.network.hosts[old.address] is old:
            self.add_bookie(old.address)

    def add_bookie_beside(self, old: SimulatedBookie) -> None:
        """Add a bookie for one that is damaged, once."""
        address = f"{old.address}.spare"
        if address not in self.network.hosts:
            self.add_bookie(address)

    def bookie(self, bookie_id: str) -> SimulatedBookie:
        """Return a bookie, dead or alive."""
        return self._bookies_by_id[bookie_id]

    # ------------------------------------------------------------------ judging

    def violated(self, invariant: str, text: str) -> None:
        """Note a broken promise that no history shows."""
        self.kernel.violated("world", invariant, text)
        self.violations.append(Violation(invariant, text))

    def current(self, ledger_id: int) -> LedgerMetadata:
        """Return a ledger's metadata as they are."""
        return self.metadata.current[ledger_id]

    def check_durable(self, ledger_id: int, first: int, last: int) -> None:
        """Judge I7: a writer says that these entries are on stable storage at an ack quorum."""
        if ledger_id not in self.metadata.current:
            return  # bookies may have dropped it
        metadata = self.current(ledger_id)
        quorum = metadata.quorum
        for entry_id in range(first, last + 1):
            fragment, _ = metadata.fragment_of(entry_id)
            members = [fragment.bookies[slot] for slot in quorum.write_set(entry_id)]
            count = sum(self.bookie(b).oracle.is_durable(ledger_id, entry_id) for b in members)
            if count < quorum.ack_size:
                self.violated(
                    "I7",
                    f"the LAC of ledger {ledger_id} is {last}; entry {entry_id} is on stable "
                    f"storage at {count} of {members}, not {quorum.ack_size}",
                )
                return

    def acknowledged(self, metadata: LedgerMetadata, first: int, count: int) -> None:
        """Note that entries of a VD ledger were acknowledged, and are where they should be."""
        if not metadata.ledger_type.is_volatile:
            return
        bookies, quorum = metadata.last_fragment.bookies, metadata.quorum
        for entry_id in range(first, first + count):
            members = [self.bookie(bookies[slot]).oracle for slot in quorum.write_set(entry_id)]
            has_count = sum(oracle.has(metadata.ledger_id, entry_id) for oracle in members)
            if has_count >= metadata.ack_quorum_size:
                self._acked_us[(metadata.ledger_id, entry_id)] = self.kernel.now_us

    def check_kept(self, metadata: LedgerMetadata) -> None:
        """Judge I20 after a loss of power: what somebody still has is not left out by a recovery.

        Who lost it was to ask everybody before it denied it. What a bookie was sent behind that is
        no matter here: it was acknowledged by fewer than an ack quorum that still had it.
        """
        end = metadata.last_entry_id
        assert end is not None, "it was closed"
        ledger_id = metadata.ledger_id
        members = [self.bookie(b) for b in metadata.last_fragment.bookies]
        if any(ledger_id in b.oracle.gave_up or b.is_lost or b.oracle.is_damaged for b in members):
            return
        entry_id = end + 1  # those behind it are left out if this one was lost by everybody
        members = [members[slot] for slot in metadata.quorum.write_set(entry_id)]
        acked_us = self._acked_us.get((ledger_id, entry_id), -1)
        for bookie in members:
            lost_us = bookie.oracle.losses.lost_us.get((ledger_id, entry_id), -1)
            if bookie.oracle.has(ledger_id, entry_id) and lost_us < acked_us:
                text = f"ledger {ledger_id} was recovered to {end}; {bookie.bookie_id} has"
                self.violated("I20", f"{text} entry {entry_id}, which was acknowledged")
                return


def _writer_limits(tape: Tape) -> WriterLimits:
    window_size, window_count = tape.pick((1 << 20, 2_000)), tape.pick((16, 2))
    return WriterLimits(
        window_size=window_size,
        window_count=window_count,
        backlog_size=2 * window_size,
        backlog_count=2 * window_count,
        batch_size_max=tape.pick((1 << 16, 400)),
        batch_count_max=tape.pick((4096, 3)),
        quorum_grace_ms=tape.pick((2_000, 500)),
        close_linger_ms=200,
        unsynced_size_max=4 * window_size,
        unsynced_batch_count_max=tape.pick((65_536, 8)),
        ensemble_retry_ms=200,
        catch_up_retry_ms_max=200,
        metadata_grace_ms=5_000,
        slow_bookie_ms=tape.pick((2_000, 300)),
        explicit_lac_ms=tape.pick((100, 0)),
    )


def _recovery_limits(tape: Tape) -> RecoveryLimits:
    return RecoveryLimits(
        window_size=tape.pick((1 << 20, 600)),
        window_count=tape.pick((4_096, 2)),
        batch_size_max=tape.pick((1 << 16, 400)),
        batch_count_max=tape.pick((4_096, 2)),
        attempt_count_max=4,
    )
