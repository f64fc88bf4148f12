"""The pages about ledgers: a list read by ranges, one ledger with its bookies, durability.

A page of the list reads at most ``LOOK_COUNT_MAX`` ledgers, whatever the filter: where few pass it,
the page is short and names the id to continue at.
"""

import shlex
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from zbk.client.cluster.ledger_calls import info_request
from zbk.client.cluster.requests import ReplyBox, answer_of
from zbk.console.collector import TIMEOUT_S, Collector
from zbk.console.history import Gap
from zbk.errors import DamageError, InvalidOptionError, NoSuchLedgerError, ZbkError
from zbk.metadata.paths import is_ledger_id
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.clock import monotonic_s, wall_ms
from zbk.system.deadline import within
from zbk.wire.messages import LedgerInfo

PAGE_SIZE: Final = 50
LOOK_COUNT_MAX: Final = 200
BOOKIE_COUNT_MAX: Final = 64
"""Bookies of a ledger that are asked: those of its last fragments."""

DURABLE_LOOK_COUNT: Final = 40
"""The newest ledgers, among which the page of durability looks for open VD ledgers."""

STATES: Final = ("OPEN", "IN_RECOVERY", "CLOSED")
TYPES: Final = ("PD_JOURNAL", "VD_JOURNAL")


def ledger_id_in(text: str, default: int | None = None) -> int:
    """Return the ledger id in a text.

    Raises:
        InvalidOptionError: it is no ledger id.
    """
    if not text and default is not None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 20 and is_ledger_id(int(text)):
        return int(text)
    raise InvalidOptionError("ledger id", text[:40], "give a number from 0")


