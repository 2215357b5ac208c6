"""What every engine that speaks Cypher promises, shown on FalkorDB and on a server that speaks Bolt, both real.

The projection that follows into them fulfils the contract of projections; walks that they take over tell nothing that
is not true, and nothing that may not be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.app import tenant_projections
from tallystick.commits import Operation, Verb
from tallystick.config import Settings, load
from tallystick.errors import InvalidArgument, LimitExceeded, StorageRefused, TallystickError
from tallystick.extensions.cypher import delegation
from tallystick.extensions.cypher.engine import EngineAddress, EngineAway, EngineThread, Rows, address_of
from tallystick.extensions.cypher.operation import ask
from tallystick.extensions.cypher.projection import CypherProjection
from tallystick.log import Head, Log
from tallystick.log.files import FilesLog
from tallystick.operations.tenants import delete
from tallystick.operations.verify import verify
from tallystick.policy import Principal
from tallystick.projections import Projection
from tallystick.projections.consistency_check import compare, rebuild
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place, pending_erasures, registered
from tallystick.projections.worker import ProjectionWorker
from tallystick.server.dispatch import Done, Refused, call
from tallystick.telemetry import metrics
from tests import cypher_engines
from tests.commits_by_hand import append, draft, node
from tests.contracts.test_projection import (  # noqa: F401  # collected here, on the fixtures below
    STORY,
    test_a_draft_that_cannot_be_applied_leaves_it_where_it_was,
    test_a_reset_begins_again,
    test_it_is_where_it_was_moved_to_and_remembers_it,
    test_one_that_has_seen_nothing_is_at_the_start,
    test_what_one_process_applied_another_one_sees,
)
from tests.cypher_engines import PREFIXES, RunningEngine
from tests.nats_cluster import free_ports
from tests.promises import promise

Make = Callable[[Path, Log], Projection]
HOSTILE = "x'\"`\\ $id }) DETACH DELETE n // \n\t é 漢 \U0001f512 %s {0} \\u0000"
NO_QUESTIONS = ["no Cypher at all", "RETURN", "MATCH (n RETURN n", "RETURN $nothing_was_given", "", "\x01"]
OF_ANOTHER = ["USE `one-other` MATCH (n) RETURN n", "MATCH (n) RETURN n", "MATCH (n:`one-other`) RETURN n"]
SECONDS = 60.0


@pytest.fixture(scope="module", params=["falkordb", "arcadedb"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    with getattr(cypher_engines, request.param)(tmp_path_factory.mktemp(request.param)) as engine:
        yield engine


@pytest.fixture
def engine(running: RunningEngine) -> Iterator[EngineThread]:
    """With nothing in it."""
    thread = EngineThread(running.address())
    for tenant in cypher_engines.TENANTS:
        thread.wait_for(thread.engine.drop(thread.address.graph_of(tenant)))
    yield thread
    thread.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is given up because this machine is busy."""
    monkeypatch.setattr(delegation, "BEHIND_SECONDS", SECONDS)
    monkeypatch.setattr(tenant_projections, "ERASED_SECONDS", SECONDS)


@pytest.fixture
def make(engine: EngineThread) -> Make:
    return lambda home, log: registered()["cypher"].make(Place(home, LogReader(lambda: log), parts={"cypher": engine}))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FilesLog]:
    with closing(FilesLog(tmp_path / "_system")) as opened:
        for drafts in STORY:
            append(opened, *drafts)
        yield opened


def read(engine: EngineThread, text: str, tenant: str = "default", **parameters: Any) -> Rows:
    graph = engine.address.graph_of(tenant)
    return engine.wait_for(engine.engine.read(graph, text, parameters, seconds=SECONDS, rows_max=1000))


def write(engine: EngineThread, text: str, tenant: str = "default", **parameters: Any) -> None:
    engine.wait_for(engine.engine.write(engine.address.graph_of(tenant), [(text, parameters)]))


