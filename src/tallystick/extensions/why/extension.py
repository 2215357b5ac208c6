"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Command, Extension, Part, Vocabulary

_HERE = "tallystick.extensions.why"
EXTENSION = Extension(
    name="why",
    commands={
        "why": Command(f"{_HERE}.cli:why"),
    },
    parts=(Part(page="/entities/{id:path}", view=f"{_HERE}.page:why", template="why.html"),),
    toolsets={
        "why": Vocabulary(
            f"{_HERE}.toolset:contributed", "which task, evidence and facts are behind a line of code", 20
        )
    },
)
