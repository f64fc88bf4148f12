"""A bookie that other machines reach has a key, or says loudly that it has none."""

from pathlib import Path

import pytest

import zbk
from tests.support.cluster import QUICK, Shell
from tests.support.http import Scrape
from tests.support.secure_cluster import Keyring
from zbk.cluster.local import LocalCluster
from zbk.errors import EXIT_BOOKIE, BookieError


class OpenCluster(LocalCluster):
    """A cluster whose bookies listen at all addresses of the machine."""

    def _bookie_options(self, index: int, port: int) -> dict[str, int | str]:
        listen = f"tcp://0.0.0.0:{port}"
        advertise = f"tcp://127.0.0.1:{port}"
        return super()._bookie_options(index, port) | {"listen": listen, "advertise": advertise}


def open_cluster(folder: Path, *flags: str) -> LocalCluster:
    return OpenCluster(folder, bookie_count=1, bookie_options=QUICK, bookie_flags=flags)


def test_a_bookie_without_a_key_does_not_listen_to_other_machines(tmp_path: Path) -> None:
    with (
        pytest.raises(BookieError, match=r"without a key does not listen on tcp://0\.0\.0\.0"),
        open_cluster(tmp_path / "data"),
    ):
        pass


def test_the_refusal_has_its_cure_and_the_exit_code_of_bookies(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    dirs = ("--journal-dir", "j", "--ledger-dir", "l", "--metadata", uri)
    shell = Shell(tmp_path)
    shell.run("bookie", "init", *dirs)

    done = shell.run("bookie", "run", *dirs, "--listen", "tcp://0.0.0.0:0", exit_code=EXIT_BOOKIE)

    assert b"--insecure" in done.stderr
    assert b"zbk key generate" in done.stderr


def test_with_insecure_the_log_the_list_and_the_metrics_say_so(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with open_cluster(tmp_path / "data", "--insecure") as cluster:
        with zbk.connect(cluster.metadata_uri) as client:
            (found,) = client.list_bookies()
            client.create_ledger(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1).close()
        cluster.terminate(0)
        cluster.restart(0)
        listed = shell.run("bookie", "ls", "--metadata", cluster.metadata_uri).stdout
        page = Scrape(cluster.bookies[0].http)
        log = (tmp_path / "data" / "bookie0.log").read_text()

        assert found.security == "insecure"
        assert b"insecure" in listed
        assert page.value("zbk_bookie_insecure") == 1
        assert log.count("INSECURE: anyone who reaches tcp://0.0.0.0") == 2  # at each start


def test_with_a_key_it_listens_to_other_machines(tmp_path: Path) -> None:
    keys = Keyring(tmp_path / "keys")
    with open_cluster(tmp_path / "data", "--key", keys.make("bookie")) as cluster:
        with zbk.connect(cluster.metadata_uri) as client:
            (found,) = client.list_bookies()
        page = Scrape(cluster.bookies[0].http)

        assert found.security == "required"
        assert page.value("zbk_bookie_insecure") == 0
        assert "INSECURE" not in (tmp_path / "data" / "bookie0.log").read_text()


def test_on_loopback_no_key_is_needed(tmp_path: Path) -> None:
    with (
        LocalCluster(tmp_path / "data", bookie_count=1, bookie_options=QUICK) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        assert [one.security for one in client.list_bookies()] == ["off"]
