"""``zbk metadata``, on real SQLite metadata."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.cli import Run
from zbk.metadata.dumps import export
from zbk.metadata.dumps.dump_file import DumpedNode
from zbk.metadata.paths import IDGEN
from zbk.metadata.records.instance import initialise, instance_id
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore


@pytest.fixture
def uri(tmp_path: Path) -> str:
    made = f"sqlite://{tmp_path}/metadata.db"
    store = open_store(made)
    initialise(store)
    store.close()
    return made


def test_a_cluster_moves_to_another_store(run: Run, uri: str, tmp_path: Path) -> None:
    file, other = tmp_path / "dump", f"sqlite://{tmp_path}/other.db"
    exported = run("metadata", "export", str(file), "--metadata", uri, "-o", "json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    imported = run("metadata", "import", str(file), "--metadata", other, "-o", "json")
    counts = [json.loads(one.stdout)["node_count"] for one in (exported, imported)]
    assert counts[0] == counts[1] > 5
    stores = open_store(uri), open_store(other)
    assert instance_id(stores[0]) == instance_id(stores[1])
    for store in stores:
        store.close()
    for place in (("--metadata", other), ("--file", str(file))):
        checked = run("metadata", "check", *place)
        assert (checked.exit_code, checked.stdout) == (0, "")
        assert "all records are whole" in checked.stderr


def test_two_exports_into_one_file_leave_a_whole_one(
    run: Run, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, nodes_of, others = tmp_path / "dump", export.nodes_of, list[Result]()

    def nodes_beside_another(store: MetadataStore) -> Iterator[DumpedNode]:
        for number, node in enumerate(nodes_of(store)):
            if number == 3 and not others:
                monkeypatch.setattr(export, "nodes_of", nodes_of)
                others.append(run("metadata", "export", str(file), "--metadata", uri))
            yield node

    monkeypatch.setattr(export, "nodes_of", nodes_beside_another)
    done = run("metadata", "export", str(file), "--metadata", uri)

    assert others[0].exit_code == 0, others[0].output
    assert (done.exit_code, "exists: give a new one" in done.stderr) == (1, True)
    assert run("metadata", "check", "--file", str(file)).exit_code == 0
    assert [one.name for one in tmp_path.iterdir() if "dump" in one.name] == ["dump"]


def test_a_dump_is_private_whatever_was_prepared_beside_it(
    run: Run, uri: str, tmp_path: Path
) -> None:
    (tmp_path / "dump.part").write_text("theirs")
    (tmp_path / "dump.part").chmod(0o666)

    run("metadata", "export", str(tmp_path / "dump"), "--metadata", uri)

    assert stat.S_IMODE((tmp_path / "dump").stat().st_mode) == 0o600
    assert (tmp_path / "dump.part").read_text() == "theirs"


def test_check_prints_problems_and_fails(run: Run, uri: str) -> None:
    store = open_store(uri)
    store.delete(IDGEN)
    store.close()
    checked = run("metadata", "check", "--metadata", uri, "-o", "json")
    assert checked.exit_code == 4
    assert json.loads(checked.stdout) == {"path": IDGEN, "problem": "is missing"}
    assert "1 record of the metadata cannot be relied on" in checked.stderr


def test_mistakes_are_one_line_and_change_nothing(run: Run, uri: str, tmp_path: Path) -> None:
    file = tmp_path / "dump"
    file.write_text("mine")
    other = f"sqlite://{tmp_path}/other.db"
    for arguments, text in (
        (("export", str(file), "--metadata", uri), "exists: give a new one"),
        (("export", f"{tmp_path}/no/where", "--metadata", uri), "cannot be written"),
        (("export", f"{tmp_path}/new", "--metadata", other), "other.db"),
        (("import", str(file), "--metadata", other), "is no line of a dump"),
        (("import", f"{tmp_path}/none", "--metadata", other), "is no regular file"),
        (("import", str(file)), "give --metadata"),
        (("check", "--file", str(file)), "is no line of a dump"),
    ):
        failed = run("metadata", *arguments)
        assert failed.exit_code in (1, 4), failed.output
        assert text in failed.stderr
        assert len(failed.stderr.splitlines()) == 1
    assert file.read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir() if "dump" in one.name) == ["dump"]
    assert not (tmp_path / "other.db").exists()
