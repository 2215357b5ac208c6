"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension

_HERE = "tallystick.extensions.vectors"
EXTENSION = Extension(
    name="vectors",
    handlers={"memory.search near": f"{_HERE}.registered:near"},
    projections=(f"{_HERE}.registered:VECTORS",),
    checks=(f"{_HERE}.registered:check_vectors",),
    around_serving=f"{_HERE}.registered:embedding",
)
