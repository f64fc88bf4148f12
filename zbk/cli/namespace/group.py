"""``zbk namespace``: rights that count for many ledgers, and limits."""

from typing import TYPE_CHECKING, Any

import click

from zbk.cli.audit import audited
from zbk.cli.command import command, commands_of, group
from zbk.cli.options import (
    grants_option,
    metadata_option,
    option_group,
    output_option,
    principal_argument,
    revoke_option,
    rights_argument,
    size_option,
)
from zbk.cli.output import Format, print_object, print_rows
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from zbk.metadata.records.namespace_usage import UsageStore
    from zbk.security.namespaces import Namespace

COLUMNS = ["path", "grants", "ledger_count", "ledger_count_max", "size", "size_max"]

limit_options = option_group(
    click.option(
        "--ledgers",
        metavar="N",
        type=click.IntRange(min=0),
        default=0,
        help="Ledgers that it may have; 0, the default, is no limit.",
    ),
    size_option("--bytes", help_text="Payload that its closed ledgers may have."),
)

path_argument = click.argument("path", metavar="PATH")


@command(
    "add",
    ("zbk namespace add orders --grant billing=append,read", "billing may create ledgers in it"),
    ("zbk namespace add orders/eu --grant '*=read'", "all may read those of a part"),
    ("zbk namespace add default", "close ledgers that have no owner to all but operators"),
)
@path_argument
@grants_option("--grant", "grants", help_text="Rights of a principal, or of *, in its ledgers")
@limit_options
@metadata_option
@output_option
def add(
    *,
    path: str,
    grants: dict[str, list[str]],
    ledgers: int,
    bytes: int | None,  # noqa: A002 - click names it after the option
    metadata: str | None,
    output: Format,
) -> None:
    """Add a namespace: a path that ledgers get at their creation.

    Its grants count for ledgers with this path, and with paths below it. A principal with the right
    append may create ledgers in it. With limits, no ledger is created in it while it has as many
    ledgers, or its closed ledgers as many bytes.
    """
    from zbk.metadata.records.namespace_usage import UsageStore, check_limits
    from zbk.metadata.records.namespaces import NamespaceStore
    from zbk.protocol.ledger.access import grants_of
    from zbk.security.namespaces import Namespace, named, with_namespace

    new = Namespace(path=path, grants=grants_of(grants))
    check_limits(path, ledgers, bytes or 0)
    with cluster_store(metadata) as store, audited("grant", f"add namespace {path}"):
        found = NamespaceStore(store).change(lambda now: with_namespace(now, new))
        usages = UsageStore(store)
        if ledgers or bytes:
            usages.set_limits(path, ledgers, bytes or 0)
        row = _row(named(found, path), usages)
    print_object(row, output)


@command(
    "limit",
    ("zbk namespace limit orders --ledgers 1000 --bytes 1TiB", "from now on"),
    ("zbk namespace limit orders", "without limits; ledgers are counted on"),
)
@path_argument
@limit_options
@metadata_option
@output_option
def limit(
    *,
    path: str,
    ledgers: int,
    bytes: int | None,  # noqa: A002 - click names it after the option
    metadata: str | None,
    output: Format,
) -> None:
    """Limit the ledgers and bytes of a namespace.

    Ledgers that were there before its first limit are not counted. An open ledger may exceed the
    limit of bytes: the bytes of a ledger count once it is closed.
    """
    from zbk.metadata.records.namespace_usage import UsageStore
    from zbk.metadata.records.namespaces import NamespaceStore
    from zbk.security.namespaces import named

    with cluster_store(metadata) as store, audited("grant", f"limit namespace {path}"):
        found = named(NamespaceStore(store).all(), path)
        usages = UsageStore(store)
        usages.set_limits(path, ledgers, bytes or 0)
        row = _row(found, usages)
    print_object(row, output)


@command("ls", ("zbk namespace ls", "paths and grants"))
@metadata_option
@output_option
def ls(metadata: str | None, output: Format) -> None:
    """List the namespaces of a cluster."""
    from zbk.metadata.records.namespace_usage import UsageStore
    from zbk.metadata.records.namespaces import NamespaceStore

    with cluster_store(metadata) as store:
        usages = UsageStore(store)
        rows = [_row(found, usages) for found in NamespaceStore(store).all()]
    print_rows(rows, COLUMNS, output)


