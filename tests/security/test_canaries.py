"""Secrets as canaries: none of them is found where people and programs look."""

import base64
import json
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.cluster import QUICK, Shell
from tests.support.http import ask
from tests.support.secure_cluster import Keyring
from tests.support.zookeeper_tls import TlsServer, tls_server
from zbk.admin.operation import SECRET_HEADER
from zbk.cluster.local import LocalCluster
from zbk.errors import ZbkError
from zbk.security.keys import read_pair

PASSWORD = "c4n4ry-Of-a-Ledger"
WRONG_PASSWORD = "c4n4ry-Wrong-Password"
PAYLOAD = "c4n4ry-In-an-Entry"
TOKEN = "c4n4ry-Token-of-the-Admin-API"
METADATA_PASSWORD = "c4n4ry-Of-a-User-of-ZooKeeper"
PAGES = (
    "/metrics", "/readyz?verbose", "/version", "/api/v1/config/server_config",
    "/api/v1/zbk/config/sources", "/api/v1/ledger/list?print_metadata=true",
    "/api/v1/ledger/metadata?ledger_id=0", "/api/v1/zbk/bookie/unsynced", "/api/v1/bookie/info",
)  # fmt: skip
CONSOLE_PAGES = (
    "/", "/index.json", "/events.jsonl", "/ledgers/0", "/ledgers/0.json",
    *(f"/{name}{ending}" for name in (
        "bookies", "ledgers", "durability", "recovery", "performance", "events", "datasets", "logs",
        "config",
    ) for ending in ("", ".json")),
)  # fmt: skip


