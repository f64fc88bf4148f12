"""Options and argument types that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

metadata_option = click.option(
    "--metadata",
    metavar="URI",
    envvar="ZBK_METADATA",
    show_envvar=True,
    help="The cluster's metadata store, zk://host:port/root or sqlite:///path. "
    "[default: the running `zbk up`]",
)

output_option = click.option(
    "-o",
    "--output",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json: an object, or an object a line where there are many.",
)

LEDGER_TYPES = {"pd": "PD_JOURNAL", "vd": "VD_JOURNAL"}

ID_MAX = (
    2**63 - 1
)  # as the wire has it, and ``zbk.protocol.entry.words``, which is not imported here

ledger_id_argument = click.argument("ledger_id", metavar="ID", type=click.IntRange(0, ID_MAX))


def password_option(command: FunctionT) -> FunctionT:
    """Give a command the ledger password as ``password: bytes``."""
    return click.option(
        "--password-file",
        "password",
        metavar="FILE",
        type=click.Path(path_type=Path, allow_dash=False),
        callback=_read_password,
        help="File with the ledger's password; a newline at its end does not count. "
        "[env var: ZBK_PASSWORD, the password itself]",
    )(command)


def ledger_options(command: FunctionT) -> FunctionT:
    """Give a command what a new ledger is made of."""
    options = [
        click.option(
            "-E",
            "--ensemble",
            "ensemble_size",
            metavar="N",
            type=click.IntRange(min=1),
            default=3,
            show_default=True,
            help="How many bookies the ledger is spread over.",
        ),
        click.option(
            "-w",
            "--write-quorum",
            "write_quorum_size",
            metavar="N",
            type=click.IntRange(min=1),
            default=3,
            show_default=True,
            help="How many bookies hold each entry.",
        ),
        click.option(
            "-a",
            "--ack-quorum",
            "ack_quorum_size",
            metavar="N",
            type=click.IntRange(min=1),
            default=2,
            show_default=True,
            help="How many of them must answer before an entry counts.",
        ),
        click.option(
            "--type",
            "ledger_type",
            type=click.Choice(list(LEDGER_TYPES), case_sensitive=False),
            default="pd",
            show_default=True,
            help="pd: acknowledged when fsynced; vd: when in the page cache, durable by sync.",
        ),
        click.option(
            "--digest",
            "digest_type",
            type=click.Choice(["xxh3", "mac", "none"], case_sensitive=False),
            default="xxh3",
            show_default=True,
            help="How entries are checked; mac needs a password.",
        ),
        click.option(
            "--meta",
            "custom_metadata",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_parse_meta,
            help="Custom metadata; may be given several times.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return password_option(command)


def ledger_keywords(options: dict[str, Any]) -> dict[str, Any]:
    """Turn what ``ledger_options`` gave into keywords of ``create_ledger``.

    Raises:
        click.UsageError: the digest needs a password, and none is given.
    """
    if options["digest_type"] == "mac" and not options["password"]:
        raise click.UsageError(
            "--digest mac needs a password: give --password-file, or set ZBK_PASSWORD."
        )
    return options | {
        "ledger_type": LEDGER_TYPES[options["ledger_type"]],
        "digest_type": options["digest_type"].upper(),
    }


def _parse_meta(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, bytes]:
    parsed = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", ctx, parameter)
        parsed[key] = text.encode("utf-8", "surrogateescape")  # as it was on the command line
    return parsed


def _read_password(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> bytes:
    import os

    if value is None:
        return os.environb.get(b"ZBK_PASSWORD", b"")
    return read_password_file(ctx, parameter, value)


def read_password_file(ctx: click.Context, parameter: click.Parameter, path: Path) -> bytes:
    """Return the password in a file.

    Raises:
        click.BadParameter: the file cannot be read, or holds no password.
    """
    try:
        password = path.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    if not password:
        why = f"{path} holds no password. For a ledger without one, leave the option out."
        raise click.BadParameter(why, ctx, parameter)
    return password


def parse_size_option(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    """Turn ``4096``, ``64KiB`` or ``"1 MiB"`` into bytes."""
    if value is None:
        return None
    from zbk.config.units import parse_size
    from zbk.errors import InvalidOptionError

    try:
        size = parse_size(value)
    except InvalidOptionError as error:
        raise click.BadParameter(
            f"{value!r} is no size: give bytes, or a unit as in 64KiB", ctx, parameter
        ) from error
    if size < 1:
        raise click.BadParameter("must be at least 1 byte", ctx, parameter)
    return size


def parse_duration_option(ctx: click.Context, parameter: click.Parameter, value: str) -> int:
    """Turn ``500``, ``500ms``, ``2s`` or ``1min`` into milliseconds."""
    from zbk.config.units import parse_duration_ms
    from zbk.errors import InvalidOptionError

    try:
        duration_ms = parse_duration_ms(value)
    except InvalidOptionError as error:
        raise click.BadParameter(
            f"{value!r} is no duration: give milliseconds, or a unit as in 2s", ctx, parameter
        ) from error
    if duration_ms < 1:
        raise click.BadParameter("must be at least 1 ms", ctx, parameter)
    return duration_ms
