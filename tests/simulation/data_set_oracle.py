"""What a data set has promised, judged at each of its versions and at the end.

D-chain    versions are a chain: one follows another one by one, and never changes. An append has
           what was there before it, and its own; an overwrite has its own, and follows its base
D-whole    what a version lists is whole: the ledgers of each load in it, all of them, once, each
           closed, as long as it was said to be, and there as long as the version is
D-once     a load, and a micro-batch, is in one version or in none; in one if its driver was told
           so, and in none if it was told that it is not
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tests.simulation.world import World
from zbk.client.dataset.ledgers import LoadTicket
from zbk.protocol.dataset.dataset import DataSet, LoadKind, Version
from zbk.protocol.dataset.manifest import DataLedger, decode_manifest


class _Known(msgspec.Struct):
    """A load that somebody was given a ticket for."""

    ticket: LoadTicket
    batch: tuple[str, int] | None
    ledger_ids: list[int] = []
    is_committed: bool = False  # its driver was told so
    is_invisible: bool = False  # likewise
    version: int | None = None  # that it has become


class DataSetOracle:
    """Looks at one data set."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.payloads: dict[int, Sequence[bytes]] = {}  # of manifests
        self._loads: dict[str, _Known] = {}
        self._versions: tuple[Version, ...] = ()
        self._batches: dict[tuple[str, int], str] = {}  # by whom they were loaded
        world.metadata.data_set_watchers.append(self._changed)

    def begun(self, ticket: LoadTicket, stream: str, batch_id: int) -> None:
        """Note a load."""
        self._loads[ticket.load_id] = _Known(ticket, (stream, batch_id) if stream else None)

    def offered(self, ticket: LoadTicket, ledgers: Sequence[DataLedger]) -> None:
        """Note what is to be visible with a load."""
        self._loads[ticket.load_id].ledger_ids = [one.ledger_id for one in ledgers]

    def told_committed(self, ticket: LoadTicket) -> None:
        """Note that a driver was told that its load, or its batch, is visible."""
        known = self._loads[ticket.load_id]
        known.is_committed = True
        if known.version is None and (known.batch is None or not self._has_batch(known.batch)):
            self._violated("D-once", f"{_name(known)} is said to be visible, and is not")

    def told_invisible(self, ticket: LoadTicket) -> None:
        """Note that a driver was told that its load never becomes visible."""
        known = self._loads[ticket.load_id]
        known.is_invisible = True
        if known.version is not None:
            text = f"{_name(known)} is said to be invisible, and is version {known.version}"
            self._violated("D-once", text)

    def judge(self) -> None:
        """Look, when all is over, whether everything that versions list is there."""
        for version in self._versions:
            self._check_there(version)

    # ------------------------------------------------------------------ a new version

    def _changed(self, data_set: DataSet) -> None:
        before, after = self._versions, data_set.versions
        self._versions = after
        if after[: len(before)] != before:
            self._violated("D-chain", f"versions have changed: {_numbers(before, after)}")
            return
        for version in after[len(before) :]:
            self._check_next(before[-1] if before else None, version)
            before = (*before, version)

    def _check_next(self, before: Version | None, version: Version) -> None:
        world = self._world
        known = self._loads.get(version.load_id)
        base = before.version if before else 0
        world.kernel.trace("data set", f"version {version.version}, {version.kind}")
        world.sometimes["data set: a version"] += 1
        if version.version != base + 1:
            self._violated("D-chain", f"version {version.version} follows {base}")
        if known is None:
            self._violated("D-once", f"version {version.version} is of a load that nobody began")
            return
        self._check_once(known, version)
        kept = before.manifests if before and version.kind is LoadKind.APPEND else ()
        if version.manifests[:-1] != kept:
            self._violated("D-chain", f"{_name(known)} keeps {version.manifests[:-1]}, not {kept}")
        if version.kind is LoadKind.OVERWRITE and known.ticket.base_version != base:
            text = f"{_name(known)} began on version {known.ticket.base_version}"
            self._violated("D-chain", f"{text}, and replaces {base}")
        self._check_there(version)

    def _check_once(self, known: _Known, version: Version) -> None:
        if known.version is not None or known.is_invisible:
            told = "was said to be invisible" if known.is_invisible else f"is {known.version}"
            self._violated("D-once", f"{_name(known)} {told}, and becomes {version.version}")
        known.version = version.version
        if known.batch is not None:
            if self._has_batch(known.batch):
                self._violated("D-once", f"{_name(known)} loads batch {known.batch} again")
            self._batches[known.batch] = version.load_id
        if sorted(known.ledger_ids) != sorted(self._listed(version.manifests[-1:])):
            self._violated("D-whole", f"{_name(known)} is visible in part")

    def _has_batch(self, batch: tuple[str, int]) -> bool:
        """Return whether a batch, or a later one of its stream, was loaded."""
        return any(name == batch[0] and number >= batch[1] for name, number in self._batches)

    def _check_there(self, version: Version) -> None:
        current = self._world.metadata.current
        listed = self._listed(version.manifests)
        counts = Counter(listed)
        if len(listed) != version.ledger_count or any(count > 1 for count in counts.values()):
            text = f"version {version.version} of {version.ledger_count} ledgers lists {listed}"
            self._violated("D-whole", text)
        for ledger_id in (*listed, *version.manifests):
            if ledger_id not in current or not current[ledger_id].is_closed:
                text = f"version {version.version} lists ledger {ledger_id}"
                self._violated("D-whole", f"{text}, which is not there, or not closed")

    def _listed(self, manifests: Sequence[int]) -> list[int]:
        found = []
        for ledger_id in manifests:
            payloads = list(self.payloads.get(ledger_id, ()))
            if payloads:
                manifest = decode_manifest(payloads, f"ledger {ledger_id}")
                found += [one.ledger_id for one in manifest.ledgers]
        return found

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, text)


def _name(known: _Known) -> str:
    return f"the {known.ticket.kind} on version {known.ticket.base_version}"


def _numbers(before: Sequence[Version], after: Sequence[Version]) -> str:
    return f"{[one.version for one in before]}, then {[one.version for one in after]}"
