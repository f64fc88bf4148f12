"""Secrets as canaries: none of them is found where people and programs look."""

import base64
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cluster import QUICK, Shell
from tests.support.http import ask
from tests.support.secure_cluster import Keyring
from zbk.admin.operation import SECRET_HEADER
from zbk.cluster.local import LocalCluster
from zbk.errors import ZbkError
from zbk.security.keys import read_pair

PASSWORD = "c4n4ry-Of-a-Ledger"
WRONG_PASSWORD = "c4n4ry-Wrong-Password"
PAYLOAD = "c4n4ry-In-an-Entry"
TOKEN = "c4n4ry-Token-of-the-Admin-API"
PAGES = (
    "/metrics", "/readyz?verbose", "/version", "/api/v1/config/server_config",
    "/api/v1/zbk/config/sources", "/api/v1/ledger/list?print_metadata=true",
    "/api/v1/ledger/metadata?ledger_id=0", "/api/v1/zbk/bookie/unsynced", "/api/v1/bookie/info",
)  # fmt: skip


class Place:
    """A secure cluster of one bookie, and the files around it."""

    def __init__(self, folder: Path) -> None:
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
            folder / "data", bookie_count=1, bookie_options=QUICK, bookie_flags=flags
        )

    def ask(self, path: str, password: str = "", token: str = TOKEN) -> str:
        headers = {"Authorization": f"Bearer {token}"}
        headers |= {SECRET_HEADER: password} if password else {}
        return ask(f"{self.cluster.bookies[0].http}{path}", headers=headers).body

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

    def secrets(self) -> dict[str, bytes]:
        """Return all forms of the secrets, by name."""
        pairs = {name: read_pair(self.keys.path(name)) for name in ("bookie", "alice")}
        texts = {
            "password": PASSWORD.encode(), "wrong password": WRONG_PASSWORD.encode(),
            "payload": PAYLOAD.encode(), "token": TOKEN.encode(),
            **{f"key of {name}": one.secret_key.encode() for name, one in pairs.items()},
            **{f"derived {number}": one for number, one in enumerate(self.derived)},
        }  # fmt: skip
        forms = dict(texts)
        for name, one in texts.items():
            forms[f"{name} in base64"] = base64.b64encode(one).rstrip(b"=")[:-1]
            forms[f"{name} in hex"] = one.hex().encode()
        return forms

    def outside(self, shell: Shell) -> Iterator[tuple[str, bytes]]:
        """Yield what can be seen of the cluster, with the name of the place."""
        pid = self.cluster.bookies[0].pid
        for name in ("cmdline", "environ"):
            yield f"{name} of the bookie", Path(f"/proc/{pid}/{name}").read_bytes()
        for path in self.cluster.folder.glob("*.log"):
            yield path.name, path.read_bytes()
        yield "audit log", self.audit_log.read_bytes()
        for page in PAGES:
            yield page, self.ask(page).encode()
        shell.run("debug", "bundle", "b.tgz", "--log", str(self.audit_log))
        with tarfile.open(shell.home / "b.tgz") as archive:
            for one in archive:
                file = archive.extractfile(one)
                if file is not None:
                    yield f"bundle: {one.name}", file.read()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("canaries"))
    with place.cluster:
        place.keys.admit(place.cluster, "alice", "alice")
        place.keys.admit(place.cluster, "bookies", "bookie", "bookie", "operator")
        place.use()
        yield place


def test_no_secret_is_seen_from_outside(place: Place, tmp_path: Path) -> None:
    key = place.keys.path("alice")
    shell = Shell(tmp_path, {"ZBK_KEY": key, "ZBK_METADATA": place.cluster.metadata_uri})
    seen = dict(place.outside(shell))
    assert len(seen) > len(PAGES) + 10
    hits = [
        (where, name)
        for where, text in seen.items()
        for name, secret in place.secrets().items()
        if secret in text
    ]
    assert not hits


def test_a_process_with_a_key_leaves_no_core_dump(place: Place) -> None:
    limits = Path(f"/proc/{place.cluster.bookies[0].pid}/limits").read_text("ascii")
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4:6] in (["1", "1"], ["0", "0"])
