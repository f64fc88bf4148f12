"""A data set: a named, versioned list of ledgers, and the loads that make its versions.

Words:
    load       one attempt to add to a data set, or to replace what is in it: OPEN, then COMMITTED
               as a version or ABORTED, decided once, by compare-and-swap. Its ledgers carry its id
    version    what readers see: the ledgers of one or more loads; numbered from 1, never changed
    manifest   a PD ledger that lists data ledgers (``dataset.manifest``). A version is the
               union of its manifests: an append adds one to those of the version before it
    base       the version that was the last one when a load began

The rules:
    append     goes on top of whatever is the last version when it commits: of the same schema, and
               with the same password
    overwrite  commits only on its base: if another load was quicker, that is a conflict
    commit     is idempotent: a load that is COMMITTED already is answered with its version. So is a
               stream's batch that another load has committed; the load that came late is ABORTED
    abort      of a COMMITTED load changes nothing: whoever aborts has to look at what is returned
    expiry     an OPEN load past its time may be aborted by anybody. Until somebody does, it can
               commit: compare-and-swap decides, and clocks only say when to try. A load that has
               ended is forgotten when its time is over

A ledger of a data set is *wanted* while a version lists it, or its load is OPEN; what is not wanted
may be deleted (``is_wanted``). So failed attempts, aborted loads, dropped versions and manifests
that lost a race all go by one rule.

A load lists its own ledgers and nothing else. So of the ledgers that carry its id, those that its
manifest lists are the ones that any version can list, ever.

Everything here is a value; ``records.datasets`` writes them, load and data set in one step.

Limits: what is kept of a data set is one value of the metadata store. With ``VERSION_COUNT_MAX``
versions of ``MANIFEST_COUNT_MAX`` manifests, ``STREAM_COUNT_MAX`` streams and texts as long as they
may be, it fits there.

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
"""Versions kept; a commit beyond it lets the oldest go."""

MANIFEST_COUNT_MAX: Final = 32
"""Manifests of one version; a load that would add one more has to merge them first."""

STREAM_COUNT_MAX: Final = 256
"""Streams of which the last batch is known; a commit of one more forgets the one that committed
nothing for the longest time. If that one comes back, and Spark repeats its last batch, the batch is
committed again; all other batches are committed once, as ever."""

LOAD_COUNT_MAX: Final = 4096
"""Loads of a data set that are known: live ones, and those not yet forgotten."""

REMEMBERED_COUNT: Final = 256
"""Beyond so many known loads, those that have ended are forgotten before their time is over."""

TEXT_SIZE_MAX: Final = 512
"""Bytes of ``who`` and of the name of a stream."""

_EXPIRY_SIZE = 12  # hexadecimal digits
_TOKEN_SIZE = 20


class LoadKind(StrEnum):
    """What a load does."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class LoadState(StrEnum):
    """How far it came."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One load, as the metadata store keeps it."""

    load_id: str
    data_set_id: str
    kind: LoadKind
    base_version: int  # 0: there was none
    first_ledger_id: int  # no ledger below is of this load
    started_ms: int  # wall clock
    expires_ms: int  # wall clock
    who: str  # host, user, application: for people
    stream: str = ""  # of a micro-batch: what tells its stream from every other
    batch_id: int = -1  # of a micro-batch
    state: LoadState = LoadState.OPEN
    version: int | None = None  # what it became
    manifest: int | None = None  # the ledger that lists its ledgers, once it is COMMITTED
    format_version: int = DATA_SET_FORMAT_VERSION

    def __post_init__(self) -> None:
        is_committed = self.state is LoadState.COMMITTED
        if (self.version is not None, self.manifest is not None) != (is_committed, is_committed):
            raise IllegalTransitionError(f"load {self.load_id}", "a version is of COMMITTED")
        if bool(self.stream) != (self.batch_id >= 0):
            raise IllegalTransitionError(f"load {self.load_id}", "a stream's batches have ids")

    def is_expired(self, now_ms: int) -> bool:
        """Return whether anybody may abort it."""
        return self.state is LoadState.OPEN and now_ms >= self.expires_ms

    def aborted(self) -> Self:
        """Return the load as it is after an abort; itself if it is COMMITTED or ABORTED."""
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
    schema_hash: str  # two versions with the same schema have the same one
    password_check: str  # likewise with the password of their ledgers: ``password_check``
    ledger_count: int
    row_count: int
    size: int  # bytes of payload


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a load has written: its own ledgers only."""

    manifest: int  # the ledger that lists them
    schema_hash: str
    password_check: str
    ledger_count: int
    row_count: int
    size: int
    who: str = ""  # in the version, in the place of the load's own


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """A data set as the metadata store knows it.

    Invariants, checked when it is made: versions ascend, and lie below ``next_version``.
    """

    name: str
    data_set_id: str  # tells it from one of the same name that was dropped
    created_ms: int  # wall clock, for people
    next_version: int = 1
    versions: tuple[Version, ...] = ()
    batch_by_stream: dict[str, int] = {}  # the last id of each; who committed last is the last one
    format_version: int = DATA_SET_FORMAT_VERSION

    def __post_init__(self) -> None:
        numbers = [0, *(one.version for one in self.versions), self.next_version]
        if any(a >= b for a, b in pairwise(numbers)):
            raise IllegalTransitionError(f"data set {self.name}", "its versions must ascend")

    @property
    def current(self) -> Version | None:
        """The last version; ``None`` before the first load was committed."""
        return self.versions[-1] if self.versions else None

    @property
    def current_version(self) -> int:
        """Its number; 0 is none."""
        return self.versions[-1].version if self.versions else 0

    @property
    def needs_merge(self) -> bool:
        """True when an append has to bring one manifest in the place of all there are."""
        return bool(self.versions) and len(self.versions[-1].manifests) >= MANIFEST_COUNT_MAX

    def check_remembered(self, load_id: str, base_version: int) -> None:
        """Accept a forgotten load that was committed. ``base_version``: the load's own.

        Its version is a later one than that. If each one of these is kept, they tell.

        Raises:
            LoadAbortedError: none of them is the load's: it was aborted.
            DataSetConflictError: none that is kept is, and some are not.
        """
        later = [one for one in self.versions if one.version > base_version]
        if any(one.load_id == load_id for one in later):
            return
        if len(later) == self.next_version - 1 - base_version:
            raise LoadAbortedError(self.name, load_id)
        raise DataSetConflictError(
            self.name,
            f"load {load_id} ended long ago, and how is not known any more: it may be visible. "
            f"`zbk dataset history {self.name}` shows the versions that are kept",
        )

    def version(self, number: int | None) -> Version:
        """Return a version; ``None`` is the last one.

        Raises:
            NoSuchVersionError: there is no such one, or none at all.
        """
        for one in self.versions if number is not None else self.versions[-1:]:
            if number in (None, one.version):
                return one
        raise NoSuchVersionError(self.name, number or 0, self.current_version)

    def has_batch(self, load: Load) -> bool:
        """Return whether the micro-batch of a load was committed, by this load or another one."""
        return bool(load.stream) and self.batch_by_stream.get(load.stream, -1) >= load.batch_id

    def committed(
        self, load: Load, contents: Contents, now_ms: int, merged: Version | None = None
    ) -> tuple[Self, Load] | None:
        """Return data set and load after the load's commit, each as it was if it does not change.

        ``merged``: the version whose ledgers are listed in ``contents.manifest``, too, before the
        load's own. ``None`` is returned where the last version has to be merged, and that is not
        what ``merged`` is: bring another manifest.

        Raises:
            LoadAbortedError: somebody aborted the load.
            DataSetConflictError: an overwrite whose base is not the last version any more; an
                append of another schema, or password, than the last version's.
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
        """Accept what may be put on top of the last version, if there is one.

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
        """Accept a password with which the last version's ledgers can be read.

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
    """Return a load id that tells when its time is over; ids sort by that. ``token``: a UUID's hex.

    >>> new_load_id(1_700_000_000_000, "0123456789abcdef0123456789abcdef")
    '018bcfe568000123456789abcdef0123'
    """
    return f"{expires_ms:0{_EXPIRY_SIZE}x}{token[:_TOKEN_SIZE]}"


def expiry_ms(load_id: str) -> int:
    """Return when the time of a load is over, as its id has it.

    >>> expiry_ms("018bcfe568000123456789abcdef0123")
    1700000000000
    """
    return int(load_id[:_EXPIRY_SIZE], 16)


def password_check(password: bytes, data_set_id: str) -> str:
    """Return what two loads of one data set have in common if their passwords are the same.

    Tells no more of a password than the metadata of a ledger do.
    """
    return password_digest(password, int(data_set_id[:16], 16)).hex()


def is_wanted(ledger_id: int, load: Load | None, listed: Collection[int]) -> bool:
    """Return whether a ledger must stay.

    ``load`` is the one whose id it carries, as it was at a time after the ledger was found;
    ``None``: there was no such load then, so it was forgotten after its end, or the data set was
    dropped. ``listed`` are the ledgers of all versions, manifests included, read after that. In
    this order, a load that commits meanwhile is OPEN in the one or listed in the other.
    """
    return ledger_id in listed or (load is not None and load.state is LoadState.OPEN)
