"""The access of commands to a cluster: one object that tests replace.

``open_client`` is ``zbk.connect`` with the options of ``[client]``; a test passes a fake. Nothing
here is imported before a command runs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zbk.client.api import Client


def _connect(metadata: str | None) -> "Client":
    import zbk
    from zbk.cli.config_file import client_options

    return zbk.connect(metadata, **client_options())


class Session:
    """Opens clients of the command's cluster."""

    def __init__(self, open_client: "Callable[[str | None], Client]" = _connect) -> None:
        self.open_client = open_client
