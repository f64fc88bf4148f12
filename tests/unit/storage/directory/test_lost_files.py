"""Storage that lost index files or entry logs: what is noted, what is found again, what is not."""

from collections.abc import Callable
from random import Random

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import BOOKIE_ID, KEY, LedgerTwin, TwinnedStorage, read_all
from tests.support.power_cuts import crashed_at_each_step, power_cuts
from tests.support.scrubbing import scrub
from tests.support.simulated_disk import SimulatedDisk
from zbk.actors.identity.losses import Losses
from zbk.durability.limbo import LossReason
from zbk.errors import BookieError, CorruptRecordError, InvalidOptionError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.bookie_storage import BookieStorage
from zbk.storage.directory.lost_files import SCOPE_RANGE_COUNT_MAX, LostFiles, look, scope_of
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.format import encode_block_header, log_seed
from zbk.storage.entry_logs.location import split_location
from zbk.storage.journal.last_mark import LastMark
from zbk.storage.tools.rebuild_sources import LedgerSecret
from zbk.storage.tools.reindex import Reindex

OWNER = BOOKIE_ID.encode()
NEXT_ID = 20


def secret_of(ledger_id: int) -> LedgerSecret | None:
    """Answer as the metadata store does."""
    return None if ledger_id == 9 else LedgerSecret(KEY, LedgerType.PD_JOURNAL)


def filled(*, log_size_max: int = 1 << 20) -> TwinnedStorage:
    """Return storage after a checkpoint, with three ledgers in its index, and then killed."""
    twin = TwinnedStorage(SimulatedDisk(), log_size_max=log_size_max)
    twin.open()
    for ledger_id in (3, 4, 7):
        twin.add(ledger_id, range(5))
        twin.add(ledger_id, range(2_000, 2_003))
    twin.sync()
    twin.finish_checkpoint()
    return twin


def found(disk: SimulatedDisk) -> LostFiles:
    return look(disk, "/l", OWNER)


def index_file(disk: SimulatedDisk, ledger_id: int) -> str:
    (path,) = disk.paths(f"{ledger_id:016x}.idx")
    return path


def note_losses(twin: TwinnedStorage) -> None:
    """Do what a start does ahead of storage."""
    losses = Losses(twin.disk, twin.storage.limbo, ["/l"], "boot")
    losses.find(lambda: NEXT_ID, is_wiped_on_purpose=False)
    losses.find_lost_files(OWNER, lambda: NEXT_ID)


def start(twin: TwinnedStorage) -> BookieStorage:
    note_losses(twin)
    twin.storage.open(secret_of)
    return twin.storage


def unknown(storage: BookieStorage) -> list[int]:
    limbo = storage.limbo.limbo
    return [one for one in range(NEXT_ID) if limbo.is_miss_unknown(one, LedgerType.PD_JOURNAL)]


def test_nothing_is_missed_where_nothing_is_gone() -> None:
    assert not found(SimulatedDisk()).is_any
    assert not found(filled().disk).is_any


def test_storage_does_not_open_while_nobody_has_noted_what_is_gone() -> None:
    twin = filled()
    twin.kill()
    twin.disk.remove_at_rest(index_file(twin.disk, 4))

    with pytest.raises(BookieError, match="1 ledgers, 4 among them"):
        twin.open()


def test_what_came_after_the_mark_is_replayed_into_the_index_that_is_made_anew() -> None:
    """The key record lies before the mark: without the key a replay leaves all of it out."""
    twin = filled()
    twin.add(4, range(5, 9))
    twin.fence(4)
    twin.sync()
    twin.kill()
    for path in twin.disk.paths(".idx"):
        twin.disk.remove_at_rest(path)

    start(twin)

    twin.check()
    assert unknown(twin.storage) == []
    assert [one for one in range(NEXT_ID) if twin.storage.limbo.limbo.may_lack_fence(one)] == [
        3,
        4,
        7,
    ]


def test_a_ledger_of_which_only_the_journal_has_entries_is_taken_in_by_its_replay() -> None:
    twin = filled()
    twin.storage.homes.place(8).home.cache.set_ledger_key(8, KEY, LedgerType.PD_JOURNAL)
    twin.attempted[8] = LedgerTwin()  # so its key record is not journaled behind the mark
    twin.finish_checkpoint()
    (log,) = twin.disk.paths("/l/logs/")
    size = len(twin.disk.content(log))
    twin.add(8, range(4))
    twin.sync()
    twin.kill()
    twin.disk.set_content(log, twin.disk.content(log)[:size])  # the power was lost
    twin.disk.remove_at_rest(index_file(twin.disk, 8))

    start(twin)

    twin.check()
    assert unknown(twin.storage) == []


def test_a_ledger_that_the_metadata_do_not_know_any_more_is_left_out() -> None:
    twin = filled()
    twin.add(9, range(4))
    twin.sync()
    twin.finish_checkpoint()
    twin.kill()
    twin.disk.remove_at_rest(index_file(twin.disk, 9))

    storage = start(twin)

    assert storage.ledgers() == [3, 4, 7]
    assert unknown(storage) == [9]


