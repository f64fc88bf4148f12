"""The ``zbk`` command: parse, call one function, print.

Read ``main`` first, then ``command``, which imports commands late. Each group of commands has a
folder whose ``group`` lists them. ``options``, ``output``, ``config_file`` and ``session`` are
shared. No command holds logic of its own.
"""
