"""What a bookie knows of rights, and its decisions: it decides alone, without a question to others.

    source                       how it comes                    a change
    --------------------------   -----------------------------   ------------------------------
    principals, namespaces       one record each, watched        replaces what was known
    owner and grants of a        looked up at the first request  the record of changes, watched,
    ledger                       of the ledger                   names the ledger: it is forgotten

Decision: grants are fetched and cached, not signed. A signed grant would have to carry an expiry,
clients would have to fetch and send it, and it could not be taken back before that. What a bookie
caches is taken back with the watch that it needs anyway to cut off a removed key, in one step of
the metadata store and without a clock. A watch of each ledger would cost the store one watch for
each ledger at each bookie; the record of changes costs one for each bookie.

*Stale* answers: an owner and grants that were read before a change, and arrive after the news of
it, are not believed. They are looked up again. The bookie's session with the metadata store never
goes back, so what it reads after it has read the news includes the change.

While the metadata store is silent, the bookie decides by what it knows, as for principals. A ledger
that it does not know then is refused.

A *decision* is a mask of rights, kept by key and ledger. Invariant: a decision follows from the
principals, the namespaces and the access that are known now; each change forgets all decisions. A
principal with a role needs no look-up for what its role allows: such a decision is not complete.

Limits: ``ACCESS_COUNT_MAX`` ledgers; more, and the ones known longest are looked up again.
``DECISION_COUNT_MAX`` decisions; more, and all are made again.

Pure. Owned by the storage actor.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from zbk.protocol.ledger.access import LedgerAccess
from zbk.security.namespaces import NamespaceTable
from zbk.security.principals import KeyTable
from zbk.security.rights import rights_of, role_mask

ACCESS_COUNT_MAX: Final = 65_536
DECISION_COUNT_MAX: Final = 131_072
CHANGE_COUNT_MAX: Final = 256
"""Ledgers that the record of changes names. A bookie that missed more forgets all."""

COMPLETE: Final = 1 << 30
"""In a decision: the ledger's own access is part of it, not only the roles of the principal."""


class AccessChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The record of changes: the ledgers whose grants changed last, in order."""

    count: int = 0  # of all changes so far
    ledger_ids: tuple[int, ...] = ()
    format_version: int = 1

    def with_change(self, ledger_id: int) -> "AccessChanges":
        """Return the record after one more change."""
        kept = (*self.ledger_ids, ledger_id)[-CHANGE_COUNT_MAX:]
        return AccessChanges(count=self.count + 1, ledger_ids=kept)

    def since(self, count: int | None) -> Sequence[int] | None:
        """Return the ledgers that changed after ``count`` changes; ``None``: any may have.

        >>> AccessChanges(count=3, ledger_ids=(7, 8, 9)).since(1)
        (8, 9)
        """
        if count is None or not 0 <= self.count - count <= len(self.ledger_ids):
            return None
        return self.ledger_ids[len(self.ledger_ids) - (self.count - count) :]


class AccessTable:
    """Decides by key and ledger."""

    def __init__(
        self,
        keys: KeyTable,
        namespaces: NamespaceTable,
        *,
        access_count_max: int = ACCESS_COUNT_MAX,
        decision_count_max: int = DECISION_COUNT_MAX,
    ) -> None:
        self.keys = keys
        self._namespaces = namespaces
        self._access_count_max = access_count_max
        self._decision_count_max = decision_count_max
        self._accesses: dict[int, LedgerAccess] = {}
        self.decisions: dict[tuple[str, int], int] = {}
        self._asked: frozenset[int] = frozenset()  # the look-up under way
        self._stale: set[int] = set()  # of them: changed meanwhile

    # -------------------------------------------------------------- decisions

    def decide(self, key: str, ledger_id: int, need: int) -> bool | None:
        """Return whether a key may do something with a ledger; ``None``: the ledger is not known.

        ``need`` is one bit of ``zbk.security.rights``.
        """
        mask = self.decisions.get((key, ledger_id), 0)
        if not mask & (need | COMPLETE):
            mask = self._decide(key, ledger_id)
        if mask & need:
            return True
        return False if mask & COMPLETE else None

    def role_mask(self, key: str) -> int:
        """Return what a key may do by the roles of its principal."""
        return role_mask(self.keys.find(key))

    def name_of(self, key: str) -> str:
        """Return the name of a key's principal, or the key itself."""
        found = self.keys.find(key)
        return key if found is None else found.name

    def _decide(self, key: str, ledger_id: int) -> int:
        principal, access = self.keys.find(key), self._accesses.get(ledger_id)
        if principal is None:
            return COMPLETE  # its connection is being cut off
        if access is None:
            mask = role_mask(principal)
        else:
            grants = self._namespaces.grants(access.namespace)
            mask = rights_of(principal, access, grants) | COMPLETE
        if len(self.decisions) >= self._decision_count_max:
            self.decisions.clear()
        self.decisions[key, ledger_id] = mask
        return mask

    # -------------------------------------------------------------- look-ups

    def asked(self, ledger_ids: Iterable[int]) -> None:
        """Record that a look-up begins. One at a time."""
        self._asked = frozenset(ledger_ids)
        self._stale.clear()

    def is_answer_stale(self) -> bool:
        """Return whether the look-up that has ended must be made again."""
        return bool(self._stale)

    def learn(self, ledger_id: int, access: LedgerAccess) -> None:
        """Record the owner and the grants of a ledger, from a look-up that is not stale."""
        known = self._accesses.get(ledger_id)
        if known is None and len(self._accesses) >= self._access_count_max:
            del self._accesses[next(iter(self._accesses))]
        self._accesses[ledger_id] = access
        if known is not None and known != access:  # the news of the change is on its way
            self.decisions.clear()

    # -------------------------------------------------------------- changes

    def set_keys(self, keys: KeyTable) -> None:
        """Replace the principals."""
        self.keys = keys
        self.decisions.clear()

    def set_namespaces(self, namespaces: NamespaceTable) -> None:
        """Replace the namespaces."""
        self._namespaces = namespaces
        self.decisions.clear()

    def changed(self, ledger_ids: Sequence[int] | None) -> None:
        """Forget what is known of ledgers whose grants changed; ``None``: of all."""
        if ledger_ids is None:
            self._accesses.clear()
            self._stale.update(self._asked)
        else:
            for ledger_id in ledger_ids:
                self._accesses.pop(ledger_id, None)
            self._stale.update(self._asked.intersection(ledger_ids))
        self.decisions.clear()
