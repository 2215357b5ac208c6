"""Regular files: found under a name that is looked for, where anybody may have put a pipe or a device.

Those would keep whoever reads waiting, or never end. What an operator names himself may be a pipe (`<(…)`).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Raises OSError, also for what is no regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(fd, "rb")


def read_regular(path: Path) -> bytes:
    """All of it. Raises OSError, also for what is no regular file."""
    with open_regular(path) as file:
        return file.read()


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """Like `read_regular`, but raise OSError for a file of more than `bytes_max` bytes."""
    with open_regular(path) as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return data


def is_at(fd: int, path: Path) -> bool:
    """Return whether the path leads to the file that is open: not to another one, and not to none."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False