def test_a_key_that_only_a_password_tells_leaves_its_ledger_in_limbo() -> None:
    def ask(ledger_id: int) -> LedgerSecret | None:
        if ledger_id == 4:
            raise InvalidOptionError("password", "...", "needed")
        return secret_of(ledger_id)

    twin = filled()
    twin.kill()
    for ledger_id in (3, 4):
        twin.disk.remove_at_rest(index_file(twin.disk, ledger_id))
    note_losses(twin)

    twin.storage.open(ask)

    assert twin.storage.ledgers() == [3, 7]
    assert unknown(twin.storage) == [4]


def test_an_index_file_that_goes_while_the_bookie_runs_is_damage_and_no_answer() -> None:
    twin = filled()
    twin.kill()
    twin.open()
    twin.disk.remove_at_rest(index_file(twin.disk, 4))

    with pytest.raises(CorruptRecordError, match="is gone"):
        twin.storage.homes.info(4)

    twin.storage.homes.ledger(4).home.cache.delete(4)
    assert twin.storage.homes.info(4) is None


def test_an_index_file_that_is_cut_inside_its_header_is_gone() -> None:
    for size in (0, 1, 1_023):
        twin = filled()
        twin.kill()
        path = index_file(twin.disk, 4)
        twin.disk.set_content(path, twin.disk.content(path)[:size])
        assert found(twin.disk).short_ids == (4,)

        start(twin)

        twin.check()


def test_a_block_that_is_damaged_leaves_its_ledger_in_limbo_and_no_other() -> None:
    twin = filled()
    twin.kill()
    (log,) = twin.disk.paths("/logs/")
    at = twin.disk.content(log).index(b"4/2001 ")
    for path in twin.disk.paths(".idx"):
        twin.disk.remove_at_rest(path)
    twin.disk.flip_bit(log, 8 * at)

    storage = start(twin)

    assert unknown(storage) == [4]
    assert read_all(storage, 4, range(5))
    assert storage.limbo.limbo.reasons == (LossReason.INDEX_LOST,)


@pytest.mark.parametrize("is_of_another_ledger", [True, False])
def test_a_block_that_holds_something_else_leaves_its_ledger_doubtful(
    is_of_another_ledger: bool,
) -> None:
    """Every checksum fits: it was written so."""
    twin = filled()
    twin.kill()
    (path,) = twin.disk.paths("/logs/")
    content = twin.disk.content(path)
    batch = batch_of(4, range(5, 8))
    body = batch_of(5, range(5, 8)).body if is_of_another_ledger else bytes(batch.size)
    other = EntryBatch.of(4, batch.entry_ids, batch.sizes, body)
    block = encode_block_header(other, log_seed(OWNER, 1)) + body
    twin.disk.set_content(path, content + block)

    report = Reindex(
        twin.disk,
        "/l",
        owner=OWNER,
        lost=LedgerRanges((3,), (7,)),
        least_sizes={1: len(content) + len(block)},
        ask_others=secret_of,
        fail_stop=FailStop(),
    ).run()

    assert (set(report.doubtful_ids), report.doubt) == ({4}, "")
    assert report.entry_count == 24


@pytest.mark.parametrize("is_short", [True, False])
def test_without_a_log_no_ledger_is_whole(is_short: bool) -> None:
    """The log was not sealed: the last mark tells how much of it was on stable storage."""
    twin = filled()
    twin.add(3, range(5, 9))
    twin.sync()
    twin.kill()
    (log,) = twin.disk.paths("/logs/")
    mark = LastMark(twin.disk, "/l", FailStop()).look()
    assert mark is not None
    if is_short:
        twin.disk.set_content(log, twin.disk.content(log)[: mark.entry_log_size - 1])
    else:
        twin.disk.remove_at_rest(log)
    twin.disk.remove_at_rest(index_file(twin.disk, 4))
    assert [one.path for one in found(twin.disk).logs] == [log]

    storage = start(twin)

    assert unknown(storage) == [4]
    assert storage.ledgers() == ([3, 4, 7] if is_short else [3, 7])


def test_a_log_that_is_cut_behind_what_the_mark_knows_of_is_whole() -> None:
    twin = filled()
    size = len(twin.disk.content(twin.disk.paths("/logs/")[0]))
    twin.add(3, range(5, 9))
    twin.sync()
    twin.kill()
    (log,) = twin.disk.paths("/logs/")
    twin.disk.set_content(log, twin.disk.content(log)[: size + 60])
    twin.disk.remove_at_rest(index_file(twin.disk, 4))

    start(twin)

    twin.check()
    assert unknown(twin.storage) == []


