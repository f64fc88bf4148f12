"""The pages of the handbook, block by block, as a reader would type them; a cluster for each."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.support.document import (
    ROOT,
    SERVERS,
    Block,
    Started,
    blocks_of,
    environment,
    home,
    run_blocks,
    servers,
)
from tests.support.machine import patient_s
from tests.support.warm_start import make_command
from zbk.cli.command import LazyGroup
from zbk.cli.main import cli
from zbk.system.ports import free_ports

__all__ = ["environment", "home", "servers"]  # fixtures

DOCS = ROOT / "docs"
ACTIVATE = ". .venv/bin/activate\n"
STAND_INS = {
    "9182": "{port}",
    "8710": "{port}",
    "zk://zk1:2181,zk2:2181,zk3:2181/zbk": "sqlite://{home}/metadata.db",
    "tcp://0.0.0.0:3181": "tcp://127.0.0.1:0",
    "tcp://bookie1:3181": "",
    "/etc/zbk": "{home}/etc",
    "/journal/zbk": "{home}/journal",
    "/ledgers/zbk": "{home}/ledgers",
}
"""Hosts, ports and folders of the pages, and what the tests use for them."""
WITH_SPARK = DOCS / "how-to" / "spark-tour.md"
COLD_PAGES = {DOCS / "tutorial.md"}
"""The page that most will type from, with the installed ``zbk``; it looks for a process by name."""
PAGES = sorted(DOCS.rglob("*.md"))
RUN_PAGES = [path for path in PAGES if blocks_of(path.read_text()) and path != WITH_SPARK]


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS).with_suffix(""))


@pytest.mark.timeout(patient_s(240))
@pytest.mark.parametrize("page", RUN_PAGES, ids=name_of)
def test_every_block_of_a_page_runs(
    page: Path, home: Path, environment: dict[str, str], servers: list[Started]
) -> None:
    if page not in COLD_PAGES:
        environment |= make_command(home / "bin")
    text = page.read_text()
    for name, stand_in in STAND_INS.items():
        text = text.replace(name, stand_in.format(home=home, port=free_ports(1)[0]))
    blocks = blocks_of(text)
    rest = blocks[1:] if blocks[0].text == ACTIVATE else blocks
    if not any(block.text.startswith(SERVERS) for block in rest):
        rest = [Block("sh", "zbk up"), *rest]

    outputs = run_blocks(rest, home, environment, servers)

    assert len(outputs) + len(servers) == len({block.text for block in rest})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    check_commands(page)


def check_commands(page: Path) -> None:
    """Fail if a page calls a command, or an option of one, that does not exist."""
    for line in command_lines(page.read_text()):
        words = [word for word in shlex.split(line, comments=True) if word != "..."]
        command: click.Command = cli
        while words and isinstance(command, LazyGroup) and not words[0].startswith("-"):
            if "|" in words[0] or words[0].isupper():
                break  # several commands at once
            found = command.get_command(click.Context(command), words[0])
            assert found is not None, f"{page.name}: {line}"
            command, words = found, words[1:]
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        for word in words:
            if re.match(r"--?[a-z]", word):
                option = word.partition("=")[0]
                assert option in known | {"--help", "-h"}, f"{page.name}: {line}"


def command_lines(text: str) -> Iterator[str]:
    """Yield what looks like a call of zbk: in a block, or in backticks that hold no more."""
    joined = text.replace("\\\n", " ")
    for block in re.findall(r"^```\w*\n(.*?)^```$", joined, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            for part in re.split(r"\|\||&&|[|;<>()]", line.partition("   #")[0]):
                if part.strip().startswith("zbk "):
                    yield part.strip()[4:]
    outside = re.sub(r"^```.*?^```$", "", joined, flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`zbk ([^`\n]+)`", outside)
