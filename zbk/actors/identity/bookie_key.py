"""The key of a bookie: checked at its start, shown to the cluster, and whose keys it accepts.

The public key is in the bookie's registration, where clients find it and accept no other, and in
its cookie, where it stays while the bookie is down. The principals are those in the metadata store,
followed by a watch: a change reaches the front within a moment, and ends the connections of keys
that are gone. While the store is silent, the last principals count.

Threads: the start's; the callback of the watch runs in the store's thread and does not block.
"""

from collections.abc import Callable

import msgspec

from zbk.config import BookieConfig, SecurityConfig
from zbk.config.http_address import host_of
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
        """
        self._config = config
        self._secure_listen = security.secure_listen
        self._credentials = own_credentials(security)
        check_curve(self._credentials, libzmq)

    @property
    def public_key(self) -> str:
        """The public key that clients need; "" without encryption."""
        pair, security = self._credentials.pair, self._credentials.security
        return "" if pair is None or security == "off" else pair.public_key

    def front_security(self, store: MetadataStore) -> FrontSecurity | None:
        """Return the encryption of the bookie's front; ``None`` without a key.

        Raises:
            CorruptRecordError: the record of the principals is damaged.
            MetadataUnavailableError: the store does not answer.
        """
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
        host = host_of(self._config.listen)
        any_port = f"tcp://[{host}]:0" if ":" in host else f"tcp://{host}:0"
        return FrontSecurity(pair, keys, self._secure_listen or any_port)

    def follow(
        self, store: MetadataStore, registry: BookieRegistry, bookie_id: str, front: RouterFront
    ) -> Callable[[], None]:
        """Record the key in the cookie, and follow the principals; return what ends that.

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
        watch = PrincipalStore(store).watch(lambda found: front.set_keys(KeyTable(found)))
        return watch.cancel

    def described(self, registration: BookieRegistration, front: RouterFront) -> BookieRegistration:
        """Return a registration with the key in it, and the second address if there is one."""
        if not self.public_key:
            return registration
        second = front.secure_endpoint
        if second and self._config.advertise:
            port = second.rpartition(":")[2]
            second = f"{self._config.advertise.rpartition(':')[0]}:{port}"
        return msgspec.structs.replace(
            registration, public_key=self.public_key, secure_address=second or msgspec.UNSET
        )
