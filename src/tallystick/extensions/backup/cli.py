"""Backups on the command line: make one, list them, prove one, restore one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from tallystick.cli.options import HELP, Base, Json, VerifierKeys, existing, settled
from tallystick.cli.output import emit, note, progress, say, table
from tallystick.config import FILE_NAME, Settings, named_paths
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.commits.signed_note import VerifierKey
    from tallystick.extensions.backup.repository import Repository
    from tallystick.extensions.backup.run import BackupDone
    from tallystick.operations.shared_logs import SharedLog

_MAKE = "make"


class _MakeFirst(TyperGroup):
    """`tallystick backup URL` is `tallystick backup URL`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [_MAKE, *args]
        return super().parse_args(ctx, args)


commands = typer.Typer(
    cls=_MakeFirst,
    help="Back the memory up to an object store or a directory. 'backup URL' is 'backup make URL'.",
    rich_markup_mode=None,
    add_completion=False,
    context_settings=HELP,
)
Store = Annotated[
    str,
    typer.Argument(metavar="[URL]", help="file:///DIR, s3://BUCKET/PATH, gs://… or az://…. [default: backup_to]"),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="The keys that backups are encrypted with. [default: backup_key]"),
]
Number = Annotated[
    int | None,
    typer.Option("--backup", metavar="N", min=1, help="Which one. [default: the newest]", show_default=False),
]


@commands.command(_MAKE)
def make(
    to: Store = "",
    key: KeyFile = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Back up what is new, of every tenant. The word 'make' may be left out.

    \b
    Logs, audit logs, blobs, the newest snapshot and plain files; everything once, then only what is new. Servers may
    go on writing: each log is taken up to what was durable when it was looked at. A backup counts once its manifest
    is in the store, which says what it is made of and is signed with the keys of checkpoints, where there are any.
    Never backed up: private keys, secrets and settings. Views, graph.db and indexes follow from the log.
    With --key, or backup_key, everything is encrypted (AES-256-GCM) before it leaves.

    \b
    A redaction reaches backups with the next run: what it touched is replaced, and older backups that still hold
    the values are removed. Others go as backup_keep and backup_keep_days say.

    \b
    Examples:
      tallystick backup s3://backups/memory
      tallystick backup file:///mnt/disk/memory --key ~/.config/tallystick/backup.key
      tallystick backup --json
    """
    from tallystick import app
    from tallystick.extensions.backup.run import back_up

    context = app.operation_context(_any_tenant(base))
    with progress() as tell:
        done = back_up(context, to=to, key_file=key, progress=tell)
    if json:
        emit(done)
    else:
        _draw_done(done)
    if done.problems:
        raise typer.Exit(1)


def _draw_done(done: BackupDone) -> None:
    what = f"backup {done.number} in {done.target}"
    if done.is_new:
        commits = counted(sum(each.commits for each in done.tenants), "commit")
        tenants = counted(len(done.tenants), "tenant")
        new = f"{done.new_bytes} new bytes in {counted(done.new_objects, 'object')}"
        say(f"{what}: {commits} of {tenants}, {new} ({done.seconds:.1f} s)")
    else:
        say(f"nothing is new since {what}")
    if done.expired:
        say(f"removed: {', '.join(map(str, done.expired))}")
    if done.lost_objects:
        gone = counted(done.lost_objects, "object")
        note(f"{gone} of the last backup had gone from the store: what was in them was put again, where it is at hand")
    for problem in done.problems:
        note(f"NOT backed up: {problem}")
    if not done.signed_by:
        note("not signed: 'tallystick keys new' makes a key, so that nobody can put another in its place")


@commands.command("list")
def list_(store: Store = "", key: KeyFile = None, json: Json = False, base: Base = None) -> None:
    """List the backups in a store, the newest first.

    \b
    Examples:
      tallystick backup list
      tallystick backup list s3://backups/memory --json
    """
    from tallystick.extensions.backup.inspect import list_backups

    found = list_backups(_repository(settled(base=base), store, key))
    if json:
        emit({"backups": found})
        return
    columns = ("number", "at", "commits", "bytes", "host", "signed", "keys", "problem")
    rows = [
        (each.number, each.at, each.commits, each.bytes, each.host, each.is_signed, ", ".join(each.keys), each.problem)
        for each in found
    ]
    table(columns, rows)
    if not found:
        note("there is none")


@commands.command("verify")
def verify(
    store: Store = "",
    number: Number = None,
    vkey: VerifierKeys = None,
    key: KeyFile = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Prove that a backup is whole, without restoring it.

    Reads every piece: sizes, hashes, the chain of every log and audit log, and the signature of the manifest, by the
    keys of --vkey or else our own. Leaves with 1 when something is not as it should be.

    \b
    Examples:
      tallystick backup verify
      tallystick backup verify s3://backups/memory --backup 12 --vkey memory.vkey
    """
    from tallystick.extensions.backup.inspect import verify_backup

    settings = settled(base=base)
    with progress() as tell:
        found = verify_backup(
            _repository(settings, store, key), number=number, keys=_believed(settings, vkey), progress=tell
        )
    if json:
        emit(found)
    else:
        state = "sound" if found.sound else "NOT sound"
        say(f"backup {found.number} of {found.at} is {state}: {counted(found.commits, 'commit')}, {found.bytes} bytes")
        say(f"signed by {', '.join(found.signed_by)}" if found.signed_by else _unproven(found.is_signed))
        for problem in found.problems:
            note(problem)
    if not found.sound:
        raise typer.Exit(1)


def _unproven(is_signed: bool) -> str:
    return "signed, by whom was not checked: name a verifier key with --vkey" if is_signed else "not signed"


@commands.command("status")
def status(json: Json = False, base: Base = None) -> None:
    """Tell how the last backup went and what waits for the next. Asks no store.

    \b
    Examples:
      tallystick backup status --json
    """
    from tallystick.extensions.backup.status import backup_status

    found = backup_status(_any_tenant(base))
    if json:
        emit({"targets": found})
        return
    columns = ("target", "last", "number", "kept", "waiting", "failed", "failing_since")
    table([name.replace("_", " ") for name in columns], [[getattr(each, name) for name in columns] for each in found])
    if not found:
        note("it was never backed up: 'tallystick backup URL', or set backup_to")


@commands.command("new-key")
def new_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The key file, outside the base.")],
    json: Json = False,
    base: Base = None,
) -> None:
    """Make a key to encrypt backups with, or take up a new one.

    A file that is there gets one more key: new pieces are encrypted with it, and the older keys read what they
    encrypted. Keep the file where the backups are not: without it they cannot be read by anybody.

    \b
    Examples:
      tallystick backup new-key ~/.config/tallystick/backup.key
    """
    from tallystick.extensions.backup.encryption import add_backup_key

    settings = settled(base=base)
    keys = add_backup_key(settings, file)
    if json:
        emit({"file": str(file.absolute()), "keys": [each.id for each in keys]})
        return
    say(f"key {keys[-1].id} in {file}")
    note(f'backups are encrypted with it once {settings.base / FILE_NAME} says backup_key = "{file.absolute()}"')


