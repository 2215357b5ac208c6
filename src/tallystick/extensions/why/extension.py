"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Command, Extension, Vocabulary

_HERE = "tallystick.extensions.why"
EXTENSION = Extension(
    name="why",
    commands={
        "why": Command(f"{_HERE}.cli:why"),
    },
    toolsets={
        "why": Vocabulary(
            f"{_HERE}.toolset:contributed", "which task, evidence and facts are behind a line of code", 20
        )
    },
)
