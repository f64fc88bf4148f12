"""A data set: a named, versioned list of ledgers, and the loads that make its versions.

Words:
    load       one attempt to add to a data set, or to replace its contents: OPEN, then COMMITTED as
               a version or ABORTED, decided once, by compare-and-swap. Its ledgers carry its id
    version    the contents for readers: the ledgers of one or more loads; numbered from 1,
               immutable
    manifest   a PD ledger that lists data ledgers (``dataset.manifest``). A version is the
               union of its manifests: an append adds one to those of the version before it
    base       the version that was the last one when a load began

The rules:
    append     is added to the version that is the last one at its commit, if that has the same
               schema and the same password
    overwrite  commits only on its base: a commit of another load in between is a conflict
    commit     is idempotent: the commit of a COMMITTED load returns its version. So does that of a
               stream's batch that another load has committed; the later load is ABORTED
    abort      of a COMMITTED load changes nothing: the caller has to check the returned load
    expiry     any client may abort an OPEN load after its time. Until then it can commit:
               compare-and-swap decides, and clocks only say when to try. A load that has ended is
               forgotten after its time

A ledger of a data set is *wanted* while a version lists it, or its load is OPEN; others may be
deleted (``is_wanted``). One rule thus covers failed attempts, aborted loads, dropped versions and
manifests that lost a race.

A load lists only its own ledgers. Of the ledgers that carry its id, versions can list only those in
its manifest.

All classes are values; ``records.datasets`` writes load and data set in one step.

Limits: a data set is one value of the metadata store. It fits there with ``VERSION_COUNT_MAX``
versions of ``MANIFEST_COUNT_MAX`` manifests, ``STREAM_COUNT_MAX`` streams, and texts of maximal
size.

Source: the seed's motivation, section Close-to-open; Iceberg's snapshots and Delta's ``txnAppId``.
"""

from collections.abc import Collection
from enum import StrEnum
from itertools import pairwise
from typing import Final, Self

import msgspec

from zbk.errors import (
    DataSetConflictError,
    IllegalTransitionError,
    LoadAbortedError,
    NoSuchVersionError,
)
from zbk.protocol.entry.digest import password_digest

DATA_SET_FORMAT_VERSION: Final = 1

VERSION_COUNT_MAX: Final = 256
"""Versions that are kept; a further commit drops the oldest."""

MANIFEST_COUNT_MAX: Final = 32
"""Manifests of one version; a load that would add another one has to merge them first."""

STREAM_COUNT_MAX: Final = 256
"""Streams whose last batch is kept; a commit of a further one drops the stream whose last commit is
the oldest. If Spark then repeats the last batch of the dropped stream, it is committed again; all
other batches are committed once."""

LOAD_COUNT_MAX: Final = 4096
"""Loads of a data set that are kept: open ones, and ended ones not yet forgotten."""

REMEMBERED_COUNT: Final = 256
"""With more loads than this, those that have ended are forgotten before their time."""

TEXT_SIZE_MAX: Final = 512
"""Bytes of ``who`` and of the name of a stream."""

_EXPIRY_SIZE = 12  # hexadecimal digits
_TOKEN_SIZE = 20