@command("show", ("zbk namespace show orders/eu", "what counts for ledgers with this path"))
@path_argument
@metadata_option
@output_option
def show(path: str, metadata: str | None, output: Format) -> None:
    """Show the namespaces that count for ledgers with a path."""
    from zbk.errors import NoSuchNamespaceError
    from zbk.metadata.records.namespace_usage import UsageStore
    from zbk.metadata.records.namespaces import NamespaceStore
    from zbk.security.namespaces import NamespaceTable

    with cluster_store(metadata) as store:
        usages = UsageStore(store)
        chain = NamespaceTable(NamespaceStore(store).all()).chain(path)
        rows = [_row(found, usages) for found in chain]
    if not rows:
        raise NoSuchNamespaceError(path)
    print_rows(rows, COLUMNS, output)


@command("rm", ("zbk namespace rm orders/eu", "its ledgers keep their owners and grants"))
@path_argument
@metadata_option
def rm(path: str, metadata: str | None) -> None:
    """Remove a namespace: its grants and limits count no longer.

    Its ledgers stay, with their owners and grants of their own.
    """
    from zbk.metadata.records.namespace_usage import UsageStore
    from zbk.metadata.records.namespaces import NamespaceStore
    from zbk.security.namespaces import without

    with cluster_store(metadata) as store, audited("grant", f"remove namespace {path}"):
        UsageStore(store).remove(path)  # first: a repetition finds the namespace, and goes on
        NamespaceStore(store).change(lambda now: without(now, path))


@command(
    "grant",
    ("zbk namespace grant orders bob read", "bob may read all ledgers of orders"),
    ("zbk namespace grant orders bob read --revoke", "take it away"),
)
@path_argument
@principal_argument
@rights_argument
@revoke_option
@metadata_option
@output_option
def grant(
    *,
    path: str,
    principal: str,
    rights: tuple[str, ...],
    revoke: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Grant rights in a namespace to a principal, or to '*' (all).

    The rights are append, read, recover, delete and admin. Bookies apply a change within a second.
    """
    from zbk.metadata.records.namespace_usage import UsageStore
    from zbk.metadata.records.namespaces import NamespaceStore
    from zbk.protocol.ledger.access import rights_named
    from zbk.security.namespaces import granted, named, revoked

    change, wanted = (revoked if revoke else granted), rights_named(rights)
    word = "revoke" if revoke else "grant"
    what = f"namespace {path}: {word} {principal} {','.join(rights)}"
    with cluster_store(metadata) as store, audited("grant", what):
        found = NamespaceStore(store).change(lambda now: change(now, path, principal, wanted))
        row = _row(named(found, path), UsageStore(store))
    print_object(row, output)


@group(
    "namespace",
    commands_of(
        "zbk.cli.namespace",
        {
            "add": ("group:add", "Add a namespace: a path that ledgers get at their creation."),
            "ls": ("group:ls", "List the namespaces of a cluster."),
            "show": ("group:show", "Show the namespaces that count for ledgers with a path."),
            "rm": ("group:rm", "Remove a namespace: its grants and limits count no longer."),
            "limit": ("group:limit", "Limit the ledgers and bytes of a namespace."),
            "grant": (
                "group:grant",
                "Grant rights in a namespace to a principal, or to '*' (all).",
            ),
        },
    ),
    ("zbk namespace add orders --grant billing=append,read", "a new one"),
    ("zbk ledger append orders.log --namespace orders", "a ledger in it"),
)
def namespace() -> None:
    """Grant rights that count for many ledgers at once, and limit those."""


# ------------------------------------------------------------------ private


def _row(found: "Namespace", usages: "UsageStore") -> dict[str, Any]:
    row: dict[str, Any] = {
        "path": found.path,
        "grants": {name: list(rights) for name, rights in found.grants.items()},
    }
    usage = usages.read(found.path)
    if usage is not None:
        row |= {
            "ledger_count": usage.ledger_count,
            "ledger_count_max": usage.ledger_count_max,
            "size": usage.size,
            "size_max": usage.size_max,
        }
    return row
