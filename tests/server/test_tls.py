"""HTTPS with certificate files."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import signal
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tallystick.errors import InvalidArgument
from tallystick.server.http import http_app, run_http
from tallystick.server.tls import tls_context
from tests.promises import promise
from tests.server.sample import offer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cert.pem and key.pem for 127.0.0.1, both.pem with both, locked.pem with an encrypted key, other.pem a key."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = _certificate()
    plain = _pem(key, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(plain)
    (folder / "both.pem").write_bytes(plain + certificate)
    (folder / "locked.pem").write_bytes(_pem(key, serialization.BestAvailableEncryption(b"secret")))
    (folder / "other.pem").write_bytes(_pem(ec.generate_private_key(ec.SECP256R1()), serialization.NoEncryption()))
    return folder


@promise("OWASP API8, TLS", "TLS 1.3 and nothing older")
@pytest.mark.parametrize(("certificate", "key"), [("cert.pem", "key.pem"), ("both.pem", "")])
async def test_it_is_served_over_tls_1_3_and_nothing_older(files: Path, certificate: str, key: str) -> None:
    context = tls_context(str(files / certificate), str(files / key) if key else "")
    announced: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(
        run_http(
            http_app(offer()),
            host="127.0.0.1",
            port=0,
            announce=lambda host, port: announced.set_result((host, port)),
            tls=context,
        )
    )
    host, port = await announced
    trusting = ssl.create_default_context(cafile=str(files / "cert.pem"))
    async with httpx2.AsyncClient(verify=trusting, timeout=None) as http:
        assert (await http.get(f"https://{host}:{port}/health")).status_code == 200
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, port, ssl=trusting)
    os.kill(os.getpid(), signal.SIGTERM)
    await running


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        ("missing.pem", "key.pem"),
        ("cert.pem", "missing.pem"),
        ("cert.pem", "other.pem"),
        ("cert.pem", "locked.pem"),
        ("key.pem", "key.pem"),
        ("cert.pem", ""),
    ],
)
def test_files_that_do_not_fit_are_named_and_nothing_is_asked_of_the_terminal(
    files: Path, certificate: str, key: str
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        tls_context(str(files / certificate), str(files / key) if key else "")
    assert refusal.value.code == "TLS_INVALID"
    assert certificate in refusal.value.message


def _certificate() -> tuple[ec.EllipticCurvePrivateKey, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate.public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey, lock: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
