"""Rights in one run of six: who may do what, how that changes, and what bookies know of it.

A writer may append to its ledger, recoverers may recover it. All other clients, bookies and
autorecovery among them, are operators. A *guest* may read, and tries more (``guest``). An
*administrator* takes rights and keys away while requests are on their way, and gives most of them
back. A bookie hears of each change some time later, as a watch would tell it.

Each change makes a new *version* of the rights. The invariant, judged at each answer of a bookie:

    access    a request is refused if its principal lacked the right in every version from the one
              that the bookie knew when it took the request to the present one

A request that waits for a look-up when the bookie hears of a change is judged by that change.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from tests.simulation.kernel import Kernel
from zbk.protocol.ledger.access import LedgerAccess, Right
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.security.principals import KeyTable, Principal
from zbk.transport.inbound import Inbound, Outbound
from zbk.wire.messages import Add, Read, ReadLac, Refused, Sync, WriteLac

OPERATOR: Final = "operator"
OWNER: Final = "owner"  # of ledgers with rights; it sends nothing
RECOVERER: Final = "recoverer"
GUEST: Final = "guest"

_WRITER: Final = re.compile(r"writer\d+")
_RECOVERER: Final = re.compile(r"writer\d+\.recoverer\d+")

Held = frozenset[tuple[str, int, Right]]
"""The rights of one version: principal, ledger, right."""


class Identified(msgspec.Struct, frozen=True):
    """What a connection has proved."""

    key: str


class Rights:
    """All versions of the rights in one run."""

    def __init__(self) -> None:
        self.principals: dict[str, Principal] = {}
        self._versions: list[tuple[frozenset[str], Held]] = [(frozenset(), frozenset())]
        self.ledger_ids: list[int] = []
        self.writers: dict[int, str] = {}  # of these ledgers
        self.admit(OPERATOR, OPERATOR)
        self.admit(RECOVERER)
        self.admit(GUEST)

    # ------------------------------------------------------------------ who asks

    def identify(self, node_name: str) -> Identified:
        """Return the key of a node's connections."""
        name = OPERATOR
        if node_name == GUEST or _WRITER.fullmatch(node_name):
            name = node_name
        elif _RECOVERER.fullmatch(node_name):
            name = RECOVERER
        return Identified(f"key of {name}")

    def table(self) -> KeyTable:
        """Return the principals as they are."""
        return KeyTable(self.principals.values())

    # ------------------------------------------------------------------ changes

    @property
    def version(self) -> int:
        """The number of the present version."""
        return len(self._versions) - 1

    def admit(self, name: str, *roles: str) -> None:
        """Give a principal its key."""
        self.principals[name] = Principal(name=name, keys=(f"key of {name}",), roles=roles)
        keys, held = self._versions[-1]
        self._versions.append((keys | {name}, held))

    def remove(self, name: str) -> None:
        """Take the key of a principal away."""
        del self.principals[name]
        keys, held = self._versions[-1]
        self._versions.append((keys - {name}, held))

    def metadata_changed(self, metadata: LedgerMetadata) -> None:
        """Note the grants of a ledger, new ones or not."""
        access = metadata.known_access
        if not access.owner:
            return
        ledger_id = metadata.ledger_id
        if ledger_id not in self.writers:
            self.ledger_ids.append(ledger_id)
            self.writers[ledger_id] = next(one for one in access.grants if _WRITER.fullmatch(one))
            self._admit_new(self.writers[ledger_id])
        keys, held = self._versions[-1]
        others = frozenset(one for one in held if one[1] != ledger_id)
        own = {
            (name, ledger_id, right)
            for name, given in access.grants.items()
            for right in (*given, *((Right.READ,) if Right.RECOVER in given else ()))
        }
        if held != others | own:
            self._versions.append((keys, others | own))

    def _admit_new(self, name: str) -> None:
        if name not in self.principals:
            self.admit(name)

    def owned(
        self, make: Callable[[int], LedgerMetadata], writer: str
    ) -> Callable[[int], LedgerMetadata]:
        """Return what makes the metadata of a ledger with an owner, for a writer."""
        grants = {
            writer: (Right.APPEND, Right.READ),
            RECOVERER: (Right.RECOVER,),
            GUEST: (Right.READ,),
        }
        access = LedgerAccess(owner=OWNER, grants=dict(sorted(grants.items())))
        return lambda ledger_id: make(ledger_id).owned(access)

    # ------------------------------------------------------------------ judging

    def lacks(self, inbound: Inbound, known: "Known") -> str:
        """Return which right a principal lacks since what a bookie knew; "" if it has it."""
        request = inbound.request
        if not isinstance(request, Add | Read | ReadLac | WriteLac | Sync):
            return ""
        name, ledger_id = inbound.key.removeprefix("key of "), request.ledger_id
        if name == OPERATOR or ledger_id not in self.writers:
            return ""  # one without an owner is open to all
        right = right_of(request)
        keys = self._versions[known.keys_version :]
        grants = self._versions[known.grants_version :]
        if any(name in one for one, _held in keys) and any(
            (name, ledger_id, right) in held for _keys, held in grants
        ):
            return ""
        return f"{name} has no right to {right} in ledger {ledger_id}, as the bookie knew: {known}"


class Known(msgspec.Struct, frozen=True):
    """The versions of which a bookie knows, at least."""

    keys_version: int
    grants_version: int  # of one ledger


def right_of(request: Add | Read | ReadLac | WriteLac | Sync) -> Right:
    """Return the right that a request needs, as the documentation says."""
    match request:
        case Add(is_recovery=True) | Read(is_fencing=True) | ReadLac(is_fencing=True):
            return Right.RECOVER
        case Read() | ReadLac():
            return Right.READ
        case _:
            return Right.APPEND


class AccessOracle:
    """What one bookie knew of rights when it took each request, and how it answered."""

    def __init__(self, kernel: Kernel, rights: Rights) -> None:
        self._kernel = kernel
        self._rights = rights
        self._taken: dict[int, Known] = {}  # what it knew then, by identity of the request
        self._keys_version = self._start_version = 0
        self._grants_versions: dict[int, int] = {}
        self.restarted()

    def restarted(self) -> None:
        """Note a new life: it reads the rights as they are, and has no requests."""
        self._keys_version = self._start_version = self._rights.version
        self._grants_versions.clear()
        self._taken.clear()

    def told_keys(self) -> None:
        """Note that the bookie knows the principals as they are."""
        self._keys_version = self._rights.version

    def told_grants(self, ledger_id: int) -> None:
        """Note that the bookie knows that it has to look a ledger up."""
        self._grants_versions[ledger_id] = self._rights.version

    def received(self, inbounds: Iterable[Inbound]) -> None:
        """Note that the bookie takes requests, or has to decide again what waits."""
        for inbound in inbounds:
            ledger_id = getattr(inbound.request, "ledger_id", -1)
            version = self._grants_versions.get(ledger_id, self._start_version)
            self._taken[id(inbound)] = Known(self._keys_version, version)

    def answered(self, outbound: Outbound) -> str:
        """Return what is wrong with an answer, or ""."""
        inbound = outbound.inbound
        known = self._taken.pop(id(inbound), None)
        lacks = "" if known is None else self._rights.lacks(inbound, known)
        if not lacks:
            return ""
        if not isinstance(outbound.answer, Refused):
            return f"{lacks}; it answers {outbound.answer} to {inbound.request}"
        name = inbound.key.removeprefix("key of ")
        who = "writer" if _WRITER.fullmatch(name) else name
        self._kernel.sometimes[f"access: a {who} is refused"] += 1
        return ""
