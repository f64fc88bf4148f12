"""``zbk generate k8s``: its manifests fit Kubernetes, each other, and what zbk accepts."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.support.cli import Run
from tests.support.generated_files import (
    K8S,
    check_environment,
    commands_in,
    containers,
    name_of,
    parse,
    workloads,
)
from zbk.cli.generate.containers import INIT_COMMAND, JOURNAL_DIR, LEDGER_DIR


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [one for one in K8S if one["kind"] == kind]
    return found


def test_the_kinds_have_their_versions() -> None:
    assert [(one["apiVersion"], one["kind"]) for one in K8S] == [
        ("v1", "Service"),
        ("apps/v1", "StatefulSet"),
        ("policy/v1", "PodDisruptionBudget"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "Deployment"),
    ]


@pytest.mark.parametrize("manifest", K8S, ids=lambda one: f"{one['kind']}-{name_of(one)}")
def test_a_manifest_fits_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    """``strict``: a field that Kubernetes does not know is an error, as a mistyped one is."""
    for version in ("1.27", kubernetes_validate.latest_version()):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_schema_of_kubernetes_finds_mistakes() -> None:
    for broken in ({"replicas": "three"}, {"replica": 3}, {"serviceName": None}):
        spec = of_kind("StatefulSet")["spec"] | broken
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(
                of_kind("StatefulSet") | {"spec": spec}, "1.27", strict=True
            )


def test_selectors_find_the_pods() -> None:
    labels = of_kind("StatefulSet")["spec"]["template"]["metadata"]["labels"]

    assert of_kind("Service")["spec"]["selector"] == labels
    assert of_kind("Service")["spec"]["clusterIP"] == "None"
    assert of_kind("StatefulSet")["spec"]["serviceName"] == of_kind("Service")["metadata"]["name"]
    assert of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert len({tuple(one["spec"]["selector"]["matchLabels"].items()) for one in workloads()}) == 3
    for workload in workloads():
        spec = workload["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_volumes_ports_and_probes_exist() -> None:
    for container, pod, manifest in containers():
        claims = manifest["spec"].get("volumeClaimTemplates", [])
        volumes = {one["metadata"]["name"] for one in claims}
        volumes |= {one["name"] for one in pod["volumes"]}
        assert {one["name"] for one in container["volumeMounts"]} <= volumes
        ports = {one["name"] for one in container.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if "httpGet" in container.get(probe, ()):
                assert container[probe]["httpGet"]["port"] in ports
                assert container[probe]["httpGet"]["path"] in ("/livez", "/readyz")
    targets = {one["targetPort"] for one in of_kind("Service")["spec"]["ports"]}
    assert targets == {"bookie", "http"}


def test_the_commands_of_the_pods_are_those_of_zbk() -> None:
    seen = []
    for container, _, _ in containers():
        environment = {one["name"]: one.get("value", "x") for one in container["env"]}
        check_environment(environment)
        for command in commands_in(container["command"]):
            parse(command)
            seen.append(command[:2])
    assert seen == [
        ["bookie", "init"], ["bookie", "run"], ["autorecovery", "run"], ["console", "--http"],
    ]  # fmt: skip


def test_the_console_of_kubernetes_is_reached_from_its_pod_alone_and_cannot_act() -> None:
    (container,) = [one for one, _, _ in containers() if one["name"] == "console"]
    address = container["command"][container["command"].index("--http") + 1]
    assert address == "127.0.0.1:8710"
    assert "--allow-actions" not in container["command"]
    assert "ports" not in container
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        program, _, text = container[name]["exec"]["command"]
        assert program == "python3"
        assert "'127.0.0.1', 8710" in text
        assert f"'/{'readyz' if name == 'readinessProbe' else 'livez'}'" in text


def test_the_directories_of_a_bookie_are_in_its_volumes() -> None:
    container = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    mounts = [one["mountPath"] for one in container["volumeMounts"]]

    for directory in (JOURNAL_DIR, LEDGER_DIR):
        assert any(directory.startswith(f"{mount}/") for mount in mounts)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_reads_the_manifests(run: Run, tmp_path: Path) -> None:
    (tmp_path / "zbk.yaml").write_text(run("generate", "k8s").stdout)
    (tmp_path / "kustomization.yaml").write_text("resources: [zbk.yaml]\n")

    done = subprocess.run(
        [shutil.which("kubectl") or "", "kustomize", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nkind: ") == len(K8S) + 1  # the Secret


def test_a_bookie_in_a_container_keeps_its_id(tmp_path: Path) -> None:
    """The first start makes the bookie; a later one, on any node, finds it in its volumes."""
    environment = {
        "ZBK_METADATA": f"sqlite://{tmp_path}/metadata.db",
        "ZBK_BOOKIE_JOURNAL_DIR": f"{tmp_path}/journal",
        "ZBK_BOOKIE_LEDGER_DIR": f"{tmp_path}/ledgers",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    command = INIT_COMMAND.replace(JOURNAL_DIR, f"{tmp_path}/journal")

    first, second = (
        subprocess.run(
            ["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )

    assert first.startswith("b-")
    assert second == ""
