"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.ontology"
EXTENSION = Extension(
    name="ontology",
    commands={
        "ontology": Command(f"{_HERE}.cli:commands"),
    },
    toolsets={"ontology": f"{_HERE}.toolset:contributed"},
    indexes={"ontology": ("tallystick.state.ontology:Ontology",)},
)
