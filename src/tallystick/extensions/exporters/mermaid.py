"""A plan as a Mermaid flowchart: the work of one project with its states, claims and dependencies.

Lines without a point lead from a task to its parts, arrows from what comes first to what waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from tallystick.extensions.exporters import Entity, Graph, Losses, one_line
from tallystick.extensions.exporters.markdown import to_yaml
from tallystick.state.work import DEPENDS_ON, NODE, PROJECT
from tallystick.state.work.attributes import read
from tallystick.telemetry.logs import printable

LABEL_CHARACTERS_MAX = 120
TEXT_CHARACTERS_MAX = 50_000
EDGES_MAX = 500
"""What Mermaid draws unless it is configured otherwise."""
_SPECIAL = re.compile(r"[^\w\s,:/.-]|_|^[.-]|(?<=\d)\.|(?<=\s)-")
_STYLES = {
    "ready": "fill:#fff,stroke:#2a6",
    "waiting": "fill:#eee,stroke:#999",
    "claimed": "fill:#ffd,stroke:#c90",
    "done": "fill:#dfd,stroke:#494",
    "dropped": "fill:#f4f4f4,stroke:#bbb,stroke-dasharray:4",
    "recalled": "stroke:#c00,stroke-width:3px",
}


class _Row(msgspec.Struct):
    name: str
    """In the chart: what agents chose as an id may mean something to Mermaid."""
    summary: str
    parent: str | None
    owner: str | None
    is_resolved: bool
    is_dropped: bool
    blocks: bool
    depends_on: list[str]
    is_recalled: bool
    has_open_parts: bool = False


def open_writer(graph: Graph, output: BinaryIO, losses: Losses) -> _Writer:
    losses.note_always("evidence and properties", "a chart has no place for them")
    return _Writer(graph, output, losses)


class _Writer:
    def __init__(self, graph: Graph, output: BinaryIO, losses: Losses) -> None:
        self._graph = graph
        self._output = output
        self._losses = losses
        self._rows: dict[str, _Row] = {}

    def add(self, entity: Entity) -> None:
        if entity.type != NODE:
            if entity.type != PROJECT:
                self._losses.note("entity", "it is no work of the plan", entity.id)
            return
        said = read(entity.attrs)
        for link in entity.links:
            if link.rel != DEPENDS_ON:
                self._losses.note("edge", "it is no dependency", link.id)
        depends_on = [link.target for link in entity.links if link.rel == DEPENDS_ON]
        if len(entity.title) > LABEL_CHARACTERS_MAX:
            self._losses.note("summary", f"cut after {LABEL_CHARACTERS_MAX} characters", entity.id)
        self._rows[entity.id] = _Row(
            f"n{len(self._rows) + 1}",
            one_line(entity.title, LABEL_CHARACTERS_MAX),
            said.parent,
            said.owner,
            said.resolved,
            said.dropped,
            said.blocks,
            depends_on,
            entity.untrusted is not None,
        )

    def finish(self) -> None:
        for row in self._rows.values():
            if row.parent in self._rows and not row.is_resolved:
                self._rows[row.parent].has_open_parts = True
        lines = list(self._lines())
        edges = sum(1 for line in lines if " --> " in line or " --- " in line)
        text = "".join(f"{line}\n" for line in lines)
        if len(text) > TEXT_CHARACTERS_MAX:
            self._losses.note_always("size", "Mermaid draws it only with a larger maxTextSize")
        if edges > EDGES_MAX:
            self._losses.note_always("edges", "Mermaid draws so many only with a larger maxEdges")
        self._output.write(text.encode())

    def _lines(self) -> Iterator[str]:
        # Mermaid looks for directives everywhere, in a title too.
        title = printable(one_line(self._graph.project or "")).replace("%%", "% %")
        yield f"---\n{to_yaml({'title': title})}---"
        yield "flowchart TD"
        states = {entity_id: self._state(row) for entity_id, row in self._rows.items()}
        for entity_id, row in self._rows.items():
            yield f'  {row.name}["{_label(row, states[entity_id])}"]:::{states[entity_id]}'
        for row in self._rows.values():
            if row.parent in self._rows:
                yield f"  {self._rows[row.parent].name} --- {row.name}"
        for row in self._rows.values():
            for target in row.depends_on:
                if target in self._rows:
                    yield f"  {self._rows[target].name} --> {row.name}"
        recalled = [row.name for row in self._rows.values() if row.is_recalled]
        if recalled:
            yield f"  class {','.join(recalled)} recalled"
        for name, style in _STYLES.items():
            if name in states.values() or (name == "recalled" and recalled):
                yield f"  classDef {name} {style}"

    def _state(self, row: _Row) -> str:
        if row.is_resolved:
            return "dropped" if row.is_dropped else "done"
        waits = any(self._rows[each].blocks for each in row.depends_on if each in self._rows)
        if waits or row.has_open_parts:
            return "waiting"
        return "claimed" if row.owner is not None else "ready"


def _label(row: _Row, state: str) -> str:
    marks = [state]
    if row.owner is not None and not row.is_resolved:
        marks = [*(() if state == "claimed" else marks), f"claimed by {_escaped(row.owner)}"]
    marks += ["recalled"] if row.is_recalled else []
    return f"{_escaped(row.summary)}<br/>({', '.join(marks)})"


def _escaped(text: str) -> str:
    """In Mermaid's own codes, which it shows as the characters: nothing in a text is syntax, Markdown or HTML."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", printable(one_line(text)))
