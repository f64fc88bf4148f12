"""``zbk generate k8s``: bookies as a StatefulSet, autorecovery and the console as Deployments."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import click

import zbk
from zbk.cli.command import ZbkCommand
from zbk.cli.generate.closed import Closing, close_manifest
from zbk.cli.generate.containers import (
    AUTORECOVERY_COMMAND,
    BOOKIE_PORT,
    CONSOLE_PORT,
    DEFAULT_IMAGE,
    HTTP_PORT,
    INIT_COMMAND,
    JOURNAL_DIR,
    LEDGER_DIR,
    SERVE_COMMAND,
    STOP_S,
    TOKEN_DIR,
    TOKEN_FILE,
    USER_ID,
    autorecovery_environment,
    bookie_environment,
    console_command,
    http_check,
)
from zbk.cli.generate.token import new_token
from zbk.cli.generate.yaml_text import yaml_text
from zbk.cli.options import integer_option
from zbk.errors import InvalidOptionError

NAME: Final = "zbk-bookie"
AUTORECOVERY_NAME: Final = "zbk-autorecovery"
CONSOLE_NAME: Final = "zbk-console"
TOKEN_NAME: Final = "zbk-token"  # noqa: S105 - the name of a Secret
"""The Secret with the token of the admin APIs, below the key ``token``."""

START_S: Final = 3_600
"""Seconds in which a bookie replays its journal after a crash."""


@click.command(
    "k8s",
    cls=ZbkCommand,
    examples=[
        ("zbk generate k8s --metadata zk://zookeeper:2181/zbk > zbk.yaml", "kubectl apply -f ..."),
        ("zbk generate k8s --bookies 5 --storage 1Ti --journal-storage 20Gi", "larger"),
        ("zbk generate k8s --bookies 5 --token-secret zbk-token", "again, with the token it has"),
        (
            "zbk generate k8s --key-secret zbk-keys --own-keys --metadata-user zbk",
            "a closed cluster",
        ),
    ],
)
@click.option(
    "--metadata",
    default="zk://zookeeper:2181/zbk",
    show_default=True,
    metavar="URI",
    help="The cluster's metadata store: a ZooKeeper that runs already.",
)
@integer_option("--bookies", "bookie_count", default=3, help_text="Number of bookies.")
@click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="Image that has zbk.")
@click.option(
    "--storage", default="100Gi", show_default=True, help="Volume of each bookie's ledgers."
)
@click.option(
    "--journal-storage", default="10Gi", show_default=True, help="Volume of each bookie's journal."
)
@click.option(
    "--token-secret",
    metavar="NAME",
    default="",
    help="Secret that exists and has the token of the admin APIs in its key `token`. "
    "[default: the manifests have a Secret with a new token]",
)
@click.option(
    "--key-secret",
    metavar="NAME",
    default="",
    help="Secret that exists and has bookie.key, autorecovery.key and console.key; with "
    "--metadata-user also zookeeper.password, and with zk+tls:// ca.pem.  [default: no keys]",
)
@click.option(
    "--own-keys",
    "has_own_keys",
    is_flag=True,
    help="Each bookie has a key of its own: zbk-bookie-0.key, zbk-bookie-1.key and so on, in place "
    "of bookie.key.",
)
@click.option("--metadata-user", metavar="NAME", default="", help="User of ZooKeeper.")
def k8s(
    *,
    metadata: str,
    bookie_count: int,
    image: str,
    storage: str,
    journal_storage: str,
    token_secret: str,
    key_secret: str,
    has_own_keys: bool,
    metadata_user: str,
) -> None:
    """Print Kubernetes manifests: bookies, autorecovery, console.

    A headless service, a StatefulSet, a PodDisruptionBudget and two Deployments. The id of a bookie
    is in its volumes, which stay with the name of its pod, so a pod that moves to another node is
    the same bookie. ZooKeeper is not part of the manifests.

    The console has no login and listens on loopback of its pod. Open it with
    `kubectl port-forward deployment/zbk-console 8710`.

    A Secret has the token of the admin APIs. Each run makes another token, so keep the file, or
    give --token-secret when you print the manifests again: pods read the token when they start.

    Without --key-secret the bookies trust the network of the pods. With it they accept encrypted
    connections of principals only.
    """
    if metadata_user and not key_secret:
        raise InvalidOptionError("metadata-user", metadata_user, "needs --key-secret")
    if has_own_keys and not key_secret:
        raise InvalidOptionError("own-keys", value=True, reason="needs --key-secret")
    click.echo(f"# Written by `zbk generate k8s` of zbk {zbk.__version__}.")
    sizes = {"journal": journal_storage, "ledgers": storage}
    secret = token_secret or TOKEN_NAME
    documents = [] if token_secret else [token_manifest(new_token())]
    made = manifests(metadata, bookie_count, image, sizes, secret)
    if key_secret:
        closing = Closing(
            source=key_secret,
            metadata=metadata,
            metadata_user=metadata_user,
            has_own_keys=has_own_keys,
        )
        made = [close_manifest(one, closing) for one in made]
    documents += made
    click.echo(yaml_text(documents), nl=False)


def token_manifest(token: str) -> dict[str, Any]:
    """Return the Secret with the token of the admin APIs."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": TOKEN_NAME, "labels": _labels(TOKEN_NAME)},
        "type": "Opaque",
        "stringData": {PurePosixPath(TOKEN_FILE).name: token},
    }


