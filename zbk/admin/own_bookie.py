"""Operations on this process's bookie: its options, its files, what it has not synced."""

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zbk.admin.cluster import Cluster
from zbk.admin.operation import Arguments
from zbk.config import BookieConfig
from zbk.config.running import AUTORECOVERY, FROM_THE_BOOKIE
from zbk.config.sources import DEFAULT
from zbk.errors import InvalidOptionError, UnavailableError
from zbk.health.redaction import known_secrets, redacted_option

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_TYPES: Final = ("journal", "entrylog", "index")
FILE_COUNT_MAX: Final = 100_000
"""Files of one type in an answer."""


def server_config(cluster: Cluster, _given: Arguments) -> dict[str, str]:
    """Return the options of the bookie, as texts, without secrets; of autorecovery beside it, too.

    Options of autorecovery have its table in front of their names. Those that it has from the
    bookie are left out.
    """
    config = _config(cluster)
    secrets = known_secrets(os.environ)
    values: dict[str, object] = msgspec.structs.asdict(config)
    if cluster.autorecovery is not None:
        beside = cluster.autorecovery.config
        values |= {
            f"{AUTORECOVERY}{name}": getattr(beside, name)
            for name in beside.__struct_fields__
            if name not in FROM_THE_BOOKIE
        }
    return {name: redacted_option(name, value, secrets) for name, value in values.items()}


def option_sources(cluster: Cluster, given: Arguments) -> dict[str, dict[str, str]]:
    """Return the options in ``server_config`` with the sources of their values."""
    changed = {} if cluster.running is None else dict(cluster.running.sources)
    if cluster.autorecovery is not None:
        beside = cluster.autorecovery.sources
        changed |= {f"{AUTORECOVERY}{name}": source for name, source in beside.items()}
    sources = {**cluster.option_sources, **changed}
    return {
        name: {"value": value, "source": sources.get(name, DEFAULT)}
        for name, value in server_config(cluster, given).items()
    }


def expand_storage(cluster: Cluster, _given: Arguments) -> dict[str, Any]:
    """Add the new directories of the configuration, which is read again; the bookie restarts."""
    from zbk.actors.identity.expansion import check_expansion  # noqa: PLC0415 - loads a bookie
    from zbk.system.files import OsFiles  # noqa: PLC0415 - seldom used

    config, bookie = _config(cluster), cluster.own_bookie
    if bookie is None or cluster.read_options is None:
        raise _none()
    wanted = cluster.read_options()
    expanded = msgspec.structs.replace(
        config, journal_dir=wanted.journal_dir, ledger_dir=wanted.ledger_dir
    )
    found = check_expansion(OsFiles(), cluster.store, expanded)
    if bookie.ended.is_set():
        raise UnavailableError("the bookie is stopping: ask again when it has started")
    bookie.request_expansion(expanded)
    return {"bookie_id": found.after.bookie_id, "added": list(found.new)}


def list_disk_files(cluster: Cluster, given: Arguments) -> dict[str, str]:
    """Return the names of files, in one text for each type, with tabs in between."""
    config = _config(cluster)
    shown = {}
    for one in [given["file_type"]] if given["file_type"] else FILE_TYPES:
        names = list(islice(_names(config, one), FILE_COUNT_MAX + 1))
        if len(names) > FILE_COUNT_MAX:
            raise InvalidOptionError("file_type", one, f"there are over {FILE_COUNT_MAX} files")
        shown[f"{one} files"] = "\t".join(names)
    return shown


def unsynced_ledgers(cluster: Cluster, given: Arguments) -> dict[str, Any]:
    """Return the ledgers of which a loss of power takes most from the bookie; syncs nothing."""
    from zbk.actors.serve.unsynced_ledgers import largest  # noqa: PLC0415 - loads a bookie

    if cluster.own_bookie is None:
        raise _none()
    found = cluster.own_bookie.unsynced_ledgers()
    return {
        "bookie_id": cluster.bookie_id,
        "ledger_count": len(found),
        "unsynced_size": sum(one.unsynced_size for one in found),
        "ledgers": msgspec.to_builtins(largest(found, given["order"], given["limit"])),
    }


def _names(config: BookieConfig, file_type: str) -> "Iterator[str]":
    from zbk.storage.entry_logs.entry_log import log_ids, log_path  # noqa: PLC0415 - seldom used
    from zbk.storage.index.index_file import IndexPath, ledger_ids  # noqa: PLC0415
    from zbk.storage.journal.segment import segment_ids, segment_path  # noqa: PLC0415
    from zbk.system.files import OsFiles  # noqa: PLC0415

    files = OsFiles()
    match file_type:
        case "journal":
            paths = (
                segment_path(folder, one)
                for folder in filter(files.exists, config.journal_dirs)
                for one in segment_ids(files, folder)
            )
        case "entrylog":
            logs = (f"{folder}/logs" for folder in config.ledger_dirs)
            paths = (
                log_path(folder, one)
                for folder in filter(files.exists, logs)
                for one in log_ids(files, folder)
            )
        case _:
            roots = (f"{folder}/index" for folder in config.ledger_dirs)
            paths = (
                IndexPath.of(root, one).path
                for root in filter(files.exists, roots)
                for one in ledger_ids(files, root)
            )
    return (path.rpartition("/")[2] for path in paths)


def _config(cluster: Cluster) -> BookieConfig:
    if cluster.bookie_config is None:
        raise _none()
    return cluster.bookie_config


def _none() -> InvalidOptionError:
    reason = "the process has none: ask at the address of the bookie"
    return InvalidOptionError("bookie", "", reason)
