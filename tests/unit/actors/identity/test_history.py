"""What the cluster knows of a bookie and its directories do not show, at each kind of start."""

import copy
from random import Random

import msgspec
import pytest

from tests.support.batches import batch_of
from tests.support.memory_store import MemoryStore, MemoryTree
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.history import BookieHistory
from zbk.actors.identity.identity import check_identity, in_service, init_identity, service_note
from zbk.actors.identity.losses import Losses
from zbk.actors.identity.offline import check, wipe_bookie
from zbk.actors.identity.service import renew, retire, settle
from zbk.config import BookieConfig
from zbk.durability.limbo import LossReason
from zbk.errors import (
    BookieError,
    CookieMismatchError,
    LostHistoryError,
    NodeExistsError,
    exit_code_of,
)
from zbk.metadata.paths import cookie_path
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.values import BookieRegistration, StoredCookie, encode
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage, StorageLimits
from zbk.storage.directory.history import KnownHistory
from zbk.storage.directory.identity import (
    COOKIE_NAME,
    PLACE_NAME,
    read_incarnation,
    write_incarnation,
)
from zbk.storage.directory.unfinished import was_wiped
from zbk.storage.journal.record import EntriesRecord, LedgerKeyRecord
from zbk.storage.journal.segment import SEGMENT_HEADER_SIZE
from zbk.storage.replay import add_batches
from zbk.system.files import FileSystem

ONE_OF_EACH = BookieConfig(journal_dir="/j", ledger_dir="/l")
TWO_OF_EACH = BookieConfig(journal_dir=("/j1", "/j2"), ledger_dir=("/l1", "/l2"))
NEXT_LEDGER_ID = 7


class Start:
    """One start of a bookie, as ``zbk.actors.process.bookie`` does it, without its actors."""

    def __init__(
        self,
        disk: FileSystem,
        store: MemoryStore,
        config: BookieConfig = ONE_OF_EACH,
        *,
        is_wiped_on_purpose: bool = False,
        next_ledger_id: int = NEXT_LEDGER_ID,
    ) -> None:
        self.disk = disk
        self.is_wiped_on_purpose = is_wiped_on_purpose
        self.next_ledger_id = next_ledger_id
        bookie_id = check_identity(disk, store, config).bookie_id
        self.note = service_note(disk, config)
        self.config = config
        lost = self.note.paths
        self.storage = BookieStorage(
            disk,
            journal_dir=config.journal_dir,
            ledger_dir=config.ledger_dir,
            bookie_id=bookie_id,
            out_of_service=lost,
            limits=StorageLimits(segment_size=SEGMENT_HEADER_SIZE + 4096),
        )
        self.losses = Losses(disk, self.storage.limbo, self.storage.ledger_dirs, "boot-1")
        self.history = BookieHistory(
            disk,
            BookieRegistry(store, session_timeout_ms=100),
            bookie_id,
            journals={no: one for no, one in enumerate(config.journal_dirs) if one not in lost},
            ledger_dirs=self.storage.ledger_dirs,
            losses=self.losses,
            next_ledger_id=lambda: next_ledger_id,
        )

    def open(self) -> None:
        """Do all that comes before the claim."""
        self.history.check(is_wiped_on_purpose=self.is_wiped_on_purpose)
        self.history.count_up()
        self.losses.find(lambda: self.next_ledger_id, is_wiped_on_purpose=self.is_wiped_on_purpose)
        settle(self.disk, self.config, self.note, self.losses, lambda: self.next_ledger_id)
        self.losses.begin_serving()
        self.storage.open()

    def run(self) -> "Start":
        """Start, up to where it serves."""
        self.open()
        self.history.claim()
        return self

    def stop(self) -> None:
        """Stop in good order."""
        self.storage.close()
        self.losses.end_serving()


def fill(storage: BookieStorage, ledger_id: int) -> None:
    """Add ten entries to a new ledger, and checkpoint: the journal's first segment goes."""
    batch = batch_of(ledger_id, range(10), payload_size=500)
    key = LedgerKeyRecord(ledger_id, bytes(16), LedgerType.PD_JOURNAL)
    storage.homes.place(ledger_id).home.cache.set_ledger_key(
        ledger_id, bytes(16), LedgerType.PD_JOURNAL
    )
    add_batches(storage.homes, [batch])
    journal = list(storage.journals)[storage.journals.of(ledger_id)]
    journal.append([key, EntriesRecord(batch)])
    journal.sync()
    checkpoint = storage.begin_checkpoint()
    checkpoint.run()
    storage.end_checkpoint(checkpoint)


