"""``zbk metadata``: a dump of the metadata, its restore, and the check of all records."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from zbk.cli.command import command, commands_of, group
from zbk.cli.options import metadata_option, output_option
from zbk.cli.output import Format, note, print_object, print_rows
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from zbk.metadata.dumps.record_check import Problem

file_type = click.Path(dir_okay=False, path_type=Path)


@command(
    "export",
    ("zbk metadata export cluster.jsonl", "a backup; the cluster may go on meanwhile"),
    ("zbk metadata check --file cluster.jsonl", "check the backup"),
)
@click.argument("file", metavar="FILE", type=file_type)
@metadata_option
@output_option
def export(file: Path, metadata: str | None, output: Format) -> None:
    """Write all metadata into a new file.

    JSON lines: a header, one line per record, a checksum. The file holds the keys of the ledgers,
    so only its owner can read it. Registrations and locks are left out, because they end with their
    processes. Entries are not metadata: they stay on the bookies.
    """
    from uuid import uuid4

    from zbk.errors import InvalidOptionError
    from zbk.metadata.dumps.dump_file import write_dump
    from zbk.metadata.dumps.export import nodes_of
    from zbk.system.clock import wall_ms
    from zbk.system.files import OsFiles
    from zbk.system.private_file import private_file

    with cluster_store(metadata) as store:
        _check_new(file)
        part = file.with_name(f"{file.name}.{uuid4().hex[:8]}.part")  # another export has its own
        try:
            with private_file(part) as out:
                count = write_dump(
                    out, nodes_of(store), address=store.address, exported_ms=wall_ms()
                )
            _check_new(file)
            part.rename(file)
            OsFiles().sync_dir(str(file.parent))
        except OSError as error:
            raise InvalidOptionError("file", str(file), f"cannot be written: {error}") from error
        finally:
            part.unlink(missing_ok=True)
    print_object({"file": str(file), "node_count": count}, output)


@command(
    "import",
    (
        "zbk metadata import cluster.jsonl --metadata zk://zk1:2181/zbk",
        "into an empty store, of either kind",
    ),
)
@click.argument("file", metavar="FILE", type=file_type)
@metadata_option
@output_option
def import_(file: Path, metadata: str | None, output: Format) -> None:
    """Fill an empty metadata store from a dump.

    The cluster keeps its id, so its bookies accept the new store. To move a cluster, stop its
    bookies, export, import, and start them with the new --metadata. Two stores of one cluster that
    both serve bookies and clients lose data.
    """
    from zbk.errors import InvalidOptionError
    from zbk.metadata.dumps.dump_file import Dump
    from zbk.metadata.dumps.restore import restore
    from zbk.metadata.stores.connect import open_store

    if metadata is None:  # not that of the running `zbk up`: it holds a cluster
        raise InvalidOptionError("metadata", "", "give --metadata, or set ZBK_METADATA")
    dump = Dump(file)
    store = open_store(metadata)
    try:
        count = restore(store, dump)
    finally:
        store.close()
    print_object({"metadata": metadata, "node_count": count}, output)


@command(
    "check",
    ("zbk metadata check", "of the cluster"),
    ("zbk metadata check --file cluster.jsonl", "of a dump"),
)
@click.option("--file", metavar="FILE", type=file_type, help="Check this dump, and no store.")
@metadata_option
@output_option
def check(file: Path | None, metadata: str | None, output: Format) -> None:
    """Check all records of a cluster, and what they refer to.

    Prints a line per problem; the exit code is 4 if there is one. In a store, only problems count
    that a second look finds again, because the cluster may change meanwhile.
    """
    from zbk.errors import DamageError
    from zbk.metadata.dumps.dump_file import Dump
    from zbk.metadata.dumps.record_check import check_records
    from zbk.metadata.dumps.store_check import problems_in

    found: list[Problem]
    if file is not None:
        found = check_records(Dump(file).nodes())
    else:
        with cluster_store(metadata) as store:
            found = problems_in(store)
    if found:
        rows = ({"path": one.path, "problem": one.problem} for one in found)
        print_rows(rows, ["path", "problem"], output)
        plural = "" if len(found) == 1 else "s"
        raise DamageError(f"{len(found)} record{plural} of the metadata cannot be relied on")
    note("zbk: all records are whole")


@group(
    "metadata",
    commands_of(
        "zbk.cli",
        {
            "export": ("metadata:export", "Write all metadata into a new file."),
            "import": ("metadata:import_", "Fill an empty metadata store from a dump."),
            "check": ("metadata:check", "Check all records of a cluster, and what they refer to."),
        },
    ),
    ("zbk metadata export cluster.jsonl", "a backup"),
)
def metadata() -> None:
    """Back up, move and check the metadata of a cluster."""


# ------------------------------------------------------------------ private


def _check_new(file: Path) -> None:
    from zbk.errors import InvalidOptionError

    if file.exists():
        raise InvalidOptionError("file", str(file), "exists: give a new one")
