"""A bookie's history at its start: compared with the cluster's, then continued.

A bookie that has lost its data answers "no such entry" in good faith. Only the cluster can know
that it had them: the metadata store keeps, beside the cookie, the highest incarnation that was
allowed to serve, and whether the bookie has served. The steps of a start:

    check      the directories show the whole history; otherwise the bookie does not start
    count_up   the incarnation grows on disk, durably
    claim      it grows in the metadata store, unless another process was first; only then may the
               bookie serve and register

The disk comes first, so after a crash at any step the store is not ahead of whole directories. A
refused start changes nothing in the store: a cookie that was copied to an empty disk does not harm
the real bookie.

A bookie that was wiped on purpose passes the check: all earlier ledgers go into limbo
(``zbk.durability.limbo``), durably; then the store forgets the history until the next claim.

If the directory with the limbo file lacks the history, the loss is recorded there before the start
is refused: a program that starts it without the check, as an older zbk does, denies nothing. A
whole directory gets no such record, because the directory that lacks the history may only be
unmounted, and a recorded loss stays forever.

Two processes may run on copies of the same directories. The first one that claims an incarnation
has it. The other one takes its own incarnation back, is the older one from then on, and is in
limbo.

Runs in the thread that starts the bookie.
"""

from collections.abc import Callable, Mapping, Sequence

from zbk.actors.identity.losses import Losses
from zbk.errors import CookieMismatchError, LostHistoryError, NoNodeError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.storage.directory import unfinished
from zbk.storage.directory.history import KnownHistory, MissingHistory, has_marks, missing_history
from zbk.storage.directory.identity import next_incarnation, write_incarnation
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.journal.last_mark import LastMark
from zbk.storage.journal.segment import FIRST_SEGMENT_ID, segment_ids
from zbk.system.files import FileSystem


