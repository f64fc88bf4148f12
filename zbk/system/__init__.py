"""The only package that calls the operating system.

Read ``files`` (the port to the file system) and ``clock`` first. ``deadline`` is the time limit of
a call, ``interrupts`` keeps Ctrl-C from what it would break. ``direct_inbox``, ``light_inbox``,
``ticker`` and ``wakeup`` serve threads and actors. The other modules wrap single facilities of
Linux: descriptors, memory, sockets, processes.
"""
