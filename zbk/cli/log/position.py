"""The position argument of ``zbk log`` commands."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zbk.protocol.log.position import LogPosition


def parse_position(text: str) -> "LogPosition":
    """Turn ``LEDGER:ENTRY`` into a position."""
    from zbk.errors import InvalidOptionError
    from zbk.protocol.log.position import LogPosition

    try:
        return LogPosition.parse(text)
    except InvalidOptionError as error:
        raise click.BadParameter(f"{text!r} is not LEDGER:ENTRY, such as 7:42") from error
