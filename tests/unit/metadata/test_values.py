"""The bytes of values: golden, there and back, every cut, every flipped bit, any garbage."""

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zbk.errors import CorruptRecordError, InvalidOptionError, UnsupportedVersionError
from zbk.metadata.stores.arguments import VALUE_SIZE_MAX
from zbk.metadata.values import (
    AuditCounter,
    AuditorStatus,
    AuditorVote,
    BookieRegistration,
    Cookie,
    DataSetHead,
    IdCounter,
    Instance,
    LastCheck,
    Layout,
    LedgerLayout,
    LogHead,
    LostBookieDelay,
    Namespaces,
    NamespaceUsage,
    StoredCookie,
    TaskLock,
    TaskProgress,
    ValueT,
    decode,
    encode,
)
from zbk.protocol.dataset.dataset import DataSet, Load, LoadKind, LoadState, Version
from zbk.protocol.entry.digest import checksum
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.access import LedgerAccess, Right
from zbk.protocol.ledger.formats import METADATA_FORMAT_VERSION
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.repair.underreplicated import MissingReason, UnderreplicatedLedger
from zbk.security.access_table import AccessChanges
from zbk.security.namespaces import Namespace

LEDGER = LedgerMetadata(
    ledger_id=7,
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    ledger_type=LedgerType.VD_JOURNAL,
    digest_type=DigestType.MAC,
    password_digest=b"\x00\xff",
    fragments=(Fragment(0, ("b1", "b2", "b3")), Fragment(9, ("b1", "b4", "b3"))),
    created_ms=1_700_000_000_000,
    creation_token="t1",
    state=LedgerState.CLOSED,
    last_entry_id=12,
    length=345,
    custom_metadata={"job": b"nightly\x00"},
    ledger_key=b"0123456789abcdef",
)
COOKIE = Cookie(
    bookie_id="b1",
    instance_id="i1",
    journal_dirs=("/j",),
    ledger_dirs=("/l1", "/l2"),
    created_ms=1_700_000_000_000,
)
STORED_COOKIE = StoredCookie(
    bookie_id="b1",
    instance_id="i1",
    journal_dirs=("/j",),
    ledger_dirs=("/l1", "/l2"),
    created_ms=1_700_000_000_000,
    incarnation=4,
    has_served=True,
)
REGISTRATION = BookieRegistration(
    bookie_id="b1",
    address="tcp://127.0.0.1:3181",
    incarnation=4,
    is_readonly=False,
    started_ms=1_700_000_000_000,
    version="0.1.0",
    rack="/r1",
)
VALUES: list[Any] = [
    LEDGER,
    COOKIE,
    STORED_COOKIE,
    REGISTRATION,
    Layout(ledger_layout=LedgerLayout.FLAT),
    Instance(instance_id="i1"),
    IdCounter(next_ledger_id=2**40),
    LogHead(log_id="l1"),
    LogMetadata(
        name="orders",
        log_id="l1",
        created_ms=1_700_000_000_000,
        ledger_ids=(7, 9, 2**40),
        first_index=3,
    ),
    DataSetHead(data_set_id="d1"),
    DataSet(
        name="events",
        data_set_id="d1",
        created_ms=1_700_000_000_000,
        next_version=4,
        versions=(
            Version(
                version=3,
                load_id="a1",
                kind=LoadKind.OVERWRITE,
                committed_ms=1_700_000_000_001,
                who="ada",
                manifests=(7, 2**40),
                schema_hash="0f",
                password_check="f0",
                ledger_count=4,
                row_count=5,
                size=6,
            ),
        ),
        batch_by_stream={"s": 9},
    ),
    Load(
        load_id="a1",
        data_set_id="d1",
        kind=LoadKind.APPEND,
        base_version=2,
        first_ledger_id=5,
        started_ms=1_700_000_000_000,
        expires_ms=1_700_000_000_002,
        who="ada",
        stream="s",
        batch_id=9,
        state=LoadState.COMMITTED,
        version=3,
        manifest=7,
    ),
    UnderreplicatedLedger(
        ledger_id=7,
        missing={
            "b1": (MissingReason.CHECKED, MissingReason.LOST),
            "b2": (MissingReason.NOT_WRITTEN,),
        },
        created_ms=1_700_000_000_000,
        reported_ms=1_700_000_000_001,
        report_count=3,
        failure_count=2,
        failure="b3 did not answer",
        unrepairable="no replica is left",
        unrepairable_ms=1_700_000_000_002,
        ranges={"b2": ((0, 3), (2**40 - 1, 2**40 - 1))},
        format_version=2,
    ),
    TaskLock(owner="w1", token="t1", locked_ms=1_700_000_000_000),
    TaskProgress(owner="w1", copied_count=3, to_copy_count=9, updated_ms=1_700_000_000_000),
    Namespaces(
        namespaces=(
            Namespace(path="orders", grants={"*": (Right.READ,)}),
            Namespace(path="orders/eu"),
        )
    ),
    NamespaceUsage(
        first_ledger_id=7, ledger_count_max=9, size_max=2**40, ledger_count=3, size=2**33
    ),
    AccessChanges(count=300, ledger_ids=(7, 2**40)),
    AuditCounter(count=3),
    LostBookieDelay(delay_ms=30_000),
    AuditorVote(candidate_id="a1", token="t1", elected_ms=1_700_000_000_000),
    LastCheck(ended_ms=1_700_000_000_000),
    AuditorStatus(
        candidate_id="a1",
        told_ms=1_700_000_000_000,
        lost=("b1",),
        brake="2 of 3 bookies vanished",
        doing="scan",
        done="bookies: 3 ledgers",
        done_ms=1_700_000_000_001,
    ),
]
GOLDEN = {
    "LedgerMetadata": (
        "de0012a96c65646765725f696407ad656e73656d626c655f73697a6503b177726974655f71756f72"
        "756d5f73697a6503af61636b5f71756f72756d5f73697a6502ab6c65646765725f74797065aa5644"
        "5f4a4f55524e414cab6469676573745f74797065a34d4143af70617373776f72645f646967657374"
        "c40200ffa9667261676d656e74739282ae66697273745f656e7472795f696400a7626f6f6b696573"
        "93a26231a26232a2623382ae66697273745f656e7472795f696409a7626f6f6b69657393a26231a2"
        "6234a26233aa637265617465645f6d73cf0000018bcfe56800ae6372656174696f6e5f746f6b656e"
        "a27431a57374617465a6434c4f534544ad6c6173745f656e7472795f69640ca66c656e677468cd01"
        "59aa6861735f777269746572c3af637573746f6d5f6d6574616461746181a36a6f62c4086e696768"
        "746c7900aa6c65646765725f6b6579c41030313233343536373839616263646566ae666f726d6174"
        "5f76657273696f6e02a8636865636b73756dcf938af301392c6284"
    ),
    "Cookie": (
        "87a9626f6f6b69655f6964a26231ab696e7374616e63655f6964a26931ac6a6f75726e616c5f6469"
        "727391a22f6aab6c65646765725f6469727392a32f6c31a32f6c32aa637265617465645f6d73cf00"
        "00018bcfe56800ae666f726d61745f76657273696f6e01a8636865636b73756dcfdb3f9e77707fb3"
        "e4"
    ),
    "StoredCookie": (
        "89a9626f6f6b69655f6964a26231ab696e7374616e63655f6964a26931ac6a6f75726e616c5f6469"
        "727391a22f6aab6c65646765725f6469727392a32f6c31a32f6c32aa637265617465645f6d73cf00"
        "00018bcfe56800ae666f726d61745f76657273696f6e01ab696e6361726e6174696f6e04aa686173"
        "5f736572766564c3a8636865636b73756dcf6275abd1de48cdc1"
    ),
    "BookieRegistration": (
        "89a9626f6f6b69655f6964a26231a761646472657373b47463703a2f2f3132372e302e302e313a33"
        "313831ab696e6361726e6174696f6e04ab69735f726561646f6e6c79c2aa737461727465645f6d73"
        "cf0000018bcfe56800a776657273696f6ea5302e312e30a47261636ba32f7231ae666f726d61745f"
        "76657273696f6e01a8636865636b73756dcfd7451e896cb07f93"
    ),
    "Layout": (
        "83ad6c65646765725f6c61796f7574a4666c6174ae666f726d61745f76657273696f6e01a8636865"
        "636b73756dcff5c2acb55b5aca63"
    ),
    "Instance": (
        "83ab696e7374616e63655f6964a26931ae666f726d61745f76657273696f6e01a8636865636b7375"
        "6dcf567974782db42f0a"
    ),
    "IdCounter": (
        "83ae6e6578745f6c65646765725f6964cf0000010000000000ae666f726d61745f76657273696f6e"
        "01a8636865636b73756dcf9792935af175a836"
    ),
    "LogHead": (
        "83a66c6f675f6964a26c31ae666f726d61745f76657273696f6e01a8636865636b73756dcfb6764f7c0dc0e5c6"
    ),
    "LogMetadata": (
        "87a46e616d65a66f7264657273a66c6f675f6964a26c31aa637265617465645f6d73cf0000018bcf"
        "e56800aa6c65646765725f696473930709cf0000010000000000ab66697273745f696e64657803ae"
        "666f726d61745f76657273696f6e01a8636865636b73756dcfa24243e4cf766f45"
    ),
    "DataSetHead": (
        "83ab646174615f7365745f6964a26431ae666f726d61745f76657273696f6e01a8636865636b7375"
        "6dcf4c4444a4b028d15e"
    ),
    "DataSet": (
        "88a46e616d65a66576656e7473ab646174615f7365745f6964a26431aa637265617465645f6d73cf"
        "0000018bcfe56800ac6e6578745f76657273696f6e04a876657273696f6e73918ba776657273696f"
        "6e03a76c6f61645f6964a26131a46b696e64a96f7665727772697465ac636f6d6d69747465645f6d"
        "73cf0000018bcfe56801a377686fa3616461a96d616e6966657374739207cf0000010000000000ab"
        "736368656d615f68617368a23066ae70617373776f72645f636865636ba26630ac6c65646765725f"
        "636f756e7404a9726f775f636f756e7405a473697a6506af62617463685f62795f73747265616d81"
        "a17309ae666f726d61745f76657273696f6e01a8636865636b73756dcf76ce9668c3638b4a"
    ),
    "Load": (
        "8fa76c6f61645f6964a26131ab646174615f7365745f6964a26431a46b696e64a6617070656e64ac"
        "626173655f76657273696f6e02af66697273745f6c65646765725f696405aa737461727465645f6d"
        "73cf0000018bcfe56800aa657870697265735f6d73cf0000018bcfe56802a377686fa3616461a673"
        "747265616da173a862617463685f696409a57374617465a9434f4d4d4954544544a776657273696f"
        "6e03a86d616e696665737407ae666f726d61745f76657273696f6e01a8636865636b73756dcf6025"
        "b5aff5128d19"
    ),
    "UnderreplicatedLedger": (
        "8ca96c65646765725f696407a76d697373696e6782a2623192a7636865636b6564ab626f6f6b6965"
        "206c6f7374a2623291ab6e6f74207772697474656eaa637265617465645f6d73cf0000018bcfe568"
        "00ab7265706f727465645f6d73cf0000018bcfe56801ac7265706f72745f636f756e7403ad666169"
        "6c7572655f636f756e7402a76661696c757265b1623320646964206e6f7420616e73776572ac756e"
        "72657061697261626c65b26e6f207265706c696361206973206c656674af756e7265706169726162"
        "6c655f6d73cf0000018bcfe56802a672616e67657381a262329292000392cf000000ffffffffffcf"
        "000000ffffffffffae666f726d61745f76657273696f6e02a8636865636b73756dcf0d6a38fd5b40"
        "2403"
    ),
    "TaskLock": (
        "85a56f776e6572a27731a5746f6b656ea27431a96c6f636b65645f6d73cf0000018bcfe56800ae66"
        "6f726d61745f76657273696f6e01a8636865636b73756dcfd49992d4509bb824"
    ),
    "TaskProgress": (
        "86a56f776e6572a27731ac636f706965645f636f756e7403ad746f5f636f70795f636f756e7409aa"
        "757064617465645f6d73cf0000018bcfe56800ae666f726d61745f76657273696f6e01a863686563"
        "6b73756dcf595ba55d8d1b03ff"
    ),
    "Namespaces": (
        "83aa6e616d657370616365739282a470617468a66f7264657273a66772616e747381a12a91a47265"
        "616482a470617468a96f72646572732f6575a66772616e747380ae666f726d61745f76657273696f"
        "6e01a8636865636b73756dcf43b5b29a70d9d196"
    ),
    "NamespaceUsage": (
        "87af66697273745f6c65646765725f696407b06c65646765725f636f756e745f6d617809a873697a"
        "655f6d6178cf0000010000000000ac6c65646765725f636f756e7403a473697a65cf000000020000"
        "0000ae666f726d61745f76657273696f6e01a8636865636b73756dcf75e9290590ccb30b"
    ),
    "AccessChanges": (
        "84a5636f756e74cd012caa6c65646765725f6964739207cf0000010000000000ae666f726d61745f"
        "76657273696f6e01a8636865636b73756dcfc53ebd8cb86c3d73"
    ),
    "AuditCounter": (
        "83a5636f756e7403ae666f726d61745f76657273696f6e01a8636865636b73756dcf7235f4ef1174c492"
    ),
    "LostBookieDelay": (
        "83a864656c61795f6d73cd7530ae666f726d61745f76657273696f6e01a8636865636b73756dcfc8"
        "5d7512eaef7526"
    ),
    "AuditorVote": (
        "85ac63616e6469646174655f6964a26131a5746f6b656ea27431aa656c65637465645f6d73cf0000"
        "018bcfe56800ae666f726d61745f76657273696f6e01a8636865636b73756dcf01a80f6f5608ce1f"
    ),
    "LastCheck": (
        "83a8656e6465645f6d73cf0000018bcfe56800ae666f726d61745f76657273696f6e01a863686563"
        "6b73756dcff8c7be34b0bb7328"
    ),
    "AuditorStatus": (
        "8aac63616e6469646174655f6964a26131a7746f6c645f6d73cf0000018bcfe56800a46c6f737491a262"
        "31a770656e64696e6790a56272616b65b732206f66203320626f6f6b6965732076616e6973686564a564"
        "6f696e67a47363616ea4646f6e65b2626f6f6b6965733a2033206c656467657273a7646f6e655f6d73cf"
        "0000018bcfe56801ae666f726d61745f76657273696f6e01a8636865636b73756dcf7e4579f695f03c90"
    ),
}
LEDGER_OF_FORMAT_1 = (
    "de0011a96c65646765725f696407ad656e73656d626c655f73697a6503b177726974655f71756f72756d"
    "5f73697a6503af61636b5f71756f72756d5f73697a6502ab6c65646765725f74797065aa56445f4a4f55"
    "524e414cab6469676573745f74797065a34d4143af70617373776f72645f646967657374c40200ffa966"
    "7261676d656e74739282ae66697273745f656e7472795f696400a7626f6f6b69657393a26231a26232a2"
    "623382ae66697273745f656e7472795f696409a7626f6f6b69657393a26231a26234a26233aa63726561"
    "7465645f6d73cf0000018bcfe56800ae6372656174696f6e5f746f6b656ea27431a57374617465a6434c"
    "4f534544ad6c6173745f656e7472795f69640ca66c656e677468cd0159aa6861735f777269746572c3af"
    "637573746f6d5f6d6574616461746181a36a6f62c4086e696768746c7900ae666f726d61745f76657273"
    "696f6e01a8636865636b73756dcf288fd2eac1e7cfdd"
)
TASK_OF_FORMAT_1 = (
    "8ba96c65646765725f696407a76d697373696e6782a2623192a7636865636b6564ab626f6f6b6965"
    "206c6f7374a2623291a764616d61676564aa637265617465645f6d73cf0000018bcfe56800ab7265"
    "706f727465645f6d73cf0000018bcfe56801ac7265706f72745f636f756e7403ad6661696c757265"
    "5f636f756e7402a76661696c757265b1623320646964206e6f7420616e73776572ac756e72657061"
    "697261626c65b26e6f207265706c696361206973206c656674af756e72657061697261626c655f6d"
    "73cf0000018bcfe56802ae666f726d61745f76657273696f6e01a8636865636b73756dcf9eeca101"
    "ca663568"
)
by_type = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)