def edge(source: str, rel: str, target: str, **more: Any) -> Operation:
    return Operation(Verb.UPSERT_EDGE, {"from": source, "rel": rel, "to": target, "attrs": {}, **more})


# -- the engine


def test_answers_are_plain_values(engine: EngineThread) -> None:
    write(engine, "CREATE (:Entity {id: 'a', n: 1})-[:EDGE {rel: 'knows'}]->(:Entity {id: 'b', ok: true})")
    found = read(engine, "MATCH p = (a)-[e]->(b) RETURN p, a, e, [1, 'x'] AS list, {k: 1.5} AS map, null AS nothing")
    a, e, b = {"id": "a", "n": 1}, {"rel": "knows"}, {"id": "b", "ok": True}
    assert found.rows == [[[a, e, b], a, e, [1, "x"], {"k": 1.5}, None]]
    assert found.columns == ["p", "a", "e", "list", "map", "nothing"]


@promise("FR-004, own questions", "the engine itself keeps a question from writing")
@pytest.mark.parametrize(
    "text",
    [
        "CREATE (:Entity {id: 'new'})",
        "MATCH (n) DETACH DELETE n",
        "MATCH (n) SET n.id = 'stolen' RETURN n",
        "MERGE (n:Entity {id: 'new'}) RETURN n",
        "MATCH (n) REMOVE n.id RETURN n",
        "UNWIND [1, 2] AS x CREATE (:Entity {id: 'new'}) RETURN x",
        "CREATE INDEX FOR (n:Entity) ON (n.title)",
    ],
)
def test_the_engine_itself_keeps_a_question_from_writing(engine: EngineThread, text: str) -> None:
    write(engine, "CREATE (:Entity {id: 'a'})")
    engine.wait_for(engine.engine.require_read_only(engine.address.graph_of("default")))
    with pytest.raises(InvalidArgument) as refused:
        read(engine, text)
    assert refused.value.code in ("CYPHER_REFUSED", "CYPHER_NOT_READ_ONLY")
    assert read(engine, "MATCH (n) RETURN n").rows == [[{"id": "a"}]]


@pytest.mark.parametrize(
    "text", ["no Cypher at all", "RETURN", "MATCH (n RETURN n", "RETURN $nothing_was_given", "", "\x01"]
)
def test_what_is_no_question_is_refused_and_the_next_is_answered(engine: EngineThread, text: str) -> None:
    write(engine, "CREATE (:Entity {id: 'a'})")
    with pytest.raises(InvalidArgument):
        read(engine, text)
    assert read(engine, "RETURN 1 AS one").rows == [[1]]


@pytest.mark.parametrize(
    "text", ["USE `one-other` MATCH (n) RETURN n", "MATCH (n) RETURN n", "MATCH (n:`one-other`) RETURN n"]
)
def test_a_question_stays_within_the_graph_of_its_tenant(engine: EngineThread, text: str) -> None:
    write(engine, "CREATE (:Entity {id: 'mine'})")
    write(engine, "CREATE (:Entity {id: 'theirs'})", tenant="other")
    try:
        found = str(read(engine, text).rows)
    except InvalidArgument as error:
        found = error.message
    assert "theirs" not in found
    assert read(engine, "MATCH (n) RETURN n.id", tenant="other").rows == [["theirs"]]


def test_a_graph_that_was_never_written_has_no_rows(running: RunningEngine) -> None:
    with closing(EngineThread(running.address("never"))) as engine:
        graph, asked = engine.address.graph_of("default"), "MATCH (n) RETURN n"
        work = engine.engine.read(graph, asked, {}, seconds=SECONDS, rows_max=1, is_follower=True)
        assert engine.wait_for(work).rows == []


def test_more_rows_than_are_wanted_are_refused(engine: EngineThread) -> None:
    write(engine, "CREATE (:Entity {id: 'a'})")
    with pytest.raises(LimitExceeded) as refused:
        read(engine, "UNWIND range(0, 1000) AS x RETURN x")
    assert refused.value.code == "CYPHER_ROWS"


