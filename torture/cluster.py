"""Three hosts, each with a NATS server and a Tallystick process, one memory, and what happens to hosts and links.

All of them write all the time: entities of their own, entities that all want, work that all claim. After each fault
they must go on by themselves. At the end of a round every machine's copy is opened and held against what was
acknowledged, the copies must be equal byte by byte, also that of a machine which has nothing but the stream, and the
history of the entities that all wrote must be linearizable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.nats_cluster import Cluster, Node, make_cluster
from torture import checker, disks, journal, sharing
from torture.arena import Arena, Life, Skipped, Tally, needs
from torture.hosts import Hosts, hosts
from torture.kills import enter
from torture.writer import Plan

STREAM = "tally-0"
HOSTS = 3
_CLIENTS = 7
_FAULTS = 3
_PATIENCE_SECONDS = 120.0
"""For what goes on by itself: longer than an election on a busy machine, so that only what hangs takes it."""


class Ground:
    """One round: the hosts, their servers, and who writes there."""

    def __init__(self, arena: Arena, place: Path, net: Hosts, cluster: Cluster, tally: Tally) -> None:
        self.arena = arena
        self.place = place
        self.net = net
        self.cluster = cluster
        self.tally = tally
        self.bases = [place / f"base{number}" for number in range(HOSTS)]
        self.wraps: list[list[str]] = [net.prefix(number) for number in range(HOSTS)]
        self.clocks = [0.0] * HOSTS
        self.settings: dict[str, Any] = {
            "log_url": cluster.url,
            "log_monitor": [f"http://{node.host}:{node.monitor_port}" for node in cluster.nodes],
        }
        self._lives: dict[int, tuple[Plan, Life]] = {}
        self._numbers = [count() for _ in range(HOSTS)]

    # -- who writes

    def write_on(self, number: int, wrap: list[str] | None = None) -> None:
        """A new process of this host."""
        name = f"host{number}life{next(self._numbers[number])}"
        path = self.place / f"{name}.journal"
        plan = Plan(
            str(self.bases[number]),
            str(path),
            name,
            "sharing",
            self.arena.seed,
            _CLIENTS,
            self.settings,
            clock_seconds=self.clocks[number],
        )
        life = self.arena.start(plan, wrap=[*self.wraps[number], *(wrap or ())])
        self._lives[number] = plan, life

    def kill_writer(self, number: int) -> None:
        self._lives.pop(number)[1].kill()

    def wait_for_end(self, number: int) -> None:
        """Of a process that is to end by what was done to it; after a while it is helped."""
        plan, life = self._lives.pop(number)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not life.is_over() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not life.is_over():
            self._wrong(f"{plan.name} was to be killed as it wrote, and was not")
        life.kill()

    def told(self, number: int) -> int:
        """How much the process of this host was acknowledged so far."""
        return journal.told(Path(self._lives[number][0].journal))

    def all_go_on(self, *, more: int = 5) -> None:
        """Every process is told more, or it is noted as wrong."""
        wanted = {number: self.told(number) + more for number in self._lives}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while wanted and time.monotonic() < deadline:
            wanted = {number: enough for number, enough in wanted.items() if self.told(number) < enough}
            if over := [number for number in wanted if self._lives[number][1].is_over()]:
                return self._wrong(f"host {over[0]}'s process ended by itself: {self._last_words(over[0])}")
            time.sleep(0.05)
        for number in wanted:
            self._wrong(f"host {number} did not go on by itself: {self._last_words(number)}")

    def _last_words(self, number: int) -> str:
        path = Path(self._lives[number][0].journal)
        said = path.with_suffix(".stderr").read_text(errors="replace").strip().splitlines()[-3:]
        refusals = [note.text for note in journal.read(path) if note.kind == "refused"][-3:]
        return " | ".join([*said, *refusals])

    def _wrong(self, what: str) -> None:
        self.tally.wrong += 1
        self.tally.problems.append(what)

    # -- servers

    def leader(self) -> Node:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = self.cluster.leader(STREAM)
            if found is not None:
                return found
            time.sleep(0.1)
        raise AssertionError("the stream has no leader")

    def number_of(self, node: Node) -> int:
        return self.cluster.nodes.index(node)

    def some_follower(self) -> Node:
        leader = self.leader()
        return self.arena.random.choice([node for node in self.cluster.nodes if node is not leader])

    def suffer(self, longest: float) -> None:
        time.sleep(self.arena.random.uniform(0.2, 1.0) * longest)

    # -- the look at the end

    def examine(self) -> None:
        for number in list(self._lives):
            self.kill_writer(number)
        self.net.heal()
        self.cluster.start()
        notes = [note for path in sorted(self.place.glob("*.journal")) for note in journal.read(path)]
        newcomer = self.place / "newcomer"
        for base in (*self.bases, newcomer):
            enter(checker.check(base, notes, **self.settings), self.tally)
        copies = [log_bytes(base) for base in (*self.bases, newcomer)]
        for number, copy in enumerate(copies):
            if copy != copies[0]:
                self._wrong(f"copy {number} differs: {len(copy)} bytes, not {len(copies[0])}")
        for problem in sharing.problems_of(notes):
            self._wrong(problem)


def log_bytes(base: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((base / "_system" / "log").glob("*.jsonl")))


@contextmanager
def ground(arena: Arena, place: Path, tally: Tally, *, disk: Path | None = None) -> Iterator[Ground]:
    """`disk`: where the server of host 0 keeps its files, if not beside the others'."""
    with hosts(arena, place, HOSTS) as net:
        cluster = make_cluster(
            place / "servers",
            nodes=HOSTS,
            hosts=[net.address(number) for number in range(HOSTS)],
            prefixes=[net.prefix(number) for number in range(HOSTS)],
        )
        if disk is not None:
            cluster.nodes[0].store.symlink_to(disk, target_is_directory=True)
        with ExitStack() as stack:
            stack.callback(cluster.stop)
            cluster.start()
            yield Ground(arena, place, net, cluster, tally)


