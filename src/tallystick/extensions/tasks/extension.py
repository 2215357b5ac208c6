"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension, Vocabulary

_HERE = "tallystick.extensions.tasks"
EXTENSION = Extension(
    name="tasks",
    toolsets={
        "tasks": Vocabulary(
            f"{_HERE}.toolset:contributed",
            "projects, features and tasks with sections, priorities and blocks, advanced step by step",
            10,
        )
    },
    indexes={
        "tasks": (
            "tallystick.state.work.graph:WorkGraph",
            f"{_HERE}.cards:TaskCards",
            "tallystick.state.work.sections:Sections",
            "tallystick.state.knowledge.catalogue:Knowledge",
            "tallystick.state.ontology:Ontology",
        )
    },
    entity_rules=(f"{_HERE}.rules:RULES",),
    reserved_paths=(f"{_HERE}.settings:reserved_paths",),
)