def repacked(data: bytes, **changes: object) -> bytes:
    """Return the value with fields changed, and a checksum that is right for them."""
    fields = msgpack.unpackb(data) | changes
    del fields["checksum"]
    body = msgpack.packb(fields | {"checksum": 2**64 - 1})[:-9]
    return bytes(body + b"\xcf" + checksum(body).to_bytes(8, "big"))


NOTED = [
    msgspec.structs.replace(
        next(value for value in VALUES if isinstance(value, LedgerMetadata)),
        state=LedgerState.OPEN,
        last_entry_id=None,
        length=None,
        length_before=300,
    ),
    IdCounter(next_ledger_id=8, is_emptied=True),
    AuditorStatus(candidate_id="a1", told_ms=1_700_000_000_000, delay_ends_ms=1_700_000_300_000),
]
"""Values with fields that are left out where there is nothing to say."""
GOLDEN_NOTED = {
    "LedgerMetadata": (
        "de0013a96c65646765725f696407ad656e73656d626c655f73697a6503b177726974655f71756f72756d"
        "5f73697a6503af61636b5f71756f72756d5f73697a6502ab6c65646765725f74797065aa56445f4a4f55"
        "524e414cab6469676573745f74797065a34d4143af70617373776f72645f646967657374c40200ffa966"
        "7261676d656e74739282ae66697273745f656e7472795f696400a7626f6f6b69657393a26231a26232a2"
        "623382ae66697273745f656e7472795f696409a7626f6f6b69657393a26231a26234a26233aa63726561"
        "7465645f6d73cf0000018bcfe56800ae6372656174696f6e5f746f6b656ea27431a57374617465a44f50"
        "454ead6c6173745f656e7472795f6964c0a66c656e677468c0aa6861735f777269746572c3af63757374"
        "6f6d5f6d6574616461746181a36a6f62c4086e696768746c7900aa6c65646765725f6b6579c410303132"
        "33343536373839616263646566ad6c656e6774685f6265666f7265cd012cae666f726d61745f76657273"
        "696f6e02a8636865636b73756dcfdc7c7b9d3b440612"
    ),
    "IdCounter": (
        "84ae6e6578745f6c65646765725f696408aa69735f656d7074696564c3ae666f726d61745f7665727369"
        "6f6e01a8636865636b73756dcfe89672f85aee0f40"
    ),
    "AuditorStatus": (
        "8bac63616e6469646174655f6964a26131a7746f6c645f6d73cf0000018bcfe56800a46c6f737490a770"
        "656e64696e6790ad64656c61795f656e64735f6d73cf0000018bcfe9fbe0a56272616b65a0a5646f696e"
        "67a0a4646f6e65a0a7646f6e655f6d7300ae666f726d61745f76657273696f6e01a8636865636b73756d"
        "cf171e613911092b9a"
    ),
}


