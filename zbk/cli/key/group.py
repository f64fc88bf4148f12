"""``zbk key``: make keys and look at them. No command prints a secret key."""

from pathlib import Path

import click

from zbk.audit.record import key_id
from zbk.cli.audit import audited
from zbk.cli.command import command, commands_of, group
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_object, print_rows

dir_option = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Folder of the key files.",
)


@command(
    "generate",
    ("zbk key generate alice", "alice.key for her alone, alice.pub for the cluster"),
    ("zbk key generate bookie-1 --dir /etc/zbk", "for a service"),
)
@click.argument("name", metavar="NAME")
@dir_option
@output_option
def generate(name: str, folder: Path, output: Format) -> None:
    """Make a new key: NAME.key, which is secret, and NAME.pub.

    NAME.key has mode 0600. Keep it on the machine that uses it. NAME.pub may be read by anyone:
    `zbk principal add NAME --key NAME.pub` makes a cluster accept the key. Files that exist are not
    replaced.
    """
    from zbk.security.keys import write_pair
    from zbk.transport.curve import new_pair

    pair = new_pair(name)
    with audited("key", f"generate {name}, key {key_id(pair.public_key)}"):
        private, public = write_pair(folder, pair)
    shown = {
        "name": name,
        "public_key": pair.public_key,
        "private_file": str(private),
        "public_file": str(public),
    }
    print_object(shown, output)


@command(
    "show",
    ("zbk key show alice.pub", "its name and public key"),
    ("zbk key show alice.key", "the same: the secret key is never shown"),
)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@output_option
def show(path: Path, output: Format) -> None:
    """Show the public key in a file of either kind."""
    from zbk.security.keys import read_public

    found = read_public(path)
    print_object({"name": found.name, "public_key": found.public_key}, output)


@command("list", ("zbk key list --dir /etc/zbk", "the public keys in a folder"))
@dir_option
@output_option
def list_(folder: Path, output: Format) -> None:
    """List the public keys in a folder."""
    from zbk.security.keys import PRIVATE_ENDING, list_public

    rows = (
        {
            "name": found.name,
            "public_key": found.public_key,
            "private_file": "yes" if path.with_suffix(PRIVATE_ENDING).exists() else "no",
        }
        for path, found in list_public(folder)
    )
    print_rows(rows, ["name", "public_key", "private_file"], output)


@group(
    "key",
    commands_of(
        "zbk.cli.key",
        {
            "generate": (
                "group:generate",
                "Make a new key: NAME.key, which is secret, and NAME.pub.",
            ),
            "show": ("group:show", "Show the public key in a file of either kind."),
            "list": ("group:list_", "List the public keys in a folder."),
        },
    ),
    ("zbk key generate alice", "a key for a person, a program or a bookie"),
    ("zbk principal add alice --key alice.pub", "make the cluster accept it"),
)
def key() -> None:
    """Make keys, with which processes prove who they are and encrypt."""
