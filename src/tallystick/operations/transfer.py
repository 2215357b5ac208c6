"""Export and import: a memory carried from one place to another.

An export is the log itself, line by line, so it carries its own proof. Imported into an
empty base it becomes that very log again. Imported into another one, or written by hand as
the arguments of memory.write, its lines are written anew, in order, as if an agent did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from types import GeneratorType
from typing import Any, BinaryIO, Literal, Protocol

import msgspec

from tallystick.commits import DELETIONS, EDGE_VERBS, Commit, Draft, Operation, Verb, chain
from tallystick.config import Settings
from tallystick.engine.partition import Proposal
from tallystick.engine.store import Store, Target
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, TallystickError
from tallystick.formats import strict_json
from tallystick.log import Entry, Head
from tallystick.log.checkpoint import Comparison, Known
from tallystick.log.restore import restore
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.copies import note_export
from tallystick.operations.verify import known_checkpoints
from tallystick.policy import Action, Principal
from tallystick.state.derivation import entity_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import RESERVED as TRUST
from tallystick.toolsets import Answer
from tallystick.toolsets.entity_rules import judge
from tallystick.toolsets.memory.write import speaker

_UPSERTS = (Verb.UPSERT_NODE, Verb.UPSERT_EDGE)
Call = Callable[[Any], Awaitable[Any]]
_TOGETHER_LINES = 256
_TOGETHER_BYTES = 8 << 20


class Output(Protocol):
    def write(self, data: bytes, /) -> int: ...


class Exported(msgspec.Struct, frozen=True):
    commits: int
    position: int
    blobs: int
    """Large contents that lie beside the log and are not in the export."""


class Imported(msgspec.Struct):
    commits: int
    how: Literal["written", "restored exactly"]
    duplicates: int = 0
    position: int | None = None


async def export(
    context: OperationContext, target: Output, *, name: str = "-", progress: Progress = no_progress
) -> Exported:
    """Every commit, a line each, verified as it is read. Noted as a backup under `name`. Servers may go on writing."""
    settings = context.settings
    count = position = 0
    async with context.open_store() as store:
        total = (await store.partition(context.principal)).log_bytes
        async for entry in store.commits(context.principal):
            target.write(entry.line + b"\n")
            count, position = count + 1, entry.commit.lamport
            if count % _TOGETHER_LINES == 0:
                progress("exporting", entry.end, total)
    note_export(settings.system, name, position=position, commits=count)
    return Exported(count, position, sum(1 for _ in (settings.home / "_content" / "blobs").glob("*")))


async def import_(
    context: OperationContext,
    source: BinaryIO,
    *,
    size: int,
    replay: bool = False,
    checkpoints: Sequence[Known] = (),
    progress: Progress = no_progress,
) -> Imported:
    """From a file that can be read twice. An export becomes that very log in an empty base, or with `replay` new
    commits that keep actor, reason and run_context; other lines are written as memory.write would.

    An exact copy must lead to the `checkpoints`, and to the one that was signed in this base last: raises Corrupt."""
    first = source.readline()
    source.seek(0)
    if not _is_commit(first):
        return await _write_all(context, source, size, _operation_of, progress)
    if replay:
        return await _write_all(context, source, size, _operation_again, progress)
    comparison = known_checkpoints(context, checkpoints)
    return await asyncio.to_thread(_restore, context, source, size, comparison, progress)


# -- the exact copy


def _restore(
    context: OperationContext, source: BinaryIO, size: int, comparison: Comparison, progress: Progress
) -> Imported:
    """A crash leaves the base as it was, or whole."""
    settings = context.settings
    head = restore(
        settings.system,
        _counted(_compared(_verified_groups(settings, source), comparison), size, progress),
        segment_bytes_max=settings.segment_bytes_max,
        require_empty=lambda head: _require_empty(settings, head),
    )
    return Imported(head.count, "restored exactly", position=head.lamport)


def _compared(groups: Iterator[list[Entry]], comparison: Comparison) -> Iterator[list[Entry]]:
    for entries in groups:
        for entry in entries:
            comparison.feed(entry.commit.record_hash)
        yield entries
    comparison.check()


def _counted(groups: Iterator[list[Entry]], size: int, progress: Progress) -> Iterator[list[Entry]]:
    for entries in groups:
        yield entries
        progress("importing", entries[-1].end, size)


def _require_empty(settings: Settings, head: Head) -> None:
    if head.count:
        raise Conflict(
            f"{settings.home} already holds {head.count} commits; an exact copy needs an empty base",
            code="NOT_EMPTY",
            hint="name an empty one with --base, or add --replay to write the commits anew behind these",
        )


def _verified_groups(settings: Settings, source: BinaryIO) -> Iterator[list[Entry]]:
    """Whole batches, as many as go into one append."""
    verifier = chain.Verifier()
    group: list[Entry] = []
    offset = 0
    for number, raw in enumerate(source, 1):
        line = raw.removesuffix(b"\n")
        with _naming(number, "the export is damaged there; nothing was imported"):
            commit = verifier.feed(line)
            _require_tenant(settings, commit)
        group.append(Entry(offset, commit, line))
        offset += len(line) + 1
        if commit.ends_draft and (len(group) >= _TOGETHER_LINES * 16 or offset - group[0].offset >= _TOGETHER_BYTES):
            yield group
            group = []
    with _naming(None, "the export is damaged; nothing was imported"):
        verifier.finish()
    if group:
        yield group


def _require_tenant(settings: Settings, commit: Commit) -> None:
    if commit.tenant != settings.tenant:
        raise Conflict(
            f"this export is of tenant '{commit.tenant}', not of '{settings.tenant}'",
            code="OTHER_TENANT",
            hint=f"add --tenant {commit.tenant}, or --replay to write its commits anew",
        )


@contextmanager
def _naming(number: int | None, hint: str) -> Iterator[None]:
    try:
        yield
    except Corrupt as error:
        place = f"line {number}: " if number else ""
        raise Corrupt(place + error.message, hint=hint, details={**error.details, "line": number}) from None


# -- writing anew


async def _write_all(
    context: OperationContext,
    source: BinaryIO,
    size: int,
    operation_of: Callable[[bytes], dict[str, Any]],
    progress: Progress,
) -> Imported:
    done = Imported(0, "written")
    async with context.open_store_under_policy() as store:
        for first, lines in _windows(source):
            await _write_window(context, store, first, lines, operation_of, done)
            progress("importing", source.tell(), size)
    return done


def _windows(source: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Lines that are made durable together, with the number of the first."""
    first, lines = 1, []
    while line := source.readline():
        lines.append(line)
        if len(lines) == _TOGETHER_LINES or sum(map(len, lines)) >= _TOGETHER_BYTES:
            yield first, lines
            first, lines = first + len(lines), []
    if lines:
        yield first, lines


