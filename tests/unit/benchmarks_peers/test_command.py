"""The command line, as far as it goes without servers."""

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks import peers as package
from benchmarks.peers.__main__ import NAMES, peer, peers, save
from benchmarks.peers.load import Api, PeerLoad


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


@pytest.mark.parametrize(
    ("api", "ledger_count", "process_count", "case"),
    [
        ("async", 16, 1, "peers-nats-100-async-ledgers-16"),
        ("sync", 16, 1, "peers-nats-100-sync-ledgers-16"),
        ("sync", 1, 16, "peers-nats-100-sync-processes-16"),
        ("sync", 1, 1, "peers-nats-100-sync"),
    ],
)
def test_loads_of_many_streams_are_kept_apart(
    api: Api, ledger_count: int, process_count: int, case: str, tmp_path: Path
) -> None:
    load = PeerLoad(
        entry_size=100,
        entry_count=1,
        api=api,
        batch_count=1,
        window=1,
        ledger_count=ledger_count,
        process_count=process_count,
        seconds=4.0,
    )

    assert save(tmp_path, load, [{"measured": "nats"}]).stem == case


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_client_is_a_usage_error_that_says_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [f"{name}.connection", *sys.modules]:  # as if it were not installed
        if module.partition(".")[0] == name:
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, name, None)
    for module in (f"{name}_client", f"{name}_streams"):
        monkeypatch.delitem(sys.modules, f"benchmarks.peers.{module}", raising=False)
        monkeypatch.delattr(package, module, raising=False)

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
        ["nats", "--ledgers", "16"],
        ["nats", "--api", "sync", "--processes", "2"],
        ["redis", "--api", "async", "--outstanding", "1"],
        ["redis", "--api", "sync", "--outstanding", "1", "--seconds", "1s"],
        ["redis", "--api", "async", "--outstanding", "2", "--seconds", "1s"],
        ["redis", "--api", "async", "--seconds", "1s"],
        ["redis", "--seconds", "1s"],
        ["redis", "--api", "sync", "--seconds", "1s", "--count", "10"],
        ["redis", "--api", "async", "--outstanding", "1", "--seconds", "1s", "--window", "8"],
        ["redis", "--api", "sync", "--seconds", "soon"],
    ],
)
def test_wrong_arguments_are_usage_errors(arguments: list[str]) -> None:
    done = CliRunner().invoke(peers, arguments)

    assert done.exit_code == 2
    assert "Traceback" not in done.output
