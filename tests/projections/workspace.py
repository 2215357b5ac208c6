"""A home with a log and its views: commits are made by hand, the files are looked at as a person would."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tallystick.commits import Operation, Verb
from tallystick.extensions.ontology.views import Views
from tallystick.log import Entry
from tallystick.log.files import FilesLog
from tallystick.projections.content import Contents, Kind
from tallystick.projections.log_reader import LogReader
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import draft, entries

DEFINITIONS = (
    Operation(Verb.UPSERT_NODE, {"id": "ontology/ontology", "type": "ontology/ontology", "attrs": {}}),
    *(
        Operation(
            Verb.UPSERT_NODE,
            {"id": f"ontology/node_type/{name}", "type": "ontology/node_type", "attrs": {"name": name}},
        )
        for name in ("Project", "Action")
    ),
    Operation(
        Verb.UPSERT_NODE,
        {
            "id": "ontology/connection_type/NextAction",
            "type": "ontology/connection_type",
            "attrs": {"name": "NextAction", "from_types": ["Project"], "to_types": ["Action"]},
        },
    ),
)


def define_type(name: str) -> Operation:
    attrs = {"name": name}
    return Operation(
        Verb.UPSERT_NODE, {"id": f"ontology/node_type/{name}", "type": "ontology/node_type", "attrs": attrs}
    )


def define_connection(name: str, source: str, target: str, required: list[str] | None = None) -> Operation:
    attrs = {"name": name, "from_types": [source], "to_types": [target], "required_properties": required or []}
    return Operation(
        Verb.UPSERT_NODE,
        {"id": f"ontology/connection_type/{name}", "type": "ontology/connection_type", "attrs": attrs},
    )


def text(words: str, format: str = "markdown") -> dict[str, Any]:
    return {"format": format, "encoding": "utf-8", "text": words}


def memory(node_id: str, kind: str = "Project", content: dict[str, Any] | None = None, /, **attrs: Any) -> Operation:
    payload = {"id": node_id, "type": kind, "attrs": attrs}
    return Operation(Verb.UPSERT_NODE, payload if content is None else {**payload, "content": content})


def connection(
    edge_id: str | None, source: str, rel: str, target: str, content: dict[str, Any] | None = None, /, **attrs: Any
) -> Operation:
    payload = {"from": source, "rel": rel, "to": target, "attrs": attrs}
    payload |= {} if edge_id is None else {"id": edge_id}
    return Operation(Verb.UPSERT_EDGE, payload if content is None else {**payload, "content": content})


def gone(node_id: str) -> Operation:
    return Operation(Verb.DELETE_NODE, {"node_id": node_id})


def cut(edge_id: str, source: str, rel: str, target: str) -> Operation:
    return Operation(Verb.DELETE_EDGE, {"from": source, "rel": rel, "to": target, "id": edge_id})


class Workspace:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = 1_700_000_000_000
        self.log = FilesLog(home / "_system")
        self.contents = Contents(home)
        self.views: Views
        self.follower: ProjectionWorker
        self.begin()

    def begin(self, *, repairs: bool = False) -> None:
        """As a new process would; but however busy the machine is, rewriting the registry is cheap."""
        log = FilesLog(self.home / "_system")
        self.views = Views(self.home, log.line, seconds=lambda: 0.0, repairs=repairs)
        self.follower = ProjectionWorker(LogReader(lambda: log), self.views, lock=self.home / "_system" / "views.lock")

    def restart(self, *, repairs: bool = False) -> None:
        self.follower.close()
        self.begin(repairs=repairs)
        self.follower.catch_up()

    def append(self, *operations: Operation, actor: str = "tester") -> list[Entry]:
        """Committed, but not yet applied to the views."""
        self.now += 1000
        head = self.log.head()
        made = entries(head, draft(*operations, actor=actor), now=self.now)
        self.log.append(made, expected=head)
        return made

    def write(self, *operations: Operation, actor: str = "tester") -> None:
        self.append(*operations, actor=actor)
        self.follower.catch_up()

    def prepared(self, kind: Kind, entity_id: str, words: str) -> dict[str, Any]:
        return self.contents.prepare(kind, entity_id, "markdown", "utf-8", words.encode()).content

    # -- what a person sees

    def path(self, name: str) -> Path:
        return self.home / name

    def read(self, name: str) -> str:
        return self.path(name).read_text("utf-8")

    def registry(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read("_system/registry.json"))
        return found

    def files(self) -> dict[str, str]:
        """Everything a person sees in `_content`, and the two views in `_system`."""
        shown = [path for path in (self.home / "_content").rglob("*") if path.is_file() and path.parent.name != "blobs"]
        shown += [self.home / "_system" / name for name in ("registry.json", "ontology.yaml")]
        return {
            str(path.relative_to(self.home)): sha256(path.read_bytes()).hexdigest() for path in shown if path.exists()
        }

    def close(self) -> None:
        self.follower.close()
        self.log.close()