class Place:
    """A secure cluster: a bookie, autorecovery and a console, on a ZooKeeper with TLS."""

    def __init__(self, folder: Path, zookeeper: TlsServer) -> None:
        """The processes get what is in ``variables`` from the environment."""
        self.zookeeper = zookeeper
        password_file = folder / "zookeeper.password"
        password_file.write_text(f"{METADATA_PASSWORD}\n")
        password_file.chmod(0o600)
        self.variables = {
            "ZBK_METADATA_USER": "canary",
            "ZBK_METADATA_PASSWORD_FILE": str(password_file),
            "ZBK_METADATA_CA": zookeeper.ca,
            "ZBK_METADATA_CERTIFICATE": zookeeper.certificate,
            "ZBK_METADATA_CERTIFICATE_KEY": zookeeper.key,
        }
        self.keys = Keyring(folder / "keys")
        for name in ("bookie", "alice"):
            self.keys.make(name)
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN)
        self.token_file.chmod(0o600)
        self.audit_log = folder / "audit.log"
        flags = (
            *("--key", self.keys.path("bookie"), "--audit-log", str(self.audit_log)),
            *("--http-token-file", str(self.token_file), "--allow-actions", "--log-level", "debug"),
        )
        self.cluster = LocalCluster(
            folder / "data",
            bookie_count=1,
            metadata=zookeeper.uri,
            bookie_options=QUICK,
            bookie_flags=flags,
        )
        self.console_url = ""
        self.console_pid = 0
        self.console_log = folder / "console.log"

    def ask(self, path: str, password: str = "", token: str = TOKEN) -> str:
        headers = {"Authorization": f"Bearer {token}"}
        headers |= {SECRET_HEADER: password} if password else {}
        return ask(f"{self.cluster.bookies[0].http}{path}", headers=headers).body

    @property
    def pids(self) -> dict[str, int]:
        beside = self.cluster.autorecovery
        assert beside is not None, "it was started"
        bookie = self.cluster.bookies[0].pid
        return {"bookie": bookie, "autorecovery": beside.pid, "console": self.console_pid}

    def shell(self, home: Path) -> Shell:
        address = {"ZBK_KEY": self.keys.path("alice"), "ZBK_METADATA": self.cluster.metadata_uri}
        return Shell(home, self.variables | address)

    @contextmanager
    def console(self, home: Path) -> Iterator[None]:
        """Run a console with each secret that it can have."""
        shell = self.shell(home)
        shell.environment |= {
            "ZBK_KEY": self.keys.path("bookie"),
            "ZBK_AUDIT_LOG": str(self.audit_log),
            "PYTHONHASHSEED": "0",
        }
        token = str(self.token_file)
        running = shell.start(
            *("console", "-o", "json", "--http", "127.0.0.1:0", "--allow-actions"),
            *("--http-token-file", token, "--bookie-token-file", token, "--log-level", "debug"),
        )
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, running.communicate()[1].decode()
        before = self.console_url, self.console_pid
        self.console_url, self.console_pid = json.loads(line)["url"], running.pid
        try:
            yield
        finally:
            self.console_url, self.console_pid = before
            running.send_signal(signal.SIGINT)
            self.console_log.write_bytes(b"".join(running.communicate(timeout=30)))

    def use(self) -> None:
        """Use each secret, and wrong ones."""
        with self.keys.connect(self.cluster, "alice") as client:
            with client.create_ledger(
                ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, digest_type="MAC",
                password=PASSWORD.encode(),
            ) as ledger:  # fmt: skip
                ledger.append(PAYLOAD.encode())
            client.recover_ledger(ledger.ledger_id, PASSWORD.encode())
            with suppress(ZbkError):
                client.open_ledger(ledger.ledger_id, WRONG_PASSWORD.encode())
            secrets = client.get_ledger_metadata(ledger.ledger_id)
            self.derived = (secrets.ledger_key, secrets.password_digest)
        read = f"/api/v1/ledger/read?ledger_id={ledger.ledger_id}"
        assert PAYLOAD in self.ask(read, PASSWORD)
        self.ask(read, WRONG_PASSWORD)
        self.ask(read, PASSWORD, token=f"{TOKEN}-wrong")
        for password, token in ((PASSWORD, TOKEN), (WRONG_PASSWORD, TOKEN), (PASSWORD, "x" * 20)):
            headers = {"Authorization": f"Bearer {token}", SECRET_HEADER: password}
            answer = ask(f"{self.console_url}{read}", headers=headers)
            assert (PAYLOAD in answer.body) is ((password, token) == (PASSWORD, TOKEN))

    def secrets(self) -> dict[str, bytes]:
        """Return all forms of the secrets, by name."""
        tls_key = Path(self.zookeeper.key).read_text().splitlines()
        pairs = {name: read_pair(self.keys.path(name)) for name in ("bookie", "alice")}
        texts = {
            "password": PASSWORD.encode(), "wrong password": WRONG_PASSWORD.encode(),
            "payload": PAYLOAD.encode(), "token": TOKEN.encode(),
            "password of the metadata user": METADATA_PASSWORD.encode(),
            "key of the TLS certificate": tls_key[len(tls_key) // 2].encode(),
            **{f"key of {name}": one.secret_key.encode() for name, one in pairs.items()},
            **{f"derived {number}": one for number, one in enumerate(self.derived)},
        }  # fmt: skip
        forms = dict(texts)
        for name, one in texts.items():
            forms[f"{name} in base64"] = base64.b64encode(one).rstrip(b"=")[:-1]
            forms[f"{name} in hex"] = one.hex().encode()
            forms[f"{name} in Python"] = repr(one)[2:-1].encode()
        return forms

    def _ps(self) -> bytes:
        command = ["ps", "-eww", "-o", "args"]
        return subprocess.run(command, capture_output=True, check=True).stdout

    def outside(self, shell: Shell) -> Iterator[tuple[str, bytes]]:
        """Yield what can be seen of the cluster, with the name of the place."""
        for process, pid in self.pids.items():
            for name in ("cmdline", "environ"):
                yield f"{name} of the {process}", Path(f"/proc/{pid}/{name}").read_bytes()
        yield "ps", self._ps()
        for path in self.cluster.folder.glob("*.log"):
            yield path.name, path.read_bytes()
        yield "audit log", self.audit_log.read_bytes()
        for page in PAGES:
            yield page, self.ask(page).encode()
            headers = {"Authorization": f"Bearer {TOKEN}"}
            yield f"console {page}", ask(f"{self.console_url}{page}", headers=headers).body.encode()
        for page in CONSOLE_PAGES:
            answer = ask(f"{self.console_url}{page}")
            assert answer.status == 200, page
            yield f"console {page}", answer.body.encode()
        shell.run("debug", "bundle", "b.tgz", "--log", str(self.audit_log))
        with tarfile.open(shell.home / "b.tgz") as archive:
            for one in archive:
                file = archive.extractfile(one)
                if file is not None:
                    yield f"bundle: {one.name}", file.read()


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with tls_server(tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, zookeeper: TlsServer) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("canaries"), zookeeper)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "0")  # cold starts: a forked process has our environment
        for name, value in place.variables.items():
            patch.setenv(name, value)
        with place.cluster:
            place.keys.admit(place.cluster, "alice", "alice")
            place.keys.admit(place.cluster, "bookies", "bookie", "bookie", "operator")
            key = ("--key", place.keys.path("bookie"), "--log-level", "debug")
            place.cluster.start_autorecovery({}, key)
            with place.console(tmp_path_factory.mktemp("home")):
                place.use()
                yield place


def test_no_secret_is_seen_from_outside(place: Place, tmp_path: Path) -> None:
    seen = dict(place.outside(place.shell(tmp_path)))
    assert len(seen) > 2 * len(PAGES) + len(CONSOLE_PAGES) + 10
    assert b"canary" in seen["environ of the console"], "the name of the user is no secret"
    hits = [
        (where, name)
        for where, text in seen.items()
        for name, secret in place.secrets().items()
        if secret in text
    ]
    assert not hits


def test_a_console_that_ended_has_logged_no_secret(place: Place, tmp_path: Path) -> None:
    with place.console(tmp_path):
        place.use()
        for page in CONSOLE_PAGES:
            ask(f"{place.console_url}{page}")
    text = place.console_log.read_bytes()
    assert b"INFO" in text
    lines = [
        (name, line)
        for name, secret in place.secrets().items()
        for line in text.splitlines()
        if secret in line
    ]
    assert not lines


@pytest.mark.parametrize("process", ["bookie", "autorecovery", "console"])
def test_a_process_with_a_key_leaves_no_core_dump(place: Place, process: str) -> None:
    limits = Path(f"/proc/{place.pids[process]}/limits").read_text("ascii")
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4:6] in (["1", "1"], ["0", "0"])
