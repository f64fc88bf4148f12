"""Logs for applications: owning, reading, following and truncating them.

Read ``log`` first, then ``driver``, which carries out what ``zbk.protocol.log.owner`` decides, and
``gate``, which keeps appends in order across a roll. ``reader`` and ``tail`` read. The methods of
``Client`` are in ``zbk.client.calls``.
"""
