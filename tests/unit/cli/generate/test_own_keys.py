"""Generated bookies with a key each, and units whose secrets come from systemd."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.support.cli import Run
from zbk.cli.generate.closed import Closing, close_compose, close_manifest
from zbk.cli.generate.compose import compose_file
from zbk.cli.generate.k8s import manifests
from zbk.config import SecurityConfig
from zbk.config.sources import build

METADATA = "zk+tls://zk:2281/zbk"
SIZES = {"journal": "10Gi", "ledgers": "100Gi"}
CLOSING = Closing(source="./keys", metadata=METADATA, metadata_user="zbk", has_own_keys=True)
SECRETS = (
    *("--key", "/etc/zbk/bookie 1.key", "--metadata-password-file", "/etc/zbk/100%"),
    *("--environment-file", "/etc/default/zbk"),
)


def files_of(service: dict[str, Any]) -> dict[str, str]:
    """Return the files of keys of a service: the path in the container, and that of the host."""
    pairs = [one.split(":") for one in service["volumes"] if one.startswith("./keys/")]
    return {path: host for host, path, _mode in pairs}


def test_services_of_bookies_have_a_key_each() -> None:
    services = close_compose(compose_file(3, "zbk:1"), CLOSING)["services"]
    found = {name: files_of(one) for name, one in services.items() if name.startswith("bookie")}

    assert [one["/etc/zbk/bookie.key"] for one in found.values()] == [
        "./keys/bookie1.key", "./keys/bookie2.key", "./keys/bookie3.key"
    ]  # fmt: skip
    for files in found.values():
        assert files["/etc/zbk/zookeeper.password"] == "./keys/zookeeper.password"
    assert files_of(services["console"])["/etc/zbk/console.key"] == "./keys/console.key"


def test_the_container_of_a_pod_gets_the_key_of_its_name() -> None:
    made = manifests(METADATA, 3, "zbk:1", SIZES)
    (workload,) = [close_manifest(one, CLOSING) for one in made if one["kind"] == "StatefulSet"]
    for version in ("1.27", kubernetes_validate.latest_version()):
        kubernetes_validate.validate(workload, version, strict=True)
    pod = workload["spec"]["template"]["spec"]
    (init,), (bookie,) = pod["initContainers"], pod["containers"]
    for container in (init, bookie):
        mounts = {
            one["mountPath"]: one.get("subPath") or one.get("subPathExpr")
            for one in container["volumeMounts"]
            if one["name"] == "security"
        }
        assert mounts == {
            "/etc/zbk/bookie.key": "$(POD_NAME).key",
            "/etc/zbk/zookeeper.password": "zookeeper.password",
            "/etc/zbk/ca.pem": "ca.pem",
        }, "and no directory with the keys of others"
        names = [one["name"] for one in container["env"]]
        assert "POD_NAME" in names
        environment = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        security = build(SecurityConfig, flags={}, environment=environment, table={})
        named = {security.key, security.metadata_password_file, security.metadata_ca}
        assert named == set(mounts)


def test_other_pods_have_the_keys_of_their_kind() -> None:
    plain = Closing(source="./keys", metadata=METADATA, metadata_user="zbk")
    for one in manifests(METADATA, 3, "zbk:1", SIZES):
        if one["kind"] == "Deployment":
            assert close_manifest(one, CLOSING) == close_manifest(one, plain)


@pytest.mark.parametrize(
    ("kind", "keys"), [("compose", ("--keys", "./keys")), ("k8s", ("--key-secret", "keys"))]
)
def test_own_keys_need_keys(run: Run, kind: str, keys: tuple[str, str]) -> None:
    refused = run("generate", kind, "--own-keys")
    assert refused.exit_code == 1
    assert f"needs {keys[0]}" in refused.stderr
    printed = run("generate", kind, "--own-keys", *keys)
    assert printed.exit_code == 0
    assert ("bookie1.key" in printed.stdout) == (kind == "compose")
    assert ("$(POD_NAME).key" in printed.stdout) == (kind == "k8s")


# ------------------------------------------------------------------ systemd


@pytest.mark.parametrize("kind", ["bookie", "autorecovery", "console"])
def test_a_unit_gets_secrets_as_credentials(run: Run, tmp_path: Path, kind: str) -> None:
    arguments = ("--unit", kind, "--program", "/bin/true", "--metadata", "zk://zk1:2181/zbk")
    text = run("generate", "systemd", *arguments, *SECRETS).stdout
    lines = text.splitlines()

    for line in (
        "EnvironmentFile=/etc/default/zbk",
        "LoadCredential=key:/etc/zbk/bookie 1.key",
        "Environment=ZBK_KEY=%d/key",
        "LoadCredential=metadata_password_file:/etc/zbk/100%%",
        "Environment=ZBK_METADATA_PASSWORD_FILE=%d/metadata_password_file",
    ):
        assert line in lines
    assert lines.index("Environment=ZBK_KEY=%d/key") < lines.index("[Install]")
    analyze = shutil.which("systemd-analyze")
    if analyze:
        file = tmp_path / f"zbk-{kind}.service"
        file.write_text(text)
        done = subprocess.run(
            [analyze, "verify", str(file)], capture_output=True, text=True, check=False
        )
        assert [line for line in done.stderr.splitlines() if f"zbk-{kind}" in line] == []


def test_without_secrets_a_unit_has_no_line_for_them(run: Run) -> None:
    text = run("generate", "systemd", "--program", "/bin/true").stdout
    assert "Credential" not in text
    assert "Environment" not in text


@pytest.mark.parametrize("option", ["--key", "--metadata-password-file", "--environment-file"])
def test_a_relative_path_of_a_secret_is_refused(run: Run, option: str) -> None:
    result = run("generate", "systemd", option, "key")
    assert result.exit_code == 1
    assert "absolute path" in result.stderr
