"""What of a cluster is open: facts, and one rule for each thing that an attacker could use. Pure.

Each finding is a problem, so that a script can trust the exit code of ``zbk cluster
check-security``. There is none where every bookie requires keys, the metadata store is closed, HTTP
beyond loopback and actions have tokens, no console is on the network, principals have one key each,
and the files of this machine are private.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from zbk.health.finding import Finding, counted, named
from zbk.health.zookeeper_health import of_outdated
from zbk.metadata.stores.zookeeper_server import ServerAnswer
from zbk.security.principals import Principal
from zbk.system.exposure import Exposure

OPEN_API: Final = "open"
TOKENLESS: Final = "tokenless"
ACTIONS: Final = "actions"
SILENT: Final = "silent"

_BY_EVERY_USER: Final = (
    "every user of this machine can delete ledgers there, with the key of the process"
)
_UNKNOWN: Final = "what it lets others do is not known"


class NodeCount(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of one kind in ZooKeeper."""

    kind: str
    open_count: int
    differing_count: int  # with other rights than their members'


class BookieDoor(msgspec.Struct, frozen=True, kw_only=True):
    """How a registered bookie can be reached."""

    bookie_id: str
    address: str
    security: str  # of its registration: insecure, off, allowed or required
    is_local: bool  # only this machine reaches it
    public_key: str = ""
    http: str = ""  # the URL
    http_state: str = ""  # as ``EndpointDoor.state``


