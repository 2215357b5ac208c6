"""The views: the memory as files that a person can open.

`_system/registry.json`, `_system/ontology.yaml`, `_content/nodes/*` and
`_content/connections/*` show the nodes whose types the ontology names, and the connections
between them. Nothing reads them but people: the log alone is the truth, and all of them may
be deleted. `table` is what was applied, `content_files` the content files, `published` the two files
that are rewritten whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec
import orjson

from tallystick.clock import Clock, wall_clock
from tallystick.commits import FILE_EDIT, Commit, Verb, chain
from tallystick.commits.mask import REDACTED
from tallystick.commits.payloads import EdgePayload, NodePayload, read_edge, read_extent, read_node, read_target
from tallystick.extensions.ontology.views import ontology
from tallystick.extensions.ontology.views.content_files import MASKED, ContentFiles, Edit
from tallystick.extensions.ontology.views.published import Published
from tallystick.extensions.ontology.views.views_db import ConnectionRow, FileRow, ViewsDb, prepare
from tallystick.log import Entry, Head
from tallystick.projections.content import Contents, Kind, is_blob, path_of
from tallystick.projections.database import Damaged, Database, Reader

T = TypeVar("T")

CHEAP_SECONDS = 0.020
"""A registry that is rewritten within this is rewritten before the answer."""
PAUSE_SECONDS = 1.0
"""Between two rewrites of one that is not."""
_ERASING = "erasing"
_REDACTED, _DELETED = "yes", "deleted"
"""Why copies have to go: the first is waited for."""
POSITION = "SELECT value FROM note WHERE key = 'position'"
ERASING = f"SELECT 1 FROM note WHERE key = '{_ERASING}' AND value != 'no'"


def database_path(home: Path) -> Path:
    return home / "_system" / "views.db"


class Problem(msgspec.Struct, frozen=True):
    path: str
    problem: str


class Views:
    """`line` gives a stored line of the log by its offset. `repairs`: content files that people edited are put right
    at the start, and what they wrote is kept beside; otherwise it waits to be adopted."""

    name = "views"

    def __init__(
        self,
        home: Path,
        line: Callable[[int], bytes],
        *,
        clock: Clock = wall_clock,
        seconds: Callable[[], float] = time.monotonic,
        repairs: bool = False,
    ) -> None:
        self._line = line
        self._seconds = seconds
        self._database = Database(database_path(home), prepare)
        self._table = ViewsDb(self._database)
        contents = Contents(home)
        self._content_files = ContentFiles(self._table, contents, line, clock, repairs=repairs)
        self._registry = Published("registry.json", self._table, contents.files, clock)
        self._ontology = Published("ontology.yaml", self._table, contents.files, clock)
        self._known = ontology.OntologyDocument()
        self._strangers: set[str] = set()
        # Where the two above come from; None when they have to be loaded again.
        self._at: Head | None = None
        self._checked = False
        self._cheap = True
        self._rewritten_at = float("-inf")
        self._reader = Reader(self._database.path)
        self._reading = threading.Lock()

    # -- the contract

    def position(self) -> Head:
        if self._table.ready():
            self._checked, self._at = False, None
        at = self._table.position()
        if at != self._at:
            # Another process was here since.
            self._known = ontology.OntologyDocument(self._table.definitions())
            self._strangers = self._table.strangers()
            self._at = at
        return at

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        self._at = None
        try:
            with self._table.changed():
                seen = [_APPLY[entry.commit.operation](self, entry) for entry in entries]
                if any(seen):
                    self._table.touch()
                self._table.move(head)
            self._at = head
        except _BeginAgain:
            with self._table.changed():
                self._table.clear(keep_definitions=True)
                for kind in self._learnt(entries):
                    self._table.define(*kind)

    def reset(self) -> None:
        self._table.ready()
        with self._table.changed():
            self._table.clear(keep_definitions=False)

    def settle(self, *, final: bool = False) -> float | None:
        if not self._checked or self._table.has_due():
            with self._table.changed():
                if not self._checked:
                    self._content_files.check()
                self._content_files.settle()
        again = self._publish(final=final)
        self._checked = True
        rest = 0.0 if final or self._is_erasing() else self._database.rest_seconds
        if self._table.note(_ERASING) in (_DELETED, _REDACTED) and (rest or not self.erase()):
            again = min(again or PAUSE_SECONDS, rest or PAUSE_SECONDS)
        return again

    def erase(self) -> bool:
        """Leave nothing in content files, in blobs, in files kept beside, or in what the database deleted."""
        if self._table.note(_ERASING) not in (_DELETED, _REDACTED):
            return True
        if self._table.has_due() or not self._is_published():
            return False
        with self._database.paced():
            self._registry.erase_rejected()
            if not self._database.scrub():
                return False
        with self._table.changed():
            self._table.set_note(_ERASING, "no")
        return True

    def close(self) -> None:
        self._database.close()
        with self._reading:
            self._reader.close()

    # -- for people and for adoption

    def problems(self) -> list[Problem]:
        """Files that could not be written or removed, and edits that were not adopted. From any thread."""
        found = self._look(lambda table: table.problems())
        return [Problem(path, problem) for path, problem in found or ()]

    def entity_at(self, path: str) -> tuple[Kind, str] | None:
        """Whose content this file is; from any thread."""
        row = self._look(lambda table: table.file_at(path))
        if row is None or row.due == "remove":
            return None
        return ("nodes" if row.kind == "nodes" else "connections"), row.id

    def looks_edited(self, kind: Kind, entity_id: str) -> bool:
        """A quick look at one file, from any thread: whether `edits` should have a closer one."""
        row = self._look(lambda table: table.file_of(kind, entity_id))
        return row is not None and self._content_files.looks_edited(row)

    def _look(self, ask: Callable[[ViewsDb], T]) -> T | None:
        """None while there is nothing to look at."""
        with self._reading:
            if not self._database.path.exists():
                return None
            try:
                with self._reader.snapshot() as connection:
                    return ask(ViewsDb(connection))
            except Damaged:
                return None

    def edits(self, only: tuple[Kind, str] | None = None) -> list[Edit]:
        """What people wrote into content files. The caller has the turn, as for `apply`, and the views are settled."""
        with self._table.changed():
            if only is None:
                return self._content_files.edits()
            found = self._content_files.edit_of(*only)
            return [] if found is None else [found]

    def report(self, edit: Edit, problem: str) -> None:
        """Unless it is not there any more. The caller has the turn."""
        row = self._table.file_at(edit.path)
        if row is not None and self._content_files.looks_edited(row):
            with self._table.changed():
                self._table.set_problem(edit.path, problem)

    # -- publishing

    def _publish(self, *, final: bool) -> float | None:
        if not self._known.exists:
            return None
        generation = self._table.generation
        written = self._publish_ontology()
        if self._registry.is_current(generation) and (self._checked or self._registry.is_sound()):
            return None if written else PAUSE_SECONDS
        waited = self._seconds() - self._rewritten_at
        if not (self._cheap or final or self._is_erasing()) and waited < PAUSE_SECONDS:
            return PAUSE_SECONDS - waited
        started = self._seconds()
        written &= self._registry.write(self._table.registry(), generation)
        self._rewritten_at = self._seconds()
        self._cheap = self._rewritten_at - started <= CHEAP_SECONDS
        return None if written else PAUSE_SECONDS

    def _is_published(self) -> bool:
        return not self._known.exists or self._registry.is_current(self._table.generation)

    def _publish_ontology(self) -> bool:
        data = ontology.to_yaml(self._known)
        version = crc32(data)
        if self._ontology.is_current(version) and (self._checked or self._ontology.is_sound()):
            return True
        return self._ontology.write(data, version)

    def _is_erasing(self) -> bool:
        return self._table.note(_ERASING) == _REDACTED

    def _begin_scrubbing(self) -> None:
        if not self._is_erasing():
            self._table.set_note(_ERASING, _DELETED)

    # -- applying; each returns whether readers can see a difference

    def _upsert_node(self, entry: Entry) -> bool:
        document = read_node(entry.commit.payload)
        if document.type in ontology.DEFINITIONS:
            return self._define(document)
        if document.type not in self._known.node_types:
            self._pass_over(f"type {document.type}")
            return self._leave(document.id)
        entered = self._table.node(document.id) is None
        self._show_node(document, entry.commit, entry.offset, origin=_origin(entry.commit))
        if entered:
            self._show_connections(document.id)
        return True

    def _define(self, document: NodePayload) -> bool:
        what = "type" if document.type == ontology.NODE_TYPE else "rel"
        if f"{what} {document.attrs.get('name')}" in self._strangers:
            raise _BeginAgain
        self._table.define(document.id, document.type, document.attrs)
        self._known.learn(document.type, document.attrs)
        return True

    def _show_node(self, document: NodePayload, commit: Commit, offset: int, *, origin: str) -> None:
        known = self._table.node(document.id)
        created = known[0] if known else commit.timestamp
        self._table.put_node(
            document.id,
            created,
            commit.lamport if origin != "erased" or known is None else known[1],
            offset,
            _fragment(
                document.id,
                {
                    "id": document.id,
                    "type": document.type,
                    "created": created,
                    "modified": commit.timestamp,
                    "properties": document.attrs,
                    **self._shown_content("nodes", document.id, document.content, offset, origin),
                },
            ),
        )

    def _delete_node(self, entry: Entry) -> bool:
        return self._leave(read_target(entry.commit.payload).node_id)

    def _leave(self, node_id: str) -> bool:
        """It is gone, or of a type that is not shown."""
        if not self._known.node_types or self._table.node(node_id) is None:
            return False
        for row in self._table.connections_of(node_id):
            # Only when its type changed: a deleted node has no edges left.
            self._table.put_connection(msgspec.structs.replace(row, fragment=None))
            self._put_away("connections", row.id)
        self._table.drop_node(node_id)
        self._put_away("nodes", node_id)
        self._begin_scrubbing()
        return True

    def _redact_node(self, entry: Entry) -> bool:
        node_id = read_target(entry.commit.payload).node_id
        self._begin_erasing(entry.commit, "nodes", node_id)
        known = self._table.node(node_id)
        if known is None:
            return False
        document = read_node(self._masked(entry.commit, known[2]))
        self._show_node(document, entry.commit, known[2], origin="erased")
        return True

    def _upsert_edge(self, entry: Entry) -> bool:
        document, commit = read_edge(entry.commit.payload), entry.commit
        if document.rel not in self._known.connection_types:
            self._pass_over(f"rel {document.rel}")
            return self._drop_connection(document.name)
        known = self._table.connection(document.name)
        created = known.created if known else commit.timestamp
        self._table.put_connection(
            ConnectionRow(
                document.name, created, commit.timestamp, document.source, document.target, entry.offset, None
            )
        )
        return self._show_connection(document, _origin(commit)) or bool(known and known.fragment)

    def _show_connections(self, node_id: str) -> None:
        """Of a node that is shown from now on."""
        for row in self._table.connections_of(node_id):
            self._show_connection(read_edge(chain.payload_of(self._line(row.offset))), "")

    def _show_connection(self, document: EdgePayload, origin: str) -> bool:
        row = self._table.connection(document.name)
        if row is None or self._table.node(row.source) is None or self._table.node(row.target) is None:
            self._put_away("connections", document.name)
            return False
        shown = {
            "id": row.id,
            "type": document.rel,
            "from": row.source,
            "to": row.target,
            "created": row.created,
            "modified": row.modified,
            "properties": document.attrs,
            **self._shown_content("connections", row.id, document.content, row.offset, origin),
        }
        self._table.put_connection(msgspec.structs.replace(row, fragment=_fragment(row.id, shown)))
        return True

    def _delete_edge(self, entry: Entry) -> bool:
        return self._drop_connection(read_edge(entry.commit.payload).name)

    def _redact_edge(self, entry: Entry) -> bool:
        edge_id = read_edge(entry.commit.payload).name
        self._begin_erasing(entry.commit, "connections", edge_id)
        known = self._table.connection(edge_id)
        if known is None:
            return False
        document = read_edge(self._masked(entry.commit, known.offset))
        self._table.put_connection(msgspec.structs.replace(known, modified=entry.commit.timestamp))
        return self._show_connection(document, "erased")

    def _drop_connection(self, connection_id: str) -> bool:
        if self._table.connection(connection_id) is None:
            return False
        self._table.drop_connection(connection_id)
        self._put_away("connections", connection_id)
        self._begin_scrubbing()
        return True

    # -- contents

    def _shown_content(
        self, kind: Kind, entity_id: str, content: dict[str, Any] | None, offset: int, origin: str
    ) -> dict[str, Any]:
        if content is None:
            self._put_away(kind, entity_id)
            return {}
        meant = _content(content)
        path = self._set_file(kind, entity_id, meant, offset, origin)
        return {"content": {"path": path, "format": meant.format, "encoding": meant.encoding}}

    def _set_file(self, kind: Kind, entity_id: str, meant: Content, offset: int, origin: str) -> str:
        table = self._table
        old = table.file_of(kind, entity_id)
        same = old is not None and (old.digest, old.encoding) == (meant.digest, meant.encoding)
        # Masked contents all look alike: a replay must not take two of them for one, and stay where the first was.
        same = same and meant.digest != MASKED
        # A new format alone moves nothing: the file gets its new ending when its content is rewritten.
        path = old.path if old and same else self._free_path(kind, entity_id, meant)
        if old is not None and old.path != path:
            table.put_file(msgspec.structs.replace(old, due="remove", origin=origin if origin == "erased" else ""))
        there = old if old is not None and old.path == path else table.file_at(path)
        table.put_file(
            FileRow(
                path=path,
                kind=kind,
                id=entity_id,
                offset=offset,
                digest=meant.digest,
                encoding=meant.encoding,
                origin=origin,
                due=there.due if there and same else "write",
                size=there.size if there else None,
                mtime_ns=there.mtime_ns if there else None,
                problem=there.problem if there and same else None,
            )
        )
        if origin != "erased":
            table.add_version(kind, entity_id, meant.digest, blob=meant.blob is not None)
        return path

    def _free_path(self, kind: Kind, entity_id: str, meant: Content) -> str:
        """Where a file system does not tell `Ada` from `ada`, one would be taken for an edit of the other: who comes
        second gets a name of its own, on every file system, so that the log alone says which."""
        path = path_of(kind, entity_id, meant.format, meant.encoding)
        if self._table.is_taken(path, kind, entity_id):
            return path_of(kind, entity_id, meant.format, meant.encoding, in_any_case=True)
        return path

    def _put_away(self, kind: Kind, entity_id: str) -> None:
        row = self._table.file_of(kind, entity_id)
        if row is not None:
            self._table.put_file(msgspec.structs.replace(row, due="remove", origin=""))

    def _begin_erasing(self, redaction: Commit, kind: Kind, entity_id: str) -> None:
        self._table.set_note(_ERASING, _REDACTED)
        if read_extent(redaction.payload).takes_content:
            self._table.forget_versions(kind, entity_id)
            self._erase_put_away(kind, entity_id)

    def _erase_put_away(self, kind: Kind, entity_id: str) -> None:
        """A file that waits for its removal goes without being looked at."""
        for row in self._table.files_due():
            if (row.kind, row.id) == (kind, entity_id):
                self._table.put_file(msgspec.structs.replace(row, origin="erased"))

    def _masked(self, redaction: Commit, offset: int) -> bytes:
        """What the redaction left of a payload, whether or not the log has been masked yet."""
        line = self._line(offset)
        left = chain.redacted_payload(line, read_extent(redaction.payload).redacted_fields)
        return chain.payload_of(line) if left is None else left

    # -- what is passed over

    def _pass_over(self, name: str) -> None:
        if name not in self._strangers:
            self._strangers.add(name)
            self._table.add_stranger(name)

    def _learnt(self, entries: Sequence[Entry]) -> list[tuple[str, str, dict[str, Any]]]:
        documents = [read_node(entry.commit.payload) for entry in entries if entry.commit.operation is Verb.UPSERT_NODE]
        return [(each.id, each.type, each.attrs) for each in documents if each.type in ontology.DEFINITIONS]


class _BeginAgain(Exception):
    """Something that was passed over belongs to the views after all: only a replay finds it."""


def _origin(commit: Commit) -> str:
    return "edit" if commit.actor == FILE_EDIT else ""


class Content(msgspec.Struct, frozen=True):
    """What a payload's `content` says, in the terms of a file."""

    format: str
    encoding: str
    digest: str
    """SHA-256 of the bytes that the file should hold."""
    blob: str | None


def _content(content: dict[str, Any]) -> Content:
    blob = content.get("blob")
    kept = blob if isinstance(blob, str) and is_blob(blob) else None
    digest = kept or sha256(str(content.get("text", REDACTED)).encode()).hexdigest()
    return Content(str(content.get("format", "")), str(content.get("encoding", "utf-8")), digest, kept)


def _fragment(entity_id: str, entity: dict[str, Any]) -> str:
    return f"    {orjson.dumps(entity_id).decode()}: {orjson.dumps(entity).decode()}"


_APPLY: dict[Verb, Callable[[Views, Entry], bool]] = {
    Verb.UPSERT_NODE: Views._upsert_node,
    Verb.DELETE_NODE: Views._delete_node,
    Verb.REDACT_NODE: Views._redact_node,
    Verb.UPSERT_EDGE: Views._upsert_edge,
    Verb.DELETE_EDGE: Views._delete_edge,
    Verb.REDACT_EDGE: Views._redact_edge,
}
