"""What the console can change, with ``--allow-actions``: each with its consequence and its command.

An action has one subject: a ledger id, a bookie id, or none. Its form has one button, or one for
each choice. It runs in the thread of its request.
"""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from zbk.client.api import Client, connect
from zbk.console.collector import Collector
from zbk.console.ledger_pages import ledger_id_in
from zbk.errors import InvalidOptionError
from zbk.metadata.paths import check_bookie_id
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.underreplication import UnderreplicationStore

CONNECT_TIMEOUT_MS: Final = 5_000
ACTION_TIMEOUT_S: Final = 60.0


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of change."""

    name: str
    title: str
    subject: Literal["ledger", "bookie", ""]
    consequence: str
    command: str  # with a place for the subject
    run: Callable[..., str]  # collector, subject, and a choice if there are; returns what was done
    is_final: bool = False  # it cannot be undone
    choices: tuple[str, ...] = ()  # one of them is the last word of the command

    def command_for(self, subject: str, choice: str = "") -> str:
        """Return the command that does the same; without a choice, it names all."""
        words = [self.command.format(subject), choice or "|".join(self.choices)]
        return " ".join(filter(None, words))


def check_subject(action: Action, subject: str) -> None:
    """Check that a text can be the subject of an action.

    Raises:
        InvalidOptionError: it cannot.
    """
    if action.subject == "ledger":
        ledger_id_in(subject)
    elif action.subject == "bookie":
        check_bookie_id(subject)
    elif subject:
        raise InvalidOptionError("subject", subject[:40], "this action has none")


def check_choice(action: Action, choice: str) -> None:
    """Check that a form has the choice that its action needs.

    Raises:
        InvalidOptionError: it has not.
    """
    if choice not in (action.choices or ("",)):
        wanted = f"give one of {', '.join(action.choices)}" if action.choices else "there is none"
        raise InvalidOptionError("choice", choice[:40], wanted)


# ------------------------------------------------------------------ private


def _client(collector: Collector) -> Client:
    return connect(
        collector.metadata,
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        key=collector.security.key,
        security=collector.security.security,
    )


def _recover(collector: Collector, subject: str) -> str:
    with _client(collector) as client:
        reader = client.recover_ledger(int(subject), timeout=ACTION_TIMEOUT_S)
        return f"ledger {subject} is closed; its last entry is {reader.last_add_confirmed}"


def _delete(collector: Collector, subject: str) -> str:
    with _client(collector) as client:
        client.delete_ledger(int(subject))
    return f"ledger {subject} is deleted"


def _gc(collector: Collector, subject: str) -> str:
    with _client(collector) as client:
        found = client.collect_garbage(subject, timeout=ACTION_TIMEOUT_S)
    freed = f"{found.dropped_count:,} ledgers dropped, {found.freed_size:,} bytes freed"
    return f"{freed}; {found.gave_up}" if found.gave_up else freed


def _scrub(collector: Collector, subject: str) -> str:
    with _client(collector) as client:
        client.scrub(subject)
    return f"bookie {subject} reads all its files; its page shows the progress"


def _readonly(collector: Collector, subject: str, choice: str) -> str:
    registry = BookieRegistry(collector.connection().store)
    registry.switch_readonly(subject, is_readonly=choice == "on")
    return f"the read-only switch of bookie {subject} is {choice}"


def _audit(collector: Collector, subject: str) -> str:
    del subject
    UnderreplicationStore(collector.connection().store).trigger()
    return "the auditor looks now"


ACTIONS: Final = {
    one.name: one
    for one in (
        Action(
            name="recover",
            title="Recover ledger",
            subject="ledger",
            consequence="The ledger is fenced and closed: its writer can append nothing more. No "
            "acknowledged entry is lost.",
            command="zbk ledger recover {}",
            run=_recover,
            is_final=True,
        ),
        Action(
            name="delete",
            title="Delete ledger",
            subject="ledger",
            consequence="All entries of the ledger are gone for good, and its id is never used "
            "again. Bookies free the space later.",
            command="zbk ledger delete {} --yes",
            run=_delete,
            is_final=True,
        ),
        Action(
            name="gc",
            title="Collect garbage",
            subject="bookie",
            consequence="The bookie drops deleted ledgers now and not in its next round. Live "
            "ledgers are not affected.",
            command="zbk bookie gc {}",
            run=_gc,
        ),
        Action(
            name="scrub",
            title="Scrub",
            subject="bookie",
            consequence="The bookie reads all its files, at its limited rate, and reports damage. "
            "Nothing is changed.",
            command="zbk bookie scrub {}",
            run=_scrub,
        ),
        Action(
            name="readonly",
            title="Read-only",
            subject="bookie",
            consequence="Switched on, the bookie takes no new entries and no copies, and serves "
            "what it has, so a drained bookie does not fill again. A restart keeps the switch.",
            command="zbk bookie readonly {}",
            run=_readonly,
            choices=("on", "off"),
        ),
        Action(
            name="audit",
            title="Audit now",
            subject="",
            consequence="The auditor looks for lost bookies at once, without the delay for bookies "
            "that may return, and ledgers beyond repair are tried again.",
            command="zbk autorecovery trigger",
            run=_audit,
        ),
    )
}
"""By the name in the address."""
