"""The pages about the cluster and its bookies, as plain data. Any thread."""

import shlex
from typing import Any, Final

import msgspec

from zbk.console.bookie_options import options_at
from zbk.console.collector import Collector, metrics_page
from zbk.console.incident import Incident, incident_of
from zbk.console.metric_page import SERIES, STAGES, histograms_in, percentiles
from zbk.errors import InvalidOptionError
from zbk.health.cluster_health import findings
from zbk.health.finding import counted, has_problem
from zbk.health.redaction import redacted
from zbk.metrics.metric import LATENCY_BOUNDS_US
from zbk.system.clock import wall_ms

ADDS: Final = ("add PD", "add VD", "add VD bypass")
PAGE_SIZE: Final = 100
STATES: Final = ("missing", "silent", "limbo", "read-only", "writable")
"""States of bookies, in the order of the list."""

MARKED: Final = (
    "lost", "joined", "silent", "answers", "restarted", "read-only", "writable", "ensemble change",
    "fenced", "store silent", "store answers",
)  # fmt: skip
"""Kinds of events that the chart of the overview marks."""

BUCKET_LABELS: Final = (
    *(
        f"{bound / 1_000_000:g} s" if bound >= 1_000_000 else f"{bound / 1_000:g} ms"
        for bound in LATENCY_BOUNDS_US
    ),
    "more",
)


def headline(collector: Collector) -> dict[str, Any]:
    """Return the figures of the first row, which are live."""
    facts, points = collector.facts, list(collector.history.points)[-1:]
    last = points[0] if points else None
    found = findings(facts) if facts else []
    is_known = facts is not None and not facts.store_error
    return {
        "at_ms": wall_ms(),
        "state": "starting"
        if facts is None
        else counted(sum(one.is_problem for one in found), "problem")
        if has_problem(found)
        else "healthy",
        "is_healthy": facts is not None and not has_problem(found),
        "bookie_count": len(facts.bookies) if facts and is_known else None,
        "member_count": facts.member_count if facts and is_known else None,
        "writable_count": facts.writable_count if facts and is_known else None,
        "ledger_count": facts.ledger_count if facts and is_known else None,
        "adds_per_s": round(last.rates["adds_per_s"], 1) if last else None,
        "vd_adds_per_s": last.vd_adds_per_s if last else None,
        "reads_per_s": round(last.rates["reads_per_s"], 1) if last else None,
        "fsyncs_per_s": round(last.rates["fsyncs_per_s"], 1) if last else None,
        "add_bytes_per_s": round(last.rates["add_bytes_per_s"]) if last else None,
        "add_p99_ms": _add_p99_ms(collector),
        "underreplicated_count": last.underreplicated_count
        if last
        else facts.underreplicated_count
        if facts and is_known
        else None,
        "unsynced_age_s": last.unsynced_age_s if last else None,
        "error": collector.error,
    }


def overview(collector: Collector) -> dict[str, Any]:
    """Return the first page: is the cluster healthy, and if not, why."""
    facts = collector.facts
    return {
        "title": "Overview",
        "cli": "zbk status",
        "headline": headline(collector),
        "incident": msgspec.to_builtins(_incident(collector)),
        "findings": [msgspec.to_builtins(one) for one in (findings(facts) if facts else ())],
        "metadata": redacted(collector.metadata),
        "store_latency_ms": facts.store_latency_ms if facts else None,
        "auditor": facts.auditor if facts else None,
        "versions": sorted({one.version for one in facts.bookies}) if facts else [],
        "events": events(collector)[:8],
        "points": [
            [
                one.at_ms / 1_000,
                one.rates["adds_per_s"],
                one.rates["reads_per_s"],
                one.rates["fsyncs_per_s"],
                one.vd_adds_per_s,
            ]
            for one in list(collector.history.points)
        ],
        "marks": [
            [one["at_ms"] / 1_000, one["kind"], one["lane"]]
            for one in events(collector)
            if one["kind"] in MARKED
        ],
    }


