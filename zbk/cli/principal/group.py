"""``zbk principal``: whose keys a cluster accepts."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zbk.audit.record import key_id
from zbk.cli.audit import audited
from zbk.cli.command import command, commands_of, group
from zbk.cli.options import metadata_option, output_option
from zbk.cli.output import Format, print_object, print_rows
from zbk.cli.store import cluster_store

if TYPE_CHECKING:
    from zbk.security.principals import Principal

COLUMNS = ["name", "roles", "keys"]

name_argument = click.argument("name", metavar="NAME")
role_option = click.option(
    "--role",
    "roles",
    metavar="ROLE",
    multiple=True,
    help="operator, bookie or auditor; may be given several times.",
)


@command(
    "add",
    ("zbk principal add alice --key alice.pub", "bookies accept her from now on"),
    ("zbk principal add alice --key alice2.pub", "a second key, while she changes to it"),
    ("zbk principal add bookies --key bookie.pub --role bookie", "the bookies themselves"),
)
@name_argument
@click.option(
    "--key", metavar="FILE|KEY", required=True, help="File NAME.pub, or the public key itself."
)
@role_option
@metadata_option
@output_option
def add(name: str, key: str, roles: tuple[str, ...], metadata: str | None, output: Format) -> None:
    """Add a principal, or a second key of one.

    All bookies accept the key within a second. A principal has two keys at most, for a rotation
    without downtime: add the new key, change the processes to it, remove the old one.
    """
    from zbk.metadata.records.principals import PrincipalStore
    from zbk.security.principals import named, with_key

    public_key = _public_key(key)
    what = f"add {name}, key {key_id(public_key)}, roles {', '.join(roles) or 'none'}"
    with cluster_store(metadata) as store, audited("principal", what):
        found = PrincipalStore(store).change(lambda now: with_key(now, name, public_key, roles))
    print_object(_row(named(found, name)), output)


@command("ls", ("zbk principal ls", "names, roles and public keys"))
@metadata_option
@output_option
def ls(metadata: str | None, output: Format) -> None:
    """List the principals of a cluster."""
    from zbk.metadata.records.principals import PrincipalStore

    with cluster_store(metadata) as store:
        print_rows(map(_row, PrincipalStore(store).all()), COLUMNS, output)


@command(
    "rm",
    ("zbk principal rm alice", "cut her off: also the connections that she has"),
    ("zbk principal rm alice --key old.pub", "only one of her keys"),
)
@name_argument
@click.option("--key", metavar="FILE|KEY", default="", help="Remove only this key.")
@metadata_option
def rm(name: str, key: str, metadata: str | None) -> None:
    """Remove a principal, or one of its keys.

    Bookies end the connections of a removed key within a second, and accept no new ones.
    """
    from zbk.metadata.records.principals import PrincipalStore
    from zbk.security.principals import without, without_key

    public_key = _public_key(key) if key else ""
    what = f"remove {name}, {f'key {key_id(public_key)}' if public_key else 'all keys'}"
    with cluster_store(metadata) as store, audited("principal", what):
        PrincipalStore(store).change(
            lambda now: without_key(now, name, public_key) if public_key else without(now, name)
        )


@command(
    "grant",
    ("zbk principal grant alice operator", "a role"),
    ("zbk principal grant alice operator --revoke", "take it away"),
)
@name_argument
@click.argument("roles", metavar="ROLE...", nargs=-1, required=True)
@click.option("--revoke", is_flag=True, help="Take the roles away.")
@metadata_option
@output_option
def grant(
    name: str, roles: tuple[str, ...], revoke: bool, metadata: str | None, output: Format
) -> None:
    """Grant roles to a principal: operator, bookie, auditor."""
    from zbk.metadata.records.principals import PrincipalStore
    from zbk.security.principals import named, with_roles

    what = f"{'revoke' if revoke else 'grant'} {', '.join(roles)}: {name}"
    with cluster_store(metadata) as store, audited("principal", what):
        found = PrincipalStore(store).change(
            lambda now: with_roles(now, name, roles, is_revoked=revoke)
        )
    print_object(_row(named(found, name)), output)


@group(
    "principal",
    commands_of(
        "zbk.cli.principal",
        {
            "add": ("group:add", "Add a principal, or a second key of one."),
            "ls": ("group:ls", "List the principals of a cluster."),
            "rm": ("group:rm", "Remove a principal, or one of its keys."),
            "grant": ("group:grant", "Grant roles to a principal: operator, bookie, auditor."),
        },
    ),
    ("zbk key generate alice", "make a key"),
    ("zbk principal add alice --key alice.pub", "let bookies accept it"),
)
def principal() -> None:
    """Decide whose keys the bookies of a cluster accept."""


# ------------------------------------------------------------------ private


def _public_key(text: str) -> str:
    """Return the public key that is given, or that is in the file that is given."""
    from zbk.security.keys import is_key, read_public

    if is_key(text) and not Path(text).exists():
        return text
    return read_public(text).public_key


def _row(found: "Principal") -> dict[str, Any]:
    return {"name": found.name, "roles": list(found.roles), "keys": list(found.keys)}
