"""The pages about ledgers: a list read by ranges, one ledger with its bookies.

A page of the list reads at most ``LOOK_COUNT_MAX`` ledgers, whatever the filter: where few pass it,
the page is short and names the id to continue at.
"""

import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec

from zbk.client.operations.ledger_copies import (
    HOLDS_NOTHING,
    Asked,
    ask_bookies,
    missing_at,
    stripes_in,
    unsynced_count,
)
from zbk.console.collector import TIMEOUT_S, Collector
from zbk.console.history import Gap
from zbk.console.ledger_copies import WINDOW_COUNT, copies_at, marks_of, window_at
from zbk.errors import (
    DamageError,
    InvalidOptionError,
    NoSuchLedgerError,
    UnsupportedVersionError,
    ZbkError,
)
from zbk.metadata.paths import is_ledger_id
from zbk.protocol.entry.words import LedgerState, LedgerType
from zbk.protocol.ledger.filter import LedgerFilter
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.stripe import Stripe
from zbk.system.clock import wall_ms
from zbk.system.deadline import within
from zbk.wire.messages import LedgerInfo

PAGE_SIZE: Final = 50
LOOK_COUNT_MAX: Final = 200
BOOKIE_COUNT_MAX: Final = 64
"""Bookies of a ledger that are asked: those of its last fragments."""

STATES: Final = tuple(map(str, LedgerState))
TYPES: Final = tuple(map(str, LedgerType))


def ledger_id_in(text: str, default: int | None = None, name: str = "ledger id") -> int:
    """Return the ledger id in a text.

    Raises:
        InvalidOptionError: it is no ledger id.
    """
    if not text and default is not None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 20 and is_ledger_id(int(text)):
        return int(text)
    raise InvalidOptionError(name, text[:40], "give a number from 0")


def one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    """Return a value that is known, or "".

    Raises:
        InvalidOptionError: it is another.
    """
    if value in ("", *known):
        return value
    raise InvalidOptionError(name, value[:40], f"give one of {', '.join(known)}")


def ledger_list(collector: Collector, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page of the list of ledgers."""
    first_id = ledger_id_in(query.get("from", ""), 0)
    state = one_of("state", query.get("state", ""), STATES)
    ledger_type = one_of("type", query.get("type", ""), TYPES)
    custom = query.get("custom", "")[:200]
    key, _, value = custom.partition("=")
    wanted = LedgerFilter(
        state=state or None,
        ledger_type=ledger_type or None,
        custom={key: value.encode()} if custom else {},
    )
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
            except (DamageError, UnsupportedVersionError) as error:
                rows.append({"ledger_id": ledger_id, "state": "DAMAGED", "why": str(error)})
                continue
            if wanted.accepts(found):
                rows.append(_summary(found))
    return {
        "title": "Ledgers",
        "cli": _list_command(first_id, state, ledger_type, custom),
        "from": first_id,
        "state": state,
        "type": ledger_type,
        "custom": custom,
        "ledgers": rows,
        "next_id": next_id,
        "states": STATES,
        "types": TYPES,
    }


def ledger_page(collector: Collector, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one ledger: metadata, fragments, and what each bookie says of it.

    With ``at`` the copies of a few entries from there on are part of it.

    Raises:
        InvalidOptionError: the ledger or the entry is no id.
        NoSuchLedgerError: there is none.
    """
    ledger_id = ledger_id_in(query["ledger_id"])
    at = ledger_id_in(query["at"], name="entry id") if query.get("at") else None
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
    names = sorted(list(named)[:BOOKIE_COUNT_MAX])
    asked = [(ledger_id, one) for one in names if one in registered]
    answers = ledger_infos(collector, asked, stripes=stripes_in(found))
    repair = task[0] if task is not None else shelved
    bookies = []
    for name in names:
        answer = answers.get((ledger_id, name))
        row = bookie_row(name, answer, found, is_registered=name in registered)
        info = answer if isinstance(answer, LedgerInfo) else None
        reported = repair.ranges.get(name, ()) if repair is not None else ()
        missing, unknown_from = missing_at(found, name, info, reported)
        bookies.append(row | {"missing": missing, "unknown_from": unknown_from})
    marks = marks_of(found, bookies)
    gap = gap_of(marks, bookies)
    gaps = collector.gaps.add(ledger_id, gap) if gap is not None else []
    end_id = max([one["last_entry_id"] or 0 for one in bookies] + [found.last_entry_id or 0])
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
        "is_striped": found.quorum.is_striped,
        "bookies": bookies,
        "marks": marks,
        "at_risk_count": None if gap is None else max(0, gap.stored - gap.synced),
        "at": at,
        "window_count": WINDOW_COUNT,
        "end_id": end_id,
        "window": None if at is None else _window(collector, found, names, registered, at, end_id),
        "gaps": [msgspec.to_builtins(one) for one in gaps],
        "repair": None
        if repair is None
        else {
            "state": "unrepairable" if repair.unrepairable else "waiting",
            "bookies": sorted(repair.missing),
            "why": repair.unrepairable or repair.failure,
        },
    }


