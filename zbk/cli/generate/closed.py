"""What makes generated services a closed cluster: keys, the user of ZooKeeper, and its authority.

Each kind of process gets files of its own from one place, a Secret or a folder of the host:

    bookie.key, autorecovery.key, console.key   private keys, made by `zbk key generate`
    zookeeper.password                          of the metadata user, if there is one
    ca.pem                                      who signs the servers' certificates, with zk+tls://

A process with a key never serves without encryption, so ``ZBK_INSECURE`` goes.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

SECURITY_DIR: Final = "/etc/zbk"
PASSWORD_NAME: Final = "zookeeper.password"  # noqa: S105 - the name of a file
AUTHORITY_NAME: Final = "ca.pem"
VOLUME: Final = "security"
PROCESSES: Final = ("bookie", "autorecovery", "console")


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files come from, and which there are."""

    source: str  # the name of a Secret, or the path of a folder
    metadata: str
    metadata_user: str = ""

    def files(self, process: str) -> list[str]:
        """Return the names of the files of a process."""
        names = [f"{process}.key"]
        names += [PASSWORD_NAME] if self.metadata_user else []
        return names + ([AUTHORITY_NAME] if self.metadata.startswith("zk+tls://") else [])

    def environment(self, process: str) -> dict[str, str]:
        """Return the variables of a process."""
        paths = {name: f"{SECURITY_DIR}/{name}" for name in self.files(process)}
        found = {"ZBK_KEY": paths[f"{process}.key"]}
        if self.metadata_user:
            found["ZBK_METADATA_USER"] = self.metadata_user
            found["ZBK_METADATA_PASSWORD_FILE"] = paths[PASSWORD_NAME]
        if AUTHORITY_NAME in paths:
            found["ZBK_METADATA_CA"] = paths[AUTHORITY_NAME]
        return found


def close_compose(document: Mapping[str, Any], closing: Closing) -> dict[str, Any]:
    """Return a compose file whose services have keys, from a folder of the host."""
    services = dict(document["services"])
    for name, service in services.items():
        process = _process_of(name)
        if process:
            environment = dict(service["environment"])
            environment.pop("ZBK_INSECURE", None)
            mounts = [
                f"{closing.source}/{file}:{SECURITY_DIR}/{file}:ro"
                for file in closing.files(process)
            ]
            services[name] = service | {
                "environment": environment | closing.environment(process),
                "volumes": [*service.get("volumes", ()), *mounts],
            }
    return {**document, "services": services}


def close_manifest(manifest: dict[str, Any], closing: Closing) -> dict[str, Any]:
    """Return a manifest of Kubernetes whose pods, if it has some, have keys, from a Secret."""
    process = _process_of(manifest["metadata"]["name"].removeprefix("zbk-"))
    template = manifest["spec"].get("template")
    if not process or template is None:
        return manifest
    pod = dict(template["spec"])
    items = [{"key": name, "path": name} for name in closing.files(process)]
    secret = {"secretName": closing.source, "defaultMode": 0o440, "items": items}
    pod["volumes"] = [*pod["volumes"], {"name": VOLUME, "secret": secret}]
    for kind in ("initContainers", "containers"):
        if kind in pod:
            pod[kind] = [_closed_container(one, closing.environment(process)) for one in pod[kind]]
    spec = manifest["spec"] | {"template": template | {"spec": pod}}
    return manifest | {"spec": spec}


def _closed_container(container: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    kept = [one for one in container["env"] if one["name"] != "ZBK_INSECURE"]
    mount = {"name": VOLUME, "mountPath": SECURITY_DIR, "readOnly": True}
    return container | {
        "env": [*kept, *({"name": name, "value": value} for name, value in environment.items())],
        "volumeMounts": [*container["volumeMounts"], mount],
    }


def _process_of(name: str) -> str:
    """Return which kind of process a service is.

    >>> _process_of("bookie3"), _process_of("console"), _process_of("zookeeper")
    ('bookie', 'console', '')
    """
    return next((one for one in PROCESSES if name.rstrip("0123456789") == one), "")
