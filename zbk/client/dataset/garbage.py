"""The leftovers of loads, and how they are deleted: after an abort, by later loads, by collections.

Words:
    leftover   a ledger of a data set that is not wanted (``dataset.is_wanted``)
    sweep      to delete the leftovers of one load: all ledgers of an aborted one, the failed
               attempts of a committed one
    settle     to abort a load whose time is over, sweep and forget it. Each load that begins
               settles some earlier ones, so ``collect`` is needed only for the ledgers of dropped
               versions, and for those that were created after their load had ended

Why no wanted ledger is deleted. ``collect`` reads ledgers, loads and versions in this order. A load
is in the store before its first ledger is created, so the load of a ledger that was found is there,
unless it was forgotten after its end. Its own node is read, freshly, because a listing might come
from a server of the store that lags. If the load was OPEN then, its ledgers stay. If it had ended,
it has ended for good, and the versions, which are read after that, list the ledgers that it
committed. Ledgers that are created later were not found and are not touched. Deleting a ledger
twice does no harm, because ids are never used again.

The ledgers of a load are deleted without fencing them first. A process that still writes one cannot
close it, because its metadata are gone, and only closed and committed ledgers are ever read.

Any thread; every method blocks.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from zbk.client.dataset.ledgers import DataSetLedgers, TaggedLedger, is_tagged_by
from zbk.client.dataset.snapshots import manifest_is_gone
from zbk.errors import (
    DamageError,
    InvalidOptionError,
    MetadataConflictError,
    NoSuchDataSetError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnavailableError,
)
from zbk.metadata.records.datasets import DataSetStore
from zbk.protocol.dataset.dataset import (
    REMEMBERED_COUNT,
    DataSet,
    Load,
    LoadState,
    expiry_ms,
    is_wanted,
)

SETTLE_COUNT_MAX: Final = 8
"""The number of loads that one new load settles."""

LOOK_COUNT_MAX: Final = 32
"""The number of loads that it reads to find them: some may be open, and stay.

Half of them are the first that are due, and half the last. So many open loads at one end do not
keep those that have ended from being found.
"""

SWEEP_COUNT_MAX: Final = 10_000
"""The range of ids that is searched for failed attempts of a committed load; else ``collect``."""

LIST_ATTEMPT_COUNT_MAX: Final = 8


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The findings and deletions of a collection, or of a dry run."""

    name: str
    is_dropped: bool = False  # the data set does not exist any more
    seen_count: int = 0  # ledgers of the data set
    leftover: tuple[int, ...] = ()  # ledgers that are not wanted
    deleted_count: int = 0
    expired: tuple[str, ...] = ()  # loads whose time was over
    aborted_count: int = 0
    live_count: int = 0  # loads that are OPEN and whose time is not over
    refused: str = ""  # the reason if nothing was done


