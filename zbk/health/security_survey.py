"""The survey of what is open: reads the metadata store, asks bookies' HTTP, looks at files.

It changes nothing. In a large tree the ``NODE_COUNT_MAX`` nodes nearest to the root are examined.
"""

import os
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from zbk.config.http_address import host_of, is_loopback
from zbk.errors import MetadataUnavailableError
from zbk.health.bookie_api import DOCUMENT_PATH, PATIENCE_S, ask_admin_apis
from zbk.health.cluster_survey import http_url
from zbk.health.endpoint_survey import api_state, survey_endpoints
from zbk.health.security_health import (
    BookieDoor,
    NodeCount,
    SecurityFacts,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.principals import PrincipalStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.node_rights import Members
from zbk.metadata.stores.sqlite_file import SQLITE_PREFIX, database_path
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.stores.tree_access import Tree, check_tree
from zbk.metadata.stores.zookeeper_address import is_zookeeper, parse_address
from zbk.metadata.stores.zookeeper_server import LOOK_TIMEOUT_S, ask_servers
from zbk.system.deadline import within
from zbk.system.exposure import Exposure, exposures_of

NODE_COUNT_MAX: Final = 10_000
"""About 6 s on a server of the same machine."""


def survey_security(
    metadata: str, paths: Iterable[str], timeout_s: float, urls: Iterable[str] = ()
) -> SecurityFacts:
    """Return what is open at the cluster at a metadata address, and of files of this machine.

    ``paths`` are files and directories that should be private, ``urls`` the addresses of the HTTP
    of processes on other machines. The store has ``timeout_s`` for each call.

    Raises:
        InvalidOptionError: the address is malformed, or no cluster is there.
        KeyFileError: the password of this process cannot be used.
    """
    exposures = _exposures(metadata, paths)
    try:
        with within(timeout_s):
            store = open_store(metadata, timeout_s=timeout_s, must_exist=True)
    except MetadataUnavailableError as error:
        return SecurityFacts(metadata=metadata, store_error=str(error), exposures=exposures)
    try:
        return _of_store(store, exposures, urls)
    except MetadataUnavailableError as error:
        return SecurityFacts(metadata=metadata, store_error=str(error), exposures=exposures)
    finally:
        store.close()


def _of_store(
    store: MetadataStore, exposures: tuple[Exposure, ...], urls: Iterable[str]
) -> SecurityFacts:
    instance = instance_id(store)  # fails where there is no cluster
    uri = store.address
    nodes, has_user = _nodes(store) if is_zookeeper(uri) else ((), False)
    bookies = _bookies(store)
    servers = ask_servers(parse_address(uri), LOOK_TIMEOUT_S) if is_zookeeper(uri) else ()
    return SecurityFacts(
        metadata=uri,
        is_zookeeper=is_zookeeper(uri),
        is_encrypted=is_zookeeper(uri) and _is_encrypted(uri),
        has_user=has_user,
        servers=tuple(servers),
        nodes=nodes,
        bookies=bookies,
        endpoints=survey_endpoints(instance, urls, [one.address for one in bookies]),
        principals=PrincipalStore(store).all(),
        exposures=exposures,
    )


def _is_encrypted(uri: str) -> bool:
    address = parse_address(uri)
    return address.is_tls or all(is_loopback(host) for host, _ in address.servers)


def _nodes(store: MetadataStore) -> tuple[tuple[NodeCount, ...], bool]:
    from zbk.metadata.stores.zookeeper import ZooKeeperStore  # noqa: PLC0415 - loads kazoo

    assert isinstance(store, ZooKeeperStore), "the store of a zk:// address"
    tree: Tree = store
    members = store.members or Members(operators=(store.own_identity,))
    counts = check_tree(tree, members, NODE_COUNT_MAX)
    found = tuple(
        NodeCount(kind=one.kind, open_count=one.open_count, differing_count=one.changed_count)
        for one in counts
    )
    return found, bool(store.own_identity)


def _bookies(store: MetadataStore) -> tuple[BookieDoor, ...]:
    registry = BookieRegistry(store)
    bookies = registry.readonly() | registry.available()
    urls = {one: url for one, found in bookies.items() if (url := http_url(found))}
    local = {one: url for one, url in urls.items() if is_loopback(urlsplit(url).hostname or "")}
    beyond = {one: url for one, url in urls.items() if one not in local}
    answers = ask_admin_apis(local, DOCUMENT_PATH, timeout_s=PATIENCE_S)
    answers |= ask_admin_apis(beyond, DOCUMENT_PATH)
    return tuple(
        BookieDoor(
            bookie_id=found.bookie_id,
            address=found.address,
            security=found.security,
            is_local=is_loopback(host_of(found.address)),
            public_key=found.public_key or "",
            http=urls.get(one, ""),
            http_state=api_state(answers[one], is_local=one in local) if one in urls else "",
        )
        for one, found in sorted(bookies.items())
    )


def _exposures(metadata: str, paths: Iterable[str]) -> tuple[Exposure, ...]:
    every = [path for path in paths if path]
    if metadata.startswith(SQLITE_PREFIX):
        every.append(database_path(metadata))
    found = [one for path in every for one in exposures_of(path, os.geteuid())]
    return tuple({one.path: one for one in found}.values())