def test_one_that_does_not_answer_is_away_and_comes_back(engine: EngineThread, running: RunningEngine) -> None:
    write(engine, "CREATE (:Entity {id: 'a'})")
    graph = engine.address.graph_of("default")
    running.pause()
    try:
        with pytest.raises(EngineAway):
            engine.wait_for(engine.engine.read(graph, "MATCH (n) RETURN n", {}, seconds=0.1, rows_max=1))
    finally:
        running.go_on()
    assert read(engine, "MATCH (n) RETURN n.id").rows == [["a"]]


def test_one_that_is_not_there_is_away(running: RunningEngine) -> None:
    (port,) = free_ports(1)
    address = EngineAddress(f"{running.scheme}://127.0.0.1:{port}")
    with closing(EngineThread(address)) as engine, pytest.raises(EngineAway, match="does not answer"):
        read(engine, "RETURN 1")


def test_a_wrong_password_is_told_without_it(running: RunningEngine) -> None:
    address = msgspec.structs.replace(running.address(), user="nobody", password="wrong-pass-word", reader="")
    with closing(EngineThread(address)) as engine, pytest.raises(TallystickError) as refused:
        read(engine, "RETURN 1")
    assert "wrong-pass-word" not in refused.value.message


def test_a_text_that_would_run_for_ages_is_ended(tmp_path: Path) -> None:
    with cypher_engines.falkordb(tmp_path) as running, closing(EngineThread(running.address())) as engine:
        write(engine, "UNWIND range(0, 3000) AS x CREATE (:Entity {id: x})")
        graph = engine.address.graph_of("default")
        loop = "MATCH (a:Entity), (b:Entity), (c:Entity) RETURN count(a.id + b.id + c.id)"
        with pytest.raises(LimitExceeded) as refused:
            engine.wait_for(engine.engine.read(graph, loop, {}, seconds=0.2, rows_max=1))
        assert refused.value.code == "CYPHER_TIMEOUT"
        assert read(engine, "RETURN 1 AS one").rows == [[1]]


def test_a_server_that_does_not_heed_read_transactions_answers_no_questions(running: RunningEngine) -> None:
    """ArcadeDB lets them write, unless the account may not."""
    if running.kind != "arcadedb":
        return
    with closing(EngineThread(running.address(PREFIXES[1], reads_only=False))) as engine:
        graph = engine.address.graph_of("default")
        with pytest.raises(InvalidArgument) as refused:
            engine.wait_for(engine.engine.require_read_only(graph))
        assert refused.value.code == "CYPHER_NOT_READ_ONLY"
        with pytest.raises(InvalidArgument):
            read(engine, "CREATE (:Entity {id: 'new'})")
        assert read(engine, "MATCH (n) RETURN count(n)").rows == [[0]]


# -- the projection


def follow(home: Path, log: Log, engine: EngineThread) -> ProjectionWorker:
    projection = CypherProjection(home, engine, "default")
    return ProjectionWorker(LogReader(lambda: FilesLog(home / "_system")), projection, lock=home / "lock")


def ids(engine: EngineThread) -> list[str]:
    return sorted(row[0] for row in read(engine, "MATCH (n:Entity) RETURN n.id").rows)


def edges(engine: EngineThread) -> list[list[str]]:
    return sorted(read(engine, "MATCH (a:Entity)-[e:EDGE]->(b:Entity) RETURN a.id, e.rel, b.id").rows)


