"""The server's certificate."""

from __future__ import annotations

import ssl

from tallystick.errors import InvalidArgument


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.3 with the PEM files given. Raises InvalidArgument naming what is wrong with them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # Without a password of its own OpenSSL would ask the terminal for one, and wait.
        context.load_cert_chain(certificate, key or None, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"cannot serve TLS with {certificate} and {key or 'no key'}: {error}",
            code="TLS_INVALID",
            hint="both files are PEM, the key is not encrypted and belongs to the certificate",
        ) from error
    return context
