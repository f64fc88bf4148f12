"""The glossary: every word of the protocol, with its meaning. No synonyms elsewhere.

ledger        an append-only sequence of entries with one writer
entry         an immutable payload with a header and a digest; ids start at 0
ensemble      the ordered bookies that a fragment is spread over; its size is E
slot          an index into the ensemble, 0 .. E-1
write quorum  how many bookies hold each entry (Qw)
ack quorum    how many of them must answer before an entry counts (Qa)
write set     the slots that hold a given entry, round robin
fragment      a run of entries that share one ensemble
LAP           last add pushed: the highest entry id the writer gave out
LAC           last add confirmed: every entry up to it is durable on an ack quorum
acked         acknowledged to the application: PD: equal to the LAC; VD: may run ahead of it
LAS           last add synced: a bookie has every entry up to it on stable storage
fence         a bookie's durable promise to refuse further adds of a ledger
incarnation   a number of a bookie that grows at each of its starts
sealed        a ledger whose metadata says CLOSED

Source: Apache BookKeeper, "The BookKeeper protocol"; the relaxed-durability proposal.
"""

from enum import StrEnum
from typing import Final, NewType

LedgerId = NewType("LedgerId", int)
EntryId = NewType("EntryId", int)
BookieId = NewType("BookieId", str)

NO_ENTRY: Final = -1
"""The id that means "no entry"."""

LEDGER_ID_MAX: Final = 2**63 - 1
ENTRY_ID_MAX: Final = 2**63 - 1


class LedgerType(StrEnum):
    """How durable an acknowledged entry is. Chosen at create, never changed."""

    PD_JOURNAL = "PD_JOURNAL"
    """Acknowledged when an ack quorum has fsynced it."""

    VD_JOURNAL = "VD_JOURNAL"
    """Acknowledged when an ack quorum has written it to the page cache."""


class DigestType(StrEnum):
    """How an entry's bytes are checked."""

    XXH3 = "XXH3"
    """64-bit XXH3: finds damage."""

    MAC = "MAC"
    """128-bit BLAKE2b keyed with the ledger's password: finds damage and forgery."""

    NONE = "NONE"
    """No digest: damage is not found by the client."""


class LedgerState(StrEnum):
    """Where a ledger is in its life."""

    OPEN = "OPEN"
    IN_RECOVERY = "IN_RECOVERY"
    CLOSED = "CLOSED"
