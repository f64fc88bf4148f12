"""One long run of everything at once, on real processes: write, read, delete, collect, kill -9.

``python -m tests.soak.mixed --minutes 60 --report FILE.json``, or ``make soak-mixed MINUTES=60``.

    payloads.py   what is written: made again from a number, so that nothing has to be kept
    shelf.py      the ledgers that are there, what was promised of each, and who uses them
    workers.py    writers, readers, deleters; each a thread of the client process
    killer.py     kills bookies and starts them again
    samples.py    memory, descriptors, disk use, each 10 s; the straight line through them
    disk.py       bytes on the disks by kind, and the bytes of entries that are still wanted
    campaign.py   puts it together, ends it, and measures what is left
    report.py     the verdict: what is demanded, what was found; JSON and a table

A *violation* is an entry that was acknowledged and is not served with its bytes, or an answer that
cannot be; any one of them fails the run.
"""
