"""``zbk ledger grant``: who else may use a ledger."""

from typing import Any

import click

from zbk.cli.audit import audited
from zbk.cli.command import command
from zbk.cli.options import (
    cluster_options,
    ledger_id_argument,
    output_option,
    principal_argument,
    revoke_option,
    rights_argument,
)
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session
from zbk.protocol.ledger.metadata import LedgerMetadata


@command(
    "grant",
    ("zbk ledger grant 7 bob read", "bob may read ledger 7"),
    ("zbk ledger grant 7 '*' read", "all principals may"),
    ("zbk ledger grant 7 bob read --revoke", "take it away"),
)
@ledger_id_argument
@principal_argument
@rights_argument
@revoke_option
@cluster_options
@output_option
@click.pass_obj
def grant(
    session: Session,
    *,
    ledger_id: int,
    principal: str,
    rights: tuple[str, ...],
    revoke: bool,
    metadata: str | None,
    output: Format,
) -> None:
    """Grant rights in a ledger to a principal, or to '*' (all).

    The rights are append, read, recover (includes read), delete and admin (to grant). Owner and
    operators may grant them. Bookies apply the change within a second. The owner keeps all
    rights, and so does what a namespace or a role gives.
    """
    what = f"{'revoke' if revoke else 'grant'} {principal} {','.join(rights)}"
    with session.open_client(metadata) as client, audited("grant", what, ledger_id=ledger_id):
        change = client.revoke if revoke else client.grant
        found = change(ledger_id, principal, rights)
    print_object({"ledger_id": ledger_id, **access_shown(found)}, output)


def access_shown(found: LedgerMetadata) -> dict[str, Any]:
    """Return owner, namespace and grants of a ledger; nothing of a plain one."""
    if not found.access:
        return {}
    access = found.access
    return {
        "owner": access.owner,
        "namespace": access.namespace,
        "grants": {name: list(rights) for name, rights in access.grants.items()},
    }
