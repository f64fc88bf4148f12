"""The health of a cluster: the facts that count, and the rule that judges them. Pure.

``findings`` is the one place that decides whether a cluster is healthy: it is, if no finding is a
problem. ``zbk.health.cluster_survey`` gathers the facts. Several bookies with the same problem are
one finding, so that a report fits on a screen whatever the size of the cluster.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from zbk.config import BookieConfig
from zbk.config.units import parse_free
from zbk.health.bookie_scrape import BookieScrape
from zbk.health.finding import Finding, counted, named
from zbk.wire.messages import BookieInfo

DEFAULT_ENSEMBLE_SIZE: Final = 3
"""Bookies that a ledger with default options needs."""

LOW_FREE_SIZE: Final = parse_free(BookieConfig().disk_warn_free).size
"""Free space below which a bookie with default options warns."""

UNSYNCED_AGE_S_MAX: Final = 10
"""Ten times the default interval of background fsyncs."""

LOG_UNSYNCED_AGE_S_MAX: Final = 120
"""Checkpoints sync entry logs: with default options every ten seconds, and after a long one once
the pause that follows it is over, which is a minute at most."""


class BookieFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One registered bookie. Without ``info`` and ``silence`` it was not asked."""

    bookie_id: str
    address: str
    is_readonly: bool
    version: str
    info: BookieInfo | None = None
    silence: str = ""  # why it gave no info
    wire_version: int = 0  # of the protocol, as agreed with it; 0: not known
    http: str = ""  # address of its metrics; empty: none
    scraped: BookieScrape | None = None  # from its metrics, where this machine reaches them


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster. With ``store_error`` nothing else is."""

    metadata: str
    store_error: str = ""
    store_latency_ms: float = 0.0
    damage: str = ""  # a record of the metadata store that cannot be read
    cookies: tuple[str, ...] = ()  # ids of all bookies that belong to the cluster
    bookies: tuple[BookieFacts, ...] = ()  # those that are registered
    unreadable: tuple[str, ...] = ()  # registered, too, as something that cannot be read
    ledger_count: int = 0
    underreplicated_count: int = 0
    in_repair_count: int = 0
    unrepairable_count: int = 0
    is_autorecovery_enabled: bool = True
    auditor: str | None = None
    brake: str = ""  # why the auditor waits before it acts

    @property
    def missing(self) -> tuple[str, ...]:
        """The bookies that belong to the cluster and are not registered."""
        registered = {*self.unreadable, *(one.bookie_id for one in self.bookies)}
        return tuple(one for one in self.cookies if one not in registered)

    @property
    def member_count(self) -> int:
        """The number of bookies that belong to the cluster or are registered."""
        return len(self.bookies) + len(self.unreadable) + len(self.missing)

    @property
    def infos(self) -> list[BookieInfo]:
        """The answers of the bookies that answered."""
        return [one.info for one in self.bookies if one.info is not None]

    @property
    def writable_count(self) -> int:
        """The number of bookies that are registered as writable."""
        return sum(not one.is_readonly for one in self.bookies)


def findings(facts: ClusterFacts) -> list[Finding]:
    """Return everything that is wrong with a cluster, or worth knowing, problems first."""
    if facts.store_error:
        return [_store_unreachable(facts)]
    found = [*_of_the_store(facts), *_of_the_bookies(facts), *_of_the_ledgers(facts)]
    return sorted(found, key=lambda one: not one.is_problem)


# ------------------------------------------------------------------ private


def _store_unreachable(facts: ClusterFacts) -> Finding:
    return Finding(
        kind="store-unreachable",
        what=f"the metadata store does not answer ({facts.store_error})",
        consequence="no ledger can be created, opened, closed or repaired",
        command="zbk doctor",
    )


def _of_the_store(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.damage:
        yield Finding(
            kind="metadata-damaged",
            what=f"a record in the metadata store cannot be read ({facts.damage})",
            consequence="what it describes is unknown, and this report may be incomplete",
            command="restore the record from a backup",
        )


def _of_the_bookies(facts: ClusterFacts) -> Iterator[Finding]:
    yield from _of_the_registrations(facts)
    for kind, is_so, what, consequence in _BOOKIE_RULES:
        ids = tuple(one.bookie_id for one in facts.bookies if is_so(one))
        if ids:
            yield Finding(
                kind=kind,
                what=f"{counted(len(ids), 'bookie')} {what} ({named(ids)}{_why(facts, kind)})",
                consequence=consequence,
                command=f"zbk bookie show {ids[0]}",
                subjects=ids,
            )
    unasked = _ids(facts.bookies, lambda one: one.info is None and not one.silence)
    if unasked:
        yield Finding(
            kind="bookies-not-asked",
            what=f"{counted(len(unasked), 'bookie')} could not be asked in time ({named(unasked)})",
            consequence="their disks, limbo and versions are not part of this report",
            command="zbk status --timeout 30s",
            is_problem=False,
            subjects=unasked,
        )
    yield from _of_unsynced_bytes(facts)
    versions = Counter(one.version for one in facts.bookies)
    if len(versions) > 1:
        counts = ", ".join(f"{version} ({count})" for version, count in sorted(versions.items()))
        yield Finding(
            kind="versions-differ",
            what=f"bookies run different versions: {counts}",
            consequence="features of the newest one may not work yet",
            command="zbk bookie ls",
            is_problem=False,
        )


def _of_the_registrations(facts: ClusterFacts) -> Iterator[Finding]:
    missing = facts.missing
    if missing:
        yield Finding(
            kind="bookies-missing",
            what=f"{counted(len(missing), 'bookie')} not registered ({named(missing)})",
            consequence="ledgers on them have fewer copies until they return or are replaced",
            command=f"`zbk bookie run` on its host, or zbk bookie decommission {missing[0]}",
            subjects=missing,
        )
    if facts.unreadable:
        count = counted(len(facts.unreadable), "bookie")
        yield Finding(
            kind="registrations-unreadable",
            what=f"{count} registered as something else ({named(facts.unreadable)})",
            consequence="they may be running, and this version of zbk cannot use them",
            command="zbk version, here and on their hosts: update the older one",
            subjects=facts.unreadable,
        )
    if not facts.writable_count:
        yield Finding(
            kind="no-writable-bookie",
            what="no bookie takes new entries",
            consequence="nothing can be appended",
            command="zbk bookie ls",
        )
    elif facts.writable_count < DEFAULT_ENSEMBLE_SIZE:
        yield Finding(
            kind="too-few-bookies",
            what=f"only {counted(facts.writable_count, 'bookie')} can take new entries",
            consequence=f"a ledger with the default ensemble of {DEFAULT_ENSEMBLE_SIZE} cannot be "
            "created",
            command="start another bookie with `zbk bookie run`",
            # a cluster that was made with one or two bookies is as it was meant to be
            is_problem=len(facts.cookies) >= DEFAULT_ENSEMBLE_SIZE,
        )


def _of_the_ledgers(facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.is_autorecovery_enabled:
        yield Finding(
            kind="autorecovery-disabled",
            what="autorecovery is switched off",
            consequence="lost copies are not replaced",
            command="zbk autorecovery enable",
        )
    if facts.auditor is None:
        yield Finding(
            kind="no-auditor",
            what="no auditor is elected",
            consequence="lost bookies are not noticed, and their ledgers are not repaired",
            command="zbk autorecovery run",
        )
    if facts.brake:
        yield Finding(
            kind="auditor-waits",
            what=f"the auditor waits ({facts.brake})",
            consequence="ledgers of lost bookies are not reported until it looked again",
            command="zbk autorecovery status",
            is_problem=bool(facts.missing),  # it waits after each election, too
        )
    if facts.underreplicated_count:
        count = counted(facts.underreplicated_count, "ledger")
        yield Finding(
            kind="underreplicated",
            what=f"{count} with missing copies, {facts.in_repair_count:,} in repair",
            consequence="another failure may make entries unreadable",
            command="zbk ledger underreplicated --watch",
        )
    if facts.unrepairable_count:
        yield Finding(
            kind="unrepairable",
            what=f"{counted(facts.unrepairable_count, 'ledger')} cannot be repaired",
            consequence="entries are unreadable until a bookie that holds them returns",
            command="zbk ledger underreplicated",
        )


def _why(facts: ClusterFacts, kind: str) -> str:
    """Return why the first silent bookie gave no answer."""
    reasons = (one.silence for one in facts.bookies if one.silence)
    return f"; {next(reasons)}" if kind == "bookies-silent" else ""


def _ids(bookies: Sequence[BookieFacts], is_so: Callable[[BookieFacts], bool]) -> tuple[str, ...]:
    return tuple(one.bookie_id for one in bookies if is_so(one))


def _of_unsynced_bytes(facts: ClusterFacts) -> Iterator[Finding]:
    yield from _lag(
        "journals",
        _bookies_over(facts, lambda one: one.unsynced_age_s, UNSYNCED_AGE_S_MAX),
        UNSYNCED_AGE_S_MAX,
        "with sync_interval_ms = 0 writers have to call sync()",
    )
    yield from _lag(
        "entry-logs",
        _bookies_over(facts, lambda one: one.log_unsynced_age_s, LOG_UNSYNCED_AGE_S_MAX),
        LOG_UNSYNCED_AGE_S_MAX,
        "between checkpoints (checkpoint_interval_ms) writers have to call sync()",
    )


def _bookies_over(
    facts: ClusterFacts, age_s: Callable[[BookieScrape], float], age_s_max: int
) -> tuple[str, ...]:
    return _ids(
        facts.bookies, lambda one: one.scraped is not None and age_s(one.scraped) > age_s_max
    )


def _lag(place: str, bookies: tuple[str, ...], age_s_max: int, hint: str) -> Iterator[Finding]:
    if bookies:
        yield Finding(
            kind=f"{place}-lag",
            what=f"{counted(len(bookies), 'bookie')} with bytes in {place.replace('-', ' ')} that "
            f"were not synced for over {age_s_max} s ({named(bookies)})",
            consequence="a loss of power loses what VD ledgers acknowledged in this time",
            command=f"zbk bookie unsynced --order age; {hint}",
            is_problem=False,
            subjects=bookies,
        )


def _of_info(is_so: Callable[[BookieInfo], bool]) -> Callable[[BookieFacts], bool]:
    return lambda one: one.info is not None and is_so(one.info)


_BOOKIE_RULES: Final[Sequence[tuple[str, Callable[[BookieFacts], bool], str, str]]] = (
    (
        "bookies-silent",
        lambda one: bool(one.silence),
        "registered, and without an answer",
        "writers replace them, and readers wait for other copies",
    ),
    (
        "bookies-readonly",
        lambda one: one.is_readonly or (one.info is not None and one.info.is_readonly),
        "read-only",
        "they take no new entries; a full disk is the usual cause",
    ),
    (
        "bookies-in-limbo",
        _of_info(lambda info: bool(info.limbo)),
        "in limbo",
        "they deny no entry until each ledger was checked against its peers",
    ),
    (
        "directories-out-of-service",
        _of_info(lambda info: bool(info.out_of_service)),
        "with failed directories",
        "their ledgers there have fewer copies",
    ),
    (
        "disks-low",
        _of_info(lambda info: min(info.free_size, info.journal_free_size) < LOW_FREE_SIZE),
        "with little free space",
        "a bookie without space becomes read-only",
    ),
    (
        "reserves-missing",
        _of_info(lambda info: not info.has_reserve),
        "without the reserve for a full disk",
        "a full disk would stop reads, fences and recoveries",
    ),
    (
        "entries-damaged",
        _of_info(lambda info: bool(info.scrub_file_count or info.scrub_entry_count)),
        "with damaged files",
        "readers use other copies until autorecovery has replaced the damaged ones",
    ),
)
"""Of a single bookie: kind, condition, text, consequence."""
