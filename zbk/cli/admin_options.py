"""The options of commands whose process serves the admin API, and the API of a bookie."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zbk.cli.options import option_group
from zbk.config.http_address import OFF, is_loopback
from zbk.errors import InvalidOptionError

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from zbk.admin.cluster import Cluster

_token_option = click.option(
    "--http-token-file",
    "token_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The admin API requires the token in this file. Without one, it serves only loopback.",
)

admin_options = option_group(
    click.option(
        "--allow-actions",
        is_flag=True,
        help="The admin API of --http may change the cluster. Without it, it only reads.",
    ),
    _token_option,
)

console_options = option_group(
    click.option(
        "--allow-actions",
        is_flag=True,
        help="Pages and the admin API of the console may change the cluster. Loopback only.",
    ),
    _token_option,
)

up_options = option_group(
    click.option(
        "--allow-actions",
        is_flag=True,
        help="Pages of the console, its admin API and those of the bookies may change the cluster.",
    ),
    _token_option,
)

bookie_token_option = click.option(
    "--bookie-token-file",
    "bookie_token_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Token that the admin APIs of bookies require; it is sent to all registered bookies.",
)


class AdminApi:
    """The admin API of a process: ``routes`` are served beside its metrics."""

    def __init__(
        self, cluster: "Cluster", http: str, *, has_actions: bool, token_file: Path | None
    ) -> None:
        """Read the token.

        Raises:
            InvalidOptionError: there is none in its file, or ``http`` is off.
        """
        from zbk.admin.access import read_token

        if http == OFF and (has_actions or token_file):
            raise InvalidOptionError("http", http, "the admin API needs an address")
        self._cluster = cluster
        self._has_actions = has_actions
        self._token = read_token(token_file) if token_file else ""

    def routes(self, host: str) -> "Sequence[BaseRoute]":
        """Return the routes of a server at ``host``."""
        from zbk.admin.access import Access
        from zbk.admin.routes import admin_routes

        access = Access(
            is_loopback=is_loopback(host), token=self._token, has_actions=self._has_actions
        )
        return admin_routes(self._cluster, access)
