"""What this extension contributes."""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.proofs"
EXTENSION = Extension(
    name="proofs",
    commands={
        "prove": Command(f"{_HERE}.cli.proofs:prove"),
        "checkpoint": Command(f"{_HERE}.cli.checkpoint:checkpoint"),
        "witness": Command(f"{_HERE}.cli.witness:witness"),
        "keys": Command(f"{_HERE}.cli.checkpoint:commands"),
        "receipt": Command(f"{_HERE}.cli.receipt:commands"),
    },
)