def bookies(collector: Collector, page: str) -> dict[str, Any]:
    """Return one page of the bookies, those with a problem first."""
    number = int(page) if page.isascii() and page.isdecimal() and len(page) < 6 else 1
    rows = _bookie_rows(collector)
    rows.sort(key=lambda one: (STATES.index(one["state"]), one["bookie_id"]))
    page_count = max(1, -(-len(rows) // PAGE_SIZE))
    number = min(max(1, number), page_count)
    shown = rows[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    for row in shown:
        row["trend"] = collector.history.spark(row["bookie_id"])
        row["fsync_trend"] = collector.history.fsync_spark(row["bookie_id"])
    return {
        "title": "Bookies",
        "cli": "zbk bookie ls",
        "bookie_count": len(rows),
        "page": number,
        "page_count": page_count,
        "bookies": shown,
    }


class NoSuchBookieError(InvalidOptionError):
    """The cluster has no bookie of this id."""


def bookie(collector: Collector, bookie_id: str) -> dict[str, Any]:
    """Return one bookie, with the stages of its adds.

    Raises:
        NoSuchBookieError: the cluster has no such bookie.
    """
    row = next((one for one in _bookie_rows(collector) if one["bookie_id"] == bookie_id), None)
    if row is None:
        raise NoSuchBookieError("bookie", bookie_id[:128], "is no bookie of this cluster")
    histograms = histograms_in(metrics_page(row["http"])) if row["http"] else {}
    stages = [
        {"stage": name, **msgspec.to_builtins(percentiles(histograms.get(key, ())))}
        for name, key in STAGES.items()
    ]
    facts = collector.facts
    info = next(
        (one.info for one in (facts.bookies if facts else ()) if one.bookie_id == bookie_id), None
    )
    reported = msgspec.to_builtins(info) if info else {}
    reported.pop("request_id", None)
    return {
        "title": f"Bookie {bookie_id}",
        "cli": f"zbk bookie show {bookie_id}",
        "bookie": row,
        "stages": stages,
        "answers": [
            {"kind": name, **msgspec.to_builtins(percentiles(histograms.get(key, ())))}
            for name, key in SERIES.items()
        ],
        "info": reported,
        "config": options_at({bookie_id: row["http"]}, collector.bookie_token),
        "trend": collector.history.spark(bookie_id),
    }


def performance(collector: Collector) -> dict[str, Any]:
    """Return latencies over time, by bucket."""
    columns = collector.history.columns
    return {
        "title": "Performance",
        "cli": "zbk top",
        "buckets": BUCKET_LABELS,
        "series": {
            name: [
                {"at_ms": at_ms, "counts": list(counts)} for at_ms, counts in list(columns[name])
            ]
            for name in SERIES
            if name in columns
        },
        "totals": {
            name: msgspec.to_builtins(percentiles(_sums([one for _, one in list(columns[name])])))
            for name in SERIES
            if name in columns
        },
    }


def event_page(collector: Collector, lane: str) -> dict[str, Any]:
    """Return the events of the last time, the newest first."""
    all_of_them = events(collector)
    return {
        "title": "Events",
        "cli": _events_command(collector.url, lane),
        "lane": lane[:128],
        "lanes": sorted({one["lane"] for one in all_of_them}),
        "events": [one for one in all_of_them if lane in ("", one["lane"])],
        "now_ms": wall_ms(),
    }


def _events_command(url: str, lane: str) -> str:
    words = ["zbk", "events", *(["--console", url] if url else [])]
    return shlex.join([*words, *(["--lane", lane[:128]] if lane else [])])


def event_lines(collector: Collector, after: str, lane: str) -> str:
    """Return the events with higher numbers than ``after`` as JSON lines, the oldest first.

    Raises:
        InvalidOptionError: ``after`` is no number.
    """
    is_number = after.isascii() and after.isdecimal() and len(after) < 20
    if after and not is_number:
        raise InvalidOptionError("after", after[:40], "give the number of an event")
    found = collector.history.events.after(int(after or 0))
    kept = [one for one in found if lane in ("", one.lane)]
    return "".join(f"{msgspec.json.encode(one).decode()}\n" for one in kept)


def events(collector: Collector) -> list[dict[str, Any]]:
    """Return the events, the newest first."""
    return [msgspec.to_builtins(one) for one in reversed(collector.history.events.after())]


# ------------------------------------------------------------------ private


def _incident(collector: Collector) -> Incident | None:
    facts, records = collector.facts, collector.records
    if facts is None:
        return None
    status = records.status if records is not None else None
    for point in list(collector.history.points)[-1:]:  # newer than the survey
        facts = msgspec.structs.replace(
            facts,
            underreplicated_count=point.underreplicated_count,
            in_repair_count=point.in_repair_count,
        )
    seen = collector.history.events.after()
    return incident_of(facts, status, seen, collector.backlog.completion_s, wall_ms())


def _add_p99_ms(collector: Collector) -> float | None:
    """Return the p99 of the adds in the last column of the heat map."""
    columns = [collector.history.columns[one] for one in ADDS if one in collector.history.columns]
    return percentiles(_sums([one[-1][1] for one in columns if one])).p99_ms


def _sums(columns: list[tuple[int, ...]]) -> list[int]:
    return [sum(of) for of in zip(*columns, strict=False)]


def _bookie_rows(collector: Collector) -> list[dict[str, Any]]:
    facts = collector.facts
    if facts is None:
        return []
    rates = collector.history.rates
    rows = []
    for one in facts.bookies:
        now, info = rates.get(one.bookie_id), one.info
        state = "silent" if one.silence else "read-only" if one.is_readonly else "writable"
        if info is not None and info.limbo:
            state = "limbo"
        rows.append(
            {
                "bookie_id": one.bookie_id,
                "state": state,
                "address": one.address,
                "http": one.http,
                "version": one.version,
                "why": one.silence,
                "ledger_count": info.ledger_count if info else None,
                "free_size": min(info.free_size, info.journal_free_size) if info else None,
                "rss_size": info.rss_size if info else None,
                "rates": now.rates if now else {},
                "fsync_ms": now.fsync_ms if now else None,
                "queue_ms": now.queue_ms if now else None,
                "disk_share": now.disk_share if now else None,
                "cpu_share": now.cpu_share if now else None,
            }
        )
    rows += [
        {
            "bookie_id": bookie_id,
            "state": "missing",
            "address": "",
            "http": "",
            "version": "",
            "why": "not registered",
            "ledger_count": None,
            "free_size": None,
            "rss_size": None,
            "rates": {},
            "fsync_ms": None,
            "queue_ms": None,
            "disk_share": None,
            "cpu_share": None,
        }
        for bookie_id in facts.missing
    ]
    return rows
