"""``zbk status``: is the cluster healthy, and if not, why."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import ZbkCommand
from zbk.cli.config_file import own_security
from zbk.cli.health.report import finding_rows, finish, health_timeout_option, print_findings
from zbk.cli.options import cluster_options, output_option
from zbk.cli.output import Format, print_json, print_object, size_text

if TYPE_CHECKING:
    from zbk.health.cluster_health import ClusterFacts
    from zbk.health.finding import Finding


@click.command(
    "status",
    cls=ZbkCommand,
    examples=[
        ("zbk status", "one screen; exit code 10 if there is a problem"),
        ("zbk status -o json", "the same for machines"),
    ],
)
@health_timeout_option
@cluster_options
@output_option
def status(timeout_ms: int, metadata: str | None, output: Format) -> None:
    """Show whether a cluster is healthy, and if not, why.

    Each problem is one line: the problem, its consequence, the next command. The exit code is 10 if
    there is a problem. The command reads the metadata store and asks all bookies at once; its cost
    grows with the number of bookies, and hardly with that of ledgers.
    """
    from zbk.cli.store import cluster_address
    from zbk.health.cluster_health import findings
    from zbk.health.cluster_survey import asking_as, survey_cluster
    from zbk.security.credentials import own_credentials

    ask = asking_as(own_credentials(own_security()))
    facts = survey_cluster(cluster_address(metadata), timeout_ms / 1_000, ask)
    found = findings(facts)
    if output == "json":
        print_json(_summary(facts, found) | {"findings": finding_rows(found)})
    else:
        print_object(_screen(facts, found), output)
        print_findings(found)
    finish(found)


def _summary(facts: "ClusterFacts", found: "Sequence[Finding]") -> dict[str, Any]:
    """Return the fields of JSON; the counts are null while the store does not answer."""
    from zbk.health.finding import has_problem

    infos, is_known = facts.infos, not facts.store_error
    journals = [one.scraped for one in facts.bookies if one.scraped is not None]
    counts = {
        "registered_bookie_count": len(facts.bookies),
        "writable_bookie_count": facts.writable_count,
        "answered_bookie_count": len(infos),
        "limbo_bookie_count": sum(bool(one.limbo) for one in infos),
        "missing_bookies": list(facts.missing),
        "free_size_min": min((min(i.free_size, i.journal_free_size) for i in infos), default=None),
        "unsynced_age_s_max": max((one.oldest_unsynced_s for one in journals), default=None),
        "versions": sorted({one.version for one in facts.bookies}),
        "ledger_count": facts.ledger_count,
        "underreplicated_count": facts.underreplicated_count,
        "in_repair_count": facts.in_repair_count,
        "unrepairable_count": facts.unrepairable_count,
        "is_autorecovery_enabled": facts.is_autorecovery_enabled,
        "auditor": facts.auditor,
    }
    return {
        "is_healthy": not has_problem(found),
        "metadata": facts.metadata,
        "is_store_reachable": is_known,
        "store_latency_ms": facts.store_latency_ms if is_known else None,
        **(counts if is_known else dict.fromkeys(counts)),
    }


def _screen(facts: "ClusterFacts", found: "Sequence[Finding]") -> dict[str, str]:
    known = _summary(facts, found)
    problem_count = sum(one.is_problem for one in found)
    plural = "" if problem_count == 1 else "s"
    state = f"{problem_count} problem{plural}" if problem_count else "healthy"
    screen = {"state": state, "metadata": facts.metadata}
    if facts.store_error:
        return screen
    latency = f"{facts.metadata}, answers in {facts.store_latency_ms:.1f} ms"
    answered = f"{known['answered_bookie_count']:,} of {len(facts.bookies):,} answered"
    readonly_count = len(facts.bookies) - facts.writable_count
    free_size = known["free_size_min"]
    return screen | {
        "metadata": latency,
        "bookies": f"{len(facts.bookies):,} of {facts.member_count:,} registered: "
        f"{facts.writable_count:,} writable, {readonly_count:,} read-only; {answered}",
        "least_free": "-" if free_size is None else size_text(free_size),
        **_journals(known["unsynced_age_s_max"]),
        "versions": ", ".join(known["versions"]),
        "ledgers": f"{facts.ledger_count:,}; {facts.underreplicated_count:,} lack copies, "
        f"{facts.in_repair_count:,} in repair, {facts.unrepairable_count:,} beyond repair",
        "autorecovery": f"{'on' if facts.is_autorecovery_enabled else 'off'}, "
        f"auditor {facts.auditor or '-'}",
    }


def _journals(age_s: float | None) -> dict[str, str]:
    """Return the line about journals, where their metrics are known."""
    return {} if age_s is None else {"journals": f"oldest un-synced bytes {age_s:.1f} s"}
