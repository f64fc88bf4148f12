"""Files in memory whose bits a test changes in place: a disk at rest, quick enough for every bit.

``Image`` is a ``zbk.system.files.FileSystem`` on the bytes that a ``SimulatedDisk`` had. What is
written to it is forgotten, so that the next damage meets the same bytes; ``touched`` names it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.simulated_disk import SimulatedDisk
from zbk.system.files import Buffer, Disk, File


class ImageFile:
    """An open file of an image."""

    def __init__(self, image: "Image", path: str) -> None:
        self._image = image
        self._content = image.contents[path]
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def pread(self, size: int, offset: int) -> bytes:
        with memoryview(self._content) as view:
            return bytes(view[offset : offset + size])

    def skip_zeros(self, offset: int) -> int:
        rest = self.pread(self.size(), offset)
        return offset + len(rest) - len(rest.lstrip(b"\0"))

    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> int:
        self._image.touched.append(self._path)
        return sum(map(len, buffers))

    def sync(self) -> None:
        """Nothing is ever lost here."""

    def allocate(self, size: int) -> None:
        self._image.touched.append(self._path)

    def truncate(self, size: int) -> None:
        self._image.touched.append(self._path)

    def size(self) -> int:
        return len(self._content)

    def close(self) -> None:
        """Nothing is held."""


class Image:
    """The files of a disk, to be read and damaged."""

    def __init__(self, disk: SimulatedDisk, part: str = "") -> None:
        self.contents = {path: bytearray(disk.content(path)) for path in disk.paths(part)}
        self.touched: list[str] = []
        self._names = sorted(self.contents)

    # ------------------------------------------------------------------ the port

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        assert not create, "an image takes no new files"
        if path not in self.contents:
            raise FileNotFoundError(2, "no such file", path)
        return ImageFile(self, path)

    def exists(self, path: str) -> bool:
        return path in self.contents or bool(self.list_dir(path))

    def list_dir(self, path: str) -> list[str]:
        prefix = f"{path}/"
        below = self._names[bisect_left(self._names, prefix) :]
        return sorted({one[len(prefix) :].partition("/")[0] for one in below if prefix in one})

    def make_dirs(self, path: str) -> None:
        """Directories are there as far as files are in them."""

    def rename(self, old: str, new: str) -> None:
        self.touched.append(old)

    def remove(self, path: str) -> None:
        self.touched.append(path)

    def remove_dir(self, path: str) -> None:
        self.touched.append(path)

    def sync_dir(self, path: str) -> None:
        """Nothing is ever lost here."""

    def open_disk(self, path: str) -> Disk | None:
        return None

    def free_size(self, path: str) -> int:
        return 1 << 40

    def total_size(self, path: str) -> int:
        return 1 << 41

    def lock(self, path: str) -> File | None:
        return None

    # ------------------------------------------------------------------ what tests do

    @contextmanager
    def flipped(self, path: str, bit: int) -> Iterator[None]:
        """Change one bit inside of the block."""
        content = self.contents[path]
        content[bit >> 3] ^= 1 << (bit & 7)
        try:
            yield
        finally:
            content[bit >> 3] ^= 1 << (bit & 7)

    @contextmanager
    def cut(self, path: str, size: int) -> Iterator[None]:
        """Cut a file short inside of the block."""
        content = self.contents[path]
        rest = bytes(content[size:])
        del content[size:]
        try:
            yield
        finally:
            content += rest
