"""The disks: file systems of our own, to be filled, locked or cut off. Unmounted when the block ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from torture.arena import Arena, Skipped, needs

_SHUTDOWN = 0x8004587D
"""_IOR('X', 125, u32): XFS_IOC_GOINGDOWN, which ext4 knows as well."""
_WITHOUT_LOG_FLUSH = 2
_IMAGES = {"ext4": ("mkfs.ext4", ["-q", "-F"], "96M"), "xfs": ("mkfs.xfs", ["-q", "-f"], "320M")}


@contextmanager
def tmpfs(arena: Arena, place: Path, *, kilobytes: int) -> Iterator[Path]:
    needs("mount", "umount", root=True)
    disk = place / "disk"
    disk.mkdir()
    with _mounted(arena, ["-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs"], disk):
        yield disk


def remount(disk: Path, options: str) -> None:
    _run("mount", "-o", f"remount,{options}", str(disk))


class Image:
    """A file system in a file, behind a loop device."""

    def __init__(self, arena: Arena, place: Path, kind: str) -> None:
        program, options, size = _IMAGES[kind]
        needs(program, "mount", "umount", root=True)
        self._arena = arena
        self._kind = kind
        self._is_held = False
        self._file = place / f"{kind}.img"
        self.disk = place / kind
        self.disk.mkdir()
        with self._file.open("wb") as file:
            file.truncate(int(size[:-1]) << 20)
        _run(program, *options, str(self._file))

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        with _mounted(self._arena, ["-o", "loop", str(self._file)], self.disk):
            yield self.disk

    @contextmanager
    def held(self) -> Iterator[Path]:
        """Mounted, and mounted again as often as it was cut; whoever uses it is ended by the caller."""
        with ExitStack() as stack:
            self.mount_again()
            stack.callback(_unmount, self.disk)
            yield self.disk

    def mount_again(self) -> None:
        """After a cut: as it is when the machine starts again. A copy, since others may still look at the old one."""
        if self._is_held:  # Whether it is mounted cannot be asked of a file system that was shut down.
            _unmount(self.disk)
            after = self._file.with_suffix(f".{time.monotonic_ns()}.img")
            _run("cp", "--sparse=always", str(self._file), str(after))
            self._file = after
        self._is_held = True
        _mount(["-o", "loop,nouuid" if self._kind == "xfs" else "loop", str(self._file)], self.disk)

    def cut(self) -> None:
        """From now on nothing reaches the disk, not even what the journal of the file system holds."""
        fd = os.open(self.disk, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG_FLUSH))
        except OSError as error:
            raise Skipped(f"the file system cannot be shut down: {error.strerror}") from error
        finally:
            os.close(fd)


@contextmanager
def _mounted(arena: Arena, arguments: list[str], disk: Path) -> Iterator[None]:
    _mount(arguments, disk)
    with ExitStack() as stack:
        stack.callback(_unmount, disk)
        stack.callback(arena.end_all)
        yield


def _mount(arguments: list[str], disk: Path) -> None:
    done = subprocess.run(["mount", *arguments, str(disk)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"mounting is not permitted here: {done.stderr.strip().splitlines()[-1]}")


def _unmount(disk: Path) -> None:
    """Lazily if somebody still looks: the loop device goes with the last of them."""
    if subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode:
        with suppress(subprocess.CalledProcessError):
            _run("umount", "-l", str(disk))


def _run(program: str, *arguments: str) -> None:
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    subprocess.run([path or program, *arguments], check=True, capture_output=True)
