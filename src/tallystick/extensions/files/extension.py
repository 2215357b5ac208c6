"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Extension

EXTENSION = Extension(
    name="files",
    toolsets={"files": "tallystick.extensions.files.toolset:contributed"},
    indexes={"files": ("tallystick.state.ontology:Ontology",)},
)
