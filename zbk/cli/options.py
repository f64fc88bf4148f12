"""Options and argument types that several commands share."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from zbk.cli.completion import complete_bookies, complete_ledgers, complete_names
from zbk.cli.config_file import KEY_META
from zbk.protocol.entry.words import LEDGER_ID_MAX

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Decorator = Callable[[FunctionT], FunctionT]

LEDGER_TYPES = {
    "pd": "PD_JOURNAL",
    "vd": "VD_JOURNAL",
    "vd-bypass": "VD_BYPASS_JOURNAL",
}


# ------------------------------------------------------------------ kinds of options


def option_group(*options: Decorator[Any]) -> Decorator[Any]:
    """Return one decorator that adds several options; help shows them in this order."""

    def decorate(command: FunctionT) -> FunctionT:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def integer_option(
    *names: str,
    help_text: str,
    low: int = 1,
    high: int | None = None,
    **rest: Any,  # noqa: ANN401 - click's own
) -> Decorator[Any]:
    """Return an option whose value is an integer in a range, both ends included."""
    return _option(names, help_text, type=click.IntRange(low, high), **rest)


def choice_option(
    *names: str,
    help_text: str,
    choices: Sequence[str],
    any_case: bool = False,
    **rest: Any,  # noqa: ANN401 - click's own
) -> Decorator[Any]:
    """Return an option whose value is one of a few words."""
    kind = click.Choice(choices, case_sensitive=not any_case)
    return _option(names, help_text, type=kind, **rest)


class LedgerTypeChoice(click.Choice[str]):
    """The short name of a type of ledgers. Its full name, as commands print it, counts, too."""

    def __init__(self) -> None:
        super().__init__(list(LEDGER_TYPES), case_sensitive=False)

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's own
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the short name.

        Raises:
            click.BadParameter: there is no such type.
        """
        short_names = {name: short for short, name in LEDGER_TYPES.items()}
        return super().convert(short_names.get(str(value).upper(), value), param, ctx)


def ledger_type_option(
    name: str,
    *,
    help_text: str,
    **rest: Any,  # noqa: ANN401 - click's own
) -> Decorator[Any]:
    """Return an option whose value is the short name of a type of ledgers."""
    return _option((name, "ledger_type"), help_text, type=LedgerTypeChoice(), **rest)


def size_option(*names: str, help_text: str, default: str | None = None) -> Decorator[Any]:
    """Return an option whose value is a size in bytes; ``None`` if it is not given."""
    return _option(names, help_text, metavar="SIZE", callback=_parse_size, default=default)


def duration_option(
    *names: str, help_text: str, default: str | None = None, required: bool = False
) -> Decorator[Any]:
    """Return an option whose value is a duration in milliseconds; 0 if it is not given."""
    return _option(
        names,
        help_text,
        metavar="DURATION",
        callback=parse_duration_option,
        default=default,
        required=required,
    )


def custom_metadata_option(*names: str, help_text: str) -> Decorator[Any]:
    """Return an option whose value is custom metadata, as a dict."""
    return _option(
        names,
        f"{help_text}; may be given several times.",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_parse_custom_metadata,
    )


def grants_option(*names: str, help_text: str) -> Decorator[Any]:
    """Return an option whose value is grants: rights by principal."""
    return _option(
        names,
        f"{help_text}; may be given several times.",
        metavar="PRINCIPAL=RIGHT,...",
        multiple=True,
        callback=_parse_grants,
    )


principal_argument = click.argument("principal", metavar="PRINCIPAL")
rights_argument = click.argument("rights", metavar="RIGHT...", nargs=-1, required=True)
revoke_option = click.option("--revoke", is_flag=True, help="Take the rights away.")


def _parse_grants(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, list[str]]:
    parsed: dict[str, list[str]] = {}
    for value in values:
        name, separator, rights = value.partition("=")
        if not separator or not name or not rights:
            text = f"{value!r} is not PRINCIPAL=RIGHT,... such as bob=read,append"
            raise click.BadParameter(text, ctx, parameter)
        parsed.setdefault(name, []).extend(rights.split(","))
    return parsed


def _option(
    names: Sequence[str],
    help_text: str,
    **rest: Any,  # noqa: ANN401 - click's own
) -> Decorator[Any]:
    is_default_shown = rest.get("default") is not None
    return click.option(*names, help=help_text, show_default=is_default_shown, **rest)


def _parse_custom_metadata(
    ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, bytes]:
    parsed = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", ctx, parameter)
        parsed[key] = text.encode("utf-8", "surrogateescape")  # the bytes of the command line
    return parsed


