"""The hardening of the units does not break a bookie: its ExecStart runs under the same limits.

There is no systemd here. `unshare` and `setpriv` make the root read-only but for ReadWritePaths and
take all capabilities, a seccomp filter refuses sockets of other address families, and strace shows
whether SystemCallFilter would refuse what a bookie calls.
"""

import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import zbk
from tests.support import address_families
from tests.support.cluster import lone_ledger
from tests.support.machine import patient_s
from tests.support.secure_cluster import Keyring
from tests.support.system_calls import permitted_calls
from tests.support.waiting import wait_until
from zbk.cli.generate.systemd import secret_lines, unit
from zbk.metadata.records.principals import PrincipalStore
from zbk.metadata.stores.connect import open_store
from zbk.security.principals import with_key
from zbk.system.ports import free_ports

PROGRAM = Path(sys.executable).with_name("zbk")


class Service:
    """A bookie's unit with its configuration, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.directories = [str(folder / name) for name in ("journal", "ledgers")]
        self.store = folder / "store"
        self.metadata = f"sqlite://{self.store}/metadata.db"
        config_file = folder / "bookie.toml"
        config_file.write_text(
            f'[bookie]\nmetadata = "{self.metadata}"\njournal_dir = "{self.directories[0]}"\n'
            f'ledger_dir = "{self.directories[1]}"\nlisten = "tcp://127.0.0.1:{free_ports(1)[0]}"\n'
            'http = "off"\n'
        )
        for path in (self.store, *map(Path, self.directories)):
            path.mkdir()
        options = ["--config", str(config_file), "--log-format", "json"]
        self._words = [str(PROGRAM), "bookie", "run", *options]
        self._read(unit("bookie", "zbk", self._words, self.directories))
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        init = [str(PROGRAM), "bookie", "init", "--config", str(config_file)]
        subprocess.run(init, env=self.environment, check=True, capture_output=True)

    def _read(self, text: str) -> None:
        self.unit = text
        lines = [line.partition("=") for line in text.splitlines() if "=" in line]
        self.fields = {name: value for name, _, value in lines}

    def give(self, secrets: list[str]) -> None:
        """Give the service secrets as systemd does: copies that only its user may read."""
        self._read(unit("bookie", "zbk", self._words, self.directories, secrets))
        credentials = self.folder / "credentials" / "zbk-bookie.service"
        credentials.mkdir(parents=True, mode=0o700)
        for name, source in re.findall("^LoadCredential=([^:]+):(.*)$", self.unit, re.MULTILINE):
            copy = credentials / name
            copy.write_bytes(Path(source).read_bytes())
            copy.chmod(0o440)  # the group is that of root, and an access list names the user
        for name, value in re.findall(r"^Environment=(\w+)=(.*)$", self.unit, re.MULTILINE):
            self.environment[name] = value.replace("%d", str(credentials))
        for source in re.findall("^EnvironmentFile=(.*)$", self.unit, re.MULTILINE):
            lines = (line.partition("=") for line in Path(source).read_text().splitlines())
            self.environment |= {name: value for name, _, value in lines}

    @contextmanager
    def started(self, prefix: Sequence[str]) -> Iterator[None]:
        """Start ExecStart; after the block, SIGTERM must end it as a stop of the unit does."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*prefix, *shlex.split(self.fields["ExecStart"])],
                env=self.environment,
                cwd="/",
                umask=int(self.fields["UMask"], 8),
                start_new_session=True,
                stderr=log,
            )
        try:
            yield
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii")
            os.kill(int(children.split()[0]) if children else process.pid, signal.SIGTERM)
            assert process.wait(patient_s(30)) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def use(self) -> None:
        """Append to the bookie and read back."""
        with zbk.connect(self.metadata) as client:
            wait_until(lambda: len(client.list_bookies()) == 1)
            with lone_ledger(client) as ledger:
                ledger.append(b"kept")
                ledger_id = ledger.ledger_id
            with client.open_ledger(ledger_id) as reader:
                assert [bytes(one.payload) for one in reader.read(0, 0)] == [b"kept"]


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


def sandbox(service: Service) -> list[str]:
    """Return the words before a command that runs with the limits of the unit."""
    fields = service.fields
    assert (fields["ProtectSystem"], fields["NoNewPrivileges"]) == ("strict", "yes")
    assert fields["CapabilityBoundingSet"] == fields["AmbientCapabilities"] == ""
    writable = [*shlex.split(fields["ReadWritePaths"]), str(service.store)]  # ZooKeeper is remote
    binds = [f"mount --bind {shlex.quote(path)} {shlex.quote(path)}" for path in writable]
    refused = shlex.quote(str(service.folder / "refused"))
    script = [*binds, "mount -o remount,bind,ro /", f"! touch {refused} 2>/dev/null", 'exec "$@"']
    return [
        *("unshare", "--mount", "/bin/sh", "-c", " && ".join(script), "sh"),
        *("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
        *(sys.executable, address_families.__file__, fields["RestrictAddressFamilies"]),
    ]


def is_permitted(command: list[str]) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not is_permitted(["unshare", "--mount"]), reason="namespaces need root")
@pytest.mark.skipif(
    platform.machine() not in address_families.SOCKET_CALL, reason="seccomp needs numbers of calls"
)
def test_a_bookie_works_in_the_sandbox_of_its_unit(service: Service) -> None:
    with service.started(sandbox(service)):
        service.use()

    assert not (service.folder / "refused").exists()
    modes = {path.stat().st_mode & 0o027 for one in service.directories for path in files_in(one)}
    assert modes == {0}, "UMask"


def test_a_key_comes_as_a_credential_and_options_in_a_file(service: Service) -> None:
    keys = Keyring.of(service.folder / "keys", "bookie", "alice")
    store = open_store(service.metadata)
    key = keys.public("alice").public_key
    PrincipalStore(store).change(lambda now: with_key(now, "alice", key, ["operator"]))
    store.close()
    variables = service.folder / "variables"
    variables.write_text("ZBK_BOOKIE_RACK=r7\n")
    service.give(secret_lines(keys.path("bookie"), "", str(variables)))
    assert service.environment["ZBK_KEY"] != keys.path("bookie")

    with service.started([]), zbk.connect(service.metadata, key=keys.path("alice")) as client:
        wait_until(lambda: len(client.list_bookies()) == 1)
        (bookie,) = client.list_bookies()
        assert bookie.public_key == keys.public("bookie").public_key
        assert bookie.rack == "r7"
        with lone_ledger(client) as ledger:
            assert ledger.append(b"kept") == 0


def files_in(folder: str) -> Iterator[Path]:
    return (path for path in Path(folder).rglob("*") if path.is_file())


@pytest.mark.skipif(not is_permitted(["strace", "-o", "/dev/null"]), reason="there is no strace")
def test_a_bookie_calls_only_what_its_unit_permits(service: Service) -> None:
    trace = service.folder / "trace"
    with service.started(["strace", "-f", "-qq", "-o", str(trace)]):
        service.use()

    text = trace.read_text("utf-8", "replace")
    calls = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", text, re.MULTILINE))
    assert {"openat", "socket"} <= calls
    assert calls - permitted_calls(service.unit) == set()
    families = set(re.findall(r"^\d+ +socket\((AF_\w+)", text, re.MULTILINE))
    assert "AF_INET" in families
    assert families <= set(service.fields["RestrictAddressFamilies"].split())
