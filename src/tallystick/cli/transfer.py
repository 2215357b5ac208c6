"""The commands that carry a memory from one place to another: export, import.

An export is the log itself, line by line, so it carries its own proof. Imported into an
empty base it becomes that very log again. Imported into another one, or written by hand as
the arguments of memory.write, its lines are written anew, in order, as if an agent did.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from tallystick import strict_json
from tallystick.cli.options import Base, Json, Tenant, existing, settled
from tallystick.cli.output import emit, note, progress
from tallystick.cli.tool_client import principal, tool
from tallystick.errors import Conflict, Corrupt, InvalidArgument, TallystickError
from tallystick.file_locks import locked, take
from tallystick.operations import counted
from tallystick.private_files import replacing

if TYPE_CHECKING:
    from tallystick.commits import Commit
    from tallystick.config import Settings
    from tallystick.log import Entry, Head
    from tallystick.store import Store

_BY_UMASK = 0o666
"""What a person exports is readable for whom that person's umask says."""
_BESIDE = "importing-"
_TOGETHER_LINES = 256
_TOGETHER_BYTES = 8 << 20


def export(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to; - is standard output.")] = Path("-"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Write every commit to a file: a whole backup.

    One JSON object a line, verified as it is read.
    The file appears under its name only when it is complete. Servers may go on writing meanwhile.

    \b
    Examples:
      tallystick export backup.jsonl
      tallystick export | gzip > backup.jsonl.gz
    """
    from tallystick.log.backups import note_backup
    from tallystick.log.files import FilesLog

    settings = existing(base=base, tenant=tenant)
    to_stdout = str(file) == "-"
    if not to_stdout and file.exists() and not force:
        raise Conflict(f"{file} is already there", code="FILE_EXISTS", hint="choose another name, or add --force")
    log = FilesLog(settings.system)
    try:
        with _stdout() if to_stdout else _whole_file(file) as target:
            count, position = _copy_lines(log, target)
    finally:
        log.close()
    note_backup(settings.system, "-" if to_stdout else str(file.absolute()), position=position, commits=count)
    if not to_stdout:
        note(f"{counted(count, 'commit')} in {file}; to prove them, import them into an empty base and verify that")
    blobs = sum(1 for _ in (settings.home / "_content" / "blobs").glob("*"))
    if blobs:
        note(f"{counted(blobs, 'large content')} beside the log: copy {settings.home / '_content' / 'blobs'} as well")


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to read; - is standard input.")],
    replay: Annotated[
        bool, typer.Option("--replay", help="Write an export's commits anew, as additions to what is there.")
    ] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Read an export back, or operations written by hand.

    \b
    An export into an empty base: the very same log again, all of it or nothing, verified.
    An export with --replay: new commits that keep actor, reason and run_context; the old commit id is
      their nonce, so that importing the same file twice adds nothing.
    Other lines: the arguments of memory.write, for example
      {"op": "UPSERT_NODE", "node": {"id": "ada", "type": "Person", "attrs": {"name": "Ada"}}}
      They are written in order; at the first that is refused it stops and names the line.

    \b
    Examples:
      tallystick import backup.jsonl --base ./restored
      zcat backup.jsonl.gz | tallystick import - --base ./restored
      tallystick import facts.jsonl
    """
    settings = settled(base=base, tenant=tenant)
    with _opened(file) as (source, size):
        first = source.readline()
        source.seek(0)
        if not _is_commit(first):
            told = _write_all(settings, source, size, _operation_of)
        elif replay:
            told = _write_all(settings, source, size, _operation_again)
        else:
            told = _restore(settings, source, size)
    if json:
        emit(told)
    else:
        note(f"{counted(told['commits'], 'commit')} {told['how']} into {settings.home}" + _already(told))


def _already(told: dict[str, Any]) -> str:
    return f"; {told['duplicates']} were there already" if told.get("duplicates") else ""


# -- the exact copy


def _copy_lines(log: Any, target: BinaryIO) -> tuple[int, int]:
    """How many, and the lamport of the last."""
    from tallystick.log import Head

    count = position = 0
    total = log.head().end
    with progress() as tell:
        for entry in log.read(Head()):
            target.write(entry.line + b"\n")
            count, position = count + 1, entry.commit.lamport
            if count % _TOGETHER_LINES == 0:
                tell("exporting", entry.end, total)
    return count, position


def _restore(settings: Settings, source: BinaryIO, size: int) -> dict[str, Any]:
    """Built beside and moved into place under the lock: a crash leaves the base as it was, or whole."""
    from tallystick.log.files import FilesLog
    from tallystick.log.head_file import HeadFile
    from tallystick.private_files import sync_directory

    target = FilesLog(settings.system)
    _require_empty(settings, target.head())
    _sweep(settings.system)
    beside = Path(tempfile.mkdtemp(prefix=_BESIDE, dir=settings.system))
    alive = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    take(alive)
    try:
        head = _build(settings, beside, source, size)
        if not target.claim(timeout_seconds=30):
            raise Conflict("another process holds the lock of this base", hint="try again when it is done")
        try:
            _require_empty(settings, target.head())
            os.rename(beside / "log", settings.system / "log")
            sync_directory(settings.system)
            mark = HeadFile(settings.system / "head")
            mark.write(head)
            mark.close()
        finally:
            target.release()
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        os.close(alive)
        target.close()
    return {"commits": head.count, "how": "restored exactly", "position": head.lamport}


def _sweep(system: Path) -> None:
    """What imports left that were killed; one that lives has a lock on its directory."""
    for left in system.glob(f"{_BESIDE}*"):
        with suppress(OSError), locked(left, timeout_seconds=0, create=False) as is_dead:
            if is_dead:
                shutil.rmtree(left)


def _require_empty(settings: Settings, head: Head) -> None:
    if head.count:
        raise Conflict(
            f"{settings.home} already holds {head.count} commits; an exact copy needs an empty base",
            code="NOT_EMPTY",
            hint="name an empty one with --base, or add --replay to write the commits anew behind these",
        )


def _build(settings: Settings, system: Path, source: BinaryIO, size: int) -> Head:
    from tallystick.log import Head
    from tallystick.log.files import FilesLog

    head = Head()
    log = FilesLog(system, segment_bytes_max=settings.segment_bytes_max)
    try:
        with progress() as tell:
            for entries in _verified_groups(settings, source):
                head = log.append(entries, expected=head)
                tell("importing", head.end, size)
    finally:
        log.close()
    return head


def _verified_groups(settings: Settings, source: BinaryIO) -> Iterator[list[Entry]]:
    """Whole batches, as many as go into one append."""
    from tallystick.commits import chain
    from tallystick.log import Entry

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


def _write_all(
    settings: Settings, source: BinaryIO, size: int, operation_of: Callable[[bytes], dict[str, Any]]
) -> dict[str, Any]:
    async def write() -> dict[str, Any]:
        from tallystick import app

        told = {"commits": 0, "how": "written", "duplicates": 0}
        async with app.opened(settings) as store:
            with progress() as tell:
                for first, lines in _windows(source):
                    await _write_window(settings, store, first, lines, operation_of, told)
                    tell("importing", source.tell(), size)
        return told

    return asyncio.run(write())


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
    settings: Settings,
    store: Store,
    first: int,
    lines: list[bytes],
    operation_of: Callable[[bytes], dict[str, Any]],
    told: dict[str, Any],
) -> None:
    from tallystick.server.dispatch import prepare

    word = tool(settings, "memory.write")
    turns: list[_Turn] = []
    calls: list[Awaitable[Any]] = []
    refused: tuple[int, TallystickError] | None = None
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            prepared = prepare(word, operation_of(line))
        except TallystickError as error:
            refused = number, error
            break
        turn: Any = _Turn(number, store, turns[-1] if turns else None)
        turns.append(turn)
        calls.append(turn.taken(word.call(turn, principal(settings), prepared)))
    for turn, outcome in zip(turns, await asyncio.gather(*calls), strict=True):
        if isinstance(outcome, TallystickError):
            refused = turn.number, outcome
            break
        told["duplicates" if outcome.data["duplicate"] else "commits"] += 1
    if refused:
        raise _refusal(*refused, told["commits"])


