"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.why"
EXTENSION = Extension(
    name="why",
    commands={
        "why": Command(f"{_HERE}.cli:why"),
    },
    toolsets={"why": f"{_HERE}.toolset:contributed"},
)
