"""What a file of a simulated disk holds: what programs see, what is on the platter, and between.

Changes that were not synced wait in order. A sync brings them to the platter; a loss of power
brings an arbitrary part of them there, in whole sectors, at times torn inside.
"""

from collections.abc import Hashable
from random import Random

import msgspec

SECTOR_SIZE = 512


class Write(msgspec.Struct, frozen=True):
    number: int
    offset: int
    data: bytes  # whole sectors as they were after the write, but for the end of the file


class Resize(msgspec.Struct, frozen=True):
    number: int
    size: int


class Inode:
    """A file. Contents that do not change are ``bytes``, which copies share."""

    def __init__(self) -> None:
        self.visible: bytes | bytearray = b""
        self.durable: bytes | bytearray = b""
        self.pending: list[Write | Resize] = []

    def copy(self) -> "Inode":
        other = object.__new__(Inode)
        other.visible = self.visible = bytes(self.visible)
        other.durable = self.durable = bytes(self.durable)
        other.pending = list(self.pending)
        return other

    def show_durable(self) -> None:
        """Show programs what is on the platter: the page cache is gone."""
        self.visible = self.durable = bytes(self.durable)

    def state(self) -> Hashable:
        changes = tuple(
            (one.offset, one.data) if isinstance(one, Write) else one.size for one in self.pending
        )
        return bytes(self.visible), bytes(self.durable), changes

    def write(self, number: int, offset: int, data: bytes) -> None:
        visible = self.visible = put(self.visible, offset, data)
        end = offset + len(data)
        if offset % SECTOR_SIZE or (end % SECTOR_SIZE and end != len(visible)):
            offset -= offset % SECTOR_SIZE
            data = bytes(visible[offset : end + -end % SECTOR_SIZE])
        self.pending.append(Write(number, offset, data))

    def resize(self, number: int, size: int) -> None:
        self.visible = resize(self.visible, size)
        self.pending.append(Resize(number, size))

    def sync(self, until: int | None = None) -> None:
        """Bring what is pending, up to a change, to the platter; what a failure lost stays lost."""
        if not self.pending:
            return
        late = [] if until is None else [c for c in self.pending if c.number > until]
        for change in self.pending[: len(self.pending) - len(late)]:
            if isinstance(change, Write):
                self.durable = put(self.durable, change.offset, change.data)
            else:
                self.durable = resize(self.durable, change.size)
        self.pending = late

    def lose(self, rng: Random, keep_share: float, *, is_torn_anywhere: bool) -> None:
        """Bring an arbitrary part of what is pending to the platter; forget the rest."""
        for change in self.pending:
            match change:
                case Resize(_, size):
                    if rng.random() < keep_share:
                        self.durable = resize(self.durable, size)
                case Write(_, offset, data):
                    for at in range(0, len(data), SECTOR_SIZE):
                        if rng.random() < keep_share:
                            sector = data[at : at + SECTOR_SIZE]
                            if is_torn_anywhere and rng.random() < 0.2:
                                sector = sector[: rng.randrange(len(sector) + 1)]
                            self.durable = put(self.durable, offset + at, sector)
        self.pending = []


def put(content: bytes | bytearray, offset: int, data: bytes) -> bytearray:
    """Return the content, changed; only ``bytes`` are copied."""
    changed = content if isinstance(content, bytearray) else bytearray(content)
    if len(changed) < offset:
        changed.extend(bytes(offset - len(changed)))
    changed[offset : offset + len(data)] = data
    return changed


def resize(content: bytes | bytearray, size: int) -> bytearray:
    """Return the content, cut or filled up; only ``bytes`` are copied."""
    changed = content if isinstance(content, bytearray) else bytearray(content)
    if size < len(changed):
        del changed[size:]
    else:
        changed.extend(bytes(size - len(changed)))
    return changed
