"""What leaves the house, encrypted: AES-256-GCM with a key of its own for every object.

    TSB1 | id of the key, 8 bytes | salt, 16 | nonce, 12 | ciphertext and tag

The key of an object is derived from ours and the salt, so that however many objects there are, no key and nonce come
twice. The header and the object's name are authenticated with it: an object under another name is refused.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tallystick.config import Settings
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.system.private_files import check_outside, check_private, make_directory, replacing

COMMAND_SECONDS = 30.0
MAGIC = b"TSB1"
_WRITTEN = "tallystick-backup-key-1:"
_ID, _SALT, _NONCE, _SECRET = 8, 16, 12, 32
_HEADER = len(MAGIC) + _ID + _SALT + _NONCE
SEALING_BYTES = _HEADER + 16
"""The bytes that sealing adds: the header and the tag."""


class BackupKey(msgspec.Struct, frozen=True):
    secret: bytes

    def __repr__(self) -> str:
        return f"BackupKey({self.id})"

    @classmethod
    def generate(cls) -> BackupKey:
        return cls(secrets.token_bytes(_SECRET))

    @property
    def id(self) -> str:
        return self._derived(b"id")[:_ID].hex()

    def written(self) -> str:
        return _WRITTEN + b64encode(self.secret).decode()

    def name_of(self, digest: str) -> str:
        """Of an object: whoever sees names must not be able to tell whether a text that they know is among them."""
        return hmac.new(self._derived(b"names"), digest.encode(), sha256).hexdigest()

    def seal(self, name: str, data: bytes) -> bytes:
        header = MAGIC + bytes.fromhex(self.id) + secrets.token_bytes(_SALT + _NONCE)
        return header + self._cipher(header).encrypt(header[-_NONCE:], data, header + name.encode())

    def open(self, name: str, sealed: bytes) -> bytes:
        """Raises Corrupt."""
        header = sealed[:_HEADER]
        try:
            return self._cipher(header).decrypt(header[-_NONCE:], sealed[_HEADER:], header + name.encode())
        except (InvalidTag, ValueError):
            raise Corrupt(
                f"{name} cannot be decrypted: it was altered, or is not what was stored under this name",
                code="BACKUP_DAMAGED",
                hint="nothing was changed; take another backup: 'tallystick backup list'",
            ) from None

    def _cipher(self, header: bytes) -> AESGCM:
        salt = header[len(MAGIC) + _ID : -_NONCE]
        return AESGCM(HKDF(SHA256(), 32, salt, b"tallystick backup object").derive(self.secret))

    def _derived(self, purpose: bytes) -> bytes:
        return HKDF(SHA256(), 32, None, b"tallystick backup " + purpose).derive(self.secret)


class BackupKeys(msgspec.Struct, frozen=True):
    """The newest is the last: it encrypts, and all of them decrypt. Without any, nothing is encrypted."""

    keys: tuple[BackupKey, ...] = ()

    @property
    def newest(self) -> BackupKey | None:
        return self.keys[-1] if self.keys else None

    def open(self, name: str, data: bytes) -> bytes:
        """Decrypt and authenticate. Without any keys, data that is not encrypted is returned as it is; with keys it is
        refused. Raises InvalidArgument without the key, and Corrupt."""
        if not data.startswith(MAGIC):
            if self.keys:
                raise not_encrypted(name)
            return data
        wanted = data[len(MAGIC) : len(MAGIC) + _ID].hex()
        return self.find(wanted).open(name, data)

    def find(self, wanted: str) -> BackupKey:
        for key in self.keys:
            if key.id == wanted:
                return key
        have = ", ".join(key.id for key in self.keys) or "none"
        raise InvalidArgument(
            f"it is encrypted with key {wanted}, and the keys here are: {have}",
            code="BACKUP_KEY_MISSING",
            hint="name the file with that key by --key or 'backup_key'; old backups need the keys of their time",
        )


def not_encrypted(name: str) -> Corrupt:
    return Corrupt(
        f"{name} is not encrypted, and keys were given: anybody who writes to the store may have made it",
        code="BACKUP_NOT_ENCRYPTED",
        hint="take a backup that is encrypted; one of a time before there was a key is read without keys",
    )


def load_backup_keys(settings: Settings, file: Path | None = None) -> BackupKeys:
    """Of the file given, else as the settings say; none where nothing is said. Raises InvalidArgument."""
    if file is None and settings.backup_key and settings.backup_key_command:
        raise _refused("backup_key and backup_key_command each name keys", "leave one of them")
    if file is None and settings.backup_key_command:
        return parse_backup_keys(_printed(settings.backup_key_command), "backup_key_command")
    path = file or (Path(settings.backup_key) if settings.backup_key else None)
    if path is None:
        return BackupKeys()
    path = path.expanduser().absolute()
    _check_outside(path, settings)
    try:
        check_private(path, path.stat(), "BACKUP_KEY_INVALID")
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise _refused(f"the key file {path} cannot be read: {error.strerror}", _MAKE) from None
    return parse_backup_keys(text, str(path))


def parse_backup_keys(text: str, source: str) -> BackupKeys:
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if not lines:
        raise _refused(f"there is no key in {source}", _MAKE)
    return BackupKeys(tuple(_parsed(line, source) for line in lines))


def add_backup_key(settings: Settings, path: Path) -> Sequence[BackupKey]:
    """A new one behind those that are there; it is the one that encrypts from now on. A crash leaves the old file."""
    path = path.expanduser().absolute()
    _check_outside(path, settings)
    known = load_backup_keys(settings, path).keys if path.exists() else ()
    keys = (*known, BackupKey.generate())
    try:
        make_directory(path.parent)
        with replacing(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("".join(f"{key.written()}\n" for key in keys).encode())
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from None
    return keys


def _check_outside(path: Path, settings: Settings) -> None:
    check_outside(path, settings.base, "a disk that is lost takes the key along", code="BACKUP_KEY_INVALID")


_MAKE = "'tallystick backup new-key FILE' makes one"


def _parsed(line: str, source: str) -> BackupKey:
    try:
        secret = b64decode(line.removeprefix(_WRITTEN), validate=True) if line.startswith(_WRITTEN) else b""
    except ValueError:
        secret = b""
    if len(secret) != _SECRET:
        raise _refused(f"{source} holds a line that is no key", f"a key a line; {_MAKE}")
    return BackupKey(secret)


def _printed(command: str) -> str:
    """What it prints is never told, whatever goes wrong."""
    try:
        ran = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False
        )
    except (subprocess.TimeoutExpired, OSError, ValueError):
        raise _refused("backup_key_command could not be run", "run it by hand to see why") from None
    if ran.returncode:
        raise _refused(f"backup_key_command left with {ran.returncode}", "run it by hand to see why")
    return ran.stdout.decode("utf-8", "replace")


def _refused(problem: str, hint: str) -> InvalidArgument:
    return InvalidArgument(problem, code="BACKUP_KEY_INVALID", hint=hint)
