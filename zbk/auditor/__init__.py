"""Autorecovery: the auditor finds what is lost, workers and operators make it whole again."""
