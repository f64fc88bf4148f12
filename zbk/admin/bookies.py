"""Operations on bookies. Without ``bookie_id`` they are about the bookie of this process."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.operation import Arguments
from zbk.config.http_address import host_of
from zbk.errors import BookieReadOnlyError, InvalidOptionError, UnavailableError, ZbkError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.election import read_auditor
from zbk.system.event_log import EventLog
from zbk.wire.messages import CollectGarbage, GarbageStatus

if TYPE_CHECKING:
    from collections.abc import Collection

    from zbk.client.operations.garbage_collection import CompactionName, KindName
    from zbk.wire.messages import BookieInfo

TEST_TIMEOUT_S: Final = 5.0

LOG = EventLog("zbk.admin")


def list_bookies(cluster: Cluster, given: Arguments) -> dict[str, str | None]:
    """Return the bookies that accept entries, or those that are read-only."""
    is_readonly = given["type"] == "ro"
    return {
        one.bookie_id: host_of(one.address) if given["print_hostnames"] else None
        for one in cluster.client.list_bookies()
        if one.is_readonly == is_readonly
    }


def list_bookie_info(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Return the space of each bookie that answers; null for one that does not."""
    found: dict[str, Any] = {}
    for one in cluster.client.list_bookies():
        try:
            found[one.bookie_id] = _space(cluster.client.bookie_info(one.bookie_id))
        except UnavailableError:
            found[one.bookie_id] = None
    return found


