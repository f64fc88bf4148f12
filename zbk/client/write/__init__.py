"""Writing ledgers: from the application's call to its future.

Read ``ledger_writer`` first, the handle of an application. Appends pass ``mailbox``; a
``writer_actor`` serves many ledgers, each with a ``writer_body`` around the pure ``WriterCore``.
``writer_requests`` and ``writer_metadata`` carry effects out, ``append_future`` and
``append_budget`` bound what is pending.
"""
