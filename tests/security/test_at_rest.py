"""What a reader of a bookie's disk and of the metadata finds: entries, and no key."""

from pathlib import Path

import zbk
from tests.support.cluster import QUICK, lone_ledger
from tests.support.secure_cluster import Keyring
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.digest import _derive
from zbk.security.keys import read_pair

PASSWORD = b"c4n4ry-Of-a-Ledger"
PAYLOAD = b"readable by those who read the disk"


def files_with(folder: Path, needle: bytes) -> list[str]:
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and needle in path.read_bytes()
    ]


def test_no_key_is_beside_the_data(tmp_path: Path) -> None:
    """Neither the password, nor the key of the MAC, nor a private key.

    Entries are there, and the key that clients show to bookies: repairs need it, and no MAC can be
    made with it.
    """
    keys = Keyring.of(tmp_path / "keys", "bookie", "alice")
    data = tmp_path / "data"
    with LocalCluster(
        data, bookie_count=1, bookie_options=QUICK, bookie_flags=("--key", keys.path("bookie"))
    ) as cluster:
        keys.admit(cluster, "alice", "alice", "operator")
        keys.wait_for(cluster, "alice")
        with keys.connect(cluster, "alice") as client:
            with client.create_ledger(
                ensemble_size=1, write_quorum_size=1, ack_quorum_size=1,
                digest_type=zbk.DigestType.MAC, password=PASSWORD,
            ) as ledger:  # fmt: skip
                ledger.append(PAYLOAD)
            with client.open_ledger(ledger.ledger_id, PASSWORD) as reader:
                assert [one.payload for one in reader.read(0, 0)] == [PAYLOAD]
            with lone_ledger(client) as other:
                other.append(b"x")
        assert cluster.terminate(0) == 0  # which writes all of the index
        ledger_id = ledger.ledger_id
        secrets = {
            "the password": PASSWORD,
            "the key of its MAC": _derive(PASSWORD, ledger_id, b"zbk entry mac"),
            "the key of the bookie": read_pair(keys.path("bookie")).secret_key.encode(),
            "the key of the client": read_pair(keys.path("alice")).secret_key.encode(),
        }
        assert {
            name: found for name, one in secrets.items() if (found := files_with(data, one))
        } == {}
        assert files_with(data, PAYLOAD) != []
