"""Completion in a real shell, against a metadata store in a file."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.support.cli import Run
from tests.support.waiting import wait_until
from zbk.cli.completion import LOOKUP_S, complete_ledgers
from zbk.metadata.paths import DATA_SETS, LOGS, cookie_path, ledger_path
from zbk.metadata.records.instance import initialise
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import LedgerLayout
from zbk.system.clock import monotonic_s

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="bash is not installed")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A store with a few names. Completion reads no values."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = open_store(uri)
    initialise(store)
    for ledger_id in (7, 70, 71, 8):
        path = ledger_path(ledger_id, LedgerLayout.HIERARCHICAL)
        store.create(path, b"", make_parents=True)
    for bookie_id in ("b-1", "b-2", "other"):
        store.create(cookie_path(bookie_id))
    store.create(f"{LOGS}/orders", make_parents=True)
    store.create(f"{DATA_SETS}/events", make_parents=True)
    store.close()
    return uri


class Bash:
    """Completes command lines as an interactive bash does."""

    def __init__(self, environment: dict[str, str], script: str) -> None:
        self._environment = environment
        self._script = script

    def complete(self, *words: str) -> list[str]:
        program = (
            f'{self._script}\nCOMP_WORDS=(zbk "$@"); COMP_CWORD=$#\n'
            'function="$(complete -p zbk | sed "s/.*-F \\([^ ]*\\).*/\\1/")"\n'
            '"$function" zbk\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        done = subprocess.run(
            [BASH, "-c", program, "bash", *words],
            capture_output=True, text=True, check=True, env=self._environment,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()


@pytest.fixture
def bash(run: Run, uri: str, tmp_path: Path) -> Bash:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZBK_")}
    folder = Path(sys.executable).parent
    own = {
        "ZBK_METADATA": uri,
        "XDG_CONFIG_HOME": str(tmp_path),
        "PATH": f"{folder}:{kept['PATH']}",
    }
    return Bash(kept | own, run("generate", "completion", "bash").stdout)


@needs_bash
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sta"], ["status"]),
        (["ledger", "sh"], ["show"]),
        (["ledger", "ls", "--ol"], ["--older-than"]),
        (["ledger", "ls", "--state", ""], ["open", "in_recovery", "closed"]),
        (["ledger", "show", ""], ["7", "8", "70", "71"]),
        (["ledger", "show", "7"], ["7", "70", "71"]),
        (["ledger", "show", "9"], []),
        (["bookie", "show", "b"], ["b-1", "b-2"]),
        (["bookie", "recover", ""], ["b-1", "b-2", "other"]),
        (["log", "cat", ""], ["orders"]),
        (["dataset", "show", ""], ["events"]),
        (["dataset", "show", "--metadata", "sqlite:///gone", ""], []),
    ],
)
def test_bash_completes(bash: Bash, words: list[str], expected: list[str]) -> None:
    # on a loaded machine a lookup may take longer than its limit, and gives nothing then
    wait_until(lambda: sorted(bash.complete(*words)) == sorted(expected), 60)


def test_a_store_that_does_not_answer_completes_nothing_and_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        context = click.Context(click.Command("show"))
        context.params["metadata"] = f"zk://127.0.0.1:{silent.getsockname()[1]}/zbk"
        parameter = click.Argument(["ledger_id"])
        complete_ledgers(context, parameter, "")  # imports
        started_s = monotonic_s()

        assert complete_ledgers(context, parameter, "") == []
        assert monotonic_s() - started_s < LOOKUP_S + 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(run: Run, shell: str) -> None:
    result = run("generate", "completion", shell)

    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_ZBK_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])]
)
def test_a_shell_accepts_its_script(run: Run, shell: str, check: list[str], tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(run("generate", "completion", shell).stdout)

    subprocess.run([*check, str(script)], check=True)


def test_another_shell_is_a_mistake_of_use(run: Run) -> None:
    assert run("generate", "completion", "tcsh").exit_code == 2
