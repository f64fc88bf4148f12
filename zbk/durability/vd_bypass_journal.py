"""``VD_BYPASS_JOURNAL``: as ``VD_JOURNAL``, but a bookie writes an entry once, to its entry log.

An acknowledged entry is in the page cache of an ack quorum, in entry logs. ``sync`` makes them
durable in these steps; a crash after any of them leaves what the last column says.

    step  what is done                           a restart after a loss of power
    ----  -------------------------------------  ------------------------------------------------
    1     the first add journals the ledger's    the ledger may be unknown: nothing was promised
          key; entries go to the entry log
    2     the add is answered                    finds the entries that the disk happens to have
    3     ``sync``: fsync of the logs with       finds all entries if the key is on the disk: it
          un-synced entries of the ledger, and   scans the logs from their sizes in the census
          of their names                         and the last mark on
    4     the journal gets a record of the       as after 3
          synced entries
    5     fsync of the journal, which has the    finds all of them, or notes the ledger as lost,
          key as well                            as the record shows that they must be there
    6     the cursor moves; ``sync`` is          as after 5
          answered

A ledger of some size has an entry log of its own (``zbk.storage.entry_logs.own_logs``), so that the
fsync of step 3 writes no other ledger's bytes; else it is one of the shared log, and moves the
cursors of all ledgers in there.

Fences, keys, explicit LACs and recovery adds go through the journal, as on all ledgers.

Source: BookKeeper's BP-14 plans ``WriteFlag`` for this and has no steps; these are zbk's.
"""

from zbk.durability.vd_journal import VdJournal


class VdBypassJournal(VdJournal):
    """Volatile durability, past the journal."""

    is_journaled = False
