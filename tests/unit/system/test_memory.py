"""How freed memory is kept: in processes of their own, because it is for a whole process."""

import os
import platform
import subprocess
import sys

import pytest

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

_THREADS = """
import ctypes
import threading
from zbk.system.memory import use_one_arena

is_set = {call}
here = threading.Barrier(5)

def allocate():
    kept = [bytes(2048) for _ in range(100)]
    here.wait()
    return kept

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
here.wait()
for thread in threads:
    thread.join()
print("glibc" if is_set else "no glibc", flush=True)
if is_set:
    ctypes.CDLL(None).malloc_stats()
"""


def test_what_was_freed_is_kept_for_the_next_use() -> None:
    grown = subprocess.check_output([sys.executable, "-c", _PROGRAM], text=True).strip()

    assert grown == "no glibc" or int(grown) >= 7 * 1024 * 1024


@pytest.mark.parametrize(("call", "is_one"), [("use_one_arena()", True), ("True", False)])
def test_threads_share_one_arena_where_that_is_asked_for(call: str, is_one: bool) -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("another C library")
    program = _THREADS.format(call=call)
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name}

    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )

    assert said.stdout == "glibc\n"
    assert (said.stderr.count("Arena ") == 1) == is_one
