"""The contributions of this extension."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from tallystick.extension import Command, Extension

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.app.context import AppContext
    from tallystick.config import Settings
    from tallystick.telemetry.metrics import Gauge, Reading


# Most servers make no backups: these import nothing then.


def around_serving(context: AppContext) -> AbstractAsyncContextManager[None]:
    if not context.settings.backup_to:
        return nullcontext()
    from tallystick.extensions.backup.schedule import backing_up

    return backing_up(context.settings)


def gauges(settings: Settings) -> Mapping[Gauge, Reading]:
    if not settings.backup_to:
        return {}
    from tallystick.extensions.backup.status import readings

    return readings(settings)


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
    gauges=(f"{_HERE}.extension:gauges",),
    around_serving=f"{_HERE}.extension:around_serving",
)
