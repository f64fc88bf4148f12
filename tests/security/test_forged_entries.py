"""What a hostile bookie may write into its own files: no reader of a ledger with a MAC believes it.

The bookie runs, and its entry log changes under it, so that what it serves is what is in the file.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest

import zbk
from tests.support.cluster import QUICK
from tests.support.damage import flipped
from zbk.cluster.local import LocalCluster
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.entry import encode_entries
from zbk.protocol.entry.words import DigestType

PASSWORD = b"secret"
COUNT = 10
SIZE = 4
"""Bytes of a payload: all entries have the same size, so that each fits in another's place."""

ENTRY_SIZE = 40 + SIZE + 16
REFUSALS = (zbk.DigestMismatchError, zbk.EntryUnreadableError, zbk.CorruptRecordError)
LEDGER_AT, ENTRY_AT, LAC_AT, LENGTH_AT = 8, 16, 24, 32


class EntryFiles:
    """The entry logs of one bookie: finds entries, and writes others in their places."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, ledger_id: int, entry_id: int) -> tuple[Path, int]:
        """Return the file of an entry, and where the entry is in it."""
        head = SIZE.to_bytes(4, "little") + b"\x01\x02\0\0" + _number(ledger_id) + _number(entry_id)
        for path in sorted(self._folder.glob("ledgers/logs/*.log")):
            at = path.read_bytes().find(head)
            if at >= 0:
                return path, at
        raise AssertionError(f"entry {entry_id} of ledger {ledger_id} is in no log")

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        """Return the bytes of an entry."""
        path, at = self.find(ledger_id, entry_id)
        return path.read_bytes()[at : at + ENTRY_SIZE]

    def write(self, place: tuple[Path, int], entry: bytes) -> None:
        """Write bytes where an entry is."""
        path, at = place
        with path.open("r+b") as file:
            file.seek(at)
            file.write(entry)


class Scene:
    """Two ledgers with one password on a bookie, and the bookie's files."""

    def __init__(self, cluster: LocalCluster, client: zbk.Client, bookie_no: int) -> None:
        self.client = client
        self.files = EntryFiles(cluster.folder / f"bookie{bookie_no}")
        self.count = len(cluster.bookies)
        self.one, self.other = self.filled(b"one"), self.filled(b"two")

    def filled(self, word: bytes) -> int:
        """Return a closed ledger."""
        with self.client.create_ledger(
            ensemble_size=self.count,
            write_quorum_size=self.count,
            ack_quorum_size=self.count,
            digest_type=zbk.DigestType.MAC,
            password=PASSWORD,
        ) as ledger:
            for number in range(COUNT):  # one by one: each has another LAC
                ledger.append(word + b"%d" % number)
        return ledger.ledger_id

    def entries(self, ledger_id: int) -> dict[int, bytes]:
        """Return the payloads of the entries that a reader accepts, one by one."""
        found = {}
        with self.client.open_ledger(ledger_id, PASSWORD) as reader:
            for number in range(COUNT):
                with suppress(*REFUSALS):
                    (entry,) = reader.read_unconfirmed(number, number)
                    found[number] = entry.payload
        return found


