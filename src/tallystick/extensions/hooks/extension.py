"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Extension

EXTENSION = Extension(
    name="hooks",
    toolsets={"hooks": "tallystick.extensions.hooks.toolset:contributed"},
)
