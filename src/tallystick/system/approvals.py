"""Files that the user approved, by their path and the hash of their bytes.

The record is private to the user and lies outside every repository and base: files that come with a clone or an
archive cannot approve themselves, and agents cannot approve them by the tools that write files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.system.private_files import FILE_MODE, make_directory, replacing
from tallystick.system.regular_files import read_bounded

_RECORD_BYTES_MAX = 4 << 20
_OTHERS_WRITE = 0o022


def read_approvals(record: Path) -> dict[str, str]:
    """Path → hash. A record that other users could have written approves nothing."""
    try:
        status = record.stat()
        if status.st_mode & _OTHERS_WRITE or status.st_uid != os.geteuid():
            return {}
        return msgspec.json.decode(read_bounded(record, _RECORD_BYTES_MAX), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def is_approved(record: Path, path: Path, sha256: str) -> bool:
    return read_approvals(record).get(key_of(path)) == sha256


def write_approvals(record: Path, approvals: Mapping[str, str]) -> None:
    """Replace the record. Raises OSError."""
    make_directory(record.parent)
    with replacing(record) as file:
        os.fchmod(file.fileno(), FILE_MODE)
        file.write(msgspec.json.encode(dict(approvals)))


def key_of(path: Path) -> str:
    """The name of a file in the record. Links to its directory are resolved, but a file that is itself a link is not
    the file that it leads to: that one was approved for its own directory."""
    return os.path.join(os.path.realpath(path.parent), path.name)


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()
