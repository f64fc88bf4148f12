"""The rules of data sets: versions, loads, what goes on top of what, what is wanted."""

from typing import Any

import msgspec
import pytest

from zbk.errors import (
    DataSetConflictError,
    IllegalTransitionError,
    LoadAbortedError,
    NoSuchVersionError,
)
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.metadata.values import decode, encode
from zbk.protocol.dataset.dataset import (
    MANIFEST_COUNT_MAX,
    STREAM_COUNT_MAX,
    TEXT_SIZE_MAX,
    VERSION_COUNT_MAX,
    Contents,
    DataSet,
    Load,
    LoadKind,
    LoadState,
    Version,
    expiry_ms,
    is_wanted,
    new_load_id,
    password_check,
)
from zbk.protocol.entry.words import LEDGER_ID_MAX

EMPTY = DataSet(name="events", data_set_id="00" * 16, created_ms=0)
COUNTS = {"ledger_count": 2, "row_count": 30, "size": 400}


def load(load_id: str = "1", kind: LoadKind = LoadKind.APPEND, **fields: Any) -> Load:  # noqa: ANN401 - of any field
    return Load(
        load_id=load_id,
        data_set_id=EMPTY.data_set_id,
        kind=kind,
        **{
            "base_version": 0,
            "first_ledger_id": 0,
            "started_ms": 0,
            "expires_ms": 100,
            "who": "me",
            **fields,
        },
    )


def contents(manifest: int, **fields: Any) -> Contents:  # noqa: ANN401 - of any field
    wanted: dict[str, Any] = {"schema_hash": "s", "password_check": "p", **COUNTS, **fields}
    return Contents(manifest=manifest, **wanted)


def commit(data_set: DataSet, one: Load, given: Contents, merged: Version | None = None) -> DataSet:
    """Commit a load that can be."""
    found = data_set.committed(one, given, 7, merged)
    assert found is not None
    assert found[1].state is LoadState.COMMITTED
    return found[0]


def filled(count: int) -> DataSet:
    """Return a data set after so many appends, which have manifests 0, 1, ..."""
    data_set = EMPTY
    for number in range(count):
        data_set = commit(data_set, load(f"{number}"), contents(number))
    return data_set


# ------------------------------------------------------------------ commits


def test_a_commit_makes_a_version_and_ends_the_load() -> None:
    found = EMPTY.committed(load(), contents(5), 7)

    assert found is not None
    data_set, done = found
    assert data_set.current == Version(
        version=1, load_id="1", kind=LoadKind.APPEND, committed_ms=7, who="me", manifests=(5,),
        schema_hash="s", password_check="p", **COUNTS,
    )  # fmt: skip
    assert (done.state, done.version, done.manifest) == (LoadState.COMMITTED, 1, 5)
    assert data_set.next_version == 2


def test_an_append_goes_on_top_of_whatever_is_last_when_it_commits() -> None:
    data_set = commit(filled(2), load("late", base_version=1), contents(9))

    current = data_set.current
    assert current is not None
    assert (current.version, current.manifests) == (3, (0, 1, 9))
    assert (current.ledger_count, current.row_count, current.size) == (6, 90, 1200)


def test_an_overwrite_lists_its_own_ledgers_only() -> None:
    data_set = commit(filled(2), load("o", LoadKind.OVERWRITE, base_version=2), contents(9))

    assert data_set.current is not None
    assert data_set.current.manifests == (9,)
    assert data_set.current.row_count == 30
    assert data_set.version(2).manifests == (0, 1), "the version before it can still be read"


def test_an_overwrite_that_was_overtaken_is_a_conflict() -> None:
    with pytest.raises(DataSetConflictError, match=r"version 2 was committed since .* version 1"):
        filled(2).committed(load("o", LoadKind.OVERWRITE, base_version=1), contents(9), 7)


def test_an_overwrite_may_change_schema_and_password_and_an_append_may_not() -> None:
    data_set = filled(1)
    overwrite = load("o", LoadKind.OVERWRITE, base_version=1)

    changed = commit(data_set, overwrite, contents(9, schema_hash="t", password_check="q"))

    assert changed.current is not None
    assert changed.current.schema_hash == "t"
    with pytest.raises(DataSetConflictError, match="another schema"):
        data_set.committed(load("a"), contents(9, schema_hash="t"), 7)
    with pytest.raises(DataSetConflictError, match="another password"):
        data_set.committed(load("a"), contents(9, password_check="q"), 7)


def test_a_commit_of_a_committed_load_changes_nothing() -> None:
    first = EMPTY.committed(load(), contents(5), 7)
    assert first is not None

    again = first[0].committed(first[1], contents(6), 8)

    assert again == first
    assert again[0] is first[0]


def test_a_commit_of_an_aborted_load_is_refused() -> None:
    with pytest.raises(LoadAbortedError):
        EMPTY.committed(load().aborted(), contents(5), 7)


