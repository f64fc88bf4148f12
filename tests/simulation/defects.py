"""Seeded defects: a promise broken on purpose, to prove that the simulation can see it.

Each is a switch that exists only here: a method replaced while a run lasts, or a part of the world
put in another one's place. ``seed_count`` says within how many seeds it must be caught; ``code`` is
its number in the list of the reliability plan (X: not on it). M1, recovery reads that do not fence,
needs so many things at once that the exhaustive search looks for it (``test_exhaustive``).
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import msgspec

from tests.simulation import access_defects as access
from tests.simulation import bypass_defects as bypass
from tests.simulation import client_defects as clients
from tests.simulation import collection_defects as collection
from tests.simulation import copy_defects as copies
from tests.simulation import data_set_defects as data_sets
from tests.simulation import defect_methods as wrong
from tests.simulation import directory_defects as directories
from tests.simulation import repair_defects as repair
from tests.simulation import shared_client_defects as shared
from tests.simulation import volatile_defects as volatile
from tests.simulation.bookie import SimulatedBookie
from tests.simulation.bookie_parts import TimedSyncQueue
from tests.simulation.chosen_seeds import KNOWN_SEEDS
from tests.simulation.kernel import MS
from tests.simulation.logs import SimulatedLogOwner
from tests.simulation.outside_syncer import SimulatedOutsideSyncer
from tests.simulation.recoverer import RecoveryBody
from tests.simulation.run import Outcome, run_seed
from tests.simulation.stepped_actor import SteppedActor
from tests.simulation.undisturbed import undisturbed
from tests.simulation.world import Parts, World
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_file import SimulatedFile
from zbk.actors.identity import losses
from zbk.actors.identity.history import BookieHistory
from zbk.actors.identity.losses import Losses
from zbk.actors.serve import access_gate, new_ledger_gate
from zbk.actors.serve.access_gate import AccessGate
from zbk.actors.serve.add_requests import AddRequests
from zbk.actors.serve.journal import JournalActor
from zbk.actors.serve.log_sync import LogSyncActor
from zbk.actors.serve.log_syncs import LogSyncs
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.actors.serve.read import ReadActor
from zbk.actors.serve.read_requests import ReadRequests
from zbk.actors.serve.storage import StorageActor
from zbk.actors.serve.turn import Turn
from zbk.actors.serve.watch_requests import WatchRequests
from zbk.actors.upkeep.gc_questions import GcQuestions
from zbk.auditor import worker
from zbk.client.deadlines import Deadlines
from zbk.client.write.writer_actor import WriterActor
from zbk.durability.bookie_ledger import BookieLedger
from zbk.durability.limbo import Limbo
from zbk.durability.limbo_recheck import LedgerRecheck
from zbk.durability.outside_sync import OutsideSync
from zbk.durability.striped_cursor import StripedCursor
from zbk.durability.sync_cursor import SyncCursor
from zbk.durability.synced_lac import SyncedLac
from zbk.metadata.records.election import AuditorElection
from zbk.metadata.records.ledgers import LedgerStore
from zbk.protocol.dataset.dataset import DataSet
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.log.owner import LogOwner
from zbk.protocol.read.lac_session import LacSession
from zbk.protocol.read.tail import TailCore
from zbk.protocol.recovery.reads import RecoveryReads
from zbk.protocol.recovery.recovery import RecoveryCore
from zbk.protocol.recovery.writes import RecoveryWrites
from zbk.protocol.repair import fragment_copy
from zbk.protocol.repair.copy_confirmation import CopyConfirmation
from zbk.protocol.repair.fragment_copy import FragmentCopy
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.lost_bookies import LostBookies
from zbk.protocol.repair.underreplicated import UnderreplicatedLedger
from zbk.protocol.write.ack_tracker import AckTracker
from zbk.protocol.write.bookie_answers import BookieAnswers
from zbk.protocol.write.catch_up import CatchUp
from zbk.protocol.write.closing import Closing
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.moved_batches import MovedBatches
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.write_path import WritePath
from zbk.protocol.write.write_window import WriteWindow
from zbk.protocol.write.writer import WriterCore
from zbk.security.access_table import AccessTable
from zbk.storage import ledger_directory
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.checkpoint import Checkpoint
from zbk.storage.entry_logs.entry_log import EntryLogs
from zbk.storage.entry_logs.log_sync import FileSync
from zbk.storage.entry_logs.open_log import OpenLog
from zbk.storage.entry_logs.stored_copies import StoredCopies
from zbk.storage.gc.compaction_log import CompactionLog
from zbk.storage.index.deleted_ledgers import DeletedLedgers
from zbk.storage.journal.journal import Journal
from zbk.storage.journal.replay import JournalReplay
from zbk.storage.ledger_directory import LedgerDirectory
from zbk.storage.replay import Replayer
from zbk.storage.tools.reindex import Reindex
from zbk.storage.unjournaled import UnjournaledScan
from zbk.system.direct_inbox import TurnQueue
from zbk.transport import bundles

Patch = tuple[Any, str, Any]
"""A class, the name of a method, and the wrong one."""


class Defect(msgspec.Struct, frozen=True):
    """One broken promise, and how soon it must be seen."""

    code: str
    text: str
    seed_count: int
    patches: Sequence[Patch] = ()
    parts: type[Parts] = Parts
    is_fast: bool = True  # caught soon enough for every test run

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """Put the defect in while the context lasts."""
        with ExitStack() as stack:
            for owner, name, method in self.patches:
                stack.enter_context(patch.object(owner, name, method))
            yield

    def run(self, seed: int, **options: Any) -> Outcome:  # noqa: ANN401 - as run_seed
        """Run a seed with the defect."""
        with self.put_in():
            return run_seed(seed, self.parts(), **options)

    def first_caught(self, **options: Any) -> Outcome | None:  # noqa: ANN401 - as run_seed
        """Return the first run that shows it, of the stated number of seeds."""
        known = [KNOWN_SEEDS[self.code]] if self.code in KNOWN_SEEDS else []
        for seed in (*known, *range(self.seed_count)):
            with undisturbed():
                outcome = self.run(seed, **options)
            if outcome.violations:
                return outcome
        return None

    def is_caught(self) -> bool:
        """Return whether a run shows it, of the stated number of seeds."""
        return self.first_caught(is_cut_when_violated=True) is not None


class _NoCookieCheck(Parts):
    is_cookie_checked = False


class _AnyIdentity(Parts):
    def prepare(self, world: World) -> None:
        world.network.is_checking_identity = False


class _ShortIds(Parts):
    """Request ids begin anew with each connection, and late answers count."""

    def prepare(self, world: World) -> None:
        world.network.has_unique_ids = False


class _LongOutages(Parts):
    """The first bookie of each ledger is killed soon, and stays away; nothing else happens."""

    at_us = 60 * MS

    def prepare(self, world: World) -> None:
        world.faults.deeds = ()

    def writer_core(self, world: World, metadata: LedgerMetadata) -> WriterCore:
        for bookie_id in metadata.last_fragment.bookies[: self.lost_count(metadata)]:
            world.kernel.after(self.at_us, self._take_away, world, world.bookie(bookie_id))
        return super().writer_core(world, metadata)

    def lost_count(self, metadata: LedgerMetadata) -> int:
        """Return how many of a ledger's first bookies go."""
        del metadata
        return 1

    def _take_away(self, world: World, victim: SimulatedBookie) -> None:
        if victim.node.is_alive and not world.is_ending:
            victim.crash("killed for long")


