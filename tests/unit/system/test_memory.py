"""Keeping freed memory: in a process of its own, because it is for the whole process."""

import subprocess
import sys

_PROGRAM = """
from zbk.system.memory import keep_freed_memory
from zbk.system.process import usage

if keep_freed_memory(32 * 1024 * 1024):
    before = usage().rss_size
    pieces = [b"x" * (1024 * 1024 + i) for i in range(8)]
    del pieces
    print(usage().rss_size - before)
else:
    print("no glibc")
"""


def test_what_was_freed_is_kept_for_the_next_use() -> None:
    grown = subprocess.check_output([sys.executable, "-c", _PROGRAM], text=True).strip()

    assert grown == "no glibc" or int(grown) >= 7 * 1024 * 1024
