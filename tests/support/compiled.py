"""Compile the tests and zbk once, on all cores, before xdist starts its processes.

In a fresh checkout each of them would compile all of it by itself, all at the same time. Most of
the work is pytest's, on the asserts.
"""

import compileall
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest
from _pytest.assertion import rewrite

ROOT: Final = Path(__file__).parents[2]
_FOLDERS: Final = ("tests", "zbk", "spark", "benchmarks")


def compile_all(config: pytest.Config) -> None:
    """Write the bytecode that is missing or out of date, unless this Python writes none."""
    if sys.dont_write_bytecode:
        return
    files = [path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    core_count = os.cpu_count() or 1
    context = get_context("fork")
    processes = [
        context.Process(target=compile_files, args=(config, files[number::core_count]))
        for number in range(core_count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def compile_files(config: pytest.Config, files: Sequence[Path]) -> None:
    """Write the bytecode of files as an import does: that of a test has pytest's asserts."""
    patterns = ("conftest.py", *config.getini("python_files"))
    for path in files:
        if any(fnmatch(path.name, pattern) for pattern in patterns):
            _compile_test(config, path)
        else:
            compileall.compile_file(path, quiet=2)


def _compile_test(config: pytest.Config, path: Path) -> None:
    folder = rewrite.get_cache_dir(path)
    cache = folder / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, cache) is None and rewrite.try_makedirs(folder):
        checked, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, checked, cache)
