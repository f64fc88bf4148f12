"""The principals of the cluster in the metadata store: one record (``one_record``)."""

from collections.abc import Callable
from typing import Final

from zbk.metadata.paths import PRINCIPALS
from zbk.metadata.records.compare_and_swap import wait_s
from zbk.metadata.records.one_record import OneRecord
from zbk.metadata.stores.store import MetadataStore, Watch
from zbk.metadata.values import Principals
from zbk.security.principals import Principal, check

Change = Callable[[tuple[Principal, ...]], tuple[Principal, ...]]
"""One of the rules of ``zbk.security.principals``: principals before, and after."""

WATCH_NAME: Final = "the principals"


class PrincipalStore:
    """The principals of the cluster whose metadata is in ``store``."""

    def __init__(self, store: MetadataStore, *, pause: Callable[[float], None] = wait_s) -> None:
        self._record = OneRecord(store, PRINCIPALS, WATCH_NAME, Principals(), pause)

    def all(self, *, is_fresh: bool = True) -> tuple[Principal, ...]:
        """Return all principals, by name. Raises as ``OneRecord.read``."""
        return self._record.read(is_fresh=is_fresh).principals

    def change(self, change: Change) -> tuple[Principal, ...]:
        """Change the principals; return what they are then.

        Raises:
            InvalidOptionError, NoSuchPrincipalError: as ``change``.
            MetadataUnavailableError: they may or may not have been changed.
        """

        def changed(before: Principals) -> Principals:
            after = change(before.principals)
            check(after)
            return Principals(principals=after)

        return self._record.change(changed).principals

    def watch(self, callback: Callable[[tuple[Principal, ...]], None]) -> Watch:
        """Call back with ``all()``: now, and after each change."""
        return self._record.watch(lambda found: callback(found.principals))
