"""Who may do what with which node of ZooKeeper: one table, and one rule from a path to its rights.

Rights are letters, as in ZooKeeper's own tools: ``r`` read the value and the names of the children,
``w`` change the value, ``c`` create children, ``d`` delete children, ``a`` change the rights.

    operators   everything, everywhere
    bookies     bookies and autorecovery: register, keep cookies, repair
    clients     create, write, read and delete ledgers, logs and data sets; report missing entries
    writers     the same, but delete nothing: they cannot make bookies drop data
    auditors    read everything

A right is on one node, not on those below it, and the right to delete a node is on its parent. So
the table has a row for a folder and one for what is in it. Paths that are in no row, and the row
of a *kind* that does not name a role, are for operators (and auditors, to read) alone.

A *member* of a role is an identity as ZooKeeper has it: ``digest:NAME:HASH``, ``sasl:NAME`` or
``x509:NAME``. The record ``Members``, at ``/access``, names them; every process with a user applies
the rule to the nodes that it creates.

Decisions: only an operator creates nodes directly below the root, and so only an operator can
create the records of principals and namespaces. Clients read them: one has to know its own name,
and public keys are no secret. The step in which a client closes a ledger reports what its bookies
lack, so clients create tasks of repair, and change them; a new report of an unrepairable ledger
moves its record. Only bookies end tasks. ZooKeeper tells everyone whether a node exists, and its
size: only ``enforce.auth.enabled`` on the servers prevents that.

Pure. Source: ZooKeeper's programmer's guide, "ZooKeeper access control using ACLs".
"""

import re
from typing import Final, NamedTuple

import msgspec

from zbk.conversion import decode_json
from zbk.errors import CorruptRecordError, InvalidOptionError

ACCESS: Final = "/access"
"""The path of ``Members``."""

ALL: Final = "rwcda"
FORMAT_VERSION: Final = 1
MEMBER_COUNT_MAX: Final = 64
MEMBER_SIZE_MAX: Final = 256
EVERYONE: Final = "world:anyone"


class NodeKind(NamedTuple):
    """A row of the table: the nodes that a pattern matches, and the rights of each role."""

    name: str
    pattern: str
    bookies: str
    clients: str

    @property
    def writers(self) -> str:
        """The rights of clients, without the one to delete what is in the node."""
        return self.clients.replace("d", "")


KINDS: Final = (
    #        name                pattern                                bookies  clients
    NodeKind("root", "/", "r", "r"),
    NodeKind("members", ACCESS, "r", "r"),
    NodeKind("cluster", "/(LAYOUT|INSTANCEID)", "r", "r"),
    NodeKind("id counter", "/idgen", "r", "rw"),
    NodeKind("principals", "/principals", "r", "r"),
    NodeKind("namespaces", "/namespaces", "r", "r"),
    NodeKind("usage of namespaces", "/namespaces/[^/]+", "rw", "rw"),
    NodeKind("changes of grants", "/grants", "r", "rw"),
    NodeKind("cookies", "/cookies", "rcd", ""),
    NodeKind("cookie", "/cookies/[^/]+", "rw", ""),
    NodeKind("registrations", "/available(/readonly)?", "rcd", "r"),
    NodeKind("registration", "/available(/readonly)?/[^/]+", "rw", "r"),
    NodeKind("ledgers", "/ledgers(/.+)?", "rw", "rwcd"),
    NodeKind("logs", "/logs(/.+)?", "", "rwcd"),
    NodeKind("data sets", "/datasets(/.+)?", "", "rwcd"),
    NodeKind("repair tasks", "/underreplication/ledgers(/.+)?", "rwcd", "rwc"),
    NodeKind("unrepairable ledgers", "/underreplication/unrepairable(/.+)?", "rwcd", "rwcd"),
    NodeKind("news of repair tasks", "/underreplication/news", "rwcd", "rw"),
    NodeKind("repair", "/underreplication(/.+)?", "rwcd", "r"),
)
"""The table. Operators have ``ALL`` and auditors ``r`` on every node."""

