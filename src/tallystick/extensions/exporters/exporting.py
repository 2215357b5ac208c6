"""Export in the forms of other programs: what the memory says at one moment, entity by entity.

Everything is read at one position, in slices between which others may write, and nothing but names is kept: a title and
a type for each id, so that links can be written before what they lead to is read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, TypeVar

import msgspec

from tallystick.engine.store import Store
from tallystick.errors import InvalidArgument, LimitExceeded, NotFound, TallystickError
from tallystick.extension import Form
from tallystick.extensions.exporters import Entity, Graph, Link, Loss, Losses, Named, Writer, title_of
from tallystick.extensions.exporters.directory import Directory
from tallystick.extensions.exporters.registry import directory_exporter, file_exporter
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.policy import Action, Principal
from tallystick.projections.content import Contents
from tallystick.state import Breathing, Edge, Node
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import RESERVED, Trust
from tallystick.state.work.board import Board
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.memory.scope import BELONGS_BY, HANGS_ON

TOOL = "export"
_AT_ONCE = 200
"""A look at the state may take a second: so many documents are a small part of that."""
_TEXT_BYTES_MAX = 512 << 10

T = TypeVar("T")


class Options(msgspec.Struct, frozen=True):
    as_of: str | int | None = None
    project: str | None = None
    type: str | None = None


class Report(msgspec.Struct, frozen=True):
    form: str
    path: str
    position: int
    at: str
    entities: int
    edges: int
    files: int
    types: dict[str, int]
    losses: list[Loss]
    """What the form cannot hold, or holds differently."""


async def export_as(
    context: OperationContext,
    form: Form,
    output: BinaryIO | Directory,
    options: Options | None = None,
    *,
    path: str = "-",
    progress: Progress = no_progress,
) -> Report:
    """As the operator, like every export. `progress` counts entities.

    Raises NotFound for a project or type that is not there, InvalidArgument for a moment that never was.
    """
    options = options or Options()
    losses = Losses()
    losses.note_always("earlier versions", "only what holds at that moment is exported; 'tallystick export' has it all")
    async with context.open_store() as store:
        reader = _Reader(store, msgspec.structs.replace(context.principal, tool=TOOL), context, options, losses)
        graph = await reader.graph(form, progress)
        writer = _writer(form, graph, output, losses)
        entities = edges = 0
        async for entity in reader.entities(graph):
            writer.add(entity)
            entities, edges = entities + 1, edges + len(entity.links)
            if entities % _AT_ONCE == 0:
                progress("exporting", entities, len(graph.names))
        writer.finish()
    types: dict[str, int] = {}
    for named in graph.names.values():
        types[named.type] = types.get(named.type, 0) + 1
    files = output.files if isinstance(output, Directory) else 1
    return Report(form.name, path, graph.position, graph.at, entities, edges, files, types, losses.listed())


def _writer(form: Form, graph: Graph, output: BinaryIO | Directory, losses: Losses) -> Writer:
    if isinstance(output, Directory):
        return directory_exporter(form).open_writer(graph, output, losses)
    return file_exporter(form).open_writer(graph, output, losses)


class _Moment(msgspec.Struct, frozen=True):
    at: int
    """A sequence number."""
    position: int
    time: str


class _Project:
    def __init__(self, board: Board, *, is_only: bool = True) -> None:
        self.name = board.name or board.id
        # Knowledge may belong to a project by its name; of two of that name only the id tells which.
        self.ids = {board.id, self.name} if is_only else {board.id}


class _Candidate(msgspec.Struct, frozen=True, gc=False):
    id: str
    named: Named
    belongs: bool
    hangs_on: tuple[str, ...]


class _Reader:
    def __init__(
        self, store: Store, principal: Principal, context: OperationContext, options: Options, losses: Losses
    ) -> None:
        self._store = store
        self._principal = principal
        self._contents = Contents(context.settings.home)
        self._options = options
        self._losses = losses
        self._moment = _Moment(0, 0, "")

    async def graph(self, form: Form, progress: Progress) -> Graph:
        self._moment = await self._ask(self._find_moment)
        project = await self._ask(partial(self._project, form=form))
        if await self._ask(lambda state, read_filter: bool(state.derived(Trust).recalls())):
            self._losses.note_always("recalls", "left out: what they name says so itself")
        ids = await self._look(self._ids)
        found: list[_Candidate] = []
        async for some in self._in_parts(partial(self._candidates, project=project), ids):
            found += some
            progress("reading", len(found), len(ids))
        members = {each.id for each in found if each.belongs}
        names = {each.id: each.named for each in found if each.belongs or not members.isdisjoint(each.hangs_on)}
        if self._options.type is not None:
            names = {entity_id: named for entity_id, named in names.items() if named.type == self._options.type}
            if not names:
                hint = "'tallystick search --facets' lists the types"
                raise NotFound(f"there is nothing of type '{self._options.type}'", hint=hint)
        return Graph(names, self._moment.position, self._moment.time, project.name if project else None)

    async def entities(self, graph: Graph) -> AsyncGenerator[Entity]:
        async for some in self._in_parts(self._read, list(graph.names)):
            for node, edges, flags in some:
                yield self._entity(graph, node, edges, flags)

    async def _in_parts(
        self, read: Callable[[State, ReadFilter, Sequence[str]], Breathing[T]], ids: Sequence[str]
    ) -> AsyncGenerator[T]:
        """In slices; one that takes too long, in smaller ones. One entity is read however long it takes."""
        place, size = 0, _AT_ONCE
        while place < len(ids):
            some = ids[place : place + size]

            def look(state: State, read_filter: ReadFilter, some: Sequence[str] = some) -> Breathing[T]:
                return read(state, read_filter, some)

            try:
                found = await self._look(look)
            except LimitExceeded:
                if size == 1:
                    raise
                size = 1
                continue
            yield found
            place, size = place + size, min(2 * size, _AT_ONCE)

    async def _ask(self, question: Callable[[State, ReadFilter], T]) -> T:
        def look(state: State, read_filter: ReadFilter) -> Breathing[T]:
            yield
            return question(state, read_filter)

        return await self._look(look)

    async def _look(self, look: Callable[[State, ReadFilter], Breathing[T]]) -> T:
        def prepared(state: State, read_filter: ReadFilter) -> Breathing[T]:
            if self._options.as_of is not None:
                read_filter.look_back(self._options.as_of)
            return (yield from look(state, read_filter))

        return await self._store.read(self._principal, Action.SEARCH, prepared)

    # -- which

    def _find_moment(self, state: State, read_filter: ReadFilter) -> _Moment:
        at = state.count if self._options.as_of is None else state.moment(self._options.as_of)
        head = state.commit(at) if at else None
        return _Moment(at, head.lamport if head else 0, head.timestamp if head else "")

    def _project(self, state: State, read_filter: ReadFilter, form: Form) -> _Project | None:
        """Raises NotFound, and InvalidArgument where one has to be named."""
        graph = state.derived(WorkGraph)
        known = [board for board in graph.projects() if read_filter.allows(board.id)]
        wanted = self._options.project
        if wanted is not None:
            board = graph.project(wanted)
            if board is None or board not in known:
                named = ", ".join(f"'{each.name}'" for each in known[:5])
                raise NotFound(f"there is no project '{wanted}'", hint=f"there are {named}" if named else None)
            return _Project(board, is_only=len(graph.namesakes(board.name or "")) == 1)
        if not form.needs_project:
            return None
        if len(known) != 1:
            named = ", ".join(f"'{each.name}'" for each in known[:5])
            problem = f"{form.name} is of one project: name it with --project"
            raise InvalidArgument(problem, hint=f"there are {named}" if named else "there is no project yet")
        return _Project(known[0])

    def _ids(self, state: State, read_filter: ReadFilter) -> Breathing[list[str]]:
        """All that may have been there then; in the order in which it was made, what is gone by now last."""
        touched = yield from state.touched_since(self._moment.at)
        return list(dict.fromkeys([*state.living_ids(), *(each for kind, each in touched if kind == "node")]))

    def _candidates(
        self, state: State, read_filter: ReadFilter, ids: Sequence[str], project: _Project | None
    ) -> Breathing[list[_Candidate]]:
        found: list[_Candidate] = []
        for entity_id in ids:
            yield
            node = state.node(entity_id, self._moment.at)
            if node is None or node.type.startswith(RESERVED) or not read_filter.allows(entity_id):
                continue
            belongs = project is None or not project.ids.isdisjoint([entity_id, *_texts(node.attrs, BELONGS_BY)])
            hangs_on = () if project is None else tuple(_texts(node.attrs, HANGS_ON))
            if belongs or hangs_on:
                named = Named(node.type, title_of(entity_id, node.attrs))
                found.append(_Candidate(entity_id, named, belongs, hangs_on))
        return found

    # -- what they say

    def _read(
        self, state: State, read_filter: ReadFilter, ids: Sequence[str]
    ) -> Breathing[list[tuple[Node, list[Edge], dict[str, dict[str, Any]]]]]:
        found: list[tuple[Node, list[Edge], dict[str, dict[str, Any]]]] = []
        for entity_id in ids:
            yield
            node = state.node(entity_id, self._moment.at)
            if node is None or not read_filter.allows(entity_id):
                continue
            edges = state.edges(entity_id, "out", at=self._moment.at, read_filter=read_filter)
            flags = {entity_id: _flags(state, read_filter, entity_id, None)}
            flags |= {edge.id: _flags(state, read_filter, edge.id, edge.attrs) for edge in edges}
            found.append((node, edges, flags))
        return found

    def _entity(self, graph: Graph, node: Node, edges: list[Edge], flags: dict[str, dict[str, Any]]) -> Entity:
        links: list[Link] = []
        for edge in edges:
            if edge.target not in graph.names:
                self._losses.note("edge", "it leads to what is not exported", edge.id)
                continue
            links.append(
                Link(
                    id=edge.id,
                    rel=edge.rel,
                    target=edge.target,
                    attrs=edge.attrs,
                    text=self._text(edge),
                    at=edge.timestamp,
                    **flags[edge.id],
                )
            )
        known, said = graph.names[node.id], node.provenance
        return Entity(
            id=node.id,
            type=node.type,
            title=known.title,
            attrs=node.attrs,
            text=self._text(node),
            created_by=said.created_by,
            updated_by=said.updated_by,
            at=said.timestamp,
            position=said.lamport,
            commit_id=said.commit_id,
            links=tuple(links),
            **flags[node.id],
        )

    def _text(self, entity: Node | Edge) -> str | None:
        if entity.content is None:
            return None
        try:
            data = self._contents.read(entity.content)
            text = data.decode() if len(data) <= _TEXT_BYTES_MAX else None
        except (TallystickError, UnicodeDecodeError):
            text = None
        if text is None:
            self._losses.note("content", "it is no text, too large, or cannot be read", entity.id)
        return text


def _texts(attrs: dict[str, Any], names: Iterable[str]) -> Iterator[str]:
    return (value for name in names if isinstance(value := attrs.get(name), str))


def _flags(
    state: State, read_filter: ReadFilter, entity_id: str, edge_attrs: dict[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """Without telling anybody that it was read: an export makes no work of what is stale."""
    flags: dict[str, dict[str, Any]] = {}
    recall = state.derived(Trust).find(entity_id)
    if recall is not None:
        flags["untrusted"] = {"recall": recall.id, "reason": recall.reason}
    stale = read_filter.stale(entity_id, edge_attrs)
    if stale is not None:
        flags["stale"] = msgspec.to_builtins(stale)
    return flags
