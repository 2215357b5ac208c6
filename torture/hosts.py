"""Hosts: network namespaces behind an Ethernet switch of our own, whose links can be cut, slow or lossy.

The switch is a process that passes frames between TAP devices. So a fault is the same whatever the kernel was built
with (netem is often missing), may hold for one direction of one link, and no address is used outside of the run:
whoever looks on has a namespace too, which this process enters.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import random
import select
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from pathlib import Path

from torture.arena import Arena, Skipped, needs

_TUN = Path("/dev/net/tun")
_TUNSETIFF = 0x400454CA
_IFF_TAP_NO_PI = 0x1002
_CLONE_NEWNET = 0x40000000
_FRAME_BYTES_MAX = 65_536
_MTU = 9_000
_libc = ctypes.CDLL(None, use_errno=True)


class Hosts:
    """`count` machines and, behind the last port of the switch, whoever looks on."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.names = [f"tally{os.getpid()}-{number}" for number in range(count + 1)]
        self._links = mmap.mmap(-1, 16 * (count + 1) ** 2)

    def address(self, number: int) -> str:
        return f"10.87.0.{number + 1}"

    def prefix(self, number: int) -> list[str]:
        """In front of a command that is to run there. Not `ip netns exec`, which would keep mounts of its own."""
        return ["nsenter", f"--net=/run/netns/{self.names[number]}"]

    def cut(self, one: int, other: int) -> None:
        self._set(one, other, loss=1.0)

    def cut_off(self, number: int) -> None:
        """From the other hosts: who looks on still sees it."""
        for other in range(self.count):
            if other != number:
                self.cut(number, other)

    def hamper(self, *, delay_seconds: float, loss: float) -> None:
        """All links between hosts, each way."""
        for one in range(self.count):
            for other in range(one):
                self._set(one, other, loss=loss, delay_seconds=delay_seconds)

    def heal(self) -> None:
        self._links[:] = bytes(len(self._links))

    def _set(self, one: int, other: int, *, loss: float, delay_seconds: float = 0.0) -> None:
        for source, target in ((one, other), (other, one)):
            struct.pack_into("dd", self._links, 16 * (source * (self.count + 1) + target), loss, delay_seconds)

    def link(self, source: int, target: int) -> tuple[float, float]:
        loss, delay = struct.unpack_from("dd", self._links, 16 * (source * (self.count + 1) + target))
        return loss, delay


@contextmanager
def hosts(arena: Arena, place: Path, count: int = 3) -> Iterator[Hosts]:
    """This process is in the namespace of whoever looks on until the block ends, and so is all that it starts."""
    needs("ip", "nsenter", root=True)
    made = Hosts(count)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    taps: list[int] = []
    try:
        for number, name in enumerate(made.names):
            _ip("netns", "add", name)
            taps.append(_tap(made, number))
        arena.fork(lambda: _Switch(made, taps, arena.seed).run(), stderr=place / "switch.stderr")
        _enter(Path("/run/netns", made.names[-1]))
        yield made
    finally:
        _set_namespace(home)
        os.close(home)
        arena.end_all()
        for tap in taps:
            os.close(tap)
        for name in made.names:
            with suppress(Skipped):
                _ip("netns", "del", name)


def _tap(made: Hosts, number: int) -> int:
    if not _TUN.exists():
        raise Skipped(f"there is no {_TUN}")
    device, name = f"ts{os.getpid() % 100_000}-{number}", made.names[number]
    fd = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TAP_NO_PI))
        _ip("link", "set", device, "netns", name)
        _ip("-n", name, "link", "set", device, "address", _mac(number).hex(":"), "mtu", str(_MTU))
        _ip("-n", name, "address", "add", f"{made.address(number)}/24", "dev", device)
        for each in (device, "lo"):
            _ip("-n", name, "link", "set", each, "up")
    except OSError as error:
        os.close(fd)
        raise Skipped(f"no network device can be made here: {error.strerror}") from error
    except Skipped:
        os.close(fd)
        raise
    return fd


def _mac(number: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, number + 1])


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _enter(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        _set_namespace(fd)
    finally:
        os.close(fd)


def _set_namespace(fd: int) -> None:
    """Of this thread. Python has a name for it from 3.12 on."""
    if _libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a network namespace cannot be entered")


class _Switch:
    def __init__(self, made: Hosts, taps: Sequence[int], seed: int) -> None:
        self._hosts = made
        self._taps = taps
        self._random = random.Random(seed)
        self._late: list[tuple[float, int, int, bytes]] = []
        self._passed = 0
        self._targets = {_mac(number): (number,) for number in range(len(taps))}

    def run(self) -> None:
        waiting = select.epoll()
        for tap in self._taps:
            waiting.register(tap, select.EPOLLIN)
        sources = {tap: number for number, tap in enumerate(self._taps)}
        while True:
            pause = max(0.0, self._late[0][0] - time.monotonic()) if self._late else -1
            for tap, _ in waiting.poll(pause):
                self._pass_on(sources[tap], os.read(tap, _FRAME_BYTES_MAX))
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, target, frame = heappop(self._late)
                self._send(target, frame)

    def _pass_on(self, source: int, frame: bytes) -> None:
        everybody = tuple(number for number in range(len(self._taps)) if number != source)
        for target in self._targets.get(frame[:6], everybody):
            loss, delay = self._hosts.link(source, target)
            if loss and self._random.random() < loss:
                continue
            if delay:
                self._passed += 1
                heappush(self._late, (time.monotonic() + delay, self._passed, target, frame))
            else:
                self._send(target, frame)

    def _send(self, target: int, frame: bytes) -> None:
        # As a switch does whose port is full: whoever sent it sends it again.
        with suppress(BlockingIOError, OSError):
            os.write(self._taps[target], frame)