class LoadKind(StrEnum):
    """The kinds of loads."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class LoadState(StrEnum):
    """The states of a load."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A load in the metadata store."""

    load_id: str
    data_set_id: str
    kind: LoadKind
    base_version: int  # 0: there was none
    first_ledger_id: int  # no lower ledger belongs to this load
    started_ms: int  # wall clock
    expires_ms: int  # wall clock
    who: str  # host, user, application: for people
    stream: str = ""  # of a micro-batch: a unique name of its stream
    batch_id: int = -1  # of a micro-batch
    state: LoadState = LoadState.OPEN
    version: int | None = None  # that it became
    manifest: int | None = None  # the ledger that lists its ledgers, once it is COMMITTED
    format_version: int = DATA_SET_FORMAT_VERSION

    def __post_init__(self) -> None:
        is_committed = self.state is LoadState.COMMITTED
        if (self.version is not None, self.manifest is not None) != (is_committed, is_committed):
            raise IllegalTransitionError(
                f"load {self.load_id}", "only a COMMITTED load has a version"
            )
        if bool(self.stream) != (self.batch_id >= 0):
            raise IllegalTransitionError(f"load {self.load_id}", "the batches of a stream have ids")

    def is_expired(self, now_ms: int) -> bool:
        """Return whether any client may abort it."""
        return self.state is LoadState.OPEN and now_ms >= self.expires_ms

    def aborted(self) -> Self:
        """Return the load after an abort; unchanged if it is COMMITTED or ABORTED."""
        if self.state is not LoadState.OPEN:
            return self
        return msgspec.structs.replace(self, state=LoadState.ABORTED)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a data set."""

    version: int
    load_id: str
    kind: LoadKind
    committed_ms: int  # wall clock
    who: str
    manifests: tuple[int, ...]  # ledgers, the oldest first
    schema_hash: str  # the same for versions with the same schema
    password_check: str  # likewise for the password of their ledgers: ``password_check``
    ledger_count: int
    row_count: int
    size: int  # bytes of payload


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a load: its own ledgers only."""

    manifest: int  # the ledger that lists them
    schema_hash: str
    password_check: str
    ledger_count: int
    row_count: int
    size: int
    who: str = ""  # replaces that of the load in the version


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """A data set in the metadata store.

    Invariants, checked when it is made: versions ascend, and lie below ``next_version``.
    """

    name: str
    data_set_id: str  # differs from that of a dropped data set of the same name
    created_ms: int  # wall clock, for people
    next_version: int = 1
    versions: tuple[Version, ...] = ()
    batch_by_stream: dict[str, int] = {}  # the last id of each, in order of the last commits
    format_version: int = DATA_SET_FORMAT_VERSION

    def __post_init__(self) -> None:
        numbers = [0, *(one.version for one in self.versions), self.next_version]
        if any(a >= b for a, b in pairwise(numbers)):
            raise IllegalTransitionError(f"data set {self.name}", "its versions must ascend")

    @property
    def current(self) -> Version | None:
        """The last version; ``None`` before the first commit."""
        return self.versions[-1] if self.versions else None

    @property
    def current_version(self) -> int:
        """The number of the last version; 0: there is none."""
        return self.versions[-1].version if self.versions else 0

    @property
    def needs_merge(self) -> bool:
        """True when an append has to replace all manifests by one."""
        return bool(self.versions) and len(self.versions[-1].manifests) >= MANIFEST_COUNT_MAX

    def check_remembered(self, load_id: str, base_version: int) -> None:
        """Check that a forgotten load was committed. ``base_version``: the load's base.

        Its version is later than the base. If all later versions are kept, they decide.

        Raises:
            LoadAbortedError: none of them is the load's: it was aborted.
            DataSetConflictError: no kept one is the load's, and some are not kept.
        """
        later = [one for one in self.versions if one.version > base_version]
        if any(one.load_id == load_id for one in later):
            return
        if len(later) == self.next_version - 1 - base_version:
            raise LoadAbortedError(self.name, load_id)
        raise DataSetConflictError(
            self.name,
            f"load {load_id} ended long ago, and its outcome is not known: it may be visible. "
            f"`zbk dataset history {self.name}` shows the versions that are kept",
        )

    def version(self, number: int | None) -> Version:
        """Return a version; ``None`` is the last one.

        Raises:
            NoSuchVersionError: there is no such version, or none at all.
        """
        for one in self.versions if number is not None else self.versions[-1:]:
            if number in (None, one.version):
                return one
        raise NoSuchVersionError(self.name, number or 0, self.current_version)

    def has_batch(self, load: Load) -> bool:
        """Return whether the micro-batch of a load was committed, by this or another load."""
        return bool(load.stream) and self.batch_by_stream.get(load.stream, -1) >= load.batch_id

    def committed(
        self, load: Load, contents: Contents, now_ms: int, merged: Version | None = None
    ) -> tuple[Self, Load] | None:
        """Return the data set and the load after the load's commit.

        ``merged``: the version whose ledgers ``contents.manifest`` lists, too, before those of the
        load. ``None``: the last version has to be merged, and ``merged`` is another one: the caller
        needs another manifest.

        Raises:
            LoadAbortedError: the load was aborted.
            DataSetConflictError: the base of an overwrite is not the last version any more; an
                append has another schema, or password, than the last version.
        """
        assert load.data_set_id == self.data_set_id, "a load of this data set"
        if load.state is LoadState.COMMITTED:
            return self, load
        if self.has_batch(load):
            return self, load.aborted()
        if load.state is LoadState.ABORTED:
            raise LoadAbortedError(self.name, load.load_id)
        self._check_may_follow(load, contents)
        is_append = load.kind is LoadKind.APPEND
        if is_append and (merged != self.current if merged else self.needs_merge):
            return None
        version = self._next(load, contents, now_ms, is_merged=merged is not None)
        after = msgspec.structs.replace(
            self,
            next_version=version.version + 1,
            versions=(*self.versions, version)[-VERSION_COUNT_MAX:],
            batch_by_stream=self._batches_after(load),
        )
        done = msgspec.structs.replace(
            load,
            state=LoadState.COMMITTED,
            version=version.version,
            manifest=contents.manifest,
        )
        return after, done

    def without_version(self, number: int) -> Self:
        """Return the data set without one of its versions; the last one stays.

        Raises:
            NoSuchVersionError: there is no such version.
            DataSetConflictError: it is the last one.
        """
        if self.version(number) is self.current:
            raise DataSetConflictError(
                self.name, f"version {number} is the last one: drop the data set, or overwrite it"
            )
        kept = tuple(one for one in self.versions if one.version != number)
        return msgspec.structs.replace(self, versions=kept)

    def check_append(self, schema_hash: str, password_check: str) -> None:
        """Check that an append may follow the last version, if there is one.

        Raises:
            DataSetConflictError: it has another schema, or another password.
        """
        before = self.current
        if before is None:
            return
        if before.schema_hash != schema_hash:
            raise DataSetConflictError(
                self.name,
                f"version {before.version} has another schema than the append: make them the same, "
                "or overwrite",
            )
        self.check_password(password_check)

    def check_password(self, password_check: str) -> None:
        """Check that a password can read the ledgers of the last version.

        Raises:
            DataSetConflictError: they have another one.
        """
        before = self.current
        if before is not None and before.password_check != password_check:
            raise DataSetConflictError(
                self.name,
                f"the ledgers of version {before.version} have another password: give that one, "
                "or overwrite",
            )

    # ------------------------------------------------------------------ private

    def _check_may_follow(self, load: Load, contents: Contents) -> None:
        if load.kind is LoadKind.APPEND:
            self.check_append(contents.schema_hash, contents.password_check)
        elif self.current_version != load.base_version:
            raise DataSetConflictError(
                self.name,
                f"version {self.current_version} was committed since the overwrite began on "
                f"version {load.base_version}: run it again",
            )

    def _next(self, load: Load, contents: Contents, now_ms: int, *, is_merged: bool) -> Version:
        before = self.current if load.kind is LoadKind.APPEND else None
        manifests = () if before is None or is_merged else before.manifests
        return Version(
            version=self.next_version,
            load_id=load.load_id,
            kind=load.kind,
            committed_ms=now_ms,
            who=contents.who or load.who,
            manifests=(*manifests, contents.manifest),
            schema_hash=contents.schema_hash,
            password_check=contents.password_check,
            ledger_count=contents.ledger_count + (before.ledger_count if before else 0),
            row_count=contents.row_count + (before.row_count if before else 0),
            size=contents.size + (before.size if before else 0),
        )

    def _batches_after(self, load: Load) -> dict[str, int]:
        if not load.stream:
            return self.batch_by_stream
        others = [one for one in self.batch_by_stream.items() if one[0] != load.stream]
        return dict([*others[-(STREAM_COUNT_MAX - 1) :], (load.stream, load.batch_id)])


