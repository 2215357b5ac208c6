"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.openlineage"
EXTENSION = Extension(
    name="openlineage",
    commands={
        "emit": Command(f"{_HERE}.cli:emit"),
    },
)
