"""The sections of wire and file formats: the texts of the modules that read and write them."""

import importlib
import inspect
from collections.abc import Mapping
from typing import Final

from docs.generator.text import code, page
from zbk.wire.messages import Message

FIELDS: Final = "By the name of the operation, in the order of the class in `zbk/wire/messages.py`:"
WIRE: Final = {
    "Messages": "zbk.wire.messages",
    "Bundles": "zbk.wire.bundle",
    "An entry": "zbk.protocol.entry.entry",
}
FILES: Final = {
    "Journal segment": "zbk.storage.journal.segment",
    "Journal record": "zbk.storage.journal.record",
    "Last log mark": "zbk.storage.journal.last_mark",
    "Entry log": "zbk.storage.entry_logs.format",
    "Index file": "zbk.storage.index.index_file",
    "Index page": "zbk.storage.index.index_page",
    "Extents of an index file": "zbk.storage.index.page_extents",
    "Flush file": "zbk.storage.index.flush_file",
    "Census": "zbk.storage.index.census",
    "New entry logs": "zbk.storage.entry_logs.new_logs",
    "Deleted ledgers": "zbk.storage.index.deleted_ledgers",
    "Note of a compaction": "zbk.storage.gc.compaction_note",
    "Limbo": "zbk.storage.directory.limbo",
    "Note of serving": "zbk.storage.directory.serving",
    "Cookie, place, incarnation, lock": "zbk.storage.directory.identity",
    "Replacement of small files": "zbk.storage.disk.small_file",
}
METADATA: Final = {
    "Paths": "zbk.metadata.paths",
    "Values": "zbk.metadata.values",
}


def wire() -> str:
    """Return the sections of the wire format."""
    return page(*_sections(WIRE), "### Fields of the messages", FIELDS, _message_fields())


def files() -> str:
    """Return the sections of file formats and metadata."""
    return page(
        "## Files of a bookie",
        *_sections(FILES, "###"),
        "## Records in the metadata store",
        *_sections(METADATA, "###"),
    )


def _sections(modules: Mapping[str, str], level: str = "##") -> list[str]:
    parts: list[str] = []
    for heading, name in modules.items():
        text = inspect.getdoc(importlib.import_module(name)) or ""
        parts += [f"{level} {heading}", f"Module `{name}`.", code(text)]
    return parts


def _message_fields() -> str:
    kinds = sorted(_below(Message), key=lambda kind: str(kind.__struct_config__.tag))
    return code(
        "\n".join(
            f"{kind.__struct_config__.tag!s:16} {', '.join(kind.__struct_fields__)}"
            for kind in kinds
        )
    )


def _below(kind: type[Message]) -> list[type[Message]]:
    children = kind.__subclasses__()
    found = [one for one in children if not one.__subclasses__()]
    return [*found, *(below for child in children for below in _below(child))]