def cluster_info(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Return the number of bookies by state, the auditor, and whether ledgers lack copies."""
    registry, tasks = cluster.connection.registry, cluster.connection.tasks
    vote = read_auditor(cluster.store)
    writable, readonly = registry.available().keys(), registry.readonly().keys()
    everyone = registry.cookies().keys() | writable | readonly
    return {
        "auditorElected": vote is not None,
        "auditorId": "" if vote is None else vote.candidate_id,
        "clusterUnderReplicated": next(iter(tasks.list()), None) is not None,
        "ledgerReplicationEnabled": tasks.is_enabled(),
        "totalBookiesCount": len(everyone),
        "writableBookiesCount": len(writable),
        "readonlyBookiesCount": len(readonly - writable),
        "unavailableBookiesCount": len(everyone - writable - readonly),
    }


def list_registrations(cluster: Cluster, _given: Arguments) -> list[dict[str, Any]]:
    """Return the registrations of the running bookies."""
    shown: list[dict[str, Any]] = msgspec.to_builtins(cluster.client.list_bookies())
    return shown


def list_cookies(cluster: Cluster, _given: Arguments) -> list[dict[str, Any]]:
    """Return the cookies of all bookies that belong to the cluster, running or not."""
    cookies = cluster.connection.registry.cookies()
    return [msgspec.to_builtins(cookies[bookie_id]) for bookie_id in sorted(cookies)]


def delete_cookie(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Remove a stopped bookie from the cluster for good, without copying its entries."""
    from zbk.actors.identity.cookies import delete  # noqa: PLC0415 - loads a bookie

    delete(cluster.store, given["bookie_id"])
    return {"bookie_id": given["bookie_id"]}


def bookie_info(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return what a bookie reports about itself, and the space of its ledger directory."""
    info = _info(cluster, given)
    shown = msgspec.structs.asdict(info)
    del shown["request_id"]
    return _space(info) | shown


def bookie_state(cluster: Cluster, given: Arguments) -> dict[str, bool]:
    """Return the state of a bookie."""
    info = _info(cluster, given)
    return {
        "running": True,
        "readOnly": info.is_readonly,
        "shuttingDown": False,
        "availableForHighPriorityWrites": not info.is_readonly or info.has_reserve,
    }


def readonly_switch(cluster: Cluster, given: Arguments) -> dict[str, bool]:
    """Return whether a bookie is read-only, and whether an operator switched it so."""
    bookie_id = _bookie_id(cluster, given)
    switched = BookieRegistry(cluster.store).is_switched_readonly(bookie_id)
    return {"readOnly": cluster.client.bookie_info(bookie_id).is_readonly, "switched": switched}


def switch_readonly(cluster: Cluster, given: Arguments) -> dict[str, bool]:
    """Switch a bookie to read-only, or back."""
    registry = BookieRegistry(cluster.store)
    bookie_id = _bookie_id(cluster, given)
    registry.switch_readonly(bookie_id, is_readonly=given["readOnly"])
    return {"switched": registry.is_switched_readonly(bookie_id)}


def bookie_is_ready(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return whether a bookie answers; 503 if it does not."""
    return {"bookie_id": _info(cluster, given).bookie_id}


def last_log_mark(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return the position up to which a bookie's journal is no longer needed."""
    info = _info(cluster, given)
    return {"LastLogMark": info.last_log_mark, "JournalPosition": info.journal_position}


def gc_details(cluster: Cluster, given: Arguments) -> dict[str, int]:
    """Return what garbage collection has done since the bookie started."""
    shown = msgspec.structs.asdict(_info(cluster, given))
    names = ("gc_", "entry_log_", "dead_", "compact", "minor_win", "major_win")
    return {name: value for name, value in shown.items() if name.startswith(names)}


def gc_running(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return whether a round of garbage collection is under way, as the text "true" or "false"."""
    look = CollectGarbage(request_id=0, is_round_wanted=False)
    requests = cluster.connection.requests
    found = requests.call(_bookie_id(cluster, given), look, GarbageStatus)
    # the awaited round is the one after the last that began
    is_running = found.ended_round < found.awaited_round - 1
    return {"is_in_force_gc": "true" if is_running else "false"}


def collect_garbage(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Make a bookie drop deleted ledgers, and return what it did."""
    bookie_id = _bookie_id(cluster, given)
    compaction: CompactionName = given["compaction"]
    if not compaction:
        compaction = "major" if given["forceMajor"] else "minor" if given["forceMinor"] else ""
    done = cluster.client.collect_garbage(bookie_id, compaction=compaction, timeout=60.0)
    return _without_id(msgspec.structs.asdict(done))


def test_bookie(cluster: Cluster, given: Arguments) -> dict[str, bool]:
    """Write entries to a bookie, read and delete them; return whether that passed."""
    bookie_id = _bookie_id(cluster, given)
    try:
        cluster.client.test_bookie(bookie_id, timeout=TEST_TIMEOUT_S)
    except BookieReadOnlyError:
        return {"passed": False, "readOnly": True}
    except ZbkError as error:
        LOG.warning(
            "admin.self_test_failed",
            "the self-test of bookie %(bookie_id)s failed: %(error)s",
            bookie_id=bookie_id,
            error=error,
        )
        return {"passed": False, "readOnly": False}
    return {"passed": True, "readOnly": False}


def suspended_compaction(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return which kinds of compaction a bookie has suspended, as texts "true" or "false"."""
    return _suspended(cluster.client.switch_compaction(_bookie_id(cluster, given)))


def suspend_compaction(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Suspend kinds of compaction at a bookie until they are resumed, or it restarts."""
    kinds = _kinds(given["suspendMajor"], given["suspendMinor"], "suspendMajor")
    return _suspended(cluster.client.switch_compaction(_bookie_id(cluster, given), suspend=kinds))


def resume_compaction(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Resume kinds of compaction at a bookie."""
    kinds = _kinds(given["resumeMajor"], given["resumeMinor"], "resumeMajor")
    return _suspended(cluster.client.switch_compaction(_bookie_id(cluster, given), resume=kinds))


def scrub_status(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the progress of a bookie's scrubber."""
    found = cluster.client.scrub(_bookie_id(cluster, given), is_pass_wanted=False)
    return _without_id(msgspec.structs.asdict(found))


def scrub_bookie(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Make a bookie begin to read all its files for damage."""
    return _without_id(msgspec.structs.asdict(cluster.client.scrub(_bookie_id(cluster, given))))


def _kinds(is_major: bool | None, is_minor: bool | None, name: str) -> "list[KindName]":
    """Return the kinds that a request names; one of the two parameters is required."""
    if is_major is None and is_minor is None:
        raise InvalidOptionError(name, "", "give it, or the one for minor compaction")
    kinds: list[KindName] = ["major"] if is_major else []
    return [*kinds, "minor"] if is_minor else kinds


def _suspended(kinds: "Collection[str]") -> dict[str, str]:
    return {
        f"is{kind.title()}GcSuspended": str(kind in kinds).lower() for kind in ("major", "minor")
    }


def _space(info: "BookieInfo") -> dict[str, int | None]:
    return {"freeSpace": info.free_size, "totalSpace": info.total_size or None}


def _info(cluster: Cluster, given: Arguments) -> "BookieInfo":
    return cluster.client.bookie_info(_bookie_id(cluster, given))


def _bookie_id(cluster: Cluster, given: Arguments) -> str:
    found: str = given["bookie_id"] or cluster.bookie_id
    if not found:
        raise InvalidOptionError(
            "bookie_id", "", "is required in a process without a bookie, or before it has started"
        )
    return found


def _without_id(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name != "request_id"}
