"""Data sets: named, versioned lists of ledgers, as bulk loads make them.

Read ``dataset`` first: versions, loads, and which ledgers are still wanted. ``manifest`` is the
format that lists a version's ledgers. Nothing here knows Spark.
"""
