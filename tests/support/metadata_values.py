"""A value of each type that the metadata store holds."""

from typing import Any

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
)
from zbk.protocol.dataset.dataset import DataSet, Load, LoadKind, LoadState, Version
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.access import Right
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
