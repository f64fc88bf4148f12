"""``zbk debug``: what helpers need to know of a cluster, in one file."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from zbk.cli.command import LazyCommand, LazyGroup, ZbkCommand
from zbk.cli.config_file import config_option, own_security
from zbk.cli.options import cluster_options, output_option
from zbk.cli.output import Format, note, print_object
from zbk.config.sources import CONFIG_VARIABLE

PARTS: Final = {
    "version.json": "version -o json",
    "config.txt": "config show --sources",
    "status.json": "status -o json",
    "doctor.json": "doctor -o json",
    "bookies.json": "bookie ls -o json",
    "cookies.json": "bookie cookie show -o json",
    "autorecovery.json": "autorecovery status -o json",
    "underreplicated.json": "ledger underreplicated -o json",
    "ledgers.json": "ledger ls --limit 1000 -o json",
    "logs.json": "log ls -o json",
    "datasets.json": "dataset ls -o json",
}
"""Files of a bundle, and the commands that write them."""

PART_TIMEOUT_S: Final = 30.0
PART_SIZE_MAX: Final = 4 << 20
"""Bytes of one part; of a log, the last ones."""

LOG_COUNT_MAX: Final = 50


class Part(NamedTuple):
    """One file of a bundle, before secrets are removed."""

    name: str
    text: str
    remark: str  # what the index says of it


@click.command(
    "bundle",
    cls=ZbkCommand,
    examples=[
        ("zbk debug bundle", "writes zbk-debug-TIME.tar.gz here"),
        ("zbk debug bundle case.tar.gz --log /var/log/zbk/bookie.log", "with the log of a bookie"),
    ],
)
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--log",
    "logs",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Log to include; may be given several times. Those of `zbk up` are included.",
)
@config_option
@cluster_options
@output_option
def bundle(
    file: Path | None,
    logs: tuple[Path, ...],
    config_file: Path | None,
    metadata: str | None,
    output: Format,
) -> None:
    """Collect what helpers need to know, without secrets.

    Versions, configuration with sources, the output of `zbk status` and `zbk doctor`, a summary of
    the metadata, and the ends of logs, in one archive that only its owner can read. Passwords, keys
    and payloads are not part of it; values that look like secrets are removed. Read it before you
    send it.
    """
    from zbk.cli.output import time_text
    from zbk.health.redaction import known_secrets, redacted
    from zbk.system.clock import wall_ms
    from zbk.system.private_file import private_file

    stamp = time_text(wall_ms())[:19].replace(":", "").replace("-", "")
    path = file or Path(f"zbk-debug-{stamp}.tar.gz")
    secrets = known_secrets(os.environ)
    environment = _environment(config_file, metadata)
    index: list[str] = []
    with (
        private_file(path) as raw,
        tarfile.open(fileobj=raw, mode="w:gz") as archive,
    ):
        for part in (*_outputs(environment), *_logs(logs)):
            index.append(f"{part.name}: {part.remark}")
            _add(archive, part.name, redacted(part.text, secrets))
        _add(archive, "index.txt", redacted("\n".join(index) + "\n", secrets))
    shown = {"file": str(path), "size": path.stat().st_size, "part_count": len(index) + 1}
    print_object(shown, output)
    note("zbk: read the bundle before you send it: names of hosts, files and ledgers are in it")


@click.group(
    "debug",
    cls=LazyGroup,
    lazy={
        "bundle": LazyCommand(
            "zbk.cli.health.debug:bundle", "Collect what helpers need to know, without secrets."
        )
    },
    examples=[("zbk debug bundle", "one file to send")],
)
def debug() -> None:
    """Collect what helpers need to know of a cluster."""


# ------------------------------------------------------------------ private


def _environment(config_file: Path | None, metadata: str | None) -> dict[str, str]:
    """Return the environment of the commands: the same cluster and file, and no password."""
    kept = {name: value for name, value in os.environ.items() if name != "ZBK_PASSWORD"}
    key = own_security(config_file).key
    own = {CONFIG_VARIABLE: str(config_file or ""), "ZBK_METADATA": metadata or "", "ZBK_KEY": key}
    return kept | {name: value for name, value in own.items() if value}


def _outputs(environment: dict[str, str]) -> Iterator[Part]:
    for name, command in PARTS.items():
        yield _output(name, command.split(), environment)


def _output(name: str, words: Sequence[str], environment: dict[str, str]) -> Part:
    shown = f"zbk {' '.join(words)}"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "zbk", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PART_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Part(name, "", f"{shown}: no end within {PART_TIMEOUT_S:g} s")
    said = " / ".join(done.stderr.decode("utf-8", "replace").splitlines()[-3:])
    remark = f"{shown}, exit code {done.returncode}{f': {said}' if said else ''}"
    return Part(name, done.stdout[:PART_SIZE_MAX].decode("utf-8", "replace"), remark)


def _logs(given: Sequence[Path]) -> Iterator[Part]:
    from zbk.errors import InvalidOptionError
    from zbk.system.context import find_context

    try:
        context = find_context()
    except InvalidOptionError:
        context = None
    own = sorted(Path(context.data_dir).glob("*.log")) if context else []
    for number, path in enumerate([*given, *own][:LOG_COUNT_MAX]):
        name = f"logs/{number:02}-{path.name}"
        try:
            size, text = _end_of(path)
        except OSError as error:
            yield Part(name, "", f"{path}: {error.strerror}")
        else:
            yield Part(name, text, f"{path}, the end of {size} bytes")


def _end_of(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - PART_SIZE_MAX))
        return size, file.read(PART_SIZE_MAX).decode("utf-8", "replace")


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8")
    member = tarfile.TarInfo(f"zbk-debug/{name}")
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))
