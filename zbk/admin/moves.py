"""Operations that move a bookie's entries to others, as jobs, and the jobs of this process."""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.jobs import Job, JobProgress, shown_job
from zbk.admin.operation import Arguments
from zbk.errors import BookieInUseError, InvalidOptionError

if TYPE_CHECKING:
    from zbk.auditor.manual import BookieMove, Decommission, LedgerMoved, MoveOptions

GRACE_MS: Final = 30_000
"""Time that a writer has to replace the bookie before its ledger is fenced."""


class _End(msgspec.Struct, frozen=True):
    """The end of a decommissioning, after all entries that have another replica are copied."""

    delete_cookie: bool = True
    give_up_count: int | None = None
    """Entries that may be lost for good: exactly so many. ``None``: any loss is a failure."""


def recover_bookies(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Begin to copy the entries of bookies to others; return the jobs."""
    targets = given["bookie_dest"]
    if len(targets) > 1:
        raise InvalidOptionError("bookie_dest", ",".join(targets), "name one bookie, or none")
    to = targets[0] if targets else ""
    if given["delete_cookie"] and (to or given["ledger_id"] is not None):
        reason = "needs all ledgers of the bookie, and placement chooses where their copies go"
        raise InvalidOptionError("delete_cookie", "true", reason)
    options = _options(given, to, given["ledger_id"])
    for bookie_id in given["bookie_src"]:  # an error in one begins none
        _move(cluster, bookie_id, options).check()
    begin = _begin_decommission if given["delete_cookie"] else _begin_recover
    return {"jobs": [shown_job(begin(cluster, one, options)) for one in given["bookie_src"]]}


def decommission_bookie(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Begin to remove a stopped bookie from service; return the job."""
    options = _options(given, "", None)
    bookie_id = given["bookie_src"]
    _move(cluster, bookie_id, options).check()
    end = _End(delete_cookie=given["delete_cookie"], give_up_count=given["give_up_count"])
    if end.give_up_count is not None and not end.delete_cookie:
        reason = "is for a bookie that leaves for good: delete its cookie"
        raise InvalidOptionError("give_up_count", end.give_up_count, reason)
    return shown_job(_begin_decommission(cluster, bookie_id, options, end))


def list_jobs(cluster: Cluster, _given: Arguments) -> list[dict[str, Any]]:
    """Return the jobs of this process, the oldest first."""
    return [shown_job(one) for one in cluster.jobs.list()]


def stop_job(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Stop a job; return it."""
    return shown_job(cluster.jobs.stop(given["job_id"]))


# ------------------------------------------------------------------ private


def _options(given: Arguments, to: str, ledger_id: int | None) -> "MoveOptions":
    from zbk.auditor.manual import MoveOptions  # noqa: PLC0415 - seldom used
    from zbk.protocol.repair.repair_effects import RepairLimits  # noqa: PLC0415

    return MoveOptions(
        to=to,
        ledger_id=ledger_id,
        password=given["password"] or None,
        limits=RepairLimits(grace_ms=given["grace_ms"]),
    )


def _begin_recover(cluster: Cluster, bookie_id: str, options: "MoveOptions") -> Job:
    def work(progress: JobProgress, is_stopped: threading.Event) -> bool:
        move = _move(cluster, bookie_id, options, progress, is_stopped)
        move.check()
        _note(progress, move.run())
        if is_stopped.is_set():
            return False
        _check_all_moved(progress, bookie_id)
        return True

    return cluster.jobs.begin(f"recover {bookie_id}", _compared(options), work)


def _begin_decommission(
    cluster: Cluster, bookie_id: str, options: "MoveOptions", end: _End | None = None
) -> Job:
    from zbk.auditor.manual import Decommission  # noqa: PLC0415 - seldom used

    end = end or _End()

    def work(progress: JobProgress, is_stopped: threading.Event) -> bool:
        move = _move(cluster, bookie_id, options, progress, is_stopped)
        leaving = Decommission(move, cluster.connection, bookie_id)
        _note(progress, leaving.run())
        if is_stopped.is_set():
            return False
        if not end.delete_cookie:
            _check_all_moved(progress, bookie_id)
            return True
        if end.give_up_count is not None:
            try:
                _give_up(progress, leaving, bookie_id, end.give_up_count)
            except BookieInUseError:
                if is_stopped.is_set():
                    return False
                raise
        leaving.finish()
        return True

    compared = _compared(options) | msgspec.structs.asdict(end)
    return cluster.jobs.begin(f"decommission {bookie_id}", compared, work)


def _give_up(
    progress: JobProgress, leaving: "Decommission", bookie_id: str, give_up_count: int
) -> None:
    """Give up the entries that no other bookie can provide, if their number is the given one."""
    losses = leaving.losses()
    lost = [(one.ledger_id, entries) for one in losses for entries in one.lost]
    for ledger_id, entries in lost:
        progress.note_left({"ledger_id": ledger_id, "outcome": "lost", "why": str(entries)})
    lost_count = sum(entries.count for _ledger_id, entries in lost)
    if lost_count != give_up_count:
        reason = f"{lost_count} entries would be lost for good, listed in left; give_up_count"
        raise BookieInUseError(bookie_id, f"{reason}={lost_count} gives them up")
    leaving.give_up(losses)


def _move(
    cluster: Cluster,
    bookie_id: str,
    options: "MoveOptions",
    progress: JobProgress | None = None,
    is_stopped: threading.Event | None = None,
) -> "BookieMove":
    from zbk.auditor.ledger_repairer import RepairWatcher  # noqa: PLC0415 - seldom used
    from zbk.auditor.manual import BookieMove  # noqa: PLC0415

    class _Watcher(RepairWatcher):
        def copied(self, entry_count: int, size: int) -> None:
            if progress is not None:
                progress.entry_count += entry_count
                progress.size += size

    return BookieMove(
        cluster.connection, bookie_id, options, watcher=_Watcher(), is_stopped=is_stopped
    )


def _note(progress: JobProgress, moved: "Iterator[LedgerMoved]") -> None:
    for one in moved:
        if one.outcome in ("moved", "deleted"):
            progress.ledger_count += 1
            continue
        left = {"ledger_id": one.ledger_id, "outcome": one.outcome, "why": one.why}
        progress.note_left(left)


def _check_all_moved(progress: JobProgress, bookie_id: str) -> None:
    if progress.left_count:
        reason = f"{progress.left_count} ledgers could not be moved; see left"
        raise BookieInUseError(bookie_id, reason)


def _compared(options: "MoveOptions") -> dict[str, Any]:
    """Return the options that a second request must have, too; never the password."""
    return {
        "to": options.to,
        "ledger_id": options.ledger_id,
        "grace_ms": options.limits.grace_ms,
        "has_password": options.password is not None,
    }