def served(
    store: MemoryStore, config: BookieConfig = ONE_OF_EACH, *, start_count: int = 2
) -> SimulatedDisk:
    """Return the disk of a bookie that has started so often, and has served some ledgers."""
    disk = SimulatedDisk()
    init_identity(disk, store, config)
    for number in range(start_count):
        start = Start(disk, store, config).run()
        fill(start.storage, number)
        start.stop()
        disk.process_crash()
    return disk


def vanish(disk: SimulatedDisk, *directories: str, kept: tuple[str, ...] = ()) -> None:
    """Delete everything in directories, but what says whose they are."""
    for directory in directories:
        for path in disk.paths(f"{directory}/"):
            if path.rpartition("/")[2] not in (COOKIE_NAME, PLACE_NAME, *kept):
                disk.remove_at_rest(path)


def known(store: MemoryStore) -> tuple[int, bool]:
    (bookie_id,) = BookieRegistry(store).cookies()
    cookie = BookieRegistry(store).read_stored_cookie(bookie_id)
    assert cookie is not None
    return cookie.incarnation, cookie.has_served


def refused(disk: FileSystem, store: MemoryStore, config: BookieConfig = ONE_OF_EACH) -> str:
    """Return what a start says that must be refused, and must change nothing in the store."""
    path = cookie_path(*BookieRegistry(store).cookies())
    version = store.get(path).version
    start = Start(disk, store, config)
    with pytest.raises(LostHistoryError) as caught:
        start.open()
    assert store.get(path).version == version
    return str(caught.value)


# ------------------------------------------------------------------ healthy starts


def test_each_start_is_known_to_the_cluster_before_it_serves(store: MemoryStore) -> None:
    disk = SimulatedDisk()
    init_identity(disk, store, ONE_OF_EACH)
    assert known(store) == (0, False)
    start = Start(disk, store)
    start.open()
    assert (read_incarnation(disk, "/l"), known(store)) == (1, (0, False)), "the disk comes first"

    start.history.claim()

    assert known(store) == (1, True)
    start.stop()
    again = Start(disk.process_crash(), store).run()
    assert (again.history.incarnation, known(store)) == (2, (2, True))
    assert not again.losses.reasons


def test_a_cluster_of_before_there_was_a_history_is_believed_once(store: MemoryStore) -> None:
    disk = served(store, start_count=3)
    cookie = check_identity(disk, store, ONE_OF_EACH)
    path = cookie_path(cookie.bookie_id)
    store.set(path, encode(cookie), store.get(path).version)
    assert known(store) == (0, False)

    Start(disk, store).run().stop()

    assert known(store) == (4, True)
    vanish(disk.process_crash(), "/j", "/l")
    assert "the cluster knows its incarnation 4 and that it has served" in refused(disk, store)


def test_a_cookie_with_a_history_is_the_one_in_the_directories(store: MemoryStore) -> None:
    disk = served(store)

    assert not isinstance(check_identity(disk, store, ONE_OF_EACH), StoredCookie)


@pytest.mark.parametrize("config", [ONE_OF_EACH, TWO_OF_EACH])
def test_after_a_power_cut_at_any_step_of_a_start_the_next_one_starts(
    config: BookieConfig,
) -> None:
    """The store is never ahead of the disk, and asks for nothing that is not durable."""
    tree = MemoryTree()
    store = tree.open_session()
    before = served(store, config)
    (bookie_id,) = BookieRegistry(store).cookies()
    path = cookie_path(bookie_id)
    value = store.get(path).value

    def prepare(disk: SimulatedDisk) -> "Start":
        disk.__dict__.update(copy.deepcopy(before).__dict__)
        store.set(path, value, store.get(path).version)
        return Start(disk, store, config)

    for disk, step in crashed_at_each_step(lambda disk: prepare(disk).run):
        kept = store.get(path).value
        for after in power_cuts(disk, Random(step), count_max=3):
            Start(after, store, config).run()
            store.set(path, kept, store.get(path).version)
    store.close()


def test_after_a_power_cut_at_any_step_of_the_first_start_the_next_one_starts() -> None:
    trees: list[MemoryStore] = []

    def prepare(disk: SimulatedDisk) -> "Start":
        trees.append(MemoryTree().open_session())
        init_identity(disk, trees[-1], ONE_OF_EACH)
        return Start(disk, trees[-1])

    for disk, step in crashed_at_each_step(lambda disk: prepare(disk).run):
        store = trees[-1]
        path = cookie_path(*BookieRegistry(store).cookies())
        kept = store.get(path).value
        for after in power_cuts(disk, Random(step), count_max=4):
            Start(after, store).run()
            store.set(path, kept, store.get(path).version)
    for store in trees:
        store.close()


