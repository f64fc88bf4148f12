"""Autorecovery: reserved for the auditor and the replication workers."""