def ledger_list(collector: Collector, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page of the list of ledgers."""
    first_id = ledger_id_in(query.get("from", ""), 0)
    state = _one_of("state", query.get("state", ""), STATES)
    ledger_type = _one_of("type", query.get("type", ""), TYPES)
    custom = query.get("custom", "")[:200]
    key, _, value = custom.partition("=")
    with within(TIMEOUT_S):
        ledgers = collector.connection().ledgers
        rows: list[dict[str, Any]] = []
        next_id = None
        ids = list(islice(ledgers.list(first_id), LOOK_COUNT_MAX + 1))
        for number, ledger_id in enumerate(ids):
            if len(rows) == PAGE_SIZE or number == LOOK_COUNT_MAX:
                next_id = ledger_id
                break
            try:
                found, _version = ledgers.read(ledger_id)
            except NoSuchLedgerError:
                continue
            except DamageError as error:
                rows.append({"ledger_id": ledger_id, "state": "DAMAGED", "why": str(error)})
                continue
            is_wanted = state in ("", str(found.state)) and ledger_type in (
                "",
                str(found.ledger_type).upper(),
            )
            has_custom = not custom or found.custom_metadata.get(key) == value.encode()
            if is_wanted and has_custom:
                rows.append(_summary(found))
    return {
        "title": "Ledgers",
        "cli": _list_command(state, ledger_type, custom),
        "from": first_id,
        "state": state,
        "type": ledger_type,
        "custom": custom,
        "ledgers": rows,
        "next_id": next_id,
        "states": STATES,
        "types": TYPES,
    }


def ledger_page(collector: Collector, ledger_id: int) -> dict[str, Any]:
    """Return one ledger: metadata, fragments, and what each bookie says of it.

    Raises:
        NoSuchLedgerError: there is none.
    """
    with within(TIMEOUT_S):
        connection = collector.connection()
        found, _version = connection.ledgers.read(ledger_id)
        task = connection.tasks.read(ledger_id)
        shelved = connection.tasks.read_unrepairable(ledger_id)
        registered = connection.registered()
    fragments = [
        {
            "first_entry_id": one.first_entry_id,
            "last_entry_id": found.fragment_of(one.first_entry_id)[1],
            "bookies": list(one.bookies),
        }
        for one in found.fragments
    ]
    named = dict.fromkeys(name for one in reversed(found.fragments) for name in one.bookies)
    bookies = bookie_rows(collector, found, sorted(list(named)[:BOOKIE_COUNT_MAX]), registered)
    repair = task[0] if task is not None else shelved
    gap = gap_of(found, bookies)
    gaps = collector.gaps.add(ledger_id, gap) if gap is not None else []
    return {
        "title": f"Ledger {ledger_id}",
        "cli": f"zbk ledger show {ledger_id}",
        **_summary(found),
        "digest": str(found.digest_type),
        "has_writer": found.has_writer,
        "custom_metadata": {
            name: value.decode("utf-8", "replace")[:200]
            for name, value in list(found.custom_metadata.items())[:50]
        },
        "fragments": fragments,
        "bookies": bookies,
        "gaps": [msgspec.to_builtins(one) for one in gaps],
        "repair": None
        if repair is None
        else {
            "state": "unrepairable" if repair.unrepairable else "waiting",
            "bookies": sorted(repair.missing),
            "why": repair.unrepairable or repair.failure,
        },
    }


def gap_of(found: LedgerMetadata, bookies: list[dict[str, Any]]) -> Gap | None:
    """Return how far an open VD ledger is synced; ``None`` for others, or without answers.

    An entry is synced once an ack quorum of the last fragment has it on stable storage.
    """
    last = set(found.last_fragment.bookies)
    rows = [
        one for one in bookies if one["bookie_id"] in last and one["last_add_synced"] is not None
    ]
    if found.is_closed or len(rows) < found.ack_quorum_size:
        return None
    synced = sorted((one["last_add_synced"] for one in rows), reverse=True)
    return Gap(
        at_ms=wall_ms(),
        synced=synced[found.ack_quorum_size - 1],
        confirmed=max(one["lac"] for one in rows),
        stored=max(one["last_entry_id"] for one in rows),
    )


def bookie_rows(
    collector: Collector, found: LedgerMetadata, bookie_ids: list[str], registered: frozenset[str]
) -> list[dict[str, Any]]:
    """Return, for each bookie, what it holds of a ledger. All are asked at once."""
    requests, box = collector.connection().requests, ReplyBox()
    asked = [one for one in bookie_ids if one in registered]
    for bookie_id in asked:
        request, frames = info_request(found.ledger_id)
        requests.send(bookie_id, request, frames, box, bookie_id)
    deadline_s = monotonic_s() + TIMEOUT_S
    answers: dict[str, LedgerInfo | ZbkError] = {}
    while len(answers) < len(asked):
        reply = box.next(max(0.0, deadline_s - monotonic_s()))
        if reply is None:
            break
        answers[reply.bookie_id] = answer_of(reply, LedgerInfo)
    return [
        bookie_row(one, answers.get(one), found, is_registered=one in registered)
        for one in bookie_ids
    ]


def bookie_row(
    bookie_id: str,
    answer: LedgerInfo | ZbkError | None,
    found: LedgerMetadata,
    *,
    is_registered: bool,
) -> dict[str, Any]:
    """Return what a bookie holds of a ledger, from its answer; ``None``: there was none."""
    is_vd = found.ledger_type is LedgerType.VD_JOURNAL
    info = answer if isinstance(answer, LedgerInfo) and answer.is_known else None
    why = "" if info else "not registered" if not is_registered else "no answer"
    if isinstance(answer, ZbkError):
        why = str(answer)
    elif answer is not None and info is None:
        why = "holds nothing of it"
    return {
        "bookie_id": bookie_id,
        "is_registered": is_registered,
        # bookies are not told the end of a closed ledger, which is in the metadata
        "lac": None if info is None else found.last_entry_id if found.is_closed else info.lac,
        "last_entry_id": info.last_entry_id if info else None,
        "last_add_synced": info.last_add_synced if info and is_vd else None,
        "at_risk_count": max(0, info.last_entry_id - info.last_add_synced)
        if info and is_vd
        else None,
        "is_fenced": info.is_fenced if info else None,
        "why": why,
    }


def durability_page(collector: Collector) -> dict[str, Any]:
    """Return the VD ledgers among the newest open ones, with what a loss of power takes now."""
    rows = []
    with within(TIMEOUT_S):
        connection = collector.connection()
        next_id = connection.ledgers.next_ledger_id()
        registered = connection.registered()
        for ledger_id in range(next_id - 1, max(-1, next_id - 1 - DURABLE_LOOK_COUNT), -1):
            try:
                found, _version = connection.ledgers.read(ledger_id)
            except (NoSuchLedgerError, DamageError):
                continue
            if found.is_closed or found.ledger_type is not LedgerType.VD_JOURNAL:
                continue
            bookies = bookie_rows(collector, found, sorted(found.last_fragment.bookies), registered)
            gaps = [one["at_risk_count"] for one in bookies if one["at_risk_count"] is not None]
            rows.append(
                {
                    "ledger_id": ledger_id,
                    "created_ms": found.created_ms,
                    "bookies": bookies,
                    "at_risk_count": max(gaps, default=0),
                }
            )
    facts = collector.facts
    journals = [
        {
            "bookie_id": one.bookie_id,
            "unsynced_size": one.scraped.unsynced_size,
            "unsynced_age_s": one.scraped.unsynced_age_s,
        }
        for one in (facts.bookies if facts else ())
        if one.scraped is not None
    ]
    return {
        "title": "Durability",
        "cli": "zbk ledger ls --type vd --state open",
        "ledgers": sorted(rows, key=lambda one: -one["at_risk_count"]),
        "look_count": DURABLE_LOOK_COUNT,
        "journals": sorted(journals, key=lambda one: -float(str(one["unsynced_size"])))[:20],
    }


# ------------------------------------------------------------------ private


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value in ("", *known):
        return value
    raise InvalidOptionError(name, value[:40], f"give one of {', '.join(known)}")


def _list_command(state: str, ledger_type: str, custom: str) -> str:
    options = [
        ("--state", state.lower()),
        ("--type", ledger_type[:2].lower()),
        ("--custom", custom),
    ]
    words = ["zbk", "ledger", "ls", *(word for pair in options if pair[1] for word in pair)]
    return shlex.join([*words, "--limit", str(PAGE_SIZE)])


def _summary(found: LedgerMetadata) -> dict[str, Any]:
    return {
        "ledger_id": found.ledger_id,
        "state": str(found.state),
        "type": str(found.ledger_type),
        "quorum": f"{found.ensemble_size}/{found.write_quorum_size}/{found.ack_quorum_size}",
        "last_entry_id": found.last_entry_id,
        "length": found.length,
        "fragment_count": len(found.fragments),
        "created_ms": found.created_ms,
    }
