"""Real bookies, real clients, a real ZooKeeper, real faults: ``python -m tests.chaos``.

Words: a *round* is one run of clients under faults on a cluster that lives over all rounds; it ends
with everything healed, every ledger closed and read back, and a verdict. A *role* is what a client
process does: write, read, recover. A *fault* is begun and ended by the harness; which ones come,
and when, is drawn from the seed. The processes run freely, so a seed repeats the faults, not their
every consequence: the folder of a violated round is kept instead, with the history in it.

    __main__.py          the command
    campaign.py          rounds until the time is over, and the summary
    rounds.py            one round: clients, faults, healing, the judgement
    world.py             what faults act on: the cluster and the processes of a round
    faults.py            what can be done to them, and which promise limits it
    cluster.py           bookies, metadata and client processes, and the network between them
    network.py           partitions in user space: a proxy before each bookie
    namespaces.py        partitions in network namespaces, where the machine allows it
    firewall.py          the same with a firewall at each place: loss by peer and by direction
    partitions.py        what these firewalls do to the cluster
    copies.py            the invariant of copies, where autorecovery runs
    verdict.py           kept, violated, or a harness that could not tell
    power.py             power loss: a bookie's disk is a file system that can be cut off
    client.py            the client process; client_roles.py, log_roles.py: what the roles do
    recording.py         the calls of a process as JSON lines that outlive its kill -9
    metadata_history.py  every version of every ledger's metadata, from the store's own records

The judge is ``tests/support/checker.py``, the same as the simulation's.
"""