class BookieHistory:
    """The history of one bookie, at one start. ``check``, ``count_up``, ``claim``, in this order.

    ``journals`` are the journal directories in service, by number.
    """

    def __init__(
        self,
        files: FileSystem,
        registry: BookieRegistry,
        bookie_id: str,
        *,
        journals: Mapping[int, str],
        ledger_dirs: Sequence[str],
        losses: Losses,
        next_ledger_id: Callable[[], int],
    ) -> None:
        self._files = files
        self._registry = registry
        self._bookie_id = bookie_id
        self._journals = journals
        self._ledger_dirs = ledger_dirs
        self._losses = losses
        self._next_ledger_id = next_ledger_id  # of the cluster, by a read that does not lag
        self._known = KnownHistory()
        self.incarnation = 0  # of this start; 0: not counted yet

    def check(self, *, is_wiped_on_purpose: bool) -> None:
        """Check that the directories show the cluster's history, or were wiped on purpose.

        In the second case all earlier ledgers are in limbo when this returns.

        Raises:
            LostHistoryError: they do not; the text has the missing parts and the cure.
            BookieError: a command has left a directory half changed, or has wiped it.
            CookieMismatchError: the cluster no longer has a cookie for the bookie.
            NodeExistsError: the bookie was wiped on purpose, and another process of it runs.
            CorruptRecordError: an incarnation or a mark is damaged.
            MetadataUnavailableError: the metadata store does not answer.
            OSError, StorageFailedError: a directory cannot be read or written.
        """
        formatted = [one for one in self._ledger_dirs if unfinished.was_wiped(self._files, one)]
        for path in self._ledger_dirs:
            if path not in formatted or not is_wiped_on_purpose:
                unfinished.check_finished(self._files, path)
        self._known = known_history(self._registry, self._bookie_id)
        missing = missing_history(self._files, self._journals, self._ledger_dirs, self._known)
        if not missing:
            return
        if not is_wiped_on_purpose:
            if self._ledger_dirs[0] in (one.path for one in missing):
                self._losses.lose_all(self._next_ledger_id)
            raise self._lost(missing, self._cure(missing))
        self._check_usable(missing)
        self._registry.wait_unregistered(self._bookie_id)
        if len(formatted) < len(self._ledger_dirs):  # otherwise ``Losses.find`` records it
            self._losses.lose_all(self._next_ledger_id)
        for number, path in self._journals.items():
            if path in (one.path for one in missing):
                forget_journal(self._files, self._ledger_dirs, number)
        if self._known.has_served:
            self._registry.forget_served(self._bookie_id)

    def count_up(self) -> int:
        """Count this start in the ledger directories, durably; return the incarnation.

        Raises:
            OSError: one cannot be read or written.
        """
        floor = self._known.incarnation
        self.incarnation = next_incarnation(self._files, *self._ledger_dirs, floor=floor)
        return self.incarnation

    def claim(self) -> None:
        """Record this start in the metadata store. Comes after ``count_up``, with storage open.

        Raises:
            LostHistoryError: another process has served meanwhile, from a copy of the directories.
            NodeExistsError: another process of the bookie runs.
            CookieMismatchError: the cluster no longer has a cookie for the bookie.
            MetadataUnavailableError: the metadata store does not answer.
            OSError, StorageFailedError: a directory cannot be written.
        """
        self._registry.wait_unregistered(self._bookie_id)
        try:
            is_ours = self._registry.raise_incarnation(
                self._bookie_id,
                self.incarnation,
                has_served=has_marks(self._files, self._ledger_dirs),
            )
        except NoNodeError as error:
            raise _unknown(self._bookie_id) from error
        if is_ours:
            return
        self._known = known_history(self._registry, self._bookie_id)
        self._losses.lose_all(self._next_ledger_id)
        write_incarnation(self._files, *self._ledger_dirs, incarnation=self.incarnation - 1)
        missing = [
            MissingHistory(path, f"had incarnation {self.incarnation - 1} when it started")
            for path in self._ledger_dirs
        ]
        raise self._lost(missing, self._cure(missing))

    # -------------------------------------------------------------- private

    def _check_usable(self, missing: Sequence[MissingHistory]) -> None:
        """Check that storage can be opened on the rest after a wipe on purpose.

        Raises:
            LostHistoryError: a command has to restore or remove a part first.
        """
        lost = {one.path for one in missing}
        if lost.isdisjoint(self._ledger_dirs):
            return
        if not lost.issuperset(self._ledger_dirs):
            raise self._lost(missing, self._cure(missing))
        if has_marks(self._files, self._ledger_dirs):
            return
        for path in self._journals.values():
            ids = segment_ids(self._files, path) if self._files.exists(path) else []
            if ids and ids[0] != FIRST_SEGMENT_ID:
                raise self._lost(
                    missing,
                    f"the journal in {path} cannot be read without the lost parts. Restore them, "
                    "or remove the rest with `zbk bookie format`, and start it again with "
                    "`--wiped-on-purpose`",
                )

    def _lost(self, missing: Sequence[MissingHistory], cure: str) -> LostHistoryError:
        told = ", and ".join(f"{one.path} {one.reason}" for one in missing)
        return LostHistoryError(self._bookie_id, str(self._known), told, cure)

    def _cure(self, missing: Sequence[MissingHistory]) -> str:
        restore = (
            "mount or restore what it had, and compare with `zbk bookie cookie show` before it "
            "starts again"
        )
        lost = {one.path for one in missing}
        kinds = (self._ledger_dirs, list(self._journals.values()))
        if any(0 < len(lost.intersection(kind)) < len(set(kind)) for kind in kinds):
            paths = " and ".join(f"`zbk bookie retire-dir {path}`" for path in sorted(lost))
            return f"{restore}. If the data there are gone for good: {paths}"
        return (
            f"{restore}. If the data are gone for good, `zbk bookie run --wiped-on-purpose` starts "
            "it, and it denies nothing until it has its entries back from its peers; or give it up "
            f"with `zbk bookie cookie delete {self._bookie_id}`, and make another one in empty "
            "directories with `zbk bookie init`"
        )


def known_history(registry: BookieRegistry, bookie_id: str) -> KnownHistory:
    """Return the history of a bookie in the cluster.

    Raises:
        CookieMismatchError: the cluster has no cookie for the bookie.
        MetadataUnavailableError: the metadata store does not answer.
    """
    cookie = registry.read_stored_cookie(bookie_id)
    if cookie is None:
        raise _unknown(bookie_id)
    return KnownHistory(cookie.incarnation, cookie.has_served)


def forget_journal(files: FileSystem, ledger_dirs: Sequence[str], number: int) -> None:
    """Move the marks to the start of a journal that is empty.

    Raises:
        CorruptRecordError: a mark is damaged.
        StorageFailedError: one cannot be written.
        OSError: one cannot be read.
    """
    for directory in ledger_dirs:
        last_mark = LastMark(files, directory, FailStop())
        mark = last_mark.load()
        if mark is not None:
            last_mark.forget(number)
            last_mark.write(mark.without(number))


def _unknown(bookie_id: str) -> CookieMismatchError:
    return CookieMismatchError(
        f"the cluster has no cookie for bookie {bookie_id}: it was removed from the cluster, and "
        "comes back only with empty directories"
    )
