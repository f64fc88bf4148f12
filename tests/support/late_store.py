"""A metadata store in memory that applies a creation late: after its client has begun the next."""

from tests.support.memory_store import MemoryStore, MemoryTree
from zbk.errors import MetadataUnavailableError


class LateCreations(MemoryStore):
    """A session. The first creation of ``path`` is not answered, and comes ahead of the second."""

    def __init__(self, tree: MemoryTree, path: str) -> None:
        super().__init__(tree)
        self._late_path = path
        self._late: bytes | None = None
        self.is_over = False

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        is_ephemeral: bool = False,
        make_parents: bool = False,
    ) -> None:
        """Create a node."""
        if path == self._late_path and not self.is_over:
            if self._late is None:
                self._late = value
                raise MetadataUnavailableError(self.address, "did not answer")
            self.is_over = True
            super().create(path, self._late, is_ephemeral=is_ephemeral, make_parents=make_parents)
        super().create(path, value, is_ephemeral=is_ephemeral, make_parents=make_parents)
