"""Init: connects the clients that are found to a memory, and takes them off again.

A plan is made first, from the files as they are: what would be put where, and why not elsewhere. It changes nothing
and can be shown. Carrying it out touches only files that still are as the plan saw them.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tallystick.config import data_directory, home_directory, require_own_files, usable_base
from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.extensions.clients import client_files, entries, instructions, json_splice
from tallystick.extensions.clients.client_files import RecordedFile, RecordedSplice, own_directories
from tallystick.extensions.clients.entries import BLOCK, ConfigEntry, Format
from tallystick.extensions.clients.splice import Splice, Unreadable
from tallystick.extensions.clients.table import CLIENTS, NAMES, Client, directories
from tallystick.system.private_files import make_directory
from tallystick.system.repository import Repository, find_repository

Scope = Literal["project", "user"]
Action = Literal[
    "create", "add", "update", "present", "differs", "refused", "cut", "delete", "restore", "absent", "changed"
]
_AGENTS, _CLAUDE = "AGENTS.md", "CLAUDE.md"
_INSTRUCTIONS = "instructions"
"""In the place of a client's name."""


class Machine(msgspec.Struct, frozen=True):
    """Whose clients: their home, their environment, where they stand."""

    home: Path
    environ: Mapping[str, str]
    working: Path
    platform: str = sys.platform

    @property
    def directories(self) -> dict[str, str]:
        return directories(self.home, self.environ, self.platform)

    def finds(self, command: str) -> str | None:
        return shutil.which(command, path=self.environ.get("PATH", ""))


def this_machine() -> Machine:
    return Machine(home_directory(), os.environ, Path.cwd())


class Request(msgspec.Struct, frozen=True, kw_only=True):
    scope: Scope = "project"
    clients: tuple[str, ...] = ()
    """Their names; those that are found where none is given."""
    shared: bool = False
    """The one memory in the data directory instead of one for the repository."""
    hooks: bool = True
    url: str = ""
    """Of a server over HTTP, with `/mcp`."""


class FoundClient(msgspec.Struct, frozen=True):
    name: str
    title: str
    because: str


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    clients: tuple[str, ...]
    action: Action
    reason: str = ""
    """Why nothing is done, or what is left."""
    text: str = ""
    """What is put in, for copying."""
    difference: str = ""
    """Of what is there and what was put there, where somebody has changed it."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    scope: Scope
    memory: str
    makes_memory: bool
    record: str
    found: tuple[FoundClient, ...]
    changes: tuple[FileChange, ...]
    notes: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return self.makes_memory or any(change.action in WRITING for change in self.changes)


WRITING: frozenset[Action] = frozenset({"create", "add", "update", "cut", "delete", "restore"})


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """A change, with all that carrying it out takes."""

    shown: FileChange
    target: Path
    before: bytes | None = None
    after: bytes | None = None
    recorded: RecordedFile | None = None
    private: bool = False


class Prepared(msgspec.Struct, frozen=True):
    """A plan that can be carried out."""

    plan: Plan
    steps: tuple[_Step, ...]
    system: Path
    memory: Path | None
    """To be made."""


class _Wanted(msgspec.Struct):
    """Of one file, for all clients that read it."""

    file: Path
    clients: list[str]
    entries: list[ConfigEntry]
    form: Format


class _Place(msgspec.Struct, frozen=True):
    """Where the request is about."""

    root: Path | None
    """Of the project; None where it is about the user's own files."""
    memory: Path
    repository: Repository | None


# -- connecting


def prepare(request: Request, machine: Machine) -> Prepared:
    """Raises NotFound outside of a repository, and InvalidArgument for a client that is not known or has no such
    file."""
    place = _place(request, machine)
    require_own_files(place.memory)
    found = find_clients(machine, place.root)
    chosen = _chosen(request, found)
    notes: list[str] = []
    files = list(_wanted(request, machine, place, chosen, notes))
    record = client_files.read_record(_system(place))
    steps = tuple(_plan_file(each, place, record.files) for each in files)
    makes = place.root is not None and not request.shared and not place.memory.is_dir()
    if machine.environ.get("BASE_PATH"):
        notes.append("BASE_PATH is set in this shell: what is started from it uses that memory instead")
    plan = Plan(
        scope=request.scope,
        memory=str(place.memory),
        makes_memory=makes,
        record=str(_system(place) / client_files.RECORD),
        found=tuple(found),
        changes=tuple(step.shown for step in steps),
        notes=tuple(notes),
    )
    return Prepared(plan, steps, _system(place), place.memory if makes else None)


