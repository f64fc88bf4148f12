"""Data sets: named, versioned lists of ledgers, made by bulk loads.

Read ``dataset`` first: versions, loads, and the ledgers that are still wanted. ``manifest`` is the
format that lists a version's ledgers. The package does not depend on Spark.
"""
