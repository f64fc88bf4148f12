"""TLS to the servers of ZooKeeper: whom a process trusts, and how it connects.

With ``zk+tls://`` each connection is encrypted, and the name or address in the URI must be one of
the server's certificate. Decision: kazoo's own TLS always trusts the authorities of the machine
too, and by default compares no names; here a given file of authorities is the only one trusted.

Any thread; ``connect_server`` and ``connect_tls`` block.
"""

import socket
import ssl

from zbk.config import MetadataAccess
from zbk.errors import InvalidOptionError, KeyFileError


def tls_context(access: MetadataAccess) -> ssl.SSLContext:
    """Return whom connections trust, and the certificate that they show.

    Raises:
        KeyFileError: a certificate or key cannot be used.
        InvalidOptionError: there is a certificate without a key, or the reverse.
    """
    if bool(access.certificate) != bool(access.certificate_key):
        name = "metadata_certificate_key" if access.certificate else "metadata_certificate"
        raise InvalidOptionError(name, "", "a certificate and its key belong together")
    path = access.ca
    try:
        context = ssl.create_default_context(cafile=access.ca or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if access.certificate:
            path = access.certificate
            context.load_cert_chain(access.certificate, access.certificate_key, _no_password)
    except OSError as error:  # and ssl.SSLError
        raise KeyFileError(path, f"it cannot be used for TLS: {error.strerror or error}") from error
    return context


def _no_password() -> str:
    """Fail for an encrypted key, of which OpenSSL would ask the password at the terminal."""
    raise OSError("the key is encrypted with a password: give one that is not")


def connect_tls(
    address: tuple[str, int], name: str, timeout_s: float, context: ssl.SSLContext
) -> ssl.SSLSocket:
    """Connect to a server; ``name`` must be one of its certificate.

    Raises:
        OSError: it does not answer, or its certificate is refused.
    """
    plain = socket.create_connection(address, timeout_s)
    try:
        return context.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise


def connect_server(
    host: str, port: int, timeout_s: float, context: ssl.SSLContext | None
) -> socket.socket:
    """Connect to a server, with TLS if there is a context. Raises as ``connect_tls``."""
    if context is None:
        return socket.create_connection((host, port), timeout_s)
    return connect_tls((host, port), host, timeout_s, context)


def why_failed(error: OSError) -> str:
    """Return the reason of a failed connection, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return error.strerror or str(error)