def restore(
    store: Annotated[str, typer.Argument(metavar="URL", help="The store that the backup lies in.")],
    number: Number = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", metavar="MOMENT", help="As it was: a position or an ISO 8601 time."),
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only this one. [default: all]", show_default=False)
    ] = None,
    vkey: VerifierKeys = None,
    key: KeyFile = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Make a memory again from a backup, in an empty base.

    \b
    Everything is fetched, checked and proven in a place of its own first: the base has the whole memory afterwards,
    or nothing. Refused for a base that is not empty, and for a backup that is damaged, not signed by a key of --vkey
    (or our own, where there are any), or encrypted with a key that is not at hand.
    --as-of ends each log at that moment. What was redacted since cannot come back by it.
    Where log_url is set and the backup is of a memory in a stream, the base becomes a machine of it, which fetches the
    rest from there.

    \b
    Examples:
      tallystick restore s3://backups/memory --base ./restored
      tallystick restore file:///mnt/disk/memory --base ./restored --as-of 2026-05-01T12:00Z
      tallystick restore s3://backups/memory --base ./restored --vkey memory.vkey --key backup.key
    """
    from tallystick.extensions.backup.restore import parse_as_of
    from tallystick.extensions.backup.restore import restore as restored

    settings = settled(base=base)
    with progress() as tell:
        done = restored(
            _repository(settings, store, key),
            settings.base,
            number=number,
            as_of=parse_as_of(as_of),
            tenant=tenant,
            keys=_believed(settings, vkey),
            segment_bytes_max=settings.segment_bytes_max,
            named=named_paths(settings),
            progress=tell,
        )
    if settings.log_url and done.stream:
        from tallystick.operations.shared_logs import shared_log

        for each in done.tenants:
            shared_log(settings).adopt(msgspec.structs.replace(settings, tenant=each.tenant), done.stream)
    if json:
        emit(done)
        return
    say(f"backup {done.number} of {done.at} is restored and proven in {done.base}")
    table(
        ("tenant", "position", "commits", "record_hash"),
        [(each.tenant, each.position, each.commits, each.record_hash) for each in done.tenants],
    )
    for line in done.notes:
        note(line)
    if not done.signed_by:
        note("the manifest's signature was not checked: name a verifier key with --vkey to know whose backup it is")


def follow(
    store: Annotated[
        str,
        typer.Argument(metavar="URL", help="The store that it is backed up to, or nats://… where its log is."),
    ],
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look.")] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Catch up and leave.")] = False,
    vkey: VerifierKeys = None,
    key: KeyFile = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Keep a warm copy of a memory that is backed up elsewhere, or kept in a stream, for reading and to take over.

    \b
    An empty base becomes the copy; from then on what is new is fetched, verified and appended, and redactions are
    carried out. 'tallystick serve' on the same base serves reads; writes are refused there until
      tallystick promote
    makes it the memory. The copy is as old as the last backup: the setting backup_every of the other side. Of a stream
    it is as old as the way there. It runs until it is stopped, and goes on where the store was away.

    \b
    Examples:
      tallystick follow s3://backups/memory --base /srv/replica
      tallystick follow s3://backups/memory --base /srv/replica --once --json
      tallystick follow nats://n1:4222,nats://n2:4222 --base /srv/replica
    """
    from tallystick.operations.shared_logs import find_shared_log

    settings = settled(base=base)
    kind = find_shared_log(store)
    if kind is not None:
        _follow_log(kind, settings, store, every, once, json)
    else:
        _follow_backups(settings, store, key, vkey, every, once, json)


