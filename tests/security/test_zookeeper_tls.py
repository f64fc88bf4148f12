"""TLS and SASL with a real ZooKeeper: whom each side trusts."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import zbk
from tests.support.zookeeper_tls import TlsServer, tls_server
from tests.support.zookeeper_users import identity_of, make_access
from zbk.cluster.zookeeper import LocalZooKeeper, ServerOptions
from zbk.config import MetadataAccess
from zbk.errors import (
    InvalidOptionError,
    KeyFileError,
    MetadataAccessError,
    MetadataUnavailableError,
    MissingDependencyError,
)
from zbk.metadata.records.instance import initialise
from zbk.metadata.stores.connect import open_store
from zbk.metadata.stores.zookeeper import ZooKeeperStore
from zbk.metadata.stores.zookeeper_address import parse_address
from zbk.metadata.stores.zookeeper_server import ask_servers

SHORT_S = 3.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with tls_server(tmp_path_factory.mktemp("tls")) as running:
        yield running


def test_a_store_works_over_tls(server: TlsServer) -> None:
    with closing(open_store(server.uri, access=server.access)) as store:
        initialise(store)
        store.create("/ledgers/L1", b"x" * 100_000)
        with closing(open_store(server.plain_uri)) as plain:
            assert plain.get("/ledgers/L1").value == store.get("/ledgers/L1").value


def test_a_client_takes_its_certificates_as_options(server: TlsServer) -> None:
    with closing(open_store(server.uri, access=server.access)) as store:
        initialise(store)
    with zbk.connect(
        server.uri,
        metadata_ca=server.ca,
        metadata_certificate=server.certificate,
        metadata_certificate_key=server.key,
    ) as client:
        assert client.list_bookies() == []


def test_a_server_of_another_authority_is_refused(server: TlsServer) -> None:
    access = MetadataAccess(
        ca=server.other_ca, certificate=server.certificate, certificate_key=server.key
    )

    with pytest.raises(MetadataUnavailableError, match="its certificate is refused"):
        open_store(server.uri, access=access, timeout_s=SHORT_S)


def test_a_server_of_another_name_is_refused(server: TlsServer) -> None:
    with pytest.raises(MetadataUnavailableError, match=r"certificate is refused.*'localhost'"):
        open_store(server.by_wrong_name, access=server.access, timeout_s=SHORT_S)


def test_without_a_file_the_authorities_of_the_machine_count(server: TlsServer) -> None:
    with pytest.raises(MetadataUnavailableError, match="its certificate is refused"):
        open_store(server.uri, access=MetadataAccess(), timeout_s=SHORT_S)


def test_a_client_without_a_certificate_is_refused(server: TlsServer) -> None:
    with pytest.raises(MetadataUnavailableError):
        open_store(server.uri, access=MetadataAccess(ca=server.ca), timeout_s=SHORT_S)


def test_files_that_are_none_are_named(server: TlsServer, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")

    for access in (
        MetadataAccess(ca=str(wrong)),
        MetadataAccess(ca=str(tmp_path / "none")),
        MetadataAccess(certificate=str(wrong), certificate_key=str(wrong)),
    ):
        with pytest.raises(KeyFileError, match=f"{tmp_path}.*cannot be used for TLS"):
            open_store(server.uri, access=access)
    with pytest.raises(InvalidOptionError, match="belong together"):
        open_store(server.uri, access=MetadataAccess(certificate=server.certificate))


def test_the_status_of_a_server_is_asked_over_tls(
    server: TlsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZBK_METADATA_CA", server.ca)
    monkeypatch.setenv("ZBK_METADATA_CERTIFICATE", server.certificate)
    monkeypatch.setenv("ZBK_METADATA_CERTIFICATE_KEY", server.key)

    (answer,) = ask_servers(parse_address(server.uri), SHORT_S)
    assert (answer.error, answer.mode) == ("", "standalone")

    monkeypatch.setenv("ZBK_METADATA_CA", server.other_ca)
    (answer,) = ask_servers(parse_address(server.uri), SHORT_S)
    assert "certificate is refused" in answer.error


@pytest.fixture(scope="module")
def sasl_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalZooKeeper]:
    pytest.importorskip("puresasl")
    folder = tmp_path_factory.mktemp("sasl")
    jaas = folder / "jaas.conf"
    jaas.write_text(
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        '  user_ann="secret of ann"\n  user_bob="secret of bob";\n};\n'
    )
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    options = ServerOptions(
        has_netty=True,  # whose classes the provider names
        java=(
            f"-Djava.security.auth.login.config={jaas}",
            f"-Dzookeeper.authProvider.sasl={provider}",
        ),
    )
    with LocalZooKeeper(folder / "zookeeper", options=options) as running:
        yield running


def sasl(folder: Path, name: str) -> MetadataAccess:
    access = make_access(folder, name)
    return MetadataAccess(user=name, password_file=access.password_file, auth="sasl")


def test_a_user_of_the_server_owns_its_tree(sasl_server: LocalZooKeeper, tmp_path: Path) -> None:
    ann, bob = sasl(tmp_path, "ann"), sasl(tmp_path, "bob")
    assert identity_of(ann) == "sasl:ann"
    with closing(ZooKeeperStore(sasl_server.uri("/sasl"), access=ann)) as store:
        initialise(store)
        assert {one.identity for one in store.grants("/ledgers")} == {"sasl:ann"}
    for access in (bob, MetadataAccess()):
        with pytest.raises(MetadataAccessError):
            ZooKeeperStore(sasl_server.uri("/sasl"), access=access)


def test_without_its_package_sasl_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "puresasl", None)

    with pytest.raises(MissingDependencyError, match=r"zbk\[sasl\]"):
        open_store("zk://127.0.0.1:1/x", access=sasl(tmp_path, "ann"))


def test_a_wrong_password_is_refused_at_once(sasl_server: LocalZooKeeper, tmp_path: Path) -> None:
    access = sasl(tmp_path, "ann")
    Path(access.password_file).write_text("guess")

    with pytest.raises(MetadataAccessError, match="refused to sasl user 'ann'"):
        ZooKeeperStore(sasl_server.uri("/sasl"), access=access)
