"""``zbk cluster init``, on real SQLite metadata."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from zbk.actors.process.bookie_process import init_bookie
from zbk.config import BookieConfig
from zbk.metadata.records.instance import instance_id, read_layout
from zbk.metadata.stores.connect import open_store


@pytest.mark.parametrize("layout", ["flat", "hierarchical"])
def test_init_makes_a_cluster_of_a_layout_that_bookies_join(
    run: Run, tmp_path: Path, layout: str
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"

    result = run("cluster", "init", "--metadata", uri, "--layout", layout, "-o", "json")

    shown = json.loads(result.stdout)
    assert (shown["metadata"], shown["layout"]) == (uri, layout)
    init_bookie(BookieConfig(metadata=uri, journal_dir=f"{tmp_path}/j", ledger_dir=f"{tmp_path}/l"))
    store = open_store(uri)
    assert instance_id(store) == shown["instance_id"]
    assert read_layout(store).ledger_layout == layout
    store.close()


def test_init_refuses_a_store_in_use(run: Run, tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    init_bookie(BookieConfig(metadata=uri, journal_dir=f"{tmp_path}/j", ledger_dir=f"{tmp_path}/l"))

    for layout in ("flat", "hierarchical"):
        result = run("cluster", "init", "--metadata", uri, "--layout", layout)
        assert result.exit_code == 1
        assert "already, with layout hierarchical: a layout cannot be changed" in result.stderr


def test_init_needs_to_be_told_where(run: Run) -> None:
    result = run("cluster", "init")

    assert result.exit_code == 1
    assert "give --metadata" in result.stderr
