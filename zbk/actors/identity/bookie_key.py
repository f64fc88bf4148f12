"""The key of a bookie: checked at its start, shown to the cluster, and whose keys it accepts.

The public key is in the bookie's registration, where clients find it and accept no other, and in
its cookie, where it stays while the bookie is down. The principals are those in the metadata store,
followed by a watch: a change reaches the front within a moment, and ends the connections of keys
that are gone. While the store is silent, the last principals count.

Threads: the start's; the callback of the watch runs in the store's thread and does not block.
"""

from collections.abc import Callable

import msgspec

from zbk.audit.trail import AuditCounts, AuditTrail, open_trail
from zbk.config import BookieConfig, SecurityConfig
from zbk.config.http_address import host_of, is_loopback
from zbk.errors import InsecureBookieError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.principals import PrincipalStore
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import BookieRegistration
from zbk.security.credentials import own_credentials
from zbk.security.principals import KeyTable
from zbk.system.event_log import EventLog
from zbk.transport.curve import INSTALLED, Libzmq, check_curve
from zbk.transport.router import FrontSecurity, RouterFront

LOG = EventLog("zbk.bookie")


class BookieKey:
    """The key of one bookie, or its lack of one."""

    def __init__(
        self, config: BookieConfig, security: SecurityConfig, libzmq: Libzmq = INSTALLED
    ) -> None:
        """Read the key.

        Raises:
            KeyFileError: the file cannot be used.
            InvalidOptionError: the security needs a key.
            MissingDependencyError: libzmq is too old, or lacks CURVE.
            InsecureBookieError: the bookie has no key and would listen to other machines.
        """
        self._config = config
        self._is_open = not is_local(config.listen)  # other machines may reach it
        self._security = security
        self._credentials = own_credentials(security)
        check_curve(self._credentials, libzmq)
        if self.is_insecure and not security.insecure:
            raise InsecureBookieError(config.listen)

    @property
    def public_key(self) -> str:
        """The public key that clients need; "" without encryption."""
        pair, security = self._credentials.pair, self._credentials.security
        return "" if pair is None or security == "off" else pair.public_key

    @property
    def is_insecure(self) -> bool:
        """True if anyone who reaches the machine may use the bookie."""
        return self._is_open and not self.public_key

    def front_security(self, store: MetadataStore) -> FrontSecurity | None:
        """Return the encryption of the bookie's front; ``None`` without a key.

        Raises:
            CorruptRecordError: the record of the principals is damaged.
            MetadataUnavailableError: the store does not answer.
        """
        if self.is_insecure:
            LOG.warning(
                "bookie.insecure",
                "INSECURE: anyone who reaches %(listen)s can write, fence and read the ledgers of "
                "this bookie: it has no key",
                listen=self._config.listen,
            )
        pair = self._credentials.pair
        if pair is None or not self.public_key:
            return None
        keys = KeyTable(PrincipalStore(store).all())
        if not len(keys):
            LOG.warning(
                "bookie.no_principals",
                "the cluster has no principals, so this bookie admits no encrypted connection: "
                "`zbk principal add NAME --key FILE.pub` admits one",
            )
        if self._credentials.security == "required":
            return FrontSecurity(pair, keys)
        LOG.warning(
            "bookie.plain_connections",
            "%(listen)s accepts connections without encryption, of anyone, until security is "
            "required",
            listen=self._config.listen,
        )
        host = host_of(self._config.listen)
        any_port = f"tcp://[{host}]:0" if ":" in host else f"tcp://{host}:0"
        return FrontSecurity(pair, keys, self._security.secure_listen or any_port)

    def open_trail(
        self,
        bookie_id: str,
        counts: AuditCounts,
        at_end: Callable[[Callable[[], None]], None],
    ) -> AuditTrail | None:
        """Return the audit log of the bookie; ``None`` if the options name none.

        ``counts`` are those of the process.

        Raises:
            InvalidOptionError: its file cannot be written.
        """
        trail = open_trail(self._security, f"bookie {bookie_id}", counts)
        if trail is not None:
            at_end(trail.close)
        return trail

    def follow(
        self,
        store: MetadataStore,
        registry: BookieRegistry,
        bookie_id: str,
        set_keys: Callable[[KeyTable], None],
    ) -> Callable[[], None]:
        """Record the key in the cookie, and follow the principals; return what ends that.

        ``set_keys`` is told of them now, and after each change.

        Raises:
            MetadataUnavailableError: the store does not answer.
        """
        if registry.record_key(bookie_id, self.public_key):
            LOG.info(
                "bookie.key_recorded",
                "the cookie has the public key %(public_key)s from now on",
                public_key=self.public_key or "(none)",
            )
        if not self.public_key:
            return lambda: None
        watch = PrincipalStore(store).watch(lambda found: set_keys(KeyTable(found)))
        return watch.cancel

    def described(self, registration: BookieRegistration, front: RouterFront) -> BookieRegistration:
        """Return a registration with the key in it, and the second address if there is one."""
        if not self.public_key:
            is_insecure = True if self.is_insecure else msgspec.UNSET
            return msgspec.structs.replace(registration, is_insecure=is_insecure)
        second = front.secure_endpoint
        if second and self._config.advertise:
            port = second.rpartition(":")[2]
            second = f"{self._config.advertise.rpartition(':')[0]}:{port}"
        return msgspec.structs.replace(
            registration, public_key=self.public_key, secure_address=second or msgspec.UNSET
        )


def is_local(listen: str) -> bool:
    """Return whether only this machine reaches an address of ZeroMQ.

    >>> is_local("tcp://127.0.0.1:3181"), is_local("tcp://*:3181"), is_local("ipc:///run/zbk")
    (True, False, True)
    """
    return not listen.startswith("tcp://") or is_loopback(host_of(listen))
