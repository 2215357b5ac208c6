"""Laws of the state: it follows from the log alone, forwards and back, now and in the past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import Commit, Verb
from tallystick.commits.payloads import edge_name, read_edge
from tallystick.state import Condition, Edge, Query, Walk, asof, conditions, paths_between, search, sorted_values, walk
from tallystick.state.state import State
from tallystick.system.turns import finished
from tests.state.logged_state import HOUR, START, LoggedState
from tests.state.naive_graph import NaiveGraph, Name
from tests.state.state_dump import dump_state

# -- what may happen to a log

NODES = st.sampled_from("abcd")
TYPES = st.sampled_from(["note", "task"])
RELS = st.sampled_from(["knows", "cites"])
ACTORS = st.sampled_from(["ann", "bob", "cyd"])
LONG = "long " * 30
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, -2.5, "", "1", "ann", "bea", LONG, LONG + "er", "[REDACTED]"])
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.sampled_from("xy"), SCALARS, max_size=2),
    st.just([[1], {"x": 1}]),
)
ATTRS = st.dictionaries(st.sampled_from(["k", "l", "k.x"]), VALUES, max_size=3)
FIELDS = st.one_of(st.none(), st.lists(st.sampled_from(["attrs.k", "attrs.l"]), min_size=1, unique=True))

Step = Callable[[LoggedState], None]


def _upsert_node(node: str, kind: str, attrs: dict[str, Any], text: str | None, actor: str) -> Step:
    payload: dict[str, Any] = {"id": node, "type": kind, "attrs": attrs}
    if text is not None:
        payload["content"] = {"format": "md", "encoding": "utf-8", "text": text}
    return lambda logged: void(logged.write(Verb.UPSERT_NODE, payload, actor=actor))


def _upsert_edge(source: str, rel: str, target: str, attrs: dict[str, Any], chosen: str | None, actor: str) -> Step:
    def step(logged: LoggedState) -> None:
        if logged.state.owner(source) is None or logged.state.owner(target) is None:
            return
        name = {"from": source, "rel": rel, "to": target, "id": chosen}
        known = logged.state.edge_name(chosen) if chosen is not None else None
        if known is None or known == name:
            logged.edge(source, rel, target, actor=actor, id=chosen, **attrs)

    return step


def _delete_node(node: str, actor: str) -> Step:
    return lambda logged: void(logged.state.owner(node) and logged.delete(node, actor=actor))


def _delete_edge(node: str, place: int, actor: str) -> Step:
    def step(logged: LoggedState) -> None:
        names = list(logged.state.edge_names(node))
        if names:
            logged.write(Verb.DELETE_EDGE, names[place % len(names)], actor=actor)

    return step


def _redact(node: str, fields: list[str] | None, actor: str) -> Step:
    def step(logged: LoggedState) -> None:
        if logged.state.summary(node) is not None:
            logged.scrub(logged.redact(node, fields, actor=actor))

    return step


def _redact_edge(node: str, place: int, fields: list[str] | None, actor: str) -> Step:
    """Also one that is deleted."""

    def step(logged: LoggedState) -> None:
        names = [edge for commit in logged.commits if (edge := _edge_of(commit, node)) is not None]
        if names:
            logged.scrub(logged.redact_edge(names[place % len(names)], fields, actor=actor))

    return step


def _edge_of(commit: Commit, node: str) -> str | None:
    if commit.operation is not Verb.UPSERT_EDGE:
        return None
    edge = read_edge(commit.payload)
    return edge.name if node in (edge.source, edge.target) else None


def _note_nonce(node: str, nonce: str, actor: str, skip: int) -> Step:
    payload = {"id": node, "type": "note", "attrs": {}}
    return lambda logged: void(logged.write(Verb.UPSERT_NODE, payload, actor=actor, nonce=nonce, skip=skip))


def _wait(hours: int) -> Step:
    def step(logged: LoggedState) -> None:
        logged.now += hours * HOUR

    return step


def void(_: object) -> None:
    return None


CHOSEN = st.sampled_from([None, None, "e1", "e2"])
TEXTS = st.sampled_from([None, None, None, "", "1", "a text of some length"])
STEPS = st.one_of(
    st.builds(_upsert_node, NODES, TYPES, ATTRS, TEXTS, ACTORS),
    st.builds(_upsert_node, NODES, TYPES, ATTRS, TEXTS, ACTORS),
    st.builds(_upsert_edge, NODES, RELS, NODES, ATTRS, CHOSEN, ACTORS),
    st.builds(_upsert_edge, NODES, RELS, NODES, ATTRS, CHOSEN, ACTORS),
    st.builds(_delete_node, NODES, ACTORS),
    st.builds(_delete_edge, NODES, st.integers(0, 3), ACTORS),
    st.builds(_redact, NODES, FIELDS, ACTORS),
    st.builds(_redact_edge, NODES, st.integers(0, 3), FIELDS, ACTORS),
    st.builds(_note_nonce, NODES, st.sampled_from("mn"), ACTORS, st.sampled_from([0, 0, 3])),
    st.builds(_wait, st.sampled_from([0, 1, 24 * 8])),
)
STORIES = st.lists(STEPS, min_size=1, max_size=25)
SCARCE_STORIES = st.lists(STEPS, max_size=6)


def written(*stories: list[Step]) -> LoggedState:
    logged = LoggedState()
    for story in stories:
        for step in story:
            step(logged)
    return logged


# -- what may be asked

TESTS = st.one_of(
    st.builds(Condition, st.sampled_from(["k", "l", "k.x", "k.y"]), st.sampled_from(["eq", "ne"]), VALUES),
    st.builds(Condition, st.just("k"), st.just("in"), st.lists(VALUES, max_size=3)),
    st.builds(
        Condition,
        st.sampled_from(["k", "k.x"]),
        st.sampled_from(["gt", "gte", "lt", "lte"]),
        st.sampled_from([0, 1.0, -3, "", "ann", "b", "long", LONG]),
    ),
    st.builds(Condition, st.sampled_from(["k", "l", "k.y"]), st.just("exists"), st.booleans()),
    st.builds(Condition, st.sampled_from(["k", "k.x"]), st.just("regex"), st.sampled_from(["^a", "n+", "er$", ""])),
)
MOMENTS = st.sampled_from([None, START, START + HOUR, START + 24 * 8 * HOUR])
QUERIES = st.builds(
    Query,
    ids=st.one_of(st.none(), st.none(), st.none(), st.lists(NODES, max_size=2).map(tuple)),
    type=st.one_of(st.none(), TYPES),
    conditions=st.lists(TESTS, max_size=2).map(tuple),
    since=MOMENTS,
    until=MOMENTS,
)


def _walk(**asked: Any) -> Walk:
    """Hypothesis cannot read the signature of Walk: the type of its filter is imported for type checkers only."""
    return Walk(**asked)


WALKS = st.builds(
    _walk,
    start=NODES,
    hops=st.integers(1, 3),
    min_hops=st.sampled_from([None, 1, 2]),
    edge_types=st.sampled_from([(), ("knows",), ("cites", "knows"), ("unheard of",)]),
    direction=st.sampled_from(["out", "in", "both"]),
    since=MOMENTS,
    until=MOMENTS,
)


def at(query: Any, seq: int | None) -> Any:
    return type(query)(**{name: getattr(query, name) for name in query.__struct_fields__} | {"at": seq})


def name_of(edge: Edge) -> Name:
    default = edge_name(edge.source, edge.rel, edge.target)
    return edge.source, edge.rel, edge.target, None if edge.id == default else edge.id


def check_search(state: State, logged: LoggedState, query: Query, seq: int | None) -> None:
    told = NaiveGraph(logged, state.count if seq is None else seq)
    page = finished(state.search(at(query, seq)))
    assert [node.id for node in page.nodes] == told.search(query)
    assert page.total == len(page.nodes)
    for node in page.nodes:
        said = told.nodes[node.id]
        assert (node.type, node.attrs, node.provenance.lamport) == (said["type"], said["attrs"], said["lamport"])
        assert node.provenance.created_by == said["owner"]


def check_walk(state: State, logged: LoggedState, asked: Walk, seq: int | None) -> None:
    told = NaiveGraph(logged, state.count if seq is None else seq)
    walked = finished(state.walk(at(asked, seq)))
    assert {node.id for node in walked.nodes} == told.reached(asked)
    assert [(path.ids, list(map(name_of, path.edges))) for path in walked.paths] == told.paths(asked)
    assert not walked.truncated


def check_paths_between(state: State, logged: LoggedState, asked: Walk, seq: int | None) -> None:
    """Against every path that there is: those that end there, or the shortest of them."""
    told = NaiveGraph(logged, state.count if seq is None else seq)
    every = told.paths(msgspec.structs.replace(asked, min_hops=1) if asked.shortest else asked)
    ending = [(nodes, edges) for nodes, edges in every if nodes[-1] == asked.target]
    if asked.shortest:
        ending = [each for each in ending if len(each[1]) == min(len(edges) for _, edges in ending)]
    walked = finished(state.walk(at(asked, seq)))
    assert sorted((path.ids, list(map(name_of, path.edges))) for path in walked.paths) == sorted(ending)
    assert {node.id for node in walked.nodes} == {node for nodes, _ in ending for node in nodes[1:]}
    assert not walked.truncated or (asked.shortest and not ending)


# -- the laws


@given(STORIES)
def test_replay_equals_live(story: list[Step]) -> None:
    logged = written(story)
    assert dump_state(logged.replayed()) == dump_state(logged.state)


@given(STORIES, st.data())
def test_whoever_follows_in_leaps_ends_where_the_writer_is(story: list[Step], data: st.DataObject) -> None:
    """Also when lines it has applied are masked before it hears of the redaction."""
    logged = LoggedState()
    follower = State(logged.line)
    for step in story:
        step(logged)
        if data.draw(st.booleans()):
            logged.follow(follower)
    assert dump_state(logged.follow(follower)) == dump_state(logged.state)


@given(STORIES, SCARCE_STORIES)
def test_undo_is_the_inverse_of_apply(story: list[Step], more: list[Step]) -> None:
    logged = written(story)
    before = dump_state(logged.state)
    count = logged.state.count
    logged.scrub = void  # type: ignore[method-assign, assignment]  # what is not durable is not masked
    for step in more:
        step(logged)
    logged.undo(logged.state.count - count)
    assert dump_state(logged.state) == before


@given(STORIES, NODES, FIELDS)
def test_a_redaction_looks_the_same_before_and_after_the_log_is_masked(
    story: list[Step], node: str, fields: list[str] | None
) -> None:
    logged = written(story)
    if logged.state.summary(node) is None:
        return
    masks = logged.redact(node, fields)
    shown, held = logged.state.node(node), dump_state(logged.state)
    logged.scrub(masks)
    assert logged.state.node(node) == shown
    assert dump_state(logged.replayed()) == held
    assert finished(logged.state.redaction(node, tuple(fields) if fields else None)) == {}


@given(STORIES, SCARCE_STORIES)
def test_a_snapshot_comes_back_as_it_was_and_goes_on(story: list[Step], more: list[Step]) -> None:
    logged = written(story)
    chunks = logged.state.dump()
    before = dump_state(logged.state)
    for step in more:
        step(logged)
    loaded = State.load(b"".join(chunks), logged.line)
    assert dump_state(loaded) == before
    assert dump_state(logged.follow(loaded)) == dump_state(logged.state)


@settings(max_examples=200)
@given(STORIES, st.lists(QUERIES, min_size=1, max_size=3))
def test_the_index_finds_what_reading_everything_finds(story: list[Step], queries: list[Query]) -> None:
    logged = written(story)
    for query in queries:
        for seq in (None, *range(logged.state.count + 1)):
            check_search(logged.state, logged, query, seq)


@given(STORIES, st.lists(WALKS, min_size=1, max_size=3))
def test_a_walk_finds_what_trying_every_path_finds(story: list[Step], walks: list[Walk]) -> None:
    logged = written(story)
    for asked in walks:
        for seq in (None, *range(logged.state.count + 1)):
            check_walk(logged.state, logged, asked, seq)


@given(STORIES, st.lists(st.tuples(WALKS, NODES, st.booleans()), min_size=1, max_size=3))
def test_between_two_nodes_every_path_is_found_or_every_shortest(
    story: list[Step], walks: list[tuple[Walk, str, bool]]
) -> None:
    logged = written(story)
    for asked, target, shortest in walks:
        asked = msgspec.structs.replace(asked, target=target, shortest=shortest)
        for seq in (None, *range(logged.state.count + 1)):
            check_paths_between(logged.state, logged, asked, seq)


@given(STORIES)
def test_every_node_and_edge_is_what_it_was_at_every_moment(story: list[Step]) -> None:
    logged = written(story)
    for seq in range(logged.state.count + 1):
        told = NaiveGraph(logged, seq)
        for name in "abcd":
            node = logged.state.node(name, seq)
            assert (None if node is None else node.attrs) == told.nodes.get(name, {}).get("attrs")
            assert (None if node is None else node.content) == told.nodes.get(name, {}).get("content")
            found = set(map(name_of, logged.state.edges(name, at=seq)))
            assert found == {edge for edge in told.edges if name in (edge[0], edge[2])}


@pytest.fixture(scope="module")
def short_of_breath() -> Iterator[None]:
    """Questions pause after every step, so that others can get in between."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (search, "_DOCUMENTS"),
            (search, "_ROWS"),
            (conditions, "_BREATH"),
            (conditions, "_BREATH_COST"),
            (asof, "_BREATH"),
            (sorted_values, "_RUN"),
            (walk, "_BREATH"),
            (walk, "_PATHS"),
            (paths_between, "_BREATH"),
        ):
            patch.setattr(module, name, 1)
        yield


@pytest.mark.usefixtures("short_of_breath")
@settings(max_examples=200)
@given(STORIES, st.lists(STEPS, max_size=12), st.one_of(QUERIES, WALKS), st.data())
def test_an_answer_is_of_one_moment_though_others_write_and_undo_meanwhile(
    story: list[Step], meanwhile: list[Step], asked: Query | Walk, data: st.DataObject
) -> None:
    logged = written(story)
    logged.scrub = void  # type: ignore[method-assign, assignment]  # masks may show early, and that is no fault
    count = logged.state.count
    answer: Any = logged.state.search(asked) if isinstance(asked, Query) else logged.state.walk(asked)
    steps = iter(meanwhile)
    try:
        while True:
            next(answer)
            if data.draw(st.booleans()):
                if data.draw(st.booleans()):
                    next(steps, void)(logged)
                else:
                    logged.undo(data.draw(st.integers(0, logged.state.count - count)))
    except StopIteration as done:
        found = done.value
    told = NaiveGraph(logged, count)
    if isinstance(asked, Query):
        assert [node.id for node in found.nodes] == told.search(asked)
    else:
        assert {node.id for node in found.nodes} == told.reached(asked)
        assert [path.ids for path in found.paths] == [ids for ids, _ in told.paths(asked)]