def test_what_was_committed_can_be_asked_for(engine: EngineThread, log: FilesLog, tmp_path: Path) -> None:
    append(log, draft(node(HOSTILE, title=HOSTILE, **{"no plain name": 1, "list": [1]})))
    append(log, draft(edge("a", HOSTILE, HOSTILE), edge("a", "knows", "b", id="chosen")))
    follow(tmp_path, log, engine).catch_up()
    assert ids(engine) == sorted(["a", "b", HOSTILE])
    assert edges(engine) == sorted([["a", "knows", "b"], ["a", "knows", "b"], ["a", HOSTILE, HOSTILE]])
    (found,) = read(engine, "MATCH (n:Entity {id: $id}) RETURN n", id=HOSTILE).rows[0]
    assert found["title"] == HOSTILE
    assert msgspec.json.decode(found["attrs"])["list"] == [1]
    assert not {"no plain name", "list"} & found.keys()


def test_an_edge_with_an_id_of_its_own_may_get_other_ends(engine: EngineThread, log: FilesLog, tmp_path: Path) -> None:
    append(log, draft(edge("a", "knows", "b", id="chosen")))
    worker = follow(tmp_path, log, engine)
    worker.catch_up()
    append(log, draft(Operation(Verb.DELETE_EDGE, {"from": "a", "rel": "knows", "to": "b"})))
    append(log, draft(edge("b", "likes", "a", id="chosen")))
    worker.catch_up()
    assert edges(engine) == [["b", "likes", "a"]]


def test_what_was_redacted_or_deleted_is_gone_from_it(engine: EngineThread, log: FilesLog, tmp_path: Path) -> None:
    append(log, draft(node("p", mail="xylophone", kept=1), node("q", mail="xylophone")))
    append(log, draft(edge("p", "knows", "q", attrs={"note": "xylophone"})))
    worker = follow(tmp_path, log, engine)
    worker.catch_up()
    assert "xylophone" in str(read(engine, "MATCH (n) RETURN n").rows)
    redacted = {"node_id": "p", "reason": "asked", "redacted_fields": ["attrs.mail"]}
    append(log, draft(Operation(Verb.REDACT_NODE, redacted, redacts={})))
    append(log, draft(Operation(Verb.REDACT_EDGE, {"from": "p", "rel": "knows", "to": "q", "reason": "x"}, redacts={})))
    append(log, draft(Operation(Verb.DELETE_EDGE, {"from": "p", "rel": "knows", "to": "q"})))
    append(log, draft(Operation(Verb.DELETE_NODE, {"node_id": "q"})))
    assert [each.where for each in pending_erasures(tmp_path)] == ["cypher"]
    assert worker.erase()
    assert pending_erasures(tmp_path) == []
    told = str(read(engine, "MATCH (n) RETURN n").rows) + str(read(engine, "MATCH ()-[e]->() RETURN e").rows)
    assert "xylophone" not in told
    assert read(engine, "MATCH (n:Entity {id: 'p'}) RETURN n.kept, n.mail").rows == [[1, "[REDACTED]"]]


def test_what_was_applied_before_a_crash_is_applied_again_without_harm(
    engine: EngineThread,
    log: FilesLog,
    tmp_path: Path,
) -> None:
    worker = follow(tmp_path, log, engine)
    worker.catch_up()
    before = (ids(engine), edges(engine))
    write(engine, "MATCH (p:Tallystick) SET p.head = $head", head=msgspec.json.encode(Head()).decode())
    worker.catch_up()
    assert (ids(engine), edges(engine)) == before
    assert worker.projection.position() == log.head()


def test_one_that_lost_everything_is_built_again(engine: EngineThread, log: FilesLog, tmp_path: Path) -> None:
    worker = follow(tmp_path, log, engine)
    worker.catch_up()
    engine.wait_for(engine.engine.drop(engine.address.graph_of("default")))
    worker.catch_up()
    assert ids(engine) == ["a", "b"]


def test_a_graph_of_another_memory_is_left_alone(engine: EngineThread, log: FilesLog, tmp_path: Path) -> None:
    follow(tmp_path, log, engine).catch_up()
    with closing(FilesLog(tmp_path / "another" / "_system")) as other:
        append(other, draft(node("theirs")))
        with pytest.raises(StorageRefused, match="mirrors another memory"):
            follow(tmp_path / "another", other, engine).catch_up()
    assert ids(engine) == ["a", "b"]