def carry_out(prepared: Prepared) -> Plan:
    """The plan as it went: a file that has changed since it was looked at is left, and said to be `changed`."""
    if prepared.memory is not None:
        make_directory(prepared.memory)
    writing = [step for step in prepared.steps if step.after is not None and step.recorded is not None]
    if not writing:
        return prepared.plan
    with client_files.recording(prepared.system):
        record = client_files.read_record(prepared.system)
        intended = {str(step.target): step.recorded for step in writing if step.recorded is not None}
        # First: whatever a crash leaves from here on, it is known what may be ours.
        client_files.write_record(prepared.system, msgspec.structs.replace(record, files={**record.files, **intended}))
        for step in writing:
            if step.before is not None:
                client_files.back_up(prepared.system, step.target, step.before)
        done = {step.target: _write(step) for step in writing}
    changes = tuple(step.shown if done.get(step.target, True) else _meanwhile(step.shown) for step in prepared.steps)
    return msgspec.structs.replace(prepared.plan, changes=changes)


def find_clients(machine: Machine, root: Path | None) -> list[FoundClient]:
    """By their files in the project, their directories, their commands; in the order of the table."""
    return [
        FoundClient(client.name, client.title, because)
        for client in CLIENTS
        if (because := trace(client, machine, root)) is not None
    ]


def trace(client: Client, machine: Machine, root: Path | None) -> str | None:
    """What shows that it is used here."""
    if root is not None:
        for mark in client.project_marks:
            if (root / mark).exists():
                return mark
    for mark in client.user_marks:
        place = Path(mark.format_map(machine.directories))
        if place.exists():
            return str(place)
    return next((each for command in client.commands if (each := machine.finds(command)) is not None), None)


