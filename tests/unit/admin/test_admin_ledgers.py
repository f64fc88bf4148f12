"""Ledgers in the admin API: they are listed, found by filters, shown, read and deleted."""

import json
import re

import msgspec
import pytest

from tests.support.fake_client import BOOKIES
from tests.support.json_schema import check_answer
from tests.support.served_api import Api
from zbk.errors import CorruptRecordError, UnsupportedVersionError, ZbkError
from zbk.metadata.paths import ledger_path
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.values import LedgerLayout
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

LEDGER = LedgerMetadata(
    ledger_id=0,
    ensemble_size=1,
    write_quorum_size=1,
    ack_quorum_size=1,
    ledger_type=LedgerType.PD_JOURNAL,
    digest_type=DigestType.XXH3,
    password_digest=b"",
    fragments=(Fragment(0, (BOOKIES[0],)),),
    created_ms=0,
    creation_token="t",
)


def test_a_page_of_ledgers_has_those_beside_an_unreadable_one(
    reading: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ledger in range(3):
        reading.client.add_ledger([b"abc"])
    read = reading.client.get_ledger_metadata
    unreadable: list[ZbkError] = []

    def fail_for_one(ledger_id: int) -> LedgerMetadata:
        if ledger_id == 1:
            raise unreadable[-1]
        return read(ledger_id)

    monkeypatch.setattr(reading.client, "get_ledger_metadata", fail_for_one)
    for error in (UnsupportedVersionError("newer"), CorruptRecordError("/ledgers/1", 0, "bad")):
        unreadable.append(error)
        shown = reading.get("/api/v1/ledger/list", print_metadata="true")
        assert [ledger_id for ledger_id, one in shown.items() if one] == ["0", "2"]
        assert shown["1"] is None


def test_a_search_names_a_ledger_of_a_newer_zbk(reading: Api) -> None:
    ledgers = LedgerStore(reading.store)
    for _ledger in range(2):
        ledgers.create(lambda number: msgspec.structs.replace(LEDGER, ledger_id=number))
    path = ledger_path(0, LedgerLayout.HIERARCHICAL)
    node = reading.store.get(path)
    newer = msgspec.msgpack.decode(node.value) | {"format_version": 99}
    reading.store.set(path, msgspec.msgpack.encode(newer), node.version)

    found = reading.get("/api/v1/zbk/ledger/find")

    assert list(found["ledgers"]) == ["1"]
    assert "format version 99" in found["damaged"]["0"]


def test_ledgers_are_listed_shown_read_and_deleted(api: Api) -> None:
    for number in range(101):
        api.client.add_ledger([b"one", b"\xff", str(number).encode()])
        api.client.close_ledger(number)
    assert len(api.get("/api/v1/ledger/list")) == 101
    assert list(api.get("/api/v1/ledger/list", page=2)) == ["100"]
    shown = api.get("/api/v1/ledger/list", page=2, print_metadata="true")["100"]
    assert (shown["state"], shown["lastEntryId"], shown["closed"]) == ("CLOSED", 2, True)
    assert not re.search("password|key|token", json.dumps(shown), re.IGNORECASE)
    read = api.get("/api/v1/ledger/read", ledger_id=7)
    assert read == {"0": "one", "1": "\ufffd", "2": "7"}
    assert list(api.get("/api/v1/ledger/read", ledger_id=7, start_entry_id=2)) == ["2"]
    assert api.ask("DELETE", "/api/v1/ledger/delete", ledger_id=7).status == 200
    assert api.ask("GET", "/api/v1/ledger/metadata", ledger_id=7).status == 404


def test_ledgers_are_found_by_filters_piece_by_piece(api: Api) -> None:
    def make(ledger_id: int) -> LedgerMetadata:
        return msgspec.structs.replace(
            LEDGER,
            ledger_id=ledger_id,
            created_ms=ledger_id,
            custom_metadata={"job": b"odd" if ledger_id % 2 else b"even"},
            fragments=(Fragment(0, (BOOKIES[ledger_id % 3],)),),
        )

    ledgers = LedgerStore(api.store)
    ledgers.create_many(make, 120)
    ledgers.update(7, lambda now: now.with_closed(4, 50))

    def found(**filters: object) -> list[int]:
        answer = api.get("/api/v1/zbk/ledger/find", **filters)
        check_answer("GET", "/api/v1/zbk/ledger/find", answer)
        return [int(ledger_id) for ledger_id in answer["ledgers"]]

    first = api.get("/api/v1/zbk/ledger/find")
    assert (len(first["ledgers"]), first["next_ledger_id"]) == (100, 100)
    rest = api.get("/api/v1/zbk/ledger/find", from_ledger_id=100)
    assert (len(rest["ledgers"]), rest["next_ledger_id"]) == (20, None)
    assert found(state="CLOSED") == found(length_above=49) == found(length_below=51) == [7]
    assert found(length_above=50) == found(ledger_type="VD_JOURNAL") == []
    assert found(created_after_ms=9, created_before_ms=12) == [10, 11]
    assert found(custom_metadata="job%3Dodd", bookie_id=BOOKIES[0], created_before_ms=10) == [3, 9]
    for wrong in ({"state": "closed"}, {"custom_metadata": "job"}, {"from_ledger_id": -1}):
        assert api.ask("GET", "/api/v1/zbk/ledger/find", **wrong).status == 400
