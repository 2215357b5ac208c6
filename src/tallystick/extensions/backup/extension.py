"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.backup"
EXTENSION = Extension(
    name="backup",
    commands={
        "restore": Command(f"{_HERE}.cli:restore"),
        "follow": Command(f"{_HERE}.cli:follow"),
        "promote": Command(f"{_HERE}.cli:promote"),
        "backup": Command(f"{_HERE}.cli:commands"),
    },
)
