"""The tenants of a base: which there are."""

from __future__ import annotations

import msgspec

from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.operations import OperationContext


def tenants_of(settings: Settings) -> list[str]:
    """Those that have a log, from the directories of the base."""
    others = settings.base / "tenants"
    names = sorted(entry.name for entry in others.iterdir()) if others.is_dir() else []
    each = (msgspec.structs.replace(settings, tenant=name) for name in (DEFAULT_TENANT, *names))
    return [one.tenant for one in each if (one.system / "log").is_dir()]


def contexts_of(context: OperationContext) -> list[OperationContext]:
    """One for each tenant of the base."""
    return [context.for_tenant(name) for name in tenants_of(context.settings)]