async def _write_window(
    context: OperationContext,
    store: Store,
    first: int,
    lines: list[bytes],
    operation_of: Callable[[bytes], dict[str, Any]],
    done: Imported,
) -> None:
    turns: list[_Turn] = []
    calls: list[Awaitable[Any]] = []
    refused: tuple[int, TallystickError] | None = None
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            is_again = operation_of is _operation_again
            call = _written_again(context, line) if is_again else context.prepare("memory.write", operation_of(line))
        except TallystickError as error:
            refused = number, error
            break
        turn: Any = _Turn(number, store, turns[-1] if turns else None, restoring=operation_of is _operation_again)
        turns.append(turn)
        calls.append(turn.taken(call(turn)))
    for turn, outcome in zip(turns, await asyncio.gather(*calls), strict=True):
        if isinstance(outcome, TallystickError):
            refused = turn.number, outcome
            break
        if outcome.data["duplicate"]:
            done.duplicates += 1
        else:
            done.commits += outcome.data.get("batch", {}).get("commits", 1)
    if refused:
        raise _refusal(*refused, done.commits)


def _written_again(context: OperationContext, line: bytes) -> Call:
    """Memory's own by memory.write; whatever that does not take as it was, judged by the rules of its vocabulary."""
    commit = chain.decode(line.removesuffix(b"\n"))
    if "content" in commit.document():
        return lambda store: _write_as_it_was(store, context.principal, commit)
    again = context.prepare("memory.write", _operation_again(line))

    async def write(store: Any) -> Any:
        try:
            return await again(store)
        except Conflict as error:
            if error.code != "RESERVED_TYPE":
                raise
        return await _write_as_it_was(store, context.principal, commit)

    return write


async def _write_as_it_was(store: Any, principal: Principal, commit: Commit) -> Any:
    author, entity = speaker(principal, commit.actor) or principal, entity_of(commit)
    nonce = f"import:{commit.commit_id}"

    def propose(state: State, read_filter: ReadFilter) -> Draft | Commit:
        known = state.nonce(author.actor, nonce)
        if known is not None:
            return known
        operation: Operation | None = Operation(commit.operation, commit.document())
        if commit.operation in _UPSERTS and not str(commit.document().get("type")).startswith(TRUST):
            operation = judge(state, read_filter, Operation(commit.operation, commit.document()), commit.timestamp)
        if operation is None:
            return _newest(state, entity)
        operation = msgspec.structs.replace(operation, nonce=nonce)
        return Draft(
            (operation,), actor=author.actor, tool=commit.tool, reason=commit.reason, run_context=commit.run_context
        )

    is_edge = commit.operation in EDGE_VERBS
    action = Action.DELETE if commit.operation in DELETIONS else Action.WRITE
    receipt = await store.write_all(author, propose, [Target(action, entity, is_edge=is_edge)])
    return Answer({"duplicate": receipt.duplicate})


