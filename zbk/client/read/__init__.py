"""Reading ledgers: ranges, the LAC, and ledgers that are being written.

Read ``ledger_reader`` first: the application's handle. ``read_ahead`` requests several chunks at a
time and ``read_pump`` waits for them; ``confirmed_look`` asks how far may be read; ``lac_watches``
waits for LACs, ``tail_body`` follows one ledger, ``tail`` and ``tail_group`` return its entries.
``metadata_source`` reads and watches a ledger's metadata.
"""
