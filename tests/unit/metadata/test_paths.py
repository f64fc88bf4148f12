"""Ledger ids to paths and back, and names that can be nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.errors import CorruptRecordError, InvalidOptionError
from zbk.metadata.paths import (
    SHORT_LEDGER_ID_MAX,
    UNDERREPLICATED_LEDGERS,
    UNREPAIRABLE_LEDGERS,
    check_bookie_id,
    cookie_path,
    in_id_order,
    is_ledger_name,
    ledger_id_of,
    ledger_path,
    registration_path,
    task_ledger_id,
    task_lock_of,
    task_lock_path,
    task_path,
)
from zbk.metadata.values import LedgerLayout
from zbk.protocol.entry.words import LEDGER_ID_MAX

layouts = st.sampled_from(LedgerLayout)
ledger_ids = st.one_of(
    st.integers(0, 20_000),
    st.integers(SHORT_LEDGER_ID_MAX - 20_000, SHORT_LEDGER_ID_MAX + 20_000),
    st.integers(0, LEDGER_ID_MAX),
)


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (1, "/ledgers/00/0000/L0001"),
        (12_345, "/ledgers/00/0001/L2345"),
        (2_147_483_646, "/ledgers/21/4748/L3646"),
        (2_147_483_647, "/ledgers/000/0000/0021/4748/L3647"),
        (9_223_372_036_854_775_807, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_hierarchical_paths_are_those_of_bookkeeper(ledger_id: int, path: str) -> None:
    assert ledger_path(ledger_id, LedgerLayout.HIERARCHICAL) == path


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [(0, "/ledgers/L0000000000"), (7, "/ledgers/L0000000007"), (10**12, "/ledgers/L1000000000000")],
)
def test_flat_paths_are_those_of_bookkeeper(ledger_id: int, path: str) -> None:
    assert ledger_path(ledger_id, LedgerLayout.FLAT) == path


@given(ledger_id=ledger_ids, layout=layouts)
def test_a_path_leads_back_to_its_id(ledger_id: int, layout: LedgerLayout) -> None:
    assert ledger_id_of(ledger_path(ledger_id, layout), layout) == ledger_id


@given(ids=st.lists(ledger_ids, min_size=1, max_size=30), layout=layouts)
def test_walking_names_in_id_order_gives_ascending_ids(
    ids: list[int], layout: LedgerLayout
) -> None:
    paths = {ledger_path(ledger_id, layout) for ledger_id in ids}

    def walk(prefix: str) -> list[str]:
        depth = len(prefix)
        names = {p[depth:].split("/")[0] for p in paths if p.startswith(prefix)}
        found = []
        for name in in_id_order(names):
            found += [prefix + name] if is_ledger_name(name) else walk(f"{prefix}{name}/")
        return found

    assert [ledger_id_of(path, layout) for path in walk("/ledgers/")] == sorted(set(ids))


@pytest.mark.parametrize("ledger_id", [-1, LEDGER_ID_MAX + 1])
@pytest.mark.parametrize("layout", LedgerLayout)
def test_an_impossible_ledger_id_has_no_path(ledger_id: int, layout: LedgerLayout) -> None:
    with pytest.raises(InvalidOptionError, match="ledger id"):
        ledger_path(ledger_id, layout)


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers/00/0000/L001",
        "/ledgers/00/0000/0001",
        "/ledgers/00/L0001",
        "/ledgers/21/4748/L3647",  # one over the short form
        "/ledgers/99/9999/L9999",
        "/ledgers/000/0000/0000/0000/L0001",  # belongs into the short form
        "/ledgers/999/9999/9999/9999/L9999",  # over 63 bits
        "/ledgers/00/0000/L0001/",
        "/ledgers/\u0660\u0660/0000/L0001",  # digits, and not ASCII
        "/ledgers/L0000000001",
        "/cookies/L0001",
        "",
    ],
)
def test_what_is_no_hierarchical_ledger_is_damage(path: str) -> None:
    with pytest.raises(CorruptRecordError, match="is not a ledger"):
        ledger_id_of(path, LedgerLayout.HIERARCHICAL)


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers/L1",
        "/ledgers/L00000000001",
        "/ledgers/L9999999999999999999",
        "/ledgers/00/0000/L0001",
    ],
)
def test_what_is_no_flat_ledger_is_damage(path: str) -> None:
    with pytest.raises(CorruptRecordError, match="is not a ledger"):
        ledger_id_of(path, LedgerLayout.FLAT)


@given(text=st.text(max_size=40), layout=layouts)
def test_no_text_crashes_the_parser(text: str, layout: LedgerLayout) -> None:
    for path in (text, f"/ledgers/{text}"):
        try:
            ledger_id = ledger_id_of(path, layout)
        except CorruptRecordError:
            continue
        assert ledger_path(ledger_id, layout) == path


@pytest.mark.parametrize("name", ["available", "x", "", "1", "00000", "\u0661\u0661"])
def test_a_strange_name_among_ledgers_is_damage(name: str) -> None:
    with pytest.raises(CorruptRecordError, match="part of the layout"):
        is_ledger_name(name)


@pytest.mark.parametrize("bookie_id", ["b1", "9f3c2a", "host-1.example:3181", "A" * 128])
def test_a_bookie_id_becomes_the_name_of_its_nodes(bookie_id: str) -> None:
    assert cookie_path(bookie_id) == f"/cookies/{bookie_id}"
    assert registration_path(bookie_id, is_readonly=False) == f"/available/{bookie_id}"
    assert registration_path(bookie_id, is_readonly=True) == f"/available/readonly/{bookie_id}"


@pytest.mark.parametrize(
    "bookie_id", ["", "readonly", ".", "..", "a/b", "a b", "-x", "\u00e9", "A" * 129, "a\n", "a\0"]
)
def test_an_id_that_can_be_no_name_is_refused(bookie_id: str) -> None:
    with pytest.raises(InvalidOptionError, match="bookie id"):
        check_bookie_id(bookie_id)


def test_tasks_have_the_paths_of_their_ledgers_in_any_folder() -> None:
    assert task_path(UNDERREPLICATED_LEDGERS, 12_345) == "/underreplication/ledgers/00/0001/L2345"
    assert task_path(UNREPAIRABLE_LEDGERS, 1) == "/underreplication/unrepairable/00/0000/L0001"


@given(ledger_id=ledger_ids)
def test_the_path_of_a_task_says_whose_it_is(ledger_id: int) -> None:
    path = task_path(UNREPAIRABLE_LEDGERS, ledger_id)

    assert task_ledger_id(UNREPAIRABLE_LEDGERS, path) == ledger_id


@given(ledger_id=ledger_ids, token=st.sampled_from(["", "0a1b"]))
def test_the_name_of_a_lock_says_whose_it_is(ledger_id: int, token: str) -> None:
    name = task_lock_path(ledger_id, token).rpartition("/")[2]

    assert task_lock_of(name) == (ledger_id, token)


@pytest.mark.parametrize("name", ["", "L", "7", "L7.", "L7.x", "L99999999999999999999", "L-1"])
def test_a_name_that_is_no_lock_is_damage(name: str) -> None:
    with pytest.raises(CorruptRecordError):
        task_lock_of(name)
