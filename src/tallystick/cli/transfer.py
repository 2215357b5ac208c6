"""The commands that carry a memory from one place to another: export, import."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from tallystick.cli.options import Base, Checkpoints, Json, Tenant, VerifierKeys, existing, read_checkpoints, settled
from tallystick.cli.output import emit, note, progress
from tallystick.errors import Conflict, InvalidArgument
from tallystick.operations import counted
from tallystick.private_files import replacing

_BY_UMASK = 0o666
"""What a person exports is readable for whom that person's umask says."""


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
    from tallystick import app
    from tallystick.operations.transfer import export as exported

    context = app.operation_context(existing(base=base, tenant=tenant))
    to_stdout = str(file) == "-"
    if not to_stdout and file.exists() and not force:
        raise Conflict(f"{file} is already there", code="FILE_EXISTS", hint="choose another name, or add --force")
    name = "-" if to_stdout else str(file.absolute())
    with progress() as tell, nullcontext(sys.stdout.buffer) if to_stdout else _whole_file(file) as target:
        done = asyncio.run(exported(context, target, name=name, progress=tell))
    if not to_stdout:
        note(
            f"{counted(done.commits, 'commit')} in {file}; to prove them, import them into an empty base and verify it"
        )
    if done.blobs:
        beside = context.settings.home / "_content" / "blobs"
        note(f"{counted(done.blobs, 'large content')} beside the log: copy {beside} as well")


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to read; - is standard input.")],
    replay: Annotated[
        bool, typer.Option("--replay", help="Write an export's commits anew, as additions to what is there.")
    ] = False,
    checkpoint: Checkpoints = None,
    vkey: VerifierKeys = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Read an export back, or operations written by hand.

    \b
    An export into an empty base: the very same log again, all of it or nothing, verified. With --checkpoint and
      --vkey it must also lead to a checkpoint that was signed: an export that is too old, or another log, is refused.
    An export with --replay: new commits that keep actor, reason and run_context; the old commit id is
      their nonce, so that importing the same file twice adds nothing.
    Other lines: the arguments of memory.write, for example
      {"op": "UPSERT_NODE", "node": {"id": "ada", "type": "Person", "attrs": {"name": "Ada"}}}
      {"op": "PATCH_NODE", "node": {"id": "ada", "attrs": {"born": 1815}}}
      They are written in order; at the first that is refused it stops and names the line. What must be written
      together or not at all stands on one line: {"ops": [...]}.

    \b
    Examples:
      tallystick import backup.jsonl --base ./restored
      zcat backup.jsonl.gz | tallystick import - --base ./restored
      tallystick import facts.jsonl
    """
    from tallystick import app
    from tallystick.operations.transfer import import_ as imported

    context = app.operation_context(settled(base=base, tenant=tenant))
    known = read_checkpoints(checkpoint, vkey)
    with _opened(file) as (source, size), progress() as tell:
        done = asyncio.run(imported(context, source, size=size, replay=replay, checkpoints=known, progress=tell))
    if json:
        emit(done)
    else:
        already = f"; {done.duplicates} were there already" if done.duplicates else ""
        note(f"{counted(done.commits, 'commit')} {done.how} into {context.settings.home}{already}")


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
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    """It appears under its name only when it is complete."""
    partial = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        with replacing(path, unfinished=partial, mode=_BY_UMASK) as target:
            yield target
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error
