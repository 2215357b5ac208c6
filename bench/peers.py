"""Our server and the official memory server, both over stdio, asked the same by the same client.

server-memory (npm) reads its whole file at every call and, to write, puts a new one in its place, without a sync.
Ours keeps an index in memory, appends to a log, and answers a write when it would survive a power cut.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench import Row, percentile, say
from bench.bases import fill
from bench.processes import Server, program, tallystick
from bench.talking import Lines, call_line
from tallystick.commits import Operation, Verb
from tallystick.state.ontology import define_node_type, define_ontology

SIZES = (100, 1_000, 10_000, 50_000)
PEER = "server-memory"
HERE = Path(__file__).parent
NODE = HERE / "node_modules/.bin/node"
SCRIPT = HERE / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
TEAM = 10
"""How many entities a search finds, at every size."""
WHATS = ("create", "get", "search", "search for a part", "search by regex", "relate")
FLAT = 1.5
TIMES_LESS = 20
PARTS = 5
DOORSTEP = 10
"""Calls before those that count."""


def run(quick: bool = False) -> list[Row]:
    if not (NODE.exists() and SCRIPT.exists()):
        raise SystemExit("the peer is not installed: cd bench && npm ci")
    sizes = SIZES[:3] if quick else SIZES
    patience = Patience(40, 1.0, 5) if quick else Patience(500, 15.0, 40)
    measured = {}
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        for size in sizes:
            measured[size] = _measure(Path(folder) / str(size), size, patience)
    return [*_curves(measured), *_growths(measured), *_against_targets(measured[sizes[-1]], sizes[-1])]


class Patience(msgspec.Struct, frozen=True):
    calls: int
    seconds: float
    at_least: int


class Cost(msgspec.Struct, frozen=True):
    p50: float
    p95: float
    cpu: float


Costs = dict[str, tuple[Cost, Cost]]
"""By what was asked: ours and theirs."""


def _measure(folder: Path, size: int, patience: Patience) -> Costs:
    say(f"{size:,} entities: filling both")
    team = f"Is a member of team {random.Random(size).randrange(size // TEAM)}."
    with ExitStack() as running:
        theirs = Theirs(running.enter_context(_server_memory(_fill_theirs(folder / "theirs", size))), size)
        ours = Ours(running.enter_context(tallystick(_fill_ours(folder / "ours", size))), size)
        _check_alike(ours, theirs, size, team)
        costs: Costs = {}
        for what in ("get", "search", "search by regex", "create", "relate"):
            say(f"{size:,} entities: {what}")
            costs[what] = ours.cost(what, patience), theirs.cost(what, patience)
    say(f"{size:,} entities: search for a part")
    with tallystick(_fill_typed(folder / "typed", size), "--toolsets", "ontology") as server:
        typed = Typed(server, size)
        assert len(typed.found(team)) == TEAM
        # The peer's question is the same as before: it was measured above.
        costs["search for a part"] = typed.cost("search for a part", patience), costs["search by regex"][1]
    return costs


def _server_memory(file: Path) -> Any:
    return program([str(NODE), str(SCRIPT)], {"MEMORY_FILE_PATH": str(file)}, working=file.parent)


class Side(ABC):
    """One server under measurement."""

    def __init__(self, server: Server, size: int) -> None:
        self._server = server
        self._size = size
        self._ids = itertools.count(1)
        self._fresh = itertools.count(size)
        self._random = random.Random(5)
        self.lines = Lines(server)
        self.lines.begin()
        server.settle()

    def cost(self, what: str, patience: Patience) -> Cost:
        lines = (call_line(1_000 + number, *self._call(what)) for number in itertools.count())
        ready = list(itertools.islice(lines, DOORSTEP + patience.calls))
        self.lines.time_calls(ready[:DOORSTEP], seconds=patience.seconds / 5)
        self._server.settle(seconds=0.2)
        costs: list[float] = []
        taken: list[float] = []
        each = patience.calls // PARTS
        for part in range(PARTS):
            calls = ready[DOORSTEP + part * each :][:each]
            cpu, times = self._timed(calls, patience)
            costs.append(cpu / len(times))
            taken += times
        # The middle one of the parts, since the machine has other things to do now and then.
        return Cost(percentile(taken, 50), percentile(taken, 95), median(costs))

    def _timed(self, calls: list[bytes], patience: Patience) -> tuple[float, list[float]]:
        times: list[float] = []
        limits = {"seconds": patience.seconds / PARTS, "at_least": patience.at_least // PARTS}
        cpu = self._server.cpu_of(lambda: times.extend(self.lines.time_calls(calls, **limits)))
        return cpu, times

    def _call(self, what: str) -> tuple[str, dict[str, Any]]:
        number = self._random.randrange(self._size)
        return self.calls()[what](number)

    @abstractmethod
    def calls(self) -> dict[str, Callable[[int], tuple[str, dict[str, Any]]]]:
        """What to say for each kind of call, given a number."""


class Ours(Side):
    def calls(self) -> dict[str, Callable[[int], tuple[str, dict[str, Any]]]]:
        return {
            "create": lambda _: ("memory.write", {"op": "UPSERT_NODE", "node": _node(next(self._fresh), self._size)}),
            "get": lambda number: ("memory.read", {"entity_id": _name(number), "include_edges": True}),
            "search": lambda number: ("memory.search", {"attrs": {"observations": _team(number, self._size)}}),
            "search by regex": lambda number: (
                "memory.search",
                {"attrs": {"observations": {"regex": _team_part(number, self._size).replace(".", r"\.")}}},
            ),
            "relate": lambda number: ("memory.write", {"op": "UPSERT_EDGE", "edge": self._new_edge(number)}),
        }

    def _new_edge(self, number: int) -> dict[str, str]:
        return {"from": _name(number), "rel": f"met in {next(self._ids)}", "to": _name(number * 7 % self._size)}

    def found(self, team: str) -> set[str]:
        answer = self.lines.call("memory.search", {"attrs": {"observations": team}})
        return {entity["id"] for entity in answer["entities"]}

    def observations(self, name: str) -> list[str]:
        answer = self.lines.call("memory.read", {"entity_id": name, "include_edges": True})
        assert answer["edges"]
        said: list[str] = answer["entity"]["attrs"]["observations"]
        return said


class Typed(Side):
    """Ours again, the sentences as the content of typed memories: that is what is searched for parts of texts."""

    def calls(self) -> dict[str, Callable[[int], tuple[str, dict[str, Any]]]]:
        return {
            "search for a part": lambda number: ("search_content", {"query": _team_part(number, self._size)}),
        }

    def found(self, team: str) -> set[str]:
        return set(self.lines.call("search_content", {"query": team})["node_ids"])


class Theirs(Side):
    def calls(self) -> dict[str, Callable[[int], tuple[str, dict[str, Any]]]]:
        return {
            "create": lambda _: ("create_entities", {"entities": [entity(next(self._fresh), self._size)]}),
            "get": lambda number: ("open_nodes", {"names": [_name(number)]}),
            "search": lambda number: ("search_nodes", {"query": _team(number, self._size)}),
            "search by regex": lambda number: ("search_nodes", {"query": _team_part(number, self._size)}),
            "relate": lambda number: ("create_relations", {"relations": [self._new_relation(number)]}),
        }

    def _new_relation(self, number: int) -> dict[str, str]:
        source, target = _name(number), _name(number * 7 % self._size)
        return {"from": source, "relationType": f"met in {next(self._ids)}", "to": target}

    def found(self, team: str) -> set[str]:
        return {each["name"] for each in self.lines.call("search_nodes", {"query": team})["entities"]}

    def observations(self, name: str) -> list[str]:
        answer = self.lines.call("open_nodes", {"names": [name]})
        assert answer["relations"]
        said: list[str] = answer["entities"][0]["observations"]
        return said


def _check_alike(ours: Ours, theirs: Theirs, size: int, team: str) -> None:
    """Before anything is timed: both hold the same and find the same."""
    assert ours.found(team) == theirs.found(team)
    assert len(ours.found(team)) == TEAM
    for number in (0, size // 2, size - 1):
        assert ours.observations(_name(number)) == theirs.observations(_name(number))


# -- the rows


def _curves(measured: dict[int, Costs]) -> list[Row]:
    rows = []
    for what in WHATS:
        for label, field in (("CPU a call", "cpu"), ("p50", "p50"), ("p95", "p95")):
            for size, costs in measured.items():
                mine, other = (getattr(cost, field) * 1e3 for cost in costs[what])
                rows.append(Row(f"{what}, {label}", mine, "ms", peer=other, beside=PEER, at=size))
    return rows


def _growths(measured: dict[int, Costs]) -> list[Row]:
    small, large = min(measured), max(measured)
    before, after = measured[small], measured[large]
    rows = []
    for what in WHATS:
        mine, other = (after[what][side].cpu / before[what][side].cpu for side in (0, 1))
        # What is looked for in every text grows by its nature: no target says otherwise.
        target = None if what in ("search for a part", "search by regex") else FLAT
        label = f"{what}: growth of CPU from {small:,} to {large:,}"
        rows.append(Row(label, mine, "×", target, peer=other, beside=PEER))
    return rows


def _against_targets(costs: Costs, size: int) -> list[Row]:
    rows = []
    for what in WHATS:
        mine, other = costs[what]
        target = TIMES_LESS if what in ("create", "get", "search") else None
        rows.append(Row(f"{what} at {size:,}: times less CPU than {PEER}", other.cpu / mine.cpu, "×", target, "more"))
    return rows


# -- what both hold


def entity(number: int, size: int) -> dict[str, Any]:
    """Five sentences, some 350 bytes; one says the team, which ten share."""
    dice = random.Random(number)
    sentences = [" ".join(dice.choices(_WORDS, k=dice.randint(5, 20))).capitalize() + "." for _ in range(4)]
    return {"name": _name(number), "entityType": "person", "observations": [*sentences, _team(number, size)]}


def _node(number: int, size: int) -> dict[str, Any]:
    told = entity(number, size)
    return {"id": told["name"], "type": told["entityType"], "attrs": {"observations": told["observations"]}}


def _name(number: int) -> str:
    return f"person-{number:07}"


def _team(number: int, size: int) -> str:
    return f"Is a member of team {number % (size // TEAM)}."


def _team_part(number: int, size: int) -> str:
    return f"of team {number % (size // TEAM)}."


def _pairs(size: int) -> Iterator[tuple[str, str]]:
    """As many relations as entities."""
    return ((_name(number), _name((number * 31 + 1) % size)) for number in range(size))


def _fill_ours(base: Path, size: int) -> Path:
    nodes = (Operation(Verb.UPSERT_NODE, _node(number, size)) for number in range(size))
    edges = (
        Operation(Verb.UPSERT_EDGE, {"from": source, "rel": "knows", "to": target, "attrs": {}})
        for source, target in _pairs(size)
    )
    fill(base, itertools.chain(nodes, edges))
    return base


def _fill_typed(base: Path, size: int) -> Path:
    def typed(number: int) -> Operation:
        told = entity(number, size)
        content = {"format": "markdown", "encoding": "utf-8", "text": "\n".join(told["observations"])}
        return Operation(Verb.UPSERT_NODE, {"id": told["name"], "type": "person", "attrs": {}, "content": content})

    fill(base, itertools.chain([define_ontology(), define_node_type("person")], map(typed, range(size))))
    return base


def _fill_theirs(folder: Path, size: int) -> Path:
    folder.mkdir(parents=True)
    file = folder / "memory.jsonl"
    with file.open("w") as written:
        for number in range(size):
            written.write(json.dumps({"type": "entity", **entity(number, size)}) + "\n")
        for source, target in _pairs(size):
            relation = {"type": "relation", "from": source, "to": target, "relationType": "knows"}
            written.write(json.dumps(relation) + "\n")
    return file


_WORDS = re.findall(
    r"\w+",
    "bridge harbour lantern orchard quarry river vault windmill prefers works with often writes about meets at the"
    " morning before lunch in Lisbon since spring because of reviews deploys migrations schema parser index carefully",
)
