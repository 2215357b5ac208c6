"""Whether a directory lies on an encrypted volume, as far as the kernel tells; nothing is opened or changed."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_GET_POLICY = 0xC0096616
"""FS_IOC_GET_ENCRYPTION_POLICY_EX of Linux."""
_DEPTH_MAX = 8


def encryption_of(path: Path, devices: Path = Path("/sys/dev/block")) -> str | None:
    """How it is encrypted; empty where it is not by this machine, None where that cannot be told."""
    if _has_policy(path):
        return "fscrypt"
    number = path.stat().st_dev
    device = devices / f"{os.major(number)}:{os.minor(number)}"
    if not device.exists():
        return None
    return "dm-crypt" if _is_crypt(device, _DEPTH_MAX) else ""


def _is_crypt(device: Path, depth: int) -> bool:
    """A logical volume may lie on an encrypted one: all that it lies on must be."""
    try:
        if (device / "dm" / "uuid").read_text().startswith("CRYPT-"):
            return True
    except OSError:
        pass
    below = sorted((device / "slaves").glob("*"))
    return bool(below) and depth > 0 and all(_is_crypt(each, depth - 1) for each in below)


def _has_policy(path: Path) -> bool:
    argument = bytearray((24).to_bytes(8, "little") + bytes(24))
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.ioctl(descriptor, _GET_POLICY, argument)
    except OSError as error:
        return error.errno == errno.EOVERFLOW
    finally:
        os.close(descriptor)
    return True