Fault = Callable[[Ground], None]


def suffering(fault: Fault) -> Callable[[Arena, Tally], None]:
    """Rounds in which a fault happens a few times while all write."""

    def run(arena: Arena, tally: Tally) -> None:
        for place in arena.rounds(tally):
            with ground(arena, place, tally) as g:
                _live_through(g, fault)

    return run


def _live_through(g: Ground, fault: Fault) -> None:
    for number in range(HOSTS):
        g.write_on(number)
    g.all_go_on()
    for _ in range(1 if g.arena.quick else _FAULTS):
        fault(g)
        g.tally.faults += 1
        g.all_go_on()
    g.examine()


# -- servers that end


def kill_leader(g: Ground) -> None:
    _kill(g, [g.leader()])


def kill_follower(g: Ground) -> None:
    _kill(g, [g.some_follower()])


def kill_all(g: Ground) -> None:
    _kill(g, g.cluster.nodes)


def _kill(g: Ground, nodes: list[Node]) -> None:
    for node in nodes:
        node.kill()
    g.suffer(6.0)
    for node in nodes:
        node.start()
    g.cluster.wait_until_healthy()


def stale_leader(g: Ground) -> None:
    """It stands still while the others elect another, and then goes on as if nothing had been."""
    leader = g.leader()
    leader.pause()
    g.suffer(14.0)
    leader.go_on()
    g.cluster.wait_until_healthy()


# -- processes of ours that end


def kill_writer(g: Ground) -> None:
    """At any moment, also between what the servers stored and what its copy has."""
    number = g.arena.random.randrange(HOSTS)
    g.suffer(1.0)
    g.kill_writer(number)
    g.write_on(number)


def kill_before_adopting(arena: Arena, tally: Tally) -> None:
    """SIGKILL as a group is written into the copy: it is in the stream by then."""
    needs("strace")

    def fault(g: Ground) -> None:
        number = g.arena.random.randrange(HOSTS)
        g.kill_writer(number)
        segment = g.bases[number] / "_system" / "log" / f"{1:020d}.jsonl"
        when = g.arena.random.randint(3, 60)
        inject = f"inject=write,pwrite64,writev:signal=SIGKILL:when={when}"
        wrap = [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-P",
            str(segment),
            "-e",
            "trace=write,pwrite64,writev",
            "-e",
            inject,
        ]
        g.write_on(number, wrap)
        g.wait_for_end(number)
        g.write_on(number)

    suffering(fault)(arena, tally)