def _chosen(request: Request, found: Sequence[FoundClient]) -> list[Client]:
    unknown = [name for name in request.clients if name not in NAMES]
    if unknown:
        near = difflib.get_close_matches(unknown[0], NAMES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"the clients are {', '.join(NAMES)}"
        raise InvalidArgument(f"there is no client '{unknown[0]}'", code="UNKNOWN_CLIENT", hint=hint)
    names = request.clients or tuple(each.name for each in found)
    if not names:
        raise NotFound(
            "no client was found: none of their files, directories or commands is here",
            code="NO_CLIENT",
            hint=f"name one by --client: {', '.join(NAMES)}",
        )
    chosen = [client for client in CLIENTS if client.name in names]
    for client in chosen:
        if request.clients and request.scope == "project" and client.project is None:
            raise InvalidArgument(
                f"{client.title} has no configuration for a project", code="UNKNOWN_CLIENT", hint="say --user"
            )
    return chosen


def _place(request: Request, machine: Machine) -> _Place:
    repository = find_repository(machine.working)
    if request.scope == "user":
        return _Place(None, data_directory(), repository)
    if request.shared:
        if repository is not None and repository.memory.is_dir():
            raise Conflict(
                f"this repository has a memory of its own, {repository.memory}, and clients would go on finding it",
                code="MEMORY_OF_ITS_OWN",
                hint="move that directory away first, or leave out --shared",
            )
        return _Place(repository.root if repository is not None else machine.working, data_directory(), repository)
    if repository is None:
        raise NotFound(
            f"there is no git repository of yours around {machine.working}",
            code="NO_REPOSITORY",
            hint="'git init' makes one; or --shared for the one memory for all, or --user for all your projects",
        )
    return _Place(repository.root, usable_base(repository.memory), repository)


def _system(place: _Place) -> Path:
    return place.memory / "_system"


# -- what is wanted


def _wanted(
    request: Request, machine: Machine, place: _Place, chosen: Sequence[Client], notes: list[str]
) -> Iterator[_Wanted]:
    """One for each file, whoever reads it."""
    files: dict[Path, _Wanted] = {}
    for client in chosen:
        if client.name == "claude" and _has_plugin(machine, place.root):
            notes.append("Claude Code: the plugin is installed and brings server and hooks, nothing is added to that")
            continue
        for file, entry, form in _entries(request, machine, place, client, chosen, notes):
            each = files.setdefault(file, _Wanted(file, [], [], form))
            each.clients += [client.name] if client.name not in each.clients else []
            each.entries += [entry] if entry not in each.entries else []
    if place.root is not None:
        for file in _instruction_files(place.root):
            files[file] = _Wanted(file, [_INSTRUCTIONS], [BLOCK], Format())
    yield from files.values()


def _entries(
    request: Request, machine: Machine, place: _Place, client: Client, chosen: Sequence[Client], notes: list[str]
) -> Iterator[tuple[Path, ConfigEntry, Format]]:
    server = client.server(request.url)
    places = server_files(client, machine, place.root)
    if server is None:
        notes.append(f"{client.title}: a server over HTTP is added in its own settings, not by a file")
        return
    if not places:
        notes.append(f"{client.title}: has no configuration for a project; 'tallystick init --user' connects it")
        return
    yield from ((file, server, client.form) for file in places)
    hooks = client.hooks
    if hooks is None or not request.hooks or request.url:
        return
    if client.name == "vscode" and any(each.name == "claude" for each in chosen):
        notes.append(f"{client.title}: runs the hooks of .claude/settings.json, so it gets none of its own")
        return
    file = hook_file(client, machine, place.root)
    if file is not None:
        yield from ((file, entry, hooks.form) for entry in client.hook_entries())


def server_files(client: Client, machine: Machine, root: Path | None) -> list[Path]:
    if root is None:
        places = [Path(each.format_map(machine.directories)) for each in client.user]
        # Of several programs those that are here; the first where none is.
        return [each for each in places if each.parent.exists()] or places[:1]
    if client.project is None:
        return []
    beside = root / f"{client.project}c"
    return [beside if beside.exists() and not (root / client.project).exists() else root / client.project]


def hook_file(client: Client, machine: Machine, root: Path | None) -> Path | None:
    if client.hooks is None:
        return None
    if root is not None:
        return root / client.hooks.project if client.hooks.project is not None else None
    return Path(client.hooks.user.format_map(machine.directories)) if client.hooks.user is not None else None


def _instruction_files(root: Path) -> Iterator[Path]:
    """AGENTS.md for all; Claude Code reads only CLAUDE.md where there is one, unless that takes AGENTS.md in."""
    agents, claude = root / _AGENTS, root / _CLAUDE
    if not os.path.lexists(claude):
        yield agents
        return
    if os.path.realpath(agents) == os.path.realpath(claude):
        yield Path(os.path.realpath(agents)) if os.path.exists(agents) else agents
        return
    yield agents
    try:
        text = client_files.decode(client_files.read_file(claude) or b"")
    except Unreadable:
        text = ""
    if not instructions.imports_agents(text):
        yield claude


def _has_plugin(machine: Machine, root: Path | None) -> bool:
    settings = [Path(machine.directories["claude"]) / "settings.json"]
    if root is not None:
        settings += [root / ".claude" / "settings.json", root / ".claude" / "settings.local.json"]
    return any(_enables_plugin(each) for each in settings)


def _enables_plugin(settings: Path) -> bool:
    try:
        enabled: Any = json_splice.value_at(
            client_files.decode(client_files.read_file(settings) or b""), ("enabledPlugins",)
        )
    except (Unreadable, KeyError):
        return False
    return isinstance(enabled, dict) and any(
        name.startswith("tallystick@") and on is True for name, on in enabled.items()
    )


# -- a file


def _plan_file(wanted: _Wanted, place: _Place, recorded: Mapping[str, RecordedFile]) -> _Step:
    shown = FileChange(file=str(wanted.file), clients=tuple(wanted.clients), action="present")
    try:
        target = client_files.resolve(wanted.file, place.root)
    except Unreadable as refusal:
        return _Step(shown=_refused(shown, refusal), target=wanted.file)
    try:
        before = client_files.read_file(target)
        step = _spliced(wanted, shown, target, before, recorded.get(str(target)), own_directories(target, recorded))
        if step.after is not None:
            client_files.check_writable(target)
    except Unreadable as refusal:
        return _Step(shown=_refused(shown, refusal), target=target)
    return msgspec.structs.replace(step, private=place.root is None)


def _spliced(
    wanted: _Wanted,
    shown: FileChange,
    target: Path,
    before: bytes | None,
    known: RecordedFile | None,
    directories: tuple[str, ...],
) -> _Step:
    """What is missing is put in; what we put there earlier and nobody changed is brought up to date; the rest stays."""
    text = client_files.decode(before or b"")
    if known is not None and known.before == (client_files.digest(before) if before is not None else None):
        # It was removed, put back, or never written: what the record says is not in it.
        known = None
    unchanged = known is not None and before is not None and known.after == client_files.digest(before)
    splices = list(known.splices) if known is not None else []
    fresh: list[Splice] = []
    updated, differing = False, list[str]()
    for entry in wanted.entries:
        match entries.standing(text, entry, wanted.form):
            case "same":
                continue
            case "different" if not _is_ours(text, entry, splices, unchanged):
                differing.append(_difference(text, entry, wanted.form))
                continue
            case "different":
                text, splices = _taken_out(text, entry, wanted.form, splices)
                updated, unchanged = True, False
        splice = entries.insert(text, entry, wanted.form)
        text = splice.into(text)
        fresh.append(splice)
        splices = [each for each in splices if (each.entry.kind, each.entry.path) != (entry.kind, entry.path)]
        splices.append(RecordedSplice(entry, splice.at, splice.inserted, splice.made))
    if differing:
        shown = msgspec.structs.replace(
            shown, action="differs", reason="an entry of this name is there and says something else: it stays",
            difference="\n".join(differing),
        )  # fmt: skip
    if not fresh:
        return _Step(shown=shown, target=target)
    action: Action = "create" if before is None else "update" if updated else "add"
    after = text.encode()
    created = known.created if known is not None and before is not None else before is None
    recorded = RecordedFile(
        clients=tuple(dict.fromkeys((*(known.clients if known is not None else ()), *wanted.clients))),
        created=created,
        directories=directories,
        before=_before(before, known, unchanged),
        after=client_files.digest(after),
        splices=tuple(splices),
        comments=wanted.form.comments,
    )
    inserted = "\n".join(each.inserted.strip("\r\n") for each in fresh)
    shown = msgspec.structs.replace(shown, action=action, text=text if before is None else inserted)
    return _Step(shown=shown, target=target, before=before, after=after, recorded=recorded)


def _before(before: bytes | None, known: RecordedFile | None, unchanged: bool) -> str | None:
    """What all splices together would give back when they are undone; None where that is not known."""
    if known is None:
        return client_files.digest(before) if before is not None else None
    return known.before if unchanged else None


def _is_ours(text: str, entry: ConfigEntry, splices: Sequence[RecordedSplice], unchanged: bool) -> bool:
    """Whether what stands there may be replaced: it is an older block, or as we left it."""
    if entries.is_outdated(text, entry):
        return True
    known = _recorded(entry, splices)
    return known is not None and (unchanged or text.count(known.text) == 1)


def _recorded(entry: ConfigEntry, splices: Sequence[RecordedSplice]) -> RecordedSplice | None:
    same = (each for each in splices if (each.entry.kind, each.entry.path) == (entry.kind, entry.path))
    return next(same, None)


def _taken_out(
    text: str, entry: ConfigEntry, form: Format, splices: list[RecordedSplice]
) -> tuple[str, list[RecordedSplice]]:
    known = _recorded(entry, splices)
    # With made=1: what it was put into may hold others of ours by now.
    return entries.cut(text, entry, form), [each for each in splices if each is not known]


def _difference(text: str, entry: ConfigEntry, form: Format, put: str | None = None) -> str:
    there, ours = entries.shown(text, entry, form), put or entries.wanted(entry)
    lines = difflib.unified_diff(ours.splitlines(), there.splitlines(), "put there", "there now", lineterm="")
    return "\n".join(lines)


def _refused(shown: FileChange, refusal: Unreadable) -> FileChange:
    return msgspec.structs.replace(shown, action="refused", reason=refusal.message)


def _meanwhile(shown: FileChange) -> FileChange:
    reason = "somebody wrote it meanwhile: run this again"
    return msgspec.structs.replace(shown, action="changed", reason=reason)


def _write(step: _Step) -> bool:
    assert step.after is not None
    return client_files.replace(step.target, step.before, step.after, private=step.private)


# -- taking off again


def prepare_removal(request: Request, machine: Machine, *, forced: frozenset[str] = frozenset()) -> Prepared:
    """Of what was put into files here, by this record or by what it says. `forced`: files, as the plan names them,
    from which it also goes where somebody changed it."""
    place = _place_of_removal(request, machine)
    require_own_files(place.memory)
    record = client_files.read_record(_system(place))
    files = _to_clean(request, machine, place, record.files)
    steps = tuple(_plan_cut(file, wanted, known, place, str(file) in forced) for file, wanted, known in files)
    plan = Plan(
        scope=request.scope,
        memory=str(place.memory),
        makes_memory=False,
        record=str(_system(place) / client_files.RECORD),
        found=(),
        changes=tuple(step.shown for step in steps if step.shown.action != "absent"),
    )
    return Prepared(plan, steps, _system(place), None)


def carry_out_removal(prepared: Prepared) -> Plan:
    if not prepared.system.is_dir():
        plan = _cleaned(prepared)
        client_files.remove_directories((str(prepared.system.parent),))
        return plan
    with client_files.recording(prepared.system):
        plan = _cleaned(prepared)
        record = client_files.read_record(prepared.system)
        left = {change.file for change in plan.changes if change.action not in WRITING}
        gone = {str(step.target) for step in prepared.steps if step.shown.file not in left}
        for step in prepared.steps:
            if str(step.target) in gone:
                client_files.backup_of(prepared.system, step.target).unlink(missing_ok=True)
        files = {name: each for name, each in record.files.items() if name not in gone}
        client_files.write_record(prepared.system, msgspec.structs.replace(record, files=files))
    return plan


def _cleaned(prepared: Prepared) -> Plan:
    done = {step.shown.file: _clean(step) for step in prepared.steps}
    changes = [each if done[each.file] else _meanwhile(each) for each in prepared.plan.changes]
    return msgspec.structs.replace(prepared.plan, changes=tuple(changes))


def _clean(step: _Step) -> bool:
    made = step.recorded.directories if step.recorded is not None else ()
    client_files.remove_unfinished(step.target)
    if step.shown.action == "absent":
        client_files.remove_directories(made)
    if step.shown.action == "delete":
        return client_files.remove(step.target, step.before or b"", made)
    return step.after is None or _write(step)


def _place_of_removal(request: Request, machine: Machine) -> _Place:
    """Where there is no memory of the repository, what was put in was put in with --shared."""
    repository = find_repository(machine.working)
    if request.scope == "user" or (repository is not None and repository.memory.is_dir()):
        return _place(msgspec.structs.replace(request, shared=False), machine)
    return _Place(repository.root if repository is not None else machine.working, data_directory(), repository)


def _to_clean(
    request: Request, machine: Machine, place: _Place, recorded: Mapping[str, RecordedFile]
) -> list[tuple[Path, _Wanted, RecordedFile | None]]:
    """The recorded ones here, and all others that the clients have here: a colleague's `init` may have come with the
    clone."""
    found: dict[Path, tuple[Path, _Wanted, RecordedFile | None]] = {}
    every = msgspec.structs.replace(request, clients=request.clients or NAMES)
    chosen = [client for client in CLIENTS if client.name in every.clients and (place.root is None or client.project)]
    wanted = {each.file: each for each in _wanted(every, machine, place, chosen, [])}
    for client in chosen if request.hooks else ():
        file = hook_file(client, machine, place.root)
        if file is not None and file not in wanted and client.hooks is not None:
            wanted[file] = _Wanted(file, [client.name], list(client.hook_entries()), client.hooks.form)
    if request.clients:
        wanted = {file: each for file, each in wanted.items() if each.clients != [_INSTRUCTIONS]}
    for file, each in wanted.items():
        target = Path(os.path.realpath(file))
        found[target] = (file, each, recorded.get(str(target)))
    root = os.path.realpath(place.root) if place.root is not None else None
    for name, known in recorded.items():
        here = root is None or Path(name).is_relative_to(root)
        asked = not request.clients or set(request.clients) & set(known.clients)
        if here and asked and Path(name) not in found:
            each = _Wanted(Path(name), list(known.clients), [], Format(known.comments))
            found[Path(name)] = (Path(name), each, known)
    return list(found.values())


def _plan_cut(file: Path, wanted: _Wanted, known: RecordedFile | None, place: _Place, forced: bool) -> _Step:
    shown = FileChange(file=str(file), clients=tuple(wanted.clients), action="absent")
    try:
        target = client_files.resolve(file, place.root)
    except Unreadable as refusal:
        return _Step(shown=_refused(shown, refusal) if known is not None else shown, target=file)
    try:
        before = client_files.read_file(target)
        if before is None:
            return _Step(shown=shown, target=target, recorded=known)
        step = _cut_out(wanted, known, shown, target, before, forced)
        if step.shown.action in WRITING:
            client_files.check_writable(target)
    except Unreadable as refusal:
        ours = known is not None or b"tallystick" in (before or b"")
        return _Step(shown=_refused(shown, refusal) if ours else shown, target=target)
    return step


def _cut_out(
    wanted: _Wanted, known: RecordedFile | None, shown: FileChange, target: Path, before: bytes, forced: bool
) -> _Step:
    text = client_files.decode(before)
    restored = _restored(text, before, known)
    if restored is not None:
        action: Action = "delete" if known is not None and known.created else "restore"
        after = restored.encode()
        return _Step(
            shown=msgspec.structs.replace(shown, action=action),
            target=target, before=before, after=after, recorded=known,
        )  # fmt: skip
    cut, differing = text, list[str]()
    for entry, splice in _to_cut(wanted, known):
        cut, difference = _cut_one(cut, entry, splice, wanted.form, forced)
        differing += [difference] if difference else []
    if differing:
        return _Step(
            shown=msgspec.structs.replace(
                shown, action="differs", reason="somebody has changed it since", difference="\n".join(differing)
            ),
            target=target, recorded=known,
        )  # fmt: skip
    if cut == text:
        return _Step(shown=shown, target=target, recorded=known)
    emptied = known is not None and known.created and _says_nothing(cut)
    return _Step(
        shown=msgspec.structs.replace(shown, action="delete" if emptied else "cut"),
        target=target, before=before, after=cut.encode(), recorded=known,
    )  # fmt: skip


def _restored(text: str, before: bytes, known: RecordedFile | None) -> str | None:
    """The file as it was, byte for byte, where it is as we left it."""
    if known is None or known.after != client_files.digest(before):
        return None
    for splice in reversed(known.splices):
        undone = Splice(splice.at, splice.text).undone(text)
        if undone is None:
            return None
        text = undone
    if known.created:
        return text if not text else None
    return text if client_files.digest(text.encode()) == known.before else None


def _to_cut(wanted: _Wanted, known: RecordedFile | None) -> list[tuple[ConfigEntry, RecordedSplice | None]]:
    """The last that was put in is the first to go; what only this version would write comes after that."""
    recorded = [(each.entry, each) for each in reversed(known.splices)] if known is not None else []
    seen = {(entry.kind, entry.path) for entry, _ in recorded}
    others = [each for each in wanted.entries if (each.kind, each.path) not in seen and not each.any_value]
    return [*recorded, *((each, None) for each in others)]


def _cut_one(
    text: str, entry: ConfigEntry, splice: RecordedSplice | None, form: Format, forced: bool
) -> tuple[str, str | None]:
    """The text without it; or the text, and how it differs from what was put there."""
    standing = entries.standing(text, entry, form)
    if standing == "missing":
        return text, None
    made = splice.made if splice is not None else len(entry.path) + (entry.kind == "element")
    if standing == "same":
        if entry.any_value and splice is None:
            return text, None
        without = entries.cut(text, entry, form, made=made)
        span = _cut_span(text, splice, without, form)
        return (without if span is None else span), None
    if forced:
        return entries.cut(text, entry, form, made=made), None
    return text, _difference(text, entry, form)


def _cut_span(text: str, splice: RecordedSplice | None, without: str, form: Format) -> str | None:
    """Exactly what was put in, where it stands there once, and that leaves what cutting by meaning leaves."""
    if splice is None or text.count(splice.text) != 1:
        return None
    cut = text.replace(splice.text, "")
    try:
        return cut if entries.means_the_same(cut, without, splice.entry, form) else None
    except Unreadable:
        return None


def _says_nothing(text: str) -> bool:
    stripped = text.strip("\ufeff \t\r\n")
    if stripped in ("", "{}"):
        return True
    try:
        node = json_splice.parse(text)
    except Unreadable:
        return False
    return node is not None and node.value in ({"version": 1}, {"hooks": {}})