@pytest.mark.parametrize("value", NOTED, ids=lambda value: type(value).__name__)
def test_what_is_only_sometimes_noted_has_these_bytes(value: ValueT) -> None:
    golden = GOLDEN_NOTED[type(value).__name__]

    assert encode(value).hex() == golden
    assert decode(type(value), bytes.fromhex(golden), "/x") == value


OWNED = LEDGER.owned(LedgerAccess(owner="ada", namespace="orders/eu", grants={"*": (Right.READ,)}))
GOLDEN_OWNED = (
    "de0013a96c65646765725f696407ad656e73656d626c655f73697a6503b177726974655f71756f72"
    "756d5f73697a6503af61636b5f71756f72756d5f73697a6502ab6c65646765725f74797065aa5644"
    "5f4a4f55524e414cab6469676573745f74797065a34d4143af70617373776f72645f646967657374"
    "c40200ffa9667261676d656e74739282ae66697273745f656e7472795f696400a7626f6f6b696573"
    "93a26231a26232a2623382ae66697273745f656e7472795f696409a7626f6f6b69657393a26231a2"
    "6234a26233aa637265617465645f6d73cf0000018bcfe56800ae6372656174696f6e5f746f6b656e"
    "a27431a57374617465a6434c4f534544ad6c6173745f656e7472795f69640ca66c656e677468cd01"
    "59aa6861735f777269746572c3af637573746f6d5f6d6574616461746181a36a6f62c4086e696768"
    "746c7900aa6c65646765725f6b6579c41030313233343536373839616263646566a6616363657373"
    "83a56f776e6572a3616461a96e616d657370616365a96f72646572732f6575a66772616e747381a1"
    "2a91a472656164ae666f726d61745f76657273696f6e04a8636865636b73756dcfa9898e3dc4bc1d"
    "47"
)


