"""``zbk generate systemd``: systemd accepts its units, and zbk their commands."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Run
from tests.support.generated_files import parse

EXPOSURE_MAX = 20
"""Of `systemd-analyze security`, times ten: 100 is no sandbox at all."""


def fields_of(text: str) -> dict[str, str]:
    lines = [line.partition("=") for line in text.splitlines() if "=" in line]
    return {name: value for name, _, value in lines}


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "bookie.toml"
    file.write_text('[bookie]\njournal_dir = "/j a"\nledger_dir = ["/l1", "/l2"]\n')
    return file


def test_a_unit_writes_to_the_directories_of_its_bookie_only(run: Run, config_file: Path) -> None:
    result = run("generate", "systemd", "--config", str(config_file), "--program", "/opt/zbk")

    assert (result.exit_code, result.stderr) == (0, "")
    fields = fields_of(result.stdout)
    assert fields["ReadWritePaths"] == '"/j a" /l1 /l2'
    assert fields["ProtectSystem"] == "strict"
    assert fields["RestartPreventExitStatus"] == "2 7"
    program, *words = shlex.split(fields["ExecStart"])
    assert program == "/opt/zbk"
    parse(words)


def test_a_unit_of_autorecovery_runs_autorecovery(run: Run, config_file: Path) -> None:
    text = run("generate", "systemd", "--unit", "autorecovery", "--config", str(config_file)).stdout

    assert "Description=zbk autorecovery" in text
    parse(shlex.split(fields_of(text)["ExecStart"])[1:])


def test_a_unit_of_the_console_has_the_address_of_its_cluster(run: Run, config_file: Path) -> None:
    config_file.write_text('[bookie]\nmetadata = "zk://zk9:2181/zbk"\n')
    common = ("generate", "systemd", "--unit", "console", "--program", "/bin/true")

    given = run(*common, "--metadata", "zk://zk1:2181/zbk", "--token-file", "/etc/zbk/token").stdout
    words = shlex.split(fields_of(given)["ExecStart"])[1:]
    parse(words)
    assert words[words.index("--metadata") + 1] == "zk://zk1:2181/zbk"
    assert words[words.index("--bookie-token-file") + 1] == "/etc/zbk/token"
    assert "zk://zk9:2181/zbk" in run(*common, "--config", str(config_file)).stdout
    missing = run(*common)
    assert missing.exit_code == 1
    assert "give --metadata" in missing.stderr


def test_a_unit_of_a_bookie_requires_the_token(run: Run, config_file: Path) -> None:
    options = ("--config", str(config_file), "--token-file", "/etc/zbk/token")
    text = run("generate", "systemd", *options).stdout
    words = shlex.split(fields_of(text)["ExecStart"])[1:]
    parse(words)
    assert words[-2:] == ["--http-token-file", "/etc/zbk/token"]
    refused = run("generate", "systemd", "--unit", "autorecovery", "--token-file", "/etc/zbk/token")
    assert refused.exit_code == 1
    assert "has no admin API" in refused.stderr


@pytest.mark.parametrize("option", ["--program", "--token-file"])
def test_a_relative_path_is_refused(run: Run, option: str) -> None:
    result = run("generate", "systemd", option, "zbk")

    assert result.exit_code == 1
    assert "absolute path" in result.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("kind", ["bookie", "autorecovery", "console"])
def test_systemd_accepts_a_unit(run: Run, config_file: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"zbk-{kind}.service"
    arguments = ["--unit", kind, "--config", str(config_file), "--program", "/bin/true"]
    arguments += ["--metadata", "zk://zk1:2181/zbk"]
    file.write_text(run("generate", "systemd", *arguments).stdout)

    done = subprocess.run(
        [shutil.which("systemd-analyze") or "", "verify", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    ours = [line for line in done.stderr.splitlines() if f"zbk-{kind}" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("kind", ["bookie", "autorecovery", "console"])
def test_the_sandbox_of_a_unit_is_tight(run: Run, tmp_path: Path, kind: str) -> None:
    """What stays open is the network, which a bookie needs, and its directories."""
    file = tmp_path / f"zbk-{kind}.service"
    arguments = ("--unit", kind, "--program", "/bin/true", "--metadata", "zk://zk1:2181/zbk")
    file.write_text(run("generate", "systemd", *arguments).stdout)
    command = [shutil.which("systemd-analyze") or "", "security", "--offline=true"]

    def judge(threshold: int) -> int:
        done = subprocess.run(
            [*command, f"--threshold={threshold}", str(file)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode

    assert judge(EXPOSURE_MAX) == 0
    assert judge(1) != 0, "the threshold is not looked at"
