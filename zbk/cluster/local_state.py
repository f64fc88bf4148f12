"""The record of a local cluster in its folder: ``cluster.json``."""

from pathlib import Path
from typing import Final

import msgspec

from zbk.conversion import decode_json
from zbk.errors import InvalidOptionError
from zbk.storage.disk.small_file import NEW_SUFFIX, replace_file
from zbk.system.files import FileSystem, OsFiles

STATE_NAME: Final = "cluster.json"
STATE_FORMAT_VERSION: Final = 1


class BookieSeat(msgspec.Struct, frozen=True):
    """The record of one bookie."""

    bookie_id: str
    port: int = 0  # 0: not assigned yet


KEYS_FOLDER: Final = "keys"
"""The keys of a cluster with encryption (``local_keys``), which are there before it starts."""


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of ``cluster.json``."""

    metadata: str  # "sqlite", "zookeeper", or the URI of a store that this cluster did not start
    bookies: tuple[BookieSeat, ...]
    format_version: int = STATE_FORMAT_VERSION


def has_state(folder: Path) -> bool:
    """Return whether ``folder`` holds a cluster; it may also be new or empty, apart from keys.

    Raises:
        InvalidOptionError: it holds something else.
    """
    if (folder / STATE_NAME).exists():
        return True
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        strange = sorted(names - {"lock", KEYS_FOLDER, STATE_NAME + NEW_SUFFIX})
        if strange:
            raise InvalidOptionError(
                "data",
                str(folder),
                f"the folder holds {strange[0]!r} and no {STATE_NAME}: give a folder that is "
                f"new or empty, or remove what an unfinished start left: rm -r {folder}",
            )
    return False


def read_state(folder: Path) -> ClusterState:
    """Return the record of the cluster in ``folder``.

    Raises:
        InvalidOptionError: the record is damaged, or of another format version.
    """
    path = folder / STATE_NAME
    try:
        state = decode_json(path.read_bytes(), ClusterState)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidOptionError(
            "data", str(path), f"is not readable ({error}); to start afresh: rm -r {folder}"
        ) from error
    if state.format_version != STATE_FORMAT_VERSION:
        raise InvalidOptionError(
            "data", str(path), f"has format version {state.format_version}, not 1"
        )
    return state


def check_fits(state: ClusterState, folder: Path, metadata: str, bookie_count: int) -> None:
    """Check that the cluster in ``folder`` can be started with these options.

    Raises:
        InvalidOptionError: its metadata are elsewhere, or it has more bookies.
    """
    if state.bookies and state.metadata != metadata:  # without any, nothing is in its metadata
        raise InvalidOptionError(
            "data",
            str(folder),
            f"its cluster has its metadata in {state.metadata!r}, not in {metadata!r}: "
            f"start it so, give another folder, or start afresh: rm -r {folder}",
        )
    if len(state.bookies) > bookie_count:
        raise InvalidOptionError(
            "bookies",
            bookie_count,
            f"the cluster in {folder} has {len(state.bookies)} bookies; give "
            f"--bookies {len(state.bookies)}, or start afresh: rm -r {folder}",
        )


def write_state(folder: Path, state: ClusterState, files: FileSystem | None = None) -> None:
    """Replace the record in ``folder``, durably: the cluster cannot be started without it."""
    content = msgspec.json.format(msgspec.json.encode(state))
    replace_file(files or OsFiles(), str(folder), STATE_NAME, content)
