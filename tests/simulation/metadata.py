"""The metadata store of a run: ZooKeeper's tree, clients with sessions, and what goes wrong.

The tree is the real one of ``tests.support.memory_store``; what is asked of it are the real
``LedgerStore`` and whatever else takes a ``MetadataStore``. A client's whole operation, all its
reads and writes, happens at one moment of simulated time; so that others come between a read and
a write all the same, an operation of somebody else that waits may be run right there (*overtake*),
and a read may be stale, as a read from a ZooKeeper follower is. Replies, and whole requests, get
lost.

How stale: changes have numbers, as ZooKeeper's zxids, and a session's view only moves forward over
all nodes. A session that was told that a bookie is gone reads no ledger as it was before that.

Every version of every ledger goes into the history.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from tests.simulation.faults import Faults
from tests.simulation.kernel import Kernel, Node
from tests.support.history import History
from tests.support.memory_tree import Tree
from zbk.errors import MetadataUnavailableError, NoNodeError, ZbkError
from zbk.metadata.paths import DATA_SETS, LEDGERS, LOGS, is_ledger_name
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.ledger_closing import LedgerCloser
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.store import Create, Delete, Operation, SessionState, SetValue, Watch
from zbk.metadata.stores.store import Node as TreeNode
from zbk.metadata.values import decode
from zbk.protocol.dataset.dataset import DataSet
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.log.metadata import LogMetadata

OVERTAKE_DEPTH_MAX: Final = 2


Done: TypeAlias = Callable[..., None]
"""Who hears what came of an operation: its result, or the error."""


class MetadataServer:
    """The tree, and the faults between it and its clients."""

    def __init__(self, kernel: Kernel, faults: Faults, history: History) -> None:
        self.kernel = kernel
        self.faults = faults
        self.history = history
        history.metadata.is_complete = True
        self.tree = Tree("simulated")
        self.is_down = False
        self.is_careful = True  # false: a writer's defect may skip the version
        self.change_number = 0  # of the last change
        self._versions: dict[str, tuple[tuple[int, TreeNode], ...]] = {}  # since which change
        self._waiting: deque[tuple[Node, int, Callable[[], None]]] = deque()
        self._depth = 0
        self.current: dict[int, LedgerMetadata] = {}
        self.ever: set[int] = set()  # ids of ledgers that are, or were
        self.sessions: list[Session] = []  # that may expire
        self._paths: dict[int, str] = {}
        self.watchers: list[Callable[[LedgerMetadata], None]] = []
        self.data_set_watchers: list[Callable[[DataSet], None]] = []
        self.tree.begin_session(self)
        initialise(Session(self, "setup"))

    # ------------------------------------------------------------------ operations

    def submit(self, node: Node, operation: Callable[[], Any], done: Done) -> None:
        """Run a client's operation some time from now, and tell it what came of it later still."""
        tape, slow_us = self.kernel.tape, self.faults.metadata_slow_us_max
        there_us = 200 + tape.draw(8) * slow_us // 8
        life = node.life
        is_run = False

        def run() -> None:
            nonlocal is_run
            if is_run:
                return
            is_run = True
            outcome: Any
            try:
                outcome = operation()
            except ZbkError as error:
                outcome = error
            if node.life == life:  # else nobody waits any more
                node.after(200 + tape.draw(8) * slow_us // 8, done, outcome)

        entry = (node, life, run)
        self._waiting.append(entry)

        def begin() -> None:
            if entry in self._waiting:
                self._waiting.remove(entry)
            run()

        self.kernel.after(there_us, begin)

    def overtake(self) -> None:
        """Run an operation that waits now, in the middle of another one."""
        if not self._waiting or self._depth >= OVERTAKE_DEPTH_MAX:
            return
        if not self.kernel.tape.chance(self.faults.overtake_share):
            return
        _node, _life, run = self._waiting.popleft()
        self._depth += 1
        self.kernel.sometimes["metadata: overtaken between read and write"] += 1
        try:
            run()
        finally:
            self._depth -= 1

    # ------------------------------------------------------------------ the tree's listener

    def look_again(self, paths: Collection[str]) -> None:
        """Note what changed; the tree calls this."""
        self.change_number += 1
        for path in sorted(paths):
            node = self.tree.find(path)
            if node is None:
                self._forget(path)
                continue
            now = TreeNode(node.value, node.version)
            older = self._versions.get(path, ())
            if older and older[-1][1] == now:
                continue
            self._versions[path] = (*older[-3:], (self.change_number, now))
            self._note(path, now)

    def _forget(self, path: str) -> None:
        self._versions.pop(path, None)
        for ledger_id in [i for i, p in self._paths.items() if p == path]:
            del self.current[ledger_id]
            del self._paths[ledger_id]
            self.kernel.trace("metadata", f"L{ledger_id} is deleted")

    def _note(self, path: str, node: TreeNode) -> None:
        name = path.rpartition("/")[2]
        if path.startswith(f"{LEDGERS}/") and is_ledger_name(name):
            metadata = decode(LedgerMetadata, node.value, path)
            self.history.metadata_changed(self.kernel.now_ms, node.version, metadata)
            self.current[metadata.ledger_id] = metadata
            self.ever.add(metadata.ledger_id)
            self._paths[metadata.ledger_id] = path
            self.kernel.trace("metadata", f"{self.history.metadata.ledgers[-1]}"[15:])
            for watch in self.watchers:
                watch(metadata)
        elif path.startswith(f"{LOGS}/") and path.count("/") == 3:
            log = decode(LogMetadata, node.value, path)
            now_ms = self.kernel.now_ms
            self.history.log_changed(now_ms, log.name, node.version, log.ledger_ids)
            self.kernel.trace("metadata", f"{self.history.metadata.logs[-1]}"[15:])
        elif path.startswith(f"{DATA_SETS}/") and path.count("/") == 3:
            data_set = decode(DataSet, node.value, path)
            for look in self.data_set_watchers:
                look(data_set)

    def children(self, path: str, *, is_whole: bool) -> list[str]:
        """Return the names below a node; perhaps some of them only, if it need not be all."""
        node = self.tree.find(path)
        if node is None:
            raise NoNodeError(path, "there is no such node")
        names = sorted(node.children)
        if names and not is_whole and self.kernel.tape.chance(self.faults.stale_read_share):
            self.kernel.sometimes["metadata: a list leaves some out"] += 1
            names = [name for name in names if not self.kernel.tape.draw(2)]
        return names

    def is_lacking(self, path: str, view: int) -> bool:
        """Return whether a follower lacks a node that was made a moment ago."""
        versions = self._versions.get(path, ())
        is_new = len(versions) == 1 and versions[0][0] > view
        return is_new and self.kernel.tape.chance(self.faults.stale_read_share)

    def read(self, path: str, view: int, *, is_fresh: bool) -> tuple[TreeNode, int]:
        """Return a node as it is, or, if it need not be fresh, as it was after a change.

        ``view`` is the last change that the session has seen, and no node is older than that.
        Returns also the change that made the node what it is.
        """
        node = self.tree.find(path)
        if node is None:
            raise NoNodeError(path, "there is no such node")
        versions = self._versions.get(path, ())
        if (
            not is_fresh
            and len(versions) > 1
            and self.kernel.tape.chance(self.faults.stale_read_share)
        ):
            oldest = sum(made_by <= view for made_by, _version in versions[1:])
            chosen = max(oldest, len(versions) - 1 - self.kernel.tape.draw(len(versions)))
            made_by, version = versions[chosen]
            self.kernel.sometimes["metadata: stale read"] += chosen < len(versions) - 1
            return version, made_by
        return TreeNode(node.value, node.version), self.change_number


class Session:
    """One client's session: a ``MetadataStore`` without watches."""

    def __init__(self, server: MetadataServer, name: str, *, is_faulty: bool = False) -> None:
        self._server = server
        self._name = name
        self._is_faulty = is_faulty
        self._view = 0  # the last change that it has seen
        self.may_lack_nodes = False  # true: a node may not be there yet, unless a read is fresh
        self.is_list_whole = True  # false, to see whether anybody believes a list
        self.is_expired = False
        self._id = server.tree.begin_session(server)

    @property
    def address(self) -> str:
        return "memory://simulated"

    def expire(self) -> None:
        """Answer nothing until it is renewed."""
        self.is_expired = True

    def ledgers(self) -> LedgerStore:
        """Return the ledgers' metadata as this client sees it."""
        return LedgerStore(self, pause=lambda _seconds: None)

    def closer(self) -> LedgerCloser:
        """Return what closes ledgers and reports what they lack, as this client sees it."""
        return LedgerCloser(self.ledgers(), UnderreplicationStore(self))

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        missing: list[Operation] = []
        parent = parent_of(path)
        while make_parents and self._server.tree.find(parent) is None:
            missing.append(Create(parent))
            parent = parent_of(parent)
        self._change([*reversed(missing), Create(path, value, is_ephemeral)])

    def get(self, path: str, *, is_fresh: bool = False) -> TreeNode:
        self._check_request()
        if self.may_lack_nodes and not is_fresh and self._server.is_lacking(path, self._view):
            self._server.kernel.sometimes["metadata: a follower lacks a new ledger"] += 1
            raise NoNodeError(path, "it is not there yet")
        node, made_by = self._server.read(path, self._view, is_fresh=is_fresh)
        self._view = max(self._view, made_by)
        return node

    def set(self, path: str, value: bytes, version: int) -> int:
        self._change([SetValue(path, value, version)])
        return version + 1

    def delete(self, path: str, version: int | None = None) -> None:
        self._change([Delete(path, version)])

    def children(self, path: str) -> list[str]:
        self._check_request()
        if self.is_list_whole:
            self._see_all()
        return self._server.children(path, is_whole=self.is_list_whole)

    def multi(self, operations: Sequence[Operation]) -> None:
        self._change(operations)

    def watch_children(self, path: str, callback: Callable[[list[str]], None]) -> Watch:
        raise NotImplementedError("only a LiveSession watches")

    def watch_node(self, path: str, callback: Callable[[TreeNode | None], None]) -> Watch:
        raise NotImplementedError("only a LiveSession watches")

    def on_session(self, callback: Callable[[SessionState], None]) -> Watch:
        raise NotImplementedError("only a LiveSession watches")

    def session_state(self) -> SessionState:
        return SessionState.LOST if self.is_expired else SessionState.CONNECTED

    def close(self) -> None:
        self._server.tree.end_session(self._id)

    # ------------------------------------------------------------------ inside

    def _change(self, operations: Sequence[Operation]) -> None:
        self._check_request()
        if self._is_faulty:
            self._server.overtake()
        if not self._server.is_careful:
            operations = [self._careless(operation) for operation in operations]
        self._server.tree.apply(operations, self._id)
        faults, kernel = self._server.faults, self._server.kernel
        if self._is_faulty and kernel.tape.chance(faults.lost_reply_share):
            kernel.sometimes["metadata: reply of a change lost"] += 1
            kernel.trace(self._name, "the reply of a metadata change is lost")
            raise MetadataUnavailableError(self.address, "the reply was lost")
        self._see_all()  # a session sees what it was told that it wrote

    def _see_all(self) -> None:
        """Note that this session has seen how things are now."""
        self._view = self._server.change_number

    def _careless(self, operation: Operation) -> Operation:
        """Return a change that fits whatever version there is (a defect)."""
        node = self._server.tree.find(operation.path)
        if not isinstance(operation, SetValue) or node is None:
            return operation
        return SetValue(operation.path, operation.value, node.version)

    def _check_request(self) -> None:
        if not self._is_faulty:
            return
        server = self._server
        is_lost = server.is_down or self.is_expired
        if is_lost or server.kernel.tape.chance(server.faults.lost_request_share):
            raise MetadataUnavailableError(self.address, "did not answer")