class EndpointDoor(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP of autorecovery, or of a console."""

    process: str  # its kind, as ``/version`` has it
    url: str
    is_local: bool  # only this machine reaches it
    state: str = ""
    """Of the admin API, asked without a token: ``OPEN_API`` and ``TOKENLESS`` beyond loopback,
    ``ACTIONS`` where it changes things, ``SILENT``: no answer in time; "": none of them."""
    has_page_actions: bool = False  # of a console


class SecurityFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster, and of the files of this machine."""

    metadata: str
    store_error: str = ""  # then nothing else of the cluster is known
    is_zookeeper: bool = False
    is_encrypted: bool = False  # the connection to ZooKeeper, or it does not leave the machine
    has_user: bool = False  # of ZooKeeper
    servers: tuple[ServerAnswer, ...] = ()  # of ZooKeeper
    nodes: tuple[NodeCount, ...] = ()
    bookies: tuple[BookieDoor, ...] = ()
    endpoints: tuple[EndpointDoor, ...] = ()
    principals: tuple[Principal, ...] = ()
    exposures: tuple[Exposure, ...] = ()


def findings(facts: SecurityFacts) -> list[Finding]:
    """Return everything that is open."""
    found = [*_of_store(facts), *_of_files(facts)]
    if not facts.store_error:
        found += [*_of_bookies(facts), *_of_http(facts), *_of_silent_bookies(facts)]
        found += [*_of_endpoints(facts), *_of_principals(facts)]
    return found


def _of_store(facts: SecurityFacts) -> Iterator[Finding]:
    if facts.store_error:
        yield Finding(
            kind="store-unreachable",
            what=facts.store_error,
            consequence="nothing is known of the cluster",
            command="give the user of an operator or an auditor, or start the metadata store",
        )
        return
    if not facts.is_zookeeper:
        return
    open_count = sum(one.open_count for one in facts.nodes)
    if open_count:
        kinds = [f"{one.kind} {one.open_count:,}" for one in facts.nodes if one.open_count]
        yield Finding(
            kind="zookeeper-open",
            what=f"{counted(open_count, 'node')} of ZooKeeper open to everyone: {named(kinds)}",
            consequence="who reaches ZooKeeper can delete ledgers, or add principals",
            command="`zbk cluster secure`, after each process has a metadata_user",
            subjects=tuple(one.kind for one in facts.nodes if one.open_count),
        )
    differing = [one for one in facts.nodes if one.differing_count > one.open_count]
    if differing and facts.has_user:
        yield Finding(
            kind="zookeeper-rights",
            what="nodes of ZooKeeper with other rights than their members have: "
            + named([f"{one.kind} {one.differing_count:,}" for one in differing]),
            consequence="a former member may still change them",
            command="`zbk cluster secure`",
            subjects=tuple(one.kind for one in differing),
        )
    yield from of_outdated(facts.servers)
    if not facts.is_encrypted:
        yield Finding(
            kind="zookeeper-plain",
            what="the connections to ZooKeeper are not encrypted",
            consequence="who sees the network reads metadata and passwords",
            command="a TLS port in ZooKeeper, and zk+tls:// in the address",
        )


def _of_bookies(facts: SecurityFacts) -> Iterator[Finding]:
    for is_local, who, where in (
        (False, "anyone on the network", "to other machines "),
        (True, "every user of this machine", ""),
    ):
        group = [one for one in facts.bookies if one.is_local is is_local]
        without = tuple(one.bookie_id for one in group if one.security in ("off", "insecure"))
        if without:
            yield Finding(
                kind="bookie-local" if is_local else "bookie-open",
                what=f"{counted(len(without), 'bookie')} {where}without a key: {named(without)}",
                consequence=f"{who} can read, write and fence ledgers there",
                command="`zbk key generate`, and the bookie's --key",
                subjects=without,
            )
    allowed = tuple(one.bookie_id for one in facts.bookies if one.security == "allowed")
    if allowed:
        yield Finding(
            kind="bookie-allowed",
            what=f"{counted(len(allowed), 'bookie')} with security = allowed: {named(allowed)}",
            consequence="connections without encryption and without a key work, too",
            command="security = required, after each client has a key",
            subjects=allowed,
        )


def _of_http(facts: SecurityFacts) -> Iterator[Finding]:
    for state, kind, what, consequence in (
        (OPEN_API, "http-open", "an open admin API", "other machines can use it"),
        (TOKENLESS, "http-without-token", "HTTP", "other machines can read metrics and health"),
        (ACTIONS, "http-actions", "actions", _BY_EVERY_USER),
    ):
        found = tuple(one.bookie_id for one in facts.bookies if one.http_state == state)
        if not found:
            continue
        where = "" if state == ACTIONS else " beyond loopback"
        listen = "" if state == ACTIONS else "--http 127.0.0.1:PORT, or "
        end = "" if state == ACTIONS else " and a firewall"
        yield Finding(
            kind=kind,
            what=f"{counted(len(found), 'bookie')} with {what}{where} and no token: {named(found)}",
            consequence=consequence,
            command=f"{listen}--http-token-file{end}",
            subjects=found,
        )


def _of_silent_bookies(facts: SecurityFacts) -> Iterator[Finding]:
    silent = tuple(one.bookie_id for one in facts.bookies if one.http_state == SILENT)
    if silent:
        yield Finding(
            kind="http-silent",
            what=f"{counted(len(silent), 'bookie')} whose HTTP does not answer: {named(silent)}",
            consequence=_UNKNOWN,
            command="`zbk cluster check-security` again, when they are less busy",
            subjects=silent,
        )


def _of_endpoints(facts: SecurityFacts) -> Iterator[Finding]:
    for one in facts.endpoints:
        who = f"{one.process} at {one.url}"
        if one.process == "console" and not one.is_local:
            yield Finding(
                kind="console-open",
                what=f"{who} is reached by other machines, and its pages have no login",
                consequence="they can read names, sizes and states of all ledgers",
                command="--http 127.0.0.1:PORT, and a proxy with authentication before it",
                subjects=(one.url,),
            )
        elif not one.is_local:
            yield Finding(
                kind="endpoint-open",
                what=f"{who} is reached by other machines, and has no token",
                consequence="they can read its metrics and health",
                command="--http 127.0.0.1:PORT",
                subjects=(one.url,),
            )
        if one.state == OPEN_API:
            yield Finding(
                kind="endpoint-api",
                what=f"{who} has an open admin API beyond loopback and no token",
                consequence="other machines can use it, with the key of this process",
                command="--http 127.0.0.1:PORT, and --http-token-file",
                subjects=(one.url,),
            )
        if one.state == SILENT:
            yield Finding(
                kind="endpoint-silent",
                what=f"{who} does not answer",
                consequence=_UNKNOWN,
                command="`zbk cluster check-security` again, when it is less busy",
                subjects=(one.url,),
            )
        if one.has_page_actions or one.state == ACTIONS:
            pages = one.has_page_actions
            yield Finding(
                kind="endpoint-actions",
                what=f"{who} has actions{' on its pages' if pages else ' and no token'}",
                consequence=_BY_EVERY_USER,
                command="run it without --allow-actions" if pages else "--http-token-file",
                subjects=(one.url,),
            )


def _of_principals(facts: SecurityFacts) -> Iterator[Finding]:
    used = {one.public_key for one in facts.bookies if one.public_key}
    for one in facts.principals:
        if len(one.keys) < 2:
            continue
        unused = [key for key in one.keys if key not in used]
        is_known = 0 < len(unused) < len(one.keys)
        which = f", of which no bookie uses {unused[0]}" if is_known else ""
        yield Finding(
            kind="principal-two-keys",
            what=f"principal {one.name} has {len(one.keys)} keys{which}",
            consequence="the key that was replaced still works",
            command=f"`zbk principal rm {one.name} --key OLD.pub`",
            subjects=(one.name,),
        )
    keys = {key for one in facts.principals for key in one.keys}
    strange = tuple(one.bookie_id for one in facts.bookies if one.public_key not in {"", *keys})
    if strange:
        yield Finding(
            kind="bookie-unknown",
            what=f"{counted(len(strange), 'bookie')} with a key of no principal: {named(strange)}",
            consequence="other bookies refuse it, and whose it is is not known",
            command="`zbk principal add NAME --key FILE.pub --role bookie`, or stop it",
            subjects=strange,
        )


def _of_files(facts: SecurityFacts) -> Iterator[Finding]:
    for one in facts.exposures:
        yield Finding(
            kind="file-exposed",
            what=f"{one.path} {one.why}",
            consequence="other users of this machine can read or replace it",
            command=one.remedy,
            subjects=(one.path,),
        )
