"""The creation of ledgers: the options of a caller, and the metadata that result.

The keywords of ``Client.create_ledger`` and its siblings are ``LedgerOptions``; ``plan_ledger``
checks them once and turns them into a ``LedgerPlan``, which also holds the defaults.

Source: BookKeeper's ``CreateBuilder`` and ``LedgerCreateOp``.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal, TypedDict
from uuid import uuid4

import msgspec

from zbk.client import arguments
from zbk.client.cluster.own_access import OwnAccess
from zbk.client.cluster.placer import BookiePlacer
from zbk.config.units import parse_duration_ms, parse_size
from zbk.durability.level import level_of
from zbk.errors import ArgumentTypeError, ArgumentValueError, InvalidOptionError, ZbkError
from zbk.metadata.records.ledgers import CREATE_COUNT_MAX, LedgerStore
from zbk.protocol.entry.digest import ledger_key, password_digest
from zbk.protocol.entry.words import NO_ENTRY, DigestType, LedgerType
from zbk.protocol.ledger.access import Grants
from zbk.protocol.ledger.features import needs_of_kind
from zbk.protocol.ledger.formats import PLAIN_FORMAT_VERSION, format_of
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.ledger.quorum import Quorum
from zbk.protocol.write.sync_policy import SyncEvery
from zbk.system.clock import wall_ms

SYNC_COUNT_MAX: Final = 1 << 40
"""The most entries that a policy lets go un-synced; its limits in memory come long before."""


class LedgerOptions(TypedDict, total=False):
    """The keywords of a ledger; the comments give the defaults."""

    ensemble_size: int  # 3
    write_quorum_size: int  # 3: bookies that each entry goes to
    ack_quorum_size: int  # 2: bookies that must have it
    ledger_type: LedgerType | Literal["PD_JOURNAL", "VD_JOURNAL", "VD_BYPASS_JOURNAL"]  # PD_JOURNAL
    digest_type: DigestType | Literal["XXH3", "MAC", "NONE"]  # XXH3
    password: bytes  # empty
    custom_metadata: Mapping[str, bytes] | None  # none
    namespace: str  # default: a path such as "orders/eu"
    grants: Mapping[str, Iterable[str]] | None  # none: {"bob": ["read"]}; rights by principal or *
    sync_every: int | str | None  # none: entries, "8 MiB" or "1s"; then a VD writer syncs by itself


class LedgerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Checked options of a ledger."""

    quorum: Quorum
    ledger_type: LedgerType
    digest_type: DigestType
    password: bytes
    custom_metadata: Mapping[str, bytes]
    namespace: str  # "": none was given
    grants: Grants
    sync_every: SyncEvery | None