# ------------------------------------------------------------------ what is gone


@pytest.mark.parametrize(
    ("gone", "kept", "told"),
    [
        (("/j", "/l"), (), "/l has no incarnation and no last log mark, and /j has no journal"),
        (("/j", "/l"), ("incarnation",), "/l has no last log mark, and /j has no journal"),
        (("/l",), (), "/l has no incarnation and no last log mark"),
        (("/l",), ("incarnation",), "/l has no last log mark"),
        (("/l",), ("last_mark",), "/l has no incarnation"),
        (("/j",), (), "/j has no journal"),
    ],
)
def test_a_bookie_whose_files_are_gone_and_whose_cookies_are_not_does_not_start(
    store: MemoryStore, gone: tuple[str, ...], kept: tuple[str, ...], told: str
) -> None:
    """B6: it would deny all that it has acknowledged."""
    disk = served(store)
    vanish(disk, *gone, kept=kept)

    text = refused(disk, store)

    assert told in text
    assert "the cluster knows its incarnation 2 and that it has served" in text
    assert "`zbk bookie run --wiped-on-purpose`" in text
    assert "zbk bookie cookie delete" in text
    assert text == refused(disk.process_crash(), store), "however often it is tried"


def test_a_refused_start_has_an_exit_code_of_its_own() -> None:
    assert exit_code_of(LostHistoryError) == 7
    assert exit_code_of(BookieError) == 6


def test_what_starts_the_directories_later_without_comparing_is_in_limbo(
    store: MemoryStore,
) -> None:
    disk = served(store)
    vanish(disk, "/j", "/l")
    refused(disk, store)

    later = Start(disk.crash(Random(1)), store)
    later.storage.open()

    assert later.storage.limbo.limbo.reasons == (LossReason.WIPED,)
    assert later.storage.limbo.limbo.is_miss_unknown(NEXT_LEDGER_ID - 1, LedgerType.PD_JOURNAL)


def test_a_whole_ledger_directory_is_not_put_in_limbo_for_a_journal_that_may_come_back(
    store: MemoryStore,
) -> None:
    """A loss that is noted is noted for ever; the journal's disk may be mounted elsewhere."""
    disk = served(store)
    mounted = copy.deepcopy(disk)
    vanish(disk, "/j")
    refused(disk, store)
    assert not disk.exists("/l/limbo")

    start = Start(mounted, store).run()

    assert not start.losses.reasons


def test_an_older_copy_of_the_directories_does_not_start(store: MemoryStore) -> None:
    """B40: what came later is missing."""
    disk = served(store, start_count=2)
    older = copy.deepcopy(disk)
    Start(disk, store).run().stop()

    assert "/l has incarnation 2" in refused(older, store)
    assert Start(disk.process_crash(), store).run().history.incarnation == 4


def test_a_cookie_copied_to_an_empty_disk_does_the_real_bookie_no_harm(store: MemoryStore) -> None:
    """B40: it changes nothing in the metadata store."""
    real = served(store)
    copied = SimulatedDisk()
    for directory in ("/j", "/l"):
        copied.make_dirs(directory)
        content = real.content(f"{directory}/{COOKIE_NAME}")
        copied.open(f"{directory}/{COOKIE_NAME}", create=True).close()
        copied.set_content(f"{directory}/{COOKIE_NAME}", content)

    assert "only the cookie was copied" in refused(copied, store)

    start = Start(real, store).run()
    assert start.history.incarnation == 3
    assert not start.losses.reasons


# ------------------------------------------------------------------ wiped on purpose


@pytest.mark.parametrize("kept", [(), ("incarnation",)])
def test_wiped_on_purpose_it_starts_and_all_of_before_is_in_limbo(
    store: MemoryStore, kept: tuple[str, ...]
) -> None:
    disk = served(store)
    vanish(disk, "/j", "/l", kept=kept)

    start = Start(disk, store, is_wiped_on_purpose=True).run()

    assert start.history.incarnation == 3, "what an earlier life has acknowledged is void"
    assert start.losses.reasons == (LossReason.WIPED,)
    assert start.losses.left(has_lost_fences=True).ledger_count == NEXT_LEDGER_ID
    assert known(store) == (3, True)
    start.stop()
    again = Start(disk.process_crash(), store).run()
    assert again.losses.reasons == (LossReason.WIPED,), "without being told once more"