def test_a_comparison_finds_what_does_not_follow_from_the_log_and_a_rebuild_mends_it(
    engine: EngineThread,
    log: FilesLog,
    tmp_path: Path,
) -> None:
    append(log, draft(node("z", mail="xylophone", n=1.5)))
    append(log, draft(Operation(Verb.REDACT_NODE, {"node_id": "z", "reason": "asked"}, redacts={})))
    follow(tmp_path, log, engine).catch_up()
    open_log = lambda: FilesLog(tmp_path / "_system")  # noqa: E731
    assert compare(tmp_path, open_log, parts={"cypher": engine}).findings == []
    write(engine, "CREATE (:Entity {id: 'invented'})")
    write(engine, "MATCH (n:Entity {id: 'z'}) SET n.mail = 'xylophone'")
    write(engine, "MATCH ()-[e:EDGE]->() DELETE e")
    found = {(each.key, each.what) for each in compare(tmp_path, open_log, parts={"cypher": engine}).findings}
    assert found == {
        ("invented", "does not follow from the log"),
        ("z", "differs in mail"),
        ("ends:a|knows|b", "is missing"),
    }
    rebuild(tmp_path, open_log, "cypher", parts={"cypher": engine})
    assert compare(tmp_path, open_log, parts={"cypher": engine}).findings == []


# -- a memory that has one


class Served:
    def __init__(self, offer: Any, principal: Principal) -> None:
        self.offer = offer
        self.principal = principal

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        outcome = await call(self.offer.tools.get(tool), arguments, self.offer.store, lambda: self.principal)
        assert isinstance(outcome, Done | Refused), outcome
        return outcome.data if isinstance(outcome, Done) else outcome.shape

    def of(self, principal: Principal) -> Served:
        return Served(self.offer, principal)

    async def node(self, node_id: str, kind: str = "note") -> None:
        told = await self("memory.write", op="UPSERT_NODE", node={"id": node_id, "type": kind, "attrs": {"n": 1}})
        assert "commit_id" in told, told

    async def chain(self, *ids: str) -> None:
        ops: list[dict[str, Any]] = [
            {"op": "UPSERT_NODE", "node": {"id": each, "type": "note", "attrs": {}}} for each in ids
        ]
        ops += [{"op": "UPSERT_EDGE", "edge": {"from": a, "rel": "next", "to": b}} for a, b in pairwise(ids)]
        for start in range(0, len(ops), 500):
            told = await self("memory.write", ops=ops[start : start + 500])
            assert "commit_id" in told, told

    async def walk(self, start: str, /, **traversal: Any) -> dict[str, Any]:
        return await self("memory.search", entity_id=start, traversal=traversal)


def settings_of(running: RunningEngine, base: Path, **more: Any) -> Settings:
    base.mkdir(parents=True, exist_ok=True)
    given: dict[str, Any] = {"base": base, "cypher_url": running.address().url, "cypher_graph": "one"}
    if running.kind == "arcadedb":
        for name, password in (("w", cypher_engines.PASSWORD), ("r", cypher_engines.READER_PASSWORD)):
            (base.parent / name).write_text(password)
        given |= {"cypher_user": "root", "cypher_password_file": str(base.parent / "w")}
        given |= {"cypher_reader": "reader", "cypher_reader_password_file": str(base.parent / "r")}
    # A busy machine takes longer than people would wait.
    return load(given | {"walk_ms_max": SECONDS * 1000} | more, environ={})


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Served]:
    async with app.served(settings) as offer:
        yield Served(offer, app.local_user(settings))