OTHER: Final = NodeKind("other", "", "", "")
"""The kind of a path that is in no row."""

_PATTERNS: Final = [(re.compile(kind.pattern), kind) for kind in KINDS]
_MEMBER: Final = re.compile(r"(digest:[^:\s]+:[A-Za-z0-9+/]{27}=|sasl:\S+|x509:\S.*)")


class Members(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The members of each role: the record at ``ACCESS``."""

    operators: tuple[str, ...]
    bookies: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    writers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # an older zbk knows none
    auditors: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION


class Grant(msgspec.Struct, frozen=True, order=True):
    """The rights of one identity on a node."""

    identity: str
    rights: str  # in the order of ``ALL``


OPEN: Final = (Grant(EVERYONE, ALL),)
"""The rights on nodes of a cluster without members."""


def kind_of(path: str) -> NodeKind:
    """Return the kind of a node.

    >>> kind_of("/cookies/b1").name, kind_of("/else").name
    ('cookie', 'other')
    """
    for pattern, kind in _PATTERNS:
        if pattern.fullmatch(path):
            return kind
    return OTHER


def rights_on(path: str, members: Members) -> tuple[Grant, ...]:
    """Return who may do what with a node. An identity with several roles has the rights of all.

    >>> rights_on("/cookies/b1", Members(operators=("sasl:o",), bookies=("sasl:b",)))
    (Grant(identity='sasl:b', rights='rw'), Grant(identity='sasl:o', rights='rwcda'))
    """
    kind = kind_of(path)
    found: dict[str, set[str]] = {}
    for identities, rights in (
        (members.operators, ALL),
        (members.bookies, kind.bookies),
        (members.clients, kind.clients),
        (members.writers or (), kind.writers),
        (members.auditors, "r"),
    ):
        for identity in identities if rights else ():
            found.setdefault(identity, set()).update(rights)
    return tuple(sorted(Grant(one, in_order(rights)) for one, rights in found.items()))


def in_order(rights: set[str]) -> str:
    """Return rights in the order of ``ALL``."""
    return "".join(letter for letter in ALL if letter in rights)


def is_open(grants: tuple[Grant, ...]) -> bool:
    """Return whether strangers have a right: everyone, or every address of a network."""
    return any(one.rights and one.identity.startswith(("world:", "ip:")) for one in grants)


def check_members(members: Members) -> None:
    """Check that there is an operator, and that each identity is one of ZooKeeper.

    Raises:
        InvalidOptionError: it is not so.
    """
    if not members.operators:
        raise InvalidOptionError("operator", "", "a cluster needs one: give --operator")
    every = (
        *members.operators,
        *members.bookies,
        *members.clients,
        *(members.writers or ()),
        *members.auditors,
    )
    if len(every) > MEMBER_COUNT_MAX:
        raise InvalidOptionError("members", len(every), f"give {MEMBER_COUNT_MAX} at most")
    for one in every:
        if len(one) > MEMBER_SIZE_MAX or not _MEMBER.fullmatch(one):
            why = "give digest:NAME:HASH, as `zbk cluster identity` prints it, or sasl:NAME"
            raise InvalidOptionError("member", one[:MEMBER_SIZE_MAX], why)


def encode_members(members: Members) -> bytes:
    """Return the value of the record: JSON, because people read it with ZooKeeper's tools."""
    return msgspec.json.encode(members)


def decode_members(value: bytes) -> Members:
    """Return the record.

    Raises:
        CorruptRecordError: the value is none, or of another format version.
    """
    try:
        members = decode_json(value, Members)
        check_members(members)
    except (msgspec.DecodeError, InvalidOptionError) as error:
        raise CorruptRecordError(ACCESS, 0, f"is no record of members: {error}") from error
    if members.format_version != FORMAT_VERSION:
        why = f"has format version {members.format_version}, not {FORMAT_VERSION}"
        raise CorruptRecordError(ACCESS, 0, why)
    return members
