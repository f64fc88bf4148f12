"""Files without descriptors: what the operating system's file system makes of it."""

import resource
import subprocess
import sys
from pathlib import Path

from zbk.system.descriptors import has_descriptors

PROGRAM = """
import os, resource, sys, threading
from zbk.errors import OutOfDescriptorsError
from zbk.system.descriptors import has_descriptors
from zbk.system.files import OsFiles

files, folder = OsFiles(), sys.argv[1]
files.make_dirs(folder)  # whatever is imported late is imported now
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
assert not has_descriptors(1)
calls = {
    "open": lambda: files.open(folder + "/a", create=True),
    "list": lambda: files.list_dir(folder),
    "sync": lambda: files.sync_dir(folder),
    "make": lambda: files.make_dirs(folder + "/b"),
    "lock": lambda: files.lock(folder + "/c"),
}
for name, call in calls.items():
    try:
        call()
    except OutOfDescriptorsError:
        pass
    else:
        raise AssertionError(name)
assert os.path.exists(folder)
assert not os.path.exists(folder + "/b"), "it is not durable: the next call has to make it"
threading.Timer(0.05, lambda: os.close(taken.pop())).start()
short = OsFiles()  # one that has not waited yet
short.open(folder + "/a", create=True).close()
for fd in taken:
    os.close(fd)
for call in calls.values():
    if call is not calls["open"]:
        call()
assert has_descriptors(20)
"""


def test_what_finds_no_descriptor_waits_for_one_and_says_so_in_the_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "files")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def names() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_looking_for_descriptors_keeps_none() -> None:
    before = names()

    assert has_descriptors(10)
    assert not has_descriptors(resource.getrlimit(resource.RLIMIT_NOFILE)[0] + 1)

    assert names() == before
