"""Who we are to NATS servers, and who they are: certificates, passwords, credentials files."""

from __future__ import annotations

import datetime
import ipaddress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.extensions.cluster.client import Servers
from tallystick.extensions.cluster.jetstream_log import JetStreamLog
from tests.commits_by_hand import append, draft, node
from tests.log.jetstream_logs import place_of
from tests.log.nats_identities import USER, Identities, Signer
from tests.nats_cluster import Cluster, running
from tests.promises import promise
from tests.timeouts import wait_until

needs_nkeys = pytest.mark.skipif(
    find_spec("nkeys") is None, reason="the package nkeys could not be built: pip install -r tests/log/nkeys.txt"
)


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


@promise("§5.3, stream", "TLS with a certificate of our own, and credentials files")
def test_tls_with_an_authority_of_our_own_and_a_certificate_of_ours(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate
    tls = f'cert_file: "{cert}", key_file: "{key}", ca_file: "{cert}", verify: true'
    with running(tmp_path / "nats", tls=tls) as servers:
        urls = tuple(url.replace("nats://", "tls://") for url in servers.url.split(","))
        shown = {"urls": urls, "tls_ca": cert, "tls_cert": cert, "tls_key": key}
        assert written(servers, tmp_path / "base", **shown) == 1
        monkeypatch.setattr("tallystick.extensions.cluster.membership.START_SECONDS", 0.5)
        with pytest.raises(StorageRefused, match="cannot be reached"):
            written(servers, tmp_path / "trusts nobody", urls=urls, tls_cert=cert, tls_key=key)


def test_a_name_and_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path / "nats", extra="authorization { user: ann, password: secret }") as servers:
        urls = tuple(url.replace("nats://", "nats://ann:secret@") for url in servers.url.split(","))
        assert written(servers, tmp_path / "base", urls=urls) == 1
        monkeypatch.setattr("tallystick.extensions.cluster.membership.START_SECONDS", 0.5)
        with pytest.raises(StorageRefused) as caught:
            written(servers, tmp_path / "nobody", urls=tuple(servers.url.split(",")))
        assert "secret" not in str(caught.value)


# -- credentials


def test_a_credentials_file_is_shown_and_signed_with(tmp_path: Path) -> None:
    identities = Identities()
    creds = tmp_path / "user.creds"
    creds.write_text(identities.credentials())
    with running(tmp_path / "nats", extra=identities.configured()) as servers:
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


# -- NKeys


@needs_nkeys
def test_the_seed_of_an_nkey_is_signed_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user, stranger = Signer(USER), Signer(USER)
    seed, other = tmp_path / "user.nk", tmp_path / "other.nk"
    seed.write_text(f"{user.seed}\n")
    other.write_text(stranger.seed)
    with running(tmp_path / "nats", extra=f"authorization {{ users: [ {{ nkey: {user.public} }} ] }}") as servers:
        assert written(servers, tmp_path / "base", nkey=seed) == 1
        monkeypatch.setattr("tallystick.extensions.cluster.membership.START_SECONDS", 2.0)

        def is_told_why() -> bool:
            with pytest.raises(StorageRefused) as caught:
                written(servers, tmp_path / "stranger", nkey=other)
            assert caught.value.code == "LOG_UNREACHABLE"
            assert stranger.seed not in caught.value.message
            return "Authorization Violation" in caught.value.message

        wait_until(is_told_why)


@needs_nkeys
@pytest.mark.parametrize(
    "content", ["", "nonsense", "SUAAAA", "UCUNXY6RW24CCPCT5DTL5OSHSQCLVOYGP3MCDYRPSGBAATCGF5HHGBOJ", "\x00\xff"]
)
def test_a_file_that_holds_no_seed_is_refused_without_showing_it(
    nats_server: Cluster, tmp_path: Path, content: str
) -> None:
    seed = tmp_path / "user.nk"
    seed.write_text(content)
    with pytest.raises(InvalidArgument) as caught:
        written(nats_server, tmp_path / "base", nkey=seed)
    assert caught.value.code == "SETTING_INVALID"
    assert str(seed) in caught.value.message
    assert not content or content not in caught.value.message
    assert "log_nkey" in str(caught.value.hint)


def test_an_nkey_without_its_package_is_refused_with_what_to_install(
    nats_server: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.extensions.cluster.credentials.find_spec", lambda name: None)
    with pytest.raises(InvalidArgument) as caught:
        written(nats_server, tmp_path / "base", nkey=tmp_path / "user.nk")
    assert (caught.value.code, caught.value.hint) == ("EXTRA_MISSING", "install it with: pip install nkeys")
