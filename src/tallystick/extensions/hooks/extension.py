"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension, Vocabulary

EXTENSION = Extension(
    name="hooks",
    handlers={"shell completion": "tallystick.extensions.hooks.completion:complete"},
    toolsets={
        "hooks": Vocabulary(
            "tallystick.extensions.hooks.toolset:contributed",
            "what coding agents are told while they work, for the hooks of their clients",
            21,
            is_listed=False,
        )
    },
)