def test_the_owner_of_a_ledger_and_its_grants_have_these_bytes() -> None:
    assert encode(OWNED).hex() == GOLDEN_OWNED
    assert decode(LedgerMetadata, bytes.fromhex(GOLDEN_OWNED), "/x") == OWNED


@by_type
def test_decode_undoes_encode(value: ValueT) -> None:
    assert decode(type(value), encode(value), "/x") == value


@by_type
def test_a_write_token_is_beside_the_value(value: ValueT) -> None:
    one, other = encode(value, write_token="1"), encode(value, write_token="2")

    assert one != other
    assert decode(type(value), one, "/x") == decode(type(value), other, "/x") == value


@by_type
def test_every_cut_is_damage(value: ValueT) -> None:
    data = encode(value)

    for size in range(len(data)):
        with pytest.raises(CorruptRecordError):
            decode(type(value), data[:size], "/x")


@by_type
def test_every_flipped_bit_is_seen(value: ValueT) -> None:
    data = encode(value)

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        # a flip in the version number itself may also look like a newer version
        with pytest.raises((CorruptRecordError, UnsupportedVersionError)):
            decode(type(value), bytes(damaged), "/x")


@by_type
def test_a_newer_format_version_is_refused_by_name(value: LedgerMetadata | Layout) -> None:
    known = METADATA_FORMAT_VERSION if isinstance(value, LedgerMetadata) else value.format_version
    newer = repacked(encode(value), format_version=known + 1)

    with pytest.raises(UnsupportedVersionError, match=f"/x: {type(value).__name__} has .* version"):
        decode(type(value), newer, "/x")