class _NotYet(TallystickError):
    """The line before it is not written, or not yet."""


class _Turn:
    """The store as one line sees it: nothing is written unless the line before it is, though all wait together."""

    def __init__(self, number: int, store: Store, before: _Turn | None) -> None:
        self.number = number
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

    async def write_narrowed(self, principal: Any, action: Any, propose: Any, **where: Any) -> Any:
        from tallystick.commits import Commit

        def in_turn(state: Any, read_filter: Any) -> Any:
            self._proposed = None
            if self._before is not None and not self._before._leads_to(state.position):
                raise _NotYet("the line before it is not written")
            proposed = propose(state, read_filter)
            self._proposed = -1 if isinstance(proposed, Commit) else state.position
            return proposed

        while True:
            try:
                return await self._store.write_narrowed(principal, action, in_turn, **where)
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
    from tallystick.commits import chain

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


# -- files


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Something that can be read twice: standard input is set aside first."""
    if str(file) != "-":
        try:
            with file.open("rb") as source:
                yield source, file.stat().st_size
        except (FileNotFoundError, IsADirectoryError) as error:
            raise InvalidArgument(f"cannot read {file}: {error.strerror}", code="FILE_UNREADABLE") from None
        return
    with tempfile.TemporaryFile() as source:
        shutil.copyfileobj(sys.stdin.buffer, source)
        size = source.tell()
        source.seek(0)
        yield source, size


@contextmanager
def _stdout() -> Iterator[BinaryIO]:
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    partial = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        with replacing(path, unfinished=partial, mode=_BY_UMASK) as target:
            yield target
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error
