"""``zbk cluster check-security``: what of a cluster is open."""

from typing import TYPE_CHECKING, Any

import click

from zbk.cli.command import command
from zbk.cli.config_options import config_options, offline_config, security_options, take_security
from zbk.cli.health.report import finding_rows, finish, health_timeout_option, print_findings
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_json, print_object
from zbk.cli.store import cluster_address
from zbk.config import BookieConfig

if TYPE_CHECKING:
    from zbk.config import SecurityConfig
    from zbk.health.security_health import SecurityFacts


@command(
    "check-security",
    ("zbk cluster check-security", "exit code 10 if something is open"),
    (
        "zbk cluster check-security --config /etc/zbk/bookie.toml",
        "with the files of a bookie of this machine",
    ),
)
@health_timeout_option
@config_options(BookieConfig, ("journal_dir", "ledger_dir"))
@security_options("key")
@click.option(
    "--url",
    "urls",
    metavar="URL",
    multiple=True,
    help="HTTP address of autorecovery or of a console on another machine.",
)
@output_option
def check_security(
    *,
    timeout_ms: int,
    urls: tuple[str, ...],
    output: Format,
    **options: Any,  # noqa: ANN401 - fields of BookieConfig
) -> None:
    """Show what of a running cluster is open to others.

    Bookies without keys, or that also accept connections without one; nodes of ZooKeeper that
    everyone may read or change, and old versions of ZooKeeper; HTTP beyond loopback or actions
    without a token; consoles on the network; principals whose old keys still work; files of this
    machine that other users can read or replace. Each is one line with its remedy, and the exit
    code is then 10. Nothing is changed.

    Bookies are asked at their registered addresses. Autorecovery and consoles register none: those
    of this machine and user are found, or of all users if root asks, and --url names others.

    Run it as the user of an operator or auditor of ZooKeeper, on each machine with bookies.
    """
    from zbk.health.security_health import findings
    from zbk.health.security_survey import survey_security

    security = take_security(options)
    config = offline_config(BookieConfig, options)
    address = cluster_address(config.metadata)
    facts = survey_security(address, _paths(config, security, address), timeout_ms / 1_000, urls)
    found = findings(facts)
    if output == "json":
        print_json({"is_closed": not found, "findings": finding_rows(found)} | _summary(facts))
    else:
        state = f"{len(found)} open" if found else "closed"
        print_object({"state": state} | _summary(facts), output)
        print_findings(found)
    finish(found)


def _paths(config: BookieConfig, security: "SecurityConfig", address: str) -> list[str]:
    """Return the files and directories of this machine that should be private."""
    from zbk.errors import InvalidOptionError
    from zbk.system.context import find_context

    paths = [*config.journal_dirs, *config.ledger_dirs, security.key]
    paths += [security.metadata_password_file, security.metadata_certificate_key]
    try:
        context = find_context()
    except InvalidOptionError:  # broken, and not needed
        context = None
    if context is not None and context.metadata == address:
        paths.append(context.data_dir)
    return paths


def _summary(facts: "SecurityFacts") -> dict[str, Any]:
    return {
        "metadata": facts.metadata,
        "bookies": len(facts.bookies),
        "endpoints": len(facts.endpoints),
        "principals": len(facts.principals),
    }
