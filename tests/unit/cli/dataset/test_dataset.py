"""`zbk dataset ...`, against data sets in memory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from tests.support.cli import Run
from tests.support.fake_data_sets import SCHEMA, FakeDataSetClient, write_ledger
from tests.support.memory_store import MemoryTree
from tests.support.waiting import wait_until
from zbk.cli.dataset.schema import columns_of
from zbk.cli.main import cli
from zbk.cli.session import Session
from zbk.client.api import Client
from zbk.client.dataset.datasets import DataSets
from zbk.errors import LoadAbortedError
from zbk.metadata.records.ledgers import initialise
from zbk.protocol.dataset.dataset import LoadKind
from zbk.protocol.dataset.manifest import ColumnStats, DataLedger
from zbk.system.clock import wall_ms

NESTED = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {
            "name": "tags",
            "type": {
                "type": "map",
                "keyType": "string",
                "valueType": {"type": "array", "elementType": "date", "containsNull": True},
                "valueContainsNull": True,
            },
        },
        {
            "name": "at",
            "type": {"type": "struct", "fields": [{"name": "x", "type": "decimal(9,2)"}]},
        },
    ],
}


@pytest.fixture
def client() -> Iterator[FakeDataSetClient]:
    store = MemoryTree("cli").open_session()
    initialise(store)
    yield FakeDataSetClient(store, {})
    store.close()


@pytest.fixture
def run(client: FakeDataSetClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("ZBK_METADATA", "ZBK_PASSWORD", "ZBK_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def invoke(*arguments: str, stdin: bytes | None = None) -> Result:
        session = Session(lambda _metadata: cast("Client", client))
        return CliRunner().invoke(cli, list(arguments), input=stdin, obj=session)

    return invoke


@pytest.fixture
def sets(client: FakeDataSetClient) -> DataSets:
    return client.data_sets(wall_ms)


def load(
    sets: DataSets,
    name: str = "events",
    *,
    kind: LoadKind = LoadKind.APPEND,
    failed_count: int = 0,
    schema: bytes = SCHEMA,
) -> DataLedger:
    """Commit a load of one ledger with three rows, beside which some attempts have failed."""
    ticket = sets.begin(name, kind, who="ada")
    for attempt in range(failed_count):
        write_ledger(sets, ticket, attempt=attempt)
    plain = write_ledger(sets, ticket, 3, attempt=failed_count)
    ledger = DataLedger(
        **{field: getattr(plain, field) for field in plain.__struct_fields__ if field != "columns"},
        columns={
            "id": ColumnStats(null_count=0, low=1, high=9),
            "raw": ColumnStats(null_count=3),
            "share": ColumnStats(null_count=0, low=float("-inf"), high=float("inf")),
        },
    )
    sets.commit(ticket, schema, [ledger])
    return ledger


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


# ------------------------------------------------------------------ ls, history


def test_ls_lists_the_data_sets_with_their_last_version(run: Run, sets: DataSets) -> None:
    load(sets)
    load(sets)
    sets.begin("empty")

    table = run("dataset", "ls").stdout.splitlines()
    found = rows(run("dataset", "ls", "-o", "json"))

    assert table[0].split() == [
        "DATASET", "VERSION", "ROW-COUNT", "LEDGER-COUNT", "SIZE", "COMMITTED", "WHO",
    ]  # fmt: skip
    assert table[1].split() == ["empty", "-", "-", "-", "-", "-", "-"]
    assert [(one["dataset"], one["version"], one["row_count"], one["who"]) for one in found] == [
        ("empty", None, None, None), ("events", 2, 6, "ada"),
    ]  # fmt: skip


def test_ls_of_nothing_is_nothing(run: Run) -> None:
    assert rows(run("dataset", "ls", "-o", "json")) == []


def test_history_lists_the_versions_the_oldest_first(run: Run, sets: DataSets) -> None:
    load(sets)
    load(sets)
    load(sets, kind=LoadKind.OVERWRITE)

    found = rows(run("dataset", "history", "events", "-o", "json"))

    assert [(one["version"], one["kind"], one["row_count"]) for one in found] == [
        (1, "append", 3), (2, "append", 6), (3, "overwrite", 3),
    ]  # fmt: skip
    assert run("dataset", "history", "events").stdout.splitlines()[0].startswith("VERSION  KIND")


@pytest.mark.parametrize("command", [["show"], ["history"], ["drop", "--yes"], ["gc"]])
def test_a_data_set_that_is_not_there_is_one_line(run: Run, command: list[str]) -> None:
    result = run("dataset", *command, "nope")

    assert result.exit_code == 1
    assert result.stderr == "zbk: no data set 'nope': `zbk dataset ls` lists the data sets\n"


# ------------------------------------------------------------------ show


def test_show_shows_columns_and_loads_under_way(run: Run, sets: DataSets) -> None:
    load(sets, schema=json.dumps(NESTED).encode())
    ticket = sets.begin("events", who="bob", ttl_ms=1)

    table = run("dataset", "show", "events").stdout
    (found,) = rows(run("dataset", "show", "events", "-o", "json"))

    assert (found["version"], found["row_count"], found["version_count"]) == (1, 3, 1)
    assert found["columns"] == [
        {"column": "id", "type": "long"},
        {"column": "tags", "type": "map<string,array<date>>"},
        {"column": "at", "type": "struct<x:decimal(9,2)>"},
    ]
    assert [(one["load_id"], one["who"]) for one in found["loads"]] == [(ticket.load_id, "bob")]
    assert "ledgers" not in found
    assert "COLUMN  TYPE" in table
    assert "struct<x:decimal(9,2)>" in table
    assert ticket.load_id in table
    assert "LEDGER-ID" not in table


def test_show_can_list_the_ledgers_with_bounds(run: Run, sets: DataSets) -> None:
    ledger = load(sets)

    table = run("dataset", "show", "events", "--ledgers").stdout
    (found,) = rows(run("dataset", "show", "events", "--ledgers", "-o", "json"))

    (shown,) = found["ledgers"]
    assert (shown["ledger_id"], shown["row_count"]) == (ledger.ledger_id, 3)
    assert shown["columns"]["id"] == {"null_count": 0, "low": 1, "high": 9}
    assert shown["columns"]["share"] == {"null_count": 0, "low": "-inf", "high": "inf"}
    assert "id=1..9" in table
    assert "share=-inf..inf" in table
    assert "raw=" not in table


def test_show_shows_an_older_version(run: Run, sets: DataSets) -> None:
    load(sets)
    load(sets)

    (found,) = rows(run("dataset", "show", "events", "--version", "1", "-o", "json"))
    missing = run("dataset", "show", "events", "--version", "3")

    assert (found["version"], found["row_count"]) == (1, 3)
    assert missing.exit_code == 1
    assert "has no version 3; the last one is 2" in missing.stderr


def test_show_shows_a_data_set_without_any_version(run: Run, sets: DataSets) -> None:
    sets.begin("events")

    (found,) = rows(run("dataset", "show", "events", "-o", "json"))

    assert (found["version"], found["columns"], len(found["loads"])) == (None, None, 1)
    assert run("dataset", "show", "events", "--version", "1").exit_code == 1


def test_show_shows_a_schema_that_is_not_of_spark_as_it_is(run: Run, sets: DataSets) -> None:
    load(sets, schema=b"mine")

    (found,) = rows(run("dataset", "show", "events", "-o", "json"))

    assert (found["columns"], found["schema"]["text"]) == (None, "mine")
    assert "mine" in run("dataset", "show", "events").stdout


@pytest.mark.parametrize("schema", [b"", b"\xff", b"[]", b"1", b"{}", b'{"fields":[1]}'])
def test_what_is_no_schema_of_spark_has_no_columns(schema: bytes) -> None:
    assert columns_of(schema) is None


def test_a_password_opens_a_protected_data_set(
    run: Run, client: FakeDataSetClient, tmp_path: Path
) -> None:
    load(client.data_sets(wall_ms, b"secret"))
    file = tmp_path / "password"
    file.write_bytes(b"secret\n")

    refused = run("dataset", "show", "events")
    (found,) = rows(run("dataset", "show", "events", "-o", "json", "--password-file", str(file)))

    assert refused.exit_code == 1
    assert "password" in refused.stderr
    assert found["row_count"] == 3


# ------------------------------------------------------------------ drop


def test_drop_asks_or_wants_yes(run: Run, sets: DataSets, client: FakeDataSetClient) -> None:
    load(sets)

    assert run("dataset", "drop", "events").exit_code == 2
    assert sets.list() == ["events"]
    (found,) = rows(run("dataset", "drop", "events", "--yes", "-o", "json"))

    assert found == {
        "dataset": "events", "version": None, "is_dropped": True, "deleted_ledger_count": 2,
    }  # fmt: skip
    assert (sets.list(), client.ledger_ids()) == ([], set())


def test_drop_drops_one_version_and_never_the_last_one(run: Run, sets: DataSets) -> None:
    load(sets)
    load(sets, kind=LoadKind.OVERWRITE)

    result = run("dataset", "drop", "events", "--version", "1", "--yes")
    last = run("dataset", "drop", "events", "--version", "2", "--yes")

    assert result.exit_code == 0
    assert "`zbk dataset gc events`" in result.stderr
    assert [one.version for one in sets.history("events").versions] == [2]
    assert last.exit_code == 1
    assert "is the last one" in last.stderr
    assert rows(run("dataset", "gc", "events", "-o", "json"))[0]["deleted_count"] == 2


# ------------------------------------------------------------------ loads, abort


def test_a_load_that_its_driver_has_left_is_found_and_aborted(
    run: Run, sets: DataSets, client: FakeDataSetClient
) -> None:
    load(sets)
    before = client.ledger_ids()
    dead = sets.begin("events", who="ada@host spark")
    write_ledger(sets, dead)

    (found,) = rows(run("dataset", "loads", "events", "-o", "json"))
    every = rows(run("dataset", "loads", "events", "--all", "-o", "json"))
    assert run("dataset", "abort", "events", dead.load_id).exit_code == 2, "it asks first"
    aborted = run("dataset", "abort", "events", dead.load_id, "--yes", "-o", "json")

    assert (found["load_id"], found["state"]) == (dead.load_id, "OPEN")
    assert found["who"] == "ada@host spark"
    assert sorted(one["state"] for one in every) == ["COMMITTED", "OPEN"]
    assert "its driver may be running" in aborted.stderr
    assert rows(aborted) == [
        {"dataset": "events", "load_id": dead.load_id, "state": "ABORTED",
         "deleted_ledger_count": 1},
    ]  # fmt: skip
    assert client.ledger_ids() == before
    assert rows(run("dataset", "loads", "events", "-o", "json")) == []
    with pytest.raises(LoadAbortedError):
        sets.commit(dead, SCHEMA, [])


def test_a_load_that_is_committed_is_not_aborted(run: Run, sets: DataSets) -> None:
    load(sets)
    (done,) = sets.loads("events").values()

    result = run("dataset", "abort", "events", done.load_id, "--yes")

    assert result.exit_code == 1
    assert "is committed, and stays" in result.stderr
    assert sets.read("events").version.row_count == 3


@pytest.mark.parametrize("load_id", ["nonsense", "018bcfe568000123456789abcdef0123"])
def test_a_load_that_is_not_known_is_one_line(run: Run, sets: DataSets, load_id: str) -> None:
    load(sets)

    result = run("dataset", "abort", "events", load_id, "--yes")

    assert result.exit_code == 1
    assert load_id in result.stderr
    assert len(result.stderr.splitlines()) == 1


# ------------------------------------------------------------------ gc


def test_gc_says_what_it_found_and_deletes_it(
    run: Run, sets: DataSets, client: FakeDataSetClient
) -> None:
    load(sets, failed_count=2)
    dead = sets.begin("events", ttl_ms=1)
    write_ledger(sets, dead)
    before = client.ledger_ids()
    wait_until(lambda: sets.loads("events")[dead.load_id].is_expired(wall_ms()))

    (would,) = rows(run("dataset", "gc", "events", "--dry-run", "-o", "json"))
    assert client.ledger_ids() == before
    (done,) = rows(run("dataset", "gc", "events", "-o", "json"))

    assert (would["leftover_count"], would["deleted_count"], would["is_dry_run"]) == (3, 0, True)
    assert (done["leftover_count"], done["deleted_count"], done["is_dry_run"]) == (3, 3, False)
    assert done["leftover"] == would["leftover"]
    assert (done["expired_count"], done["aborted_count"], done["live_count"]) == (1, 1, 0)
    assert before - client.ledger_ids() == set(done["leftover"])
    assert sets.read("events").version.row_count == 3


def test_gc_of_all_finds_what_dropped_data_sets_left(
    run: Run, sets: DataSets, client: FakeDataSetClient
) -> None:
    load(sets)
    client.data_set_store.drop("events")
    load(sets, failed_count=1)

    table = run("dataset", "gc", "--all").stdout.splitlines()

    assert [line.split()[:5] for line in table[1:]] == [
        ["events", "no", "3", "1", "1"], ["events", "yes", "2", "2", "2"],
    ]  # fmt: skip
    assert sets.read("events").version.row_count == 3


def test_gc_of_all_says_which_it_could_not_look_into(
    run: Run, sets: DataSets, client: FakeDataSetClient
) -> None:
    load(client.data_sets(wall_ms, b"secret"), "secret")
    load(sets, failed_count=1)

    result = run("dataset", "gc", "--all", "-o", "json")

    assert result.exit_code == 1
    assert "data set 'secret' was left as it is" in result.stderr
    found = {one["dataset"]: one for one in map(json.loads, result.stdout.splitlines())}
    assert found["events"]["deleted_count"] == 1
    assert "password" in found["secret"]["refused"]


@pytest.mark.parametrize("arguments", [[], ["events", "--all"]])
def test_gc_wants_one_name_or_all(run: Run, arguments: list[str]) -> None:
    assert run("dataset", "gc", *arguments).exit_code == 2