# -- clocks


def clocks_apart(arena: Arena, tally: Tally) -> None:
    """By minutes, from the start on; one that ends begins again with another."""
    for place in arena.rounds(tally):
        with ground(arena, place, tally) as g:
            g.clocks = [_some_minutes(g) for _ in range(HOSTS)]
            _live_through(g, _set_clock)


def _set_clock(g: Ground) -> None:
    number = g.arena.random.randrange(HOSTS)
    g.suffer(4.0)
    g.kill_writer(number)
    g.clocks[number] = _some_minutes(g)
    g.write_on(number)


def _some_minutes(g: Ground) -> float:
    return g.arena.random.uniform(-8.0, 8.0) * 60


# -- links


def cut_minority(g: Ground) -> None:
    """The leader with the writer beside it on one side, the other two on the other."""
    g.net.cut_off(g.number_of(g.leader()))
    g.suffer(14.0)
    g.net.heal()


def cut_in_ring(g: Ground) -> None:
    """One link alone: two hosts do not hear each other, and the third hears both."""
    one, other = g.arena.random.sample(range(HOSTS), 2)
    g.net.cut(one, other)
    g.suffer(10.0)
    g.net.heal()


def cut_all(g: Ground) -> None:
    for number in range(HOSTS):
        g.net.cut_off(number)
    g.suffer(8.0)
    g.net.heal()


def slow_and_lossy(g: Ground) -> None:
    delay, loss = g.arena.random.uniform(0.005, 0.06), g.arena.random.uniform(0.005, 0.05)
    g.net.hamper(delay_seconds=delay, loss=loss)
    g.suffer(12.0)
    g.net.heal()


# -- disks


def full_disk(arena: Arena, tally: Tally) -> None:
    """Of one server; then there is room again, and it is started anew."""
    for place in arena.rounds(tally):
        with disks.tmpfs(arena, place, kilobytes=64_000) as disk, ground(arena, place, tally, disk=disk) as g:
            _live_through(g, partial(_fill, disk=disk))


def _fill(g: Ground, *, disk: Path) -> None:
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass
    except OSError:
        pass
    g.suffer(8.0)
    filler.unlink()
    node = g.cluster.nodes[0]
    node.kill()
    node.start()
    g.cluster.wait_until_healthy()


def power_cut(arena: Arena, tally: Tally) -> None:
    """Of one host: its server's files and its copy of the log lie on a file system that is shut down."""
    needs("unshare", root=True)
    for place in arena.rounds(tally):
        image = disks.Image(arena, place, arena.random.choice(("ext4", "xfs")))
        with image.held() as disk, ground(arena, place, tally, disk=disk) as g:
            g.bases[0] = disk / "base"
            _boot(g)
            _live_through(g, partial(_cut_power, image=image))


def _cut_power(g: Ground, *, image: disks.Image) -> None:
    g.suffer(1.0)
    image.cut()
    g.kill_writer(0)
    g.cluster.nodes[0].kill()
    image.mount_again()
    _boot(g)
    g.cluster.nodes[0].start()
    g.cluster.wait_until_healthy()
    g.write_on(0)


def _boot(g: Ground) -> None:
    """Host 0 was started anew, though the kernel was not: its boot id is covered by another."""
    said = g.place / "boot_id"
    said.write_text(f"{uuid4()}\n")
    cover = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    g.wraps[0] = [*g.net.prefix(0), "unshare", "--mount", "sh", "-c", cover, str(said)]


def damaged_stream(g: Ground) -> None:
    """A byte of a block of one server, changed while it is down."""
    node = g.some_follower()
    node.kill()
    blocks = sorted(node.store.rglob(f"streams/{STREAM}/msgs/*.blk"))
    if not blocks:
        raise Skipped("the server keeps its messages in files of another name")
    block = g.arena.random.choice(blocks)
    data = bytearray(block.read_bytes())
    data[g.arena.random.randrange(len(data))] ^= 0x20
    block.write_bytes(data)
    node.start()
    g.cluster.wait_until_healthy()
