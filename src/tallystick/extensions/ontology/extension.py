"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Command, Extension, Vocabulary

_HERE = "tallystick.extensions.ontology"
EXTENSION = Extension(
    name="ontology",
    commands={
        "ontology": Command(f"{_HERE}.cli:commands"),
    },
    checks=(f"{_HERE}.checks:check_views",),
    toolsets={
        "ontology": Vocabulary(
            f"{_HERE}.toolset:contributed",
            "typed memories and connections under an ontology that you define, with content that people can open as"
            " files",
            11,
        )
    },
    indexes={"ontology": ("tallystick.state.ontology:Ontology",)},
    projections=(f"{_HERE}.file_edits:VIEWS",),
    around_serving=f"{_HERE}.file_edits:adopting",
)
