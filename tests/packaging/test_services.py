"""Services of compose and pods of Kubernetes, started as their files say, without a daemon."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.container import Container
from tests.support.http import ask
from tests.support.machine import patient_s
from tests.support.waiting import wait_until
from zbk.cli.generate.compose import compose_file
from zbk.cli.generate.containers import CONSOLE_PORT, HTTP_PORT
from zbk.cli.generate.k8s import manifests
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import BookieRegistration

SERVICES = compose_file(1, "zbk:1")["services"]


@contextmanager
def service(name: str, folder: Path) -> Iterator[Container]:
    """Yield a service of compose once its health check passes; then stop it."""
    found = SERVICES[name]
    container = Container(folder, found["environment"])
    kind, *check = found["healthcheck"]["test"]
    assert kind == "CMD"
    assert container.run(check) != 0, "healthy before it runs"
    with container.started(found["command"]) as process:
        wait_until(lambda: container.run(check) == 0)
        yield container
        process.send_signal(signal.SIGTERM)
        assert process.wait(patient_s(30)) == 0


def test_services_of_compose_become_healthy_and_end_at_a_signal(tmp_path: Path) -> None:
    for _ in range(2):  # a second start keeps the token
        assert Container(tmp_path, {}).run(SERVICES["token"]["command"]) == 0
    token = (tmp_path / "run" / "token").read_text("ascii").strip()
    with (
        service("bookie1", tmp_path) as bookie,
        service("autorecovery", tmp_path),
        service("console", tmp_path) as console,
    ):
        api = f"http://127.0.0.1:{bookie.ports[str(HTTP_PORT)]}/api/v1/ledger/list"
        assert ask(api).status == 401
        assert ask(api, headers={"Authorization": f"Bearer {token}"}).status == 200
        own = f"http://127.0.0.1:{console.ports[str(CONSOLE_PORT)]}"
        assert ask(f"{own}/api/v1/ledger/list").status == 401
        assert ask(f"{own}/config.json").status == 200


# ------------------------------------------------------------------ Kubernetes


def registered(folder: Path) -> list[BookieRegistration]:
    store = open_store(f"sqlite://{folder}/metadata.db")
    try:
        return list(BookieRegistry(store).available().values())
    finally:
        store.close()


@contextmanager
def pod(folder: Path, name: str, namespace: str) -> Iterator[BookieRegistration]:
    """Yield how the bookie of a pod is registered; the pod ends with the block."""
    (workload,) = [one for one in manifests("", 1, "i", SIZES) if one["kind"] == "StatefulSet"]
    spec = workload["spec"]["template"]["spec"]
    (init,), (bookie,) = spec["initContainers"], spec["containers"]
    assert init["env"] == bookie["env"]
    container = Container(folder, environment(bookie["env"], name, namespace))
    (container.token_dir / "token").write_text(TOKEN)  # as the volume of the Secret has it
    assert container.run(init["command"]) == 0
    (path,) = {bookie[one]["httpGet"]["path"] for one in ("readinessProbe",)}
    ready = f"import urllib.request as r; r.urlopen('http://127.0.0.1:{HTTP_PORT}{path}')"
    with container.started(bookie["command"]) as process:
        wait_until(lambda: container.run(["python3", "-c", ready]) == 0)
        (found,) = registered(folder)
        yield found
        process.send_signal(signal.SIGTERM)
        assert process.wait(patient_s(30)) == 0


TOKEN = "a-token-of-a-secret"
SIZES = {"journal": "1Gi", "ledgers": "1Gi"}


def environment(fields: list[dict[str, Any]], name: str, namespace: str) -> dict[str, str]:
    """Return the variables of a pod, with $(X) replaced as Kubernetes does: of earlier ones."""
    facts = {"metadata.name": name, "metadata.namespace": namespace}
    found: dict[str, str] = {}
    for field in fields:
        value = field.get("value")
        if value is None:
            value = facts[field["valueFrom"]["fieldRef"]["fieldPath"]]
        found[field["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
    return found


def test_a_pod_that_is_moved_is_the_same_bookie_at_another_address(tmp_path: Path) -> None:
    """The cookie in the volumes is compared at each start: a bookie of other volumes would fail."""
    with pod(tmp_path, "zbk-bookie-0", "default") as before:
        assert before.address.startswith("tcp://zbk-bookie-0.zbk-bookie.default.svc:")
    with pod(tmp_path, "zbk-bookie-0", "elsewhere") as after:
        assert after.address.startswith("tcp://zbk-bookie-0.zbk-bookie.elsewhere.svc:")
        assert after.bookie_id == before.bookie_id
        assert after.incarnation > before.incarnation
