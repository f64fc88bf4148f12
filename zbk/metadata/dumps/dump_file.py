"""The format of a dump: JSON lines, a header first, a checksum last.

    {"zbk_metadata_dump": 1, "zbk": "<version>", "exported_ms": int, "metadata": "<address>"}
    {"path": "/...", "version": int, "value": "<base64>"}      one line per node, parents first
    {"node_count": int, "sha256": "<hex of all bytes before this line>"}

``version`` is that of the node in its store, for people: a restored node begins at 0, as the
interface of stores has it. Ephemeral nodes are left out: registrations, locks, the election.

A reader checks everything before it yields the first node, so a cut or changed dump restores
nothing.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from zbk.conversion import convert
from zbk.errors import CorruptRecordError, InvalidOptionError, UnsupportedVersionError
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX, check_path, check_value
from zbk.version import __version__

FORMAT_VERSION: Final = 1
LINE_SIZE_MAX: Final = 2 * VALUE_SIZE_MAX


class DumpedNode(msgspec.Struct, frozen=True):
    """A node of a dump."""

    path: str
    value: bytes
    version: int = 0


def write_dump(
    file: BinaryIO, nodes: Iterable[DumpedNode], *, address: str, exported_ms: int
) -> int:
    """Write a dump; return the number of its nodes."""
    digest = hashlib.sha256()

    def put(value: dict[str, Any]) -> None:
        line = json.dumps(value).encode("ascii") + b"\n"
        digest.update(line)
        file.write(line)

    header = {"zbk_metadata_dump": FORMAT_VERSION, "zbk": __version__}
    put({**header, "exported_ms": exported_ms, "metadata": address})
    count = 0
    for one in nodes:
        value = base64.b64encode(one.value).decode("ascii")
        put({"path": one.path, "version": one.version, "value": value})
        count += 1
    put({"node_count": count, "sha256": digest.hexdigest()})
    return count


class Dump:
    """A dump whose checksum, order and form were checked."""

    def __init__(self, path: Path) -> None:
        """Check the dump.

        Raises:
            InvalidOptionError: the file cannot be read, or is no regular file.
            CorruptRecordError: it is no dump, or a part is missing or changed.
            UnsupportedVersionError: a newer zbk wrote it.
        """
        self.path = path
        if not path.is_file():
            raise InvalidOptionError("file", str(path), "is no regular file")
        try:
            self.node_count = sum(1 for _ in self._checked())
        except OSError as error:
            raise InvalidOptionError("file", str(path), f"cannot be read: {error}") from error

    def nodes(self) -> Iterator[DumpedNode]:
        """Yield the nodes, parents first."""
        yield from self._checked()

    def _checked(self) -> Iterator[DumpedNode]:
        digest = hashlib.sha256()
        seen = {"/"}
        count = 0
        with self.path.open("rb") as file:
            line = file.readline(LINE_SIZE_MAX)
            self._check_header(self._object(line, 0))
            offset = 0
            while True:
                digest.update(line)
                offset += len(line)
                line = file.readline(LINE_SIZE_MAX)
                value = self._object(line, offset)
                if "path" not in value:
                    break
                node = self._node(value, offset)
                if node.path in seen or (node.path.rpartition("/")[0] or "/") not in seen:
                    raise self._corrupt(offset, f"{node.path} comes twice, or before its parent")
                seen.add(node.path)
                count += 1
                yield node
            if value != {"node_count": count, "sha256": digest.hexdigest()}:
                raise self._corrupt(offset, "the checksum or the number of nodes is wrong")
            if file.read(1):
                raise self._corrupt(offset + len(line), "bytes follow the checksum")

    def _check_header(self, header: dict[str, Any]) -> None:
        version = header.get("zbk_metadata_dump")
        if not isinstance(version, int):
            raise self._corrupt(0, "is no dump of zbk's metadata")
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(f"{self.path} is a dump of format {version}")

    def _object(self, line: bytes, offset: int) -> dict[str, Any]:
        try:
            value = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._corrupt(offset, "is no line of a dump, or is cut")
        return value

    def _node(self, value: dict[str, Any], offset: int) -> DumpedNode:
        try:
            data = base64.b64decode(value["value"], validate=True)
            node = convert({**value, "value": data}, DumpedNode)
            check_path(node.path)
            check_value(node.value)
        except (KeyError, TypeError, binascii.Error, ValueError, InvalidOptionError) as error:
            raise self._corrupt(offset, f"is no node: {error}") from error
        return node

    def _corrupt(self, offset: int, reason: str) -> CorruptRecordError:
        return CorruptRecordError(str(self.path), offset, reason)
