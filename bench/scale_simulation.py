"""The scale simulation: what a load costs on a number of machines, by events in order of time, from measured figures.

A request is computed by the one process that serves its tenant. A write then waits for its tenant's group, the
group for its stream, and the stream takes all groups that wait into one round. Everything else (memory, disks,
traffic, money) is arithmetic on the same figures.

    python -m bench.scale_simulation [--docs]
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate, count
from pathlib import Path
from typing import Any

import msgspec

from bench import percentile
from bench.report import DOCS, Table, between, drawn, marked_down

PAGE = DOCS / "scale.md"
FIGURES = DOCS / "benchmarks.json"
_DAY = 86_400
_GROUP_MAX = 256
_GRAPH = "1,000,000 nodes, 3,000,000 edges: "


class Figures(msgspec.Struct, frozen=True):
    """Seconds and bytes of one thing of each kind, as measured on two cores: from rows of benchmarks.json, and for the
    stream from the constants below."""

    read: float
    """Processor time of a read over HTTP."""
    write: float
    """Processor time of a write over HTTP among many."""
    group: float
    """Processor time that a group costs besides: what a write of its own takes longer."""
    adopt: float
    """Processor time of a machine that keeps a copy: a commit verified."""
    open_entity: float
    """Of the first request to a tenant: its snapshot is read."""
    memory_entity: float
    memory_tenant: float
    log_commit: float
    snapshot_entity: float
    mirror_entity: float
    verify_commit: float
    round: float
    """What a round of the log takes, whatever it holds."""
    message: float = 0.0
    """What each group of the round adds."""
    commit: float = 0.0
    """What each further commit of a group adds."""


ROUND = 1.7e-3
MESSAGE = 104e-6
COMMIT = 27e-6
"""Bare publishes of 1 KB to three servers that sync every write, on two cores: 1, 64 and 256 writers, each on a subject
of its own, had 541, 7,646 and 8,657 a second; 64 writers of one tenant had 10,300 to 11,600 commits."""
SEALED = 36e-6
"""Processor time of a commit in a group, without a server around it: 64 writers of the files log less one."""
ELECTION = 7.4
"""The longest gap in writing after the leader was killed."""


def figures(*, replicated: bool, file: Path = FIGURES) -> Figures:
    """`replicated`: the log is a stream on three servers; otherwise a file of the machine's own."""
    told: dict[str, Any] = json.loads(file.read_text())

    def of(section: str, what: str) -> float:
        return float(next(row["measured"] for row in told[section]["rows"] if row["what"] == what))

    many = of("writes", "the same, server CPU a write, 64 clients") / 1e6
    alone = of("writes", "the same, server CPU a write, one client") / 1e6
    sync = 1 / of("core", "fdatasync of 1 KB, one after the other")
    million = 1e9 / 1e6
    return Figures(
        read=of("doors", "MCP over HTTP, in a session: CPU") / 1e6,
        write=many,
        group=alone - many,
        adopt=of("core", "verify of 1,000,000 commits") / 1e6,
        open_entity=of("scale", _GRAPH + "restart to the first answer, CPU") / 1e6,
        memory_entity=of("scale", _GRAPH + "memory of the state, after a replay") * million,
        memory_tenant=of("start", "an idle tenant of ten 1 KB nodes, open: memory") * 1e3,
        log_commit=of("scale", _GRAPH + "size on disk: log") * 1e9 / 4e6,
        snapshot_entity=of("scale", _GRAPH + "size on disk: snapshot") * million,
        mirror_entity=of("scale", _GRAPH + "size on disk: graph.db") * million,
        verify_commit=of("core", "verify of 1,000,000 commits") / 1e6,
        round=ROUND if replicated else sync,
        message=MESSAGE if replicated else 0.0,
        commit=COMMIT if replicated else 0.0,
    )


class Load(msgspec.Struct, frozen=True):
    """Either so many requests a second, whoever waits, or `clients` that ask again when they are answered."""

    tenants: int = 10_000
    entities: float = 10e6
    commits_a_day: float = 50e6
    reads_a_write: float = 7 / 3
    peak: float = 3.0
    """Times the mean of the day."""
    clients: int = 0

    @property
    def writes_a_second(self) -> float:
        return self.commits_a_day / _DAY * self.peak

    @property
    def requests_a_second(self) -> float:
        return self.writes_a_second * (1 + self.reads_a_write)

    def shares(self) -> list[float]:
        """Of each tenant, by Zipf's law: the n-th has an n-th of what the first has."""
        total = sum(1 / rank for rank in range(1, self.tenants + 1))
        return [1 / rank / total for rank in range(1, self.tenants + 1)]


class Fleet(msgspec.Struct, frozen=True):
    machines: int = 3
    processes: int = 4
    """On each machine, a core each."""
    streams: int = 1


