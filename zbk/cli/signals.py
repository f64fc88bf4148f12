"""Ending in order, whoever asks for it."""

import signal
from types import FrameType


def end_like_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: raise ``KeyboardInterrupt``, once.

    A second one, or a Ctrl-C, while we clean up, is ignored: cleaning up is bounded by itself.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
