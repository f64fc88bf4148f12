"""``zbk generate token``: the secret of the admin APIs of a cluster."""

import secrets
from pathlib import Path

import click

from zbk.cli.command import ZbkCommand


@click.command(
    "token",
    cls=ZbkCommand,
    examples=[
        ("zbk generate token --file /etc/zbk/token", "once for a cluster; copy it to all hosts"),
        ("zbk bookie run --http-token-file /etc/zbk/token", "who knows the token may ask"),
        ("zbk console --bookie-token-file /etc/zbk/token", "the console may ask"),
    ],
)
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it into this file, which only its owner reads. A file that has a token is kept.",
)
def token(file: Path | None) -> None:
    """Print a new token for admin APIs, or make a file with one.

    A request shows the token in the header `Authorization: Bearer TOKEN`. Treat it as you treat the
    password of root.
    """
    if file is None:
        click.echo(new_token())
    else:
        make_token_file(file)


def new_token() -> str:
    """Return a token of 256 random bits."""
    return secrets.token_urlsafe(32)


def make_token_file(path: Path) -> None:
    """Write a token into a file; one that is there is kept.

    Raises:
        InvalidOptionError: the file has something else than a token.
        OSError: it cannot be written.
    """
    from zbk.admin.access import read_token
    from zbk.system.private_file import private_file

    if not path.exists():
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        with private_file(new) as file:
            file.write(f"{new_token()}\n".encode("ascii"))
        new.replace(path)  # a file that a crash left half-written is never taken for a token
    read_token(path)
