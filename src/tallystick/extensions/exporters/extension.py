"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension, Form

_HERE = "tallystick.extensions.exporters"
EXTENSION = Extension(
    name="exporters",
    handlers={"export --as": f"{_HERE}.cli:export_as"},
    forms=(
        Form("okf", "a directory in the Open Knowledge Format 0.2", f"{_HERE}.okf", True),
        Form(
            "vault", "a directory of Markdown notes for Obsidian or basic-memory", f"{_HERE}.vault", is_directory=True
        ),
        Form("server-memory", "memory.jsonl of the MCP reference server", f"{_HERE}.server_memory"),
        Form("graphml", "GraphML, for Gephi, yEd, Cytoscape, networkx or igraph", f"{_HERE}.graphml"),
        Form("mermaid", "a flowchart of one project's work", f"{_HERE}.mermaid", needs_project=True),
    ),
)
