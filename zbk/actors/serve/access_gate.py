"""Which requests a bookie carries out: those whose principal has the right, or the role.

The rules are those of ``zbk.security.operations`` (what a request needs), ``rights`` (who has it)
and ``access_table`` (what this bookie knows). A request for a ledger whose owner and grants are not
known here waits for the metadata store, with later requests of that ledger behind it, in the
``NewLedgerGate``. One that only asks about a ledger that this bookie does not hold goes on, to be
answered with "no such ledger": it learns nothing, and costs the metadata store nothing. A bookie
without encryption, or one that admits connections without a key, has no
such gate.

Watches of LACs (``WatchLacs``) are decided one by one. One of a ledger that is not known here tells
nothing until the ledger was looked up. After each change of rights all watches are looked at again.

Owned and run by the storage actor.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from zbk.actors.serve.ledger_table import LedgerTable
from zbk.actors.serve.new_ledger_gate import NewLedgerGate
from zbk.durability.new_ledgers import Finding, KnownLedger
from zbk.errors import AccessDeniedError, RoleRequiredError, ZbkError
from zbk.security.access_table import AccessTable
from zbk.security.namespaces import NamespaceTable
from zbk.security.operations import (
    LEDGER_NEEDS,
    MANY_LEDGERS,
    ROLE_NEEDS,
    WATCH_NEED,
    bookie_need,
    makes_known,
    right_name,
)
from zbk.security.principals import KeyTable
from zbk.transport.inbound import Inbound

if TYPE_CHECKING:
    from zbk.wire.messages import PartRequest


class SetKeys(msgspec.Struct, frozen=True):
    """To the storage actor: the principals are these from now on."""

    keys: KeyTable


class SetNamespaces(msgspec.Struct, frozen=True):
    """To the storage actor: the namespaces are these from now on."""

    namespaces: NamespaceTable


class GrantsChanged(msgspec.Struct, frozen=True):
    """To the storage actor: the grants of these ledgers changed; ``None``: any may have."""

    ledger_ids: Sequence[int] | None


AccessMessage: TypeAlias = SetKeys | SetNamespaces | GrantsChanged


class AccessGate:
    """Lets requests go on, refuses them, or has them wait."""

    def __init__(self, table: AccessTable, ledgers: LedgerTable, gate: NewLedgerGate) -> None:
        self._table = table
        self._ledgers = ledgers
        self._gate = gate
        self._failures: dict[int, ZbkError] = {}  # of the look-up whose requests are let go

    # -------------------------------------------------------------- requests

    def admits(self, inbound: Inbound) -> bool:
        """Return whether a request goes on now; false: it waits for the metadata store.

        Raises:
            AccessDeniedError: its principal lacks the right.
            RoleRequiredError: its principal lacks the role.
            NoSuchLedgerError, MetadataUnavailableError: the owner of the ledger cannot be known.
            CorruptRecordError: the index of the ledger is damaged.
            BusyError: too much waits.
        """
        request = inbound.request
        rule = LEDGER_NEEDS.get(type(request))
        if rule is None:
            return self._admits_other(inbound)
        ledger_id = cast("PartRequest", request).ledger_id  # it is one of LEDGER_NEEDS
        key, need = inbound.key, rule(request)
        if self._table.decisions.get((key, ledger_id), 0) & need:
            return True
        is_allowed = self._table.decide(key, ledger_id, need)
        if is_allowed is None:
            if not makes_known(request) and self._ledgers.find(ledger_id) is None:
                return True
            self._wait(inbound, ledger_id)
            return False
        if not is_allowed:
            raise self._denial(key, ledger_id, need)
        return True

    def _admits_other(self, inbound: Inbound) -> bool:
        request = inbound.request
        if type(request) in MANY_LEDGERS:
            return True  # each of its watches is decided by itself
        need = bookie_need(request)
        key = inbound.key
        if need and not need & self._table.role_mask(key):
            lacks = ROLE_NEEDS[need]
            raise RoleRequiredError(self._table.name_of(key), lacks.operation, lacks.role)
        return True

    def _wait(self, inbound: Inbound, ledger_id: int) -> None:
        failure = self._failures.get(ledger_id)
        if failure is not None:
            raise failure
        self._ledgers.check_not_deleted(ledger_id)  # else each of them costs the store a read
        self._gate.hold(ledger_id, inbound)

    def _denial(self, key: str, ledger_id: int, need: int) -> AccessDeniedError:
        return AccessDeniedError(ledger_id, self._table.name_of(key), right_name(need))

    # -------------------------------------------------------------- watches

    def may_watch(self, key: str, ledger_id: int) -> bool:
        """Return whether a principal may know the LAC of a ledger; false: it is being looked up.

        Raises:
            AccessDeniedError: it lacks the right.
            NoSuchLedgerError, MetadataUnavailableError: the owner of the ledger cannot be known.
            BusyError: too much waits.
        """
        is_allowed = self._table.decide(key, ledger_id, WATCH_NEED)
        if is_allowed is None:
            failure = self._failures.get(ledger_id)
            if failure is not None:
                raise failure
            self._gate.want(ledger_id, key)
            return False
        if not is_allowed:
            raise self._denial(key, ledger_id, WATCH_NEED)
        return True

    # -------------------------------------------------------------- look-ups

    def begin_release(self, findings: Mapping[int, Finding]) -> bool:
        """Learn from a look-up; false: its answer is stale, and it has to be made again."""
        if self._table.is_answer_stale():
            return False
        for ledger_id, found in findings.items():
            if isinstance(found, KnownLedger):
                self._table.learn(ledger_id, found.access)
            else:
                self._failures[ledger_id] = found
        return True

    def end_release(self) -> None:
        """Forget what a look-up did not find."""
        self._failures.clear()

    def asked(self, ledger_ids: Sequence[int]) -> None:
        """Record that a look-up begins."""
        self._table.asked(ledger_ids)

    # -------------------------------------------------------------- changes

    def change(self, message: AccessMessage) -> None:
        """Replace what is known."""
        match message:
            case SetKeys(keys):
                self._table.set_keys(keys)
            case SetNamespaces(namespaces):
                self._table.set_namespaces(namespaces)
            case GrantsChanged(ledger_ids):
                self._table.changed(ledger_ids)