def test_an_older_copy_that_is_to_start_keeps_what_it_has_and_denies_nothing(
    store: MemoryStore,
) -> None:
    disk = served(store, start_count=2)
    older = copy.deepcopy(disk)
    Start(disk, store).run().stop()

    start = Start(older, store, is_wiped_on_purpose=True).run()

    assert start.storage.ledgers() == [0, 1]
    assert start.losses.reasons == (LossReason.WIPED,)
    assert start.history.incarnation == 4


def test_without_its_journal_it_starts_on_purpose_with_what_the_entry_logs_have(
    store: MemoryStore,
) -> None:
    disk = served(store)
    vanish(disk, "/j")

    start = Start(disk, store, is_wiped_on_purpose=True).run()

    assert start.storage.ledgers() == [0, 1]
    assert start.losses.reasons == (LossReason.WIPED,)
    start.stop()
    Start(disk.process_crash(), store).run()


def test_a_journal_that_cannot_be_read_without_the_mark_is_to_be_removed_first(
    store: MemoryStore,
) -> None:
    disk = served(store)
    vanish(disk, "/l")
    assert not disk.exists("/j/0000000000000001.journal")

    with pytest.raises(LostHistoryError, match=r"journal in /j cannot .* `zbk bookie format`"):
        Start(disk, store, is_wiped_on_purpose=True).open()

    assert known(store) == (2, True)
    wipe_bookie(disk.process_crash(), None, ONE_OF_EACH)
    start = Start(disk, store, is_wiped_on_purpose=True).run()
    assert start.losses.reasons == (LossReason.WIPED,)
    assert start.history.incarnation == 3


def test_a_formatted_bookie_is_refused_and_let_in_as_ever(store: MemoryStore) -> None:
    disk = served(store)
    wipe_bookie(disk, None, ONE_OF_EACH)

    with pytest.raises(BookieError, match="was wiped by `zbk bookie format`"):
        Start(disk, store).open()
    start = Start(disk, store, is_wiped_on_purpose=True).run()

    assert start.losses.reasons == (LossReason.WIPED,)
    start.stop()
    Start(disk.process_crash(), store).run()


@pytest.mark.parametrize("is_formatted", [False, True])
def test_after_a_power_cut_at_any_step_of_such_a_start_nothing_is_denied(
    *, is_formatted: bool
) -> None:
    """It starts when it is told so again; and once it starts by itself, the loss is noted."""
    store = MemoryTree().open_session()
    before = served(store)
    if is_formatted:
        wipe_bookie(before, None, ONE_OF_EACH)
    else:
        vanish(before, "/j", "/l")
    path = cookie_path(*BookieRegistry(store).cookies())
    value = store.get(path).value

    def prepare(disk: SimulatedDisk) -> "Start":
        disk.__dict__.update(copy.deepcopy(before).__dict__)
        store.set(path, value, store.get(path).version)
        return Start(disk, store, is_wiped_on_purpose=True)

    started_count = 0
    for disk, step in crashed_at_each_step(lambda disk: prepare(disk).run):
        kept = store.get(path).value
        for after in power_cuts(disk, Random(step), count_max=3):
            by_itself = Start(copy.deepcopy(after), store)
            try:
                by_itself.run()
            except BookieError:
                is_older = read_incarnation(after, "/l") < known(store)[0]
                assert is_older or was_wiped(after, "/l"), "it was let in, and its start counted"
            else:
                started_count += 1
                assert by_itself.losses.reasons == (LossReason.WIPED,)
            store.set(path, kept, store.get(path).version)
            told_so = Start(after, store, is_wiped_on_purpose=True).run()
            assert told_so.losses.reasons == (LossReason.WIPED,)
            store.set(path, kept, store.get(path).version)
    assert started_count
    store.close()


# ------------------------------------------------------------------ several directories


def test_one_of_several_ledger_directories_that_was_wiped_is_named_with_its_cure(
    store: MemoryStore,
) -> None:
    disk = served(store, TWO_OF_EACH)
    vanish(disk, "/l2")

    text = refused(disk, store, TWO_OF_EACH)

    assert "/l2 has no incarnation and no last log mark" in text
    assert "`zbk bookie retire-dir /l2`" in text
    assert "--wiped-on-purpose" not in text
    assert not disk.exists("/l1/limbo"), "its disk may be mounted yet"
    with pytest.raises(LostHistoryError, match="retire-dir /l2"):
        Start(disk, store, TWO_OF_EACH, is_wiped_on_purpose=True).open()

    retire(disk.process_crash(), TWO_OF_EACH, "/l2")
    start = Start(disk, store, TWO_OF_EACH).run()

    assert start.losses.reasons == (LossReason.DIRECTORY_LOST,)
    start.stop()


