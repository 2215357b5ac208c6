"""The checker: opens a base after a fault, as anybody would, and holds it against what was acknowledged.

In this order: open it (what a crash left is settled), compare with the journal, prove log and
audit log, compare the state with a replay, bring the projections to the head and compare them
with ones that were built from a copy of the log alone, look for stray files.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from tallystick import app
from tallystick.audit.proof import verify_audit
from tallystick.commits import Verb
from tallystick.config import Settings
from tallystick.engine.store import Store
from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tallystick.operations.leftover_scan import holds
from tallystick.policy import Action
from tallystick.projections.blobs import prove_blobs
from tallystick.projections.consistency_check import compare
from tallystick.projections.content import Contents
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tallystick.projections.sql import SqlProjection
from tallystick.projections.text import TextIndex
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.worker import ProjectionWorker
from tallystick.state.mentions import Subject
from tallystick.state.state import State
from tests.state.state_dump import dump_state
from torture.journal import TOLD, Note
from torture.writer import TENANTS, settled

REFUSALS = ("STORAGE_REFUSED", "LOG_UNREACHABLE", "LOG_UNREADABLE", "UNSETTLED", "LOG_CLOSED", "FILE_CREATION_FAILED")
"""What a failing disk or network may be answered with."""
_NOT_WRITTEN = ("STORAGE_REFUSED", "LOG_UNREACHABLE")


class Findings(msgspec.Struct):
    lost: list[str] = []
    wrong: list[str] = []


def check(base: Path, notes: Sequence[Note], *, after_power_cut: bool = False, **flags: Any) -> Findings:
    """Of every tenant that is there."""
    found = Findings()
    found.wrong += [f"a bug of ours: {note.text} ({note.id})" for note in notes if note.kind == "broken"]
    found.wrong += [f"refused: {note.text}" for note in notes if note.kind == "refused" and note.text not in REFUSALS]
    for tenant in TENANTS:
        settings = settled(base, tenant=tenant, **flags)
        theirs = [note for note in notes if note.tenant == tenant]
        if theirs or settings.system.is_dir():
            try:
                _check_tenant(settings, theirs, found)
                found.wrong += _strays(settings.home, _EXPECTED_AFTER_POWER_CUT if after_power_cut else _EXPECTED)
            except (TallystickError, OSError) as error:
                found.wrong.append(f"{tenant}: it cannot be opened: {error!r}")
                found.lost += [f"{note.kind} {note.id}" for note in theirs if note.kind in TOLD]
    return found


def _check_tenant(settings: Settings, notes: Sequence[Note], found: Findings) -> None:
    _make_old(settings.home)
    asyncio.run(_open(settings))
    entries = _entries(settings)
    _compare(settings, entries, notes, found)
    found.wrong += [*_proofs(settings), *_states(settings, entries), *_order(entries)]
    found.wrong += [*_views(settings), *_remains(settings, notes)]


def _make_old(home: Path) -> None:
    """Contents that were prepared and never committed are swept when they are old: so they are."""
    for path in home.rglob(".*.new"):
        os.utime(path, (0, 0))


async def _open(settings: Settings) -> None:
    """And ask something: a decision is written to the audit log, so that one is settled as well."""
    async with app.opened(settings) as store:
        await _reach_end(settings, store)
        await store.read(
            app.local_user(settings), Action.READ, lambda state, read_filter: state.position, resource="anything"
        )


async def _reach_end(settings: Settings, store: Store) -> None:
    """A copy that cannot ask the others is served as it is: it is judged when it has all that was acknowledged."""
    for tries_left in reversed(range(_CONFIRMS_MAX)):
        try:
            return await store.confirm(app.local_user(settings))
        except StorageRefused:
            if not tries_left:
                raise


_CONFIRMS_MAX = 10


def _entries(settings: Settings) -> list[Entry]:
    log = FilesLog(settings.system)
    try:
        return list(log.read(Head()))
    finally:
        log.close()


# -- what was acknowledged


class _Known:
    """What the log says, by the hand of the checker and not of the state."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.members: dict[str, int] = defaultdict(int)
        self.sizes: dict[str, int] = {}
        self.redacted: set[str] = set()
        for entry in entries:
            said = entry.commit.document()
            if entry.commit.operation is Verb.UPSERT_NODE:
                self.nodes[said["id"]] = said
                if said["type"] == "member":
                    self.members[said["attrs"]["batch"]] += 1
                    self.sizes[said["attrs"]["batch"]] = said["attrs"]["of"]
            elif entry.commit.operation is Verb.DELETE_NODE:
                self.nodes.pop(said["node_id"], None)
            elif entry.commit.operation is Verb.REDACT_NODE:
                self.redacted.add(said["node_id"])