@by_type
def test_keys_of_a_later_zbk_are_ignored(value: ValueT) -> None:
    data = repacked(encode(value), colour="blue", nested={"a": [1, None]})

    assert decode(type(value), data, "/x") == value


def test_a_task_of_format_1_is_read() -> None:
    task = decode(UnderreplicatedLedger, bytes.fromhex(TASK_OF_FORMAT_1), "/x")

    assert task.missing == {
        "b1": (MissingReason.CHECKED, MissingReason.LOST),
        "b2": (MissingReason.DAMAGED,),
    }
    assert (task.unrepairable, task.ranges, task.format_version) == ("no replica is left", {}, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"ledger_id": "7"},
        {"ledger_id": None},
        {"password_digest": "AP8="},
        {"fragments": []},
        {"fragments": [{"first_entry_id": 1, "bookies": ["b1", "b2", "b3"]}]},
        {"state": "HALF_OPEN"},
        {"state": "OPEN"},  # with an end
        {"ack_quorum_size": 4},
        {"write_quorum_size": 0},
        {"custom_metadata": {"job": "text"}},
        {"format_version": 0},
        {"format_version": "1"},
        {"format_version": None},
    ],
    ids=str,
)
def test_wrong_fields_are_damage_even_with_a_right_checksum(changes: dict[str, object]) -> None:
    with pytest.raises(CorruptRecordError, match=r"^/x at byte 0: "):
        decode(LedgerMetadata, repacked(encode(LEDGER), **changes), "/x")


