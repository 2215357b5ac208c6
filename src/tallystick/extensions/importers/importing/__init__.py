"""Import from other programs: what an importer reads is compared with the memory, and the new and changed is written.

Everything is judged at the head, in the draft that writes it, so that a second run writes nothing, and one that was
killed goes on where it was: there is no record of how far it came besides the memory itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.commits import Draft, Operation
from tallystick.engine.store import Store
from tallystick.errors import Conflict, Denied, InvalidArgument, LimitExceeded, NotFound, TallystickError
from tallystick.extensions.importers import Atom, Fact, Importer, Item, Link, Task, Unmapped
from tallystick.extensions.importers.importing import atoms, facts, tasks
from tallystick.extensions.importers.importing.report import Judged, Report, Verdict, called, refusal, shown
from tallystick.extensions.importers.registry import AUTO, find, guess
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.policy import Action
from tallystick.state.ontology import check
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.drafts import Drawn, write_drawn

TOOL = "import"
TOGETHER = 1_000
"""Items that are written together or not at all: a kill loses no more work than that, and nothing that was told."""
TOGETHER_BYTES = 4 << 20
_REFUSALS = (InvalidArgument, Conflict, NotFound, Denied, LimitExceeded)
"""Of an item. Whatever else goes wrong is of the memory, and ends the import."""

T = TypeVar("T")


class _Prepared(Protocol):
    """An item that may be said, and the id that it has here."""

    @property
    def id(self) -> str: ...

    @property
    def item(self) -> Item: ...


N = TypeVar("N", bound=Item)
P = TypeVar("P", bound=_Prepared)
Drawing = Callable[[State, ReadFilter], tuple[Sequence[Operation], T]]
Draw = Callable[[State, ReadFilter, Sequence[P]], tuple[Sequence[Operation], list[Verdict]]]
"""What to write at the head, and what becomes of each."""


class Options(msgspec.Struct, frozen=True):
    dry_run: bool = False
    prefix: str = ""
    """In front of the ids of facts, so that two sources may use the same."""
    project: str | None = None
    """For tasks and knowledge, instead of what the source calls it."""


async def import_from(
    context: OperationContext,
    name: str,
    path: Path,
    options: Options | None = None,
    *,
    report: Callable[[Report], None] = lambda report: None,
    progress: Progress = no_progress,
) -> Report:
    """`report` is given the result before anything is done: it is filled as the import goes on, and tells how far it
    came when it is interrupted. `progress` counts items. Raises NotFound, InvalidArgument, and what the log raises."""
    options = options or Options()
    if not _is_text(options):
        raise InvalidArgument("the prefix or the name of the project is not UTF-8")
    source = guess(path) if name == AUTO else name
    importer = find(source)
    result = Report(source, shown(str(path)), dry_run=options.dry_run)
    report(result)
    for count, found in enumerate(importer.read(path), 1):
        result.items += not isinstance(found, Unmapped)
        if count % TOGETHER == 0:
            progress("reading", result.items, result.items)
    if options.dry_run and not context.settings.has_log:
        await _Import(context, None, result, options, progress).run(importer, path)
        return result
    async with context.open_store_under_policy() as store:
        await _Import(context, store, result, options, progress).run(importer, path)
    return result


class _Import:
    def __init__(
        self,
        context: OperationContext,
        store: Store | None,
        result: Report,
        options: Options,
        progress: Progress,
    ) -> None:
        """Without a store there is no memory yet: nothing is there, and nothing can be written."""
        self._context = context
        self._store = store
        self._result = result
        self._options = options
        self._progress = progress
        self._ids: set[str] = set()
        """Of all items that there were so far; of facts as they are."""
        self._tasks: dict[str, list[Task]] = {}
        self._atoms: dict[str, list[Atom]] = {}

    async def run(self, importer: Importer, path: Path) -> None:
        """Facts as they come, then what refers to them."""
        links: list[Link] = []
        for batch in _batches(self._facts(importer.read(path), links)):
            await self._each_fact(batch)
        for more in _batches(links):
            await self._each_link(more)
        for project, planned in self._tasks.items():
            await self._each_task(project, planned)
        for project, atoms_of in self._atoms.items():
            for some in _batches(atoms_of):
                await self._each_atom(project, some)

    def _facts(self, found: Iterator[Item | Unmapped], links: list[Link]) -> Iterator[Fact]:
        """Those that are to be written; the others are set aside."""
        prefix = self._options.prefix
        for item in found:
            if isinstance(item, Unmapped):
                self._result.leave_out([item])
            elif not _is_text(item):
                self._result.add(item, Unmapped(item.where, called(item), "it, or the name of its file, is not UTF-8"))
            elif isinstance(item, Link):
                ends = {"source": prefix + item.source, "target": prefix + item.target}
                link = msgspec.structs.replace(item, **ends) if prefix else item
                if self._is_first(link, "\0".join((link.source, item.rel, link.target))):
                    links.append(link)
            elif isinstance(item, Task | Atom):
                self._set_aside(item)
            else:
                named = msgspec.structs.replace(item, id=prefix + item.id) if prefix else item
                if self._is_first(named, named.id):
                    yield named

    def _set_aside(self, item: Task | Atom) -> None:
        if self._options.project is not None:
            item = msgspec.structs.replace(item, project=self._options.project)
        if not self._is_first(item, "\0".join((type(item).__name__, item.project, item.origin.id, ""))):
            return
        if isinstance(item, Task):
            self._result.note_state(item)
            self._tasks.setdefault(item.project, []).append(item)
        else:
            self._atoms.setdefault(item.project, []).append(item)

    def _is_first(self, item: Item, key: str) -> bool:
        if key in self._ids:
            told = (
                "another one before it is the same" if isinstance(item, Link) else "another one before it has this id"
            )
            self._result.add(item, Unmapped(item.where, called(item), told))
            return False
        self._ids.add(key)
        return True

    # -- each kind

    async def _each_fact(self, batch: Sequence[Fact]) -> None:
        source = self._result.source
        await self._each(self._prepared(batch, partial(facts.prepare, source)), partial(facts.draw, source))

    async def _each_link(self, batch: Sequence[Link]) -> None:
        """In a dry run their ends are not there yet."""
        source = self._result.source
        draw = partial(facts.look, source, self._ids) if self._options.dry_run else partial(facts.draw, source)
        await self._each(self._prepared(batch, partial(facts.prepare, source)), draw)

    async def _each_task(self, project: str, found: Sequence[Task]) -> None:
        source = self._result.source
        planned, told = tasks.plan(source, project, found)
        self._result.leave_out(told)
        changed: set[str] = set()
        for batch in _batches(planned):
            changed |= await self._each(batch, partial(tasks.draw, source, project))
        if not self._options.dry_run:
            for batch in _batches(planned):
                await self._each_edge(batch, frozenset(changed))

    async def _each_edge(self, batch: Sequence[tasks.Planned], changed: frozenset[str]) -> None:
        draw = partial(tasks.draw_edges, self._result.source, changed)
        try:
            self._result.leave_out(await self._write(partial(draw, batch=batch)))
        except _REFUSALS as error:
            if len(batch) == 1:
                self._result.leave_out([refusal(batch[0].item, error)])
                return
            for half in _halves(batch):
                await self._each_edge(half, changed)

    async def _each_atom(self, project: str, batch: Sequence[Atom]) -> None:
        source = self._result.source
        draw = partial(atoms.draw, source, project, to_text(wall_clock()))
        await self._each(self._prepared(batch, partial(atoms.prepare, source)), draw)

    # -- all of them

    def _prepared(self, batch: Sequence[N], prepare: Callable[[N], P]) -> list[P]:
        """Those that may be said at all; the others are told."""
        prepared: list[P] = []
        for item in batch:
            try:
                prepared.append(prepare(item))
            except TallystickError as error:
                self._result.add(item, refusal(item, error))
        return prepared

    async def _each(self, batch: Sequence[P], draw: Draw[P]) -> set[str]:
        """All of them together; where that is refused, in halves, until it is known which of them is. Returns the ids
        of those that changed."""
        if not batch:
            return set()
        attempt = self._try if self._options.dry_run else self._write
        try:
            verdicts = await attempt(lambda state, read_filter: draw(state, read_filter, batch))
        except _REFUSALS as error:
            if len(batch) > 1:
                first, second = _halves(batch)
                return await self._each(first, draw) | await self._each(second, draw)
            verdicts = [refusal(batch[0].item, error)]
        for each, verdict in zip(batch, verdicts, strict=True):
            self._result.add(each.item, verdict)
        self._progress("comparing" if self._options.dry_run else "importing", self._result.done, self._result.items)
        pairs = zip(batch, verdicts, strict=True)
        return {each.id for each, verdict in pairs if isinstance(verdict, Judged) and verdict.outcome == "changed"}

    async def _write(self, draw: Drawing[T]) -> T:
        assert self._store is not None

        def drawn(state: State, read_filter: ReadFilter) -> Drawn[T]:
            operations, answer = draw(state, read_filter)
            return Drawn(answer, operations)

        answer, receipt = await write_drawn(
            self._store, self._context.principal, TOOL, drawn, reason=f"imported from {self._result.source}"
        )
        self._result.commits += len(receipt.commits) if receipt is not None else 0
        return answer

    async def _try(self, draw: Drawing[T]) -> T:
        """As far as it can be told without writing."""
        actor = self._context.principal.actor

        def look(state: State, read_filter: ReadFilter) -> T:
            operations, answer = draw(state, read_filter)
            if operations:
                check(state, Draft(tuple(operations), actor=actor, tool=TOOL), read_filter)
            return answer

        if self._store is None:
            empty = State(_no_line)
            return look(empty, ReadFilter(empty))
        return await self._store.read(self._context.principal, Action.SEARCH, look)


def _no_line(offset: int, *, checked: bool = True) -> bytes:
    """Of a memory that is not there yet."""
    raise LookupError(offset)


def _is_text(item: Item | Options) -> bool:
    """A name of a file may be any bytes; Python reads them as halves of characters, which no memory can hold."""
    try:
        msgspec.json.encode(item)
    except UnicodeEncodeError:
        return False
    return True


def _halves(batch: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    half = len(batch) // 2
    return batch[:half], batch[half:]


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    """As many as are written together, by number and by size."""
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(msgspec.json.encode(item))
        if len(batch) == TOGETHER or size >= TOGETHER_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
