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
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from typer.core import TyperCommand

from tallystick.cli.options import Base, Checkpoints, Json, Tenant, VerifierKeys, existing, read_checkpoints, settled
from tallystick.cli.output import emit, note, progress
from tallystick.errors import Conflict, InvalidArgument
from tallystick.extension import installed
from tallystick.operations import counted
from tallystick.system.private_files import replacing

if TYPE_CHECKING:
    from tallystick.config import Settings

Key = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The keys that it is encrypted with. [default: backup_key]"),
]
LIST = "list"
SEALED = b"TSF1"
"""How an encrypted export begins."""
_BY_UMASK = 0o666
"""What a person exports is readable for whom that person's umask says."""


class ExportCommand(TyperCommand):
    """`--as` alone asks which there are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*args, LIST] if args[-1:] == ["--as"] else args)


def export(
    file: Annotated[
        Path, typer.Argument(metavar="[TARGET]", help="A file or, for some forms, a directory; - is standard output.")
    ] = Path("-"),
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="In the form of another program; no name lists those that are known.",
            show_default=False,
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="MOMENT", help="With --as: as it was. A commit id, a position or an ISO 8601 time."
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="With --as: only what belongs to it.")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", "-t", metavar="TYPE", help="With --as: only of this type.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is there, or the directory of an earlier export.")
    ] = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt the file with the newest of the keys for backups.")
    ] = False,
    key: Key = None,
    json: Annotated[bool, typer.Option("--json", help="With --as: print the report as JSON.")] = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Write every commit to a file, a whole backup; or what holds now, in the form of another program.

    One JSON object a line, verified as it is read.
    The file appears under its name only when it is complete. Servers may go on writing meanwhile.

    \b
    With --encrypt: AES-256-GCM with a key of 'tallystick backup new-key' (--key, else backup_key); import reads it.
    With --as: the nodes and edges as they are, or were at a moment. What is redacted stays so, what was recalled
      says so, what was deleted is not there. The report lists what the form cannot hold.

    \b
    Examples:
      tallystick export backup.jsonl
      tallystick export | gzip > backup.jsonl.gz
      tallystick export --encrypt --key ~/.config/tallystick/backup.key backup.sealed
      tallystick export --as vault ~/notes/memory
      tallystick export --as mermaid --project bridge plan.mmd
    """
    if form is not None:
        _refuse_options(["--encrypt"] if encrypt else [], "does not go with --as")
        export_as = installed().handler("export --as")
        export_as(form, file, as_of=as_of, project=project, type=type, force=force, json=json, base=base, tenant=tenant)
        return
    others = (("--as-of", as_of), ("--project", project), ("--type", type), ("--json", json))
    _refuse_options([name for name, given in others if given], "needs --as")
    from tallystick import app
    from tallystick.operations.transfer import export as exported

    _refuse_options(["--key"] if key is not None and not encrypt else [], "needs --encrypt")
    context = app.operation_context(existing(base=base, tenant=tenant))
    sealed = installed().handler("export --encrypt")(context.settings, key) if encrypt else nullcontext
    to_stdout = str(file) == "-"
    if not to_stdout:
        refuse_existing(file, force=force)
    name = "-" if to_stdout else str(file.absolute())
    with (
        progress() as tell,
        nullcontext(sys.stdout.buffer) if to_stdout else whole_file(file) as target,
        sealed(target) as output,
    ):
        done = asyncio.run(exported(context, output, name=name, progress=tell))
    if not to_stdout:
        note(
            f"{counted(done.commits, 'commit')} in {file}; to prove them, import them into an empty base and verify it"
        )
    if done.blobs:
        beside = context.settings.home / "_content" / "blobs"
        note(f"{counted(done.blobs, 'large content')} beside the log: copy {beside} as well")


def refuse_existing(file: Path, *, force: bool) -> None:
    if file.exists() and not force:
        raise Conflict(f"{file} is already there", code="FILE_EXISTS", hint="choose another name, or add --force")


class ImportCommand(TyperCommand):
    """`--from` alone asks which there are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[-1:] == ["--from"]:
            args = [*args, LIST]
        return super().parse_args(ctx, args)


def import_(
    file: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="What to read; - is standard input.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="NAME",
            help="The program that wrote it; auto guesses, no name lists those that are known.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: show what would be written, and write nothing.")
    ] = False,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="With --from: in front of the ids of nodes.")
    ] = "",
    project: Annotated[
        str | None,
        typer.Option("--project", metavar="NAME", help="With --from: of tasks and knowledge.", show_default=False),
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Write an export's commits anew, as additions to what is there.")
    ] = False,
    checkpoint: Checkpoints = None,
    vkey: VerifierKeys = None,
    key: Key = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Read an export back, operations written by hand, or what another program remembers.

    \b
    With --from: what another program wrote, as nodes, edges, tasks and knowledge. --dry-run shows first what would
      be written, and what cannot be. A second run writes what is new or changed, and nothing else; one that was
      interrupted goes on where it was. Who wrote it there, and when, is kept in the attribute 'imported'.
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
      tallystick import --from server-memory memory.jsonl --dry-run
    """
    if source is not None:
        options = (("--replay", replay), ("--checkpoint", checkpoint), ("--vkey", vkey), ("--key", key))
        _refuse_options([name for name, given in options if given], "does not go with --from")
        import_from = installed().handler("import --from")
        import_from(source, file, dry_run=dry_run, prefix=prefix, project=project, json=json, base=base, tenant=tenant)
        return
    others = (("--dry-run", dry_run), ("--prefix", prefix), ("--project", project))
    _refuse_options([name for name, given in others if given], "needs --from")
    if file is None:
        raise InvalidArgument("PATH is missing: what to read", hint="- is standard input; --help has examples")
    from tallystick import app
    from tallystick.operations.transfer import import_ as imported

    context = app.operation_context(settled(base=base, tenant=tenant))
    known = read_checkpoints(checkpoint, vkey)
    with _opened(file) as (given, given_size), _unsealed(context.settings, given, given_size, key) as found:
        opened, size = found
        with progress() as tell:
            done = asyncio.run(imported(context, opened, size=size, replay=replay, checkpoints=known, progress=tell))
    if json:
        emit(done)
    else:
        already = f"; {done.duplicates} were there already" if done.duplicates else ""
        note(f"{counted(done.commits, 'commit')} {done.how} into {context.settings.home}{already}")


def _refuse_options(names: list[str], why: str) -> None:
    if names:
        raise InvalidArgument(f"{' and '.join(names)} {why}")


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Something that can be read twice: standard input and pipes are set aside first."""
    try:
        given = nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb")
    except OSError as error:
        raise InvalidArgument(f"cannot read {file}: {error.strerror}", code="FILE_UNREADABLE") from None
    with given as stream:
        if str(file) != "-" and stream.seekable():
            yield stream, os.fstat(stream.fileno()).st_size
            return
        with tempfile.TemporaryFile() as source:
            shutil.copyfileobj(stream, source)
            size = source.tell()
            source.seek(0)
            yield source, size


@contextmanager
def _unsealed(settings: Settings, source: BinaryIO, size: int, key: Path | None) -> Iterator[tuple[BinaryIO, int]]:
    start = source.read(len(SEALED))
    source.seek(0)
    if start != SEALED:
        yield source, size
        return
    with installed().handler("import --key")(settings, source, key) as plain:
        yield plain


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """It appears under its name only when it is complete."""
    partial = path.with_name(f".{path.name}.part-{os.getpid()}")
    try:
        with replacing(path, unfinished=partial, mode=_BY_UMASK) as target:
            yield target
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error
