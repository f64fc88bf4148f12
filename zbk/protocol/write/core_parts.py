"""The parts of a writer's core, made for one ledger."""

from collections.abc import Sequence

import msgspec

from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.batch_encoder import BatchEncoder
from zbk.protocol.write.bookie_answers import BookieAnswers
from zbk.protocol.write.durable_waits import DurableWaits
from zbk.protocol.write.ensemble_keeper import EnsembleKeeper
from zbk.protocol.write.explicit_lac import ExplicitLac
from zbk.protocol.write.idle import Idle
from zbk.protocol.write.lac_policy import WriterLevel
from zbk.protocol.write.limits import WriterLimits
from zbk.protocol.write.slots import WriterSlots
from zbk.protocol.write.sync_answers import SyncAnswers
from zbk.protocol.write.sync_policy import SyncEvery, SyncPolicy
from zbk.protocol.write.sync_rounds import SyncRounds
from zbk.protocol.write.unsynced_limit import UnsyncedLimit
from zbk.protocol.write.unsynced_total import UnsyncedPart, UnsyncedTotal
from zbk.protocol.write.write_path import WritePath


class VolatileTerms(msgspec.Struct, frozen=True):
    """What a caller says of entries that are acknowledged and not durable yet."""

    unsynced_part: UnsyncedPart | None = None  # where they count; ``None``: no shared limit
    sync_every: SyncEvery | None = None


class CoreParts(msgspec.Struct, frozen=True):
    """The parts of one writer. They share its slots, its path and its rounds of syncs."""

    slots: WriterSlots
    path: WritePath
    syncs: SyncRounds
    explicit_lac: ExplicitLac
    idle: Idle
    keeper: EnsembleKeeper
    answers: BookieAnswers
    unsynced: UnsyncedLimit
    sync_answers: SyncAnswers


def parts_of_writer(
    quorum: Quorum,
    level: WriterLevel,
    ensemble: Sequence[str],
    encoder: BatchEncoder,
    limits: WriterLimits,
    volatile: VolatileTerms,
) -> CoreParts:
    """Return the parts of a writer of an empty ledger."""
    ledger_id, ack_size, grace_ms = encoder.ledger_id, quorum.ack_size, limits.quorum_grace_ms
    slots = WriterSlots(ensemble)
    part = volatile.unsynced_part or UnsyncedTotal(limits.unsynced_size_max).parts[0]
    path = WritePath(
        quorum,
        level.new_lac_policy(quorum),
        encoder,
        limits,
        slots,
        part if level.restart_revokes_acks else None,
    )
    syncs = SyncRounds(ledger_id, quorum, grace_ms=grace_ms, count_max=limits.sync_count_max)
    explicit_lac = ExplicitLac(quorum, limits, slots.epochs)
    has_idle_sync = level.has_sync_cursor and bool(limits.explicit_lac_ms)
    every = volatile.sync_every
    policy = None if every is None else SyncPolicy(every, path)
    unsynced = UnsyncedLimit(ledger_id, path, slots, syncs, limits, policy)
    has_catch_up = level.restart_revokes_acks
    keeper = EnsembleKeeper(slots, path, limits, ack_size=ack_size, has_catch_up=has_catch_up)
    return CoreParts(
        slots=slots,
        path=path,
        syncs=syncs,
        explicit_lac=explicit_lac,
        idle=Idle(path, slots, syncs, explicit_lac, has_sync=has_idle_sync),
        keeper=keeper,
        answers=BookieAnswers(slots, path, syncs, explicit_lac, keeper, unsynced),
        unsynced=unsynced,
        sync_answers=SyncAnswers(
            path, slots, syncs, explicit_lac, DurableWaits(ledger_id, limits.durable_count_max)
        ),
    )