def _newest(state: State, entity: str) -> Commit:
    """The newest commit on an entity that is there."""
    lineage = state.lineage(entity, "direct", 0, state.count)
    if lineage is None:
        raise NotFound(f"there is no '{entity}'")
    return max((step.commit for step in lineage.steps), key=lambda commit: commit.lamport)


class _NotYet(TallystickError):
    """The line before it is not written, or not yet."""


class _Turn:
    """The store as one line sees it: nothing is written unless the line before it is, though all wait together."""

    def __init__(self, number: int, store: Store, before: _Turn | None, *, restoring: bool) -> None:
        self.number = number
        self._restoring = restoring
        self._store = store
        self._before = before
        self._written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # The position it was proposed at; -1 for what was there already, None while it is not proposed.
        self._proposed: int | None = None

    async def taken(self, call: Awaitable[Any]) -> Any:
        """What the call answers, or the TallystickError that it raises."""
        outcome: Any = None
        try:
            outcome = await call
        except TallystickError as error:
            self._proposed, outcome = None, error
        finally:
            self._written.set_result(outcome is not None and not isinstance(outcome, TallystickError))
        return outcome

    def relative_path(self, path: str) -> str:
        return self._store.relative_path(path)

    async def write_all(self, principal: Any, propose: Any, targets: Any) -> Any:
        def in_turn(state: Any, read_filter: Any) -> Any:
            self._proposed = None
            if self._before is not None and not self._before._leads_to(state.position):
                raise _NotYet("the line before it is not written")
            proposed = propose(state, read_filter)
            if isinstance(proposed, GeneratorType):
                proposed = yield from proposed
            draft = proposed.draft if isinstance(proposed, Proposal) else proposed
            self._proposed = -1 if isinstance(draft, Commit) else state.position
            return proposed

        while True:
            try:
                return await self._store.write_all(principal, in_turn, targets, restoring=self._restoring)
            except _NotYet:
                # A policy may have been asked about that one for longer than about this one.
                if self._before is None or not await self._before._written:
                    raise

    def _leads_to(self, position: int) -> bool:
        """Whether it was accepted: a draft that is refused after it was proposed leaves the position as it was."""
        return self._proposed is not None and position > self._proposed


def _refusal(number: int, error: TallystickError, written: int) -> TallystickError:
    message = f"line {number}: {error.message}"
    hint = f"{error.hint + '; ' if error.hint else ''}the {written} commits before it are written, nothing after it"
    if isinstance(error, InvalidArgument):
        return InvalidArgument(message, problems=error.problems, code=error.code, hint=hint)
    return type(error)(message, code=error.code, hint=hint, details=error.details)


def _operation_of(line: bytes) -> dict[str, Any]:
    try:
        found = strict_json.parse(line)
    except strict_json.JsonFault as fault:
        raise InvalidArgument(f"not JSON: {fault}") from None
    if not isinstance(found, dict):
        raise InvalidArgument("not a JSON object", hint="each line holds the arguments of memory.write")
    return found


def _operation_again(line: bytes) -> dict[str, Any]:
    """An exported commit as the arguments of memory.write."""
    commit = chain.decode(line.removesuffix(b"\n"))
    said = commit.document()
    arguments: dict[str, Any] = {
        "op": str(commit.operation),
        "actor": commit.actor,
        "nonce": f"import:{commit.commit_id}",
        **_AGAIN[commit.operation](said),
    }
    reason = said.get("reason") or commit.reason
    return {
        **arguments,
        **({"reason": reason} if reason else {}),
        **({"run_context": commit.run_context} if commit.run_context else {}),
    }


def _edge_named(said: dict[str, Any]) -> dict[str, Any]:
    if "id" in said:
        return {"edge_id": said["id"]}
    return {"edge": {key: said[key] for key in ("from", "rel", "to")}}


_AGAIN: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "UPSERT_NODE": lambda said: {"node": said},
    "UPSERT_EDGE": lambda said: {"edge": said},
    "DELETE_NODE": lambda said: {"node_id": said["node_id"]},
    "DELETE_EDGE": _edge_named,
    # original_commit_id stays behind: in the new log that commit has another id.
    "REDACT_NODE": lambda said: {key: said[key] for key in ("node_id", "redacted_fields") if key in said},
    "REDACT_EDGE": lambda said: _edge_named(said) | {key: said[key] for key in ("redacted_fields",) if key in said},
}


def _is_commit(line: bytes) -> bool:
    return b'"record_hash":"' in line and b'"payload":' in line
