"""A ZooKeeper with a TLS port, and the files that its clients need."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.certificates import Authority
from zbk.cluster.zookeeper import LocalZooKeeper, ServerOptions
from zbk.config import MetadataAccess
from zbk.system.ports import free_ports


class TlsServer(NamedTuple):
    """A server with a TLS port, and the files that clients need."""

    plain_uri: str
    uri: str
    by_wrong_name: str
    ca: str
    key: str
    certificate: str
    other_ca: str

    @property
    def access(self) -> MetadataAccess:
        return MetadataAccess(ca=self.ca, certificate=self.certificate, certificate_key=self.key)


@contextmanager
def tls_server(folder: Path) -> Iterator[TlsServer]:
    """Run a server that asks clients for a certificate."""
    authority, other = Authority(folder / "ca"), Authority(folder / "other")
    key, certificate = authority.sign("server", "IP:127.0.0.1,DNS:zookeeper")
    client_key, client_certificate = authority.sign("client", "DNS:client")
    store = folder / "server-both.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    port = free_ports(1)[0]
    options = ServerOptions(
        has_netty=True,
        configuration=(
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"secureClientPort={port}",
            f"ssl.keyStore.location={store}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={authority.certificate}",
            "ssl.trustStore.type=PEM",
            "ssl.clientAuth=need",
        ),
    )
    with LocalZooKeeper(folder / "zookeeper", options=options) as running:
        yield TlsServer(
            plain_uri=running.uri("/tls"),
            uri=f"zk+tls://127.0.0.1:{port}/tls",
            by_wrong_name=f"zk+tls://localhost:{port}/tls",
            ca=str(authority.certificate),
            key=str(client_key),
            certificate=str(client_certificate),
            other_ca=str(other.certificate),
        )