@pytest.mark.parametrize("directory", ["/j1", "/j2", "/l1", "/l2"])
def test_a_directory_that_is_taken_out_and_brought_back_empty_is_no_loss_of_history(
    store: MemoryStore, directory: str
) -> None:
    disk = served(store, TWO_OF_EACH)
    retire(disk, TWO_OF_EACH, directory)
    Start(disk, store, TWO_OF_EACH).run().stop()
    vanish(disk.process_crash(), directory)

    renew(disk, TWO_OF_EACH, directory)
    start = Start(disk.process_crash(), store, TWO_OF_EACH).run()

    assert directory in in_service(disk, TWO_OF_EACH)
    start.stop()
    vanish(disk.process_crash(), directory)
    assert directory in refused(disk, store, TWO_OF_EACH)


# ------------------------------------------------------------------ two at once


def test_of_two_on_the_same_history_the_second_one_does_not_serve_now_or_later(
    store: MemoryStore,
) -> None:
    disk = served(store)
    winner, loser = Start(disk, store), Start(copy.deepcopy(disk), store)
    winner.open()
    loser.open()

    winner.history.claim()
    with pytest.raises(LostHistoryError, match="the cluster knows its incarnation 3"):
        loser.history.claim()

    assert known(store) == (3, True)
    loser.storage.close()
    assert isinstance(loser.disk, SimulatedDisk)
    refused(loser.disk.process_crash(), store)
    assert Start(loser.disk, store).storage.limbo is not None
    later = Start(loser.disk, store, is_wiped_on_purpose=True)
    later.open()
    assert later.losses.reasons == (LossReason.WIPED,)
    winner.stop()
    assert Start(disk.process_crash(), store).run().history.incarnation == 4


@pytest.mark.parametrize("is_wiped_on_purpose", [False, True])
def test_a_copy_takes_nothing_from_a_bookie_that_runs(
    store: MemoryStore, *, is_wiped_on_purpose: bool
) -> None:
    disk = served(store)
    copied = copy.deepcopy(disk)
    if is_wiped_on_purpose:
        vanish(copied, "/j", "/l")
    running = Start(disk, store).run()
    (bookie_id,) = BookieRegistry(store).cookies()
    if not is_wiped_on_purpose:
        write_incarnation(copied, "/l", incarnation=3)
    registration = BookieRegistration(
        bookie_id=bookie_id,
        address="tcp://h:1",
        incarnation=3,
        is_readonly=False,
        started_ms=0,
        version="0",
    )
    registered = BookieRegistry(store).register(registration)

    with pytest.raises(NodeExistsError, match=r"at tcp://h:1.* does this bookie run twice\?"):
        Start(copied, store, is_wiped_on_purpose=is_wiped_on_purpose).run()

    assert known(store) == (3, True)
    registered.close()
    running.stop()
    assert Start(disk.process_crash(), store).run().history.incarnation == 4


def test_a_bookie_that_is_removed_from_the_cluster_while_it_starts_does_not_serve(
    store: MemoryStore,
) -> None:
    start = Start(served(store), store)
    start.open()
    BookieRegistry(store).delete_cookie(*BookieRegistry(store).cookies())

    with pytest.raises(CookieMismatchError, match="was removed from the cluster"):
        start.history.claim()


# ------------------------------------------------------------------ stopped bookies


def test_a_check_of_its_files_tells_what_the_cluster_knows(store: MemoryStore) -> None:
    disk = served(store)
    with check(disk, store, ONE_OF_EACH) as found:
        assert list(found.problems()) == []
    vanish(disk, "/j", "/l")

    with check(disk, store, ONE_OF_EACH) as found:
        problems = {one.path: one.reason for one in found.problems()}

    cluster = f"but the cluster knows {KnownHistory(2, has_served=True)}"
    assert problems["/l"] == f"has no incarnation and no last log mark, {cluster}"
    assert problems["/j"] == f"has no journal, {cluster}"


def test_a_loss_in_a_cluster_without_ledgers_is_refused_all_the_same(store: MemoryStore) -> None:
    disk = served(store)
    vanish(disk, "/j", "/l")

    with pytest.raises(LostHistoryError):
        Start(disk, store, next_ledger_id=0).open()

    start = Start(disk, store, next_ledger_id=0, is_wiped_on_purpose=True).run()
    assert not start.losses.reasons
    assert msgspec.structs.asdict(start.storage.limbo.limbo)["losses"] == ()