class _LostQuorums(_LongOutages):
    """So many bookies of each ledger are killed that an ack quorum is not left."""

    at_us = 200 * MS

    def lost_count(self, metadata: LedgerMetadata) -> int:
        return metadata.write_quorum_size - metadata.ack_quorum_size + 1


class _CarelessWriters(Parts):
    def prepare(self, world: World) -> None:
        world.metadata.is_careful = False


def _defects() -> Iterator[Defect]:
    yield Defect(
        "M2", "recovery ignores where the last fragment starts", 1_500,
        [(RecoveryCore, "__init__", clients.recovery_without_floor)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "M3", "an entry that cannot be read is said not to be there", 2000,
        [(ReadActor, "_answer", wrong.unreadable_is_absent)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "M4", "a PD add is acknowledged before its fsync", 5,
        [(JournalActor, "handle", wrong.answers_before_the_fsync)],
    )  # fmt: skip
    yield Defect(
        "M5", "an ack is covered by an fsync that began before the write", 200,
        [(TimedSyncQueue, "_end", wrong.fsync_covers_later_writes)],
    )  # fmt: skip
    yield Defect(
        "M6", "a fence is answered before it is durable", 200,
        [(JournalActor, "handle", wrong.fence_is_answered_at_once)],
    )  # fmt: skip
    yield Defect(
        "M7", "the fence is not replayed", 50,
        [(Replayer, "apply_fence", wrong.fence_is_not_replayed)],
    )  # fmt: skip
    yield Defect(
        "M8", "the sync cursor jumps over holes", 100,
        [(SyncCursor, "add", wrong.cursor_over_holes)],
    )  # fmt: skip
    yield Defect(
        "M9", "what was replayed counts as durable without an fsync", 100,
        [(BookieStorage, "open", wrong.start_without_fsync)],
    )  # fmt: skip
    yield Defect(
        "M10", "the LAC is what the fastest bookie has synced", 50,
        [(SyncedLac, "__init__", clients.lac_of_the_fastest)],
    )  # fmt: skip
    yield Defect(
        "M12", "one negative is enough in recovery", 50,
        [(RecoveryReads, "_no_count_min", property(lambda _self: 1))],
    )  # fmt: skip
    yield Defect(
        "M13", "an unknown answer counts as a negative", 250,
        [(RecoveryReads, "failed", clients.unknown_is_negative)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "M14", "recovery writes back to one bookie", 50,
        [(RecoveryWrites, "_send", clients.writes_back_to_one)],
    )  # fmt: skip
    yield Defect(
        "M14b", "a recovery add of a VD ledger is answered before its fsync", 50,
        [(BookieLedger, "acknowledges_after", wrong.recovery_adds_as_others)],
    )  # fmt: skip
    yield Defect(
        "M15", "close at the last entry pushed", 100,
        [(WriterCore, "_close_ledger", clients.close_at_the_last_pushed)],
    )  # fmt: skip
    yield Defect(
        "M16",
        "sync() says what was pushed",
        20,
        [(SyncRounds, "_done", clients.sync_is_done_at_once)],
    )
    yield Defect(
        "M17", "an ensemble change starts at the last entry pushed", 50,
        [(EnsembleKeeper, "_change", clients.change_at_the_last_pushed)],
    )  # fmt: skip
    yield Defect(
        "M18", "an answer of a replaced bookie counts for the new one", 6_000,
        [(BookieAnswers, "add_answered", clients.any_epoch_counts)], is_fast=False,
    )  # fmt: skip
    yield Defect("M19", "metadata are written over without a version", 300, parts=_CarelessWriters)
    yield Defect(
        "M21", "a metadata change whose reply was lost counts as made", 200,
        [(LedgerStore, "update", clients.unanswered_is_won)],
    )  # fmt: skip
    yield Defect(
        "M22", "a failed fsync is tried again", 1_500,
        [(Journal, "_sync_file", wrong.fsync_again)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "M23", "replay ends silently at the first bad record", 2_000,
        [(JournalReplay, "_look_behind", wrong.never_looks_behind)], is_fast=False,
    )  # fmt: skip
    yield Defect("M25", "an empty disk is accepted", 50, parts=_NoCookieCheck)
    yield Defect(
        "M26", "a bookie answers for another one that was at its address", 400,
        parts=_AnyIdentity, is_fast=False,
    )  # fmt: skip
    yield Defect(
        "M32", "an explicit LAC is kept in memory only", 100,
        [
            (AddRequests, "_record_lac", wrong.lac_in_memory),
            (BookieLedger, "durable_lac", wrong.lac_told_at_once),
        ],
    )  # fmt: skip
    yield Defect(
        "M33", "an answer of an earlier connection resolves a newer request", 6_000,
        parts=_ShortIds, is_fast=False,
    )  # fmt: skip
    yield Defect(
        "M34", "names are not made durable", 100,
        [(SimulatedDisk, "sync_dir", lambda _self, _path: None)],
    )  # fmt: skip
    yield Defect(
        "M35", "a short write is ignored", 200, [(SimulatedFile, "pwrite", wrong.short_write)]
    )
    yield Defect(
        "L1", "a bookie denies what it may have lost", 1_000,
        [(Limbo, "is_miss_unknown", lambda *_: False)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "L2", "ledgers leave limbo without a look at any peer", 50,
        [(LedgerRecheck, "_check_ledger", repair.cleared_at_once)],
    )  # fmt: skip
    yield Defect(
        "L3", "a bookie that may have lost a fence takes adds", 3_000,
        [(Limbo, "may_lack_fence", lambda *_: False)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "L4", "a wiped bookie that stops uncleanly is checked for its page cache only", 1_000,
        [(Losses, "left", repair.left_by_reason)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "L5", "directories are not compared with what the cluster knows of the bookie", 200,
        [
            (BookieHistory, "check", lambda *_, **__: None),
            (BookieHistory, "claim", lambda *_: None),
        ],
    )  # fmt: skip
    yield Defect(
        "L6", "files that are gone are taken for files that never were", 200,
        [
            (losses, "look", repair.misses_nothing),
            (ledger_directory, "look", repair.misses_nothing),
        ],
    )  # fmt: skip
    yield Defect(
        "L7", "a ledger counts as whole while entry logs are gone", 600,
        [(Reindex, "_doubt_all", repair.doubts_nothing)],
    )  # fmt: skip
    yield from _volatile_defects()
    yield from _lent_turn_defects()
    yield from _collection_defects()
    yield from _repair_defects()
    yield from _copy_defects()
    yield from _directory_defects()
    yield from _bypass_defects()
    yield from _data_set_defects()
    yield from _shared_client_defects()
    yield Defect(
        "X1", "an add is taken behind a fence", 50,
        [(BookieLedger, "admit_add", wrong.admits_behind_a_fence)],
    )  # fmt: skip
    yield Defect(
        "X3", "an add is acknowledged by one bookie less", 20,
        [(AckTracker, "__init__", clients.one_ack_less)],
    )  # fmt: skip
    yield Defect(
        "X4", "the mark moves before entries are durable", 100,
        [(Checkpoint, "sync_entry_logs", wrong.entries_not_synced)],
    )  # fmt: skip
    yield from _log_defects()
    yield from _tail_defects()
    yield from _password_defects()
    yield Defect(
        "X8", "a bookie takes in a ledger that nobody has made", 20,
        [(NewLedgerGate, "slot", wrong.takes_in_any_ledger)],
    )  # fmt: skip


def _log_defects() -> Iterator[Defect]:
    yield Defect(
        "X7", "an owner of a log serves before its ledger is in the list", 100,
        [(LogOwner, "_write", clients.serves_before_the_list)],
    )  # fmt: skip
    yield Defect(
        "X9", "an owner of a VD log goes on in the next ledger without a sync", 3_000,
        [(SimulatedLogOwner, "is_volatile", property(lambda _self: False))], is_fast=False,
    )  # fmt: skip


def _tail_defects() -> Iterator[Defect]:
    yield Defect(
        "T1", "a tail ends as soon as it sees that its ledger is closed", 100,
        [(TailCore, "_proceed", clients.ends_when_closed)],
    )  # fmt: skip
    yield Defect(
        "T2", "a tail does not follow its ledger to other bookies, or to its end", 100,
        [(TailCore, "_on_metadata", lambda *_: [])],
    )  # fmt: skip
    yield Defect(
        "T3", "a tail takes the first entry of a new fragment for confirmed", 400,
        [(TailCore, "_learn", clients.confirms_the_first_of_a_fragment)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "T4", "a watch ends with a LAC that is not on stable storage", 400,
        [(WatchRequests, "_durable_lac", clients.tells_what_is_not_durable)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "T5", "the answer to a request of a session ends the watch beside the one it names", 400,
        [(LacSession, "answered", clients.ends_the_watch_beside)], is_fast=False,
    )  # fmt: skip


def _password_defects() -> Iterator[Defect]:
    yield Defect(
        "P1", "a bookie takes a fence whatever the key", 100,
        [(BookieLedger, "fence", wrong.fences_for_any_key)],
    )  # fmt: skip
    yield Defect(
        "P2", "a bookie fences before it looks at the key", 100,
        [(BookieLedger, "fence", wrong.fences_before_the_key)],
    )  # fmt: skip
    yield Defect(
        "P3", "a bookie takes any key", 100,
        [(BookieLedger, "check_key", lambda *_: None)],
    )  # fmt: skip


def _access_defects() -> Iterator[Defect]:
    yield Defect(
        "A1", "who may read a ledger may fence it", 40,
        [(access_gate, "LEDGER_NEEDS", access.FENCE_BY_READERS)],
    )  # fmt: skip
    yield Defect(
        "A2", "who may read a ledger may write entries back", 60,
        [(access_gate, "LEDGER_NEEDS", access.ADD_BY_READERS)],
    )  # fmt: skip
    yield Defect(
        "A3", "a bookie does not hear of a removed key", 400,
        [(AccessTable, "set_keys", access.ignores_keys)],
    )  # fmt: skip
    yield Defect(
        "A4", "grants that were taken away stay known", 400,
        [(AccessTable, "changed", access.forgets_no_access)],
    )  # fmt: skip
    yield Defect(
        "A5", "a look-up that a change of grants overtook is believed", 3_000,
        [(AccessTable, "is_answer_stale", lambda _self: False)],
    )  # fmt: skip
    yield Defect(
        "A6", "a request that waited for a look-up goes on without the right", 400,
        [(StorageActor, "_on_looked_up", access.admits_what_waited)],
    )  # fmt: skip
    yield Defect(
        "A7", "a connection that was admitted once needs no right any more", 400,
        [(AccessGate, "admits", access.admits_known_connections)],
    )  # fmt: skip


def _volatile_defects() -> Iterator[Defect]:
    yield Defect(
        "V1", "a close drops acknowledged entries that are not durable", 60,
        [(Closing, "accepts_loss", property(lambda _self: True))], parts=_LostQuorums,
    )  # fmt: skip
    yield Defect(
        "V2", "a new bookie of a VD ledger gets nothing before it joins", 300,
        [(CatchUp, "__init__", volatile.catches_up_with_nothing)],
    )  # fmt: skip
    yield Defect(
        "V3", "a VD writer keeps its bookies, whatever fails", 1_000,
        [(EnsembleKeeper, "_change", volatile.keeps_volatile_bookies)], parts=_LongOutages,
    )  # fmt: skip
    yield Defect(
        "V4", "a VD writer closes its ledger below what it sent", 150,
        [(Closing, "drops_nothing", lambda _self, path: path.lac >= path.last_acked_id)],
    )  # fmt: skip
    yield Defect(
        "V5", "the LAC of a VD ledger moves while its ensemble is being changed", 300,
        [(WritePath, "_advance", volatile.advances_while_held)],
    )  # fmt: skip
    yield Defect(
        "V7", "a sync from outside counts bookies that were replaced", 4_000,
        [
            (OutsideSync, "_look", volatile.ignores_the_metadata),
            (SimulatedOutsideSyncer, "_read_metadata", volatile.read_as_it_comes),
        ],
    )  # fmt: skip
    yield Defect(
        "V8", "a sync from outside does not record the LAC that it reports", 4_000,
        [(OutsideSync, "_look", volatile.records_nothing)],
    )  # fmt: skip
    yield Defect(
        "V9", "a VD fragment begins after what is acknowledged, not after the LAC", 300,
        [(EnsembleKeeper, "_change", volatile.changes_after_the_acknowledged)],
    )  # fmt: skip
    yield Defect(
        "V10", "what the bookie before has synced counts for its successor", 4_000,
        [(SyncedLac, "replaced", lambda *_: None)],
    )  # fmt: skip
    yield Defect(
        "V11", "a VD writer frees at the acknowledgement what is not durable", 4_000,
        [(WriteWindow, "acked_until", volatile.frees_at_acknowledgement)],
    )  # fmt: skip
    yield Defect(
        "V12", "a bookie that comes back is not sent the last batch", 4_000,
        [(WritePath, "resend", volatile.resends_all_but_the_last)],
    )  # fmt: skip
    yield Defect(
        "V13", "a sync cursor passes over a hole", 4_000,
        [(SyncCursor, "add", volatile.counts_over_holes)],
    )  # fmt: skip
    yield Defect(
        "V17", "the LAC of the fragment before is a floor in the next one", 4_000,
        [(SyncedLac, "replaced", volatile.keeps_the_lac_of_the_fragment_before)],
    )  # fmt: skip
    yield Defect(
        "V20", "what a failed bookie helped to acknowledge does not move to new ones", 300,
        [(MovedBatches, "needed", volatile.counts_what_the_failed_have)],
    )  # fmt: skip
    yield from _striped_defects()


def _striped_defects() -> Iterator[Defect]:
    yield Defect(
        "V14", "the LAC of a striped ledger follows from the wrong write sets", 400,
        [(SyncedLac, "_durable_until", volatile.takes_the_next_write_set)],
    )  # fmt: skip
    yield Defect(
        "V15", "the cursor of a slot in an earlier fragment is the floor of another slot", 4_000,
        [(BookieLedger, "follow", volatile.keeps_the_cursor_of_the_former_slot)],
    )  # fmt: skip
    yield Defect(
        "V16", "a hole of a stripe counts as synced", 4_000,
        [(StripedCursor, "add", volatile.counts_over_holes_of_a_stripe)],
    )  # fmt: skip
    yield Defect(
        "V19", "a bookie answers with the cursor of another slot", 4_000,
        [(BookieLedger, "last_add_synced_of", volatile.looks_at_no_slot)],
    )  # fmt: skip
    yield Defect(
        "V21", "what a replaced bookie lacks is reported for durable batches only", 60_000,
        [(WriteWindow, "replaced", volatile.misses_what_is_durable)], is_fast=False,
    )  # fmt: skip


def _lent_turn_defects() -> Iterator[Defect]:
    yield Defect(
        "J1", "a turn answers an add before the reads that came before it", 350,
        [(Turn, "end", wrong.answers_the_last_first)],
    )  # fmt: skip


def _collection_defects() -> Iterator[Defect]:
    yield Defect(
        "C1", "garbage collection believes the list", 200,
        [(GcQuestions, "ledgers", collection.believes_the_list)],
    )  # fmt: skip
    yield Defect(
        "C2", "which ledgers were deleted is known until the process ends", 1_500,
        [
            (DeletedLedgers, "write", collection.noted_in_memory),
            (new_ledger_gate, "check_claim", collection.takes_in_what_was_deleted),
        ],
        is_fast=False,
    )  # fmt: skip
    yield Defect(
        "C3", "a late add makes a deleted ledger anew", 100,
        [
            (BookieStorage, "is_deleted", lambda *_: False),
            (new_ledger_gate, "check_claim", collection.takes_in_what_was_deleted),
        ],
    )  # fmt: skip
    yield Defect(
        "C4", "compacted logs go before the index that points elsewhere is durable", 100,
        [(SteppedActor, "_ask_checkpoint", collection.waits_for_no_checkpoint)],
    )  # fmt: skip
    yield Defect(
        "C5", "the log that a compaction makes is not synced", 100,
        [(CompactionLog, "finish", collection.finishes_without_fsync)],
    )  # fmt: skip


def _repair_defects() -> Iterator[Defect]:
    yield Defect(
        "R1", "a worker changes the metadata before the target's fsync", 100,
        [
            (FragmentCopy, "_send_add", repair.counts_as_soon_as_sent),
            (FragmentCopy, "_on_added", repair.added_already),
            (ReadRequests, "ledger_info", repair.tells_before_the_fsync),
        ],
    )  # fmt: skip
    yield Defect(
        "R2", "a worker copies the first and the last entry only", 100,
        [
            (fragment_copy, "ids_in_pieces", repair.first_and_last_only),
            (CopyConfirmation, "absence", lambda _self: None),
        ],
    )  # fmt: skip
    yield Defect(
        "R4", "a worker fences a live writer at once", 1_500,
        [(LedgerRepair, "_look_after_open", repair.fences_without_grace)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "R5", "an auditor goes on in a session that is another one", 100,
        [
            (AuditorElection, "term", repair.leads_for_ever),
            (AuditorElection, "_end_term", lambda _self: None),
        ],
    )  # fmt: skip
    yield Defect(
        "R6", "an auditor has no brake", 100,
        [(LostBookies, "_hold", repair.holds_nothing)],
    )  # fmt: skip
    yield Defect(
        "R7", "a ledger that nobody can repair is tried for ever (B41)", 100,
        [(worker, "outcome_of", repair.never_final)],
    )  # fmt: skip
    yield Defect(
        "R8", "a worker changes the metadata before it copies", 100,
        [(LedgerRepair, "_copy", repair.copies_nothing)],
    )  # fmt: skip
    yield Defect(
        "R9", "a worker copies other bytes", 100,
        [(FragmentCopy, "_send_add", repair.copies_damage)],
    )  # fmt: skip
    yield Defect(
        "R10", "a repair waits for ever for a bookie in limbo whose peers are gone", 100,
        [(LedgerRepair, "_sound_spans", repair.waits_for_limbo)],
    )  # fmt: skip
    yield Defect(
        "R11", "a report that is no news makes failures count from the beginning", 60_000,
        [(UnderreplicatedLedger, "merged", repair.forgets_failures)], is_fast=False,
    )  # fmt: skip


def _copy_defects() -> Iterator[Defect]:
    yield Defect(
        "W1", "a bookie that comes up gets what is pending, and nothing that is acknowledged", 100,
        [(WritePath, "resend", copies.sends_what_is_pending)],
    )  # fmt: skip
    yield Defect(
        "W2", "a writer does not report what bookies lack", 100,
        [
            (WritePath, "missing_of_closed", copies.knows_of_nothing_missing),
            (WritePath, "missing_of_fragments", copies.knows_of_nothing_missing),
        ],
    )  # fmt: skip
    yield Defect(
        "W3", "a recovery has nothing compared", 200,
        [(RecoveryBody, "report_of", staticmethod(copies.has_nothing_compared))],
    )  # fmt: skip
    yield Defect(
        "W4", "what nobody can verify is copied though its bookie could see the damage", 20_000,
        [(StoredCopies, "sound_part", copies.vouches_for_all)], is_fast=False,
    )  # fmt: skip


def _directory_defects() -> Iterator[Defect]:
    yield Defect(
        "D1", "what one journal has synced counts for the others", 100,
        [(Turn, "take_synced", directories.one_sync_counts_for_all)],
    )  # fmt: skip
    yield Defect(
        "D2", "a checkpoint syncs the entry logs of the first ledger directory only", 200,
        [(Checkpoint, "sync_entry_logs", directories.first_directory_is_synced)],
    )  # fmt: skip
    yield Defect(
        "D3", "a deletion that one directory has noted is not carried out in the others", 60_000,
        [(LedgerDirectory, "finish_deletions", directories.drops_its_own)], is_fast=False,
    )  # fmt: skip


def _bypass_defects() -> Iterator[Defect]:
    yield Defect(
        "Y1", "a sync is answered without an fsync of the entry logs", 400,
        [(LogSyncActor, "handle", bypass.syncs_nothing)],
    )  # fmt: skip
    yield Defect(
        "Y2", "a start does not look for entries that only the entry logs have", 400,
        [(UnjournaledScan, "run", bypass.finds_nothing)],
    )  # fmt: skip
    yield Defect(
        "Y3", "a sync leaves out the entry logs that were sealed since the last one", 2_000,
        [(FileSync, "_sync", bypass.skips_rolled_logs)],
    )  # fmt: skip
    yield Defect(
        "Y4", "a sync is answered before the journal shows what it has synced", 2_000,
        [(Turn, "logs_synced", bypass.answers_before_the_journal)],
    )  # fmt: skip
    yield Defect(
        "Y5", "entries that came during an fsync of their log count as synced", 400,
        [(LogSyncs, "ended", bypass.counts_what_came_later)],
    )  # fmt: skip
    yield Defect(
        "Y6", "a sync of a ledger with its own entry log leaves that log out", 400,
        [(EntryLogs, "begin_sync", bypass.leaves_own_logs_out)],
    )  # fmt: skip
    yield Defect(
        "Y7", "the name of a new entry log is not synced", 400,
        [(OpenLog, "create", bypass.makes_no_durable_name)],
    )  # fmt: skip
    yield Defect(
        "Y8", "a lost log leaves ledgers out of limbo of which only it had entries", 60_000,
        [(LedgerDirectory, "unjournaled_ledgers", bypass.doubts_none)], is_fast=False,
    )  # fmt: skip
    yield Defect(
        "Y9", "a start counts bytes of entry logs as kept that only the page cache has", 60_000,
        [(LedgerDirectory, "_log_sizes", bypass.syncs_without_writing)], is_fast=False,
    )  # fmt: skip


def _data_set_defects() -> Iterator[Defect]:
    yield Defect(
        "S1", "an overwrite commits on whatever is the last version", 400,
        [(DataSet, "_check_may_follow", data_sets.follows_whatever_is_last)],
    )  # fmt: skip


def _shared_client_defects() -> Iterator[Defect]:
    yield Defect(
        "N1", "an answer in a message with others is taken for that of its neighbor", 800,
        [(bundles, "answer_messages", shared.takes_the_id_of_the_next)],
    )  # fmt: skip
    yield Defect(
        "N2", "a request that does not fit into a message is dropped", 100,
        [(bundles, "_groups", shared.drops_what_does_not_fit)],
    )  # fmt: skip
    yield Defect(
        "N3", "a bug in one writer ends all writers of the client", 100,
        [(WriterActor, "_fail", shared.ends_all)],
    )  # fmt: skip
    yield Defect(
        "N4", "a deadline that has moved is lost", 800,
        [(Deadlines, "take_due", shared.forgets_what_has_moved)],
    )  # fmt: skip
    yield Defect(
        "N5", "the connections' thread takes a turn beside that of the actor", 400,
        [
            (TurnQueue, "try_begin", shared.is_always_free),
            (TurnQueue, "end", shared.ends_if_taken),
        ],
    )  # fmt: skip


DEFECTS: Final[dict[str, Defect]] = {
    defect.code: defect for defect in (*_defects(), *_access_defects())
}
"""All of them, by code."""