async def reached(memory: Served, settings: Settings) -> None:
    """The engine is at the head: nobody is degraded because the machine is slow."""
    position = memory.offer.store.position(memory.principal)
    address = address_of(settings)
    assert address is not None
    with closing(EngineThread(address)) as engine:
        while True:
            rows = await asyncio.to_thread(read, engine, "MATCH (p:Tallystick) RETURN p.head")
            if rows.rows and msgspec.json.decode(rows.rows[0][0], type=Head).lamport >= position:
                return
            await asyncio.sleep(0.05)


def told_ids(told: Mapping[str, Any]) -> list[str]:
    assert "entities" in told, told
    return [each["id"] for each in told["entities"]]


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]  # a coroutine function


CHAIN = [f"n{number}" for number in range(9)]


@promise("FR-004, delegation", "a walk past the limit of hops is taken over by a graph engine, and says by which")
def test_a_walk_past_the_limit_of_hops_is_delegated(
    engine: EngineThread, running: RunningEngine, tmp_path: Path
) -> None:
    settings = settings_of(running, tmp_path / "memory")

    async def story() -> None:
        async with served(settings) as memory:
            await memory.chain(*CHAIN)
            near = await memory.walk("n0", hops=3)
            assert (near["delegated_to"], told_ids(near)) == (None, ["n1", "n2", "n3"])
            await reached(memory, settings)
            far = await memory.walk("n0", hops=6)
            assert (far["delegated_to"], far["truncated"]) == (running.kind, False)
            assert told_ids(far) == CHAIN[1:7]
            assert (
                [step["id"] for step in far["paths"][0]["nodes"]] == CHAIN[:7]
                if "nodes" in far["paths"][0]
                else far["paths"]
            )
            back = await memory.walk("n8", hops=5, direction="in", edge_types=["next"])
            assert told_ids(back) == CHAIN[7:2:-1]
            assert told_ids(await memory.walk("n0", hops=6, edge_types=["other"])) == []
            around = await memory.walk("n4", hops=4, direction="both")
            assert sorted(told_ids(around)) == sorted(each for each in CHAIN if each != "n4")

    run(story)


def test_a_walk_to_more_than_a_hundred_entities_is_delegated_and_paged(
    engine: EngineThread, running: RunningEngine, tmp_path: Path
) -> None:
    settings = settings_of(running, tmp_path / "memory")
    leaves = [f"leaf{number:03}" for number in range(150)]

    async def story() -> None:
        async with served(settings) as memory:
            nodes = [
                {"op": "UPSERT_NODE", "node": {"id": each, "type": "leaf", "attrs": {}}} for each in ["hub", *leaves]
            ]
            joined = [{"op": "UPSERT_EDGE", "edge": {"from": "hub", "rel": "has", "to": each}} for each in leaves]
            await memory("memory.write", ops=[*nodes, *joined])
            await reached(memory, settings)
            first = await memory.walk("hub", hops=1)
            assert (first["delegated_to"], first["pagination"]["total"]) == (running.kind, 150)
            rest = await memory("memory.search", entity_id="hub", traversal={"hops": 1}, offset=100)
            assert told_ids(first) + told_ids(rest) == leaves
            assert (await memory("memory.search", entity_id="hub", traversal={"hops": 1}, type="note"))["pagination"][
                "total"
            ] == 0

    run(story)


@promise("FR-004, degraded", "an engine that is away or behind leaves the memory's own answer, which says so")
def test_an_engine_that_is_away_or_behind_leaves_the_memorys_own_answer_and_says_so(
    engine: EngineThread, running: RunningEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation, "BEHIND_SECONDS", 0.2)
    settings = settings_of(running, tmp_path / "memory")

    async def story() -> None:
        async with served(settings) as memory:
            await memory.chain(*CHAIN)
            await reached(memory, settings)
            running.pause()
            before = dict(metrics.WALKS_DEGRADED.read())
            try:
                await memory.node("later")
                told = await memory.walk("n0", hops=6)
                again = await memory.walk("n0", hops=6)
            finally:
                running.go_on()
            assert (told_ids(told), told["truncated"], told["delegated_to"]) == (["n1", "n2", "n3"], True, None)
            assert "engine was not used" in told["degraded"]
            assert "degraded" in again
            assert sum(dict(metrics.WALKS_DEGRADED.read()).values()) == sum(before.values()) + 2

    run(story)