def test_an_expired_load_that_nobody_aborted_may_commit() -> None:
    late = load(expires_ms=6)

    assert late.is_expired(6)
    assert not late.is_expired(5)
    assert commit(EMPTY, late, contents(5)).current_version == 1


def test_an_abort_of_a_load_that_has_ended_changes_nothing() -> None:
    committed = EMPTY.committed(load(), contents(5), 7)
    assert committed is not None
    done = committed[1]

    assert done.aborted() is done
    assert load().aborted().state is LoadState.ABORTED
    assert load().aborted().aborted() == load().aborted()
    assert not done.is_expired(10**15)


@pytest.mark.parametrize(
    "fields",
    [
        {"state": LoadState.COMMITTED},
        {"state": LoadState.COMMITTED, "version": 3},
        {"version": 3, "manifest": 4},
        {"stream": "s"},
        {"batch_id": 1},
    ],
)
def test_impossible_loads_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(IllegalTransitionError):
        load(**fields)


# ------------------------------------------------------------------ manifests


def test_a_version_with_many_manifests_has_to_be_merged() -> None:
    full = filled(MANIFEST_COUNT_MAX)
    assert full.needs_merge
    assert not filled(MANIFEST_COUNT_MAX - 1).needs_merge

    assert full.committed(load("a"), contents(99), 7) is None, "without it it is not committed"
    merged = commit(full, load("a"), contents(99), full.current)

    assert merged.current is not None
    assert merged.current.manifests == (99,)
    assert merged.current.row_count == 30 * (MANIFEST_COUNT_MAX + 1)
    assert not merged.needs_merge


def test_a_merge_of_what_is_not_the_last_version_any_more_is_made_again() -> None:
    full = filled(MANIFEST_COUNT_MAX)
    other = commit(full, load("other"), contents(98), full.current)

    assert other.committed(load("a"), contents(99), 7, full.current) is None
    assert commit(other, load("a"), contents(99)).current_version == MANIFEST_COUNT_MAX + 2


def test_an_overwrite_never_has_to_merge() -> None:
    full = filled(MANIFEST_COUNT_MAX)
    overwrite = load("o", LoadKind.OVERWRITE, base_version=MANIFEST_COUNT_MAX)

    assert not commit(full, overwrite, contents(99)).needs_merge


# ------------------------------------------------------------------ micro-batches


def test_a_batch_is_committed_once_whatever_load_brings_it() -> None:
    data_set = commit(EMPTY, load("1", stream="s", batch_id=4), contents(5))

    for batch_id in (3, 4):
        twin = load("2", stream="s", batch_id=batch_id)
        found = data_set.committed(twin, contents(6), 8)
        assert found is not None
        assert found[0] is data_set
        assert found[1].state is LoadState.ABORTED, "what it has written is wanted by nobody"
        again = data_set.committed(found[1], contents(6), 8)
        assert again == found, "asked again, it says the same, and no error"


def test_the_next_batch_and_another_stream_are_committed() -> None:
    data_set = commit(EMPTY, load("1", stream="s", batch_id=4), contents(5))
    data_set = commit(data_set, load("2", stream="s", batch_id=5), contents(6))
    data_set = commit(data_set, load("3", stream="t", batch_id=0), contents(7))

    assert data_set.batch_by_stream == {"s": 5, "t": 0}
    assert data_set.current_version == 3


def test_one_stream_too_many_takes_the_place_of_the_one_that_was_silent_longest() -> None:
    data_set = msgspec.structs.replace(
        EMPTY, batch_by_stream={f"{n}": 0 for n in range(STREAM_COUNT_MAX)}
    )

    data_set = commit(data_set, load("1", stream="0", batch_id=1), contents(5))
    data_set = commit(data_set, load("2", stream="new", batch_id=0), contents(6))

    known = data_set.batch_by_stream
    assert (len(known), known["0"], known["new"]) == (STREAM_COUNT_MAX, 1, 0)
    assert "1" not in known, "it has not committed since the others did"
    assert list(known)[-2:] == ["0", "new"]
    again = commit(data_set, load("3", stream="1", batch_id=4), contents(7))
    assert again.current_version == 3, "a stream that was forgotten goes on"


def test_a_version_tells_who_committed_it_if_that_is_known_better_than_at_the_beginning() -> None:
    told = msgspec.structs.replace(contents(5), who="ada@host spark app-1")

    assert commit(EMPTY, load("1"), told).versions[-1].who == "ada@host spark app-1"
    assert commit(EMPTY, load("1"), contents(5)).versions[-1].who == load("1").who


# ------------------------------------------------------------------ versions


def test_versions_are_found_by_number_and_the_last_one_by_none() -> None:
    data_set = filled(3)

    assert data_set.version(None) is data_set.version(3) is data_set.current
    assert data_set.version(1).manifests == (0,)
    for number in (0, 4, -1):
        with pytest.raises(NoSuchVersionError, match="the last one is 3"):
            data_set.version(number)
    for wanted in (None, 1):
        with pytest.raises(NoSuchVersionError, match="no version yet"):
            EMPTY.version(wanted)