def test_a_cookie_without_a_history_is_one_that_never_served_and_one_with_it_a_cookie() -> None:
    """Both ways between a cluster of before and one of now."""
    before = decode(StoredCookie, encode(COOKIE), "/x")

    assert (before.incarnation, before.has_served) == (0, False)
    assert decode(Cookie, encode(STORED_COOKIE), "/x") == COOKIE


def test_one_kind_of_value_is_not_taken_for_another() -> None:
    with pytest.raises(CorruptRecordError, match="is not a Cookie"):
        decode(Cookie, repacked(encode(LEDGER), format_version=1), "/x")


@settings(max_examples=200)
@given(data=st.binary(max_size=200))
def test_garbage_is_damage(data: bytes) -> None:
    for value in VALUES:
        with pytest.raises(CorruptRecordError):
            decode(type(value), data, "/x")


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=200)
@given(field=st.sampled_from(LedgerMetadata.__struct_fields__), content=anything)
def test_any_field_with_any_content_is_read_or_refused(field: str, content: object) -> None:
    data = repacked(encode(LEDGER), **{field: content})

    try:
        metadata = decode(LedgerMetadata, data, "/x")
    except (CorruptRecordError, UnsupportedVersionError):
        return
    assert decode(LedgerMetadata, encode(metadata), "/x") == metadata