class Outcome(msgspec.Struct):
    asked: int = 0
    answered: int = 0
    repeated: int = 0
    """Asked once more since their machine was gone."""
    reads: list[float] = []
    writes: list[float] = []
    """Seconds until the answer."""
    groups: int = 0
    busiest_process: float = 0.0
    busiest_stream: float = 0.0
    """Share of what it could do."""
    waiting_max: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.answered / self.seconds


class _Request(msgspec.Struct):
    tenant: int
    since: float
    writes: bool
    client: int


class _Process(msgspec.Struct):
    machine: int
    free: float = 0.0
    busy: float = 0.0

    def work(self, now: float, seconds: float) -> float:
        """When it is done: in the order of arrival, one at a time."""
        self.free = max(now, self.free) + seconds
        self.busy += seconds
        return self.free


class _Tenant(msgspec.Struct):
    entities: float
    waiting: list[_Request] = []
    under_way: bool = False
    opened_by: int = -1


class _Group(msgspec.Struct):
    tenant: int
    owner: int
    """The process that made it."""
    requests: list[_Request]


class _Stream(msgspec.Struct):
    waiting: list[_Group] = []
    under_way: bool = False
    stopped_until: float = 0.0
    busy: float = 0.0


class Simulation:
    """`fails_at`: a machine is gone from then on, with the server that led every stream."""

    def __init__(
        self, load: Load, fleet: Fleet, cost: Figures, *, seconds: float, seed: int = 1, fails_at: float | None = None
    ) -> None:
        self._load, self._fleet, self._cost, self._seconds = load, fleet, cost, seconds
        self._fails_at = fails_at
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._numbers = count()
        self._processes = [_Process(number // fleet.processes) for number in range(fleet.machines * fleet.processes)]
        self._alive = list(range(len(self._processes)))
        self._tenants = [_Tenant(load.entities * share) for share in load.shares()]
        self._weights = list(accumulate(load.shares()))
        self._streams = [_Stream() for _ in range(fleet.streams)]
        self._waiting = 0
        self.outcome = Outcome(reads=[], writes=[])

    def run(self) -> Outcome:
        """Until everybody is answered who asked within the time."""
        if self._fails_at is not None:
            self._at(self._fails_at, self._fail)
        for client in range(self._load.clients or 1):
            self._at(0.0, self._ask, client)
        now = 0.0
        while self._events:
            now, _, handle, arguments = heappop(self._events)
            handle(now, *arguments)
        told = self.outcome
        told.seconds = max(now, self._seconds) if not self._load.clients else self._seconds
        told.busiest_process = max(each.busy for each in self._processes) / told.seconds
        told.busiest_stream = max(each.busy for each in self._streams) / told.seconds
        return told

    def _at(self, when: float, handle: Any, *arguments: Any) -> None:
        heappush(self._events, (when, next(self._numbers), handle, arguments))

    def _ask(self, now: float, client: int) -> None:
        if now >= self._seconds:
            return
        if self._load.clients:
            tenant = client % len(self._tenants)
        else:
            (tenant,) = self._random.choices(range(len(self._tenants)), cum_weights=self._weights)
            self._at(now + self._random.expovariate(self._load.requests_a_second), self._ask, client)
        writes = self._random.random() < 1 / (1 + self._load.reads_a_write)
        self.outcome.asked += 1
        self._compute(now, _Request(tenant, now, writes, client))

    # -- the process of the tenant

    def _owner(self, tenant: int) -> int:
        return self._alive[tenant % len(self._alive)]

    def _compute(self, now: float, request: _Request) -> None:
        number = self._owner(request.tenant)
        tenant = self._tenants[request.tenant]
        seconds = self._cost.write if request.writes else self._cost.read
        if tenant.opened_by != number:
            # Those who were there at the start have them open; after a failure they are opened anew.
            seconds += tenant.entities * self._cost.open_entity if tenant.opened_by >= 0 else 0.0
            tenant.opened_by = number
        done = self._processes[number].work(now, seconds)
        self._at(done, self._join if request.writes else self._answer, request, number)

    def _join(self, now: float, request: _Request, number: int) -> None:
        if self._is_gone(now, request, number):
            return
        self._waiting += 1
        self.outcome.waiting_max = max(self.outcome.waiting_max, self._waiting)
        self._tenants[request.tenant].waiting.append(request)
        # After all who come at the same moment, as a writer's task runs after those who woke it.
        self._at(now, self._start_group, request.tenant)

    def _is_gone(self, now: float, request: _Request, number: int) -> bool:
        if number in self._alive:
            return False
        self.outcome.repeated += 1
        self._compute(now, request)
        return True

    def _answer(self, now: float, request: _Request, number: int) -> None:
        if self._is_gone(now, request, number):
            return
        self.outcome.answered += 1
        (self.outcome.writes if request.writes else self.outcome.reads).append(now - request.since)
        if self._load.clients:
            self._ask(now, request.client)

    # -- the group and its stream

    def _start_group(self, now: float, number: int) -> None:
        tenant = self._tenants[number]
        if tenant.under_way or not tenant.waiting:
            return
        group, tenant.waiting = tenant.waiting[:_GROUP_MAX], tenant.waiting[_GROUP_MAX:]
        tenant.under_way = True
        self.outcome.groups += 1
        owner = self._owner(number)
        sealed = self._processes[owner].work(now, self._cost.group)
        self._at(sealed, self._publish, _Group(number, owner, group))

    def _publish(self, now: float, group: _Group) -> None:
        stream = self._streams[group.tenant % len(self._streams)]
        stream.waiting.append(group)
        self._start_round(now, stream)

    def _start_round(self, now: float, stream: _Stream) -> None:
        if stream.under_way or not stream.waiting:
            return
        groups, stream.waiting, stream.under_way = stream.waiting, [], True
        further = sum(len(group.requests) - 1 for group in groups)
        growing = len(groups) * self._cost.message + further * self._cost.commit
        # The rest of a round is waited for once, however many share it.
        stream.busy += growing
        self._at(max(now, stream.stopped_until) + self._cost.round + growing, self._finish_round, stream, groups)

    def _finish_round(self, now: float, stream: _Stream, groups: list[_Group]) -> None:
        stream.under_way = False
        for group in groups:
            self._waiting -= len(group.requests)
            self._adopt(now, group.owner, len(group.requests))
            self._tenants[group.tenant].under_way = False
            for request in group.requests:
                self._answer(now, request, group.owner)
            self._start_group(now, group.tenant)
        self._start_round(now, stream)

    def _adopt(self, now: float, owner: int, commits: int) -> None:
        """By the first process of every other machine: it follows for all of them."""
        if self._cost.message:
            for number in self._alive:
                process = self._processes[number]
                if number % self._fleet.processes == 0 and process.machine != self._processes[owner].machine:
                    process.work(now, commits * self._cost.adopt)

    def _fail(self, now: float) -> None:
        self._alive = [number for number in self._alive if self._processes[number].machine != 0]
        for stream in self._streams:
            stream.stopped_until = now + ELECTION


def simulate(load: Load, fleet: Fleet, cost: Figures, **how: Any) -> Outcome:
    return Simulation(load, fleet, cost, **how).run()


# -- what is told


def compared() -> Table:
    """The model beside what was measured at today's size."""
    files, stream = figures(replicated=False), figures(replicated=True)
    bare = msgspec.structs.replace(stream, read=0, write=0, group=0)
    core = msgspec.structs.replace(bare, commit=COMMIT + SEALED)
    one = Fleet(machines=1, processes=1)
    cases: list[tuple[str, str, Load, Figures]] = [
        ("files, 64 clients write over HTTP", "3,321", _closed(64), files),
        ("files, one client writes over HTTP", "1,157", _closed(1), files),
        ("files, 64 clients, seven reads to three writes", "4,217", _closed(64, reads=7 / 3), files),
        ("stream, one tenant, 64 writers in the process", "10,300 to 11,600", _closed(64), core),
        ("stream, 1 tenant with a writer", "541", _closed(1), bare),
        ("stream, 16 tenants with a writer each", "2,982", _closed(16, tenants=16), bare),
        ("stream, 256 tenants with a writer each", "8,657", _closed(256, tenants=256), bare),
    ]
    rows = [
        (what, measured, f"{simulate(load, one, cost, seconds=5).rate:,.0f}") for what, measured, load, cost in cases
    ]
    return [("", "measured, a second", "simulated"), *rows]


def _closed(clients: int, *, reads: float = 0.0, tenants: int = 1) -> Load:
    return Load(tenants=tenants, entities=1_000, reads_a_write=reads, clients=clients)


FLEETS = (Fleet(1, 1), Fleet(1, 2), Fleet(1, 4), Fleet(3, 2), Fleet(3, 4), Fleet(3, 4, streams=4))
TIMES = (1, 2, 4, 8, 12, 16)
CHOSEN = Fleet(machines=3, processes=4)


def by_fleet(seconds: float) -> Table:
    cost, load = figures(replicated=True), Load()
    rows = [_row(_name(fleet), simulate(load, fleet, cost, seconds=seconds)) for fleet in FLEETS]
    return [("at the day's peak", *_HEAD), *rows]


def by_load(seconds: float) -> Table:
    """Until it does not keep up any more: then more seconds would give longer waits."""
    cost = figures(replicated=True)
    loads = [Load(commits_a_day=Load().commits_a_day * times) for times in TIMES]
    rows = [
        _row(f"{load.commits_a_day / 1e6:,.0f} M a day", simulate(load, CHOSEN, cost, seconds=seconds))
        for load in loads
    ]
    return [(f"{_name(CHOSEN)}, at the peak", *_HEAD), *rows]


def by_failure(seconds: float) -> Table:
    cost, load = figures(replicated=True), Load()
    calm = simulate(load, CHOSEN, cost, seconds=seconds)
    failed = simulate(load, CHOSEN, cost, seconds=seconds, fails_at=seconds / 3)
    return [("at the peak", *_HEAD), _row("nothing fails", calm), _row("a machine and the leader fail", failed)]


_HEAD = (
    "read p95",
    "write p50",
    "write p95",
    "write p99",
    "longest",
    "busiest process",
    "busiest stream",
    "writes a group",
)


def _name(fleet: Fleet) -> str:
    streams = f", {fleet.streams} streams" if fleet.streams > 1 else ""
    return f"{fleet.machines} machine{'s'[: fleet.machines - 1]} × {fleet.processes}{streams}"


def _row(what: str, told: Outcome) -> tuple[str, ...]:
    reads, writes = told.reads, told.writes
    waits = (percentile(reads, 95), *(percentile(writes, each) for each in (50, 95, 99)), max(*writes, *reads))
    shares = (told.busiest_process, told.busiest_stream)
    per_group = len(writes) / max(1, told.groups)
    return (what, *map(_wait, waits), *(f"{share:.0%}" for share in shares), f"{per_group:.1f}")


def _wait(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"


class Prices(msgspec.Struct, frozen=True):
    """Dollars a month, of the order that clouds ask: assumptions, to be replaced by one's own."""

    core: float = 30.0
    memory_gb: float = 4.0
    disk_gb: float = 0.08
    object_gb: float = 0.023
    traffic_gb: float = 0.02


def resources(load: Load, fleet: Fleet, cost: Figures, *, days: float, prices: Prices | None = None) -> Table:
    """What the fleet holds after so many days without a commit being forgotten."""
    price = prices or Prices()
    memory = load.entities * cost.memory_entity + load.tenants * cost.memory_tenant
    log = load.commits_a_day * cost.log_commit
    copies = 3 + fleet.machines
    disk = log * days * copies + load.entities * (cost.mirror_entity + 2 * cost.snapshot_entity)
    traffic = log * 30 * (copies - 1)
    commits = load.commits_a_day * days
    servers = 3 * 2
    money = {
        "cores": (fleet.machines * fleet.processes + servers) * price.core,
        "memory": memory * 2 / 1e9 * price.memory_gb,
        "disks": disk / 1e9 * price.disk_gb,
        "object store": log * days / 1e9 * price.object_gb,
        "traffic": traffic / 1e9 * price.traffic_gb,
    }
    return [
        ("", f"after {days:,.0f} days"),
        ("memory of all states, each in one process", f"{memory / 1e9:,.1f} GB"),
        (
            "the same where any process may serve any tenant",
            f"{memory * fleet.machines * fleet.processes / 1e9:,.0f} GB",
        ),
        ("the largest tenant", f"{load.shares()[0] * load.entities / 1e6:,.2f} M entities"),
        ("the log grows", f"{log / 1e9:,.1f} GB a day"),
        (f"disks: {copies} copies of the log, a mirror, snapshots", f"{disk / 1e12:,.2f} TB"),
        ("traffic between machines at the peak", f"{log / _DAY * load.peak * (copies - 1) / 1e6:,.1f} MB/s"),
        ("every commit verified anew, one core", f"{commits * cost.verify_commit / 3600:,.1f} h"),
        *((f"a month: {what}", f"{dollars:,.0f} $") for what, dollars in money.items()),
        ("a month together", f"{sum(money.values()):,.0f} $"),
    ]


def sections(*, seconds: float = 10.0) -> Iterator[tuple[str, Table]]:
    yield "compared", compared()
    yield "fleets", by_fleet(seconds)
    yield "growth", by_load(seconds / 2)
    yield "failure", by_failure(seconds * 4)
    cost = figures(replicated=True)
    month, year = (resources(Load(), CHOSEN, cost, days=days) for days in (30, 365))
    yield "resources", [(*first, second[1]) for first, second in zip(month, year, strict=True)]


def main(words: Sequence[str]) -> None:
    page = PAGE.read_text() if "--docs" in words else ""
    for name, table in sections():
        print(f"\n{name}\n{drawn(table)}", flush=True)
        page = between(page, name, marked_down(table)) if page else ""
    if page:
        PAGE.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
