"""``zbk generate compose``: a cluster as containers on one host."""

from typing import Any, Final

import click

import zbk
from zbk.cli.command import ZbkCommand
from zbk.cli.generate.closed import Closing, close_compose
from zbk.cli.generate.containers import (
    AUTORECOVERY_COMMAND,
    CONSOLE_PORT,
    DEFAULT_IMAGE,
    INIT_COMMAND,
    SERVE_COMMAND,
    STOP_S,
    TOKEN_COMMAND,
    TOKEN_DIR,
    USER_ID,
    autorecovery_environment,
    bookie_environment,
    console_command,
    http_check,
)
from zbk.cli.generate.yaml_text import yaml_text
from zbk.cli.options import integer_option
from zbk.errors import InvalidOptionError

ZOOKEEPER_IMAGE: Final = "zookeeper:3.9"
METADATA: Final = "zk://zookeeper:2181/zbk"
TOKEN_VOLUME: Final = f"token:{TOKEN_DIR}"


@click.command(
    "compose",
    cls=ZbkCommand,
    examples=[
        ("zbk generate compose > compose.yaml", "then: docker compose up -d"),
        ("zbk generate compose --keys ./keys --own-keys --metadata-user zbk", "a closed cluster"),
        ("docker compose exec autorecovery zbk status", "zbk in the network of the containers"),
    ],
)
@integer_option("--bookies", "bookie_count", default=3, high=99, help_text="Number of bookies.")
@click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="Image that has zbk.")
@click.option(
    "--keys",
    "keys_dir",
    metavar="DIR",
    default="",
    help="Folder of the host with bookie.key, autorecovery.key and console.key, which user 10001 "
    "owns; with --metadata-user also zookeeper.password.  [default: no keys]",
)
@click.option(
    "--own-keys",
    "has_own_keys",
    is_flag=True,
    help="Each bookie has a key of its own: bookie1.key, bookie2.key and so on, in place of "
    "bookie.key.",
)
@click.option("--metadata-user", metavar="NAME", default="", help="User of ZooKeeper.")
def compose(
    *, bookie_count: int, image: str, keys_dir: str, has_own_keys: bool, metadata_user: str
) -> None:
    """Print a compose file: ZooKeeper, bookies, autorecovery, console.

    The console is at http://127.0.0.1:8710 of the host. Bookies are advertised under the names of
    their services, so clients run in the network of the containers. Data are in named volumes and
    outlive the containers. The first start makes the token of the admin APIs, in a volume of its
    own.

    Without --keys the bookies trust the network of the containers. With it they accept encrypted
    connections of principals only.
    """
    document = compose_file(bookie_count, image)
    if keys_dir:
        closing = Closing(
            source=keys_dir,
            metadata=METADATA,
            metadata_user=metadata_user,
            has_own_keys=has_own_keys,
        )
        document = close_compose(document, closing)
    elif metadata_user:
        raise InvalidOptionError("metadata-user", metadata_user, "needs --keys")
    elif has_own_keys:
        raise InvalidOptionError("own-keys", value=True, reason="needs --keys")
    click.echo(f"# Written by `zbk generate compose` of zbk {zbk.__version__}.")
    click.echo(yaml_text([document]), nl=False)


def compose_file(bookie_count: int, image: str) -> dict[str, Any]:
    """Return the compose file as plain values."""
    names = [f"bookie{number}" for number in range(1, bookie_count + 1)]
    services = {
        "zookeeper": _zookeeper(),
        "token": _token(image),
        **{name: _bookie(name, image) for name in names},
        "autorecovery": _autorecovery(image),
        "console": _console(image),
    }
    volumes = ["zookeeper-data", "zookeeper-log", "token", *(f"{name}-data" for name in names)]
    return {"name": "zbk", "services": services, "volumes": {name: {} for name in volumes}}


# ------------------------------------------------------------------ private


def _zookeeper() -> dict[str, Any]:
    return {
        "image": ZOOKEEPER_IMAGE,
        "restart": "unless-stopped",
        "environment": {"ZOO_ADMINSERVER_ENABLED": "false", "ZOO_4LW_COMMANDS_WHITELIST": "srvr"},
        "volumes": ["zookeeper-data:/data", "zookeeper-log:/datalog"],
        "healthcheck": _check(["zkServer.sh", "status"]),
    }


def _token(image: str) -> dict[str, Any]:
    return _sandbox(image) | {
        "command": list(TOKEN_COMMAND),
        "network_mode": "none",
        "volumes": [TOKEN_VOLUME],
    }


def _bookie(name: str, image: str) -> dict[str, Any]:
    command = f"{INIT_COMMAND}; exec {' '.join(SERVE_COMMAND)}"
    return _after_token(image) | {
        "command": ["sh", "-c", command],
        "environment": bookie_environment(METADATA, f"tcp://{name}:3181"),
        "volumes": [f"{name}-data:/data", f"{TOKEN_VOLUME}:ro"],
        "healthcheck": _check(http_check()) | {"start_period": "10m"},  # while it replays
    }


def _autorecovery(image: str) -> dict[str, Any]:
    return _service(image) | {
        "command": list(AUTORECOVERY_COMMAND),
        "environment": autorecovery_environment(METADATA),
        "healthcheck": _check(http_check()),
    }


def _console(image: str) -> dict[str, Any]:
    return _after_token(image) | {
        "command": console_command("0.0.0.0"),  # noqa: S104 - in the container
        "environment": {"ZBK_METADATA": METADATA},
        "volumes": [f"{TOKEN_VOLUME}:ro"],
        "ports": [f"127.0.0.1:{CONSOLE_PORT}:{CONSOLE_PORT}"],  # the console has no login
        "healthcheck": _check(http_check(CONSOLE_PORT)),
    }


def _service(image: str) -> dict[str, Any]:
    """Return what the services have in common that run until they are stopped."""
    return _sandbox(image) | {
        "restart": "on-failure:5",  # exit code 7 says that a restart cannot help
        "stop_grace_period": f"{STOP_S}s",
        "ulimits": {"nofile": 65_536},
        "depends_on": {"zookeeper": {"condition": "service_healthy"}},
    }


def _after_token(image: str) -> dict[str, Any]:
    """Return what the services have in common that read the token when they start."""
    service = _service(image)
    made = {"token": {"condition": "service_completed_successfully"}}
    return service | {"depends_on": service["depends_on"] | made}


def _sandbox(image: str) -> dict[str, Any]:
    """Return what the containers of zbk may do."""
    return {
        "image": image,
        "user": f"{USER_ID}:{USER_ID}",
        "read_only": True,
        "tmpfs": ["/tmp"],  # noqa: S108 - in the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }


def _check(command: list[str]) -> dict[str, Any]:
    return {"test": ["CMD", *command], "interval": "10s", "timeout": "5s", "retries": 6}
