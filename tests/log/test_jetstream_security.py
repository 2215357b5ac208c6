"""Who we are to NATS servers, and who they are: certificates, passwords, credentials files."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.log.jetstream import JetStreamLog
from tallystick.log.jetstream.client import Servers
from tests.commits_by_hand import append, draft, node
from tests.log.jetstream_logs import place_of
from tests.nats_cluster import Cluster, running

OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3


def written(cluster: Cluster, base: Path, **servers: Any) -> int:
    """The position after a write as one who shows this to the servers."""
    urls = servers.pop("urls", tuple(cluster.url.split(",")))
    log = JetStreamLog(place_of(cluster, base, stream="tally-0", servers=Servers(urls, **servers)), "default")
    try:
        append(log, draft(node("accepted")))
        return log.head().lamport
    finally:
        log.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nats")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, private


def test_tls_with_an_authority_of_our_own_and_a_certificate_of_ours(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate
    tls = f'cert_file: "{cert}", key_file: "{key}", ca_file: "{cert}", verify: true'
    with running(tmp_path / "nats", tls=tls) as servers:
        urls = tuple(url.replace("nats://", "tls://") for url in servers.url.split(","))
        shown = {"urls": urls, "tls_ca": cert, "tls_cert": cert, "tls_key": key}
        assert written(servers, tmp_path / "base", **shown) == 1
        monkeypatch.setattr("tallystick.log.jetstream.membership.START_SECONDS", 0.5)
        with pytest.raises(StorageRefused, match="cannot be reached"):
            written(servers, tmp_path / "trusts nobody", urls=urls, tls_cert=cert, tls_key=key)


def test_a_name_and_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path / "nats", extra="authorization { user: ann, password: secret }") as servers:
        urls = tuple(url.replace("nats://", "nats://ann:secret@") for url in servers.url.split(","))
        assert written(servers, tmp_path / "base", urls=urls) == 1
        monkeypatch.setattr("tallystick.log.jetstream.membership.START_SECONDS", 0.5)
        with pytest.raises(StorageRefused) as caught:
            written(servers, tmp_path / "nobody", urls=tuple(servers.url.split(",")))
        assert "secret" not in str(caught.value)


# -- credentials, as an operator's tool makes them


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def encoded(raw: bytes) -> str:
    return base64.b32encode(raw + crc16(raw).to_bytes(2, "little")).decode().rstrip("=")


class Signer:
    def __init__(self, kind: int) -> None:
        self.key = Ed25519PrivateKey.generate()
        self._kind = kind
        self.public = encoded(bytes([kind]) + self.key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        prefix = bytes([SEED | self._kind >> 5, (self._kind & 31) << 3])
        return encoded(prefix + self.key.private_bytes_raw())

    def jwt(self, subject: Signer, name: str, said: dict[str, Any]) -> str:
        claims = {"jti": name, "iat": 1_700_000_000, "iss": self.public, "name": name, "sub": subject.public}
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, {**claims, "nats": {"version": 2, **said}}]
        body = ".".join(b64(json.dumps(part).encode()) for part in parts)
        return f"{body}.{b64(self.key.sign(body.encode()))}"


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


UNLIMITED = dict.fromkeys(
    [
        "subs",
        "data",
        "payload",
        "imports",
        "exports",
        "conn",
        "leaf",
        "mem_storage",
        "disk_storage",
        "streams",
        "consumer",
    ],
    -1,
) | {"wildcards": True}


def test_a_credentials_file_is_shown_and_signed_with(tmp_path: Path) -> None:
    operator, system, account, user = Signer(OPERATOR), Signer(ACCOUNT), Signer(ACCOUNT), Signer(USER)
    said = {"type": "account", "limits": UNLIMITED, "default_permissions": {"pub": {}, "sub": {}}}
    system_limits = {
        name: UNLIMITED[name] for name in ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "wildcards")
    }
    configured = f"""
operator: {operator.jwt(operator, "operator", {"type": "operator", "system_account": system.public})}
system_account: {system.public}
resolver: MEMORY
resolver_preload {{
  {system.public}: {operator.jwt(system, "SYS", {**said, "limits": system_limits})}
  {account.public}: {operator.jwt(account, "memory", said)}
}}
"""
    permits = {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
    creds = tmp_path / "user.creds"
    creds.write_text(
        "-----BEGIN NATS USER JWT-----\n"
        f"{account.jwt(user, 'tallystick', permits)}\n"
        "------END NATS USER JWT------\n\n"
        "-----BEGIN USER NKEY SEED-----\n"
        f"{user.seed}\n"
        "------END USER NKEY SEED------\n"
    )
    with running(tmp_path / "nats", extra=configured) as servers:
        assert written(servers, tmp_path / "base", credentials=creds) == 1


@pytest.mark.parametrize(
    "content", ["", "nonsense", "-----BEGIN USER NKEY SEED-----\nSUAAAA\n------END USER NKEY SEED------"]
)
def test_credentials_that_are_none_are_refused_without_showing_them(
    nats_server: Cluster, tmp_path: Path, content: str
) -> None:
    creds = tmp_path / "user.creds"
    creds.write_text(content)
    with pytest.raises(InvalidArgument) as caught:
        written(nats_server, tmp_path / "base", credentials=creds)
    assert caught.value.code == "SETTING_INVALID"
    assert "SUAAAA" not in caught.value.message
