"""``zbk generate systemd``: units with a sandbox."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

import zbk
from zbk.cli.command import ZbkCommand
from zbk.cli.config_options import directory_options, offline_config
from zbk.cli.options import choice_option
from zbk.config import BookieConfig
from zbk.errors import EXIT_LOST_HISTORY, InvalidOptionError

STATE_DIR: Final = "/var/lib/zbk"
CONFIG_FILE: Final = "/etc/zbk/bookie.toml"
_HOMES: Final = (("home",), ("root",))
"""Top folders that ``ProtectHome`` hides: a program there stays readable."""

UNIT: Final = """\
# Written by `zbk generate systemd` of zbk {version}.
[Unit]
Description=zbk {kind}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart={command}
User={user}
Group={user}
StateDirectory=zbk
ReadWritePaths={paths}
Restart=on-failure
RestartSec=5s
RestartPreventExitStatus={exit_codes}
TimeoutStopSec=60s
LimitNOFILE=65536

UMask=0027
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""
"""AF_NETLINK: ZeroMQ reads the list of interfaces through it, and aborts the process without."""


@click.command(
    "systemd",
    cls=ZbkCommand,
    examples=[
        (
            "zbk generate systemd --config /etc/zbk/bookie.toml > zbk-bookie.service",
            "a bookie; the file belongs into /etc/systemd/system",
        ),
        ("zbk generate systemd --unit autorecovery", "the auditor and the workers"),
    ],
)
@choice_option(
    "--unit", "kind", choices=["bookie", "autorecovery"], default="bookie", help_text="Service."
)
@click.option("--user", default="zbk", show_default=True, help="User and group of the service.")
@click.option(
    "--program", metavar="FILE", default=None, help="The zbk command. [default: this one]"
)
@directory_options
def systemd(
    kind: str,
    user: str,
    program: str | None,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Print a systemd unit for a bookie or for autorecovery.

    The service may write to its directories only, which are those of --config, or /var/lib/zbk. A
    bookie whose directories lack its history is not restarted. `systemctl edit` adds to the unit.
    """
    config_file = options["config_file"]
    config = offline_config(BookieConfig, options)
    directories = [*config.journal_dirs, *config.ledger_dirs] if kind == "bookie" else []
    shown = str(config_file.absolute()) if config_file else CONFIG_FILE
    text = unit(kind, user, program or _program(), shown, directories)
    click.echo(text, nl=False)


def unit(kind: str, user: str, program: str, config_file: str, directories: Sequence[str]) -> str:
    """Return the text of a unit.

    Raises:
        InvalidOptionError: a path is not absolute.
    """
    for path in (program, config_file, *directories):
        if not path.startswith("/"):
            raise InvalidOptionError("path", path, "give an absolute path: systemd needs it")
    words = [program, kind, "run", "--config", config_file, "--log-format", "json"]
    return UNIT.format(
        version=zbk.__version__,
        kind=kind,
        command=" ".join(map(_quoted, words)),
        user=user,
        paths=" ".join(map(_quoted, dict.fromkeys(directories))) or STATE_DIR,
        home="read-only" if Path(program).parts[1:2] in _HOMES else "yes",
        exit_codes=f"2 {EXIT_LOST_HISTORY}",
    )


# ------------------------------------------------------------------ private


def _program() -> str:
    beside = Path(sys.executable).with_name("zbk")
    return str(beside) if beside.exists() else shutil.which("zbk") or "/usr/bin/zbk"


def _quoted(word: str) -> str:
    """Return a word as units have it: % begins a specifier, spaces separate.

    >>> _quoted("/a b"), _quoted("/50%")
    ('"/a b"', '/50%%')
    """
    text = word.replace("%", "%%")
    return f'"{text}"' if " " in text else text
