"""An orderly end of a command after a signal."""

import signal
from types import FrameType


def end_like_ctrl_c() -> None:
    """Make SIGTERM and SIGHUP raise ``KeyboardInterrupt``, as Ctrl-C does, once.

    Another signal during the cleanup is ignored: the cleanup has its own time limits. A SIGHUP that
    ``nohup`` makes the process ignore stays ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