@pytest.fixture(scope="module", params=[1, 3], ids=["one bookie", "one of three bookies"])
def scene(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("cluster") / "data"
    with (
        LocalCluster(folder, bookie_count=request.param, bookie_options=QUICK) as cluster,
        zbk.connect(cluster.metadata_uri) as client,
    ):
        yield Scene(cluster, client, bookie_no=0)


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def with_field(entry: bytes, at: int, value: int) -> bytes:
    return entry[:at] + _number(value) + entry[at + 8 :]


def with_ids(entry: bytes, ledger_id: int, entry_id: int) -> bytes:
    """Return an entry that claims to be another one, so that the bookie serves it as that."""
    return with_field(with_field(entry, LEDGER_AT, ledger_id), ENTRY_AT, entry_id)


def signed(scene: Scene, kind: DigestType, password: bytes, payload: bytes) -> bytes:
    """Return entry 3 as one who does not know the password can write it."""
    digest = digest_function(kind, password, scene.one)
    return encode_entries(scene.one, [3], 2, 3 * SIZE, [payload], kind, digest)[0]


Forgery: TypeAlias = Callable[[Scene], dict[tuple[int, int], bytes]]
"""Returns what is written in the places of which entries."""


def swapped_in_a_ledger(scene: Scene) -> dict[tuple[int, int], bytes]:
    two, seven = (scene.files.read(scene.one, number) for number in (2, 7))
    return {(scene.one, 2): seven, (scene.one, 7): two}


def swapped_under_their_new_ids(scene: Scene) -> dict[tuple[int, int], bytes]:
    found = swapped_in_a_ledger(scene)
    return {place: with_ids(entry, *place) for place, entry in found.items()}


def swapped_between_ledgers(scene: Scene) -> dict[tuple[int, int], bytes]:
    mine, theirs = (scene.files.read(ledger_id, 5) for ledger_id in (scene.one, scene.other))
    return {(scene.one, 5): theirs, (scene.other, 5): mine}


def swapped_between_ledgers_under_their_new_ids(scene: Scene) -> dict[tuple[int, int], bytes]:
    found = swapped_between_ledgers(scene)
    return {place: with_ids(entry, *place) for place, entry in found.items()}


def an_old_entry_again(scene: Scene) -> dict[tuple[int, int], bytes]:
    return {(scene.one, 9): scene.files.read(scene.one, 1)}


def an_old_entry_under_a_new_id(scene: Scene) -> dict[tuple[int, int], bytes]:
    return {(scene.one, 9): with_ids(scene.files.read(scene.one, 1), scene.one, 9)}


def an_old_entry_with_all_that_fits(scene: Scene) -> dict[tuple[int, int], bytes]:
    """Id, LAC and length are those of the entry whose place it takes."""
    forged = with_ids(scene.files.read(scene.one, 1), scene.one, 9)
    forged = with_field(with_field(forged, LAC_AT, 8), LENGTH_AT, 10 * SIZE)
    return {(scene.one, 9): forged}


def a_weaker_digest(scene: Scene) -> dict[tuple[int, int], bytes]:
    """The payload is longer by what the digest is shorter, so that it fits."""
    return {(scene.one, 3): signed(scene, DigestType.XXH3, b"", b"evil12345678")}


def no_digest(scene: Scene) -> dict[tuple[int, int], bytes]:
    return {(scene.one, 3): signed(scene, DigestType.NONE, b"", b"evil1234567890123456")}


def another_password(scene: Scene) -> dict[tuple[int, int], bytes]:
    return {(scene.one, 3): signed(scene, DigestType.MAC, b"guess", b"evil")}


@pytest.mark.parametrize(
    "forge",
    [
        swapped_in_a_ledger,
        swapped_under_their_new_ids,
        swapped_between_ledgers,
        swapped_between_ledgers_under_their_new_ids,
        an_old_entry_again,
        an_old_entry_under_a_new_id,
        an_old_entry_with_all_that_fits,
        a_weaker_digest,
        no_digest,
        another_password,
    ],
)
def test_a_reader_refuses_a_forged_entry(scene: Scene, forge: Forgery) -> None:
    """It reads that entry from another bookie, or not at all, and all others as they were."""
    true = {one: scene.entries(one) for one in (scene.one, scene.other)}
    assert [len(found) for found in true.values()] == [COUNT, COUNT]
    forged = forge(scene)
    before = {(scene.files.find(*place)): scene.files.read(*place) for place in forged}
    places = list(before)
    assert {len(entry) for entry in forged.values()} == {ENTRY_SIZE}

    for place, entry in zip(places, forged.values(), strict=True):
        scene.files.write(place, entry)
    try:
        found = {one: scene.entries(one) for one in true}
    finally:
        for place, entry in before.items():
            scene.files.write(place, entry)

    expected = {
        ledger_id: {
            number: payload
            for number, payload in payloads.items()
            if scene.count > 1 or (ledger_id, number) not in forged
        }
        for ledger_id, payloads in true.items()
    }
    assert found == expected
    assert {one: scene.entries(one) for one in true} == true


def test_a_reader_refuses_an_entry_with_any_bit_changed(scene: Scene) -> None:
    """Also the whole range that contains it, and never for the other entries."""
    place = scene.files.find(scene.one, 4)
    entry = scene.files.read(scene.one, 4)
    payloads = [b"one%d" % number for number in range(COUNT)]
    with scene.client.open_ledger(scene.one, PASSWORD) as reader:
        believed = []
        for bit, changed in flipped(entry):
            scene.files.write(place, changed)
            try:
                found = [one.payload for one in reader.read(3, 5)]
            except REFUSALS:
                found = payloads[3:6] if scene.count == 1 else []
            else:
                found = found if scene.count > 1 else []
            if found != payloads[3:6]:
                believed.append(bit)
        scene.files.write(place, entry)
        assert believed == []
        assert [one.payload for one in reader.read(0, COUNT - 1)] == payloads
