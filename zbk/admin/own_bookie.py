"""Operations on the options and files of this process's bookie."""

import os
from itertools import islice
from typing import TYPE_CHECKING, Final

from zbk.admin.cluster import Cluster
from zbk.admin.operation import Arguments
from zbk.config import BookieConfig
from zbk.errors import InvalidOptionError
from zbk.health.redaction import known_secrets, redacted_option

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_TYPES: Final = ("journal", "entrylog", "index")
FILE_COUNT_MAX: Final = 100_000
"""Files of one type in an answer."""


def server_config(cluster: Cluster, _given: Arguments) -> dict[str, str]:
    """Return the options of the bookie, as texts, without secrets."""
    config = _config(cluster)
    secrets = known_secrets(os.environ)
    return {
        name: redacted_option(name, getattr(config, name), secrets)
        for name in config.__struct_fields__
    }


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
        reason = "the process has none: ask at the address of the bookie"
        raise InvalidOptionError("bookie", "", reason)
    return cluster.bookie_config
