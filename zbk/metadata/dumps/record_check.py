"""The check of all records of a cluster: each by itself, and what it refers to.

    record                              refers to
    cookie                              the instance of the cluster
    ledger                              the path of its id, the counter of ids, bookies with cookies
    log, data set                       its head; a log: ledgers that exist
    task of a repair                    the path of its ledger, which may have been deleted

The records are read one after another. In a store that changes meanwhile, a reference may lead to
a record that was not there yet or is there no more; the caller checks twice.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from zbk.errors import ZbkError
from zbk.metadata import paths
from zbk.metadata.dumps.dump_file import DumpedNode
from zbk.metadata.values import (
    AuditCounter,
    AuditorStatus,
    DataSetHead,
    IdCounter,
    Instance,
    LastCheck,
    Layout,
    LogHead,
    LostBookieDelay,
    Namespaces,
    NamespaceUsage,
    Principals,
    StoredCookie,
    decode,
)
from zbk.protocol.dataset.dataset import DataSet, Load
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.repair.underreplicated import UnderreplicatedLedger
from zbk.security.access_table import AccessChanges

_FIXED: Final[dict[str, type[msgspec.Struct]]] = {
    paths.LAYOUT: Layout,
    paths.INSTANCEID: Instance,
    paths.IDGEN: IdCounter,
    paths.PRINCIPALS: Principals,
    paths.NAMESPACES: Namespaces,
    paths.ACCESS_CHANGES: AccessChanges,
    paths.AUDIT_TRIGGER: AuditCounter,
    paths.TASK_COUNTER: AuditCounter,
    paths.LOST_BOOKIE_DELAY: LostBookieDelay,
    paths.AUDITOR_STATUS: AuditorStatus,
}
_BY_DEPTH: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {
    paths.NAMESPACES: (NamespaceUsage,),
    paths.COOKIES: (StoredCookie,),
    paths.LOGS: (LogHead, LogMetadata),
    paths.DATA_SETS: (DataSetHead, DataSet, Load),
    paths.LAST_CHECKS: (LastCheck,),
}
_TASK_FOLDERS: Final = (paths.UNDERREPLICATED_LEDGERS, paths.UNREPAIRABLE_LEDGERS)
_EMPTY: Final = frozenset(
    {
        paths.AVAILABLE, paths.READONLY, paths.LEDGERS, paths.UNDERREPLICATION,
        paths.AUDITOR_ELECTION, paths.UNDERREPLICATION_LOCKS, paths.UNDERREPLICATION_DISABLED,
        *_BY_DEPTH, *_TASK_FOLDERS,
    }
)  # fmt: skip


class Problem(msgspec.Struct, frozen=True, order=True):
    """A record that is damaged, or refers to a record that is not there."""

    path: str
    problem: str


def check_records(nodes: Iterable[DumpedNode]) -> list[Problem]:
    """Return the problems of a tree, by path."""
    check = _Check()
    for node in nodes:
        try:
            check.add(node)
        except ZbkError as error:
            check.problems.append(Problem(node.path, str(error)))
    check.follow()
    return sorted(check.problems)


class _Check:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._paths: set[str] = set()
        self._fixed: dict[str, Any] = {}
        self._ledgers: dict[int, str] = {}  # path by id
        self._bookies: set[str] = set()
        self._later: list[tuple[str, Callable[[], str]]] = []

    def add(self, node: DumpedNode) -> None:
        """Check a record by itself, and note what it refers to.

        Raises:
            ZbkError: it is damaged, or no record can be there.
        """
        path = node.path
        self._paths.add(path)
        name = path.rpartition("/")[2]
        if path in _FIXED:
            self._fixed[path] = decode(_FIXED[path], node.value, path)
        elif path in _EMPTY:
            return
        elif path.startswith(f"{paths.LEDGERS}/"):
            if paths.is_ledger_name(name):
                self._add_ledger(decode(LedgerMetadata, node.value, path), path)
        elif folder := next((one for one in _TASK_FOLDERS if path.startswith(f"{one}/")), ""):
            if paths.is_ledger_name(name):
                self._add_task(decode(UnderreplicatedLedger, node.value, path), folder, path)
        else:
            self._add_named(node, name)

    def follow(self) -> None:
        """Follow the references."""
        missing = [one for one in (paths.LAYOUT, paths.INSTANCEID, paths.IDGEN)
                   if one not in self._paths]  # fmt: skip
        self.problems += [Problem(one, "is missing") for one in missing]
        for path, find in self._later:
            if problem := find():
                self.problems.append(Problem(path, problem))

    # ------------------------------------------------------------------ inside

    def _add_ledger(self, found: LedgerMetadata, path: str) -> None:
        self._ledgers[found.ledger_id] = path

        def find() -> str:
            layout = self._fixed.get(paths.LAYOUT)
            counter = self._fixed.get(paths.IDGEN)
            if layout and paths.ledger_path(found.ledger_id, layout.ledger_layout) != path:
                return f"is the record of ledger {found.ledger_id}, which belongs elsewhere"
            if counter and found.ledger_id >= counter.next_ledger_id:
                return f"the counter gives this id away again: it is {counter.next_ledger_id}"
            named = {bookie for fragment in found.fragments for bookie in fragment.bookies}
            if unknown := sorted(named - self._bookies):
                return f"names bookies that have no cookie: {', '.join(unknown)}"
            return ""

        self._later.append((path, find))

    def _add_task(self, found: UnderreplicatedLedger, folder: str, path: str) -> None:
        if paths.task_ledger_id(folder, path) != found.ledger_id:
            self.problems.append(Problem(path, f"is the task of ledger {found.ledger_id}"))

    def _add_named(self, node: DumpedNode, name: str) -> None:
        path = node.path
        top = next((one for one in _BY_DEPTH if path.startswith(f"{one}/")), "")
        depth = path.removeprefix(top).count("/") - 1
        if not top or depth >= len(_BY_DEPTH[top]):
            self.problems.append(Problem(path, "no record of zbk is there"))
            return
        match decode(_BY_DEPTH[top][depth], node.value, path):
            case StoredCookie() as cookie:
                self._bookies.add(name)
                self._later.append((path, lambda: self._wrong_instance(cookie)))
            case LogHead(log_id=own_id) | DataSetHead(data_set_id=own_id):
                self._later.append((path, lambda: self._absent(f"{path}/{own_id}")))
            case LogMetadata() as log:
                self._later.append((path, lambda: self._absent_ledgers(log.ledger_ids)))
            case _:
                pass

    def _wrong_instance(self, cookie: StoredCookie) -> str:
        own = self._fixed.get(paths.INSTANCEID)
        if own and cookie.instance_id != own.instance_id:
            return f"belongs to cluster {cookie.instance_id}"
        return ""

    def _absent(self, path: str) -> str:
        return "" if path in self._paths else f"refers to {path}, which does not exist"

    def _absent_ledgers(self, ledger_ids: Iterable[int]) -> str:
        absent = [str(one) for one in ledger_ids if one not in self._ledgers]
        return f"names ledgers that do not exist: {', '.join(absent[:10])}" if absent else ""
