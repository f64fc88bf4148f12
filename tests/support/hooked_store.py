"""A metadata store in memory that lets something happen just before it is asked."""

from collections.abc import Callable, Sequence

from tests.support.memory_store import MemoryStore
from zbk.metadata.stores.store import Node, Operation


class HookedStore(MemoryStore):
    """A session. What was put there with ``interrupt`` runs in the thread that asks."""

    hidden: frozenset[str] = frozenset()
    """Children that no listing shows: the server that answers lags behind."""

    _hook: Callable[[str, str], None] | None = None

    def interrupt(
        self,
        act: Callable[[], object],
        operation: str = "",
        path_part: str = "",
        *,
        skip_count: int = 0,
        count: int = 1,
    ) -> Callable[[], bool]:
        """Run ``act`` before each of ``count`` calls; return what tells whether all have come.

        Those of this operation (get, set, create, delete, children, multi; all) with this part in
        a path, but for the first ``skip_count``.
        """
        waiting = [skip_count, count]

        def hook(name: str, path: str) -> None:
            if operation not in ("", name) or path_part not in path:
                return
            if waiting[0]:
                waiting[0] -= 1
                return
            waiting[1] -= 1
            if waiting[1] == 0:
                self._hook = None
            act()

        self._hook = hook
        return lambda: waiting[1] == 0

    def heal(self) -> None:
        """Forget whatever was still to go wrong."""
        self._hook = None
        self._lost_reply_count = self._failure_count = 0

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        self._before("create", path)
        super().create(path, value, is_ephemeral=is_ephemeral, make_parents=make_parents)

    def get(self, path: str, *, is_fresh: bool = False) -> Node:
        self._before("get", path)
        return super().get(path, is_fresh=is_fresh)

    def set(self, path: str, value: bytes, version: int) -> int:
        self._before("set", path)
        return super().set(path, value, version)

    def delete(self, path: str, version: int | None = None) -> None:
        self._before("delete", path)
        super().delete(path, version)

    def children(self, path: str) -> list[str]:
        self._before("children", path)
        return [name for name in super().children(path) if name not in self.hidden]

    def multi(self, operations: Sequence[Operation]) -> None:
        self._before("multi", " ".join(one.path for one in operations))
        super().multi(operations)

    def _before(self, operation: str, path: str) -> None:
        if self._hook is not None:
            self._hook(operation, path)
