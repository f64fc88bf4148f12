"""``zbk cluster secure`` and ``identity``: who may do what with a cluster's nodes in ZooKeeper."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from zbk.cli.command import command
from zbk.cli.config_file import config_option
from zbk.cli.options import metadata_option, option_group, output_option
from zbk.cli.output import Format, note, print_object, print_rows
from zbk.cli.store import cluster_address, metadata_store

if TYPE_CHECKING:
    from zbk.metadata.stores.node_rights import Members
    from zbk.metadata.stores.zookeeper import ZooKeeperStore

COLUMNS = ("kind", "nodes", "open", "changed")

_WHAT = {
    "operator": "may do everything; this process is always one",
    "bookie": "bookies and autorecovery",
    "client": "writes, reads and deletes ledgers, logs and data sets",
    "writer": "as a client, but deletes nothing",
    "auditor": "reads everything",
}


_member_options = option_group(
    *(
        click.option(
            f"--{role}",
            f"{role}s",
            metavar="IDENTITY",
            multiple=True,
            help=f"Member of this role: {what}. May be given several times.",
        )
        for role, what in _WHAT.items()
    )
)


@command(
    "identity",
    ("zbk cluster identity --config /etc/zbk/bookie.toml", "for `zbk cluster secure --bookie`"),
)
@config_option
@output_option
def identity(config_file: object, output: Format) -> None:
    """Show who this process is to ZooKeeper.

    That is its user, from metadata_user and metadata_password_file in [security], with a digest of
    the password, as access lists have it.
    """
    from zbk.metadata.stores.access import own_access, read_user

    del config_file  # a callback of the option took it
    user = read_user(own_access())
    if user is None:
        raise _no_user()
    print_object({"identity": user.identity}, output)


@command(
    "secure",
    ("zbk cluster secure --dry-run", "which nodes would change"),
    ("zbk cluster secure", "one user for all processes"),
    (
        "zbk cluster secure --bookie digest:bookie:... --client sasl:app",
        "a user for each kind of process",
    ),
)
@_member_options
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Show what would change.")
@metadata_option
@config_option
@output_option
def secure(
    *,
    operators: tuple[str, ...],
    bookies: tuple[str, ...],
    clients: tuple[str, ...],
    writers: tuple[str, ...],
    auditors: tuple[str, ...],
    is_dry_run: bool,
    metadata: str | None,
    config_file: object,
    output: Format,
) -> None:
    """Close a cluster's nodes in ZooKeeper to strangers.

    All nodes get access lists: operators may do everything, bookies, clients, writers and auditors
    what they need. Nodes that are created later get them, too. Roles that no option names keep
    their members; those of a new cluster are all operators.

    Give every process its user first: processes without one lose their access. After an
    interruption, run the command again.
    """
    from zbk.metadata.records.instance import complete
    from zbk.metadata.stores.tree_access import check_tree, secure_tree

    del config_file  # a callback of the option took it
    given = {
        "operators": operators,
        "bookies": bookies,
        "clients": clients,
        "writers": writers,
        "auditors": auditors,
    }
    with _zookeeper(metadata) as store:
        members = _members(store, given)
        if is_dry_run:
            counts = check_tree(store, members)
        else:
            counts = secure_tree(store, members)
            complete(store)
    rows = (
        {
            "kind": one.kind,
            "nodes": one.node_count,
            "open": one.open_count,
            "changed": one.changed_count,
        }
        for one in counts
    )
    print_rows(rows, COLUMNS, output)
    if is_dry_run:
        note("zbk: a dry run: nothing was changed")


@contextmanager
def _zookeeper(metadata: str | None) -> "Iterator[ZooKeeperStore]":
    """Open the ZooKeeper of a cluster, as a process with a user.

    Raises:
        InvalidOptionError: the metadata are not in ZooKeeper, there is no cluster, or no user.
    """
    from zbk.errors import InvalidOptionError
    from zbk.metadata.records.instance import instance_id
    from zbk.metadata.stores.zookeeper import ZooKeeperStore

    with metadata_store(cluster_address(metadata)) as store:
        if not isinstance(store, ZooKeeperStore):
            why = "only ZooKeeper has access lists; a SQLite file has its owner and mode"
            raise InvalidOptionError("metadata", store.address, why)
        if not store.own_identity:
            raise _no_user()
        instance_id(store)
        yield store


def _members(store: "ZooKeeperStore", given: dict[str, tuple[str, ...]]) -> "Members":
    import msgspec

    from zbk.metadata.stores.node_rights import Members, check_members

    before = store.members or Members(operators=())
    members = msgspec.structs.replace(before, **{name: ids for name, ids in given.items() if ids})
    if store.own_identity not in members.operators:
        own = (store.own_identity, *members.operators)
        members = msgspec.structs.replace(members, operators=own)
    check_members(members)
    return members


def _no_user() -> Exception:
    from zbk.errors import InvalidOptionError

    why = "give this and metadata_password_file in [security], or ZBK_METADATA_USER and so on"
    return InvalidOptionError("metadata_user", "", why)
