"""A real bookie whose files vanish, all but the cookies: refused, reported, let in on purpose."""

import json
from pathlib import Path

import pytest

import zbk
from tests.integration.test_limbo import LossyCluster, connect
from tests.support.cluster import Shell
from zbk.errors import BookieError

LOST = b"has no incarnation and no last log mark"


def lose_files(folder: Path) -> None:
    """Delete all that is not a cookie, as somebody does who wants to empty the directories."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "cookie":
            path.unlink()


def test_a_bookie_without_its_files_is_refused_found_and_let_in_on_purpose(tmp_path: Path) -> None:
    """B6: and a recovery finds every entry."""
    shell = Shell(tmp_path)
    with LossyCluster(tmp_path / "data") as cluster:
        with connect(cluster) as client:
            ledger = client.create_ledger()
            ledger.append_many([b"acknowledged"] * 100).result(30)
        assert cluster.terminate(0) == 0
        folder = cluster.bookies[0].folder
        places = (
            *("--metadata", cluster.metadata_uri),
            *("--journal-dir", str(folder / "journal"), "--ledger-dir", str(folder / "ledgers")),
        )
        shell.run("bookie", "sanity", *places)
        lose_files(folder)

        assert LOST in shell.run("bookie", "sanity", *places, exit_code=4).stdout
        shown = shell.run("bookie", "cookie", "show", *places, "-o", "json").stdout.splitlines()
        assert [LOST in line for line in shown] == [False, True, False]
        refused = shell.run("bookie", "run", *places, exit_code=7).stderr
        (critical,) = [line for line in refused.splitlines() if b" CRITICAL " in line]
        assert LOST in critical
        assert b"--wiped-on-purpose" in critical
        with pytest.raises(BookieError, match="has lost its history"):
            cluster.restart(0)

        cluster.flags[0] = ["--wiped-on-purpose"]
        assert cluster.restart(0).incarnation == 2
        bookie_id = cluster.bookies[0].bookie_id
        told = json.loads(
            shell.run(
                *("bookie", "show", bookie_id, "--metadata", cluster.metadata_uri, "-o", "json")
            ).stdout
        )
        assert told["limbo"] == "wiped"
        with connect(cluster) as client:
            reader: zbk.LedgerReader = client.recover_ledger(ledger.ledger_id)
            assert reader.last_add_confirmed == 99
