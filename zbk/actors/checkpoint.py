"""The checkpoint actor: moves the journal's mark forward, so that old segments can go.

mailbox     CheckpointDue, from the ticker; Step results come back through the storage actor
answers     nobody
owns        the checkpoint that is under way
on failure  the bookie stops
"""
