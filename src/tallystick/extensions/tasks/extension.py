"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Extension

_HERE = "tallystick.extensions.tasks"
EXTENSION = Extension(
    name="tasks",
    toolsets={"tasks": f"{_HERE}.toolset:contributed"},
    reserved_paths=(f"{_HERE}.settings:reserved_paths",),
)
