"""The rule for a copy that may go to one bookie only: the worker's own, or the one that is named.

Pure. The choice among all bookies is ``zbk.protocol.ledger.placement``.

Source: the autorecovery page, The Rereplication process; BookKeeper's ``ReplicationWorker``.
"""

from collections.abc import Callable

from zbk.protocol.repair.repair_effects import ChooseTarget, TargetChosen


def only_target(
    wanted: ChooseTarget, bookie_id: str, is_writable: Callable[[str], bool], *, is_local: bool
) -> TargetChosen:
    """Return the one bookie, if it can take the slot.

    ``is_local``: a slot that it cannot take is left to other workers.
    """
    is_taken = bookie_id in wanted.ensemble or bookie_id in wanted.exclude
    if is_taken or not is_writable(bookie_id):
        return TargetChosen(None, is_skipped=is_local)
    return TargetChosen(bookie_id)