def manifests(
    metadata: str, bookie_count: int, image: str, sizes: Mapping[str, str], secret: str = TOKEN_NAME
) -> list[dict[str, Any]]:
    """Return the manifests but for the Secret, whose name is ``secret``, as plain values.

    ``sizes`` are those of the volumes journal and ledgers.
    """
    return [
        _service(),
        _stateful_set(metadata, bookie_count, image, sizes, secret),
        _disruption_budget(),
        _autorecovery(metadata, image),
        _console(metadata, image, secret),
    ]


# ------------------------------------------------------------------ private


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "zbk"}


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "labels": _labels(name)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _service() -> dict[str, Any]:
    ports = [
        {"name": "bookie", "port": BOOKIE_PORT, "targetPort": "bookie"},
        {"name": "http", "port": HTTP_PORT, "targetPort": "http"},
    ]
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # a bookie that recovers must be found by its peers
        "selector": _labels(NAME),
        "ports": ports,
    }
    return _object("v1", "Service", NAME, spec)


def _stateful_set(
    metadata: str, bookie_count: int, image: str, sizes: Mapping[str, str], secret: str
) -> dict[str, Any]:
    host = f"$(POD_NAME).{NAME}.$(POD_NAMESPACE).svc"
    environment = [
        _field("POD_NAME", "metadata.name"),
        _field("POD_NAMESPACE", "metadata.namespace"),
        *_variables(bookie_environment(metadata, f"tcp://{host}:{BOOKIE_PORT}")),
    ]
    mounts = [
        {"name": "journal", "mountPath": str(PurePosixPath(JOURNAL_DIR).parent)},
        {"name": "ledgers", "mountPath": str(PurePosixPath(LEDGER_DIR).parent)},
    ]
    common = _container(image) | {"env": environment}
    common["volumeMounts"] = [*mounts, *common["volumeMounts"]]
    pod = {
        "initContainers": [{"name": "init"} | common | {"command": ["sh", "-c", INIT_COMMAND]}],
        "containers": [
            {"name": "bookie"}
            | common
            | {
                "command": list(SERVE_COMMAND),
                "volumeMounts": [*common["volumeMounts"], _TOKEN_MOUNT],
                "ports": [
                    {"name": "bookie", "containerPort": BOOKIE_PORT},
                    {"name": "http", "containerPort": HTTP_PORT},
                ],
                "startupProbe": _probe("/livez") | {"failureThreshold": START_S // 10},
                "livenessProbe": _probe("/livez"),
                "readinessProbe": _probe("/readyz"),
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    }
    spec = {
        "serviceName": NAME,
        "replicas": bookie_count,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": _labels(NAME)},
        "template": _template(NAME, pod, [_token_volume(secret)]),
        "volumeClaimTemplates": [_claim(name, size) for name, size in sizes.items()],
    }
    return _object("apps/v1", "StatefulSet", NAME, spec)


def _disruption_budget() -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _labels(NAME)}}
    return _object("policy/v1", "PodDisruptionBudget", NAME, spec)


def _autorecovery(metadata: str, image: str) -> dict[str, Any]:
    container = (
        {"name": "autorecovery"}
        | _container(image)
        | {
            "command": list(AUTORECOVERY_COMMAND),
            "env": _variables(autorecovery_environment(metadata)),
            "ports": [{"name": "http", "containerPort": HTTP_PORT}],
            "livenessProbe": _probe("/livez"),
            "readinessProbe": _probe("/readyz"),
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        }
    )
    return _deployment(AUTORECOVERY_NAME, 2, container)


def _console(metadata: str, image: str, secret: str) -> dict[str, Any]:
    # the kubelet reaches no port on loopback, so the probes run in the container
    alive, ready = (
        {
            "exec": {"command": http_check(CONSOLE_PORT, path)},
            "periodSeconds": 30,
            "timeoutSeconds": 10,
        }
        for path in ("/livez", "/readyz")
    )
    common = _container(image)
    container = (
        {"name": "console"}
        | common
        | {
            "command": console_command("127.0.0.1"),
            "volumeMounts": [*common["volumeMounts"], _TOKEN_MOUNT],
            "env": _variables({"ZBK_METADATA": metadata}),
            "startupProbe": alive | {"periodSeconds": 5, "failureThreshold": 24},
            "livenessProbe": alive,
            "readinessProbe": ready,
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        }
    )
    return _deployment(CONSOLE_NAME, 1, container, [_token_volume(secret)])


def _deployment(
    name: str, count: int, container: dict[str, Any], volumes: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    spec = {
        "replicas": count,
        "selector": {"matchLabels": _labels(name)},
        "template": _template(name, {"containers": [container]}, volumes),
    }
    return _object("apps/v1", "Deployment", name, spec)


def _template(
    name: str, pod: dict[str, Any], volumes: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    selector = {"matchLabels": _labels(name)}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    common = {
        "terminationGracePeriodSeconds": STOP_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        },
        "volumes": [{"name": "tmp", "emptyDir": {}}, *volumes],
    }
    return {"metadata": {"labels": _labels(name)}, "spec": common | pod}


def _container(image: str) -> dict[str, Any]:
    return {
        "image": image,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the container
    }


_TOKEN_MOUNT: Final = {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True}


def _token_volume(secret: str) -> dict[str, Any]:
    mode = 0o440  # the group of the pod, which is fsGroup
    return {"name": "token", "secret": {"secretName": secret, "defaultMode": mode}}


def _claim(name: str, size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": spec}


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _variables(environment: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in environment.items()]
