"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.cypher"
EXTENSION = Extension(
    name="cypher",
    commands={
        "cypher": Command(f"{_HERE}.cli:cypher"),
    },
    handlers={"memory.search walks": f"{_HERE}.registered:walks"},
    projections=(f"{_HERE}.registered:CYPHER",),
)