def _compare(settings: Settings, entries: Sequence[Entry], notes: Sequence[Note], found: Findings) -> None:
    known = _Known(entries)
    contents = Contents(settings.home)
    last: dict[str, Note] = {}
    tried: dict[str, list[str]] = defaultdict(list)
    for note in notes:
        if note.kind == "refused":
            if note.text in _NOT_WRITTEN and note.id in known.members:
                found.wrong.append(f"{note.id} was refused and is there")
        elif note.kind == "trying":
            tried[note.id].append(note.text)
        elif note.kind in TOLD:
            last[note.id] = note
            tried.pop(note.id, None)
    found.lost += [
        f"{note.kind} {note.id}" for note in last.values() if not _is_there(note, known, contents, tried[note.id])
    ]
    for name, count in known.members.items():
        if count != known.sizes[name]:
            found.wrong.append(f"of batch {name} {count} of {known.sizes[name]} are there")


def _is_there(note: Note, known: _Known, contents: Contents, tried: Sequence[str]) -> bool:
    """`tried` is what its writer wanted next and was not told of any more: that may be there instead."""
    node = known.nodes.get(note.id)
    match note.kind:
        case "batch":
            return known.members.get(note.id) == note.number
        case "count":
            # One more may have been written before its writer could be told.
            return node is not None and node["attrs"]["value"] in (note.number, note.number + 1)
        case "node":
            return _content_of(node, contents) in (note.text, *tried)
        case "gone":
            return node is None
        case "secret":
            return node is not None
        case _:
            return note.id in known.redacted


def _content_of(node: dict[str, Any] | None, contents: Contents) -> str | None:
    """The SHA-256; empty for a node that is gone, None for a content that cannot be read."""
    if node is None:
        return ""
    try:
        return sha256(contents.read(node["content"])).hexdigest()
    except TallystickError:
        return None


# -- what must be true of any base


def _proofs(settings: Settings) -> Iterator[str]:
    proof = prove(settings.system)
    if not proof.sound:
        yield f"verify: {proof.problem}"
    audit = verify_audit(settings.system / "audit")
    if not audit.sound:
        yield f"verify, audit log: {audit.problem}"
    if proof.sound:
        yield from (f"verify, {each.file}: {each.problem}" for each in prove_blobs(settings.home).problems)


def _states(settings: Settings, entries: Sequence[Entry]) -> Iterator[str]:
    """The state that begins with a snapshot, and the one that was replayed."""
    from tallystick.engine.snapshots import Snapshots

    log = FilesLog(settings.system)
    try:
        begun, replayed = Snapshots(settings.system / "snapshots").begin(log, log.line), State(log.line)
        for state in (begun, replayed):
            for entry in log.read(state.head):
                state.apply(entry.commit, entry.offset, entry.end)
        if dump_state(begun) != dump_state(replayed):
            yield "the state that begins with a snapshot is not the one that is replayed"
    finally:
        log.close()


def _order(entries: Sequence[Entry]) -> Iterator[str]:
    times = [entry.commit.timestamp for entry in entries]
    if times != sorted(times):
        yield "timestamps go backwards"


def _remains(settings: Settings, notes: Sequence[Note]) -> Iterator[str]:
    secrets = Subject(note.text for note in notes if note.kind == "redacted")
    if secrets.texts:
        for path in settings.home.rglob("*"):
            if path.is_file() and "audit" not in path.parts and holds(path, secrets):
                yield f"{path.relative_to(settings.home)} still holds what was redacted"


# -- the views


def _views(settings: Settings) -> Iterator[str]:
    """Brought to the head of the log as a server would, then compared with what the log alone gives."""
    bring_to_head(settings.home)
    compared = compare(settings.home, lambda: FilesLog(settings.system))
    yield from (f"{each.where} {each.key}: {each.what} ({each.status})" for each in compared.findings)
    for each in compared.projections:
        if each.behind or each.not_compared not in (None, _NOTHING_YET):
            yield f"{each.name}: {each.not_compared or f'{each.behind} commits behind'}"