def _follow_backups(
    settings: Settings, store: str, key: Path | None, vkey: list[Path] | None, every: float, once: bool, json: bool
) -> None:
    import time

    from tallystick.errors import StorageRefused
    from tallystick.extensions.backup.follow import follow_once

    keys = _believed(settings, vkey)
    last = 0
    while True:
        try:
            with progress() as tell:
                found = follow_once(settings, _repository(settings, store, key), keys=keys, progress=tell)
            if json:
                emit(found)
            elif found.number != last:
                say(f"at backup {found.number} of {found.at}: {counted(found.commits, 'new commit')}")
            last = found.number
        except StorageRefused as error:
            if once:
                raise
            note(f"{error.message}; it is tried again")
        if once:
            return
        time.sleep(every)


def _follow_log(kind: SharedLog, settings: Settings, url: str, every: float, once: bool, json: bool) -> None:
    import time

    from tallystick.errors import StorageRefused

    while True:
        try:
            with progress() as tell, kind.following(settings, url, progress=tell) as look:
                while True:
                    found = look()
                    if json:
                        emit(found)
                    elif found.commits:
                        say(f"complete as of {found.at}: {counted(found.commits, 'new commit')}")
                    if once:
                        return
                    time.sleep(every)
        except StorageRefused as error:
            if once:
                raise
            note(f"{error.message}; it is tried again")
        time.sleep(every)


def promote(
    store: Store = "",
    without_store: Annotated[
        bool, typer.Option("--without-store", help="Also if it cannot be reached: then nothing is fenced.")
    ] = False,
    vkey: VerifierKeys = None,
    key: KeyFile = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Make this base the memory: a copy that followed, or one that was restored.

    \b
    Catches up with the newest backup, proves every log, and puts a fence into the store: should the machine that had
    the memory come back, its next backup finds the fence and it takes no more writes. Servers that have this base open
    take writes from then on, without a restart. What was acknowledged there after the last backup is lost.
    A copy of a stream fetches what it has not, and ends the logs there: no machine writes to the stream any more, and
    nothing is lost.

    \b
    Examples:
      tallystick promote --base /srv/replica
      tallystick promote s3://backups/memory --base /srv/restored --json
    """
    from tallystick.extensions.backup.follow import promote as promoted
    from tallystick.log.replica import read_replica
    from tallystick.operations.shared_logs import find_shared_log

    settings = settled(base=base)
    replica = read_replica(settings.base)
    source = store or (replica.source if replica is not None and not replica.is_fenced else "")
    with progress() as tell:
        kind = find_shared_log(source)
        if kind is not None:
            done = kind.promote(settings, source, without_store=without_store, progress=tell)
        else:
            done = promoted(
                settings,
                _repository(settings, source, key),
                keys=_believed(settings, vkey),
                without_store=without_store,
                progress=tell,
            )
    if json:
        emit(done)
        return
    say(f"{settings.base} is the memory now" + (f", as of {done.as_of}" if done.as_of else ""))
    table(("tenant", "position"), sorted(done.positions.items()))
    if not done.epoch:
        note("nothing was fenced: see to it that the other machine takes no writes")


def _any_tenant(base: Path | None) -> Settings:
    """The settings of a base in which any tenant has a memory."""
    from tallystick.operations.tenants import tenants_of

    settings = settled(base=base)
    return settings if tenants_of(settings) else existing(base=base)


def _repository(settings: Settings, store: str, key: Path | None) -> Repository:
    from tallystick.extensions.backup.encryption import load_backup_keys
    from tallystick.extensions.backup.object_store import open_object_store
    from tallystick.extensions.backup.repository import Repository
    from tallystick.extensions.backup.run import target_of

    opened = open_object_store(target_of(settings, store), must_exist=True)
    return Repository(opened, load_backup_keys(settings, key))


def _believed(settings: Settings, files: list[Path] | None) -> list[VerifierKey]:
    """Those given, else our own."""
    from tallystick import app
    from tallystick.config import DEFAULT_TENANT
    from tallystick.log.checkpoint import read_verifier_keys

    if files:
        return [each for file in files for each in read_verifier_keys(file)]
    own = app.checkpoint_keys(msgspec.structs.replace(settings, tenant=DEFAULT_TENANT))
    return [each.verifier for each in own]
