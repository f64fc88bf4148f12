"""A start makes lost index files anew out of entry logs and the journal; the rest is in limbo."""

from collections.abc import Callable

import pytest

from tests.support.batches import batch_of
from tests.support.bookie_storages import KEY, LedgerTwin, read_all
from tests.support.lost_files import (
    NEXT_ID,
    OWNER,
    filled,
    found,
    index_file,
    note_losses,
    secret_of,
    start,
    unknown,
)
from zbk.durability.limbo import LossReason
from zbk.errors import InvalidOptionError
from zbk.protocol.entry.entry_batch import EntryBatch
from zbk.protocol.entry.words import LedgerType
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import LedgerRanges
from zbk.storage.entry_logs.format import encode_block_header, log_seed
from zbk.storage.journal.last_mark import LastMark
from zbk.storage.tools.rebuild_sources import LedgerSecret
from zbk.storage.tools.reindex import Reindex


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
