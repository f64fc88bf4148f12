"""Quorums for Hypothesis: small ones, where everything that can go wrong does."""

from hypothesis import strategies as st

from zbk.protocol.ledger.quorum import Quorum

quorums = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)).map(
    lambda sizes: Quorum(*sorted(sizes, reverse=True))
)
"""Any sizes up to 5, striped or not."""

unstriped_quorums = st.tuples(st.integers(1, 5), st.integers(1, 5)).map(
    lambda sizes: Quorum(max(sizes), max(sizes), min(sizes))
)
"""Every slot holds every entry."""
