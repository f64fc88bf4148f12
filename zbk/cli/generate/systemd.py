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
CONSOLE: Final = "127.0.0.1:8710"
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
{secrets}
UMask=0027
MemorySwapMax=0
LimitCORE=1
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
SystemCallFilter=~@privileged @resources @keyring process_vm_readv process_vm_writev userfaultfd
SystemCallFilter=~unshare setns
SystemCallFilter=sched_setscheduler fchown
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""
"""AF_NETLINK: ZeroMQ reads the list of interfaces through it, and aborts the process without.

MemorySwapMax: keys are in the memory of the process, in more than one place, because Python and
ZeroMQ copy them. None of it reaches a disk as swap; locks of some pages would not do. LimitCORE:
the kernel writes no core file of one byte, and at 0 it would still start a handler of dumps.
SystemCallFilter: ZeroMQ calls sched_setscheduler and aborts the process if that fails; SQLite
calls fchown for root. `tests/security/test_system_calls.py` compares it with a bookie's calls."""


@click.command(
    "systemd",
    cls=ZbkCommand,
    examples=[
        (
            "zbk generate systemd --config /etc/zbk/bookie.toml > zbk-bookie.service",
            "a bookie; the file belongs into /etc/systemd/system",
        ),
        (
            "zbk generate systemd --config /etc/zbk/bookie.toml --key /etc/zbk/bookie1.key",
            "the service gets the key from systemd; only root may read the file",
        ),
        ("zbk generate systemd --unit autorecovery", "the auditor and the workers"),
        ("zbk generate systemd --unit console --metadata zk://zk1:2181/zbk", "the web console"),
    ],
)
@choice_option(
    "--unit",
    "kind",
    choices=["bookie", "autorecovery", "console"],
    default="bookie",
    help_text="Service.",
)
@click.option("--user", default="zbk", show_default=True, help="User and group of the service.")
@click.option(
    "--program", metavar="FILE", default=None, help="The zbk command. [default: this one]"
)
@click.option(
    "--token-file",
    metavar="FILE",
    default="",
    help="File with the token of the admin APIs: bookies require it, and the console shows it to "
    "them. `zbk generate token` makes one.",
)
@click.option(
    "--key",
    "key_file",
    metavar="FILE",
    default="",
    help="Private key file, which systemd gives to the service as a credential: it may belong to "
    "root. It counts before one in --config.",
)
@click.option(
    "--metadata-password-file",
    "password_file",
    metavar="FILE",
    default="",
    help="File with the password of the user of ZooKeeper, likewise.",
)
@click.option(
    "--environment-file",
    metavar="FILE",
    default="",
    help="File with variables of the service, a line NAME=VALUE for each, which systemd reads as "
    "root. They count before --config and --key.",
)
@directory_options
def systemd(
    *,
    kind: str,
    user: str,
    program: str | None,
    token_file: str,
    key_file: str,
    password_file: str,
    environment_file: str,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Print a systemd unit for a bookie, autorecovery or the console.

    The service may write to its directories only, which are those of --config, or /var/lib/zbk. A
    bookie whose directories lack its history is not restarted. `systemctl edit` adds to the unit.

    --key and --metadata-password-file need systemd 250 or later on the host of the service.

    The console serves the cluster of --metadata, or of the file of a bookie in --config, at
    http://127.0.0.1:8710.
    """
    if token_file and kind == "autorecovery":
        raise InvalidOptionError("token-file", token_file, "autorecovery has no admin API")
    config_file = options["config_file"]
    config = offline_config(BookieConfig, options)
    directories = [*config.journal_dirs, *config.ledger_dirs] if kind == "bookie" else []
    shown = str(config_file.absolute()) if config_file else CONFIG_FILE
    if kind == "console":
        command = _console_command(config.metadata, token_file)
        if config_file:
            command += ["--config", _absolute(shown)]  # it may have a key
    else:
        command = [kind, "run", "--config", _absolute(shown), "--log-format", "json"]
        if token_file:
            command += ["--http-token-file", _absolute(token_file)]
    secrets = secret_lines(key_file, password_file, environment_file)
    text = unit(kind, user, [_absolute(program or _program()), *command], directories, secrets)
    click.echo(text, nl=False)


def unit(
    kind: str,
    user: str,
    words: Sequence[str],
    directories: Sequence[str],
    secrets: Sequence[str] = (),
) -> str:
    """Return the text of a unit that runs the command ``words``; ``secrets`` are lines of it.

    Raises:
        InvalidOptionError: a directory is not absolute.
    """
    return UNIT.format(
        version=zbk.__version__,
        kind=kind,
        command=" ".join(map(_quoted, words)),
        user=user,
        paths=" ".join(_quoted(_absolute(one)) for one in dict.fromkeys(directories)) or STATE_DIR,
        home="read-only" if Path(words[0]).parts[1:2] in _HOMES else "yes",
        exit_codes=f"2 {EXIT_LOST_HISTORY}",
        secrets="".join(f"{line}\n" for line in secrets),
    )


# ------------------------------------------------------------------ private


def _console_command(metadata: str, token_file: str) -> list[str]:
    if not metadata:
        reason = "the console needs one: give --metadata, or --config with the file of a bookie"
        raise InvalidOptionError("metadata", "", reason)
    token = ["--bookie-token-file", _absolute(token_file)] if token_file else []
    return ["console", "--metadata", metadata, "--http", CONSOLE, "--log-format", "json", *token]


def secret_lines(key_file: str, password_file: str, environment_file: str) -> list[str]:
    """Return the lines that bring the secrets of a service.

    ``%d`` is the directory of its credentials: in memory that is never swapped, for its user only.
    """
    lines = []
    if environment_file:
        lines.append(f"EnvironmentFile={_escaped(_absolute(environment_file))}")
    for variable, file in (("ZBK_KEY", key_file), ("ZBK_METADATA_PASSWORD_FILE", password_file)):
        if file:
            name = variable.removeprefix("ZBK_").lower()
            lines.append(f"LoadCredential={name}:{_escaped(_absolute(file))}")
            lines.append(f"Environment={variable}=%d/{name}")
    return lines


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise InvalidOptionError("path", path, "give an absolute path: systemd needs it")
    return path


def _program() -> str:
    beside = Path(sys.executable).with_name("zbk")
    return str(beside) if beside.exists() else shutil.which("zbk") or "/usr/bin/zbk"


def _quoted(word: str) -> str:
    """Return a word as units have it: % begins a specifier, spaces separate.

    >>> _quoted("/a b"), _quoted("/50%")
    ('"/a b"', '/50%%')
    """
    text = _escaped(word)
    return f'"{text}"' if " " in text else text


def _escaped(word: str) -> str:
    return word.replace("%", "%%")
