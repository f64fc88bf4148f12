"""The ledgers of a cluster of which a loss of power takes most, merged over its bookies.

Each bookie names its largest ones, up to ``COUNT_MAX``, without a look at the metadata of any
ledger. A ledger has the size and the age of the bookie where they are largest, so that the first
``COUNT_MAX`` ledgers of the merged list are those of the cluster.
"""

from collections.abc import Mapping

import msgspec

from zbk.actors.serve.unsynced_ledgers import COUNT_MAX, Order, UnsyncedLedger, largest
from zbk.conversion import convert
from zbk.health.bookie_api import TIMEOUT_S, NoAnswer, ask_admin_apis

PATH = "/api/v1/zbk/bookie/unsynced"


class _Told(msgspec.Struct, frozen=True):
    """The part of a bookie's answer that is used."""

    ledger_count: int
    ledgers: list[UnsyncedLedger]


class UnsyncedInCluster(msgspec.Struct, frozen=True):
    """The merged list, and the bookies that are not part of it, with the reasons."""

    ledgers: list[UnsyncedLedger]
    holders: Mapping[int, list[str]]
    """By ledger id, the bookies that named it."""
    silent: Mapping[str, str]


def unsynced_in_cluster(
    urls: Mapping[str, str],
    order: Order,
    count: int = COUNT_MAX,
    token: str = "",
    timeout_s: float = TIMEOUT_S,
) -> UnsyncedInCluster:
    """Return the ledgers with the largest size or age of un-synced entries, and their bookies.

    ``urls``, ``token`` and ``timeout_s`` as in ``ask_admin_apis``.
    """
    found: dict[int, UnsyncedLedger] = {}
    holders: dict[int, list[str]] = {}
    silent = {}
    answers = ask_admin_apis(urls, f"{PATH}?order={order}&limit={COUNT_MAX}", token, timeout_s)
    for bookie_id, answer in answers.items():
        if isinstance(answer, NoAnswer):
            silent[bookie_id] = answer.why
            continue
        try:
            told = convert(answer, _Told)
        except msgspec.ValidationError:
            silent[bookie_id] = "its answer has no ledgers"
            continue
        for one in told.ledgers[:COUNT_MAX]:
            holders.setdefault(one.ledger_id, []).append(bookie_id)
            found[one.ledger_id] = _larger(one, found.get(one.ledger_id, one))
    shown = largest(found.values(), order, count)
    return UnsyncedInCluster(shown, holders, silent)


def _larger(one: UnsyncedLedger, other: UnsyncedLedger) -> UnsyncedLedger:
    return UnsyncedLedger(
        ledger_id=one.ledger_id,
        unsynced_size=max(one.unsynced_size, other.unsynced_size),
        entry_count=max(one.entry_count, other.entry_count),
        age_ms=max(one.age_ms, other.age_ms),
    )