def plan_ledger(options: LedgerOptions) -> LedgerPlan:
    """Check the options, and fill in the defaults.

    Raises:
        ArgumentTypeError: a keyword that does not exist, or a value of another type.
        ArgumentValueError: no such ledger or digest type, a value out of its limits, or a digest
            of type MAC without a password.
        InvalidQuorumError: the sizes do not fit together.
    """
    unknown = sorted(options.keys() - LedgerOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(LedgerOptions.__annotations__)
        raise ArgumentTypeError(
            unknown[0], "", f"a ledger has no option {unknown[0]!r}; known: {known}"
        )
    quorum = Quorum(
        _size("ensemble_size", options.get("ensemble_size", 3)),
        _size("write_quorum_size", options.get("write_quorum_size", 3)),
        _size("ack_quorum_size", options.get("ack_quorum_size", 2)),
    )
    ledger_type = options.get("ledger_type", LedgerType.PD_JOURNAL)
    digest_type = options.get("digest_type", DigestType.XXH3)
    plan = LedgerPlan(
        quorum=quorum,
        ledger_type=arguments.member(LedgerType, "ledger_type", ledger_type),
        digest_type=arguments.member(DigestType, "digest_type", digest_type),
        password=arguments.password(options.get("password", b"")),
        custom_metadata=arguments.custom_metadata(options.get("custom_metadata")),
        namespace=arguments.namespace(options.get("namespace", "")),
        grants=arguments.grants(options.get("grants")),
        sync_every=sync_policy(options.get("sync_every")),
    )
    check_policy(plan.sync_every, plan.ledger_type)
    if plan.digest_type is DigestType.MAC and not plan.password:
        why = "needs a password; otherwise the MAC of a forged entry can be computed"
        raise ArgumentValueError("digest_type", plan.digest_type.value, why)
    return plan


class LedgerCreator:
    """Creates ledgers in the metadata store, on bookies that accept new entries."""

    def __init__(
        self,
        ledgers: LedgerStore,
        placer: BookiePlacer,
        own: OwnAccess,
        wait_ms: int,
        on_created: Callable[[list[int]], None] = lambda _ledger_ids: None,
    ) -> None:
        self._on_created = on_created
        self._ledgers = ledgers
        self._own = own
        self._placer = placer
        self._wait_ms = wait_ms  # for bookies, if there are too few

    def create(
        self, plan: LedgerPlan, *, has_writer: bool, bookies: tuple[str, ...] = ()
    ) -> LedgerMetadata:
        """Create a ledger, on ``bookies`` if they are given; return its metadata.

        Raises:
            NotEnoughBookiesError: fewer bookies are writable than the ensemble needs.
            OldBookiesError: they are, but some do not know ledgers of this kind.
            NoSuchNamespaceError, NamespaceDeniedError, PrincipalRequiredError: as ``OwnAccess``.
        """
        made = self._create_some(plan, 1, has_writer=has_writer, bookies=bookies)
        self._on_created([one.ledger_id for one in made])
        return made[0]

    def create_many(self, plan: LedgerPlan, count: int) -> list[LedgerMetadata]:
        """Create ledgers with writers, in few steps of the store; delete all if one step fails.

        Raises:
            NotEnoughBookiesError: fewer bookies are writable than the ensemble needs.
            NoSuchNamespaceError, NamespaceDeniedError, PrincipalRequiredError: as ``OwnAccess``.
        """
        made: list[LedgerMetadata] = []
        try:
            while len(made) < count:
                some = min(CREATE_COUNT_MAX, count - len(made))
                made += self._create_some(plan, some, has_writer=True)
        except ZbkError:
            for one in made:
                with suppress(ZbkError):  # empty ledgers without a handle: recovery closes them
                    self._ledgers.delete_counted(one.ledger_id)
            raise
        self._on_created([one.ledger_id for one in made])
        return made

    def _create_some(
        self, plan: LedgerPlan, count: int, *, has_writer: bool, bookies: tuple[str, ...] = ()
    ) -> list[LedgerMetadata]:
        token = uuid4().hex
        created_ms = wall_ms()
        access = self._own.new_access(plan.namespace, plan.grants)

        has_sync_cursor = level_of(plan.ledger_type).has_sync_cursor
        needs = needs_of_kind(
            plan.ledger_type,
            format_of(
                PLAIN_FORMAT_VERSION,
                NO_ENTRY if has_sync_cursor else msgspec.UNSET,
                msgspec.UNSET if access is None else access,
            ),
            is_striped=plan.quorum.is_striped,
        )

        def make(ledger_id: int) -> LedgerMetadata:
            size = plan.quorum.ensemble_size
            ensemble = bookies or self._placer.new_ensemble(size, self._wait_ms / 1000, needs)
            metadata = LedgerMetadata(
                ledger_id=ledger_id,
                ensemble_size=plan.quorum.ensemble_size,
                write_quorum_size=plan.quorum.write_size,
                ack_quorum_size=plan.quorum.ack_size,
                ledger_type=plan.ledger_type,
                digest_type=plan.digest_type,
                password_digest=password_digest(plan.password, ledger_id),
                ledger_key=ledger_key(plan.password, ledger_id),
                fragments=(Fragment(0, ensemble),),
                created_ms=created_ms,
                creation_token=token,
                has_writer=has_writer,
                custom_metadata=dict(plan.custom_metadata),
            )
            if access is not None:
                metadata = metadata.owned(access)
            return metadata.recording_reported_lac() if has_sync_cursor else metadata

        return [metadata for metadata, _version in self._ledgers.create_many(make, count)]


def check_policy(policy: SyncEvery | None, ledger_type: LedgerType) -> None:
    """Accept a policy only for a ledger whose entries can be un-synced.

    Raises:
        ArgumentValueError: every entry of the ledger is synced.
    """
    if policy is not None and not level_of(ledger_type).has_sync_cursor:
        why = f"is for VD ledgers: every entry of a {ledger_type.value} ledger is synced"
        raise ArgumentValueError("sync_every", str(policy), why)


def sync_policy(value: object) -> SyncEvery | None:
    """Return the policy that a number of entries, or a text with a unit, stands for.

    >>> sync_policy("8 MiB"), sync_policy("2s")  # doctest: +NORMALIZE_WHITESPACE
    (SyncEvery(every_ms=0, every_size=8388608, every_count=0),
     SyncEvery(every_ms=2000, every_size=0, every_count=0))

    Raises:
        ArgumentTypeError, ArgumentValueError: it is none of these.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        return SyncEvery(every_count=arguments.integer("sync_every", value, 1, SYNC_COUNT_MAX))
    found = SyncEvery()
    if value.strip()[-1:].isalpha():  # a number alone could be any of the three
        with suppress(InvalidOptionError):
            found = SyncEvery(every_size=parse_size(value))
        with suppress(InvalidOptionError):
            found = SyncEvery(every_ms=parse_duration_ms(value))
    if found == SyncEvery():
        why = 'give a number of entries, a size such as "8 MiB", or a duration such as "1s"'
        raise ArgumentValueError("sync_every", value, why)
    return found


def _size(name: str, value: object) -> int:
    return arguments.integer(name, value, -arguments.NUMBER_MAX, arguments.NUMBER_MAX)
