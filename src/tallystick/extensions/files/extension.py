"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension, Vocabulary

EXTENSION = Extension(
    name="files",
    toolsets={
        "files": Vocabulary(
            "tallystick.extensions.files.toolset:contributed",
            "plain text files in the base directory, and the content files of typed memories, edited as text",
            12,
        )
    },
    indexes={"files": ("tallystick.state.ontology:Ontology",)},
)
