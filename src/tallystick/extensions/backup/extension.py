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
    handlers={
        "export --encrypt": f"{_HERE}.sealed_file:sealing",
        "import --key": f"{_HERE}.sealed_file:unsealed",
    },
    checks=(f"{_HERE}.checks:check_backups", f"{_HERE}.checks:check_key"),
    copies=(f"{_HERE}.status:HOLDER",),
    gauges=(f"{_HERE}.status:gauges",),
    around_serving=f"{_HERE}.schedule:backing_up",
)
