"""The command line, as far as it goes without servers."""

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import peers as package
from benchmarks.peers.__main__ import NAMES, peer, peers, save
from benchmarks.peers.load import PeerLoad


def test_the_rounds_of_a_load_are_kept_with_their_medians_and_the_machine(tmp_path: Path) -> None:
    load = PeerLoad(entry_size=1024, entry_count=1, api="async", batch_count=1, window=1)
    rounds = [{"measured": "redis", "entries_per_s": rate} for rate in (1.0, 9.0, 2.0)]

    path = save(tmp_path / "results", load, rounds)

    assert path == tmp_path / "results" / "peers-redis-1024-async.json"
    kept = json.loads(path.read_bytes())
    assert kept["case"] == path.stem
    assert kept["rounds"] == rounds
    assert kept["median"] == {"entries_per_s": 2.0}
    assert kept["machine"]["core_count"] >= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_client_is_a_usage_error_that_says_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setitem(sys.modules, f"{name}.connection", None)
    monkeypatch.delitem(sys.modules, f"benchmarks.peers.{name}_client", raising=False)
    monkeypatch.delattr(package, f"{name}_client", raising=False)

    with pytest.raises(click.UsageError, match=r"requirements/peers\.txt") as error:
        peer(name)

    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["kafka"],
        ["redis", "--count", "0"],
        ["redis", "--size", "0"],
        ["nats", "--window", "501"],
        ["nats", "--api", "all"],
    ],
)
def test_wrong_arguments_are_usage_errors(arguments: list[str]) -> None:
    done = CliRunner().invoke(peers, arguments)

    assert done.exit_code == 2
    assert "Traceback" not in done.output
