"""The ``zbk`` command: parse, call one function, print.

Read ``main`` first, then ``command``, which imports commands late. Each group of commands has a
folder whose ``group`` lists them. ``options``, ``output``, ``listing``, ``config_file``, ``store``
and ``session`` are shared. Commands contain no logic of their own.
"""
