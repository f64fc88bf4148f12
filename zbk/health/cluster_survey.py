"""The survey of a cluster: reads its facts from the metadata store and from the bookies.

The cost follows the number of bookies. Ledgers and tasks are counted from the names of their nodes,
10,000 in one answer, and no ledger's metadata is read.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec

from zbk.errors import DamageError, MetadataUnavailableError, UnsupportedVersionError, ZbkError
from zbk.health.bookie_infos import BookieAnswer, ask_bookies
from zbk.health.bookie_scrape import scrape_bookies
from zbk.health.cluster_health import BookieFacts, ClusterFacts
from zbk.metadata.paths import AVAILABLE, COOKIES, READONLY
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.compare_and_swap import find_children
from zbk.metadata.records.election import read_auditor
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.ledgers import LedgerStore
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import BookieRegistration, doors_of
from zbk.security.credentials import BookieDoors, Credentials
from zbk.system.clock import monotonic_us
from zbk.system.deadline import within

AskBookies = Callable[[Mapping[str, BookieDoors], str, float], dict[str, BookieAnswer]]
"""``ask_bookies``, or a fake: bookies by id, instance id, time limit in seconds."""


def asking_as(credentials: Credentials) -> AskBookies:
    """Return ``ask_bookies`` with the key of this process."""
    return partial(ask_bookies, credentials=credentials)


def survey_cluster(metadata: str, timeout_s: float, ask: AskBookies = ask_bookies) -> ClusterFacts:
    """Return the facts of the cluster at a metadata address.

    The store has ``timeout_s`` to answer, and then the bookies have it together.

    Raises:
        InvalidOptionError: the address is malformed, or no cluster is there.
    """
    try:
        with within(timeout_s):
            store = open_store(metadata, timeout_s=timeout_s, must_exist=True)
    except MetadataUnavailableError as error:
        return ClusterFacts(metadata=metadata, store_error=str(error))
    try:
        return survey_store(store, timeout_s, ask)
    finally:
        store.close()


def survey_store(
    store: MetadataStore, timeout_s: float, ask: AskBookies = ask_bookies
) -> ClusterFacts:
    """Return the facts of the cluster in an open store. As ``survey_cluster``."""
    try:
        with within(timeout_s):
            facts, instance, doors = _of_store(store)
    except MetadataUnavailableError as error:
        return ClusterFacts(metadata=store.address, store_error=str(error))
    scraped = scrape_bookies({one.bookie_id: one.http for one in facts.bookies})
    answers = ask(doors, instance, timeout_s)
    bookies = tuple(
        msgspec.structs.replace(
            _with_answer(one, answers.get(one.bookie_id)), scraped=scraped.get(one.bookie_id)
        )
        for one in facts.bookies
    )
    return msgspec.structs.replace(facts, bookies=bookies)


def http_url(found: BookieRegistration) -> str:
    """Return the address of a bookie's metrics; empty if it serves none over HTTP."""
    return found.http if isinstance(found.http, str) else ""


def _of_store(
    store: MetadataStore,
) -> tuple[ClusterFacts, str, dict[str, BookieDoors]]:
    started_us = monotonic_us()
    instance = instance_id(store)
    latency_ms = (monotonic_us() - started_us) / 1_000
    tasks = UnderreplicationStore(store)
    auditor, brake, damage = _auditor(store)
    registry = BookieRegistry(store)
    cookies = tuple(store.children(COOKIES))
    bookies, unreadable = _registrations(store, registry, cookies)
    facts = ClusterFacts(
        metadata=store.address,
        store_latency_ms=round(latency_ms, 3),
        damage=damage,
        cookies=cookies,
        bookies=tuple(map(_registered, (bookies[one] for one in sorted(bookies)))),
        unreadable=unreadable,
        ledger_count=LedgerStore(store).count(),
        underreplicated_count=tasks.task_count(),
        in_repair_count=len(tasks.locked_ids()),
        unrepairable_count=tasks.unrepairable_count(),
        is_autorecovery_enabled=tasks.is_enabled(),
        auditor=auditor,
        brake=brake,
    )
    return facts, instance, {one: doors_of(bookies[one]) for one in sorted(bookies)}


def _registrations(
    store: MetadataStore, registry: BookieRegistry, cookies: Collection[str]
) -> tuple[dict[str, BookieRegistration], tuple[str, ...]]:
    """Return the registrations, and the bookies whose registration cannot be read.

    A bookie that becomes read-only between the first two listings is found by the last one.
    """
    found = registry.readonly() | registry.available()
    names = {*find_children(store, AVAILABLE), *find_children(store, READONLY)}
    unreadable = []
    for bookie_id in sorted(names.intersection(cookies) - found.keys()):
        try:
            registration = registry.resolve(bookie_id)
        except (DamageError, UnsupportedVersionError):
            unreadable.append(bookie_id)
        else:
            if registration is not None:
                found[bookie_id] = registration
    return found, tuple(unreadable)


def _auditor(store: MetadataStore) -> tuple[str | None, str, str]:
    """Return who audits, why the auditor waits, and which record cannot be read."""
    try:
        vote = read_auditor(store)
        told = AuditorNotes(store).status()
    except (DamageError, UnsupportedVersionError) as error:
        return "unknown", "", str(error)
    if vote is None:
        return None, "", ""
    is_current = told is not None and told.candidate_id == vote.candidate_id
    return vote.candidate_id, told.brake if told is not None and is_current else "", ""


def _registered(found: BookieRegistration) -> BookieFacts:
    return BookieFacts(
        bookie_id=found.bookie_id,
        address=found.address,
        is_readonly=found.is_readonly,
        version=found.version,
        http=http_url(found),
    )


def _with_answer(bookie: BookieFacts, answer: BookieAnswer | None) -> BookieFacts:
    if answer is None:
        return bookie
    is_error = isinstance(answer.outcome, ZbkError)
    return msgspec.structs.replace(
        bookie,
        info=None if is_error else answer.outcome,
        silence=str(answer.outcome) if is_error else "",
        wire_version=answer.wire_version,
    )