def test_logs_beyond_what_a_start_reads_leave_ledgers_in_limbo() -> None:
    twin = filled(log_size_max=400)
    twin.kill()
    lost = found(twin.disk)
    assert len(twin.disk.paths("/logs/")) > 3

    reports = [
        Reindex(
            twin.disk,
            "/l",
            owner=OWNER,
            lost=LedgerRanges((3,), (7,)),
            least_sizes=lost.least_sizes,
            ask_others=secret_of,
            fail_stop=FailStop(),
            size_max=size_max,
        ).run()
        for size_max in (900, 1 << 20)
    ]

    assert "rebuild-index" in reports[0].doubt
    assert 0 < reports[0].entry_count < reports[1].entry_count == 24
    assert reports[1].doubt == ""


def test_a_lost_census_puts_every_ledger_without_an_index_file_into_limbo() -> None:
    for damage in ("gone", "cut", "flipped"):
        twin = filled()
        twin.kill()
        twin.disk.remove_at_rest(index_file(twin.disk, 4))
        content = twin.disk.content("/l/census")
        if damage == "gone":
            twin.disk.remove_at_rest("/l/census")
        else:
            other = content[:-1] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:]
            twin.disk.set_content("/l/census", other)

        storage = start(twin)

        assert unknown(storage) == [one for one in range(NEXT_ID) if one not in {3, 7}]
        assert read_all(storage, 4, range(5)), "it was made anew all the same"
        checkpoint = storage.begin_checkpoint()
        checkpoint.run()
        storage.end_checkpoint(checkpoint)
        twin.kill()
        again = found(twin.disk)
        assert not again.is_any
        assert again.least_sizes is None, "nobody knows which logs there were"


def test_a_crash_or_a_power_cut_at_any_step_of_such_a_start_loses_nothing() -> None:
    twins: list[TwinnedStorage] = []

    def prepare(disk: SimulatedDisk) -> Callable[[], object]:
        twin = TwinnedStorage(disk)
        twins.append(twin)
        twin.open()
        for ledger_id in (3, 4):
            twin.add(ledger_id, range(5))
        twin.sync()
        twin.finish_checkpoint()
        twin.kill()
        for path in disk.paths(".idx"):
            disk.remove_at_rest(path)
        return lambda: start(twin)

    cut_count = 0
    for disk, step in crashed_at_each_step(prepare):
        for after in power_cuts(disk, Random(step), 3):
            cut_count += 1
            storage = TwinnedStorage(after)
            start(storage)
            storage.attempted = storage.written = storage.promised = twins[-1].promised
            storage.check()
            denied = [one for one in (3, 4) if one not in unknown(storage.storage)]
            assert set(denied) <= set(storage.storage.ledgers()), "what is denied is whole"
    assert cut_count > 50


@pytest.mark.parametrize(
    ("least_size_of", "doubt"),
    [
        (lambda size: size, ""),
        (lambda _size: 0, "is not known"),
        (lambda size: size + 1, "bytes, and had"),
    ],
    ids=["as it was", "unknown", "shorter"],
)
def test_ledgers_are_whole_only_where_each_log_is_known_to_be_as_long_as_it_was(
    least_size_of: Callable[[int], int], doubt: str
) -> None:
    """Of a log that lost its end nothing tells which ledger's entries were there."""
    twin = filled()
    twin.kill()
    (path,) = twin.disk.paths("/l/logs/")
    size = len(twin.disk.content(path))
    report = Reindex(
        twin.disk,
        "/l",
        owner=OWNER,
        lost=LedgerRanges((3,), (7,)),
        least_sizes={1: least_size_of(size)},
        ask_others=secret_of,
        fail_stop=FailStop(),
    ).run()

    assert report.entry_count == 24
    assert doubt in report.doubt
    assert bool(report.doubt) is bool(doubt)


def test_a_lost_log_is_not_forgotten_while_a_lost_index_may_have_pointed_there() -> None:
    """Nothing points there now: the index that did is lost as well."""
    twin = filled(log_size_max=400)
    places = twin.storage.homes.ledger(4).resolve(range(5), 1 << 20)
    assert places is not None
    log_id = split_location(places.locations[0])[0]
    twin.kill()
    twin.disk.remove_at_rest(index_file(twin.disk, 4))
    twin.disk.remove_at_rest(f"/l/logs/{log_id:08x}.log")

    for _ in range(2):
        storage = start(twin)
        (view,) = storage.scrubs
        assert log_id in view.lost_logs
        scrub(storage)
        assert log_id in view.lost_logs
        storage.close()
        twin.kill()


def test_a_loss_in_too_many_places_is_taken_for_one_from_the_first_to_the_last() -> None:
    ids = range(10, 10 + 2 * SCOPE_RANGE_COUNT_MAX + 2, 2)
    half = len(ids) // 2
    lost = [
        LostFiles("/l1", ledger_ids=tuple(ids[:half])),
        LostFiles("/l2", ledger_ids=tuple(ids[half:])),
    ]

    assert scope_of(lost, ids[-1] + 100) == LedgerRanges((ids[0],), (ids[-1],))
    assert scope_of(lost[:1], ids[-1] + 100).range_count == half, "it fits"
