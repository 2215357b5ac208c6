"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.clients"
EXTENSION = Extension(
    name="clients",
    commands={"init": Command(f"{_HERE}.cli:init", is_first=True)},
    checks=(f"{_HERE}.checks:check_clients",),
)
