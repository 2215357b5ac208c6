"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.cluster"
EXTENSION = Extension(
    name="cluster",
    commands={
        "migrate": Command(f"{_HERE}.cli:migrate"),
    },
    logs=dict.fromkeys(("nats", "tls"), f"{_HERE}.shared_log:STREAMS"),
    checks=(f"{_HERE}.inspection:check_stream",),
    copies=(f"{_HERE}.holder:HOLDER",),
)