def new_load_id(expires_ms: int, token: str) -> str:
    """Return a load id that begins with its expiry; ids sort by it. ``token``: a UUID's hex.

    >>> new_load_id(1_700_000_000_000, "0123456789abcdef0123456789abcdef")
    '018bcfe568000123456789abcdef0123'
    """
    return f"{expires_ms:0{_EXPIRY_SIZE}x}{token[:_TOKEN_SIZE]}"


def expiry_ms(load_id: str) -> int:
    """Return the expiry in the id of a load.

    >>> expiry_ms("018bcfe568000123456789abcdef0123")
    1700000000000
    """
    return int(load_id[:_EXPIRY_SIZE], 16)


def password_check(password: bytes, data_set_id: str) -> str:
    """Return a digest that is the same for loads of one data set with the same password.

    It reveals no more of the password than the metadata of a ledger do.
    """
    return password_digest(password, int(data_set_id[:16], 16)).hex()


def is_wanted(ledger_id: int, load: Load | None, listed: Collection[int]) -> bool:
    """Return whether a ledger must be kept.

    ``load`` is the load whose id it carries, read after the ledger was found; ``None``: there was
    none, because it was forgotten after its end, or the data set was dropped. ``listed`` are the
    ledgers of all versions, manifests included, read after the load. In this order, a load that
    commits meanwhile is OPEN in the first read or listed in the second.
    """
    return ledger_id in listed or (load is not None and load.state is LoadState.OPEN)
