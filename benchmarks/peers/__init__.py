"""Peers: other replicated logs under the load of ``zbk bench write``, for comparison.

``python -m benchmarks.peers redis|nats`` starts three servers of a public package in a temporary
folder, writes, asks the server what it kept, prints the columns of ``zbk bench write``, and leaves
nothing behind. What each peer promises, and how fair that makes a comparison: README.md beside.
"""
