"""Reading ledgers: ranges, the LAC, and ledgers that are being written.

Read ``ledger_reader`` first, what an application holds. ``read_ahead`` reads several chunks at a
time and ``read_pump`` waits for it; ``confirmed_look`` asks how far may be read; ``lac_watches``
waits for news, ``tail_body`` follows one ledger, ``tail`` and ``tail_group`` hand out what it
finds.
"""
