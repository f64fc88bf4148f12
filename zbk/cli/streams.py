"""The standard streams of a ``zbk`` process, made safe before a command runs.

A descriptor that the caller closed (``zbk ... >&-``) is opened on ``/dev/null``: otherwise the next
socket or file of the process would be its standard output. A write to a closed standard output
fails, as one to a full disk does; a process that prints nothing, such as a bookie, does not notice.
A closed standard error drops what is written to it. A closed standard input stays ``None`` in
``sys``, so that a command that needs one says so instead of reading nothing.

An error of standard output, such as a full disk, carries its name. What standard error does not
take is dropped: it cannot be reported anywhere, and must not change the exit code. A spinner or a
bar is taken off the terminal while a line is printed there.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD_OUTPUT: Final = "standard output"
"""The file name in errors of standard output."""


class Display(Protocol):
    """A display in the last line of the terminal: a rich ``Progress`` or ``Status``."""

    def start(self) -> None:
        """Show it."""

    def stop(self) -> None:
        """Remove it from the terminal."""


_shown: list[Display] = []
"""The display on the terminal, if there is one."""


@contextmanager
def shown_as_progress(display: Display) -> Iterator[None]:
    """Record that a display is shown: lines printed meanwhile stand above it."""
    _shown.append(display)
    try:
        yield
    finally:
        _shown.remove(display)


@contextmanager
def above_progress() -> Iterator[None]:
    """Remove the display from the terminal for the block; show it again below."""
    shown = list(_shown)
    for display in shown:
        display.stop()
    try:
        yield
    finally:
        for display in shown:
            display.start()


class StandardOutput(io.FileIO):
    """A descriptor whose errors name standard output, and whose lines stand above progress."""

    is_dropped = False

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]  # typeshed: never None
        """Write bytes; see ``io.RawIOBase.write``."""
        if self.is_dropped:
            return memoryview(data).nbytes
        try:
            if not (_shown and self.isatty()):
                return super().write(data)
            with above_progress():
                return super().write(data)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


class ClosedOutput(StandardOutput):
    """A standard output that was closed when the process began: each write fails."""

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]  # typeshed: never None
        """Raise the error of a closed descriptor, unless output is dropped."""
        if self.is_dropped:
            return memoryview(data).nbytes
        raise OSError(errno.EBADF, "it is closed; redirect it to /dev/null", STANDARD_OUTPUT)


class StandardError(io.FileIO):
    """A descriptor that drops what cannot be written."""

    def write(self, data: "ReadableBuffer", /) -> int | None:  # type: ignore[override]  # typeshed: never None
        """Write bytes, or drop them; see ``io.RawIOBase.write``."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_streams() -> None:
    """Open the standard descriptors that are closed, and let errors of the output name it."""
    for descriptor in range(3):
        _open_if_closed(descriptor)
    if sys.stdout is None:
        raw = ClosedOutput(1, "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    else:
        sys.stdout = _wrapped(sys.stdout, StandardOutput)
    if sys.stderr is None:
        sys.stderr = _nowhere()
    else:
        sys.stderr = _wrapped(sys.stderr, StandardError, line_buffering=True)


def drop_output() -> None:
    """Drop all output of standard output: what is to come, and what is still in its buffer."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, StandardOutput):
        raw.is_dropped = True  # the end of the buffer writes the rest, and Python shows its error
    sys.stdout = _nowhere()


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a standard stream is a terminal; a closed stream is not."""
    return stream is not None and stream.isatty()


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        assert opened == descriptor, "standard descriptors are opened in order"
        os.set_inheritable(opened, True)  # noqa: FBT003 - no name; children find it open, too


def _wrapped(
    stream: TextIO,
    kind: "type[StandardOutput | StandardError]",
    *,
    line_buffering: bool = False,
) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(kind(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=line_buffering or stream.isatty(),
    )


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives to the end
