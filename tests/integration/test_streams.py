"""Every command against a cluster, with standard streams that fail.

One clear line, the right exit code, no traceback: with a closed output, input or error output, a
full disk behind either output, a reader that leaves, and a terminal of 20 columns.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import zbk
from tests.support.stream_trial import Outcome, Trials
from tests.support.waiting import wait_until
from zbk.cli.main import cli
from zbk.cluster.local import LocalCluster
from zbk.errors import EXIT_UNHEALTHY

FULL = "zbk: [Errno 28] No space left on device: 'standard output'"
EXIT_CODES = {*range(8), EXIT_UNHEALTHY, 130}
WAYS = ["full", "no-output", "error-full", "only-output", "head", "narrow"]

UNTIL_STOPPED = {"demo", "up", "bookie run", "autorecovery run"}
"""Commands that start processes; their own tests run them."""

# {x} is a name of the fixture ``names``; each can be run again with the same result
ARGUMENTS = {
    "ledger create": "",
    "ledger append": "{file}",
    "ledger cat": "0 --lines",
    "ledger read": "0",
    "ledger ls": "",
    "ledger show": "0",
    "ledger sync": "0",
    "ledger recover": "0",
    "ledger check": "0",
    "ledger underreplicated": "",
    "ledger close": "0",
    "ledger delete": "99999",
    "log append": "l {file}",
    "log cat": "l --lines",
    "log ls": "",
    "log show": "l",
    "log truncate": "l 0:0",
    "log delete": "gone",
    "dataset ls": "",
    "dataset show": "d",
    "dataset history": "d",
    "dataset loads": "d",
    "dataset abort": "d gone",
    "dataset drop": "gone",
    "dataset gc": "d",
    "status": "",
    "doctor": "--listen tcp://127.0.0.1:0",
    "cluster init": "",
    "bookie init": "",
    "bookie ls": "",
    "bookie show": "{bookie}",
    "bookie gc": "{bookie} --timeout 1ms",
    "bookie scrub": "--all --status",
    "bookie recover": "{bookie} --dry-run",
    "bookie decommission": "gone",
    "bookie cookie show": "{bookie}",
    "bookie cookie delete": "gone",
    "bookie cookie generate": "gone /gone",
    "bookie sanity": "",
    "bookie rebuild-index": "",
    "bookie retire-dir": "/gone",
    "bookie renew-dir": "/gone",
    "bookie format": "",
    "autorecovery status": "",
    "autorecovery whoisauditor": "",
    "autorecovery enable": "",
    "autorecovery disable": "",
    "autorecovery trigger": "",
    "autorecovery delay": "",
    "inspect journal": "{journal}",
    "inspect entrylog": "{entrylog}",
    "inspect index": "{index}",
    "config show": "",
    "config check": "{config}",
    "config default": "",
    "bench write": "--count 100",
    "bench read": "--count 100",
    "bench sync": "--count 10",
    "bench floor": "--count 100",
    "bench tail": "--count 10",
    "top": "--once --interval 50ms",
    "debug bundle": "/gone/bundle.tar.gz",
    "generate completion": "bash",
    "generate systemd": "",
    "generate compose": "",
    "generate k8s": "",
    "version": "",
}


def leaves(group: click.Group, prefix: str = "") -> Iterator[str]:
    """Yield the names of all commands that are not groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        full = f"{prefix} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, full)
        else:
            yield full


def test_every_command_is_tried() -> None:
    assert set(leaves(cli)) == ARGUMENTS.keys() | UNTIL_STOPPED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with LocalCluster(folder, bookie_options={"checkpoint_interval_ms": 200}) as running:
        yield running


@pytest.fixture(scope="module")
def names(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "lines").write_text("one\ntwo\n" * 2_000)
    (folder / "zbk.toml").write_text("[client]\n")
    with zbk.connect(cluster.metadata_uri) as client:
        with client.create_ledger() as ledger:
            ledger.append_many([b"a line that is not short"] * 4_000).result()
        with client.open_log("l") as log:
            log.append(b"one")
    data = Path(cluster.folder) / "bookie0"
    index = data / "ledgers" / "index"
    wait_until(lambda: any(one.is_file() for one in index.rglob("*")), what="a checkpoint")
    return {
        "file": str(folder / "lines"),
        "config": str(folder / "zbk.toml"),
        "bookie": cluster.bookies[0].bookie_id,
        "journal": str(next((data / "journal").glob("*.journal"))),
        "entrylog": str(next((data / "ledgers" / "logs").iterdir())),
        "index": str(next(one for one in index.rglob("*") if one.is_file())),
        "home": str(folder),
    }


@pytest.fixture(scope="module")
def trials(cluster: LocalCluster, names: dict[str, str]) -> Iterator[Trials]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZBK_")}
    home = names["home"]
    own = {"ZBK_METADATA": cluster.metadata_uri, "HOME": home, "XDG_CONFIG_HOME": home}
    with Trials(kept | own) as running:
        yield running


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_command_ends_in_order_whatever_its_streams(
    command: str, names: dict[str, str], trials: Trials
) -> None:
    arguments = [*command.split(), *ARGUMENTS[command].format(**names).split()]
    plain = trials.run(arguments, "plain")
    check_sound(plain)
    assert plain.exit_code == 0 or plain.errors or plain.exit_code == EXIT_UNHEALTHY

    for way in WAYS:
        outcome = trials.run(arguments, way)
        check_sound(outcome)
        seen = (way, outcome, plain)
        match way:
            case "full" if plain.output:
                assert outcome.errors.splitlines()[-1:] == [FULL], seen
                assert outcome.exit_code == 1, seen
            case "head" if plain.output:
                assert outcome.exit_code in (0, plain.exit_code), seen
            case "only-output":
                assert outcome.exit_code in (2, plain.exit_code), seen
            case _:
                assert outcome.exit_code == plain.exit_code, seen


def check_sound(outcome: Outcome) -> None:
    text = outcome.output + outcome.errors
    assert "Traceback" not in text, outcome
    assert "Exception ignored" not in text, outcome
    assert outcome.exit_code in EXIT_CODES, outcome
    assert not re.search(r"^\s*File \"", text, re.MULTILINE), outcome
