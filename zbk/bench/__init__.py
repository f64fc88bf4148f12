"""Measuring: load against a cluster, and the floor that it is compared with."""
