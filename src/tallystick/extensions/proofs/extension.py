"""The contributions of this extension."""

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
    handlers={"verify --proof": f"{_HERE}.cli.proofs:check"},
    checks=(f"{_HERE}.checks:check_checkpoint",),
    proofs=f"{_HERE}.provider:PROOFS",
    routes=(f"{_HERE}.routes.tlog:routes", f"{_HERE}.routes.proofs:routes"),
    open_paths=f"{_HERE}.routes.tlog:open_paths",
    projections=(f"{_HERE}.signing:TILES",),
)
