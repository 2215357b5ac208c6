"""The registry: every form that can be exported to besides our own. A new one is added here, and nowhere else."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import cast

import msgspec

from tallystick.errors import NotFound
from tallystick.exporters import DirectoryExporter, FileExporter


class Form(msgspec.Struct, frozen=True):
    name: str
    writes: str
    module: str
    is_directory: bool = False
    needs_project: bool = False


_HERE = "tallystick.exporters"
FORMS = (
    Form("okf", "a directory in the Open Knowledge Format 0.2", f"{_HERE}.okf", is_directory=True),
    Form("vault", "a directory of Markdown notes for Obsidian or basic-memory", f"{_HERE}.vault", is_directory=True),
    Form("server-memory", "memory.jsonl of the MCP reference server", f"{_HERE}.server_memory"),
    Form("graphml", "GraphML, for Gephi, yEd, Cytoscape, networkx or igraph", f"{_HERE}.graphml"),
    Form("mermaid", "a flowchart of one project's work", f"{_HERE}.mermaid", needs_project=True),
)


def find(name: str) -> Form:
    """Raises NotFound, naming those that are called alike."""
    for form in FORMS:
        if form.name == name:
            return form
    known = [form.name for form in FORMS]
    near = " or ".join(f"'{each}'" for each in get_close_matches(name.lower(), known, cutoff=0.5))
    raise NotFound(
        f"there is no form '{name}' to export to",
        code="NO_EXPORTER",
        hint=f"did you mean {near}?" if near else f"there are {', '.join(known)}",
    )


def file_exporter(form: Form) -> FileExporter:
    return cast(FileExporter, import_module(form.module))


def directory_exporter(form: Form) -> DirectoryExporter:
    return cast(DirectoryExporter, import_module(form.module))
