"""The glossary: every noun of the protocol has one meaning, and the code has no synonyms.

Parties
bookie           a server that stores entries of many ledgers
client           the library in an application's process: its writers, readers and logs
writer           the only client that appends to an open ledger
reader           a client that reads a ledger, at most up to its LAC
auditor          the process that reports ledgers of lost bookies as tasks; one at a time

Ledgers and entries
ledger           an append-only sequence of entries with one writer; its id is never used again
entry            an immutable payload with a header and a digest; ids start at 0
batch            consecutive entries of one ledger that travel and are stored together
length           the bytes of payload in a ledger, up to and including an entry
ledger state     OPEN, IN_RECOVERY or CLOSED, in the ledger's metadata
closed           of a ledger: its metadata says CLOSED, and its last entry id is final
ledger type      how durable an acknowledged entry is: PD or VD
PD               persistent durability: acknowledged after an ack quorum has fsynced the entry
VD               volatile durability: acknowledged from page caches, made durable by a sync
digest type      how the bytes of an entry are checked

Placement
ensemble         the ordered bookies that store a fragment; its size is E
slot             an index into the ensemble, 0 .. E-1
write quorum     the number of bookies that store each entry (Qw)
ack quorum       the number of bookies that answer before an entry is acknowledged (Qa)
write set        the slots that store a given entry, round robin
striped          of a ledger: E > Qw, so that no bookie stores every entry
due              of an entry: its write set has the slot
stripe           the sizes E and Qw and a slot: they determine which entries are due there
fragment         a run of consecutive entries with one ensemble
ensemble change  the replacement of a bookie of an open ledger; a new fragment begins after the LAC

Progress
LAP              last add pushed: the highest entry id that the writer has assigned
LAC              last add confirmed: every entry up to it is durable on an ack quorum
acked            acknowledged to the application: in a PD ledger up to the LAC; in a VD ledger the
                 LAC may be lower
LAS              last add synced: every entry up to it is synced at this bookie, or confirmed in the
                 ensemble; in a striped ledger every entry that is due at the bookie's slot. It is
                 NOT evidence that this bookie holds an entry: a LAC that came with an add raises it
                 over entries that never arrived. Ask the index
sync cursor      a bookie's LAS for a ledger, and the synced ranges after the first hole
hole             entries that are missing before others that are present
fence            a bookie's durable promise to refuse further adds of a ledger's writer
recovery         the end of a ledger whose writer is gone: fence it, read up to its last entry,
                 write that back, close it
recovery add     an add of a recovery or a repair, which a fenced ledger accepts

At a bookie
incarnation      a number of a bookie that grows with each start
cookie           a bookie's identity, kept in its directories and in the metadata store
journal          the files to which a bookie writes every change before it answers
entry log        a file with entries of many ledgers, interleaved
sealed           of an entry log: it is complete and ends with a map of its ledgers
index            the places of a ledger's entries in entry logs; a miss is evidence
checkpoint       the step that makes entry logs and index durable, so that journal files can go
limbo            the state of a ledger of which a bookie may have lost entries: it answers neither
                 that it has an entry nor that it lacks it, until its peers were asked

Above ledgers
task             the record of a ledger that lacks copies, in the metadata store
log              a named list of ledgers with one owner
owner            the only client that appends to a log
data set         a named list of versions
version          of a data set: the ledgers of all loads that are committed in it
load             a unit of ledgers that enters a data set as a whole or not at all

Source: Apache BookKeeper, "The BookKeeper protocol"; the relaxed-durability proposal.
"""

from enum import StrEnum
from typing import Final

NO_ENTRY: Final = -1
"""The id that means "no entry"."""

LEDGER_ID_MAX: Final = 2**63 - 1
ENTRY_ID_MAX: Final = 2**63 - 1


class LedgerType(StrEnum):
    """How durable an acknowledged entry is. Chosen when the ledger is created, never changed."""

    PD_JOURNAL = "PD_JOURNAL"
    """Acknowledged when an ack quorum has fsynced it."""

    VD_JOURNAL = "VD_JOURNAL"
    """Acknowledged when an ack quorum has written it to the page cache."""

    VD_BYPASS_JOURNAL = "VD_BYPASS_JOURNAL"
    """As ``VD_JOURNAL``, in entry logs only: each bookie writes an entry once."""

    @property
    def is_volatile(self) -> bool:
        """True when an acknowledged entry may be lost with page caches until it is synced."""
        return self is not LedgerType.PD_JOURNAL


class DigestType(StrEnum):
    """How the bytes of an entry are checked."""

    XXH3 = "XXH3"
    """64-bit XXH3: detects damage."""

    MAC = "MAC"
    """128-bit BLAKE2b with the ledger's password as key: detects damage and forgery."""

    NONE = "NONE"
    """No digest: the client does not detect damage."""


class LedgerState(StrEnum):
    """The state in a ledger's metadata."""

    OPEN = "OPEN"
    IN_RECOVERY = "IN_RECOVERY"
    CLOSED = "CLOSED"
