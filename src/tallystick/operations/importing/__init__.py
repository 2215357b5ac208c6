"""Import from other programs: what an importer reads is compared with the memory, and the new and changed is written.

Everything is judged at the head, in the draft that writes it, so that a second run writes nothing, and one that was
killed goes on where it was: there is no record of how far it came besides the memory itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.commits import Operation
from tallystick.errors import Conflict, Denied, InvalidArgument, LimitExceeded, NotFound, TallystickError
from tallystick.importers import Atom, Fact, Importer, Item, Link, Task, Unmapped
from tallystick.importers.registry import AUTO, find, guess
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.importing import atoms, facts, tasks
from tallystick.operations.importing.report import Judged, Report, Verdict, called, refusal
from tallystick.policy import Action
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.store import Store
from tallystick.toolsets.drafts import Drawn, write_drawn

TOOL = "import"
TOGETHER = 1_000
"""Items that are written together or not at all: a kill loses no more work than that, and nothing that was told."""
_REFUSALS = (InvalidArgument, Conflict, NotFound, Denied, LimitExceeded)
"""Of an item. Whatever else goes wrong is of the memory, and ends the import."""

T = TypeVar("T")


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


P = TypeVar("P", bound=_Identified)


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
    source = guess(path) if name == AUTO else name
    importer = find(source)
    result = Report(source, str(path), dry_run=options.dry_run)
    report(result)
    for count, found in enumerate(importer.read(path), 1):
        result.items += not isinstance(found, Unmapped)
        if count % TOGETHER == 0:
            progress("reading", 0, result.items)
    if options.dry_run and not (context.settings.system / "log").is_dir():
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
        """Of the facts, tasks and atoms that there were so far."""
        self._tasks: dict[str, list[Task]] = {}
        self._atoms: dict[str, list[Atom]] = {}

    async def run(self, importer: Importer, path: Path) -> None:
        """Facts as they come, then what refers to them."""
        links: list[Link] = []
        for batch in _batches(self._facts(importer.read(path), links)):
            await self._each_fact(batch)
        for more in _batches(links):
            await self._each_fact(more)
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
            elif isinstance(item, Link):
                ends = {"source": prefix + item.source, "target": prefix + item.target}
                links.append(msgspec.structs.replace(item, **ends) if prefix else item)
            elif isinstance(item, Task | Atom):
                self._set_aside(item)
            else:
                named = msgspec.structs.replace(item, id=prefix + item.id) if prefix else item
                if named.id in self._ids:
                    self._result.add(named, Unmapped(item.where, named.id, "another one before it has the same id"))
                else:
                    self._ids.add(named.id)
                    yield named

    def _set_aside(self, item: Task | Atom) -> None:
        if self._options.project is not None:
            item = msgspec.structs.replace(item, project=self._options.project)
        key = f"{type(item).__name__}\0{item.project}\0{item.origin.id}"
        if key in self._ids:
            self._result.add(item, Unmapped(item.where, called(item), "another one before it has the same id"))
            return
        self._ids.add(key)
        if isinstance(item, Task):
            self._result.note_state(item)
            self._tasks.setdefault(item.project, []).append(item)
        else:
            self._atoms.setdefault(item.project, []).append(item)

    # -- facts and links

    async def _each_fact(self, batch: Sequence[Fact | Link]) -> None:
        prepared: list[facts.Prepared] = []
        for item in batch:
            try:
                prepared.append(facts.prepare(self._result.source, item))
            except TallystickError as error:
                self._result.add(item, refusal(item, error))
        if self._options.dry_run:
            verdicts = await self._look(
                lambda state, read_filter: facts.look(self._result.source, state, read_filter, prepared, self._ids),
                lambda: facts.look_nowhere(prepared, self._ids),
            )
            self._count([each.item for each in prepared], verdicts)
        else:
            await self._write_facts(prepared)

    async def _write_facts(self, batch: Sequence[facts.Prepared]) -> None:
        source = self._result.source
        await self._write_each(
            batch,
            lambda each: each.item,
            lambda state, read_filter, some: facts.draw(source, state, read_filter, some),
        )

    # -- tasks

    async def _each_task(self, project: str, found: Sequence[Task]) -> None:
        source = self._result.source
        planned, told = tasks.plan(source, project, found)
        self._result.leave_out(told)
        changed: set[str] = set()
        for batch in _batches(planned):
            if self._options.dry_run:
                verdicts = await self._look(
                    partial(tasks.look, source, batch=batch),
                    partial(tasks.look_nowhere, source, batch),
                )
                self._count([each.task for each in batch], verdicts)
            else:
                changed |= await self._write_each(
                    batch,
                    lambda each: each.task,
                    lambda state, read_filter, some: tasks.draw(source, project, state, read_filter, some),
                )
        if not self._options.dry_run:
            for batch in _batches(planned):
                edges = partial(tasks.draw_edges, source, batch=batch, changed=frozenset(changed))
                self._result.leave_out(await self._write(edges))

    # -- knowledge

    async def _each_atom(self, project: str, batch: Sequence[Atom]) -> None:
        source = self._result.source
        prepared: list[atoms.Prepared] = []
        for item in batch:
            try:
                prepared.append(atoms.prepare(source, item))
            except TallystickError as error:
                self._result.add(item, refusal(item, error))
        if self._options.dry_run:
            verdicts = await self._look(
                lambda state, read_filter: atoms.look(source, state, read_filter, prepared),
                lambda: [Judged("new") for _ in prepared],
            )
            self._count([each.item for each in prepared], verdicts)
            return
        await self._write_each(
            prepared,
            lambda each: each.item,
            lambda state, read_filter, some: atoms.draw(
                source, project, state, read_filter, some, max(to_text(wall_clock()), state.head.timestamp)
            ),
        )

    # -- all of them

    async def _look(
        self, look: Callable[[State, ReadFilter], list[Verdict]], look_nowhere: Callable[[], list[Verdict]]
    ) -> list[Verdict]:
        if self._store is None:
            return look_nowhere()
        return await self._store.read(self._context.principal, Action.SEARCH, look)

    async def _write_each(
        self,
        batch: Sequence[P],
        item_of: Callable[[P], Item],
        draw: Callable[[State, ReadFilter, Sequence[P]], tuple[Sequence[Operation], list[Verdict]]],
    ) -> set[str]:
        """All of them together; where that is refused, in halves, until it is known which of them is. Returns the ids
        of those that changed."""
        if not batch:
            return set()
        items = [item_of(each) for each in batch]
        try:
            verdicts = await self._write(lambda state, read_filter: draw(state, read_filter, batch))
        except _REFUSALS as error:
            if len(batch) == 1:
                self._count(items, [refusal(items[0], error)])
                return set()
            half = len(batch) // 2
            first = await self._write_each(batch[:half], item_of, draw)
            return first | await self._write_each(batch[half:], item_of, draw)
        self._count(items, verdicts)
        pairs = zip(batch, verdicts, strict=True)
        return {each.id for each, verdict in pairs if isinstance(verdict, Judged) and verdict.outcome == "changed"}

    async def _write(self, draw: Callable[[State, ReadFilter], tuple[Sequence[Operation], T]]) -> T:
        assert self._store is not None

        def drawn(state: State, read_filter: ReadFilter) -> Drawn[T]:
            operations, answer = draw(state, read_filter)
            return Drawn(answer, operations)

        answer, receipt = await write_drawn(
            self._store,
            self._context.principal,
            TOOL,
            drawn,
            reason=f"imported from {self._result.source}",
        )
        self._result.commits += len(receipt.commits) if receipt is not None else 0
        return answer

    def _count(self, items: Sequence[Item], verdicts: Sequence[Verdict]) -> None:
        for item, verdict in zip(items, verdicts, strict=True):
            self._result.add(item, verdict)
        self._progress("comparing" if self._options.dry_run else "importing", self._result.done, self._result.items)


def _batches(items: Iterator[T] | Sequence[T]) -> Iterator[list[T]]:
    each = iter(items)
    while batch := list(islice(each, TOGETHER)):
        yield batch