def _parse_size(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Turn ``4096``, ``64KiB`` or ``"1 MiB"`` into bytes."""
    from zbk.config.units import parse_size
    from zbk.errors import InvalidOptionError

    if value is None:
        return None
    try:
        size = parse_size(value)
    except InvalidOptionError as error:
        text = f"{value!r} is not a size: give bytes, or a unit as in 64KiB"
        raise click.BadParameter(text, ctx, parameter) from error
    if size < 1:
        raise click.BadParameter("must be at least 1 byte", ctx, parameter)
    return size


def parse_duration_option(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int:
    """Turn ``500``, ``500ms``, ``2s`` or ``1min`` into milliseconds, and ``None`` into 0."""
    from zbk.config.units import parse_duration_ms
    from zbk.errors import InvalidOptionError

    if value is None:
        return 0
    try:
        duration_ms = parse_duration_ms(value)
    except InvalidOptionError as error:
        text = f"{value!r} is not a duration: give milliseconds, or a unit as in 2s"
        raise click.BadParameter(text, ctx, parameter) from error
    if duration_ms < 1:
        raise click.BadParameter("must be at least 1 ms", ctx, parameter)
    return duration_ms


# ------------------------------------------------------------------ options

metadata_option = click.option(
    "--metadata",
    metavar="URI",
    envvar="ZBK_METADATA",
    show_envvar=True,
    help="The cluster's metadata store, zk://host:port/root or sqlite:///path. "
    "[default: the running `zbk up`]",
)


def _keep_key(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    ctx.meta[KEY_META] = value


cluster_options = option_group(
    metadata_option,
    click.option(
        "--key",
        metavar="FILE",
        envvar="ZBK_KEY",
        show_envvar=True,
        callback=_keep_key,
        expose_value=False,
        help="Private key file, for a cluster whose bookies require keys.",
    ),
)
"""The options of commands that connect to bookies."""

output_option = choice_option(
    "-o",
    "--output",
    "output",
    choices=["table", "json"],
    default="table",
    help_text="json: one object, or one object per line.",
)

ledger_id_argument = click.argument(
    "ledger_id",
    metavar="ID",
    type=click.IntRange(0, LEDGER_ID_MAX),
    shell_complete=complete_ledgers,
)

name_argument = click.argument("name", metavar="NAME", shell_complete=complete_names)
bookie_id_argument = click.argument("bookie_id", metavar="ID", shell_complete=complete_bookies)

type_option = ledger_type_option(
    "--type",
    default="pd",
    help_text="pd: acknowledged after fsync; vd: from the page cache, made durable by sync.",
)


def _read_password(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> bytes:
    if value is None:
        return os.environb.get(b"ZBK_PASSWORD", b"")
    return read_password_file(ctx, parameter, value)


def read_password_file(ctx: click.Context, parameter: click.Parameter, path: Path) -> bytes:
    """Return the password in a file.

    Raises:
        click.BadParameter: the file cannot be read, or is empty.
    """
    try:
        password = path.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    if not password:
        why = f"{path} holds no password. For a ledger without one, omit the option."
        raise click.BadParameter(why, ctx, parameter)
    return password


password_option = click.option(
    "--password-file",
    "password",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=False),
    callback=_read_password,
    help="File with the ledger's password; a newline at its end does not count. "
    "[env var: ZBK_PASSWORD, the password itself]",
)


quorum_options = option_group(
    integer_option(
        "-E",
        "--ensemble",
        "ensemble_size",
        metavar="N",
        default=3,
        help_text="Number of bookies that the ledger is spread over.",
    ),
    integer_option(
        "-w",
        "--write-quorum",
        "write_quorum_size",
        metavar="N",
        default=3,
        help_text="Number of bookies that store each entry.",
    ),
    integer_option(
        "-a",
        "--ack-quorum",
        "ack_quorum_size",
        metavar="N",
        default=2,
        help_text="Number of them that must answer before an entry is acknowledged.",
    ),
)

ledger_options = option_group(
    quorum_options,
    type_option,
    choice_option(
        "--digest",
        "digest_type",
        choices=["xxh3", "mac", "none"],
        any_case=True,
        default="xxh3",
        help_text="How entries are checked; mac needs a password.",
    ),
    custom_metadata_option("--meta", "custom_metadata", help_text="Custom metadata"),
    click.option(
        "--namespace",
        metavar="PATH",
        default="",
        help="Path whose grants count for the ledger, such as orders/eu.",
    ),
    grants_option("--grant", "grants", help_text="Rights of another principal, or of *"),
    password_option,
)
"""The properties of a new ledger; ``ledger_keywords`` turns them into arguments."""

NEW_LEDGER_OPTIONS = frozenset(
    {
        "ensemble_size", "write_quorum_size", "ack_quorum_size",
        "ledger_type", "digest_type", "custom_metadata", "namespace", "grants",
    }
)  # fmt: skip


def ledger_keywords(options: dict[str, Any]) -> dict[str, Any]:
    """Return the values of ``ledger_options`` as keywords of ``create_ledger``.

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