def gap_of(marks: Mapping[str, int], rows: Sequence[Mapping[str, Any]]) -> Gap | None:
    """Return how far an open VD ledger is synced; ``None`` for others, or without answers."""
    if "LAS" not in marks:
        return None
    synced = {one["bookie_id"]: one["last_add_synced"] for one in rows}
    return Gap(
        at_ms=wall_ms(),
        synced=marks["LAS"],
        confirmed=marks["LAC"],
        stored=marks["LAP"],
        synced_by={one: until for one, until in synced.items() if until is not None},
    )


def ledger_infos(
    collector: Collector,
    asked: Sequence[Asked],
    first_entry_id: int = 0,
    *,
    stripes: Mapping[Asked, Stripe] = MappingProxyType({}),
) -> Mapping[Asked, LedgerInfo | ZbkError]:
    """Return the answers of bookies about ledgers; none of a silent one. All are asked at once.

    They answer at once, without an fsync: what a page shows at risk stays so.
    """
    requests = collector.connection().requests
    return ask_bookies(requests, asked, TIMEOUT_S, first_entry_id=first_entry_id, stripes=stripes)


def bookie_row(
    bookie_id: str,
    answer: LedgerInfo | ZbkError | None,
    found: LedgerMetadata,
    *,
    is_registered: bool,
) -> dict[str, Any]:
    """Return what a bookie holds of a ledger, from its answer; ``None``: there was none."""
    is_vd = found.ledger_type.is_volatile
    info = answer if isinstance(answer, LedgerInfo) and answer.is_known else None
    why = "" if info else "not registered" if not is_registered else "no answer"
    if isinstance(answer, ZbkError):
        why = str(answer)
    elif answer is not None and info is None:
        why = HOLDS_NOTHING
    return {
        "bookie_id": bookie_id,
        "is_registered": is_registered,
        # bookies are not told the end of a closed ledger, which is in the metadata
        "lac": None if info is None else found.last_entry_id if found.is_closed else info.lac,
        "last_entry_id": info.last_entry_id if info else None,
        "last_add_synced": info.last_add_synced if info and is_vd else None,
        "at_risk_count": unsynced_count(found, bookie_id, info) if info and is_vd else None,
        "is_fenced": info.is_fenced if info else None,
        "why": why,
    }


# ------------------------------------------------------------------ private


def _window(
    collector: Collector,
    found: LedgerMetadata,
    names: Sequence[str],
    registered: frozenset[str],
    at: int,
    end_id: int,
) -> dict[str, Any]:
    """Return each copy of a few entries: the bookies are asked once more, from there on."""
    window = window_at(found, at, end_id)
    ensembles = [found.fragment_of(one)[0].bookies for one in range(window[0], window[1] + 1)]
    due = [one for one in names if any(one in of for of in ensembles)]
    asked = [(found.ledger_id, one) for one in due if one in registered]
    answers = ledger_infos(collector, asked, window[0], stripes=stripes_in(found))
    rows = []
    for name in due:
        answer = answers.get((found.ledger_id, name))
        info = answer if isinstance(answer, LedgerInfo) else None
        copies = copies_at(found, name, info, window, is_registered=name in registered)
        rows.append({"bookie_id": name, "copies": copies})
    return {"first_entry_id": window[0], "last_entry_id": window[1], "rows": rows}


def _list_command(first_id: int, state: str, ledger_type: str, custom: str) -> str:
    options = [
        ("--from", str(first_id) if first_id else ""),
        ("--state", state.lower()),
        ("--type", _short_name(ledger_type)),
        ("--custom", custom),
    ]
    words = ["zbk", "ledger", "ls", *(word for pair in options if pair[1] for word in pair)]
    return shlex.join([*words, "--limit", str(PAGE_SIZE)])


def _short_name(ledger_type: str) -> str:
    """Return the name of a type as commands take it.

    >>> _short_name("PD_JOURNAL"), _short_name("VD_BYPASS_JOURNAL"), _short_name("")
    ('pd', 'vd-bypass', '')
    """
    return ledger_type.removesuffix("_JOURNAL").lower().replace("_", "-")


def _summary(found: LedgerMetadata) -> dict[str, Any]:
    return {
        "ledger_id": found.ledger_id,
        "state": str(found.state),
        "type": str(found.ledger_type),
        "short_type": _short_name(str(found.ledger_type)),
        "is_volatile": found.ledger_type.is_volatile,
        "quorum": f"{found.ensemble_size}/{found.write_quorum_size}/{found.ack_quorum_size}",
        "last_entry_id": found.last_entry_id,
        "length": found.length,
        "fragment_count": len(found.fragments),
        "created_ms": found.created_ms,
    }
