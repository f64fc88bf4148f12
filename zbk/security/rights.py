"""The decision: which rights a principal has, in a ledger and at a bookie.

    who                           has
    ---------------------------   ------------------------------------------------------------
    the owner of a ledger         all rights in it
    role operator                 all rights in all ledgers; may operate bookies
    role bookie                   read and recover in all ledgers, to repair them; sees statuses
    role auditor                  inspects all ledgers, sees statuses; reads no entry
    one with a grant              the rights of the grant: of the ledger, of its namespace, or of a
                                  namespace whose path is a part of that path
    every principal               the grants to ``*``; the information that a bookie gives of itself

``recover`` includes ``read``, because a recoverer reads what it writes back; ``read`` includes the
right to inspect a ledger: to learn which entries a bookie holds.

Ledgers without an owner are in the default namespace. As long as no operator has made a record of
it (``zbk namespace add default``), every principal has all rights in these ledgers but ``admin``,
as before there were rights: their password protects them.

A set of rights is a *mask*, an integer with one bit for each right: a bookie decides with one look
into a dictionary and one comparison.

Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from zbk.protocol.ledger.access import EVERYONE, Grants, LedgerAccess, Right
from zbk.security.principals import Principal

BITS: Final = {right: 1 << number for number, right in enumerate(Right)}

APPEND: Final = BITS[Right.APPEND]
READ: Final = BITS[Right.READ]
RECOVER: Final = BITS[Right.RECOVER]
ADMIN: Final = BITS[Right.ADMIN]
DELETE: Final = BITS[Right.DELETE]
INSPECT: Final = 1 << 5  # to learn which entries a bookie holds
STATUS: Final = 1 << 6  # to see the progress of garbage collection and scrub
OPERATE: Final = 1 << 7  # to start them

ALL_RIGHTS: Final = APPEND | READ | RECOVER | DELETE | ADMIN
OPEN_RIGHTS: Final = ALL_RIGHTS & ~ADMIN
"""Of every principal in a ledger without an owner, while the default namespace has no record."""

ROLE_RIGHTS: Final = {
    "operator": ALL_RIGHTS | INSPECT | STATUS | OPERATE,
    "bookie": READ | RECOVER | INSPECT | STATUS,
    "auditor": INSPECT | STATUS,
}

NAMES: Final = {bit: right.value for right, bit in BITS.items()} | {INSPECT: Right.READ.value}
"""The right that one asks for who lacks a bit."""


def mask_of(rights: Iterable[Right]) -> int:
    """Return the mask of rights, with those that they include.

    >>> mask_of([Right.RECOVER]) == RECOVER | READ | INSPECT
    True
    """
    mask = 0
    for right in rights:
        mask |= BITS[right]
    return _closed(mask)


def role_mask(principal: Principal | None) -> int:
    """Return what a principal may do by its roles alone; ``None`` is no principal."""
    mask = 0
    for role in () if principal is None else principal.roles:
        mask |= ROLE_RIGHTS[role]
    return mask


def rights_of(
    principal: Principal | None, access: LedgerAccess, namespace_grants: Sequence[Grants] | None
) -> int:
    """Return the mask of what a principal may do with a ledger.

    ``namespace_grants`` are those of the records that count for the ledger's namespace; ``None``:
    it is the default namespace, and that has no record.
    """
    if principal is None:
        return 0
    mask = role_mask(principal)
    if access.owner == principal.name:
        mask |= ALL_RIGHTS
    for grants in (access.grants, *(namespace_grants or ())):
        for name in (principal.name, EVERYONE):
            mask |= mask_of(grants.get(name, ()))
    if namespace_grants is None and not access.owner:
        mask |= OPEN_RIGHTS
    return _closed(mask)


def decide(
    principal: Principal | None,
    right: Right,
    access: LedgerAccess,
    namespace_grants: Sequence[Grants] | None,
) -> bool:
    """Return whether a principal has a right in a ledger; as ``rights_of``.

    >>> alice, bob = Principal(name="alice", keys=()), Principal(name="bob", keys=())
    >>> hers = LedgerAccess(owner="alice", grants={"bob": (Right.READ,)})
    >>> decide(alice, Right.APPEND, hers, None), decide(bob, Right.APPEND, hers, None)
    (True, False)
    """
    return bool(rights_of(principal, access, namespace_grants) & BITS[right])


def _closed(mask: int) -> int:
    """Return a mask with the rights that its rights include."""
    if mask & RECOVER:
        mask |= READ
    if mask & READ:
        mask |= INSPECT
    return mask
