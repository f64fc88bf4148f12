"""``zbk generate systemd|compose|k8s``: what is printed is parsed, and means what zbk accepts."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest

from tests.support.cli import Run
from zbk.admin.access import read_token
from zbk.cli.generate.closed import Closing, close_compose, close_manifest
from zbk.cli.generate.compose import compose_file
from zbk.cli.generate.containers import INIT_COMMAND, JOURNAL_DIR, LEDGER_DIR, TOKEN_DIR, TOKEN_FILE
from zbk.cli.generate.k8s import manifests, token_manifest
from zbk.cli.generate.yaml_text import yaml_text
from zbk.cli.main import cli
from zbk.config import AutorecoveryConfig, BookieConfig, SecurityConfig
from zbk.config.sources import build

EXPOSURE_MAX = 20
"""Of `systemd-analyze security`, times ten: 100 is no sandbox at all."""

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


def test_a_command_that_is_wrong_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parse(["bookie", "run", "--no-such-option"])
    assert list(commands_in(["sh", "-c", "test -e x || zbk a; exec zbk b --c"])) == [
        ["a"],
        ["b", "--c"],
    ]


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


@pytest.mark.parametrize(
    ("arguments", "documents"),
    [
        (["compose", "--image", "zbk:1"], [COMPOSE]),
        (["k8s", "--image", "zbk:1", "--token-secret", "zbk-token"], K8S),
    ],
)
def test_what_is_printed_is_yaml(run: Run, arguments: list[str], documents: list[Any]) -> None:
    result = run("generate", *arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert parsed(result.stdout) == documents


def test_strings_with_a_meaning_in_yaml_stay_strings() -> None:
    odd = ["yes", "No", "null", "1", "1e3", "0x1", "a: b", "- a", "#", "", "a #b", "é", "~", "10s"]

    assert parsed(yaml_text([{"odd": odd, "empty": [], "nothing": {}}])) == [
        {"odd": odd, "empty": [], "nothing": {}}
    ]


# ------------------------------------------------------------------ compose


def test_compose_has_zookeeper_bookies_and_autorecovery() -> None:
    services = COMPOSE["services"]

    assert list(services) == [
        "zookeeper", "token", "bookie1", "bookie2", "bookie3", "autorecovery", "console"
    ]  # fmt: skip
    environments = [one.get("environment", {}) for one in services.values()]
    addresses = [one.get("ZBK_BOOKIE_ADVERTISE") for one in environments]
    assert addresses[2:5] == [f"tcp://bookie{number}:3181" for number in (1, 2, 3)]
    mounted = [
        volume.split(":")[0] for one in services.values() for volume in one.get("volumes", ())
    ]
    assert set(mounted) == set(COMPOSE["volumes"])
    for name, service in services.items():
        assert ("healthcheck" in service) == (name != "token"), name  # it ends by itself
        for other in service.get("depends_on", ()):
            assert other in services


@pytest.mark.parametrize("name", ["token", "bookie1", "autorecovery", "console"])
def test_the_commands_of_compose_are_those_of_zbk(name: str) -> None:
    service = COMPOSE["services"][name]

    commands = list(commands_in(service["command"]))

    assert commands
    for command in commands:
        parse(command)
    check_environment(service.get("environment", {}))


def test_compose_makes_one_token_that_bookies_require_and_the_console_has() -> None:
    services = COMPOSE["services"]
    maker = services["token"]
    assert (maker["network_mode"], maker["volumes"]) == ("none", [f"token:{TOKEN_DIR}"])
    assert maker["command"][-1] == TOKEN_FILE
    for name in ("bookie1", "bookie2", "bookie3", "console"):
        service = services[name]
        assert f"token:{TOKEN_DIR}:ro" in service["volumes"]
        assert f"--http-token-file {TOKEN_FILE}" in " ".join(service["command"])
        assert service["depends_on"]["token"] == {"condition": "service_completed_successfully"}
    assert f"--bookie-token-file {TOKEN_FILE}" in " ".join(services["console"]["command"])


def test_the_number_of_bookies_is_chosen(run: Run) -> None:
    assert len(compose_file(5, "i")["services"]) == 9
    assert "bookie5" in run("generate", "compose", "--bookies", "5").stdout


# ------------------------------------------------------------------ Kubernetes


def name_of(manifest: dict[str, Any]) -> str:
    return str(manifest["metadata"]["name"])


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [one for one in K8S if one["kind"] == kind]
    return found


def workloads() -> list[dict[str, Any]]:
    """Bookies, autorecovery and the console."""
    return [one for one in K8S if one["kind"] in ("StatefulSet", "Deployment")]


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield each container with its pod and its manifest."""
    for manifest in workloads():
        pod = manifest["spec"]["template"]["spec"]
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            yield container, pod, manifest


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


def secret_in(text: str) -> str:
    (found,) = [one for one in parsed(text) if one["kind"] == "Secret"]
    kubernetes_validate.validate(found, "1.27", strict=True)
    assert found == token_manifest(found["stringData"]["token"])
    return str(found["stringData"]["token"])


def test_kubernetes_has_a_new_token_or_the_secret_that_is_named(run: Run) -> None:
    first, second = (secret_in(run("generate", "k8s").stdout) for _ in range(2))
    assert first != second
    assert len(first) >= 43

    named = parsed(run("generate", "k8s", "--token-secret", "other").stdout)

    assert "Secret" not in [one["kind"] for one in named]
    volumes = [
        volume["secret"]["secretName"]
        for one in named
        if "template" in one["spec"]
        for volume in one["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    ]
    assert volumes == ["other", "other"], "of bookies and of the console"


def test_pods_require_and_show_the_token_of_the_secret() -> None:
    path = f"{TOKEN_DIR}/{next(iter(token_manifest('t')['stringData']))}"
    found = {}
    for container, pod, _ in containers():
        words = container["command"]
        used = {one for one in words if one.endswith("-token-file")}
        if used:
            assert [words[words.index(one) + 1] for one in used] == [path] * len(used)
            mount = {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True}
            assert mount in container["volumeMounts"]
            (volume,) = [one for one in pod["volumes"] if one["name"] == "token"]
            assert volume["secret"] == {"secretName": "zbk-token", "defaultMode": 0o440}
        found[container["name"]] = used
    assert found == {
        "init": set(),
        "bookie": {"--http-token-file"},
        "autorecovery": set(),
        "console": {"--http-token-file", "--bookie-token-file"},
    }


def test_a_token_is_made_once_and_only_its_owner_reads_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert run("generate", "token").stdout != run("generate", "token").stdout
    (tmp_path / "token.new").write_text("half")  # of a start that a crash ended

    assert run("generate", "token", "--file", str(file)).stdout == ""

    token = read_token(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("generate", "token", "--file", str(file)).exit_code == 0
    assert read_token(file) == token
    file.write_text("")
    refused = run("generate", "token", "--file", str(file))
    assert refused.exit_code == 1
    assert "must hold one word" in refused.stderr


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


# ------------------------------------------------------------------ closed clusters


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


# ------------------------------------------------------------------ systemd


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
