"""What tests do to sessions with a real ZooKeeper."""

import socket

from kazoo.client import KazooClient

from zbk.metadata.stores.zookeeper import ZooKeeperStore


def expire_session(store: ZooKeeperStore) -> None:
    """End the store's session at the server, and cut the connection so that the store finds out.

    Whoever knows a session's id and password may take it over; a second client does, and closes
    it. Then the first one's connection is cut: when it comes back, its session is gone.
    """
    client = store._connection.client
    thief = KazooClient(hosts=store._connection._place.hosts, client_id=client.client_id)
    thief.start_async().wait(10)
    thief.stop()
    thief.close()
    drop_connection(store)


def drop_connection(store: ZooKeeperStore) -> None:
    """Cut the store's connection; it comes back by itself."""
    client = store._connection.client
    if client._connection._socket.fileno() >= 0:
        client._connection._socket.shutdown(socket.SHUT_RDWR)
