"""``zbk ledger recover``: the recovery of a ledger whose writer is gone."""

import click

from zbk.cli.audit import audited
from zbk.cli.command import command
from zbk.cli.options import (
    cluster_options,
    duration_option,
    ledger_id_argument,
    output_option,
    password_option,
)
from zbk.cli.output import Format, print_object
from zbk.cli.session import Session
from zbk.system.clock import monotonic_s


@command(
    "recover",
    ("zbk ledger recover 7", "its writer is gone"),
    ("zbk ledger recover 7 --timeout 5min", "its bookies are being restarted"),
)
@ledger_id_argument
@duration_option("--timeout", "timeout_ms", default="60s", help_text="Time to try.")
@password_option
@cluster_options
@output_option
@click.pass_obj
def recover(
    session: Session,
    ledger_id: int,
    timeout_ms: int,
    password: bytes,
    metadata: str | None,
    output: Format,
) -> None:
    """Close a ledger in place of its writer.

    A writer that still runs is fenced: it can add nothing more. The closed ledger has every entry
    that was acknowledged; a VD ledger may lack those that a loss of power took, and all after them.
    Left out: how many later ids bookies still know of, acknowledged or not. The command is safe to
    run twice, and by several clients at once; a closed ledger does not change. Repair: work that is
    left for autorecovery. Seconds: the time of the recovery, without connecting.
    """
    from zbk.cli.ledger.missing import task_shown
    from zbk.client.operations.ledger_copies import left_out_count

    with session.open_client(metadata) as client:
        start_s = monotonic_s()
        with (
            audited("recovery", "zbk ledger recover", ledger_id=ledger_id),
            client.recover_ledger(ledger_id, password, timeout=timeout_ms / 1000) as reader,
        ):
            seconds = monotonic_s() - start_s
            found = reader.metadata
        task = client.get_underreplicated(ledger_id)
        left_out: dict[str, int | None] = {}
        if found.ledger_type.is_volatile:
            copies = client.get_ledger_copies(ledger_id)
            left_out = {"left_out_count": left_out_count(found, copies)}
    shown = {
        "ledger_id": ledger_id,
        "state": found.state.value,
        "last_entry_id": found.last_entry_id,
        "payload_size": found.length,
        "fragment_count": len(found.fragments),
        **left_out,
        "seconds": round(seconds, 3),
        **task_shown(task, output),
    }
    print_object(shown, output)
