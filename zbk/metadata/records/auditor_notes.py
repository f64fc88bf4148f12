"""The notes of auditors, for other auditors and for people: ends of checks, and the last status.

    /underreplication/checks/<kind>   LastCheck: the start of the next interval, for every auditor
    /underreplication/auditor         AuditorStatus: the status of the last auditor

A lost note costs one more check, or a line of the status. Any thread; every method blocks.

Source: BookKeeper's ``checkallledgersctime`` and its kin.
"""

from zbk.metadata.paths import AUDITOR_STATUS, LAST_CHECKS
from zbk.metadata.records.compare_and_swap import CompareAndSwap, find_children, find_node
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import AuditorStatus, LastCheck, decode, encode


class AuditorNotes:
    """The notes in the cluster whose metadata is in ``store``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._swap = CompareAndSwap(store)

    def check_times(self) -> dict[str, int]:
        """Return the end of the last check of each kind, in ms since 1970, by the kind's name."""
        found = {}
        for kind in find_children(self._store, LAST_CHECKS):
            path = f"{LAST_CHECKS}/{kind}"
            node = find_node(self._store, path)
            if node is not None:
                found[kind] = decode(LastCheck, node.value, path).ended_ms
        return found

    def note_check(self, kind: str, ended_ms: int) -> None:
        """Record the end of a check. If two end at the same time, one of them is recorded."""
        self._put(f"{LAST_CHECKS}/{kind}", encode(LastCheck(ended_ms=ended_ms)))

    def status(self) -> AuditorStatus | None:
        """Return the last status that an auditor recorded, or ``None``."""
        node = find_node(self._store, AUDITOR_STATUS)
        return None if node is None else decode(AuditorStatus, node.value, AUDITOR_STATUS)

    def tell(self, status: AuditorStatus) -> None:
        """Record the auditor's status."""
        self._put(AUDITOR_STATUS, encode(status))

    def _put(self, path: str, value: bytes) -> None:
        self._swap.write(path, value, find_node(self._store, path))
