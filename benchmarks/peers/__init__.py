"""Peers: other replicated logs under the load of ``zbk bench write``, for comparison.

``python -m benchmarks.peers redis|nats`` starts three servers of a public package in a temporary
folder, writes, counts the entries that the servers kept, prints the columns of ``zbk bench write``,
and removes everything. README.md says what each peer promises, and how fair a comparison is.
"""
