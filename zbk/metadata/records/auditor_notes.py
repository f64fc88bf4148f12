"""What auditors leave for each other and for people: when checks ended, how the last audit went.

    /underreplication/checks/<kind>   LastCheck: an interval starts there, for every auditor
    /underreplication/auditor         AuditorStatus: the last one's words

Notes are notes: losing one costs a check more, or a line less. Any thread; every method blocks.

Source: BookKeeper's ``checkallledgersctime`` and its kin.
"""

from contextlib import suppress

from zbk.errors import BadVersionError, NodeExistsError, NoNodeError
from zbk.metadata.paths import AUDITOR_STATUS, LAST_CHECKS
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import AuditorStatus, LastCheck, decode, encode


class AuditorNotes:
    """The notes in the cluster whose metadata is in ``store``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def check_times(self) -> dict[str, int]:
        """Return when each kind of check ended last, in ms since 1970, by the kind's name."""
        try:
            kinds = self._store.children(LAST_CHECKS)
        except NoNodeError:
            return {}
        found = {}
        for kind in kinds:
            path = f"{LAST_CHECKS}/{kind}"
            with suppress(NoNodeError):
                found[kind] = decode(LastCheck, self._store.get(path).value, path).ended_ms
        return found

    def note_check(self, kind: str, ended_ms: int) -> None:
        """Note that a check has ended. Of two at the same time one is noted."""
        self._put(f"{LAST_CHECKS}/{kind}", encode(LastCheck(ended_ms=ended_ms)))

    def status(self) -> AuditorStatus | None:
        """Return what the auditor said last, or ``None`` if none ever did."""
        node = find_node(self._store, AUDITOR_STATUS)
        return None if node is None else decode(AuditorStatus, node.value, AUDITOR_STATUS)

    def tell(self, status: AuditorStatus) -> None:
        """Say how it goes."""
        self._put(AUDITOR_STATUS, encode(status))

    def _put(self, path: str, value: bytes) -> None:
        with suppress(BadVersionError, NodeExistsError):
            try:
                self._store.set(path, value, self._store.get(path).version)
            except NoNodeError:
                self._store.create(path, value, make_parents=True)
