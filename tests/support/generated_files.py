"""The files that ``zbk generate`` makes, and checks that zbk accepts what is in them."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from zbk.cli.generate.compose import compose_file
from zbk.cli.generate.k8s import manifests
from zbk.cli.main import cli
from zbk.config import AutorecoveryConfig, BookieConfig, SecurityConfig
from zbk.config.sources import build

SIZES = {"journal": "10Gi", "ledgers": "100Gi"}
K8S = manifests("zk://zookeeper:2181/zbk", 3, "zbk:1", SIZES)
COMPOSE = compose_file(3, "zbk:1")


# ------------------------------------------------------------------ what zbk accepts


def commands_in(words: list[str]) -> Iterator[list[str]]:
    """Yield the zbk commands in a command of a container, also those of its shell."""
    if words[:2] == ["sh", "-c"]:
        lexer = shlex.shlex(words[2], posix=True, punctuation_chars="|;&")
        lexer.whitespace_split = True
        part: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("|;&"):
                yield from commands_in([one for one in part if one != "exec"])
                part = []
            else:
                part.append(word)
    elif words[:1] and Path(words[0]).name == "zbk":
        yield words[1:]


def parse(words: list[str]) -> None:
    """Parse a command with the command line, without running it."""
    command: click.Command = cli
    context = click.Context(cli, info_name="zbk")
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    command.make_context("zbk", list(words), parent=context)


def check_environment(environment: dict[str, str]) -> None:
    """Check that each variable is an option, and has a value that the option accepts."""
    for config_type, prefix in (
        (BookieConfig, "ZBK_BOOKIE_"),
        (AutorecoveryConfig, "ZBK_AUTORECOVERY_"),
    ):
        own = {name: value for name, value in environment.items() if name.startswith(prefix)}
        for name in own:
            assert name.removeprefix(prefix).lower() in config_type.__struct_fields__
        build(config_type, flags={}, environment=own, table={})
    build(SecurityConfig, flags={}, environment=environment, table={})
    assert environment.keys() - {"ZBK_METADATA", "ZBK_INSECURE", "POD_NAME", "POD_NAMESPACE"} == {
        name for name in environment if name.startswith(("ZBK_BOOKIE_", "ZBK_AUTORECOVERY_"))
    }


# ------------------------------------------------------------------ YAML


def parsed(text: str) -> list[Any]:
    """Parse YAML with a library that some Python of this machine has."""
    program = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"
    for python in ("/usr/bin/python3", shutil.which("python3") or ""):
        done = subprocess.run(
            [python, "-c", program], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return list(json.loads(done.stdout))
    pytest.skip("no Python of this machine has PyYAML")


# ------------------------------------------------------------------ Kubernetes


def name_of(manifest: dict[str, Any]) -> str:
    """Return the name of a manifest."""
    return str(manifest["metadata"]["name"])


def workloads() -> list[dict[str, Any]]:
    """Bookies, autorecovery and the console."""
    return [one for one in K8S if one["kind"] in ("StatefulSet", "Deployment")]


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield each container with its pod and its manifest."""
    for manifest in workloads():
        pod = manifest["spec"]["template"]["spec"]
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield container, pod, manifest
