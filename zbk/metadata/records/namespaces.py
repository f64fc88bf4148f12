"""The namespaces of the cluster in the metadata store: one record (``one_record``)."""

from collections.abc import Callable
from typing import Final

from zbk.metadata.paths import NAMESPACES
from zbk.metadata.records.compare_and_swap import wait_s
from zbk.metadata.records.one_record import OneRecord
from zbk.metadata.stores.store import MetadataStore, Watch
from zbk.metadata.values import Namespaces
from zbk.security.namespaces import Namespace, check

Change = Callable[[tuple[Namespace, ...]], tuple[Namespace, ...]]
"""One of the rules of ``zbk.security.namespaces``: records before, and after."""

WATCH_NAME: Final = "the namespaces"


class NamespaceStore:
    """The namespaces of the cluster whose metadata is in ``store``."""

    def __init__(self, store: MetadataStore, *, pause: Callable[[float], None] = wait_s) -> None:
        self._record = OneRecord(store, NAMESPACES, WATCH_NAME, Namespaces(), pause)

    def all(self, *, is_fresh: bool = True) -> tuple[Namespace, ...]:
        """Return all namespaces, by path. Raises as ``OneRecord.read``."""
        return self._record.read(is_fresh=is_fresh).namespaces

    def change(self, change: Change) -> tuple[Namespace, ...]:
        """Change the namespaces; return what they are then.

        Raises:
            InvalidOptionError, NoSuchNamespaceError: as ``change``.
            MetadataUnavailableError: they may or may not have been changed.
        """

        def changed(before: Namespaces) -> Namespaces:
            after = change(before.namespaces)
            check(after)
            return Namespaces(namespaces=after)

        return self._record.change(changed).namespaces

    def watch(self, callback: Callable[[tuple[Namespace, ...]], None]) -> Watch:
        """Call back with ``all()``: now, and after each change."""
        return self._record.watch(lambda found: callback(found.namespaces))
