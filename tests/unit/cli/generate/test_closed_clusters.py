"""Generated files of closed clusters: each process has a key and a user of its own."""

import kubernetes_validate
import pytest

from tests.support.cli import Run
from tests.support.generated_files import COMPOSE, K8S, name_of, parsed
from zbk.cli.generate.closed import Closing, close_compose, close_manifest
from zbk.config import SecurityConfig
from zbk.config.sources import build

CLOSED_K8S = [
    close_manifest(
        one, Closing(source="zbk-keys", metadata="zk+tls://zk:2281/zbk", metadata_user="zbk")
    )
    for one in K8S
]
CLOSED_COMPOSE = close_compose(
    COMPOSE, Closing(source="./keys", metadata="zk://zookeeper:2181/zbk", metadata_user="zbk")
)


def check_closed(process: str, environment: dict[str, str], files: set[str]) -> None:
    """Check that a process has a key and a user, from files that are mounted."""
    assert "ZBK_INSECURE" not in environment
    security = build(SecurityConfig, flags={}, environment=environment, table={})
    assert security.key == f"/etc/zbk/{process}.key"
    assert security.metadata_user == "zbk"
    named = {security.key, security.metadata_password_file, security.metadata_ca} - {""}
    assert named == files, "no process has the key of another"


def test_closed_pods_have_keys_of_their_own() -> None:
    seen = []
    for manifest in CLOSED_K8S:
        for version in ("1.27", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(manifest, version, strict=True)
        if "template" not in manifest["spec"]:
            continue
        pod = manifest["spec"]["template"]["spec"]
        (volume,) = [one for one in pod["volumes"] if one["name"] == "security"]
        assert volume["secret"]["secretName"] == "zbk-keys"
        files = {f"/etc/zbk/{one['path']}" for one in volume["secret"]["items"]}
        process = name_of(manifest).removeprefix("zbk-")
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            environment = {one["name"]: one["value"] for one in container["env"] if "value" in one}
            check_closed(process, environment, files)
            assert "/etc/zbk/ca.pem" in files
            mount = {"name": "security", "mountPath": "/etc/zbk", "readOnly": True}
            assert mount in container["volumeMounts"]
            seen.append(container["name"])
    assert seen == ["init", "bookie", "autorecovery", "console"]


@pytest.mark.parametrize("name", ["bookie1", "bookie3", "autorecovery", "console"])
def test_closed_services_of_compose_have_keys_of_their_own(name: str) -> None:
    service = CLOSED_COMPOSE["services"][name]
    pairs = [one.split(":") for one in service["volumes"] if one.startswith("./keys/")]

    assert all(mode == "ro" for _host, _path, mode in pairs)
    check_closed(name.rstrip("123"), service["environment"], {path for _, path, _ in pairs})


def test_the_options_for_keys_print_the_closed_files(run: Run) -> None:
    user = ("--metadata-user", "zbk")
    found = run("generate", "compose", "--image", "zbk:1", "--keys", "./keys", *user)
    assert parsed(found.stdout) == [CLOSED_COMPOSE]
    of_pods = run(
        *("generate", "k8s", "--image", "zbk:1", "--token-secret", "zbk-token", *user),
        *("--metadata", "zk+tls://zk:2281/zbk", "--key-secret", "zbk-keys"),
    )
    assert "ZBK_INSECURE" not in of_pods.stdout
    assert of_pods.stdout.count("ZBK_METADATA_CA") == 4
    for kind in ("compose", "k8s"):
        assert run("generate", kind, *user).exit_code == 1
