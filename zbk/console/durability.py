"""The page about durability: VD ledgers with what a loss of power takes now.

The bookies name the ledgers of the whole cluster of which they have most un-synced entries. Below,
the open VD ledgers follow part by part, with the gap at each bookie.

A part looks at ``LOOK_COUNT`` ledger ids, the newest first, and names the id where the next part
begins. So its cost does not depend on the number of ledgers, and every ledger can be reached. All
bookies of all ledgers of a part are asked at once.

The metrics of bookies bound the rest: no VD ledger, shown or not, has more un-synced bytes at a
bookie than its journals and entry logs. If all bookies have none, no entry is at risk.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from zbk.actors.serve.unsynced_ledgers import Order
from zbk.client.operations.ledger_copies import Asked, stripes_in
from zbk.console.collector import TIMEOUT_S, Collector
from zbk.console.ledger_pages import bookie_row, ledger_id_in, ledger_infos, one_of
from zbk.errors import DamageError, NoSuchLedgerError, UnsupportedVersionError, ZbkError
from zbk.health.bookie_scrape import BOOKIE_COUNT_MAX
from zbk.health.unsynced_ledgers import unsynced_in_cluster
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.system.deadline import within
from zbk.wire.messages import LedgerInfo

LOOK_COUNT: Final = 40
JOURNAL_COUNT_MAX: Final = 20
LARGEST_COUNT: Final = 20
ORDERS: Final = ("size", "age")


def durability_page(collector: Collector, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the largest un-synced ledgers, and the open VD ledgers of a part, worst first.

    Raises:
        InvalidOptionError: ``before`` is no ledger id, or ``order`` no order.
    """
    order = one_of("order", query.get("order", ""), ORDERS) or "size"
    with within(TIMEOUT_S):
        connection = collector.connection()
        end = connection.ledgers.next_ledger_id()
        before = min(end, ledger_id_in(query.get("before", ""), end))
        registered = connection.registered()
        first = max(0, before - LOOK_COUNT)
        found = []
        for ledger_id in range(before - 1, first - 1, -1):
            try:
                ledger, _version = connection.ledgers.read(ledger_id)
            except (NoSuchLedgerError, DamageError, UnsupportedVersionError):
                continue
            if not ledger.is_closed and ledger.ledger_type.is_volatile:
                found.append(ledger)
        rows = _rows(collector, found, registered)
    facts = collector.facts
    registered_count = len(facts.bookies) if facts else 0
    journals = [
        {
            "bookie_id": one.bookie_id,
            "unsynced_size": one.scraped.unsynced_size,
            "unsynced_age_s": one.scraped.oldest_unsynced_s,
        }
        for one in (facts.bookies if facts else ())
        if one.scraped is not None
    ]
    return {
        "title": "Durability",
        "cli": f"zbk bookie unsynced --order {order}",
        "order": order,
        "largest": _largest(collector, cast("Order", order)),
        "ledgers": sorted(rows, key=lambda one: (-one["at_risk_count"], -one["ledger_id"])),
        "first_id": first,
        "before_id": before,
        "next_before": first or None,
        "is_newest": before == end,
        "unsynced_size": sum(float(str(one["unsynced_size"])) for one in journals)
        if journals and len(journals) == registered_count
        else None,
        "journals": sorted(journals, key=lambda one: -float(str(one["unsynced_size"])))[
            :JOURNAL_COUNT_MAX
        ],
    }


def _largest(collector: Collector, order: Order) -> dict[str, Any]:
    """Return the ledgers with most un-synced entries, and the bookies that report none."""
    facts = collector.facts
    bookies = facts.bookies[:BOOKIE_COUNT_MAX] if facts else ()
    urls = {one.bookie_id: one.http for one in bookies}
    found = unsynced_in_cluster(urls, order, LARGEST_COUNT, collector.bookie_token)
    return {
        "asked_count": len(bookies),
        "ledgers": [
            msgspec.structs.asdict(one) | {"bookies": found.holders[one.ledger_id]}
            for one in found.ledgers
        ],
        "silent": [{"bookie_id": one, "why": why} for one, why in sorted(found.silent.items())],
    }


def _rows(
    collector: Collector, ledgers: list[LedgerMetadata], registered: frozenset[str]
) -> list[dict[str, Any]]:
    asked = [
        (ledger.ledger_id, bookie_id)
        for ledger in ledgers
        for bookie_id in ledger.last_fragment.bookies
        if bookie_id in registered
    ]
    stripes = {one: stripe for ledger in ledgers for one, stripe in stripes_in(ledger).items()}
    answers = ledger_infos(collector, asked, stripes=stripes)
    return [_row(ledger, answers, registered) for ledger in ledgers]


def _row(
    ledger: LedgerMetadata,
    answers: Mapping[Asked, LedgerInfo | ZbkError],
    registered: frozenset[str],
) -> dict[str, Any]:
    bookies = [
        bookie_row(
            one, answers.get((ledger.ledger_id, one)), ledger, is_registered=one in registered
        )
        for one in sorted(ledger.last_fragment.bookies)
    ]
    gaps = [one["at_risk_count"] for one in bookies if one["at_risk_count"] is not None]
    return {
        "ledger_id": ledger.ledger_id,
        "created_ms": ledger.created_ms,
        "bookies": bookies,
        "at_risk_count": max(gaps, default=0),
    }