_NOTHING_YET = "it has seen nothing of the log yet"


def bring_to_head(home: Path) -> None:
    _, followers = _followed(home)
    for follower in followers:
        _catch_up(follower)
    for follower in followers:
        follower.close()


def views_of(home: Path) -> dict[str, Any]:
    """Every view, brought to the head of the log, in a form that can be compared: what people and agents would see."""
    text, followers = _followed(home)
    for follower in followers:
        _catch_up(follower)
    found = _searched(text)
    for follower in followers:
        follower.close()
    shown = [home / "_system" / "registry.json", home / "_system" / "ontology.yaml"]
    shown += [path for kind in ("nodes", "connections") for path in (home / "_content" / kind).glob("[!.]*")]
    files = {str(path.relative_to(home)): path.read_bytes() for path in shown if path.is_file()}
    return files | {"graph.db": _rows(home / "graph.db"), "the text index": found}


def _followed(home: Path) -> tuple[TextProjection, list[ProjectionWorker]]:
    def open_log() -> FilesLog:
        return FilesLog(home / "_system")

    log = LogReader(open_log)
    text = TextProjection(home, log.line)
    return text, [
        Follower(Place(home, LogReader(open_log))).worker("views"),
        ProjectionWorker(
            LogReader(open_log), SqlProjection(home / "graph.db", home=home), lock=home / "_system" / "sql.lock"
        ),
        ProjectionWorker(log, text, lock=home / "_system" / "text.lock"),
    ]


def _catch_up(follower: ProjectionWorker) -> None:
    """A projection that finds damage says so once, and begins anew at the second try."""
    try:
        follower.catch_up()
    except TallystickError as error:
        if error.code != "PROJECTION_DAMAGED":
            raise
        follower.catch_up()


def _searched(text: TextProjection) -> list[Any]:
    index = TextIndex(text, lambda: True)

    async def search() -> list[Any]:
        plain = [await index.contents(word) for word in ("word", "page", "life")]
        ranked = await index.contents("word", mode="ranked", limit=100_000)
        return [[hit.node_id for hit in found.hits] for found in plain] + [sorted(hit.node_id for hit in ranked.hits)]

    try:
        return asyncio.run(search())
    finally:
        index.close()


def _rows(path: Path) -> dict[str, list[Any]]:
    db = sqlite3.connect(path)
    db.text_factory = bytes
    try:
        tables = [
            row[0].decode() for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        return {
            # Whose it is goes by the directory, and bases are copied.
            table: sorted(repr(row) for row in db.execute(f'SELECT * FROM "{table}"') if row[0] != b"owner")
            for table in tables
            if not table.startswith("sqlite_")
        }
    finally:
        db.close()


# -- stray files

_EXPECTED = re.compile(
    r"""
    tallystick\.toml | graph\.db | policy\.rego
    | _system/(lock | head | backups\.jsonl | registry\.json | ontology\.yaml | views\.db | (views|sql|text)\.lock)
    | _system/(stream(\.\w+){0,2} | stream\.missing/[0-9a-f]{64} | machine(\.lock)? | follow\.[\w-]+(\.lock)?)
    | _system/(sessions/.* | verification\.(json | lock) | report_times | turnstile\.lock)
    | _system/log/\d{20}\.jsonl(\.torn-[\dTZ]+-\d+)?
    | _system/snapshots/\d{20}\.(snapshot | \w+-\d+\.index)
    | _system/audit/(\d{20}\.jsonl | head | lock)
    | _system/text/(text\.db | \w+-\d+\.folded)
    | _content/blobs/[0-9a-f]{64}
    | _content/(nodes|connections)/[^.][^/]*
    """,
    re.VERBOSE,
)

_EXPECTED_AFTER_POWER_CUT = re.compile(
    # The table of the views is not synced with each write, so it may not know a registry that it wrote itself.
    rf"{_EXPECTED.pattern} | _system/(registry\.json | ontology\.yaml)\.rejected-\w+",
    re.VERBOSE,
)


def _strays(home: Path, expected: re.Pattern[str]) -> Iterator[str]:
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if not path.is_dir() and not name.startswith("tenants/") and not expected.fullmatch(name):
            yield f"stray file {name}"
    for path in home.glob("_system/importing-*"):
        yield f"stray directory {path.name}"