@pytest.mark.parametrize(
    "data",
    [
        b"\x91" * 5000,
        b"\x80",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=["deep", "empty", "array", "map", "bin"],
)
def test_hostile_sizes_are_refused_before_they_are_allocated(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode(LedgerMetadata, data, "/x")


def test_a_value_over_the_limit_is_refused_both_ways() -> None:
    large = Cookie(
        bookie_id="b", instance_id="i", journal_dirs=("x" * VALUE_SIZE_MAX,), ledger_dirs=(),
        created_ms=0,
    )  # fmt: skip

    with pytest.raises(InvalidOptionError, match="more than"):
        encode(large)
    with pytest.raises(CorruptRecordError, match="over the limit"):
        decode(Cookie, b"\0" * (VALUE_SIZE_MAX + 1), "/x")


def test_what_could_not_be_read_again_is_not_written() -> None:
    names = {f"key {n}": b"" for n in range(5000)}
    bloated = LedgerMetadata(
        ledger_id=1, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1,
        ledger_type=LedgerType.PD_JOURNAL, digest_type=DigestType.NONE, password_digest=b"",
        fragments=(Fragment(0, ("b",)),), created_ms=0, creation_token="t", custom_metadata=names,
    )  # fmt: skip

    with pytest.raises(InvalidOptionError, match="max_map_len"):
        encode(bloated)


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="surrogates"):
        encode(Instance(instance_id="\udcff"))


def test_an_integer_over_64_bits_is_refused() -> None:
    with pytest.raises(InvalidOptionError):
        encode(IdCounter(next_ledger_id=2**64))


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_never_change_without_a_new_version(name: str) -> None:
    value = next(value for value in VALUES if type(value).__name__ == name)
    golden = bytes.fromhex(GOLDEN[name])

    assert encode(value) == golden
    assert decode(type(value), golden, "/x") == value


def test_a_ledger_of_format_1_is_read_has_no_key_and_stays_of_format_1() -> None:
    old = decode(LedgerMetadata, bytes.fromhex(LEDGER_OF_FORMAT_1), "/x")

    assert old == msgspec.structs.replace(LEDGER, ledger_key=b"", format_version=1)
    assert decode(LedgerMetadata, encode(old), "/x") == old
    changed = old.with_replaced_bookie(0, "b2", "b5")
    assert decode(LedgerMetadata, encode(changed), "/x").format_version == 1