@promise("Risk 2", "a walk that is too dear is refused with what it would cost")
def test_a_walk_that_is_too_dear_is_refused_with_what_it_would_cost(
    engine: EngineThread, running: RunningEngine, tmp_path: Path
) -> None:
    settings = settings_of(running, tmp_path / "memory", walk_nodes_max=100)

    async def story() -> None:
        async with served(settings) as memory:
            leaves = [f"leaf{number}" for number in range(40)]
            ops: list[dict[str, Any]] = [
                {"op": "UPSERT_NODE", "node": {"id": each, "type": "t", "attrs": {}}} for each in ["hub", *leaves]
            ]
            ops += [{"op": "UPSERT_EDGE", "edge": {"from": "hub", "rel": "r", "to": each}} for each in leaves]
            ops += [
                {"op": "UPSERT_EDGE", "edge": {"from": each, "rel": "r", "to": f"{each}-{number}"}}
                for each in leaves[:10]
                for number in range(15)
            ]
            made = [
                {"op": "UPSERT_NODE", "node": {"id": f"{each}-{number}", "type": "t", "attrs": {}}}
                for each in leaves[:10]
                for number in range(15)
            ]
            assert "commit_id" in await memory("memory.write", ops=[*made, *ops])
            told = await memory.walk("hub", hops=5)
            assert told["error"] == "WALK_TOO_DEAR"
            assert told["estimate"]["nodes"] >= 190
            assert told["budget"]["nodes"] == 100
            cut = await memory.walk("hub", hops=2)
            assert (len(told_ids(cut)), cut["truncated"]) == (100, True)
            assert "about 190 entities" in cut["degraded"]

    run(story)


def test_what_may_not_be_read_is_neither_told_nor_walked_through(
    engine: EngineThread, running: RunningEngine, tmp_path: Path
) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "rules.rego").write_text(RULES)
    settings = settings_of(running, tmp_path / "memory", policy=str(rules))

    async def story() -> None:
        async with served(settings) as memory:
            await memory.chain(*CHAIN)
            await memory.node("hidden", "secret")
            await memory.chain("hidden-way", "end")
            for source, target in (("n0", "hidden"), ("hidden", "hidden-way"), ("n6", "hidden")):
                joined = {"from": source, "rel": "next", "to": target}
                assert "commit_id" in await memory("memory.write", op="UPSERT_EDGE", edge=joined)
            await reached(memory, settings)
            all_of_it = await memory.walk("n0", hops=7)
            assert {"hidden", "hidden-way", "end"} < set(told_ids(all_of_it))
            bob = memory.of(Principal(actor="bob", tenant="default"))
            told = await bob.walk("n0", hops=7)
            assert (told["delegated_to"], told_ids(told)) == (running.kind, CHAIN[1:8])
            assert "hidden" not in str(told)
            assert (await bob.walk("hidden", hops=7)).get("entities", []) == []

    run(story)


RULES = """package tallystick

import rego.v1

decision := {"allow": allow, "reason": "by the rule", "narrows": true}

default allow := true

allow := false if {
	input.resource_type == "secret"
	input.actor == "bob"
}
"""


