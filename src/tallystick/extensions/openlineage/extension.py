"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.openlineage"
EXTENSION = Extension(
    name="openlineage",
    commands={
        "emit": Command(f"{_HERE}.cli:emit"),
    },
    handlers={"memory.lineage openlineage_v1": f"{_HERE}.lineage_form:FORM"},
    projections=(f"{_HERE}.registered:LINEAGE",),
    checks=(f"{_HERE}.registered:check_lineage",),
)
