"""Clusters on one machine: metadata, bookies, as processes."""
