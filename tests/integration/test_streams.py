"""Every command against a cluster, with standard streams that fail.

One clear line, the right exit code, no traceback: with a closed output, input or error output, a
full disk behind either output, a reader that leaves, and a terminal of 20 columns.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import zbk
from tests.support.command_samples import ARGUMENTS
from tests.support.stream_trial import Outcome, Trials
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster
from zbk.errors import EXIT_UNHEALTHY

FULL = "zbk: [Errno 28] No space left on device: 'standard output'"
CLOSED = "zbk: [Errno 9] it is closed; redirect it to /dev/null: 'standard output'"
EXIT_CODES = {*range(8), EXIT_UNHEALTHY, 130}
WAYS = ["full", "no-output", "error-full", "only-output", "head", "narrow"]


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
            case "full" | "no-output" if plain.output:
                told = FULL if way == "full" else CLOSED
                assert outcome.errors.splitlines()[-1:] == [told], seen
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