def test_any_version_but_the_last_can_go_and_numbers_are_not_used_again() -> None:
    data_set = filled(3).without_version(2)

    assert [one.version for one in data_set.versions] == [1, 3]
    with pytest.raises(DataSetConflictError, match="is the last one"):
        data_set.without_version(3)
    with pytest.raises(NoSuchVersionError):
        data_set.without_version(2)
    assert commit(data_set, load("4"), contents(9)).current_version == 4


def test_a_commit_beyond_the_limit_lets_the_oldest_version_go() -> None:
    data_set = msgspec.structs.replace(filled(1), versions=())
    for number in range(VERSION_COUNT_MAX + 2):
        overwrite = load(f"{number}", LoadKind.OVERWRITE, base_version=data_set.current_version)
        data_set = commit(data_set, overwrite, contents(number))

    assert len(data_set.versions) == VERSION_COUNT_MAX
    assert data_set.versions[0].version == 4
    assert data_set.current_version == VERSION_COUNT_MAX + 3


@pytest.mark.parametrize("numbers", [(2, 2), (2, 1), (0,), (3,)])
def test_versions_that_do_not_ascend_are_refused(numbers: tuple[int, ...]) -> None:
    version = filled(1).versions[0]
    versions = tuple(msgspec.structs.replace(version, version=number) for number in numbers)

    with pytest.raises(IllegalTransitionError):
        DataSet(name="x", data_set_id="0", created_ms=0, next_version=3, versions=versions)


def test_the_largest_data_set_fits_into_one_value_of_the_store() -> None:
    """256 versions of 32 manifests, 256 streams, the longest texts, the largest numbers."""
    version = Version(
        version=1,
        load_id=new_load_id(2**48 - 1, "f" * 32),
        kind=LoadKind.OVERWRITE,
        committed_ms=2**62,
        who="w" * TEXT_SIZE_MAX,
        manifests=(LEDGER_ID_MAX,) * MANIFEST_COUNT_MAX,
        schema_hash="f" * 16,
        password_check=password_check(b"x", "f" * 32),
        ledger_count=2**62,
        row_count=2**62,
        size=2**62,
    )
    start = 2**40
    largest = DataSet(
        name="n" * 128,
        data_set_id="f" * 32,
        created_ms=2**62,
        next_version=start + VERSION_COUNT_MAX,
        versions=tuple(
            msgspec.structs.replace(version, version=start + n) for n in range(VERSION_COUNT_MAX)
        ),
        batch_by_stream={f"{n:0{TEXT_SIZE_MAX}}": 2**62 for n in range(STREAM_COUNT_MAX)},
    )
    last = load(new_load_id(2**48 - 1, "f" * 32), who="w" * TEXT_SIZE_MAX, expires_ms=2**62)

    value = encode(largest)

    assert len(value) + len(encode(last)) + 4096 < VALUE_SIZE_MAX, "both go in one multi"
    assert decode(DataSet, value, "/x") == largest


# ------------------------------------------------------------------ what is known and wanted


def test_a_forgotten_load_is_known_by_its_version() -> None:
    filled(3).check_remembered("1", base_version=1)


def test_a_forgotten_load_that_is_no_later_version_was_aborted() -> None:
    with pytest.raises(LoadAbortedError):
        filled(3).check_remembered("x", base_version=1)
    with pytest.raises(LoadAbortedError):
        EMPTY.check_remembered("x", base_version=0)


def test_of_a_forgotten_load_whose_version_may_have_gone_nobody_says_that_it_was_aborted() -> None:
    data_set = filled(3).without_version(2)

    with pytest.raises(DataSetConflictError, match="it may be visible"):
        data_set.check_remembered("x", base_version=1)
    with pytest.raises(LoadAbortedError):
        data_set.check_remembered("x", base_version=2)


def test_a_ledger_is_wanted_while_a_version_lists_it_or_its_load_is_open() -> None:
    committed = EMPTY.committed(load(), contents(5), 7)
    assert committed is not None
    ended = (committed[1], load().aborted(), None)

    assert is_wanted(7, load(), set())
    for one in ended:
        assert is_wanted(7, one, {7})
        assert not is_wanted(7, one, {8})


def test_load_ids_tell_when_their_time_is_over_and_sort_by_it() -> None:
    token = "0123456789abcdef0123456789abcdef"
    times_ms = [0, 1, 1_700_000_000_000, 2**48 - 1]

    ids = [new_load_id(time_ms, token) for time_ms in times_ms]

    assert [expiry_ms(one) for one in ids] == times_ms
    assert ids == sorted(ids)
    assert {len(one) for one in ids} == {32}


def test_password_checks_differ_by_password_and_by_data_set() -> None:
    one, other = "0" * 31 + "1", "1" + "0" * 31

    assert password_check(b"a", one) == password_check(b"a", one)
    assert (
        len({password_check(b"a", one), password_check(b"", one), password_check(b"a", other)}) == 3
    )
