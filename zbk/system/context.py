"""The context: the metadata address of the running ``zbk up``, so that commands need no flags.

A small TOML file, ``context.toml`` in ``$XDG_CONFIG_HOME/zbk`` (default ``~/.config/zbk``):

    metadata       URI of the cluster's metadata store
    data_dir       folder of the cluster
    pid            process id of the ``zbk up`` that wrote it
    started_ticks  start time of that process, in clock ticks since boot: detects a reused pid
    console        URL of its web console; optional, "" if there is none

A *stale* context is one whose process is gone: it is an error that names the cure, and is never
used or ignored. A context is written to a new file that is renamed into place, so a reader sees a
complete one or none.
"""

import json
import os
from contextlib import suppress
from typing import Final

import msgspec

from zbk.conversion import convert
from zbk.errors import InvalidOptionError
from zbk.system.private_file import open_private

CONTEXT_NAME: Final = "context.toml"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    metadata: str
    data_dir: str
    pid: int
    started_ticks: int
    console: str = ""

    @property
    def is_stale(self) -> bool:
        """True when the process that wrote it is gone."""
        return _started_ticks(self.pid) != self.started_ticks


def context_path() -> str:
    """Return the path of the context file, which may not exist."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "zbk", CONTEXT_NAME)


def find_context() -> Context | None:
    """Return the context, stale or not; ``None`` if there is none.

    Raises:
        InvalidOptionError: the file exists and cannot be decoded.
    """
    path = context_path()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        import tomllib  # noqa: PLC0415 - a client with an address does not need it

        return convert(tomllib.loads(text), Context)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, not TOML, not a context
        raise InvalidOptionError("context", path, f"{error}; to clear it: rm {path}") from error


def read_context() -> str | None:
    """Return the metadata URI of the running ``zbk up``; ``None`` if there is no context.

    Raises:
        InvalidOptionError: the context is stale or broken; the text names the cure.
    """
    context = find_context()
    if context is None:
        return None
    if context.is_stale:
        path = context_path()
        raise InvalidOptionError(
            "context",
            path,
            f"the `zbk up` that wrote it (process {context.pid}) is gone; start it again with "
            f"`zbk up --data {context.data_dir}`, or clear the context: rm {path}",
        )
    return context.metadata


def write_context(uri: str, data_dir: str, pid: int, console: str = "") -> None:
    """Make this cluster the one that commands without ``--metadata`` use.

    Raises:
        OSError: the file cannot be written.
    """
    path = context_path()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.{pid}.new"
    with open(new, "w", encoding="utf-8", opener=open_private) as file:
        file.write("# Written by `zbk up`, removed when it ends.\n")
        # a JSON string is also a TOML basic string
        file.write(f"metadata = {json.dumps(uri)}\ndata_dir = {json.dumps(data_dir)}\n")
        file.write(f"console = {json.dumps(console)}\n")
        file.write(f"pid = {pid}\nstarted_ticks = {_started_ticks(pid)}\n")
    os.replace(new, path)


def clear_context() -> None:
    """Remove the context; fine if there is none."""
    with suppress(FileNotFoundError):
        os.unlink(context_path())


def _started_ticks(pid: int) -> int:
    """Return the start time of a process; 0 if there is none, or it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])
