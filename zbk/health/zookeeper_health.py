"""What is wrong with the versions of ZooKeeper's servers. Pure."""

from collections.abc import Iterator, Sequence

from zbk.health.finding import Finding, counted, named
from zbk.metadata.stores.zookeeper_server import SOUND_VERSIONS, ServerAnswer


def of_outdated(servers: Sequence[ServerAnswer]) -> Iterator[Finding]:
    """Yield a finding if servers have versions with known flaws of security."""
    outdated = [one for one in servers if one.is_outdated]
    if outdated:
        names = named([f"{one.address} has {one.version}" for one in outdated])
        yield Finding(
            kind="zookeeper-outdated",
            what=f"{counted(len(outdated), 'server')} of ZooKeeper with an old version: {names}",
            consequence="it has known flaws of security",
            command=f"upgrade ZooKeeper to {SOUND_VERSIONS}, or a later version",
            subjects=tuple(one.address for one in outdated),
        )
