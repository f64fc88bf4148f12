"""The last checkpoint of a bookie that stops in good order: the next start has nothing to replay.

The thread that stops the bookie runs it, after the last actor. It only saves time: on a full or
slow disk it is left out, and the next start replays.
"""

from collections.abc import Callable
from typing import Final

from zbk.errors import NoSpaceError
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.checkpoint import Checkpoint
from zbk.system.clock import monotonic_ms

TIMEOUT_MS: Final = 10_000
"""No step begins after this time. An end between any two steps is as safe as a crash there."""


def take_last_checkpoint(storage: BookieStorage, now_ms: Callable[[], int] = monotonic_ms) -> bool:
    """End the checkpoint under way, if any, and run one of everything; return whether it ended.

    Raises:
        StorageFailedError: writing failed, or anything failed before.
    """
    until_ms = now_ms() + TIMEOUT_MS
    try:
        under_way = storage.open_checkpoint
        if under_way is not None and not _run(storage, under_way, until_ms, now_ms):
            return False
        return _run(storage, storage.begin_checkpoint(), until_ms, now_ms)
    except NoSpaceError:
        return False


def _run(
    storage: BookieStorage, checkpoint: Checkpoint, until_ms: int, now_ms: Callable[[], int]
) -> bool:
    """Run all steps, of which some may be done already; return whether they ended in time."""
    for step in checkpoint.steps:
        if now_ms() >= until_ms:
            return False
        step()
    storage.end_checkpoint(checkpoint)
    return True
