"""Ending in order, whoever asks for it."""

import signal
from types import FrameType


def end_like_ctrl_c() -> None:
    """Make SIGTERM and SIGHUP do what Ctrl-C does: raise ``KeyboardInterrupt``, once.

    A second one, or a Ctrl-C, during the cleanup is ignored: the cleanup has limits of its own. A
    SIGHUP that ``nohup`` has the process ignore stays ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
