"""What the files of seeds share."""

from typing import Final

CHUNK_COUNT: Final = 10
"""Tests of one file; each runs a part of its seeds."""

DAY_SEED_COUNT: Final = 60
_FIRST_DAY_SEED: Final = 10_000_000

DANGEROUS_PLACES: Final = (
    "auditor: a term begins",
    "auditor: holdings are compared",
    "auditor: the brake is applied",
    "autorecovery: a bookie is lost when all is whole",
    "autorecovery: a ledger cannot be repaired",
    "autorecovery: a process dies",
    "autorecovery: the last holder is in limbo",
    "bookie: a LAC lifts the sync cursor over a hole",
    "bookie: a claim refused",
    "bookie: a request of an earlier life refused",
    "bookie: a wrong key refused",
    "bookie: another one at the old address",
    "bookie: bit rot",
    "bookie: crash in the middle of an operation",
    "bookie: files vanish in part",
    "bookie: files of one of its directories vanish",
    "bookie: its files vanish",
    "bookie: its second journal is written",
    "bookie: one of its journals vanishes",
    "bookie: power loss of all at once",
    "bookie: refuses to start on a damaged disk",
    "bookie: refuses to start on an empty disk",
    "bookie: refuses to start without its files",
    "bookie: starts with ledgers in two directories",
    "bookie: stopped by a failed disk",
    "bookie: torn tail of the journal cut",
    "bookie: wiped on purpose",
    "bundle: cut at its limit",
    "bundle: some in one message",
    "bundle: truncated, and refused as a whole",
    "client: a ledger deleted",
    "data set: a commit is tried again",
    "data set: a commit meets an abort",
    "data set: a leftover is deleted",
    "data set: a load is aborted",
    "data set: a load whose time is over is aborted",
    "data set: a version",
    "data set: an overwrite was overtaken",
    "gc: a compaction taken up after a crash",
    "gc: a deleted ledger dropped",
    "gc: an entry log compacted",
    "gc: an entry log removed",
    "ledger: with the digest MAC",
    "ledger: with the digest NONE",
    "limbo: a bookie has left it",
    "limbo: a ledger stays in it for now",
    "limbo: a lost index is whole again",
    "limbo: cleared without a silent peer",
    "limbo: what was lost came back",
    "log: a VD ledger is synced before the next",
    "log: an orphan is deleted",
    "log: an owner loses the log",
    "log: its ledgers are VD",
    "log: rolled",
    "log: the list changed meanwhile",
    "metadata: a follower lacks a new ledger",
    "metadata: a list leaves some out",
    "metadata: a session is new",
    "metadata: overtaken between read and write",
    "metadata: reply of a change lost",
    "metadata: stale read",
    "network: a request came twice",
    "network: an old request came again",
    "outside sync: entries are durable",
    "outside sync: its bookies were replaced",
    "outside sync: tells the LAC",
    "outside sync: too few bookies",
    "network: a request waits for credit",
    "bookie: a request over the credit refused",
    "recovery: a fence is missing on exactly one bookie",
    "recovery: aborted as unknown",
    "recovery: an entry is written back",
    "recovery: changes the ensemble it writes to",
    "recovery: the recoverer dies",
    "recovery: two at once",
    "scrub: a pass has ended",
    "scrub: damage found",
    "shared client: a bug ends one writer",
    "shared client: news in the middle of a turn",
    "tail: a poll is answered with news",
    "tail: confirmed entries cannot be read for now",
    "tail: ended with its ledger",
    "tail: goes on in the next fragment",
    "worker: a bookie is replaced",
    "worker: a fragment is copied",
    "worker: a fragment is cut around what is lost",
    "worker: a ledger is fenced and recovered",
    "worker: waits for a writer",
    "writer: a close drops what it may",
    "writer: a close leaves its ledger open",
    "writer: an ensemble change meets a recovery",
    "writer: no replacement is left",
    "writer: tells its LAC while it is idle",
    "writer: the ensemble of a VD ledger was changed",
    "writer: the ensemble was changed",
)
"""Each is reached by the covering seeds, several times."""


def seeds_of_day(day: int) -> range:
    """Return the seeds that are run on a day, counted from 1970: each day has others.

    >>> seeds_of_day(1) == range(10_000_060, 10_000_120)
    True
    """
    first = _FIRST_DAY_SEED + day * DAY_SEED_COUNT
    return range(first, first + DAY_SEED_COUNT)
