"""What makes generated services a closed cluster: keys, the user of ZooKeeper, and its authority.

Each kind of process gets files of its own from one place, a Secret or a folder of the host:

    bookie.key, autorecovery.key, console.key   private keys, made by `zbk key generate`
    bookie1.key, ... or zbk-bookie-0.key, ...   instead of bookie.key, with own keys: one for each
                                                bookie, by the name of its service or pod
    zookeeper.password                          of the metadata user, if there is one
    ca.pem                                      who signs the servers' certificates, with zk+tls://

Each container sees its own files only. In Kubernetes all bookies have one template, so with own
keys the volume has the whole Secret, and the container of a bookie gets the file of its pod's name.

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
    has_own_keys: bool = False  # each bookie has one

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
            own_key = f"{name}.key" if closing.has_own_keys else f"{process}.key"
            mounts = [
                f"{closing.source}/{own_key if file == f'{process}.key' else file}"
                f":{SECURITY_DIR}/{file}:ro"
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
    secret: dict[str, Any] = {"secretName": closing.source, "defaultMode": 0o440}
    mounts = [{"name": VOLUME, "mountPath": SECURITY_DIR, "readOnly": True}]
    if process == "bookie" and closing.has_own_keys:
        mounts = [_file_mount(file) for file in closing.files(process)]
    else:
        secret["items"] = [{"key": name, "path": name} for name in closing.files(process)]
    pod["volumes"] = [*pod["volumes"], {"name": VOLUME, "secret": secret}]
    for kind in ("initContainers", "containers"):
        if kind in pod:
            pod[kind] = [
                _closed_container(one, closing.environment(process), mounts) for one in pod[kind]
            ]
    spec = manifest["spec"] | {"template": template | {"spec": pod}}
    return manifest | {"spec": spec}


def _file_mount(name: str) -> dict[str, Any]:
    """Return the mount of one file of a bookie; its key has the name of the pod."""
    mount = {"name": VOLUME, "mountPath": f"{SECURITY_DIR}/{name}", "readOnly": True}
    is_key = name == "bookie.key"
    return mount | ({"subPathExpr": "$(POD_NAME).key"} if is_key else {"subPath": name})


def _closed_container(
    container: dict[str, Any], environment: dict[str, str], mounts: list[dict[str, Any]]
) -> dict[str, Any]:
    kept = [one for one in container["env"] if one["name"] != "ZBK_INSECURE"]
    return container | {
        "env": [*kept, *({"name": name, "value": value} for name, value in environment.items())],
        "volumeMounts": [*container["volumeMounts"], *mounts],
    }


def _process_of(name: str) -> str:
    """Return which kind of process a service is.

    >>> _process_of("bookie3"), _process_of("console"), _process_of("zookeeper")
    ('bookie', 'console', '')
    """
    return next((one for one in PROCESSES if name.rstrip("0123456789") == one), "")