def test_an_engine_that_answers_wrong_or_twice_invents_nothing(
    engine: EngineThread, running: RunningEngine, tmp_path: Path
) -> None:
    settings = settings_of(running, tmp_path / "memory")

    async def story() -> None:
        async with served(settings) as memory:
            await memory.chain(*CHAIN)
            await reached(memory, settings)
            twice = "MATCH (a:Entity {id: 'n0'})-[e:EDGE]->(b:Entity) CREATE (a)-[f:EDGE]->(b) SET f = e"
            await asyncio.to_thread(write, engine, twice)
            told = await memory.walk("n0", hops=6)
            assert (told["delegated_to"], told_ids(told)) == (running.kind, CHAIN[1:7])
            invented = (
                "MATCH (a:Entity {id: 'n2'}), (b:Entity {id: 'n8'}) CREATE (a)-[:EDGE {key: 'ends:n2|next|n8',"
                " source: 'n2', rel: 'next', target: 'n8'}]->(b)"
            )
            await asyncio.to_thread(write, engine, invented)
            told = await memory.walk("n0", hops=6)
            assert (told["delegated_to"], told_ids(told)) == (None, ["n1", "n2", "n3"])
            assert "never were" in told["degraded"]

    run(story)


def test_a_redaction_waits_for_the_engine_and_names_it_while_it_is_away(
    engine: EngineThread, running: RunningEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(running, tmp_path / "memory")

    async def story() -> None:
        async with served(settings) as memory:
            for name in ("one", "two"):
                written = {"id": name, "type": "note", "attrs": {"mail": "xylophone"}}
                await memory("memory.write", op="UPSERT_NODE", node=written)
            await reached(memory, settings)
            done = await memory("memory.write", op="REDACT_NODE", node_id="one", reason="asked")
            assert "erasure" not in done
            assert (await asyncio.to_thread(read, engine, "MATCH (n {id: 'one'}) RETURN n.mail")).rows == [
                ["[REDACTED]"]
            ]
            running.pause()
            monkeypatch.setattr(tenant_projections, "ERASED_SECONDS", 0.5)
            try:
                waits = await memory("memory.write", op="REDACT_NODE", node_id="two", reason="asked")
            finally:
                running.go_on()
            assert waits["erasure"]["pending"] == ["cypher"]

    run(story)
    monkeypatch.setattr(tenant_projections, "ERASED_SECONDS", SECONDS)
    context = app.operation_context(settings)
    asyncio.run(context.erase())  # type: ignore[arg-type]  # an awaitable
    assert pending_erasures(settings.home) == []
    assert "xylophone" not in str(read(engine, "MATCH (n) RETURN n").rows)


def test_people_ask_questions_of_their_own(engine: EngineThread, running: RunningEngine, tmp_path: Path) -> None:
    settings = settings_of(running, tmp_path / "memory")

    async def story() -> None:
        async with served(settings) as memory:
            await memory.chain(*CHAIN)

    run(story)
    context = app.operation_context(settings)
    found = ask(
        context, "MATCH (a {id: 'n0'})-[:EDGE*1..8]->(b) RETURN DISTINCT b.id AS id ORDER BY id", seconds=SECONDS
    )
    assert (found.engine, found.columns, found.rows) == (running.kind, ["id"], [[each] for each in CHAIN[1:]])
    for text in ("MATCH (n) DETACH DELETE n", "x" * 200_000, "RETURN '\0'"):
        with pytest.raises(InvalidArgument):
            ask(context, text, seconds=SECONDS)
    assert verify(context, views=True).sound


def test_a_tenant_that_is_deleted_leaves_nothing_in_the_engine(
    engine: EngineThread, running: RunningEngine, tmp_path: Path
) -> None:
    mine = settings_of(running, tmp_path / "memory")
    theirs = msgspec.structs.replace(mine, tenant="other")
    for settings, name in ((mine, "mine"), (theirs, "theirs")):
        with closing(FilesLog(settings.system)) as made:
            append(made, draft(node(name)))
        assert ask(app.operation_context(settings), "MATCH (n:Entity) RETURN n.id", seconds=SECONDS).rows == [[name]]
    done = delete(app.operation_context(theirs), reason="asked")
    assert done.graph_left is None
    assert read(engine, "MATCH (n) RETURN n", tenant="other").rows == []
    assert ids(engine) == ["mine"]
