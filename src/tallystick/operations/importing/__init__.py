"""Import from other programs: what an importer reads is compared with the memory, and the new and changed is written.

Everything is judged at the head, in the draft that writes it, so that a second run writes nothing, and one that was
killed goes on where it was: there is no record of how far it came besides the memory itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from tallystick.commits import Operation
from tallystick.errors import Conflict, Denied, InvalidArgument, LimitExceeded, NotFound, TallystickError
from tallystick.importers import Fact, Importer, Item, Link, Unmapped
from tallystick.importers.registry import AUTO, find, guess
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.importing import facts
from tallystick.operations.importing.report import Report, Verdict, refusal
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
        """Of the facts that there were so far."""

    async def run(self, importer: Importer, path: Path) -> None:
        """Facts as they come, then what refers to them."""
        links: list[Link] = []
        for batch in _batches(self._facts(importer.read(path), links)):
            await self._each_fact(batch)
        for more in _batches(links):
            await self._each_fact(more)

    def _facts(self, found: Iterator[Item | Unmapped], links: list[Link]) -> Iterator[Fact]:
        """Those that are to be written; the others are set aside."""
        prefix = self._options.prefix
        for item in found:
            if isinstance(item, Unmapped):
                self._result.leave_out([item])
            elif isinstance(item, Link):
                ends = {"source": prefix + item.source, "target": prefix + item.target}
                links.append(msgspec.structs.replace(item, **ends) if prefix else item)
            elif isinstance(item, Fact):
                named = msgspec.structs.replace(item, id=prefix + item.id) if prefix else item
                if named.id in self._ids:
                    self._result.add(named, Unmapped(item.where, named.id, "another one before it has the same id"))
                else:
                    self._ids.add(named.id)
                    yield named

    # -- facts and links

    async def _each_fact(self, batch: Sequence[Fact | Link]) -> None:
        prepared: list[facts.Prepared] = []
        for item in batch:
            try:
                prepared.append(facts.prepare(self._result.source, item))
            except TallystickError as error:
                self._result.add(item, refusal(item, error))
        if self._options.dry_run:
            verdicts = await self._look_at_facts(prepared)
            self._count([each.item for each in prepared], verdicts)
        else:
            await self._write_facts(prepared)

    async def _look_at_facts(self, batch: Sequence[facts.Prepared]) -> list[Verdict]:
        source = self._result.source
        if self._store is None:
            return facts.look_nowhere(batch, self._ids)
        return await self._store.read(
            self._context.principal,
            Action.SEARCH,
            lambda state, read_filter: facts.look(source, state, read_filter, batch, self._ids),
        )

    async def _write_facts(self, batch: Sequence[facts.Prepared]) -> None:
        source = self._result.source
        items = [each.item for each in batch]
        try:
            verdicts = await self._write(
                lambda state, read_filter: facts.draw(source, state, read_filter, batch),
            )
        except _REFUSALS as error:
            if len(batch) == 1:
                self._count(items, [refusal(items[0], error)])
                return
            half = len(batch) // 2
            await self._write_facts(batch[:half])
            await self._write_facts(batch[half:])
            return
        self._count(items, verdicts)

    # -- both

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
