"""Any module of the Spark package can be the first one of it that a worker imports."""

import pkgutil
import subprocess
import sys

import pyspark_zbk

FIRST_IMPORTS = """
import importlib, os, sys, traceback
import pyarrow, pyspark.sql.datasource, pyspark.sql.streaming.datasource, zbk.client.api

failed = []
for name in sys.argv[1:]:
    pid = os.fork()
    if not pid:
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        failed.append(name)
print(*failed)
"""


def test_each_module_can_be_imported_first() -> None:
    names = [f"pyspark_zbk.{one.name}" for one in pkgutil.iter_modules(pyspark_zbk.__path__)]
    assert "pyspark_zbk.stream_writer" in names

    done = subprocess.run(
        [sys.executable, "-c", FIRST_IMPORTS, *names], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [], done.stderr