class DataSetGarbage:
    """Finds and deletes leftovers."""

    def __init__(
        self, store: DataSetStore, ledgers: DataSetLedgers, now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._now_ms = now_ms

    def sweep(self, name: str, load: Load) -> int:
        """Delete the ledgers of an ABORTED load; return their number.

        No version lists them, now or later, except for the load of a micro-batch. Each process that
        takes part in such a load begins it, and a late one may begin it again after it was
        committed and forgotten. So for these loads the versions are read.

        Raises:
            UnauthorizedError, DamageError: the versions cannot be read; nothing was deleted.
        """
        assert load.state is LoadState.ABORTED, "nothing of it can be committed any more"
        listed: set[int] = set()
        if load.stream:
            with suppress(NoSuchDataSetError):  # then nothing is listed
                listed = self._listed(name, load.data_set_id, {})
        return self._delete(
            one.ledger_id
            for one in self._ledgers.tagged(load.first_ledger_id)
            if is_tagged_by(load, one) and one.ledger_id not in listed
        )

    def settle_due(self, name: str, data_set_id: str) -> int:
        """Settle some loads whose time is over; return the number of known loads before that.

        If very many loads are known, also settle some that ended before their time was over.

        Raises:
            NoSuchDataSetError: the data set was dropped.
        """
        known = self._store.load_ids(name, data_set_id)
        now_ms = self._now_ms()
        early_count = len(known) - REMEMBERED_COUNT
        due = [
            load_id
            for index, load_id in enumerate(known)
            if expiry_ms(load_id) <= now_ms or index < early_count
        ]
        settled_count = 0
        for load_id in _both_ends(due, LOOK_COUNT_MAX):
            try:
                settled_count += self._settle(name, data_set_id, load_id, now_ms)
            except UnavailableError:
                break  # the next load tries again, and so does ``collect``
            except (UnauthorizedError, DamageError, MetadataConflictError):
                continue  # ``collect`` reports the reason
            if settled_count == SETTLE_COUNT_MAX:
                break
        return len(known)

    def collect(self, name: str, *, is_dry_run: bool = False) -> Collected:
        """Find and delete the leftovers of one data set; abort loads whose time is over.

        Raises:
            NoSuchDataSetError: there is no data set with this name.
            UnauthorizedError: its manifests have another password; nothing was deleted.
            DamageError: its versions cannot be read; nothing was deleted.
        """
        data_set = self._store.read(name)[0]
        tagged = [one for one in self._ledgers.tagged() if one.data_set_id == data_set.data_set_id]
        return self._collect(data_set, tagged, is_dry_run=is_dry_run)

    def collect_all(self, *, is_dry_run: bool = False) -> Iterator[Collected]:
        """Collect all data sets, one by one, and those that were dropped.

        If one cannot be read, ``refused`` has the reason, and the next one follows.
        """
        by_id: dict[str, list[TaggedLedger]] = {}
        for ledger in self._ledgers.tagged():
            by_id.setdefault(ledger.data_set_id, []).append(ledger)
        for name in self._store.list():
            with suppress(NoSuchDataSetError):  # dropped after it was listed
                data_set = self._store.read(name)[0]
                tagged = by_id.pop(data_set.data_set_id, [])
                yield self._collect_or_report(data_set, tagged, is_dry_run=is_dry_run)
        for data_set_id, tagged in by_id.items():
            yield from self._collect_dropped(data_set_id, tagged, is_dry_run=is_dry_run)

    def delete_all(self, data_set_id: str) -> int:
        """Delete every ledger of a dropped data set; return their number."""
        return self._delete(
            one.ledger_id for one in self._ledgers.tagged() if one.data_set_id == data_set_id
        )

    # ------------------------------------------------------------------ settling

    def _settle(self, name: str, data_set_id: str, load_id: str, now_ms: int) -> bool:
        found = self._store.read_load(name, data_set_id, load_id)
        if found is None:
            return False  # another client settled it
        load: Load | None = found[0]
        if found[0].state is LoadState.OPEN:
            if not found[0].is_expired(now_ms):
                return False
            load = self._store.abort(name, data_set_id, load_id)
        if load is None:
            return False
        if load.state is LoadState.ABORTED:
            self.sweep(name, load)
        else:
            self._sweep_losers(load)
        self._store.forget_load(name, data_set_id, load_id)
        return True

    def _sweep_losers(self, load: Load) -> None:
        """Delete the ledgers of a COMMITTED load that its manifest does not list."""
        assert load.manifest is not None, "a COMMITTED load has one"
        if load.manifest - load.first_ledger_id > SWEEP_COUNT_MAX:
            return
        try:
            manifest = self._ledgers.read_manifest(load.manifest, load.data_set_id)
        except (NoSuchLedgerError, UnauthorizedError, DamageError):
            return  # its version was dropped, or cannot be read here
        listed = {one.ledger_id for one in manifest.ledgers}
        self._delete(
            one.ledger_id
            for one in self._ledgers.tagged(load.first_ledger_id, load.manifest)
            if is_tagged_by(load, one) and one.ledger_id not in listed
        )

    # ------------------------------------------------------------------ collecting

    def _collect(
        self, data_set: DataSet, tagged: list[TaggedLedger], *, is_dry_run: bool
    ) -> Collected:
        name, data_set_id = data_set.name, data_set.data_set_id
        now_ms = self._now_ms()
        known = self._store.loads(name, data_set_id)
        expired = [load_id for load_id, load in known.items() if load.is_expired(now_ms)]
        lists: dict[int, frozenset[int]] = {}
        listed = self._listed(name, data_set_id, lists)
        unlisted = [one for one in tagged if one.ledger_id not in listed]
        aborted_count = 0
        if not is_dry_run:
            for load_id in expired:
                load = self._store.abort(name, data_set_id, load_id)
                aborted_count += load is not None and load.state is LoadState.ABORTED
        load_ids = dict.fromkeys(one.load_id for one in unlisted)
        loads = {one: self._load(name, data_set_id, one) for one in load_ids}
        if is_dry_run:
            for load_id, load in loads.items():
                if load is not None and load_id in expired:
                    loads[load_id] = load.aborted()
        listed = self._listed(name, data_set_id, lists)  # read after the loads
        leftover = tuple(
            one.ledger_id
            for one in unlisted
            if not is_wanted(one.ledger_id, loads[one.load_id], listed)
        )
        deleted_count = 0
        if not is_dry_run:
            deleted_count = self._delete(leftover)
            self._forget_ended(name, data_set_id, now_ms)
        return Collected(
            name=name,
            seen_count=len(tagged),
            leftover=leftover,
            deleted_count=deleted_count,
            expired=tuple(expired),
            aborted_count=aborted_count,
            live_count=sum(
                load.state is LoadState.OPEN and load_id not in expired
                for load_id, load in known.items()
            ),
        )

    def _collect_or_report(
        self, data_set: DataSet, tagged: list[TaggedLedger], *, is_dry_run: bool
    ) -> Collected:
        try:
            return self._collect(data_set, tagged, is_dry_run=is_dry_run)
        except (UnauthorizedError, DamageError) as error:
            return Collected(name=data_set.name, seen_count=len(tagged), refused=str(error))

    def _collect_dropped(
        self, data_set_id: str, tagged: list[TaggedLedger], *, is_dry_run: bool
    ) -> Iterator[Collected]:
        name = tagged[0].name
        try:
            data_set, _version = self._store.read_same(name, data_set_id)
        except NoSuchDataSetError:
            leftover = tuple(one.ledger_id for one in tagged)
            yield Collected(
                name=name,
                is_dropped=True,
                seen_count=len(tagged),
                leftover=leftover,
                deleted_count=0 if is_dry_run else self._delete(leftover),
            )
        except InvalidOptionError as error:  # the tag is not a valid name of a data set
            yield Collected(name=name, seen_count=len(tagged), refused=str(error))
        else:  # created after the names were listed
            yield self._collect_or_report(data_set, tagged, is_dry_run=is_dry_run)

    def _listed(self, name: str, data_set_id: str, lists: dict[int, frozenset[int]]) -> set[int]:
        """Return the ledgers of all versions, with manifests; ``lists`` caches the manifests."""
        for _ in range(LIST_ATTEMPT_COUNT_MAX):
            data_set, _version = self._store.read_same(name, data_set_id)
            manifests = {one for version in data_set.versions for one in version.manifests}
            try:
                for ledger_id in sorted(manifests - lists.keys()):
                    manifest = self._ledgers.read_manifest(ledger_id, data_set_id)
                    lists[ledger_id] = frozenset(one.ledger_id for one in manifest.ledgers)
            except NoSuchLedgerError:
                continue  # its version was dropped meanwhile
            return manifests.union(*(lists[one] for one in manifests))
        raise manifest_is_gone(name)

    def _load(self, name: str, data_set_id: str, load_id: str) -> Load | None:
        found = self._store.read_load(name, data_set_id, load_id)
        return None if found is None else found[0]

    def _forget_ended(self, name: str, data_set_id: str, now_ms: int) -> None:
        for load_id, load in self._store.loads(name, data_set_id).items():
            if load.state is not LoadState.OPEN and now_ms >= load.expires_ms:
                self._store.forget_load(name, data_set_id, load_id)

    def _delete(self, ledger_ids: Iterable[int]) -> int:
        return sum(map(self._ledgers.delete, ledger_ids))


def _both_ends(load_ids: list[str], count_max: int) -> list[str]:
    """Return all, or as many from both ends."""
    if len(load_ids) <= count_max:
        return load_ids
    half = count_max // 2
    return load_ids[:half] + load_ids[-half:]
