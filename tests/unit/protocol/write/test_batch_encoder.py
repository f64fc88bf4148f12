"""BatchEncoder: who gets which entries, and how long the ledger is afterwards."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.entry_decoding import decode_entry
from tests.support.quorums import quorums
from zbk.protocol.entry.digest import digest_function
from zbk.protocol.entry.words import DigestType
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.batch_encoder import BatchEncoder


@given(
    quorum=quorums,
    first=st.integers(0, 20),
    payloads=st.lists(st.binary(max_size=20), min_size=1, max_size=12),
    digest_type=st.sampled_from(DigestType),
)
def test_each_slot_gets_the_entries_that_it_holds(
    quorum: Quorum, first: int, payloads: list[bytes], digest_type: DigestType
) -> None:
    digest = digest_function(digest_type, b"", 7)
    ids = range(first, first + len(payloads))

    encoded = BatchEncoder(7, quorum, digest_type, digest).encode(first, -1, 1000, payloads)

    assert encoded.length == 1000 + sum(map(len, payloads))
    assert encoded.size == sum({id(p): p.size for p in encoded.parts if p is not None}.values())
    for slot, part in enumerate(encoded.parts):
        held = [entry_id for entry_id in ids if quorum.holds(slot, entry_id)]
        assert (list(part.entry_ids) if part is not None else []) == held
        if part is None:
            continue
        part.verify()
        part.validate()
        offset = 0
        for entry_id in held:
            entry, offset = decode_entry(part.body, offset, 7, entry_id, digest_type, digest)
            assert entry.payload == payloads[entry_id - first]
            assert entry.length == 1000 + sum(map(len, payloads[: entry_id - first + 1]))


def test_unstriped_ledgers_share_one_batch_object() -> None:
    digest = digest_function(DigestType.XXH3, b"", 7)

    encoded = BatchEncoder(7, Quorum(3, 3, 2), DigestType.XXH3, digest).encode(0, -1, 0, [b"x"])

    assert len({id(part) for part in encoded.parts}) == 1
