"""The audit log of a command: one line for what it does to a cluster or to a key."""

from collections.abc import Iterator
from contextlib import contextmanager

from zbk.audit.record import Action, AuditRecord
from zbk.cli.config_file import own_security


@contextmanager
def audited(action: Action, what: str, *, ledger_id: int | None = None) -> Iterator[None]:
    """Record what the block does, and whether it failed, in the audit log of ``[security]``.

    Raises:
        InvalidOptionError: the audit log cannot be written; the block does not run.
    """
    from zbk.audit.trail import open_trail, own_user

    trail = open_trail(own_security(), "command")
    if trail is None:
        yield
        return
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        trail.note(
            AuditRecord(
                action=action,
                outcome="done" if outcome == "done" else "failed",
                user=own_user(),
                ledger_id=ledger_id,
                what=what,
            )
        )
        trail.close()
